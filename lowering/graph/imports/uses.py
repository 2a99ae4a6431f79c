"""Who writes and who reads the names of a module: what patterns over `graph.op` are matched with.

Readers of foreign models write each temporary once (`compiler/importers/graph_writer.py`), so the op that
wrote a name says what it holds wherever it is read. What is written more often, such as a value that a loop
carries, has no definition here, and no pattern sees through it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Attribute, Operation

from openinfer.dialects import opset
from openinfer.dialects.graph import (
    AssignOp,
    AwaitOp,
    BlockOp,
    CacheStepOp,
    LiteralAttr,
    NameAttr,
    OpOp,
    RefAttr,
    ReturnOp,
    SizeAttr,
    SliceAttr,
    VariableOp,
    YieldOp,
)
from openinfer.dialects.graph.syntax import GraphOp
from openinfer.dialects.ops.base import NameRef, OpSpec, TensorSpec
from openinfer.lowering.graph.imports.tensors import FOLD_LIMIT, small
from openinfer.lowering.graph.settings import python_value
from openinfer.runtime.dtypes import ALIASES, DTYPES
from openinfer.runtime.sizes import Size

Array = np.ndarray[Any, Any]
NAMING = (ReturnOp, YieldOp, AwaitOp, CacheStepOp)
"""Ops that name variables by themselves, without a use that could be another one."""


WRITTEN = ("outputs", "target")
"""The properties of graph ops that hold what is written."""


def mentioned(op: Operation) -> Iterator[str]:
    """The names that an op reads, in operands, places, sizes and settings; not what its body reads."""
    if isinstance(op, NAMING):
        yield from (ref.variable.data for ref in op.reads())
    for key, value in op.properties.items():
        yield from _names_in(value, key in WRITTEN)


def _names_in(value: Attribute, written: bool = False) -> Iterator[str]:
    match value:
        case RefAttr():
            if not written:
                yield value.variable.data
            for slot in value.indices:
                yield from _names_in(slot)
        case SizeAttr():
            yield from value.data.names
        case SliceAttr():
            yield from _names_in(value.start)
            yield from _names_in(value.stop)
        case NameAttr():
            yield value.data
        case ArrayAttr():
            for item in value:
                yield from _names_in(item, written)
        case DictionaryAttr():
            for item in value.data.values():
                yield from _names_in(item)
        case _:
            return


class Uses:
    """Definitions, readers and types of the names of a module. Whoever changes the module says so (`add`,
    `remove`), or makes a new one."""

    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self.variables: dict[str, VariableOp] = {}
        self.temporaries: dict[str, list[AssignOp]] = defaultdict(list)
        self.writers: dict[str, list[Operation]] = defaultdict(list)
        self.readers: dict[str, list[Operation]] = defaultdict(list)
        """An op that reads a name twice stands here twice."""
        for op in module.walk():
            self.add(op)

    # Upkeep

    def add(self, op: Operation) -> None:
        """An op that came into the module."""
        if isinstance(op, VariableOp):
            self.variables[op.variable.data] = op
        elif isinstance(op, AssignOp):
            self.temporaries[op.variable.data].append(op)
        elif isinstance(op, GraphOp):
            for ref in op.writes():
                self.writers[ref.variable.data].append(op)
        for name in mentioned(op):
            self.readers[name].append(op)

    def remove(self, op: Operation) -> None:
        """An op that leaves the module."""
        if isinstance(op, VariableOp):
            self.variables.pop(op.variable.data, None)
        elif isinstance(op, AssignOp):
            self.temporaries[op.variable.data].remove(op)
        elif isinstance(op, GraphOp):
            for ref in op.writes():
                self.writers[ref.variable.data].remove(op)
        for name in mentioned(op):
            self.readers[name].remove(op)

    # Questions

    def ops(self) -> Iterator[OpOp]:
        """All ops of the registry that blocks hold, in program order; the module may change on the way."""
        found = [op for op in self.module.walk() if isinstance(op, OpOp)]
        return (op for op in found if op.parent is not None)

    def blocks(self) -> Iterator[BlockOp]:
        return (op for op in self.module.body.ops if isinstance(op, BlockOp))

    def stable(self, operand: Attribute) -> bool:
        """Whether an operand means the same everywhere: a number, what nobody writes, or what is written
        once."""
        if isinstance(operand, LiteralAttr):
            return True
        if not isinstance(operand, RefAttr):
            return False
        name = operand.variable.data
        if name in self.variables:
            memory = self.variables[name].memory.data
            return memory in ("constant", "dynamic") and not self.writers[name]
        return len(self.writers[name]) == 1 and len(self.temporaries[name]) == 1

    def definition(self, operand: Attribute, *names: str) -> OpOp | None:
        """The op that gave an operand the only value it ever has; of the op `names`, where given."""
        if not isinstance(operand, RefAttr) or operand.indices.data or not self.stable(operand):
            return None
        writers = self.writers[operand.variable.data]
        if len(writers) != 1 or not isinstance(writers[0], OpOp):
            return None
        found = writers[0]
        return found if not names or kind(found) in names else None

    def spec(self, operand: Attribute) -> TensorSpec | None:
        """Dtype and dimensions of the use of a variable, None for a number or what is not declared once."""
        if not isinstance(operand, RefAttr):
            return None
        name = operand.variable.data
        declared = self.variables.get(name)
        if declared is None:
            several = self.temporaries[name]
            if len(several) != 1:
                return None
            dtype, dims = several[0].dtype.data, several[0].sizes
        else:
            dtype, dims = declared.dtype.data, declared.sizes
        return TensorSpec(ALIASES.get(dtype, dtype), dims, operand.text)

    def dims(self, operand: Attribute) -> tuple[Size, ...] | None:
        spec = self.spec(operand)
        return None if spec is None else spec.dims

    def read_once(self, operand: Attribute) -> bool:
        """Whether one op reads the value, once."""
        return isinstance(operand, RefAttr) and len(self.readers[operand.variable.data]) == 1

    def content(self, operand: Attribute) -> Array | None:
        """The elements of a small constant, or of a number as it stands; else None."""
        if isinstance(operand, LiteralAttr):
            return np.asarray(operand.number)
        if not isinstance(operand, RefAttr) or operand.indices.data:
            return None
        variable = self.variables.get(operand.variable.data)
        if variable is None or variable.memory.data != "constant" or not self.stable(operand):
            return None
        if (ref := variable.option("ref")) is not None:
            return small(ref.data) if isinstance(ref, StringAttr) else None
        init, shape = variable.option("init"), [dim.constant for dim in variable.sizes]
        row = DTYPES.get(ALIASES.get(variable.dtype.data, variable.dtype.data))
        if not isinstance(init, FloatAttr | IntegerAttr) or row is None:
            return None
        known = [number for number in shape if number is not None]
        if len(known) != len(shape) or int(np.prod(known)) * 8 > FOLD_LIMIT:
            return None
        return np.full(known, init.value.data, row.value)

    def number(self, operand: Attribute) -> float | int | bool | None:
        """The number that an operand is in all its places, if it is one."""
        found = self.content(operand)
        if found is None or not found.size:
            return None
        if found.dtype == np.dtype(object) or found.dtype.kind not in "biuf":
            return None
        first = found.reshape(-1)[0]
        return first.item() if bool((found == first).all()) else None


def kind(op: OpOp) -> str:
    """The op's own name, whatever alias it was written with."""
    spec = opset.find(op.op_name.data)
    return spec.name if spec is not None else op.op_name.data


def registered(op: OpOp) -> OpSpec | None:
    """The op's row of the registry."""
    return opset.find(op.op_name.data)


def settings_of(op: OpOp) -> dict[str, Any]:
    """The settings of an op by their own names, the defaults too; an empty dictionary for what does not
    resolve. A dtype is its name."""
    spec = registered(op)
    if spec is None:
        return {}
    try:
        return opset.resolve_settings(spec, written_settings(op))
    except opset.OpError:
        return {}


def written_settings(op: OpOp) -> dict[str, object]:
    """The settings as they are written."""
    return {key: python_value(value, NameRef) for key, value in op.settings.data.items()}
