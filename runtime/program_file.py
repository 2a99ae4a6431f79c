"""The file of a compiled program: a table of sections, each with its own checksum.

    offset  size
         0     8   "OIPROG", 0, version of this layout
         8    32   version of openinfer that wrote the file, padded with zeros
        40     4   number of sections
        44     4   0
        48     8   bytes of the whole file
        56    32   SHA-256 of bytes 0 to 56 and of the table
        88         table: for each section u32 kind, u32 number, u64 offset, u64 length, its SHA-256

Little-endian. Sections follow the table in its order; each begins at a multiple of 64, with zeros in
between, so that embedded weights can be used where the file is mapped. `(kind, number)` is unique
and ascending. Nothing of a file is believed: the table is checked against its checksum and the
file's length before a section is looked at, and a section is given out only when its bytes have the
checksum of the table. Weights are the exception: their bytes are data that is never executed, and
reading gigabytes at each start would undo the mapping; `openinfer inspect` checks them too.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from openinfer.runtime.errors import ArtefactError
from openinfer.runtime.quick_dataclass import dataclass

SUFFIX = ".oip"
"""How the files of compiled programs are called."""
MAGIC = b"OIPROG\0\3"
_COMMON = MAGIC[:7]
"""How a file of any version begins."""
_NAMED = b"\2"
"""The first version whose header says which openinfer wrote the file."""
_HEADER = struct.Struct("<8s32sIIQ32s")
_ROW = struct.Struct("<IIQQ32s")
_SIGNED = 56
"""Bytes of the header that its checksum covers."""
ALIGNMENT = 64
MAX_SECTIONS = 256
AGAIN = "compile the program again"

INFO, MANIFEST, PART, SOURCE, OUTLINE, PACKAGE, WEIGHTS = range(1, 8)
NAMES = {
    INFO: "info",
    MANIFEST: "manifest",
    PART: "part",
    SOURCE: "source text",
    OUTLINE: "outline",
    PACKAGE: "package",
    WEIGHTS: "weights",
}
LIMITS = {
    INFO: 64 << 20,
    MANIFEST: 256 << 20,
    PART: 1 << 30,
    SOURCE: 64 << 20,
    OUTLINE: 256 << 20,
    PACKAGE: 1 << 30,
    WEIGHTS: 1 << 62,
}
"""Longest section of each kind: what is read into memory stays bounded."""

Piece = bytes | memoryview
Key = tuple[int, int]
"""Kind and number of a section; builds and parts are numbered, the others are 0."""


@dataclass(frozen=True)
class Section:
    """Where a section lies, and what its bytes must hash to."""

    offset: int
    length: int
    digest: bytes


class Source(Protocol):
    """Bytes with a known length: a mapped file, or a bytes object in `Memory`."""

    size: int

    def bytes(self, offset: int, size: int) -> bytes: ...


class Memory:
    """A bytes object as a source."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)

    def bytes(self, offset: int, size: int) -> bytes:
        """A part of the bytes."""
        return self.data[offset : offset + size]


