"""One `.gguf` file: its header, metadata and table of tensors, each compared with the file.

Versions 2 and 3, little-endian. The data of a tensor lies exactly where the data before it ends, rounded
up to the alignment: as the format says, and as ggml demands.
"""

from __future__ import annotations

import struct
from pathlib import Path

from openinfer.runtime.dtypes import BY_GGUF_ID, DType
from openinfer.runtime.errors import UnsupportedError
from openinfer.runtime.packages.base import TensorInfo, check_shape
from openinfer.runtime.packages.gguf_fields import (
    Field,
    GgufCursor,
    check_count,
    integer_in,
    read_fields,
)
from openinfer.runtime.packages.gguf_format import (
    DEFAULT_ALIGNMENT,
    HEADER,
    HEADER_SIZE,
    MAGIC,
    NAME_LIMIT,
    OTHERS,
    RANK_LIMIT,
    REMOVED,
    TENSOR_ENTRY_MIN,
    VERSIONS,
)
from openinfer.runtime.packages.mapped import MappedFile
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.storage import AnyArray, block_problem, element_count


@dataclass(frozen=True)
class _Entry:
    """A tensor as the table has it; `nbytes` is None where its type is not known."""

    name: str
    dtype_name: str
    shape: tuple[int, ...]
    nbytes: int | None
    offset: int


class GgufFile:
    """An opened file. Raises PackageError OI0418, naming entry and field, when it is damaged,
    UnsupportedError OI0741 for another version or byte order."""

    def __init__(self, path: Path, *, copy: bool = False) -> None:
        self.path = path
        self.mapped = MappedFile(path, copy=copy)
        try:
            self.version, tensors, keys = _read_header(self.mapped)
            cursor = GgufCursor(self.mapped, HEADER_SIZE, self.mapped.size, "header")
            self.fields, self._spans = read_fields(cursor, keys)
            self.alignment = _alignment(self.mapped, self.fields)
            entries = _read_entries(cursor, tensors)
            self.offsets: dict[str, int] = {}
            """Where the data of each tensor begins in the file."""
            self.trailing = 0
            """Bytes behind the last tensor that nothing names."""
            self.tensors = self._placed(cursor, entries)
        except BaseException:
            self.mapped.close()
            raise

    def entry(self, key: str) -> bytes:
        """The bytes of a key with its value, as they stand in the file."""
        start, end = self._spans[key]
        return self.mapped.bytes(start, end - start)

    def storage(self, info: TensorInfo, dtype: DType) -> AnyArray:
        """See `Package._storage`."""
        field = f"data of tensor {info.name!r}"
        return self.mapped.array(dtype, info.shape, self.offsets[info.name], field)

    def _placed(self, cursor: GgufCursor, entries: list[_Entry]) -> dict[str, TensorInfo]:
        """The tensors, their places checked against each other and the end of the file."""
        start = _aligned(cursor.position, self.alignment)
        room = max(self.mapped.size - start, 0)
        expected = 0
        tensors: dict[str, TensorInfo] = {}
        for index, entry in enumerate(entries):
            cursor.entry = repr(entry.name)
            if entry.offset != expected:
                raise cursor.error(
                    "offset", f"is {entry.offset}, the data before it ends at {expected}"
                )
            nbytes = entry.nbytes
            if nbytes is None:
                # Of an unknown type only where the next one begins says how long it is.
                end = entries[index + 1].offset if index + 1 < len(entries) else room
                nbytes = max(end - entry.offset, 0)
            end = entry.offset + nbytes
            if end > room:
                raise cursor.error(
                    "data", f"ends {end - room} bytes beyond the end of the file: it was cut off"
                )
            self.offsets[entry.name] = start + entry.offset
            tensors[entry.name] = TensorInfo(entry.name, entry.dtype_name, entry.shape, nbytes)
            expected = _aligned(end, self.alignment)
        if entries:
            self.trailing = max(room - expected, 0)
        return tensors


