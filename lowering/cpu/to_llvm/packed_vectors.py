"""Vectors of packed elements: `vector` ops on buffers of i4, i2 and i1.

One that is known to begin and to end with a byte moves as whole bytes. One of up to 64 bits that may
begin anywhere is shifted into its place; a masked or longer one is gathered byte by byte, and stored
lane by lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    IntegerAttr,
    IntegerType,
    VectorType,
    i8,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects.extensions.llvm import ExtractElementOp, GEPOp, SelectOp
from openinfer.dialects.extensions.llvm_intrinsics import INTRINSICS
from openinfer.lowering.attributes import dense_i32
from openinfer.lowering.cpu.to_llvm.converter import Buffer, Converter, Int
from openinfer.lowering.cpu.to_llvm.packed import (
    NO_WRAP,
    byte_constant,
    bytes_for,
    log2,
    place,
    store_field,
    width_of,
)
from openinfer.lowering.cpu.to_llvm.types import POINTER

_NO_FLAGS: dict[str, Attribute] = {"fastmathFlags": llvm.FastMathAttr(None)}


def load_vector(
    c: Converter,
    buffer: Buffer,
    indices: Sequence[SSAValue],
    type: VectorType,
    masked: tuple[SSAValue, SSAValue] | None = None,
) -> SSAValue:
    """Neighbours; with `masked` (mask, rest) only those of the mask are touched."""
    position = c.position(buffer, indices)
    if masked is None and _whole_bytes(c, buffer.element, position, type):
        return _unpack(c, buffer.element, _load_bytes(c, buffer, position, type), type)
    if masked is None and _bits(buffer.element, type) <= 64:
        return _unpack(c, buffer.element, _load_bits(c, buffer, position, type), type)
    steps = c.constant_vector(range(_length(type)), _lanes(type, i64))
    return gather(c, buffer, positions_from(c, buffer, indices, steps), type, masked)


def positions_from(
    c: Converter, buffer: Buffer, indices: Sequence[SSAValue], steps: SSAValue
) -> SSAValue:
    """The positions so many steps (a vector of integers) behind an element."""
    wide = VectorType(i64, cast(VectorType, steps.type).shape)
    if steps.type != wide:
        steps = c.emit(llvm.SExtOp, (steps,), wide)
    start = c.broadcast(c.as_value(c.position(buffer, indices)), wide)
    return c.emit(llvm.AddOp, (start, steps), wide, NO_WRAP)


def gather(
    c: Converter,
    buffer: Buffer,
    positions: SSAValue,
    type: VectorType,
    masked: tuple[SSAValue, SSAValue] | None,
) -> SSAValue:
    """The elements at a vector of positions."""
    width = width_of(buffer.element)
    each = 8 // width
    wide, narrow = _lanes(type, i64), _lanes(type, i8)
    places = c.emit(llvm.LShrOp, (positions, c.splat(log2(each), wide)), wide)
    addresses = GEPOp.create(
        operands=(buffer.pointer, places),
        result_types=(_lanes(type, POINTER),),
        properties={
            "rawConstantIndices": dense_i32([llvm.GEP_USE_SSA_VAL]),
            "elem_type": i8,
            "noWrapFlags": IntegerAttr(0, 32),
        },
    )
    c.append(addresses)
    truth = _lanes(type, IntegerType(1))
    mask = masked[0] if masked is not None else c.splat(-1, truth)
    operands = (addresses.result, mask, c.splat(0, narrow))
    loaded = c.emit(
        INTRINSICS["masked.gather"], operands, narrow, {"alignment": IntegerAttr(1, 32)}
    )
    rest = c.emit(llvm.AndOp, (positions, c.splat(each - 1, wide)), wide)
    short = c.emit(llvm.TruncOp, (rest,), narrow)
    shifts = c.emit(llvm.ShlOp, (short, c.splat(log2(width), narrow)), narrow, NO_WRAP)
    fields = c.emit(llvm.LShrOp, (loaded, shifts), narrow)
    found = c.emit(llvm.TruncOp, (fields,), type)
    return found if masked is None else c.emit(SelectOp, (mask, found, masked[1]), type, _NO_FLAGS)


def store_vector(
    c: Converter,
    value: SSAValue,
    buffer: Buffer,
    indices: Sequence[SSAValue],
    mask: SSAValue | None = None,
) -> None:
    """Stores neighbours; those that the mask leaves out, and their bytes, are not touched."""
    type = cast(VectorType, value.type)
    position = c.position(buffer, indices)
    if mask is None and _whole_bytes(c, buffer.element, position, type):
        address, _ = place(c, buffer, position)
        c.store(_pack(c, buffer.element, value), address, 1)
        return
    if mask is None and _bits(buffer.element, type) <= 64:
        _store_bits(c, value, buffer, position)
        return
    narrow = _lanes(type, i8)
    fields = c.emit(llvm.ZExtOp, (value,), narrow)
    flags = None if mask is None else c.emit(llvm.ZExtOp, (mask,), narrow)

    def one(lane: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
        field = c.emit(ExtractElementOp, (fields, lane), i8)
        here = c.add(position, lane)
        if flags is None:
            store_field(c, field, buffer, here)
            return ()
        flag = c.emit(ExtractElementOp, (flags, lane), i8)
        taken, after = c.new_block(), c.new_block()
        c.branch_if(c.compare("ne", flag, byte_constant(c, 0)), taken, (), after, ())
        c.enter(taken)
        saved = c.scoped()
        store_field(c, field, buffer, here)
        c.branch(after)
        c.restore(saved)
        c.enter(after)
        return ()

    c.loop(0, _length(type), 1, (), one)


def _whole_bytes(c: Converter, element: Attribute, position: Int, type: VectorType) -> bool:
    each = 8 // width_of(element)
    return _length(type) % each == 0 and c.multiples.of(position) % each == 0


def _bits(element: Attribute, type: VectorType) -> int:
    return width_of(element) * _length(type)


def _load_bytes(c: Converter, buffer: Buffer, position: Int, type: VectorType) -> SSAValue:
    address, _ = place(c, buffer, position)
    return c.load(address, VectorType(i8, [bytes_for(_length(type), buffer.element)]), 1)


def _unpack(c: Converter, element: Attribute, loaded: SSAValue, type: VectorType) -> SSAValue:
    """The elements of some bytes, the first one in the lowest bits."""
    width, length = width_of(element), _length(type)
    if width == 1 and length % 8 == 0:
        return c.emit(llvm.BitcastOp, (loaded,), type)
    narrow = _lanes(type, i8)
    spread = _shuffle(c, loaded, [lane * width // 8 for lane in range(length)], narrow)
    shifts = c.constant_vector([lane * width % 8 for lane in range(length)], narrow)
    return c.emit(llvm.TruncOp, (c.emit(llvm.LShrOp, (spread, shifts), narrow),), type)


def _pack(c: Converter, element: Attribute, value: SSAValue) -> SSAValue:
    """The bytes of some elements; what is left of the last byte is zero."""
    type = cast(VectorType, value.type)
    width, length = width_of(element), _length(type)
    raw = VectorType(i8, [bytes_for(length, element)])
    if width == 1 and length % 8 == 0:
        return c.emit(llvm.BitcastOp, (value,), raw)
    narrow = _lanes(type, i8)
    wide = c.emit(llvm.ZExtOp, (value,), narrow)
    shifts = c.constant_vector([lane * width % 8 for lane in range(length)], narrow)
    shifted = c.emit(llvm.ShlOp, (wide, shifts), narrow, NO_WRAP)
    zeros = c.splat(0, narrow)
    total: SSAValue | None = None
    for field in range(8 // width):
        # Lanes that there are not come from the second operand.
        lanes = [lane if lane < length else length for lane in range(field, 8 * 64, 8 // width)]
        part = _shuffle(c, shifted, lanes[: raw.get_shape()[0]], raw, zeros)
        total = part if total is None else c.emit(llvm.OrOp, (total, part), raw)
    assert total is not None
    return total


def _load_bits(c: Converter, buffer: Buffer, position: Int, type: VectorType) -> SSAValue:
    """The bytes of a vector that may begin within one, shifted to their beginning."""
    element, length = buffer.element, _length(type)
    whole = IntegerType(8 * bytes_for(length, element))
    address, shift = place(c, buffer, position)
    last, _ = place(c, buffer, c.add(position, length - 1))
    low = c.load(address, whole, 1)
    high = (
        c.emit(llvm.ZExtOp, (c.load(last, i8, 1),), whole) if whole != i8 else c.load(last, i8, 1)
    )
    below = _wider(c, shift, whole)
    # Where the vector begins with a byte, both shifts of the last byte leave nothing of it.
    one = c.integer_constant(1, whole)
    rest = c.emit(
        llvm.SubOp, (c.integer_constant(whole.bitwidth - 1, whole), below), whole, NO_WRAP
    )
    high = c.emit(llvm.ShlOp, (high, one), whole, NO_WRAP)
    high = c.emit(llvm.ShlOp, (high, rest), whole, NO_WRAP)
    bits = c.emit(llvm.OrOp, (c.emit(llvm.LShrOp, (low, below), whole), high), whole)
    return c.emit(llvm.BitcastOp, (bits,), VectorType(i8, [whole.bitwidth // 8]))


def _store_bits(c: Converter, value: SSAValue, buffer: Buffer, position: Int) -> None:
    """Stores a vector that may begin within a byte; the bits around it stay."""
    element, length = buffer.element, _length(value.type)
    whole = IntegerType(8 * bytes_for(length, element))
    count = length * width_of(element)
    bits = c.emit(llvm.BitcastOp, (_pack(c, element, value),), whole)
    field = c.integer_constant(_signed((1 << count) - 1, whole.bitwidth), whole)
    address, shift = place(c, buffer, position)
    below = _wider(c, shift, whole)
    old = c.load(address, whole, 1)
    c.store(_merged(c, old, field, bits, below, llvm.ShlOp), address, 1)
    # What did not fit begins the byte behind.
    reach = c.emit(llvm.AddOp, (_wider(c, shift, i64), c.as_value(count)), i64, NO_WRAP)
    taken, after = c.new_block(), c.new_block()
    c.branch_if(c.compare("ugt", reach, c.as_value(whole.bitwidth)), taken, (), after, ())
    c.enter(taken)
    saved = c.scoped()
    last, _ = place(c, buffer, c.add(position, length - 1))
    above = c.integer_constant(whole.bitwidth, whole)
    above = c.emit(llvm.SubOp, (above, below), whole, NO_WRAP)
    wide = c.load(last, i8, 1)
    wide = c.emit(llvm.ZExtOp, (wide,), whole) if whole != i8 else wide
    new = _merged(c, wide, field, bits, above, llvm.LShrOp)
    c.store(c.emit(llvm.TruncOp, (new,), i8) if whole != i8 else new, last, 1)
    c.branch(after)
    c.restore(saved)
    c.enter(after)


def _merged(
    c: Converter,
    old: SSAValue,
    field: SSAValue,
    bits: SSAValue,
    by: SSAValue,
    shift: type[llvm.ShlOp] | type[llvm.LShrOp],
) -> SSAValue:
    """`old` with the shifted bits in the place of the shifted field."""
    properties = NO_WRAP if shift is llvm.ShlOp else {}
    moved = c.emit(shift, (field, by), old.type, properties)
    kept = c.emit(llvm.XOrOp, (moved, c.splat(-1, old.type)), old.type)
    kept = c.emit(llvm.AndOp, (old, kept), old.type)
    return c.emit(llvm.OrOp, (kept, c.emit(shift, (bits, by), old.type, properties)), old.type)


def _wider(c: Converter, number: Int, type: IntegerType) -> SSAValue:
    """A small number, an int or an i8, as an integer of another type."""
    if isinstance(number, int):
        return c.integer_constant(number, type)
    return number if type == i8 else c.emit(llvm.ZExtOp, (number,), type)


def _signed(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> (bits - 1) else number


def _shuffle(
    c: Converter,
    value: SSAValue,
    lanes: Sequence[int],
    type: VectorType,
    other: SSAValue | None = None,
) -> SSAValue:
    mask = dense_i32(lanes)
    return c.emit(llvm.ShuffleVectorOp, (value, other or value), type, {"mask": mask})


def _length(type: Attribute) -> int:
    return cast(VectorType, type).get_shape()[0]


def _lanes(type: VectorType, element: Attribute) -> VectorType:
    return VectorType(element, type.shape)
