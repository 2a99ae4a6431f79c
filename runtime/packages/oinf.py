"""Reader of `.oinf` packages, versions 1 and 2.

`OinfPackage(path)` checks the header, the three tables and the head of every payload against the
file, so that nothing later can point outside it; values are decoded when they are asked for.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from openinfer.runtime.dtypes import BY_OINF_ID, DType
from openinfer.runtime.errors import PackageError
from openinfer.runtime.packages.base import (
    MAX_EXTENT,
    MAX_RANK,
    LazyMapping,
    Package,
    TensorInfo,
    check_shape,
)
from openinfer.runtime.packages.mapped import REWRITE, Cursor, MappedFile, align
from openinfer.runtime.packages.oinf_format import (
    HAS_DATA,
    HAS_QUANT,
    HEADER,
    HEADER_FIELDS,
    HEADER_SIZE,
    MAGIC,
    METADATA_ENTRY,
    METADATA_ENTRY_MIN,
    MODES,
    QUANT,
    QUANT_SIZE,
    SCHEMES,
    SIZE_ENTRY_MIN,
    TENSOR_ENTRY_MIN,
    TYPE_ARRAY,
    TYPE_BITSET,
    TYPE_STRING,
    VERSION,
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


@dataclass(frozen=True)
class _Header:
    version: int
    n_sizevars: int
    n_metadata: int
    n_tensors: int
    offset_sizevars: int
    offset_metadata: int
    offset_tensors: int
    offset_data: int
    file_size: int


class OinfPackage(Package):
    """An opened `.oinf` file. Raises PackageError, naming the field, when it is damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = MappedFile(path)
        try:
            header = _read_header(self._file)
            self.version = header.version
            self.format = f"oinf {header.version}"
            self.sizes = _read_sizes(self._file, header)
            self.metadata = _read_metadata(self._file, header)
            self._offsets: dict[str, int] = {}
            self.tensors = self._read_tensors(header)
        except BaseException:
            self._file.close()
            raise

    def data_identity(self) -> str:
        return self._file.identity()

    def close(self) -> None:
        self._file.close()

    def _storage(self, info: TensorInfo, dtype: DType) -> AnyArray:
        field = f"data of tensor {info.name!r}"
        return self._file.array(dtype, info.shape, self._offsets[info.name], field)

    def _read_tensors(self, header: _Header) -> dict[str, TensorInfo]:
        cursor = Cursor(self._file, header.offset_tensors, header.offset_data, "tensor index")
        minimum = TENSOR_ENTRY_MIN + (16 if header.version >= 2 else 0)
        _check_count(cursor, "n_tensors", header.n_tensors, minimum)
        tensors: dict[str, TensorInfo] = {}
        for index in range(header.n_tensors):
            name = _entry_name(cursor, index, tensors)
            type_id, rank, flags = cursor.take("<3I", "dtype, ndim and flags")
            row = BY_OINF_ID.get(type_id)
            if row is None:
                raise cursor.error("dtype", f"has the unknown id {type_id}")
            known = HAS_DATA | (HAS_QUANT if header.version >= 2 else 0)
            if flags & ~known:
                raise cursor.error("flags", f"has unknown bits: {flags:#x}")
            shape = _read_shape(cursor, rank, row)
            nbytes, offset = cursor.take("<2Q", "data_nbytes and data_offset")
            quant_nbytes, quant_offset = 0, 0
            if header.version >= 2:
                quant_nbytes, quant_offset = cursor.take("<2Q", "quant_nbytes and quant_offset")
            if flags & HAS_DATA:
                _check_payload(cursor, "data", nbytes, offset, header)
                expected = row.nbytes(element_count(shape))
                if nbytes != expected:
                    raise cursor.error(
                        "data_nbytes", f"is {nbytes}, {row}{list(shape)} takes {expected}"
                    )
            elif nbytes or offset:
                raise cursor.error("data_nbytes and data_offset", "must be 0 without data")
            quant = None
            if flags & HAS_QUANT:
                _check_payload(cursor, "quant", quant_nbytes, quant_offset, header)
                quant = _read_quant(cursor, quant_nbytes, quant_offset, shape)
            elif quant_nbytes or quant_offset:
                raise cursor.error("quant_nbytes and quant_offset", "must be 0 without quant")
            self._offsets[name] = offset
            tensors[name] = TensorInfo(name, row.name, shape, nbytes, bool(flags & HAS_DATA), quant)
        return tensors


def _read_header(file: MappedFile) -> _Header:
    def fail(field: str, message: str) -> PackageError:
        return PackageError("OI0403", f"{file.path}: header: {field} {message}", hint=REWRITE)

    magic = file.bytes(0, len(MAGIC))
    if magic != MAGIC:
        raise fail("magic", f"is {magic!r}, an .oinf file starts with {MAGIC!r}")
    if file.size < HEADER_SIZE:
        raise fail("file_size", f"is {file.size}, the header alone takes {HEADER_SIZE} bytes")
    values: tuple[Any, ...] = struct.unpack_from(HEADER, file.map, 0)
    field: dict[str, Any] = dict(zip(HEADER_FIELDS, values))
    if field["version"] not in (1, VERSION):
        raise fail("version", f"is {field['version']}, versions 1 and 2 are known")
    for name in ("flags", "reserved"):
        if field[name] != 0:
            raise fail(name, f"is {field[name]:#x}, must be 0")
    if field["file_size"] != file.size:
        raise fail("file_size", f"is {field['file_size']}, the file has {file.size} bytes")
    previous = HEADER_SIZE
    for name in ("offset_sizevars", "offset_metadata", "offset_tensors", "offset_data"):
        offset = field[name]
        if offset % 8:
            raise fail(name, f"is {offset}, must be a multiple of 8")
        if not previous <= offset <= file.size:
            raise fail(name, f"is {offset}, must lie in {previous}..{file.size}")
        previous = offset
    return _Header(**{name: field[name] for name in _Header.__dataclass_fields__})


