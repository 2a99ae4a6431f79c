"""What readers of foreign models write: a program of level `graph`, statement by statement.

Every op has a temporary of its own, with its type, and knows where it comes from. The result is a program
that runs, however long; the passes of `lowering/graph/imports/` make it readable, each leaves one that runs.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region

from openinfer.dialects import opset
from openinfer.dialects.graph import (
    AssignOp,
    BlockOp,
    BranchOp,
    CacheReadOp,
    CacheWriteOp,
    LiteralAttr,
    LoopOp,
    NameAttr,
    OpOp,
    RefAttr,
    ReturnOp,
    ScopeOp,
    SizeBoundOp,
    SizeOp,
    TransferOp,
    VariableOp,
)
from openinfer.dialects.ops.base import NameRef, TensorSpec
from openinfer.lowering.graph.imports.provenance import Provenance, set_provenance
from openinfer.lowering.graph.settings import attribute_of
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size, SizeLike, equal_if_exact
from openinfer.runtime.tensors import dtype_of

NO_NAMES = frozenset((*DTYPES, "true", "false", "inf", "nan"))
"""What a setting means by such a word is no variable: none may be called so."""


@dataclass(frozen=True)
class Value:
    """A tensor of the program: a use of a variable, and its type."""

    name: str
    dtype: str
    dims: tuple[Size, ...]
    slots: tuple[Size, ...] = ()
    """Of a member of a family: `W[l]`."""

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The dimensions as numbers; None where one of them is known to inputs alone."""
        found = tuple(dim.constant for dim in self.dims)
        return None if None in found else found  # pyright: ignore[reportReturnType]

    @property
    def spec(self) -> TensorSpec:
        return TensorSpec(self.dtype, self.dims, self.name)

    @property
    def ref(self) -> RefAttr:
        return RefAttr.of(self.name, self.slots)


Operand = Value | bool | int | float


@dataclass
class Imported:
    """A foreign model as a program that runs, with its tensors; not readable yet."""

    module: ModuleOp
    """Level `graph`."""
    tensors: dict[str, Any]
    """By the names that `@ref` says: NumPy arrays, or what `MemoryPackage` takes; never copies of weights."""
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    """What a model's configuration says: `hidden_size`, `num_attention_heads`."""
    source: str = ""
    """What was imported, for reports: a file, a class."""
    calls: int = 0
    """Nodes of the foreign graph."""


