"""Decodes single payloads of `.oinf` files: shapes, quantisation records, metadata values.

A payload's place was checked to lie in the file; what stands in it is checked here. Every function
raises PackageError, naming table, entry and field, for bytes that contradict the format.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from openinfer.runtime.dtypes import BY_OINF_ID, DType
from openinfer.runtime.packages.base import MAX_RANK, check_shape
from openinfer.runtime.packages.mapped import Cursor, align
from openinfer.runtime.packages.oinf_format import (
    MODES,
    QUANT,
    QUANT_SIZE,
    SCHEMES,
    TYPE_ARRAY,
    TYPE_BITSET,
    TYPE_STRING,
)
from openinfer.runtime.packages.values import (
    Bitset,
    MetadataValue,
    QuantParams,
    QuantScale,
    QuantZeroPoint,
    ScalarValue,
)
from openinfer.runtime.storage import AnyArray, clear_tail, element_count, to_values
from openinfer.runtime.tensors import Tensor


def read_shape(cursor: Cursor, rank: int, row: DType) -> tuple[int, ...]:
    """The dims that stand at the cursor."""
    if rank > MAX_RANK:
        raise cursor.error("ndim", f"is {rank}, at most {MAX_RANK} is possible")
    shape = cursor.take(f"<{rank}Q", "dims")
    problem = check_shape(shape, row.bits)
    if problem:
        raise cursor.error("dims", f"{list(shape)}: {problem}")
    return shape


def read_quant(cursor: Cursor, nbytes: int, offset: int, shape: tuple[int, ...]) -> QuantParams:
    """The quantisation record at `offset`, of a tensor with `shape`."""
    if nbytes < QUANT_SIZE:
        raise cursor.error("quant_nbytes", f"is {nbytes}, at least {QUANT_SIZE} are needed")
    fields = struct.unpack_from(QUANT, cursor.file.map, offset)
    scheme, scale_mode, zp_mode, reserved, scale_axis, scale_count, zp_axis, zp_count = fields
    if scheme not in SCHEMES:
        raise cursor.error("quant scheme", f"is {scheme}, must be 1 or 2")
    if scale_mode not in MODES:
        raise cursor.error("quant scale_mode", f"is {scale_mode}, must be 1 or 2")
    if zp_mode != 0 and zp_mode not in MODES:
        raise cursor.error("quant zp_mode", f"is {zp_mode}, must be 0, 1 or 2")
    if reserved:
        raise cursor.error("quant reserved", f"is {reserved}, must be 0")
    if zp_mode == 0 and (zp_axis or zp_count):
        raise cursor.error("quant zp_axis and zp_count", "must be 0 without zero points")
    if nbytes != align(QUANT_SIZE + 4 * (scale_count + zp_count)):
        raise cursor.error(
            "quant_nbytes",
            f"is {nbytes}, does not fit scale_count {scale_count} and zp_count {zp_count}",
        )
    start = offset + QUANT_SIZE
    scales = _numbers(cursor, "<f4", scale_count, start)
    scale = QuantScale(MODES[scale_mode], scale_axis, scales)
    zero_point = None
    if zp_mode:
        points = _numbers(cursor, "<i4", zp_count, start + 4 * scale_count)
        zero_point = QuantZeroPoint(MODES[zp_mode], zp_axis, points)
    quant = QuantParams(SCHEMES[scheme], scale, zero_point)
    problem = quant.problem(shape)
    if problem:
        raise cursor.error("quant", f"record is wrong: {problem}")
    return quant


def _numbers(cursor: Cursor, kind: str, count: int, offset: int) -> AnyArray:
    """A view of numbers that were checked to lie in the file; NumPy refuses an empty one."""
    return np.frombuffer(cursor.file.map, kind, count, offset) if count else np.empty(0, kind)


def metadata_decoder(payload: Cursor, type_id: int, nbytes: int) -> Callable[[], MetadataValue]:
    """Check the head of a payload and return what decodes it."""

    def check(exact: int, padded: bool = True) -> None:
        """The recorded length includes padding, except for numbers."""
        expected = align(exact) if padded else exact
        if nbytes == expected:
            return
        if nbytes == exact:
            raise payload.error(
                "value_nbytes",
                f"is {nbytes}, without the padding that makes it {expected}: a length that one "
                "loader of the original wants, and the format does not have",
            )
        raise payload.error("value_nbytes", f"is {nbytes}, the value takes {expected}")

    file, start = payload.file, payload.position
    if type_id == TYPE_STRING:
        (length,) = payload.take("<I", "string length")
        check(4 + length)
        return lambda: payload.text(file.bytes(start + 4, length), "value")
    if type_id == TYPE_BITSET:
        count, size = payload.take("<2I", "bit_count and byte_count")
        if size != (count + 7) // 8:
            raise payload.error("byte_count", f"is {size}, {count} bits take {(count + 7) // 8}")
        check(8 + size)
        return lambda: Bitset.from_bytes(file.bytes(start + 8, size), count)
    if type_id == TYPE_ARRAY:
        element, rank = payload.take("<2I", "element_type and ndim")
        row = BY_OINF_ID.get(element)
        if row is None:
            raise payload.error("element_type", f"has the unknown id {element}")
        shape = read_shape(payload, rank, row)
        count = element_count(shape)
        check(8 + 8 * rank + row.nbytes(count))
        data = payload.position

        def array() -> Tensor:
            stored = file.array(row, shape, data, f"metadata {payload.entry}")
            return Tensor(row, shape, clear_tail(row, stored, count))

        return array
    row = BY_OINF_ID.get(type_id)
    if row is None:
        raise payload.error("value_type", f"has the unknown id {type_id}")
    check(row.nbytes(1), padded=False)

    def scalar() -> ScalarValue:
        stored = file.array(row, (), start, f"metadata {payload.entry}")
        return ScalarValue(to_values(row, stored, ()).item(), row)

    return scalar