def _check_count(cursor: Cursor, field: str, count: int, minimum: int) -> None:
    room = cursor.end - cursor.position
    if count * minimum > room:
        raise PackageError(
            "OI0403",
            f"{cursor.file.path}: header: {field} is {count}, but the {cursor.table} has only "
            f"{room} bytes",
            hint=REWRITE,
        )


def _entry_name(cursor: Cursor, index: int, known: Container[str]) -> str:
    cursor.entry = f"entry {index}"
    name = cursor.string("name")
    if not name:
        raise cursor.error("name", "is empty")
    cursor.entry = f"entry {name!r}"
    if name in known:
        raise cursor.error("name", "occurs twice")
    return name


def _read_sizes(file: MappedFile, header: _Header) -> dict[str, int]:
    cursor = Cursor(file, header.offset_sizevars, header.offset_metadata, "size table")
    _check_count(cursor, "n_sizevars", header.n_sizevars, SIZE_ENTRY_MIN)
    sizes: dict[str, int] = {}
    for index in range(header.n_sizevars):
        name = _entry_name(cursor, index, sizes)
        (value,) = cursor.take("<Q", "value")
        if value > MAX_EXTENT:
            raise cursor.error("value", f"is {value}, at most 2**63 - 1 is possible")
        sizes[name] = value
    return sizes


def _check_payload(cursor: Cursor, field: str, nbytes: int, offset: int, header: _Header) -> None:
    if offset % 8:
        raise cursor.error(f"{field}_offset", f"is {offset}, must be a multiple of 8")
    if not header.offset_data <= offset <= header.file_size:
        raise cursor.error(
            f"{field}_offset",
            f"is {offset}, the data section is {header.offset_data}..{header.file_size}",
        )
    if nbytes > header.file_size - offset:
        raise cursor.error(
            f"{field}_nbytes",
            f"is {nbytes} at offset {offset}, beyond the end of the file at {header.file_size}",
        )


def _read_shape(cursor: Cursor, rank: int, row: DType) -> tuple[int, ...]:
    if rank > MAX_RANK:
        raise cursor.error("ndim", f"is {rank}, at most {MAX_RANK} is possible")
    shape = cursor.take(f"<{rank}Q", "dims")
    problem = check_shape(shape, row.bits)
    if problem:
        raise cursor.error("dims", f"{list(shape)}: {problem}")
    return shape


def _read_quant(cursor: Cursor, nbytes: int, offset: int, shape: tuple[int, ...]) -> QuantParams:
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


def _read_metadata(file: MappedFile, header: _Header) -> LazyMapping[MetadataValue]:
    cursor = Cursor(file, header.offset_metadata, header.offset_tensors, "metadata table")
    _check_count(cursor, "n_metadata", header.n_metadata, METADATA_ENTRY_MIN)
    decoders: dict[str, Callable[[], MetadataValue]] = {}
    for index in range(header.n_metadata):
        name = _entry_name(cursor, index, decoders)
        type_id, flags, nbytes, offset = cursor.take(METADATA_ENTRY, "type, flags and value")
        if flags:
            raise cursor.error("flags", f"is {flags:#x}, must be 0")
        _check_payload(cursor, "value", nbytes, offset, header)
        payload = Cursor(file, offset, offset + nbytes, "metadata")
        payload.entry = repr(name)
        decoders[name] = _metadata_decoder(payload, type_id, nbytes)
    return LazyMapping(decoders, lambda name: decoders[name]())


def _metadata_decoder(payload: Cursor, type_id: int, nbytes: int) -> Callable[[], MetadataValue]:
    """Check the head of a payload and return what decodes it."""

    def check(expected: int) -> None:
        if nbytes != expected:
            raise payload.error("value_nbytes", f"is {nbytes}, the value takes {expected}")

    file, start = payload.file, payload.position
    if type_id == TYPE_STRING:
        (length,) = payload.take("<I", "string length")
        check(align(4 + length))
        return lambda: payload.text(file.bytes(start + 4, length), "value")
    if type_id == TYPE_BITSET:
        count, size = payload.take("<2I", "bit_count and byte_count")
        if size != (count + 7) // 8:
            raise payload.error("byte_count", f"is {size}, {count} bits take {(count + 7) // 8}")
        check(align(8 + size))
        return lambda: Bitset.from_bytes(file.bytes(start + 8, size), count)
    if type_id == TYPE_ARRAY:
        element, rank = payload.take("<2I", "element_type and ndim")
        row = BY_OINF_ID.get(element)
        if row is None or element == TYPE_BITSET:
            raise payload.error("element_type", f"has the unknown id {element}")
        shape = _read_shape(payload, rank, row)
        count = element_count(shape)
        check(align(8 + 8 * rank + row.nbytes(count)))
        data = payload.position

        def array() -> Tensor:
            stored = file.array(row, shape, data, f"metadata {payload.entry}")
            return Tensor(row, shape, clear_tail(row, stored, count))

        return array
    row = BY_OINF_ID.get(type_id)
    if row is None:
        raise payload.error("value_type", f"has the unknown id {type_id}")
    check(row.nbytes(1))

    def scalar() -> ScalarValue:
        stored = file.array(row, (), start, f"metadata {payload.entry}")
        return ScalarValue(to_values(row, stored, ()).item(), row)

    return scalar
