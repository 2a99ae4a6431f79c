"""A read-only memory mapping whose every access is checked against the file's size."""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np

from openinfer.runtime.dtypes import DType
from openinfer.runtime.errors import PackageError
from openinfer.runtime.files import open_regular
from openinfer.runtime.storage import (
    AnyArray,
    element_count,
    find_invalid,
    storage_dtype,
    stored_shape,
)

_PIECE = 64 << 20
"""Bytes that are copied at once: an interrupt waits for no more."""
REWRITE = "the file is damaged or was cut off: fetch or write it again"
T2_HINT = "the original's Python writer lets -2 pass: write the values again as -1, 0 or 1"


class Unchanged:
    """What a file was when it was opened, to be compared with what it is: its descriptor stays open."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self.handle = handle
        status = os.fstat(handle)
        self.size, self.changed = status.st_size, status.st_mtime_ns

    def check(self) -> None:
        """Raises PackageError OI0414 when somebody cut the file off, or wrote to it."""
        status = os.fstat(self.handle)
        if status.st_size == self.size and status.st_mtime_ns == self.changed:
            return
        what = "was written to"
        if status.st_size != self.size:
            what = f"has {status.st_size} bytes now, it had {self.size}"
        raise PackageError(
            "OI0414",
            f"{self.path}: changed while it was open: it {what}",
            hint="open it anew; replace a package by renaming a new one, never write into it, or "
            "open it with copy=True",
        )

    def __del__(self) -> None:
        os.close(self.handle)


class MappedFile:
    """A mapped regular file. Raises PackageError when it cannot be opened or is empty.

    With `copy` its bytes are read into memory instead, and nothing that happens to the file matters.
    """

    def __init__(self, path: Path, *, copy: bool = False) -> None:
        self.path = path
        self.unchanged: Unchanged | None = None
        """Compares the file with what it was; None where its bytes were copied."""
        try:
            with open_regular(path) as file:
                status = os.fstat(file.fileno())
                self.size = status.st_size
                if self.size == 0:
                    raise PackageError("OI0401", f"{path}: the file is empty", hint=REWRITE)
                if copy:
                    self._map: mmap.mmap | None = _copied(file, self.size)
                else:
                    self.unchanged = Unchanged(path, os.dup(file.fileno()))
                    self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise PackageError(
                "OI0401",
                f"{path}: cannot be opened: {reason}",
                hint="check the path and its permissions",
            ) from None
        self._identity = "\0".join(
            str(part)
            for part in (
                os.path.realpath(path),
                status.st_dev,
                status.st_ino,
                self.size,
                status.st_mtime_ns,
            )
        )

    @property
    def map(self) -> mmap.mmap:
        """The mapping. Raises PackageError after `close`."""
        if self._map is None:
            raise PackageError(
                "OI0411",
                f"{self.path}: the package is closed",
                hint="read tensors before the package is closed",
            )
        return self._map

    def check(self) -> None:
        """Raises PackageError OI0414 when the file is not what it was.

        Reading beyond the end of a file that was cut off would end the process without a word.
        """
        if self.unchanged is not None:
            self.unchanged.check()

    def guard(self) -> Callable[[], None] | None:
        """`check` for who goes on reading views after `close`; None where nothing can happen."""
        return self.unchanged.check if self.unchanged is not None else None

    def bytes(self, offset: int, size: int) -> bytes:
        """A copy of a part that was checked to lie in the file."""
        mapping = self.map
        self.check()
        return mapping[offset : offset + size]

    def array(self, dtype: DType, shape: tuple[int, ...], offset: int, field: str) -> AnyArray:
        """A tensor's storage array, a view where its bytes are aligned.

        Raises PackageError, naming `field`, for bytes that are no values of `dtype`.
        """
        mapping = self.map
        self.check()
        count = element_count(shape)
        stored = stored_shape(dtype, shape)
        element = storage_dtype(dtype)
        if count == 0:
            view: AnyArray = np.empty(stored, dtype=element)
            view.flags.writeable = False
        else:
            number = dtype.nbytes(count) // element.itemsize
            whole = memoryview(mapping).toreadonly()
            flat = np.frombuffer(whole, dtype=element, count=number, offset=offset)
            view = flat.reshape(stored)
        problem = find_invalid(dtype, view, count)
        if problem:
            hint = T2_HINT if dtype.name == "t2" else REWRITE
            raise PackageError("OI0405", f"{self.path}: {field}: {problem}", hint=hint)
        if not view.flags.aligned or not element.isnative:
            view = view.astype(element.newbyteorder("="))
            view.flags.writeable = False
        return view

    def give_back(self, view: AnyArray) -> None:
        """Lets go of the memory behind a view of the mapping, which a later read brings back from the file.

        Whole pages only; nothing happens to a view of anything else, or where the file was copied.
        """
        mapping = self._map
        if mapping is None or self.unchanged is None or not hasattr(mmap, "MADV_DONTNEED"):
            return
        start = view.ctypes.data - np.frombuffer(mapping, np.uint8).ctypes.data
        first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
        last = (start + view.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
        if 0 <= start and first < last <= self.size:
            mapping.madvise(mmap.MADV_DONTNEED, first, last - first)

    def identity(self) -> str:
        """A hash of path, device, inode, size and time of change."""
        return hashlib.sha256(self._identity.encode("utf-8", "surrogateescape")).hexdigest()

    def close(self) -> None:
        """Drop the mapping; the memory goes when no array shows it any more."""
        # What shows the mapping still may hold on to it.
        self.unchanged = None
        mapping, self._map = self._map, None
        if mapping is not None:
            try:
                mapping.close()
            except BufferError:
                pass  # arrays that were read still show it


def _copied(file: BinaryIO, size: int) -> mmap.mmap:
    """The bytes of a file in memory that nothing else changes. Raises PackageError OI0415."""
    try:
        memory = mmap.mmap(-1, size)
        with memoryview(memory) as view:
            read = 0
            while read < size:
                count = os.preadv(file.fileno(), [view[read : read + _PIECE]], read)
                if not count:
                    break
                read += count
    except (OSError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or "there is not enough memory"
        raise PackageError(
            "OI0415",
            f"{file.name}: {size} bytes cannot be copied into memory: {reason}",
            hint="open it without copy=True: it is mapped then, and read where it lies",
        ) from None
    if read < size:
        raise PackageError(
            "OI0414",
            f"{file.name}: changed while it was read: it has {read} bytes now, it had {size}",
            hint="open it anew",
        )
    return memory


class Cursor:
    """Reads fields of a table in order; each error names the field and where it stands."""

    def __init__(self, file: MappedFile, start: int, end: int, table: str) -> None:
        self.file = file
        self.position = start
        self.end = end
        self.table = table
        self.entry = ""

    def error(self, field: str, message: str) -> PackageError:
        """A PackageError about `field` of the current entry."""
        where = f"{self.table} {self.entry}".rstrip()
        return PackageError("OI0404", f"{self.file.path}: {where}: {field} {message}", hint=REWRITE)

    def take(self, layout: str, field: str) -> tuple[int, ...]:
        """Unpack one `struct` layout. Raises PackageError when it passes the end of the table."""
        size = struct.calcsize(layout)
        self.need(size, field)
        values = struct.unpack_from(layout, self.file.map, self.position)
        self.position += size
        return values

    def need(self, size: int, field: str) -> None:
        """Raise PackageError unless `size` more bytes lie in the table."""
        if size > self.end - self.position:
            raise self.error(
                field,
                f"takes {size} bytes at offset {self.position}, beyond the end at {self.end}",
            )

    def string(self, field: str) -> str:
        """u32 length, UTF-8 bytes, zero padding to a multiple of 8 from the string's start."""
        start = self.position
        (length,) = self.take("<I", f"length of {field}")
        self.need(length, field)
        data = self.file.bytes(self.position, length)
        self.position = start + align(4 + length)
        if self.position > self.end:
            raise self.error(field, f"is padded beyond the end at {self.end}")
        return self.text(data, field)

    def text(self, data: bytes, field: str) -> str:
        """`data` as UTF-8. Raises PackageError, naming `field`, when it is not."""
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise self.error(field, f"is not UTF-8: {data[:40]!r}") from None


def align(size: int) -> int:
    """`size` rounded up to a multiple of 8."""
    return (size + 7) & ~7
