"""Storage arrays to value arrays and back, for every row of the dtype table.

A *storage* array holds bytes as packages and compiled code do; a *value* array holds what the
reference semantics compute with (`runtime/dtypes.py`). Widening is exact. Narrowing rounds once, to
nearest even: `f16`, `bf16` and `f8` overflow to infinity as IEEE says, `f8e4m3` has no infinity and
overflows to NaN, a NaN stays a NaN. Packed types hold element `k` at bit `k * bits`, least
significant bit first, without padding between rows; the last byte is padded with zeros. Block formats
hold whole rows of blocks, as bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openinfer.runtime.dtypes import DTYPES, DType
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.unpacking import unpacked

AnyArray = NDArray[Any]
_PIECE = 1 << 18
"""So many values of blocks are unpacked at once, which bounds the memory beside the result."""


@dataclass(frozen=True)
class _Format:
    """A binary float format that NumPy lacks."""

    mantissa: int
    min_exponent: int
    largest: float
    overflow: float


_FORMATS = {
    "bf16": _Format(7, -126, float.fromhex("0x1.fep127"), math.inf),
    "f8": _Format(2, -14, 57344.0, math.inf),
    "f8e4m3": _Format(3, -6, 448.0, math.nan),
}


def storage_dtype(dtype: DType) -> np.dtype[Any]:
    """NumPy type of one stored element, little-endian as in files."""
    return np.dtype(dtype.storage).newbyteorder("<")


def stored_shape(dtype: DType, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of a storage array: that of the values, or of bytes where values share them."""
    if dtype.block is not None:
        return (*shape[:-1], dtype.nbytes(shape[-1]))
    return (dtype.nbytes(element_count(shape)),) if dtype.packed else tuple(shape)


def block_problem(dtype: DType, shape: Sequence[int]) -> str | None:
    """Why rows of this shape are no whole blocks of `dtype`, or None when they are."""
    if dtype.block is None or (shape and shape[-1] % dtype.block.elements == 0):
        return None
    found = f"have {shape[-1]}" if shape else "are none"
    return f"rows of {dtype} have a multiple of {dtype.block.elements} values, these {found}"


def element_count(shape: Sequence[int]) -> int:
    """Number of elements of `shape`; 1 for a scalar. Exact for any size."""
    return math.prod(shape)


def value_range(dtype: DType) -> tuple[int, int] | None:
    """Smallest and largest value of an integer-like dtype, None for floats and blocks of them."""
    if dtype.is_float or dtype.block is not None:
        return None
    if dtype.kind == "ternary":
        return (-1, 1)
    if dtype.kind == "bool":
        return (0, 1)
    if dtype.kind == "int":
        return (-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1)
    return (0, (1 << dtype.bits) - 1)


