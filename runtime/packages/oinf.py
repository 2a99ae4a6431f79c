"""Reader of `.oinf` packages, versions 1 and 2.

`OinfPackage(path)` checks the header, the three tables and the head of every payload against the
file, so that nothing later can point outside it; values are decoded when they are asked for.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openinfer.runtime.dtypes import BY_OINF_ID
from openinfer.runtime.errors import PackageError
from openinfer.runtime.packages.base import (
    MAX_EXTENT,
    LazyMapping,
    TensorInfo,
)
from openinfer.runtime.packages.mapped import REWRITE, Cursor, MappedFile
from openinfer.runtime.packages.oinf_decode import metadata_decoder, read_quant, read_shape
from openinfer.runtime.packages.oinf_defects import TensorPlaces, check_interleaved
from openinfer.runtime.packages.oinf_format import (
    HAS_DATA,
    HAS_QUANT,
    HEADER,
    HEADER_FIELDS,
    HEADER_SIZE,
    MAGIC,
    METADATA_ENTRY,
    METADATA_ENTRY_MIN,
    SIZE_ENTRY_MIN,
    TENSOR_ENTRY_MIN,
    VERSION,
)
from openinfer.runtime.packages.one_file import OneFilePackage
from openinfer.runtime.packages.values import MetadataValue, QuantParams
from openinfer.runtime.storage import element_count


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


class OinfPackage(OneFilePackage):
    """An opened `.oinf` file. Raises PackageError, naming the field, when it is damaged."""

    def __init__(self, path: Path, *, copy: bool = False) -> None:
        self.path = path
        self._file = MappedFile(path, copy=copy)
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

    def _read_tensors(self, header: _Header) -> dict[str, TensorInfo]:
        cursor = Cursor(self._file, header.offset_tensors, header.offset_data, "tensor index")
        minimum = TENSOR_ENTRY_MIN + (16 if header.version >= 2 else 0)
        _check_count(cursor, "n_tensors", header.n_tensors, minimum)
        entries: dict[str, TensorPlaces] = {}
        for index in range(header.n_tensors):
            name = _entry_name(cursor, index, entries)
            entries[name] = _read_entry(cursor, name, header)
        tensors: dict[str, TensorInfo] = {}
        for name, entry in entries.items():
            self._offsets[name] = entry.data_offset
            tensors[name] = TensorInfo(
                name,
                entry.row.name,
                entry.shape,
                entry.data_nbytes,
                bool(entry.flags & HAS_DATA),
                self._quant(cursor, entry, list(entries.values())),
            )
        return tensors

    def _quant(
        self, cursor: Cursor, entry: TensorPlaces, entries: Sequence[TensorPlaces]
    ) -> QuantParams | None:
        if not entry.flags & HAS_QUANT:
            return None
        cursor.entry = f"entry {entry.name!r}"
        try:
            return read_quant(cursor, entry.quant_nbytes, entry.quant_offset, entry.shape)
        except PackageError:
            # Bytes that are no record where the table says one is: maybe a known defect.
            check_interleaved(self._file, entries)
            raise


def _read_entry(cursor: Cursor, name: str, header: _Header) -> TensorPlaces:
    type_id, rank, flags = cursor.take("<3I", "dtype, ndim and flags")
    row = BY_OINF_ID.get(type_id)
    if row is None:
        raise cursor.error("dtype", f"has the unknown id {type_id}")
    known = HAS_DATA | (HAS_QUANT if header.version >= 2 else 0)
    if flags & ~known:
        raise cursor.error("flags", f"has unknown bits: {flags:#x}")
    shape = read_shape(cursor, rank, row)
    nbytes, offset = cursor.take("<2Q", "data_nbytes and data_offset")
    quant_nbytes, quant_offset = 0, 0
    if header.version >= 2:
        quant_nbytes, quant_offset = cursor.take("<2Q", "quant_nbytes and quant_offset")
    if flags & HAS_DATA:
        _check_payload(cursor, "data", nbytes, offset, header)
        expected = row.nbytes(element_count(shape))
        if nbytes != expected:
            raise cursor.error("data_nbytes", f"is {nbytes}, {row}{list(shape)} takes {expected}")
    elif nbytes or offset:
        raise cursor.error("data_nbytes and data_offset", "must be 0 without data")
    if flags & HAS_QUANT:
        _check_payload(cursor, "quant", quant_nbytes, quant_offset, header)
    elif quant_nbytes or quant_offset:
        raise cursor.error("quant_nbytes and quant_offset", "must be 0 without quant")
    return TensorPlaces(name, row, shape, flags, nbytes, offset, quant_nbytes, quant_offset)


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
        decoders[name] = metadata_decoder(payload, type_id, nbytes)
    return LazyMapping(decoders, lambda name: decoders[name]())
