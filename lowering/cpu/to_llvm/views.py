"""Views of memrefs: arithmetic on their descriptions, no instruction where all is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import llvm, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    i8,
    i64,
)
from xdsl.ir import Operation, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.extensions.llvm import SelectOp
from openinfer.dialects.nn.elements import is_packed
from openinfer.lowering.cpu.to_llvm import packed
from openinfer.lowering.cpu.to_llvm.converter import Buffer, Converter, Int, Rule
from openinfer.lowering.memref_layout import memref_layout
from openinfer.runtime.errors import CompileError


def contiguous_strides(c: Converter, sizes: Sequence[Int]) -> list[Int]:
    """The strides of the identity layout."""
    strides: list[Int] = [1] * len(sizes)
    for dimension in range(len(sizes) - 2, -1, -1):
        strides[dimension] = c.multiply(strides[dimension + 1], sizes[dimension + 1])
    return strides


def buffer_from_parts(c: Converter, type: MemRefType, parts: Sequence[SSAValue]) -> Buffer:
    """The description of a memref argument, from what `types.argument_parts` lists."""
    sizes, strides, offset = memref_layout(type)
    rest = iter(parts[1:])
    actual_sizes: list[Int] = [next(rest) if size is None else size for size in sizes]
    if type.layout == NoneAttr():
        return Buffer(
            parts[0], 0, actual_sizes, contiguous_strides(c, actual_sizes), type.element_type
        )
    actual_offset: Int = next(rest) if offset is None else offset
    actual_strides: list[Int] = [next(rest) if stride is None else stride for stride in strides]
    return Buffer(parts[0], actual_offset, actual_sizes, actual_strides, type.element_type)


def parts_of_buffer(c: Converter, buffer: Buffer, type: MemRefType) -> list[SSAValue]:
    """The operands by which a buffer is passed as `type`; the inverse of `buffer_from_parts`."""
    sizes, strides, offset = memref_layout(type)
    pointer = buffer.pointer
    if offset is not None and buffer.offset != offset:
        pointer = _moved(c, buffer, c.subtract(buffer.offset, offset))
    parts = [pointer]
    parts += [c.as_value(buffer.sizes[i]) for i, size in enumerate(sizes) if size is None]
    if type.layout != NoneAttr():
        if offset is None:
            parts.append(c.as_value(buffer.offset))
        parts += [c.as_value(buffer.strides[i]) for i, s in enumerate(strides) if s is None]
    return parts


def _moved(c: Converter, buffer: Buffer, position: Int) -> SSAValue:
    """The address so many elements behind the buffer's pointer."""
    if not is_packed(buffer.element):
        return c.address(buffer.pointer, position, buffer.element)
    if c.multiples.of(position) % packed.elements_per_byte(buffer.element):
        raise CompileError(
            "OI0980", f"a view of {buffer.element} is passed that may begin within a byte"
        )
    return packed.address_of(c, buffer, position)


def _mixed(c: Converter, static: Sequence[int], dynamic: Sequence[SSAValue]) -> list[Int]:
    rest = iter(dynamic)
    return [c.integer(next(rest)) if n == DYNAMIC_INDEX else n for n in static]


def _subview(c: Converter, op: Operation) -> None:
    assert isinstance(op, memref.SubviewOp)
    source = c.buffer(op.source)
    offsets = _mixed(c, op.static_offsets.get_values(), op.offsets)
    sizes = _mixed(c, op.static_sizes.get_values(), op.sizes)
    steps = _mixed(c, op.static_strides.get_values(), op.strides)
    offset = source.offset
    for start, stride in zip(offsets, source.strides, strict=True):
        offset = c.add(offset, c.multiply(start, stride))
    strides = [c.multiply(step, stride) for step, stride in zip(steps, source.strides, strict=True)]
    kept = _kept_dimensions(op, sizes)
    view = Buffer(
        source.pointer, offset, [sizes[i] for i in kept], [strides[i] for i in kept], source.element
    )
    c.set_buffer(op.result, view)


def _kept_dimensions(op: memref.SubviewOp, sizes: list[Int]) -> list[int]:
    """The dimensions that a subview keeps; one to a type of lower rank drops some of size 1."""
    type = op.result.type
    dropped = len(sizes) - type.get_num_dims()
    if not dropped:
        return list(range(len(sizes)))
    result_sizes = type.get_shape()
    static = op.static_sizes.get_values()
    kept: list[int] = []
    for i, size in enumerate(static):
        position = len(kept)
        matches = position < len(result_sizes) and size == result_sizes[position]
        remaining = len(static) - i
        must_keep = remaining == len(result_sizes) - position
        # A kept dimension of size 1 is ambiguous by sizes alone: the result's strides decide.
        if must_keep or (matches and not (size == 1 and _drops(op, i, position))):
            kept.append(i)
    if len(kept) != len(result_sizes):
        raise CompileError("OI0980", f"'memref.subview' to {type} drops a dimension that is not 1")
    return kept


def _drops(op: memref.SubviewOp, dimension: int, position: int) -> bool:
    source_strides = memref_layout(cast(MemRefType, op.source.type))[1]
    result_strides = memref_layout(op.result.type)[1]
    return source_strides[dimension] != result_strides[position]


def _view(c: Converter, op: Operation) -> None:
    assert isinstance(op, memref.ViewOp)
    source = c.buffer(op.source)
    start = c.add(source.offset, c.integer(op.byte_shift))
    pointer = c.address(source.pointer, start, i8)
    type = op.result.type
    shape = [DYNAMIC_INDEX if size is None else size for size in memref_layout(type)[0]]
    sizes = _mixed(c, shape, op.sizes)
    strides = contiguous_strides(c, sizes)
    c.set_buffer(op.result, Buffer(pointer, 0, sizes, strides, type.element_type))