def _read_header(file: MappedFile) -> tuple[int, int, int]:
    """Version, number of tensors, number of keys."""
    magic = file.bytes(0, min(len(MAGIC), file.size))
    if magic != MAGIC:
        raise GgufCursor.damaged(
            file, f"header: magic is {magic!r}, a .gguf file starts with {MAGIC!r}"
        )
    if file.size < HEADER_SIZE:
        raise GgufCursor.damaged(
            file, f"header: takes {HEADER_SIZE} bytes, the file has {file.size}"
        )
    _, version, tensors, keys = struct.unpack_from(HEADER, file.map, 0)
    if version in VERSIONS:
        return version, tensors, keys
    if version & 0xFFFF == 0 and version:
        raise UnsupportedError(
            "OI0741",
            f"{file.path}: the file is big-endian",
            hint="convert it: `gguf-convert-endian FILE little` of the Python package gguf",
        )
    if version == 1:
        raise UnsupportedError(
            "OI0741",
            f"{file.path}: version 1 of GGUF is not read, versions 2 and 3 are",
            hint="fetch a newer file of the model",
        )
    if version > max(VERSIONS):
        raise UnsupportedError(
            "OI0741",
            f"{file.path}: version {version} of GGUF is not read, versions 2 and 3 are",
            hint="the file is damaged, or newer than this version of openinfer",
        )
    raise GgufCursor.damaged(file, f"header: version is {version}, versions 2 and 3 are known")


def _aligned(offset: int, alignment: int) -> int:
    return (offset + alignment - 1) // alignment * alignment


def _alignment(file: MappedFile, fields: dict[str, Field]) -> int:
    if "general.alignment" not in fields:
        return DEFAULT_ALIGNMENT
    found = integer_in(fields["general.alignment"], ("u32",))
    if found is None or found < 1 or found & (found - 1):
        shown = "no u32" if found is None else str(found)
        raise GgufCursor.damaged(
            file, f"metadata 'general.alignment': value is {shown}, must be a power of two"
        )
    return found


def _read_entries(cursor: GgufCursor, count: int) -> list[_Entry]:
    cursor.table, cursor.entry = "tensors", ""
    check_count(cursor, "number of tensors", count, TENSOR_ENTRY_MIN)
    entries: list[_Entry] = []
    names: set[str] = set()
    for index in range(count):
        cursor.entry = f"entry {index}"
        name = cursor.name("name", NAME_LIMIT)
        cursor.entry = repr(name)
        if name in names:
            raise cursor.error("name", "occurs twice")
        names.add(name)
        entries.append(_read_entry(cursor, name))
    return entries


def _read_entry(cursor: GgufCursor, name: str) -> _Entry:
    (rank,) = cursor.take("<I", "number of dimensions")
    if rank > RANK_LIMIT:
        raise cursor.error("number of dimensions", f"is {rank}, at most {RANK_LIMIT} are possible")
    dims = cursor.take(f"<{rank}q", "dimensions")
    if any(dim < 1 for dim in dims):
        raise cursor.error("dimensions", f"{list(dims)} are not all 1 or more")
    kind, offset = cursor.take("<iQ", "type and offset")
    shape = tuple(reversed(dims))
    problem = check_shape(shape, 64)
    if problem:
        raise cursor.error("dimensions", f"{list(dims)}: {problem}")
    if kind < 0 or kind in REMOVED:
        raise cursor.error("type", f"is {kind}, which is none, or was removed from the format")
    row = BY_GGUF_ID.get(kind)
    if row is not None:
        problem = block_problem(row, shape)
        if problem:
            raise cursor.error("dimensions", f"{list(dims)}: {problem}")
        return _Entry(name, row.name, shape, row.nbytes(element_count(shape)), offset)
    if kind not in OTHERS:
        return _Entry(name, f"ggml type {kind}", shape, None, offset)
    other, elements, nbytes = OTHERS[kind]
    if not shape or shape[-1] % elements:
        raise cursor.error(
            "dimensions", f"{list(dims)}: rows of {other} have a multiple of {elements} values"
        )
    total = element_count(shape) // elements * nbytes
    return _Entry(name, f"{other} (ggml type {kind})", shape, total, offset)
