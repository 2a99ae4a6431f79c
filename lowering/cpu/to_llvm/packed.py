"""Buffers of i4, i2 and i1: elements share bytes, the first one in the lowest bits.

Element `k` of a buffer of `iN` lies at bit `k * N`. Reading one is a load of its byte and a shift;
writing one is a read, a merge and a store of its byte, so two threads must never write into the same
byte (`lowering/cpu/threads/share_loops.py` sees to that). Vectors are in
`lowering/cpu/to_llvm/packed_vectors.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

import numpy as np
from xdsl.dialects import llvm, memref
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    NoneAttr,
    VectorType,
    i8,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects.extensions.llvm_intrinsics import INTRINSICS
from openinfer.lowering.cpu.to_llvm.converter import Buffer, Converter, Int
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import to_storage

NO_WRAP: dict[str, Attribute] = {"overflowFlags": IntegerAttr(0, 32)}


def width_of(element: Attribute) -> int:
    """The bits of a packed element."""
    return cast(IntegerType, element).bitwidth


def elements_per_byte(element: Attribute) -> int:
    return 8 // width_of(element)


def bytes_for(count: int, element: Attribute) -> int:
    """Bytes that hold `count` elements."""
    return -(-count * width_of(element) // 8)


# Single elements ----------------------------------------------------------------------------------


def load(c: Converter, buffer: Buffer, indices: Sequence[SSAValue]) -> SSAValue:
    """One element, as the integer that it is."""
    return _load_at(c, buffer, c.position(buffer, indices))


def _load_at(c: Converter, buffer: Buffer, position: Int) -> SSAValue:
    address, shift = place(c, buffer, position)
    byte = c.load(address, i8, 1)
    if shift != 0:
        byte = c.emit(llvm.LShrOp, (byte, byte_constant(c, shift)), i8)
    return c.emit(llvm.TruncOp, (byte,), buffer.element)


def store(c: Converter, value: SSAValue, buffer: Buffer, indices: Sequence[SSAValue]) -> None:
    """One element; the others of its byte stay."""
    _store_at(c, value, buffer, c.position(buffer, indices))


def _store_at(c: Converter, value: SSAValue, buffer: Buffer, position: Int) -> None:
    store_field(c, c.emit(llvm.ZExtOp, (value,), i8), buffer, position)


def place(c: Converter, buffer: Buffer, position: Int) -> tuple[SSAValue, Int]:
    """The address of an element's byte, and the number of bits below it there (an int or an i8)."""
    width = width_of(buffer.element)
    each = 8 // width
    if isinstance(position, int):
        return c.address(buffer.pointer, position // each, i8), position % each * width
    key = ("byte", position, width)
    byte = c.share(key, lambda: c.emit(llvm.LShrOp, (position, c.as_value(log2(each))), i64))
    address = c.address(buffer.pointer, byte, i8)
    if c.multiples.of(position) % each == 0:
        return address, 0

    def bits() -> SSAValue:
        rest = c.emit(llvm.AndOp, (position, c.as_value(each - 1)), i64)
        shift = c.emit(llvm.ShlOp, (rest, c.as_value(log2(width))), i64, NO_WRAP)
        return c.emit(llvm.TruncOp, (shift,), i8)

    return address, c.share(("shift", position, width), bits)


def store_field(c: Converter, wide: SSAValue, buffer: Buffer, position: Int) -> None:
    """Merges the low bits of an i8, whose others are 0, into the byte of an element."""
    address, shift = place(c, buffer, position)
    mask = (1 << width_of(buffer.element)) - 1
    old = c.load(address, i8, 1)
    if isinstance(shift, int):
        kept = c.emit(llvm.AndOp, (old, byte_constant(c, ~(mask << shift))), i8)
    else:
        field = c.emit(llvm.ShlOp, (byte_constant(c, mask), shift), i8, NO_WRAP)
        inverse = c.emit(llvm.XOrOp, (field, byte_constant(c, -1)), i8)
        kept = c.emit(llvm.AndOp, (old, inverse), i8)
    if shift != 0:
        wide = c.emit(llvm.ShlOp, (wide, byte_constant(c, shift)), i8, NO_WRAP)
    c.store(c.emit(llvm.OrOp, (kept, wide), i8), address, 1)


def byte_constant(c: Converter, number: Int) -> SSAValue:
    """A small number, or what is an i8 already, as an i8."""
    if isinstance(number, SSAValue):
        return number
    return c.integer_constant((number + 128) % 256 - 128, i8)


def log2(number: int) -> int:
    """Of a power of two."""
    return number.bit_length() - 1


# Whole buffers ------------------------------------------------------------------------------------


def copy(c: Converter, op: memref.CopyOp) -> None:
    """Bytes where both are whole buffers, else element by element."""
    source, target = c.buffer(op.source), c.buffer(op.destination)
    kinds = [cast(MemRefType, value.type) for value in (op.source, op.destination)]
    if all(isinstance(kind.layout, NoneAttr) for kind in kinds):
        count: Int = width_of(source.element)
        for extent in target.sizes:
            count = c.multiply(count, extent)
        properties: dict[str, Attribute] = {"isVolatile": IntegerAttr.from_bool(False)}
        if isinstance(count, int):
            length = c.as_value(-(-count // 8))
        else:
            length = c.emit(llvm.LShrOp, (c.as_value(c.add(count, 7)), c.as_value(3)), i64)
        c.emit(INTRINSICS["memcpy"], (target.pointer, source.pointer, length), None, properties)
        return
    _copy_elements(c, source, target, source.offset, target.offset, 0)


def _copy_elements(
    c: Converter, source: Buffer, target: Buffer, here: Int, there: Int, axis: int
) -> None:
    """The elements of the axes from `axis` on, the first ones at the positions `here`, `there`."""
    if axis == len(source.sizes):
        _store_at(c, _load_at(c, source, here), target, there)
        return

    def body(index: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
        places = [
            c.add(start, c.multiply(index, buffer.strides[axis]))
            for start, buffer in ((here, source), (there, target))
        ]
        _copy_elements(c, source, target, places[0], places[1], axis + 1)
        return ()

    c.loop(0, source.sizes[axis], 1, (), body)


def byte_address(c: Converter, buffer: Buffer, indices: Sequence[SSAValue]) -> SSAValue:
    """The address of the byte that holds an element."""
    return address_of(c, buffer, c.position(buffer, indices))


def address_of(c: Converter, buffer: Buffer, position: Int) -> SSAValue:
    """The address of the byte that holds the element at a position."""
    return place(c, buffer, position)[0]


def packed_constant(value: DenseIntOrFPElementsAttr, type: MemRefType) -> DenseIntOrFPElementsAttr:
    """The bytes that a static buffer starts with."""
    numbers = np.array([int(cast(int, v)) for v in value.iter_values()], np.int64)
    dtype = DTYPES[f"u{width_of(type.element_type)}"]
    stored = to_storage(dtype, np.resize(numbers, prod(type.get_shape())))
    kind = VectorType(i8, [stored.size])
    return DenseIntOrFPElementsAttr.from_list(kind, stored.view(np.int8).tolist())
