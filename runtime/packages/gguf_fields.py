"""The metadata of `.gguf` files: numbers and texts read at once, arrays when they are asked for.

Every length is compared with what is left of the file before anything is read or counted with it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TypeAlias, cast

from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import PackageError
from openinfer.runtime.packages.gguf_format import (
    ARRAY,
    BOOL,
    KEY_ENTRY_MIN,
    STRING,
    TEXT_LIMIT,
    VALUES,
)
from openinfer.runtime.packages.mapped import REWRITE, Cursor, MappedFile
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.storage import AnyArray
from openinfer.runtime.tensors import Tensor

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class Number:
    """A number or bool, and our name of its dtype."""

    value: bool | int | float
    dtype: str


@dataclass(frozen=True)
class Array:
    """An array whose extent was checked; its elements are not read yet."""

    file: MappedFile
    key: str
    dtype: str
    """Our name of the elements' dtype, "str" for texts."""
    count: int
    start: int
    end: int

    def tensor(self) -> Tensor:
        """Numbers or bools as a tensor of one dimension. Raises PackageError OI0405 for bytes that
        are no bools."""
        row = DTYPES[self.dtype]
        stored = self.file.array(row, (self.count,), self.start, f"metadata {self.key!r}")
        return Tensor(row, (self.count,), stored)

    def texts(self) -> list[str]:
        """All texts of an array of texts. Raises PackageError OI0418 for one that is not UTF-8."""
        return list(self.each_text(self.count))

    def each_text(self, count: int) -> Iterator[str]:
        """The first `count` texts."""
        data, position = self.file.map, self.start
        self.file.check()
        for index in range(count):
            (length,) = _LENGTH.unpack_from(data, position)
            position += 8
            text = data[position : position + length]
            position += length
            try:
                yield text.decode("utf-8")
            except UnicodeDecodeError:
                raise GgufCursor.damaged(
                    self.file, f"metadata {self.key!r}: element {index} is not UTF-8: {text[:40]!r}"
                ) from None

    def numbers(self) -> AnyArray:
        """Numbers or bools as an array."""
        return self.tensor().values()


Field: TypeAlias = Number | str | Array


class GgufCursor(Cursor):
    """Reads tables of a `.gguf` file; its errors are OI0418."""

    @staticmethod
    def damaged(file: MappedFile, message: str) -> PackageError:
        return PackageError("OI0418", f"{file.path}: {message}", hint=REWRITE)

    def error(self, field: str, message: str) -> PackageError:
        where = f"{self.table} {self.entry}".rstrip()
        return self.damaged(self.file, f"{where}: {field} {message}")

    def string(self, field: str, limit: int = TEXT_LIMIT) -> str:
        """u64 length, UTF-8 bytes."""
        (length,) = self.take("<Q", f"length of {field}")
        self.need(length, field)
        if length > limit:
            raise self.error(field, f"has {length} bytes, at most {limit} are possible")
        data = self.file.bytes(self.position, length)
        self.position += length
        return self.text(data, field)

    def name(self, field: str, limit: int = TEXT_LIMIT) -> str:
        """A string that names something."""
        found = self.string(field, limit)
        if not found:
            raise self.error(field, "is empty")
        if "\0" in found:
            raise self.error(field, f"{found!r:.80} holds a zero byte")
        return found


def read_fields(
    cursor: GgufCursor, count: int
) -> tuple[dict[str, Field], dict[str, tuple[int, int]]]:
    """The entries of the metadata, in the order of the file, and where the bytes of each begin and end."""
    cursor.table = "metadata"
    check_count(cursor, "number of keys", count, KEY_ENTRY_MIN)
    fields: dict[str, Field] = {}
    spans: dict[str, tuple[int, int]] = {}
    for index in range(count):
        start = cursor.position
        cursor.entry = f"entry {index}"
        key = cursor.name("key")
        cursor.entry = repr(key)
        if key in fields:
            raise cursor.error("key", "occurs twice")
        (kind,) = cursor.take("<i", "type")
        fields[key] = _array(cursor, key) if kind == ARRAY else _scalar(cursor, kind)
        spans[key] = (start, cursor.position)
    return fields, spans


def check_count(cursor: Cursor, field: str, count: int, minimum: int) -> None:
    """Raises PackageError unless `count` entries of `minimum` bytes fit into what is left."""
    room = cursor.end - cursor.position
    if count < 0 or count * minimum > room:
        raise cursor.error(field, f"is {count}, but the file has only {room} bytes from there on")


def _scalar(cursor: GgufCursor, kind: int) -> Field:
    if kind == STRING:
        return cursor.string("value")
    if kind not in VALUES:
        raise cursor.error("type", f"is {kind}, types 0 to 12 are known")
    dtype, layout, _ = VALUES[kind]
    (value,) = cast("tuple[int | float]", cursor.take(layout, "value"))
    if kind != BOOL:
        return Number(value, dtype)
    if value not in (0, 1):
        raise cursor.error("value", f"is the bool {value}, must be 0 or 1")
    return Number(bool(value), dtype)


def _array(cursor: GgufCursor, key: str) -> Array:
    kind, count = cursor.take("<iQ", "element type and count")
    if kind == ARRAY:
        raise cursor.error("element type", "is an array: arrays of arrays are not allowed")
    if kind != STRING and kind not in VALUES:
        raise cursor.error("element type", f"is {kind}, types 0 to 12 are known")
    dtype, _, size = VALUES.get(kind, ("str", "", 8))
    check_count(cursor, "count", count, size)
    start = cursor.position
    if kind == STRING:
        _skip_strings(cursor, count)
    else:
        cursor.position += count * size
    return Array(cursor.file, key, dtype, count, start, cursor.position)


def _skip_strings(cursor: GgufCursor, count: int) -> None:
    """Beyond the strings of an array: lengths alone are read, vocabularies are long."""
    data, position, end, unpack = cursor.file.map, cursor.position, cursor.end, _LENGTH.unpack_from
    for index in range(count):
        following = position + 8
        if following <= end:
            following += unpack(data, position)[0]
        if following > end:
            raise cursor.error(f"element {index}", f"ends beyond the end at {end}")
        position = following
    cursor.position = position


def integer_in(value: Field | None, dtypes: tuple[str, ...]) -> int | None:
    """The value of a field that is an integer of one of these dtypes, else None."""
    if isinstance(value, Number) and value.dtype in dtypes:
        return int(value.value)
    return None
