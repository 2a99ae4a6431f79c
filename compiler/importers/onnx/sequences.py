"""Sequences of tensors: lists while a model is read, as long as their lengths are known then."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.onnx.items import Item, number_of, of_value
from openinfer.compiler.importers.onnx.node import Node, Result, operator, stacked
from openinfer.compiler.importers.onnx.refusals import CONTENT, DAMAGED, TYPE, Refusal
from openinfer.runtime.sizes import Size


@dataclass(eq=False)
class ItemList(Item):
    """A sequence. Whoever takes it for a tensor is refused."""

    parts: list[Item] = field(default_factory=list[Item])


def _list_of(node: Node, parts: list[Item]) -> ItemList:
    def refuse(item: Item) -> Value:
        raise Refusal(TYPE, f"{item.name or 'a result'} is a sequence where a tensor is needed")

    dtype = parts[0].dtype if parts else "f32"
    inputs = frozenset[str]().union(*(part.inputs for part in parts))
    return ItemList(node.outputs[0], dtype, (), None, None, refuse, inputs=inputs, parts=parts)


def _parts(node: Node) -> list[Item]:
    item = node.item(0)
    if not isinstance(item, ItemList):
        raise Refusal(TYPE, f"{node.op} takes a sequence, and {item.name} is none")
    return list(item.parts)


def _place(node: Node, place: int, length: int) -> int:
    """An index that is known now, counted from the front. Raises Refusal."""
    found = int(node.number(place))
    if not -length <= found < length:
        raise Refusal(DAMAGED, f"{node.op} at {found} of a sequence of {length}")
    return found % length


@operator("SequenceConstruct")
def sequence_construct(node: Node) -> Result:
    return _list_of(node, [node.item(place) for place in range(len(node.inputs))])


@operator("SequenceEmpty")
def sequence_empty(node: Node) -> Result:
    node.ignore("dtype")
    return _list_of(node, [])


@operator("SequenceInsert")
def sequence_insert(node: Node) -> Result:
    parts = _parts(node)
    place = int(node.number(2)) if node.there(2) else len(parts)
    if not -len(parts) <= place <= len(parts):
        raise Refusal(DAMAGED, f"SequenceInsert at {place} of a sequence of {len(parts)}")
    place = place if place >= 0 else place + len(parts)
    return _list_of(node, [*parts[:place], node.item(1), *parts[place:]])


@operator("SequenceErase")
def sequence_erase(node: Node) -> Result:
    parts = _parts(node)
    del parts[_place(node, 1, len(parts)) if node.there(1) else -1]
    return _list_of(node, parts)


@operator("SequenceAt")
def sequence_at(node: Node) -> Result:
    parts = _parts(node)
    return parts[_place(node, 1, len(parts))]


@operator("SequenceLength")
def sequence_length(node: Node) -> Result:
    return node.reader.content(np.array(len(_parts(node)), np.int64), "i64", node.outputs[0])


@operator("ConcatFromSequence")
def concat_from_sequence(node: Node) -> Result:
    parts = [part.value for part in _parts(node)]
    if not parts:
        raise Refusal(DAMAGED, "ConcatFromSequence of no tensors")
    new = node.flag("new_axis")
    axis = node.axis(node.int("axis", 0), parts[0].rank + new)
    if new:
        return stacked(node.g, parts, axis)
    return node.g.op("concat", *parts, axis=axis) if len(parts) > 1 else parts[0]


@operator("SplitToSequence")
def split_to_sequence(node: Node) -> Result:
    """Parts of equal length or of those that are given; without any, single elements."""
    g, x = node.g, node.x()
    axis = node.axis(node.int("axis", 0), x.rank)
    extent, keep = x.dims[axis].constant, node.flag("keepdims", True)
    if extent is None:
        raise Refusal(CONTENT, "SplitToSequence needs an axis of known length")
    if not node.there(1):
        lengths = [1] * extent
    else:
        given, keep = node.ints_of(1), True
        if node.item(1).rank:
            lengths = given
        elif given[0] < 1:
            raise Refusal(DAMAGED, f"SplitToSequence in parts of {given[0]}")
        else:
            lengths = [min(given[0], extent - at) for at in range(0, extent, given[0])]
    if sum(lengths) != extent or min(lengths, default=0) < 0:
        raise Refusal(DAMAGED, f"SplitToSequence of {extent} into {lengths}")
    parts: list[Item] = []
    start = Size.of(0)
    for length in lengths:
        stop = start + length
        one = g.op("slice", x, axis=axis, start=number_of(start), stop=number_of(stop))
        parts.append(of_value("", one if keep else g.op("squeeze", one, axes=[axis])))
        start = stop
    return _list_of(node, parts)