class GraphWriter:
    """Writes one program. Names are unique; what they are called is decided by later passes, but for those
    of inputs and results, `reserved`, which nothing else gets.

    Raises OpError, of `dialects.ops.base`, where an op does not take what it is given: readers say which
    foreign op that was.
    """

    def __init__(self, reserved: Sequence[str] = ()) -> None:
        self._top: list[Operation] = []
        self._bounds: list[Operation] = []
        self._blocks: dict[str, list[Operation]] = {"entry": []}
        self._into: list[Operation] = self._blocks["entry"]
        self._names: set[str] = {*NO_NAMES, *(_clean(name) for name in reserved)}
        self._around: list[list[Operation]] = []
        """What stands in front of each loop that is being written, the innermost last."""
        self._provenance = Provenance()
        self.tensors: dict[str, Any] = {}
        self._weights: dict[str, Value] = {}

    # Declarations

    def fresh(self, stem: str) -> str:
        """A name that is free: `stem`, or with a number."""
        clean = _clean(stem)
        name, number = clean, 1
        while name in self._names:
            number += 1
            name = f"{clean}_{number}"
        self._names.add(name)
        return name

    def input(self, name: str, dtype: str, dims: Sequence[SizeLike]) -> Value:
        """An input of the program, `dynamic`. Its name and its sizes stay as they are."""
        return self._declare(_clean(name), "dynamic", dtype, dims, {})

    def weight(self, ref: str, tensor: Any, dtype: str, dims: Sequence[SizeLike]) -> Value:
        """A tensor of the model, `constant`, declared once however often it is asked for."""
        if ref not in self._weights:
            self.tensors[ref] = tensor
            value = self._declare(
                self.fresh(ref), "constant", dtype, dims, {"ref": StringAttr(ref)}
            )
            self._weights[ref] = value
        return self._weights[ref]

    def constant(
        self, array: np.ndarray[Any, Any], dtype: str | None = None, stem: str = "c"
    ) -> Value:
        """A small tensor that the foreign graph holds itself, kept in the model under a name of ours."""
        row = dtype_of(array)
        named = dtype or (row.name if row is not None else str(array.dtype))
        name = self.fresh(stem)
        self._names.discard(name)
        return self.weight(name, array, named, array.shape)

    def state(
        self, name: str, dtype: str, dims: Sequence[SizeLike], ref: str = "", tensor: Any = None
    ) -> Value:
        """A `persistent` variable, which begins as a tensor of the model, or as zeros."""
        if ref:
            self.tensors[ref] = tensor
        return self._declare(
            self.fresh(name), "persistent", dtype, dims, {"ref": StringAttr(ref)} if ref else {}
        )

    def size(self, name: str, value: SizeLike) -> Size:
        """A size that the program defines."""
        self._names.add(name)
        self._top.append(SizeOp(name, value))
        return Size.name(name)

    def bound(self, size: Size, low: int | None, high: int | None) -> None:
        """Says what a size may be, limits included."""
        self._bounds.append(SizeBoundOp(size, low, high))

    # Statements

    @contextmanager
    def at(self, provenance: Provenance) -> Generator[None]:
        """What is written inside comes from there."""
        outer, self._provenance = self._provenance, provenance
        try:
            yield
        finally:
            self._provenance = outer

    def op(self, name: str, *operands: Operand, **settings: Any) -> Value:
        """An op with one result: its value, with the type that the op's rule says."""
        (value,) = self.ops(name, *operands, **settings)
        return value

    def ops(
        self, name: str, *operands: Operand, results: int = 1, **settings: Any
    ) -> tuple[Value, ...]:
        """An op with `results` results. Settings are Python values: numbers, bools, texts, sizes,
        tuples; a dtype by its name (`to="f32"`)."""
        spec = opset.find(name)
        if spec is None:
            raise KeyError(name)
        given = {key: self._setting(spec, key, value) for key, value in settings.items()}
        dtypes = opset.literal_dtypes(
            spec, [one.dtype if isinstance(one, Value) else None for one in operands]
        )
        specs = [
            one.spec if isinstance(one, Value) else TensorSpec(dtype, ())
            for one, dtype in zip(operands, dtypes)
        ]
        types = opset.infer_outputs(spec, specs, given, results)
        written = [Value(self.fresh(name), type_.dtype, type_.dims) for type_ in types]
        for value in written:
            self._add(AssignOp(value.name, value.dtype, value.dims))
        inputs = [one.ref if isinstance(one, Value) else literal(one) for one in operands]
        attributes = {
            key: NameAttr(value.name) if isinstance(value, NameRef) else attribute_of(value)
            for key, value in given.items()
        }
        self._add(OpOp(name, inputs, [value.ref for value in written], attributes))
        return tuple(written)

    def copy(self, value: Value) -> Value:
        """A temporary with the value, which later statements may overwrite (`assign_to`)."""
        written = Value(self.fresh(value.name), value.dtype, value.dims)
        self._add(AssignOp(written.name, written.dtype, written.dims))
        self._add(TransferOp(value.ref, written.ref))
        return written

    def temporary(self, like: Value) -> Value:
        """A temporary of the same type without a value yet: blocks that were written before fill it."""
        self._add(AssignOp(like.name, like.dtype, like.dims))
        return like

    def assign_to(self, target: Value, value: Value) -> None:
        """Overwrites a temporary made by `copy`: what a loop carries."""
        self._add(TransferOp(value.ref, target.ref))

    def read_state(self, state: Value) -> Value:
        """The content of a persistent variable now."""
        written = Value(self.fresh(state.name), state.dtype, state.dims)
        self._add(AssignOp(written.name, written.dtype, written.dims))
        self._add(CacheReadOp(state.ref, written.ref))
        return written

    def write_state(self, value: Value, state: Value) -> None:
        """Gives a persistent variable its next content."""
        self._add(CacheWriteOp(value.ref, state.ref))

    @contextmanager
    def loop(self, stop: SizeLike, start: SizeLike = 0, label: str = "loop") -> Generator[Size]:
        """A counted loop around what is written inside; gives its index, a size."""
        index = self.fresh("i")
        outer, self._into = self._into, []
        self._around.append(outer)
        try:
            yield Size.name(index)
        finally:
            body, self._into = self._into, self._around.pop()
        self._add(LoopOp(self.fresh(label), index, start, stop, body))

    @contextmanager
    def before_loop(self) -> Generator[None]:
        """What is written inside stands in front of the loop that is being written."""
        body, self._into = self._into, self._around[-1]
        try:
            yield
        finally:
            self._into = body

    @contextmanager
    def scope(self, label: str) -> Generator[None]:
        """A named group of what is written inside."""
        outer, self._into = self._into, []
        try:
            yield
        finally:
            body, self._into = self._into, outer
        self._add(ScopeOp(label, body))

    @contextmanager
    def block(self, stem: str) -> Generator[str]:
        """A further block, for `branch`; gives its name. What it writes for others are copies made before."""
        name = self.fresh(stem)
        outer, self._into = self._into, self._blocks.setdefault(name, [])
        try:
            yield name
        finally:
            self._into.append(ReturnOp(()))
            self._into = outer

    def branch(self, condition: Value, then: str, other: str) -> None:
        """Runs one of two blocks."""
        self._add(BranchOp(then, condition.ref, other))

    def finish(self, outputs: Sequence[tuple[str, Value]], **described: Any) -> Imported:
        """Ends the program with its results: names that the foreign model gives, and values."""
        named: list[str] = []
        for name, value in outputs:
            target = Value(_clean(name), value.dtype, value.dims)
            self._add(AssignOp(target.name, target.dtype, target.dims))
            self._add(TransferOp(value.ref, target.ref))
            named.append(target.name)
        self._add(ReturnOp(named))
        blocks = [BlockOp(name, Region(Block(body))) for name, body in self._blocks.items()]
        return Imported(ModuleOp([*self._bounds, *self._top, *blocks]), self.tensors, **described)

    # Parts

    def _declare(
        self,
        name: str,
        memory: str,
        dtype: str,
        dims: Sequence[SizeLike],
        options: Mapping[str, Attribute],
    ) -> Value:
        self._names.add(name)
        op = VariableOp(name, memory, dtype, dims, (), options)
        self._top.append(op)
        return Value(name, dtype, op.sizes)

    def _add(self, op: Operation) -> None:
        set_provenance(op, self._provenance)
        self._into.append(op)

    def _setting(self, spec: opset.OpSpec, key: str, value: Any) -> object:
        setting = spec.setting(key)
        kind = setting.kind if setting is not None else ""
        if kind == "dtype":
            return NameRef(str(value))
        if isinstance(value, list | tuple):
            return tuple(self._setting(spec, "", one) for one in value)  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, Size) and value.constant is not None:
            return value.constant
        return value.item() if isinstance(value, np.generic) else value


def fitting_dims(value: Value, other: Value, joined: int | None = None) -> list[Size]:
    """The dimensions of a value, written as those of another where both are equal if divisions come out even:
    a foreign graph may know that `2*(H/2)` is `H`. Reshaped to them, a step checks it.

    Axes are counted from the end; `joined` is one that may differ.
    """
    dims = list(value.dims)
    for place in range(1, min(value.rank, other.rank) + 1):
        own, wanted = value.dims[-place], other.dims[-place]
        if own != wanted and place != joined and equal_if_exact(own, wanted):
            dims[-place] = wanted
    return dims


def _clean(name: str) -> str:
    """What a program can call something."""
    clean = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    return clean if clean and not clean[0].isdigit() else f"v{clean}"


def literal(value: bool | int | float) -> LiteralAttr:
    """A number as an operand."""
    match value:
        case bool():
            return LiteralAttr(IntegerAttr(int(value), i1))
        case int():
            return LiteralAttr(IntegerAttr(value, i64))
        case _:
            return LiteralAttr(FloatAttr(value, f64))
