"""Reads an export of PyTorch, node by node, and writes a program that computes the same.

Handlers of single ops are in the files beside this one. What none takes is collected, and told together
(`refusals.py`); meanwhile its result is what the export says of it, so that all that follows is looked at.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from openinfer.compiler.importers.graph_writer import GraphWriter, Operand, Value, fitting_dims
from openinfer.compiler.importers.torch.handlers import (
    HANDLERS,
    HIGHER_ORDER,
    REFUSALS,
    Call,
    Unavailable,
    cast_to,
    number_of,
    reshape,
    scalar_array,
)
from openinfer.compiler.importers.torch.library import dtype_name, torch
from openinfer.compiler.importers.torch.places import call_of, provenance_of_node
from openinfer.compiler.importers.torch.refusals import Refusal, Refused
from openinfer.compiler.importers.torch.sizes import Symbols, expression_of
from openinfer.dialects.ops.base import FLOATS, NameRef, OpError, TensorSpec
from openinfer.runtime.sizes import Size, equal_if_exact
from openinfer.runtime.tensors import Tensor

_DROPPED = ("aten._assert", "aten.sym_constrain", "aten._functional_assert", "aten.sym_size")
"""Checks, whose ranges an export keeps elsewhere, and sizes, which are read from shapes."""


class Reader:
    """Walks graphs of one export; the values of its nodes by name."""

    def __init__(self, g: GraphWriter, symbols: Symbols) -> None:
        self.g = g
        self.symbols = symbols
        self.refusals: list[Refusal] = []
        self.calls = 0
        self.nonnegative: set[str] = set()
        """Names of integer values that are known to hold no negative number."""
        self.counting: dict[str, tuple[int, Size]] = {}
        """Values that count 0, 1, … along one axis and have one element along all others: axis and length."""
        self._values: dict[Any, Any] = {}
        self._numbers: dict[str, int] = {}
        self._scalars: dict[str, Value] = {}
        """Tensors of one element by the symbol that their number is (`x.item()`)."""
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Value] = {}

    # Graphs

    def bind(self, node: Any, value: Any) -> None:
        """Says what a node's value is: of a placeholder."""
        self._values[node] = value

    def read(self, graph: Any) -> list[Any]:
        """Writes all nodes of a graph whose placeholders are bound; gives what it returns, as nodes."""
        returned: list[Any] = []
        for node in graph.nodes:
            if node.op == "output":
                returned = _flat(node.args[0])
            elif node.op == "call_function":
                self.calls += 1
                place = provenance_of_node(node)
                with self.g.at(place):
                    try:
                        self._values[node] = self._result(node)
                    except Refused as error:
                        self._refuse(node, error.reason, error.hint)
                    except OpError as error:
                        self._refuse(node, error.message, error.hint or "")
        return returned

    def _refuse(self, node: Any, reason: str, hint: str) -> None:
        self.refusals.append(Refusal(call_of(node), reason, hint, provenance_of_node(node)))
        self._values[node] = self._stand_in(node)

    def _stand_in(self, node: Any) -> Any:
        """A value that the rest of the graph can be checked with; no program comes of it."""
        try:
            specs = self.specs_of(node)
        except Refused:
            return Unavailable("")
        found = tuple(Value("refused", one.dtype, one.dims) for one in specs)
        return found if isinstance(node.meta.get("val"), tuple | list) else found[0]

    def _result(self, node: Any) -> Any:
        target = node.target
        if target is operator.getitem:
            parent, index = node.args
            parts = self._values[parent]
            return parts if isinstance(parts, Unavailable) else parts[index]
        name = str(target)
        if name.startswith("aten._local_scalar_dense") and self.is_tensor(node.args[0]):
            self._scalars[str(expression_of(node.meta["val"]))] = self.tensor(node.args[0])
        if name.startswith(_DROPPED) or self._is_size(node):
            return None
        if name in HIGHER_ORDER:
            return HIGHER_ORDER[name](self, node)
        handler = HANDLERS.get(name)
        if handler is None:
            reason, hint = REFUSALS.get(name, REFUSALS.get(name.rpartition(".")[0], ("", "")))
            raise Refused(reason or "no handler takes it", hint)
        call = Call(self, node)
        found = handler(call)
        call.check_all_read()
        if isinstance(found, Value):
            return self._checked(found, call.spec)
        if isinstance(found, tuple):
            return tuple(
                self._checked(one, spec) if isinstance(one, Value) else one
                for one, spec in zip(found, call.specs)
            )
        return found

    def _is_size(self, node: Any) -> bool:
        """Whether a node computes a size, not a tensor."""
        kinds = torch()
        value = node.meta.get("val")
        return isinstance(value, kinds.SymInt | kinds.SymBool | kinds.SymFloat | int | float)

    def _checked(self, found: Value, spec: TensorSpec) -> Value:
        """The value with the dtype that the export says. Raises Refused where the shape is another one:
        a handler is wrong then, and no program with other results may come of it."""
        same = found.rank == spec.rank and all(
            one == other or equal_if_exact(one, other) or _often_equal(one, other)
            for one, other in zip(found.dims, spec.dims)
        )
        if not same and any(
            other.constant is not None and one.constant is None
            for one, other in zip(found.dims, spec.dims)
        ):
            raise Refused(
                f"the export fixed a size of its result, {spec}, which is {found.spec} for other inputs",
                "export with an example whose sizes do not become 0 or 1 on the way",
            )
        if not same:
            raise Refused(f"its result is {spec}, the import made {found.spec}: please report this")
        return cast_to(self.g, found, spec.dtype)

    # Values

    def tensor(self, raw: Any) -> Value:
        """The tensor that an argument is."""
        value = self._values.get(raw)
        if isinstance(value, Unavailable):
            raise Refused(value.reason or "what it reads was refused", value.hint)
        if isinstance(value, Value):
            return value
        if isinstance(raw, bool | int | float):
            return self.scalar(raw, "i64" if isinstance(raw, int) else "f32")
        raise Refused(f"{raw} is no tensor")

    def is_tensor(self, raw: Any) -> bool:
        """Whether an argument is a tensor of the program."""
        return isinstance(self._values.get(raw), Value | Unavailable)

    def number_in(self, raw: Any) -> int | None:
        """The number that an integer tensor without axes holds, where the model says it."""
        found = self._numbers.get(self.tensor(raw).name)
        return int(found) if found is not None else None

    def operand(self, raw: Any, dtype: str) -> Operand:
        """A tensor, or a number or size as one of a dtype."""
        if isinstance(self._values.get(raw), Value | Unavailable):
            return self.tensor(raw)
        meta = self.meta(raw)
        if isinstance(meta, bool | int | float):
            return number_of(meta, dtype)
        return self.scalar_of(expression_of(meta), dtype)

    def size(self, raw: Any) -> Size:
        """An int, a SymInt, or a node that computes one."""
        meta = self.meta(raw)
        if isinstance(meta, float) and meta.is_integer():
            meta = int(meta)
        if not isinstance(meta, int | torch().SymInt):
            raise Refused(f"{raw} is a tensor, and a size must be known without data")
        return self.symbols.size(meta)

    def meta(self, raw: Any) -> Any:
        """What the export knows of an argument: a tensor without data, a number, a symbolic size."""
        return raw.meta["val"] if hasattr(raw, "meta") else raw

    def specs_of(self, node: Any) -> list[TensorSpec]:
        """Dtype and shape of each result of a node; of what is no tensor, an empty one."""
        value = node.meta.get("val")
        found: list[TensorSpec] = []
        for one in value if isinstance(value, tuple | list) else [value]:
            if not isinstance(one, torch().Tensor):
                found.append(TensorSpec("f32", ()))
                continue
            name = dtype_name(one.dtype)
            if name is None:
                kind = str(one.dtype).removeprefix("torch.")
                raise Refused(f"its result is {kind}, which is no dtype of the language")
            found.append(TensorSpec(name, self.symbols.dims(one)))
        return found

    def constant(self, array: Any, dtype: str | None = None, stem: str = "c") -> Value:
        """A small tensor of the model; equal ones are one."""
        stored = array.storage if isinstance(array, Tensor) else np.ascontiguousarray(array)
        named = array.dtype.name if isinstance(array, Tensor) else dtype or ""
        shape = tuple(array.shape)
        key = (f"{named}/{stored.dtype}", shape, stored.tobytes())
        if key not in self._constants:
            if isinstance(array, Tensor):
                name = self.g.fresh(stem)
                value = self.g.weight(name, array, array.dtype.name, shape)
            else:
                value = self.g.constant(stored.reshape(shape), dtype, stem)
            self._constants[key] = value
            if shape == () and stored.dtype.kind in "iu":
                self._numbers[value.name] = int(stored.reshape(-1)[0])
            if stored.dtype.kind in "iu" and (stored.size == 0 or stored.min() >= 0):
                self.nonnegative.add(value.name)
        return self._constants[key]

    def reshaped(self, value: Value, dims: Sequence[Size | int]) -> Value:
        """A value in another shape; itself where it has it."""
        found = self.keep_sign(value, reshape(self.g, value, dims))
        counted = self.counting.get(value.name)
        if counted is not None:
            axes = [axis for axis, dim in enumerate(found.dims) if dim.constant != 1]
            if len(axes) == 1 and found.dims[axes[0]] == counted[1]:
                self.counting[found.name] = (axes[0], counted[1])
        return found

    def agreed(self, values: Sequence[Operand], joined: int | None = None) -> list[Operand]:
        """Operands whose shapes fit as the language sees it (`fitting_dims`)."""
        tensors = [one for one in values if isinstance(one, Value)]
        if len(tensors) < 2:
            return list(values)
        first = max(tensors, key=lambda one: one.rank)
        return [
            self.reshaped(one, fitting_dims(one, first, joined)) if isinstance(one, Value) else one
            for one in values
        ]

    def keep_sign(self, source: Value, value: Value) -> Value:
        """The value, which holds elements of the source and no others."""
        if source.name in self.nonnegative:
            self.nonnegative.add(value.name)
        return value

    def scalar(self, value: bool | int | float, dtype: str) -> Value:
        """A number as a tensor without axes."""
        return self.constant(scalar_array(value, dtype))

    def scalar_of(self, expression: Any, dtype: str) -> Value:
        """A symbolic number as a tensor without axes."""
        kind = type(expression).__name__
        if expression.is_Number:
            return self.scalar(number_of(float(expression), dtype), dtype)
        if kind == "ToFloat":
            return self.scalar_of(expression.args[0], dtype)
        if str(expression) in self._scalars:
            return cast_to(self.g, self.reshaped(self._scalars[str(expression)], []), dtype)
        if kind in ("FloatTrueDiv", "IntTrueDiv"):
            left, right = (self.scalar_of(one, dtype) for one in expression.args)
            return self.g.op("div", left, right)
        if kind in ("Add", "Mul") and (dtype in FLOATS or expression.is_integer):
            name = "add" if kind == "Add" else "mul"
            total = self.scalar_of(expression.args[0], dtype)
            for one in expression.args[1:]:
                total = self.g.op(name, total, self.scalar_of(one, dtype))
            return total
        return self.size_value(self.symbols.of_expression(expression), dtype)

    def size_value(self, size: Size, dtype: str = "i64") -> Value:
        """The number that a size is, as a tensor without axes."""
        if size.constant is not None:
            return self.scalar(number_of(size.constant, dtype), dtype)
        name = size.single_name
        if name is not None:
            return self.g.op("iota", shape=[], start=NameRef(name), dtype=dtype)
        # The position behind the last element of an axis of that length.
        last = self.g.op(
            "slice", self.g.op("iota", shape=[size + 1], dtype=dtype), start=size, stop=size + 1
        )
        return self.g.op("reshape", last, shape=[])


def _flat(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [one for part in value for one in _flat(part)]
    return [value]


def _often_equal(one: Size, other: Size) -> bool:
    """Whether two sizes are equal for all numbers tried: `(L + 1)//2` and `(L - 1)//2 + 1` are, though their
    forms differ. A step checks the numbers that it meets."""
    names = sorted(one.names | other.names)
    for seed in (2, 3, 5, 8, 13, 16, 24, 60, 64, 97, 120, 224):
        values = {name: seed + 7 * place for place, name in enumerate(names)}
        try:
            if one.evaluate(values) != other.evaluate(values):
                return False
        except ZeroDivisionError:
            return False
    return True
