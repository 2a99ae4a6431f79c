"""The table of handlers, one for each overload of ATen, and what a handler sees of a call.

A handler asks for each argument by its name in ATen's schema. One that it does not ask for must have its
default: otherwise the call is refused, so that nothing is left out silently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openinfer.compiler.importers.graph_writer import GraphWriter, Operand, Value
from openinfer.compiler.importers.torch.library import dtype_name, torch
from openinfer.compiler.importers.torch.refusals import Refused
from openinfer.dialects.ops.base import FLOATS, TensorSpec
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size

if TYPE_CHECKING:
    from openinfer.compiler.importers.torch.reader import Reader

Result = Any
"""A value, or a tuple of them; None for what no program needs."""
Handler = Callable[["Call"], Result]

HANDLERS: dict[str, Handler] = {}
"""By the overload, as `aten.add.Tensor`."""

HIGHER_ORDER: dict[str, Callable[[Any, Any], Result]] = {}
"""Ops that take graphs, by name, as `cond`: what makes a result of reader and node."""

REFUSALS: dict[str, tuple[str, str]] = {}
"""Ops that no handler will take: the reason, and what to do instead."""

_WITHOUT_MEANING = frozenset(
    (
        "device",
        "pin_memory",
        "layout",
        "memory_format",
        "non_blocking",
        "requires_grad",
        "generator",
    )
)
"""Arguments that say where and how a result lies, not what it is."""


def handles(*overloads: str) -> Callable[[Handler], Handler]:
    """Registers a handler for overloads: `@handles("aten.linear.default")`."""

    def register(handler: Handler) -> Handler:
        for name in overloads:
            assert name not in HANDLERS, name
            HANDLERS[name] = handler
        return handler

    return register


class Unavailable:
    """A result that has no value in the program; whoever reads it is refused."""

    def __init__(self, reason: str, hint: str = "") -> None:
        self.reason = reason
        self.hint = hint


class Call:
    """One node of the export: its arguments by name, and the writer of the program."""

    def __init__(self, reader: Reader, node: Any) -> None:
        self.reader = reader
        self.node = node
        self.g: GraphWriter = reader.g
        self._arguments: dict[str, Any] = {}
        self._defaults: dict[str, Any] = {}
        self._read: set[str] = set()
        schema = node.target._schema.arguments
        positional = iter(node.args)
        for argument in schema:
            self._defaults[argument.name] = argument.default_value
            if not argument.kwarg_only:
                given = next(positional, self)
                if given is not self:
                    self._arguments[argument.name] = given
        self._arguments.update(node.kwargs)

    # Arguments

    def raw(self, name: str) -> Any:
        """An argument as the export has it, or its default."""
        self._read.add(name)
        return self._arguments.get(name, self._defaults.get(name))

    def given(self, name: str) -> bool:
        """Whether an argument is there and not None."""
        return self.raw(name) is not None

    def tensor(self, name: str) -> Value:
        """An argument that is a tensor."""
        return self.reader.tensor(self.raw(name))

    def tensors(self, name: str) -> list[Value]:
        """An argument that is a list of tensors."""
        return [self.reader.tensor(one) for one in self.raw(name)]

    def tensor_of(self, raw: Any) -> Value:
        """A tensor that is part of an argument."""
        return self.reader.tensor(raw)

    def maybe(self, *names: str) -> list[Value]:
        """Optional tensors: those that are there. One that lacks must not stand before one that is there."""
        found: list[Value] = []
        for place, name in enumerate(names):
            if not self.given(name):
                if any(self.given(later) for later in names[place:]):
                    raise Refused(f"{names[-1]} without {name} is not taken")
                break
            found.append(self.tensor(name))
        return found

    def operand(self, name: str, dtype: str | None = None) -> Operand:
        """An argument that is a tensor or a number; the number as one of `dtype`, default its own."""
        raw = self.raw(name)
        if isinstance(raw, bool | int | float):
            return number_of(raw, dtype)
        return self.reader.operand(raw, dtype or self.dtype)

    def number(self, name: str) -> bool | int | float:
        """An argument that is a number, known when the model is imported."""
        value = self.raw(name)
        if not isinstance(value, bool | int | float):
            raise Refused(f"{name} is computed, and not known when the model is imported")
        return value

    def integer(self, name: str) -> int:
        size = self.size(name)
        if size.constant is None:
            raise Refused(f"{name} depends on the size {size}")
        return size.constant

    def flag(self, name: str) -> bool:
        return bool(self.raw(name))

    def text(self, name: str) -> str:
        return str(self.raw(name))

    def size(self, name: str) -> Size:
        """An argument that is an int or a symbolic one."""
        return self.reader.size(self.raw(name))

    def sizes(self, name: str) -> list[Size]:
        return [self.reader.size(one) for one in self.raw(name) or ()]

    def integers(self, name: str) -> list[int]:
        found: list[int] = []
        for size in self.sizes(name):
            if size.constant is None:
                raise Refused(f"{name} depends on the size {size}")
            found.append(size.constant)
        return found

    def axis(self, rank: int, name: str = "dim") -> int:
        """An axis, counted from the front."""
        axis = self.integer(name)
        return axis + rank if axis < 0 else axis

    def axes(self, rank: int, name: str = "dim") -> list[int]:
        """Axes, counted from the front; all of them where none is named."""
        raw = self.raw(name)
        if raw is None or raw == []:
            return list(range(rank))
        given = [raw] if isinstance(raw, int) else raw
        return [one + rank if one < 0 else int(one) for one in given]

    def must(self, name: str, *allowed: object, hint: str = "") -> None:
        """Refuses the call unless an argument is one of these."""
        value = self.raw(name)
        if value not in allowed:
            raise Refused(f"{name}={_shown(value)} is not taken", hint)

    def skip(self, *names: str) -> None:
        """These say nothing about the result of inference."""
        self._read.update(names)

    def check_all_read(self) -> None:
        """Refuses arguments that no handler asked for and that are not at their defaults."""
        for name, value in self._arguments.items():
            if name in self._read or name in _WITHOUT_MEANING or value is None:
                continue
            if value != self._defaults.get(name):
                raise Refused(f"{name}={_shown(value)} is not taken")

    # The result, as the export describes it

    @property
    def specs(self) -> list[TensorSpec]:
        """Dtype and shape of each result."""
        return self.reader.specs_of(self.node)

    @property
    def spec(self) -> TensorSpec:
        return self.specs[0]

    @property
    def dtype(self) -> str:
        return self.spec.dtype

    @property
    def dims(self) -> tuple[Size, ...]:
        return self.spec.dims

    # What many handlers write

    def cast(self, value: Value, dtype: str) -> Value:
        """The value in another dtype, as PyTorch converts."""
        return cast_to(self.g, value, dtype)

    def promoted(self, *names: str) -> tuple[str, list[Operand]]:
        """Operands of one dtype, that in which PyTorch would compute, and its name.

        A tensor without axes and a number count for less than a tensor of the same kind:
        `torch.result_type`.
        """
        metas = [self.reader.meta(self.raw(name)) for name in names]
        joined = metas[0]
        library = torch()
        dtype = library.result_type(*metas[:2]) if len(metas) > 1 else joined.dtype
        for extra in metas[2:]:
            dtype = library.promote_types(dtype, library.result_type(extra, extra))
        name = self.named_dtype(dtype)
        return name, self.as_dtype(name, *names)

    def as_dtype(self, dtype: str, *names: str) -> list[Operand]:
        """Operands cast to a dtype; one of them is a tensor in any case."""
        found: list[Operand] = []
        for one in names:
            operand = self.operand(one, dtype)
            found.append(self.cast(operand, dtype) if isinstance(operand, Value) else operand)
        if not any(isinstance(one, Value) for one in found):
            found[0] = self.reader.scalar(cast(Any, found[0]), dtype)
        return self.reader.agreed(found)

    def named_dtype(self, dtype: Any) -> str:
        """What the language calls a dtype. Raises Refused for one that it lacks."""
        name = dtype_name(dtype)
        if name is None:
            raise Refused(f"{str(dtype).removeprefix('torch.')} is no dtype of the language")
        return name

    def reshape(self, value: Value, dims: Sequence[Size | int]) -> Value:
        """The value in another shape; itself where it has it."""
        return self.reader.reshaped(value, dims)

    def expand(self, value: Value, dims: Sequence[Size]) -> Value:
        """The value broadcast to a shape; itself where it has it."""
        if value.dims == tuple(dims):
            return value
        found = self.g.op("expand", value, shape=list(dims))
        return self.reader.keep_sign(value, found)


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def number_of(value: bool | int | float, dtype: str | None) -> bool | int | float:
    """A number as one of a dtype: what a literal beside operands of that dtype must be."""
    if dtype is None:
        return value
    if dtype == "bool":
        return bool(value)
    return float(value) if dtype in FLOATS else int(value)


def end_of(dtype: str, *, largest: bool) -> int | float:
    """The largest or smallest number of a dtype; of floats an infinity."""
    if dtype in FLOATS:
        return inf if largest else -inf
    if dtype == "bool":
        return largest
    signed = not dtype.startswith("u")
    end = (1 << (DTYPES[dtype].bits - signed)) - 1
    return end if largest else -end - 1 if signed else 0


def cast_to(g: GraphWriter, value: Value, dtype: str) -> Value:
    """A value in another dtype: floats become integers toward zero, integers wrap."""
    if value.dtype == dtype:
        return value
    if dtype in FLOATS or dtype == "bool":
        return g.op("cast", value, to=dtype)
    return g.op("cast", value, to=dtype, saturate=value.dtype in FLOATS)


def reshape(g: GraphWriter, value: Value, dims: Sequence[Size | int]) -> Value:
    """A value in another shape. A dimension that cannot be shown to fit is left to the others (-1)."""
    wanted = tuple(Size.of(dim) for dim in dims)
    if value.dims == wanted:
        return value
    from openinfer.dialects.ops.base import ShapeError

    try:
        return g.op("reshape", value, shape=list(wanted))
    except ShapeError:
        unclear = max(range(len(wanted)), key=lambda place: len(str(wanted[place])))
        shape: list[Size | int] = list(wanted)
        shape[unclear] = -1
        return g.op("reshape", value, shape=shape)


def scalar_array(value: bool | int | float, dtype: str) -> Any:
    """A number as an array without axes that `GraphWriter.constant` takes."""
    from openinfer.runtime.tensors import Tensor

    return Tensor.from_values(dtype, np.asarray(value))