def to_values(
    dtype: DType, storage: AnyArray | bytes | bytearray | memoryview, shape: Sequence[int]
) -> AnyArray:
    """The value array of `shape` for stored bytes or a storage array.

    Types that NumPy has are not copied (`bool` is, when the bytes are not known to be 0 or 1).
    Raises ValueError when the number of bytes does not fit `shape`.
    """
    count = element_count(shape)
    known_bool = isinstance(storage, np.ndarray) and storage.dtype == np.bool_
    raw = _raw_bytes(storage)
    if raw.size != dtype.nbytes(count):
        raise ValueError(
            f"{dtype} of shape {list(shape)} takes {dtype.nbytes(count)} bytes, got {raw.size}"
        )
    if dtype.block is not None:
        return _from_blocks(dtype, raw, count, DTYPES["f32"]).reshape(shape)
    if dtype.packed:
        return _unpack(dtype, raw, count).reshape(shape)
    if dtype.name == "bool" and not known_bool:
        return (raw != 0).reshape(shape)
    # What NumPy computes of an array without axes is no array: the shape comes last.
    stored = raw.view(storage_dtype(dtype))
    if dtype.name == "bf16":
        stored = (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
    elif dtype.name in _FORMATS:
        stored = _decode_table(dtype.name)[stored]
    return stored.reshape(shape)


def to_storage(dtype: DType, values: Any) -> AnyArray:
    """The storage array for `values`: same shape, or 1-D packed bytes for a sub-byte dtype.

    Floats are rounded once; integers beyond the range wrap; ternary values are taken by their sign.
    The result is C-contiguous, and is `values` itself when nothing has to change. Raises ValueError
    for float values and an integer dtype: that conversion is a choice of the caller.
    """
    array = np.asarray(values)
    if dtype.block is not None:
        raise ValueError(f"values become {dtype} by quantisation, which is a choice of the caller")
    if dtype.is_float:
        if dtype.name in _FORMATS:
            return _encode(dtype.name, round_values(dtype, array))
        return np.asarray(round_values(dtype, array), order="C")
    if array.dtype.kind not in "iub":
        raise ValueError(f"{array.dtype} values cannot be stored as {dtype}")
    if dtype.kind == "bool":
        return np.asarray(array if array.dtype == np.bool_ else array != 0, order="C")
    if dtype.packed:
        return _pack(dtype, array)
    return np.asarray(array, dtype=dtype.storage, order="C")


def converted(dtype: DType, storage: AnyArray, shape: Sequence[int], wanted: DType) -> AnyArray:
    """The storage array of `wanted` for a storage array of `dtype`: floats are rounded once.

    Only for dtypes that `holds_all_of` allows. Blocks are unpacked piece by piece.
    """
    if dtype.block is not None:
        flat = _from_blocks(dtype, _raw_bytes(storage), element_count(shape), wanted)
        return flat.reshape(shape)
    values = to_values(dtype, storage, shape)
    if wanted.packed and values.dtype.kind == "b":
        values = values.astype(np.uint8)
    return to_storage(wanted, values)


def round_values(dtype: DType, values: Any) -> AnyArray:
    """Float or integer values rounded once to the float `dtype`, as a value array of same shape.

    f64, f32 and f16 give arrays of that type, bf16 and the f8 types give float32 arrays whose
    every element the dtype can represent. Raises ValueError for a dtype that is not a float.
    """
    if not dtype.is_float:
        raise ValueError(f"{dtype} is no float dtype")
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{array.dtype} values cannot be rounded to {dtype}")
    form = _FORMATS.get(dtype.name)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if form is None:
            return np.asarray(array, dtype=dtype.value)
        if dtype.name == "bf16" and array.dtype == np.float32:
            return _round_bf16(array)
        return _round(form, _exact_float64(array)).astype(np.float32)


def holds_all_of(wanted: DType, stored: DType) -> bool:
    """Whether values of `stored` become values of `wanted` without a choice of the caller: floats of
    any size are rounded, whole numbers must have their exact place."""
    if stored == wanted or (wanted.is_float and (stored.is_float or stored.block is not None)):
        return True
    source = value_range(stored)
    if source is None or stored.kind == "bitset" or wanted.block is not None:
        return False
    if wanted.is_float:
        # Up to this magnitude every whole number is a value.
        exact = {
            "f64": 1 << 53,
            "f32": 1 << 24,
            "f16": 1 << 11,
            "bf16": 1 << 8,
            "f8": 8,
            "f8e4m3": 16,
        }
        return max(-source[0], source[1]) <= exact[wanted.name]
    if not wanted.is_integer:
        return False
    target = value_range(wanted)
    assert target is not None
    return target[0] <= source[0] and source[1] <= target[1]


def find_invalid(dtype: DType, storage: AnyArray, count: int) -> str | None:
    """Why stored bytes are no values of `dtype`, or None when they are.

    Only `bool` (bytes other than 0 and 1) and `t2` (the pattern of -2) have invalid bytes.
    """
    if dtype.kind == "bool":
        raw = storage.reshape(-1).view(np.uint8)
        return "a bool byte is neither 0 nor 1" if raw.size and int(raw.max()) > 1 else None
    if dtype.name == "t2":
        high = storage & np.uint8(0xAA)
        alone = high & ~((storage & np.uint8(0x55)) << np.uint8(1))
        if count % 4 and alone.size:
            alone[-1] &= np.uint8((1 << (2 * (count % 4))) - 1)
        return "a t2 value is -2, outside -1..1" if alone.any() else None
    return None


def clear_tail(dtype: DType, storage: AnyArray, count: int) -> AnyArray:
    """Packed `storage` of `count` values with the unused bits of its last byte zero.

    A copy is made only when a bit was set; other dtypes come back as they are.
    """
    used = count * dtype.bits % 8
    if not dtype.packed or not used or not int(storage[-1]) >> used:
        return storage
    cleared = storage.copy()
    cleared[-1] &= np.uint8((1 << used) - 1)
    return cleared


def _raw_bytes(storage: AnyArray | bytes | bytearray | memoryview) -> NDArray[np.uint8]:
    if isinstance(storage, np.ndarray):
        array: AnyArray = np.asarray(storage, order="C")
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
        return array.reshape(-1).view(np.uint8)
    return np.frombuffer(storage, dtype=np.uint8)


def _from_blocks(dtype: DType, raw: NDArray[np.uint8], count: int, wanted: DType) -> AnyArray:
    """The values of blocks as storage of a float dtype, in one dimension."""
    assert dtype.block is not None
    found = np.empty(count, wanted.storage)
    data = raw.reshape(-1)
    for start in range(0, count, _PIECE):
        stop = min(start + _PIECE, count)
        values = unpacked(dtype.block, data[dtype.nbytes(start) : dtype.nbytes(stop)])
        found[start:stop] = to_storage(wanted, values)
    return found


def first_value(dtype: DType, value: float | int | None) -> float | int:
    """What memory holds before anything is written: `@init`, else 0, or -1 for the dtype that has no 0."""
    return (-1 if dtype.name == "t1" else 0) if value is None else value


def _unpack(dtype: DType, raw: NDArray[np.uint8], count: int) -> AnyArray:
    shifts = np.arange(0, 8, dtype.bits, dtype=np.uint8)
    mask = np.uint8((1 << dtype.bits) - 1)
    fields = ((raw[:, None] >> shifts) & mask).reshape(-1)[:count]
    if dtype.name == "t1":
        return fields.astype(np.int8) * np.int8(2) - np.int8(1)
    if dtype.value == "int8":
        sign = np.uint8(1 << (dtype.bits - 1))
        return ((fields ^ sign) - sign).view(np.int8)
    return fields


def _pack(dtype: DType, array: AnyArray) -> NDArray[np.uint8]:
    flat = array.reshape(-1)
    if dtype.kind == "ternary":
        flat = np.sign(flat.astype(np.int8) if flat.dtype.kind == "b" else flat)
    fields = (flat > 0).astype(np.uint8) if dtype.name == "t1" else flat.astype(np.uint8)
    fields &= np.uint8((1 << dtype.bits) - 1)
    per_byte = 8 // dtype.bits
    padded = np.zeros(-(-flat.size // per_byte) * per_byte, dtype=np.uint8)
    padded[: flat.size] = fields
    shifts = np.arange(0, 8, dtype.bits, dtype=np.uint8)
    return np.bitwise_or.reduce(padded.reshape(-1, per_byte) << shifts, axis=1)


def _round_bf16(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """float32 to the nearest bfloat16 by integer arithmetic on the bits: five times the speed."""
    bits = np.atleast_1d(np.asarray(array, order="C")).view(np.uint32)
    even = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = (bits + np.uint32(0x7FFF) + even) & np.uint32(0xFFFF0000)
    nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    if nan.any():
        # Cutting a NaN may leave infinity, and adding may carry into the sign: keep the payload.
        kept = bits & np.uint32(0xFFFF0000)
        empty = (kept & np.uint32(0x7F0000)) == 0
        rounded = np.where(nan, kept | np.where(empty, np.uint32(0x400000), np.uint32(0)), rounded)
    return rounded.view(np.float32).reshape(array.shape)


def _round(form: _Format, array: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round to nearest even at the last place that `form` has for each magnitude."""
    _, exponent = np.frexp(array)  # |x| = f * 2**exponent with f in [0.5, 1)
    shift = form.mantissa - np.maximum(exponent - 1, form.min_exponent)
    rounded = np.ldexp(np.rint(np.ldexp(array, shift)), -shift)
    over = np.abs(rounded) > form.largest
    return np.where(over, np.copysign(form.overflow, array), rounded)


def _exact_float64(array: AnyArray) -> NDArray[np.float64]:
    """As float64; integers that it cannot hold keep a sticky last bit, so one rounding follows."""
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        low = array & array.dtype.type(0x7FF)
        if array.dtype.kind == "u":
            large = array > np.uint64(1 << 53)
        else:
            large = (array > np.int64(1 << 53)) | (array < np.int64(-(1 << 53)))
        sticky = (array - low) | np.where(low != 0, array.dtype.type(0x800), array.dtype.type(0))
        array = np.where(large, sticky, array)
    return array.astype(np.float64)


def _encode(name: str, values: AnyArray) -> AnyArray:
    """Bits of float32 values that the format represents exactly."""
    bits = np.atleast_1d(np.asarray(values, dtype=np.float32, order="C")).view(np.uint32)
    if name == "bf16":
        return (bits >> np.uint32(16)).astype(np.uint16).reshape(values.shape)
    form = _FORMATS[name]
    sign = (bits >> np.uint32(24)) & np.uint32(0x80)
    magnitude = bits & np.uint32(0x7FFFFFFF)
    # A normal value moves its exponent bias; a subnormal one counts steps of the smallest value.
    rebias = np.uint32((127 + form.min_exponent - 1) << form.mantissa)
    normal = (magnitude >> np.uint32(23 - form.mantissa)) - rebias
    steps = np.ldexp(magnitude.view(np.float32), form.mantissa - form.min_exponent)
    tiny = magnitude.view(np.float32) < np.float32(2.0**form.min_exponent)
    with np.errstate(invalid="ignore"):
        code = np.where(tiny, steps.astype(np.uint32), normal)
    nan = magnitude > np.uint32(0x7F800000)
    if name == "f8":
        code = np.where(magnitude == np.uint32(0x7F800000), np.uint32(0x7C), code)
        code = np.where(nan, np.uint32(0x7E), code)
    else:
        code = np.where(nan, np.uint32(0x7F), code)
    return (sign | code).astype(np.uint8).reshape(values.shape)


@cache
def _decode_table(name: str) -> NDArray[np.float32]:
    """The value of each of the 256 bytes of an 8-bit float."""
    form = _FORMATS[name]
    table = np.empty(256, dtype=np.float32)
    for code in range(256):
        exponent = (code & 0x7F) >> form.mantissa
        fraction = code & ((1 << form.mantissa) - 1)
        if exponent:
            fraction += 1 << form.mantissa
        value = math.ldexp(fraction, max(exponent, 1) - 1 + form.min_exponent - form.mantissa)
        if value > form.largest:
            infinite = form.overflow == math.inf and fraction == 1 << form.mantissa
            value = math.inf if infinite else math.nan
        table[code] = math.copysign(value, -1.0 if code & 0x80 else 1.0)
    table.flags.writeable = False
    return table