class Container:
    """The sections of a file. Raises ArtefactError OI0802 or OI0803, naming what is wrong."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.writer, self.sections = _read_table(source)

    def read(self, kind: int, number: int = 0) -> bytes:
        """The bytes of a section that must be there, checked."""
        section = self.sections.get((kind, number))
        if section is None:
            raise damaged(f"it has no {NAMES[kind]} {number}")
        data = self._source.bytes(section.offset, section.length)
        if hashlib.sha256(data).digest() != section.digest:
            raise damaged(f"the {NAMES[kind]} differs from its checksum")
        return data

    def find(self, kind: int) -> Section | None:
        """Where the only section of a kind lies, None when there is none."""
        return self.sections.get((kind, 0))

    def check(self, kind: int, number: int = 0) -> None:
        """Raises unless a section is as it was written; reads it piece by piece."""
        section = self.sections[kind, number]
        digest = hashlib.sha256()
        step = 16 << 20
        for start in range(0, section.length, step):
            length = min(step, section.length - start)
            digest.update(self._source.bytes(section.offset + start, length))
        if digest.digest() != section.digest:
            raise damaged(f"the {NAMES[kind]} differs from its checksum")


def is_program(start: bytes) -> bool:
    """Whether a file that begins so is a compiled program, of whatever version."""
    return start.startswith(_COMMON)


def damaged(message: str) -> ArtefactError:
    """The error for a file that contradicts itself."""
    return ArtefactError("OI0802", f"the compiled program is damaged: {message}", hint=AGAIN)


def other_version(writer: str = "") -> ArtefactError:
    """The error for a file of another layout; `writer` is the version that made it, if known."""
    from openinfer.runtime.version import openinfer_version

    by = f"openinfer {writer}" if writer else "another version of openinfer"
    return ArtefactError(
        "OI0803",
        f"the program was compiled by {by}, whose files openinfer {openinfer_version()} cannot read",
        hint="compile it again with this version, or load it with that one",
    )


def _read_table(source: Source) -> tuple[str, dict[Key, Section]]:
    start = source.bytes(0, _HEADER.size)
    if not is_program(start):
        raise ArtefactError(
            "OI0802",
            f"this is no compiled program: it starts with {start[:8]!r}",
            hint="give a file that Program.save or `openinfer compile` wrote",
        )
    if start[:8] != MAGIC:
        raise other_version(_text(start[8:40]) if start[7:8] >= _NAMED else "")
    if len(start) < _HEADER.size:
        raise damaged(f"it is cut off after {len(start)} bytes")
    _, writer, count, zero, size, digest = _HEADER.unpack(start)
    if count > MAX_SECTIONS or zero:
        raise damaged(f"its table has {count} sections, at most {MAX_SECTIONS} are possible")
    table = source.bytes(_HEADER.size, count * _ROW.size)
    if len(table) < count * _ROW.size:
        raise damaged("it is cut off inside of its table")
    if hashlib.sha256(start[:_SIGNED] + table).digest() != digest:
        raise damaged("the table differs from its checksum")
    if size != source.size:
        raise damaged(f"it should have {size} bytes and has {source.size}")
    sections: dict[Key, Section] = {}
    end, last = _HEADER.size + len(table), (0, -1)
    for kind, number, offset, length, checksum in _ROW.iter_unpack(table):
        key = (kind, number)
        if kind not in NAMES or key <= last:
            raise damaged(f"section {kind}.{number} is unknown, or out of order")
        if length > LIMITS[kind]:
            raise damaged(f"the {NAMES[kind]} has {length} bytes, more than {LIMITS[kind]}")
        if offset != _aligned(end) or length > size - offset:
            raise damaged(f"the {NAMES[kind]} lies at {offset}, with {length} bytes")
        if any(source.bytes(end, offset - end)):
            raise damaged(f"there is something between its sections, at {end}")
        sections[key] = Section(offset, length, checksum)
        end, last = offset + length, key
    if end != size:
        raise damaged(f"it ends at {end}, but has {size} bytes")
    return _text(writer), sections


@dataclass(frozen=True)
class Payload:
    """The bytes of a section to write, in pieces that are made when they are needed.

    Pieces are asked for twice: for the checksum, and to be written.
    """

    length: int
    pieces: Callable[[], Iterable[Piece]]

    @staticmethod
    def of(data: bytes) -> Payload:
        return Payload(len(data), lambda: (data,))


def container_chunks(payloads: Mapping[Key, Payload]) -> Iterator[Piece]:
    """The bytes of a file with these sections; the same sections give the same bytes."""
    from openinfer.runtime.version import openinfer_version

    rows: list[bytes] = []
    end = _HEADER.size + len(payloads) * _ROW.size
    for key in sorted(payloads):
        payload = payloads[key]
        digest = hashlib.sha256()
        for piece in payload.pieces():
            digest.update(piece)
        offset = _aligned(end)
        rows.append(_ROW.pack(*key, offset, payload.length, digest.digest()))
        end = offset + payload.length
    table = b"".join(rows)
    writer = openinfer_version().encode()[:32]
    signed = _HEADER.pack(MAGIC, writer, len(rows), 0, end, b"")[:_SIGNED]
    position = _HEADER.size + len(table)
    yield signed + hashlib.sha256(signed + table).digest() + table
    for key in sorted(payloads):
        yield bytes(_aligned(position) - position)
        yield from payloads[key].pieces()
        position = _aligned(position) + payloads[key].length


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def _text(data: bytes) -> str:
    """A padded text of the header, as far as a terminal can show it."""
    text = data.rstrip(b"\0").decode("ascii", "replace")
    return "".join(c if c.isprintable() else "?" for c in text)
