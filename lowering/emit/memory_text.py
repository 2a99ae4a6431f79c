"""Memory in GLSL: elements of buffers, neighbours that are read and written in one access."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, MemRefType, VectorType
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.extensions.gpu import is_shared
from openinfer.dialects.nn import DotBytesOp
from openinfer.lowering.emit.expressions import (
    Expression,
    binary,
    call,
    component,
    element,
    name,
    number,
    product_of,
    sum_of,
)
from openinfer.lowering.emit.operations import hint_of
from openinfer.lowering.emit.shader import Buffer, no_text
from openinfer.lowering.emit.types import is_float, vector_type, width_of
from openinfer.lowering.emit.writing import Writer
from openinfer.lowering.locations import location_of

_UNPACK = {(16, True): "unpackFloat2x16", (16, False): "unpack16", (8, False): "unpack8"}
"""By width, and whether the elements are floats."""


def place_of(writer: Writer, buffer: Buffer, indices: Sequence[SSAValue]) -> Expression:
    """The number of an element from where the binding begins."""
    place = number(0)
    for axis, index in enumerate(indices):
        moved = place if place.number == 0 else product_of(place, writer.shader.dim(buffer, axis))
        place = sum_of(moved, writer.use(index))
    return sum_of(writer.shader.first(buffer), place)


def wide_place(
    writer: Writer, buffer: Buffer, indices: Sequence[SSAValue], count: int
) -> Expression:
    """The number of an access of `count` neighbours."""
    place = place_of(writer, buffer, indices)
    return place if buffer.is_shared else binary("/", place, number(count))


def load(writer: Writer, op: memref.LoadOp) -> None:
    buffer = writer.buffers[op.memref]
    place = place_of(writer, buffer, op.indices)
    if isinstance(buffer.element, VectorType):
        unpacked(writer, op, op.res, element(buffer.array, place))
        return
    array = writer.shader.array(buffer, writer.shader.type(buffer.element), read=True)
    writer.define(op.res, replace(element(array, place), reads=True), op)


def store(writer: Writer, op: memref.StoreOp) -> None:
    buffer = writer.buffers[op.memref]
    place = place_of(writer, buffer, op.indices)
    if isinstance(buffer.element, VectorType):
        array, value = buffer.array, packed(writer, op.value)
    else:
        array = writer.shader.array(buffer, writer.shader.type(buffer.element), read=False)
        value = writer.use(op.value)
    writer.settle_reads()
    writer.statement(op, f"{array}[{place.text}] = {value.text};")


def load_wide(writer: Writer, op: vector.LoadOp) -> None:
    buffer, kind = writer.buffers[op.base], op.result.type
    assert isinstance(kind, VectorType)
    count = kind.element_count()
    place = wide_place(writer, buffer, op.indices, count)
    wide = writer.shader.wide_type(buffer.element, count)
    array = writer.shader.array(buffer, wide, read=True)
    unpacked(writer, op, op.result, element(array, place))


def store_wide(writer: Writer, op: vector.StoreOp) -> None:
    buffer, kind = writer.buffers[op.base], op.vector.type
    assert isinstance(kind, VectorType)
    count = kind.element_count()
    place = wide_place(writer, buffer, op.indices, count)
    wide = writer.shader.wide_type(buffer.element, count)
    array = writer.shader.array(buffer, wide, read=False)
    value = packed(writer, op.vector)
    writer.settle_reads()
    writer.statement(op, f"{array}[{place.text}] = {value.text};")


def dim(writer: Writer, op: memref.DimOp) -> None:
    axis = op.index.owner
    assert isinstance(axis, arith.ConstantOp)
    assert isinstance(axis.value, IntegerAttr)
    if op.result.uses.get_length():
        buffer = writer.buffers[op.source]
        writer.values[op.result] = writer.shader.dim(buffer, axis.value.value.data)


def collapsed(writer: Writer, op: memref.CollapseShapeOp) -> None:
    """A view in which neighbouring axes are one."""
    buffer = writer.buffers[op.src]
    dims: list[Expression] = []
    for group in op.reassociation:
        extent = number(1)
        for axis in group.data:
            extent = product_of(extent, writer.shader.dim(buffer, axis.value.data))
        dims.append(extent)
    writer.buffers[op.result] = replace(buffer, dims=tuple(dims))


def allocate(writer: Writer, op: memref.AllocaOp) -> None:
    if not is_shared(op.memref.type):
        raise no_text("memory of an invocation", location_of(op))
    assert isinstance(op.memref.type, MemRefType)
    wanted = op.memref.name_hint or "memory"
    writer.buffers[op.memref] = writer.shader.shared(op.memref.type, wanted)


# Neighbours in one access


def unpacked(writer: Writer, op: Operation, value: SSAValue, access: Expression) -> None:
    """A variable for what is loaded, and its elements."""
    kind = value.type
    assert isinstance(kind, VectorType)
    scalar, count = kind.element_type, kind.element_count()
    wide = writer.shader.wide_type(scalar, count)
    text = writer.shader.names.new(value.name_hint or hint_of(op))
    writer.statement(op, f"{wide} {text} = {access.text};")
    whole = name(text)
    if count <= 4:
        writer.lanes[value] = [component(whole, lane) for lane in range(count)]
        return
    lanes: list[SSAValue | Expression] = []
    each = 32 // width_of(scalar)
    function = _UNPACK[width_of(scalar), is_float(scalar)]
    for word in range(count // each):
        part = writer.shader.names.new(f"{text}_part")
        taken = call(function, component(whole, word))
        kind_of_part = vector_type(writer.shader.type(scalar), each)
        writer.statement(op, f"{kind_of_part} {part} = {taken.text};")
        lanes += [component(name(part), lane) for lane in range(each)]
    writer.lanes[value] = lanes


def packed(writer: Writer, value: SSAValue) -> Expression:
    """What is stored in one access."""
    kind = value.type
    assert isinstance(kind, VectorType)
    scalar, lanes = kind.element_type, writer.lanes[value]
    wide = writer.shader.wide_type(scalar, len(lanes))
    parts = [written(writer, lane, repeated=lanes.count(lane) > 1) for lane in lanes]
    if len(parts) <= 4:
        return _vector(wide, parts)
    each = 32 // width_of(scalar)
    function = "packFloat2x16" if is_float(scalar) else "pack32"
    inner = vector_type(writer.shader.type(scalar), each)
    words = [
        call(function, call(inner, *parts[start : start + each]))
        for start in range(0, len(parts), each)
    ]
    return call(wide, *words)


def written(writer: Writer, lane: SSAValue | Expression, *, repeated: bool) -> Expression:
    if isinstance(lane, Expression):
        return lane
    return writer.named(lane) if repeated else writer.use(lane)


def extract(writer: Writer, op: vector.ExtractOp) -> None:
    found = writer.lanes[op.vector][_position(op.static_position)]
    writer.values[op.result] = found if isinstance(found, Expression) else writer.named(found)


def broadcast(writer: Writer, op: vector.BroadcastOp) -> None:
    assert isinstance(op.vector.type, VectorType)
    writer.lanes[op.vector] = [op.source] * op.vector.type.element_count()


def insert(writer: Writer, op: vector.InsertOp) -> None:
    writer.lanes[op.result] = found = list(writer.lanes[op.dest])
    found[_position(op.static_position)] = op.source


def dot(writer: Writer, op: DotBytesOp) -> None:
    """The products of two vectors of bytes one by one: not every compiler knows the function for it."""
    kind = writer.shader.type(IntegerType(8))
    found = writer.use(op.sum)
    for x, y in zip(writer.lanes[op.a], writer.lanes[op.b]):
        pair = [written(writer, value, repeated=True) for value in (x, y)]
        if op.unsigned is not None:
            pair = [call(f"u{kind}", value) for value in pair]
        found = binary("+", found, binary("*", *(call("int", value) for value in pair)))
    writer.define(op.result, found, op)


def _vector(kind: str, parts: Sequence[Expression]) -> Expression:
    """A vector of some components; the variable that they are of, where they are all that it has."""
    text = parts[0].text
    if all(part.text == text for part in parts):
        return call(kind, parts[0])
    return call(kind, *parts)


def _position(place: DenseArrayBase[IntegerType]) -> int:
    """The number of an element in a vector."""
    (lane,) = place.get_values()
    return int(lane)


STATEMENTS: dict[type[Operation], Callable[..., None]] = {
    memref.LoadOp: load,
    memref.StoreOp: store,
    memref.DimOp: dim,
    memref.CollapseShapeOp: collapsed,
    memref.AllocaOp: allocate,
    vector.LoadOp: load_wide,
    vector.StoreOp: store_wide,
    vector.ExtractOp: extract,
    vector.BroadcastOp: broadcast,
    vector.InsertOp: insert,
    DotBytesOp: dot,
}
