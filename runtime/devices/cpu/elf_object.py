"""An ELF object of x86-64, as LLVM writes them, read and checked: sections, symbols, relocations.

Facts: "System V Application Binary Interface", chapter 4, and its supplement for AMD64. Every offset,
length and index is compared with the file before it is used: an object comes from a file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from openinfer.runtime.errors import ArtefactError
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.storage import AnyArray

PROGRAM_DATA, SYMBOL_TABLE, RELOCATIONS, ZEROS, START_CODE = 1, 2, 4, 8, (14, 15, 16)
"""Types of sections: SHT_PROGBITS, SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_INIT_ARRAY and its kin."""
UNWINDING = 0x70000001
"""SHT_X86_64_UNWIND: what exceptions of C++ need, which nothing here throws."""
WRITABLE, ALLOCATED, EXECUTABLE = 1, 2, 4
"""Flags of sections."""
UNDEFINED, ABSOLUTE, RESERVED = 0, 0xFFF1, 0xFF00
"""Indices of sections that are none: SHN_UNDEF, SHN_ABS, SHN_LORESERVE."""
LOCAL, WEAK = 0, 2
"""Bindings of symbols that are told apart: STB_LOCAL, STB_WEAK."""
THREAD_LOCAL, RESOLVED_LATE = 6, 10
"""Types of symbols whose value is no address: STT_TLS, STT_GNU_IFUNC."""

_HEADER, _SECTION, _SYMBOL = (
    struct.Struct(form) for form in ("<16xHH20xQ10xHHH", "<IIQQQQIIQQ", "<IBBHQQ")
)
_RELOCATABLE, _X86_64 = 1, 62
_PAGE = 4096
_RELOCATION = np.dtype([("offset", "<u8"), ("kind", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])


@dataclass(frozen=True)
class Section:
    """A part of the memory of an object."""

    number: int
    flags: int
    data: bytes | None
    """None for zeros."""
    size: int
    alignment: int


@dataclass(frozen=True)
class Symbol:
    """A name, and what it stands for."""

    name: str
    binding: int
    kind: int
    section: int
    """A number of a section, UNDEFINED or ABSOLUTE."""
    value: int
    """From the beginning of the section."""

    @property
    def defined(self) -> bool:
        return self.section != UNDEFINED


@dataclass(frozen=True)
class Relocations:
    """Places in a section that hold addresses."""

    section: int
    rows: AnyArray
    """Of `offset` in the section, `kind`, `symbol` (an index) and `addend`."""


@dataclass(frozen=True)
class ElfObject:
    """What an object holds; sections that take no memory are left out, and their relocations."""

    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocations, ...]


def read_object(data: bytes) -> ElfObject:
    """The parts of an object. Raises ArtefactError (OI0840) where it is none, or is damaged."""
    if not data.startswith(b"\x7fELF\x02\x01"):
        raise ArtefactError("OI0840", "the machine code is not an ELF object")
    try:
        return _read(data)
    except (struct.error, ValueError, IndexError, UnicodeDecodeError) as error:
        raise ArtefactError(
            "OI0840", f"the machine code is not an ELF object that is whole: {error}"
        ) from error


@dataclass(frozen=True)
class _Row:
    """A row of the table of sections."""

    kind: int
    flags: int
    place: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


def _read(data: bytes) -> ElfObject:
    kind, machine, start, size, count, _ = _HEADER.unpack_from(data)
    if (kind, machine, size) != (_RELOCATABLE, _X86_64, _SECTION.size):
        raise ValueError("it is for another machine, or no object")
    if start + count * size > len(data):
        raise ValueError("its table of sections is cut off")
    rows: list[_Row] = []
    for number in range(count):
        _, kind, flags, _, place, length, link, info, alignment, entry = _SECTION.unpack_from(
            data, start + number * size
        )
        if kind != ZEROS and place + length > len(data):
            raise ValueError(f"section {number} is cut off")
        rows.append(_Row(kind, flags, place, length, link, info, alignment, entry))
    sections = tuple(_sections(data, rows))
    (table,) = [row for row in rows if row.kind == SYMBOL_TABLE] or [None]
    symbols = tuple(_symbols(data, rows, table)) if table is not None else ()
    sizes = {section.number: section.size for section in sections}
    for symbol in symbols:
        if symbol.section in sizes and symbol.value > sizes[symbol.section]:
            raise ValueError(f"symbol {symbol.name!r} lies outside of its section")
    return ElfObject(sections, symbols, tuple(_relocations(data, rows, sizes, len(symbols))))


def _sections(data: bytes, rows: list[_Row]) -> Iterator[Section]:
    for number, row in enumerate(rows):
        if not row.flags & ALLOCATED or row.kind == UNWINDING:
            continue
        if row.kind in START_CODE:
            raise ValueError("it has code that runs when it is loaded")
        alignment = max(row.alignment, 1)
        if alignment & (alignment - 1) or alignment > _PAGE:
            raise ValueError(f"section {number} is aligned to {alignment} bytes")
        content = None if row.kind == ZEROS else data[row.place : row.place + row.size]
        yield Section(number, row.flags, content, row.size, alignment)


def _symbols(data: bytes, rows: list[_Row], table: _Row) -> Iterator[Symbol]:
    names = rows[table.link]
    if table.entry != _SYMBOL.size or table.size % table.entry:
        raise ValueError("its table of symbols has rows of another size")
    texts = data[names.place : names.place + names.size]
    for name, info, _, section, value, _ in _SYMBOL.iter_unpack(
        data[table.place : table.place + table.size]
    ):
        if section >= RESERVED and section != ABSOLUTE:
            raise ValueError(f"a symbol is in the section {section:#x}")
        if section != ABSOLUTE and section >= len(rows):
            raise ValueError(f"a symbol is in section {section}, there are {len(rows)}")
        text = texts[name : texts.index(b"\0", name)].decode()
        yield Symbol(text, info >> 4, info & 15, section, value)


def _relocations(
    data: bytes, rows: list[_Row], sizes: dict[int, int], symbols: int
) -> Iterator[Relocations]:
    for row in rows:
        if row.kind != RELOCATIONS or row.info not in sizes:
            continue
        if row.entry != _RELOCATION.itemsize or row.size % row.entry:
            raise ValueError("a table of relocations has rows of another size")
        found = np.frombuffer(data, _RELOCATION, row.size // row.entry, row.place)
        if len(found) == 0:
            continue
        # No relocation writes more than eight bytes; those that write fewer are checked again.
        if int(found["offset"].max()) > sizes[row.info] or int(found["symbol"].max()) >= symbols:
            raise ValueError("a relocation lies outside of its section, or names no symbol")
        yield Relocations(row.info, found)