def _part(c: Converter, op: Operation) -> None:
    assert isinstance(op, nn.SubviewOp)
    source = c.buffer(op.source)
    offset = c.add(source.offset, c.multiply(c.integer(op.index), source.strides[0]))
    sizes: list[Int] = [1, *source.sizes[1:]]
    view = Buffer(source.pointer, offset, sizes, list(source.strides), source.element)
    c.set_buffer(op.view, view)


def _reinterpret_cast(c: Converter, op: Operation) -> None:
    assert isinstance(op, memref.ReinterpretCastOp)
    source = c.buffer(op.source)
    offset = _mixed(c, op.static_offsets.get_values(), op.offsets)[0]
    sizes = _mixed(c, op.static_sizes.get_values(), op.sizes)
    strides = _mixed(c, op.static_strides.get_values(), op.strides)
    c.set_buffer(op.result, Buffer(source.pointer, offset, sizes, strides, source.element))


def _reassociation(op: memref.CollapseShapeOp | memref.ExpandShapeOp) -> list[list[int]]:
    groups: list[list[int]] = []
    for group in op.reassociation:  # pyright: ignore[reportUnknownVariableType]
        groups.append([cast(IntegerAttr, i).value.data for i in group])  # pyright: ignore
    return groups


def _expand_shape(c: Converter, op: Operation) -> None:
    assert isinstance(op, memref.ExpandShapeOp)
    source = c.buffer(op.src)
    sizes = _mixed(c, op.static_output_shape.get_values(), op.output_shape)
    strides: list[Int] = [0] * len(sizes)
    for dimension, group in enumerate(_reassociation(op)):
        stride = source.strides[dimension]
        for i in reversed(group):
            strides[i] = stride
            stride = c.multiply(stride, sizes[i])
    for i in range(len(sizes)):
        if not any(i in group for group in _reassociation(op)):
            strides[i] = 1  # a memref without dimensions gets dimensions of size 1
    c.set_buffer(op.result, Buffer(source.pointer, source.offset, sizes, strides, source.element))


def _collapse_shape(c: Converter, op: Operation) -> None:
    assert isinstance(op, memref.CollapseShapeOp)
    source = c.buffer(op.src)
    sizes: list[Int] = []
    strides: list[Int] = []
    for group in _reassociation(op):
        size: Int = 1
        for i in group:
            size = c.multiply(size, source.sizes[i])
        # Only the innermost dimension that has more than one element says how far one step goes.
        inner = next((i for i in reversed(group) if source.sizes[i] != 1), group[-1])
        sizes.append(size)
        strides.append(source.strides[inner])
    c.set_buffer(op.result, Buffer(source.pointer, source.offset, sizes, strides, source.element))


def _alias(c: Converter, op: Operation) -> None:
    source = c.buffer(op.operands[0])
    c.set_buffer(op.results[0], source)


def _cast(c: Converter, op: Operation) -> None:
    source = c.buffer(op.operands[0])
    type = op.results[0].type
    if not isinstance(type, MemRefType):
        raise CompileError("OI0980", "'memref.cast' to an unranked memref is not supported")
    sizes, strides, offset = memref_layout(type)
    # What the new type promises is taken as known.
    c.set_buffer(
        op.results[0],
        Buffer(
            source.pointer,
            source.offset if offset is None or isinstance(source.offset, int) else offset,
            [old if new is None else new for old, new in zip(source.sizes, sizes, strict=True)],
            [old if new is None else new for old, new in zip(source.strides, strides, strict=True)],
            source.element,
        ),
    )


def _dim(c: Converter, op: Operation) -> None:
    buffer = c.buffer(op.operands[0])
    index = c.integer(op.operands[1])
    if isinstance(index, int):
        if not 0 <= index < len(buffer.sizes):
            raise CompileError(
                "OI0980", f"'memref.dim' {index} of a rank {len(buffer.sizes)} memref"
            )
        c.set_integer(op.results[0], buffer.sizes[index])
        return
    size = c.as_value(buffer.sizes[-1])
    properties = {"fastmathFlags": llvm.FastMathAttr(None)}
    for i, candidate in enumerate(buffer.sizes[:-1]):
        is_this = c.compare("eq", index, c.as_value(i))
        size = c.emit(SelectOp, (is_this, c.as_value(candidate), size), i64, properties)
    c.set(op.results[0], size)


def _metadata(c: Converter, op: Operation) -> None:
    buffer = c.buffer(op.operands[0])
    rank = len(buffer.sizes)
    c.set_buffer(op.results[0], Buffer(buffer.pointer, 0, [], [], buffer.element))
    numbers = [buffer.offset, *buffer.sizes, *buffer.strides]
    for result, number in zip(op.results[1:], numbers[: 2 * rank + 1], strict=True):
        c.set_integer(result, number)


def _pointer_as_index(c: Converter, op: Operation) -> None:
    buffer = c.buffer(op.operands[0])
    c.set(op.results[0], c.emit(llvm.PtrToIntOp, (buffer.pointer,), i64))


RULES: dict[str, Rule] = {
    "memref.assume_alignment": _alias,
    "memref.cast": _cast,
    "memref.collapse_shape": _collapse_shape,
    "memref.dim": _dim,
    "memref.expand_shape": _expand_shape,
    "memref.extract_aligned_pointer_as_index": _pointer_as_index,
    "memref.extract_strided_metadata": _metadata,
    "memref.memory_space_cast": _alias,
    "memref.reinterpret_cast": _reinterpret_cast,
    "memref.subview": _subview,
    "memref.view": _view,
    "nn.subview": _part,
}
"""Rules by op name."""
