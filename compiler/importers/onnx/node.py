"""A node of an ONNX graph as handlers see it: each attribute must be taken or refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from openinfer.compiler.importers.graph_writer import GraphWriter, Operand, Value, fitting_dims
from openinfer.compiler.importers.onnx.items import Array, Item, Number, number_of
from openinfer.compiler.importers.onnx.refusals import (
    ATTRIBUTE,
    CONTENT,
    DAMAGED,
    Refusal,
    Refusals,
)
from openinfer.runtime.sizes import Size

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, NodeProto

    from openinfer.compiler.importers.onnx.model_file import ModelFile

Result = Value | Item | None
Handler = Callable[["Node"], Result | Sequence[Result]]
HANDLERS: dict[tuple[str, str], Handler] = {}
"""THE table of operators: (domain, operator) to what writes it. Handlers know the versions."""

_T = TypeVar("_T")


@dataclass
class Import:
    """What all readers of one import share."""

    refusals: Refusals
    file: ModelFile
    constants: dict[tuple[str, tuple[int, ...], bytes], Value] = field(
        default_factory=dict[tuple[str, tuple[int, ...], bytes], Value]
    )
    """Small constants that were written, by dtype, shape and bytes."""


class Reader(Protocol):
    """What handlers ask of the reader of the graph that their node is in."""

    shared: Import
    g: GraphWriter
    versions: Mapping[str, int]
    functions: Mapping[tuple[str, str], FunctionProto]

    def define(self, name: str, item: Item | None) -> None: ...
    def lookup(self, name: str) -> Item | None: ...
    def constant(self, name: str, array: Any) -> Item: ...
    def content(self, array: Array, dtype: str, name: str = "") -> Item: ...
    def inner(self, path: str = "") -> Reader: ...
    def results_of(self, graph: GraphProto) -> list[Item]: ...
    def run(self, node: Node) -> Sequence[Result]: ...
    def call(self, node: Node, function: FunctionProto) -> Sequence[Result]: ...


def operator(*names: str, domain: str = "") -> Callable[[Handler], Handler]:
    """Enters a handler for operators of a domain."""

    def enter(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[domain, name] = handler
        return handler

    return enter


@dataclass(eq=False)
class Node:
    """One node. `version` is that of the operator set that the model imports for the node's domain."""

    op: str
    domain: str
    version: int
    attributes: dict[str, Any]
    inputs: list[Item | None]
    outputs: list[str]
    reader: Reader
    proto: NodeProto
    taken: set[str] = field(default_factory=set[str])

    @property
    def g(self) -> GraphWriter:
        return self.reader.g

    # Attributes: the value, or the default, None where there is none.

    def has(self, name: str) -> bool:
        """Whether the node has the attribute, which counts as taken."""
        self.taken.add(name)
        return name in self.attributes

    def ignore(self, *names: str) -> None:
        """Attributes that change nothing of a result."""
        self.taken.update(names)

    def _attribute(self, name: str, kind: type | tuple[type, ...], default: _T) -> Any | _T:
        self.taken.add(name)
        value = self.attributes.get(name)
        if value is None:
            return default
        if not isinstance(value, kind):
            raise Refusal(
                DAMAGED, f"attribute {name} of {self.op} has another type than the operator says"
            )
        return value

    def int(self, name: str, default: int) -> int:
        return self._attribute(name, int, default)

    def flag(self, name: str, default: bool = False) -> bool:
        return bool(self._attribute(name, int, default))

    def float(self, name: str, default: float) -> float:
        return short(self._attribute(name, (float, int), default))

    def float_or_none(self, name: str) -> float | None:
        found = self._attribute(name, (float, int), None)
        return None if found is None else short(found)

    def text(self, name: str, default: str) -> str:
        found = self._attribute(name, (bytes, str), default)
        return found.decode("utf-8", "replace") if isinstance(found, bytes) else found

    def ints(self, name: str) -> list[int] | None:
        found = self._attribute(name, list, None)
        return None if found is None else [int(one) for one in found]

    def floats(self, name: str) -> list[float] | None:
        found = self._attribute(name, list, None)
        return None if found is None else [short(one) for one in found]

    def texts(self, name: str) -> list[str] | None:
        found = self._attribute(name, list, None)
        return None if found is None else [bytes(one).decode("utf-8", "replace") for one in found]

    def expect(self, name: str, *allowed: object) -> None:
        """Refuses an attribute with another value than these."""
        found = self.attributes.get(name)
        self.taken.add(name)
        value = found.decode("utf-8", "replace") if isinstance(found, bytes) else found
        if value is not None and value not in allowed:
            self.refuse(f"{name}={value}", f"{name} may be {' or '.join(map(str, allowed))}")

    # Inputs

    def there(self, place: int) -> bool:
        """Whether an optional input is given."""
        return place < len(self.inputs) and self.inputs[place] is not None

    def item(self, place: int) -> Item:
        """An input. Raises Refusal where there is none."""
        found = self.inputs[place] if place < len(self.inputs) else None
        if found is None:
            raise Refusal(DAMAGED, f"{self.op} lacks its input {place}")
        return found

    def x(self, place: int = 0) -> Value:
        """An input as a tensor."""
        return self.item(place).value

    def optional(self, place: int) -> Value | None:
        """An input as a tensor, None where it is not given."""
        return self.x(place) if self.there(place) else None

    def operands(self) -> list[Operand]:
        """All inputs, where constants of one element are numbers if the others have the shape."""
        items = [self.item(place) for place in range(len(self.inputs))]
        rank = max((item.rank for item in items), default=0)
        tensors = [not _plain_number(item) or item.rank == rank > 0 for item in items]
        if not any(tensors) and items:
            tensors[0] = True
        return self.agreed(
            item.value if tensor else literal_of(item) for item, tensor in zip(items, tensors)
        )

    def agreed(self, operands: Iterable[Operand], joined: int | None = None) -> list[Operand]:
        """Operands whose shapes fit as the language sees it (`fitting_dims`)."""
        values = list(operands)
        tensors = [one for one in values if isinstance(one, Value)]
        if len(tensors) < 2:
            return values
        first = max(tensors, key=lambda one: one.rank)
        return [
            reshaped(self.g, one, fitting_dims(one, first, joined))
            if isinstance(one, Value)
            else one
            for one in values
        ]

    def numbers(self, place: int) -> Array:
        """The content of an input, which must be known now. Raises Refusal."""
        item = self.item(place)
        found = item.known()
        if found is None:
            raise self.unknown(item)
        if found.dtype == object:
            raise Refusal(
                CONTENT, f"{self.op} needs numbers, and {item.name} depends on the sizes of inputs"
            )
        return found

    def sizes(self, place: int) -> list[Number]:
        """The content of a vector of integers: numbers, or sizes. Raises Refusal."""
        item = self.item(place)
        found = item.known()
        if found is None:
            raise self.unknown(item)
        return [number_of(one) for one in found.reshape(-1)]

    def ints_of(self, place: int) -> list[int]:
        """The content of a vector of integers as numbers. Raises Refusal."""
        return [int(one) for one in self.numbers(place).reshape(-1)]

    def number(self, place: int) -> Any:
        """The content of a tensor of one element. Raises Refusal."""
        found = self.numbers(place).reshape(-1)
        if found.size != 1:
            raise Refusal(DAMAGED, f"{self.op} takes one number as input {place}, got {found.size}")
        return short(found[0])

    def unknown(self, item: Item) -> Refusal:
        """What to raise where the content of an item is not known."""
        inputs = ", ".join(sorted(item.inputs))
        return Refusal(
            CONTENT,
            f"{self.op} needs the content of {item.name or 'an input'}, which only a run knows",
            f"give the values of {inputs}: from_onnx(model, values={{…}})" if inputs else None,
            item.inputs,
        )

    def axes(self, attribute: str, place: int, rank: int) -> list[int] | None:
        """Axes as an attribute, or as an input in newer versions; None where they are not given."""
        if attribute in self.attributes or not self.there(place):
            found = self.ints(attribute)
        else:
            found = self.ints_of(place)
        return None if found is None else [self.axis(one, rank) for one in found]

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from the front. Raises Refusal."""
        if not -rank <= axis < max(rank, 1):
            raise Refusal(DAMAGED, f"{self.op} has axis {axis} for a tensor of rank {rank}")
        return axis % rank if rank else 0

    def wants(self, place: int) -> bool:
        """Whether anybody may read that output."""
        return place < len(self.outputs) and self.outputs[place] != ""

    def refuse(self, form: str, hint: str | None = None) -> None:
        """Raises Refusal for a form of the operator that is not there."""
        raise Refusal(ATTRIBUTE, f"{self.op} with {form} is not supported", hint)

    def need(self, good: bool, form: str, hint: str | None = None) -> None:
        """Refuses a form of the operator unless `good`."""
        if not good:
            self.refuse(form, hint)

    def const(self, array: Array | Sequence[Any], dtype: str, stem: str = "c") -> Value:
        """A small constant of ours."""
        from openinfer.compiler.importers.onnx.items import numpy_dtype

        return self.g.constant(np.asarray(array, numpy_dtype(dtype)), dtype, stem)

    def left(self) -> list[str]:
        """Attributes that nobody took."""
        return sorted(set(self.attributes) - self.taken)


def short(value: Any) -> Any:
    """A number as one would write it: 0.1 for the f32 nearest to it."""
    if isinstance(value, np.generic):
        if value.dtype.kind in "biu":
            return value.item()
        return float(str(value)) if value.dtype == np.float32 else float(value)
    if isinstance(value, float):
        narrow = np.float32(value)
        return float(str(narrow)) if float(narrow) == value else value
    return value


def reshaped(g: GraphWriter, value: Value, dims: Sequence[Size]) -> Value:
    """A value in another shape; itself where it has it."""
    return value if value.dims == tuple(dims) else g.op("reshape", value, shape=list(dims))


def _plain_number(item: Item) -> bool:
    """Whether an operand can be written as a number."""
    content = item.content
    if content is None or content.dtype == object or content.size != 1 or item.dtype == "bool":
        return False
    return bool(np.isfinite(np.asarray(content, np.float64)).all())


def literal_of(item: Item) -> bool | int | float:
    """The number that a constant of one element is."""
    assert item.content is not None
    return short(item.content.reshape(-1)[0])


def product(sizes: Sequence[Number]) -> Size:
    """The number of elements of a shape."""
    total = Size.of(1)
    for size in sizes:
        total = total * size
    return total


def stacked(g: GraphWriter, values: Sequence[Value], axis: int = 0) -> Value:
    """Tensors of one shape along a new axis."""
    if len(values) > 1:
        return g.op("stack", *values, axis=axis)
    return g.op("unsqueeze", values[0], axes=[axis])
