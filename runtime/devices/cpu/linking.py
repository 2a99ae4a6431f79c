"""Objects become code in memory: linked with each other, with functions of the host and of the process.

LLVM's own linker does the same, but brings 30 MB of its library into each process that only runs what was
compiled before. LLVM writes for the large code model here: what code uses it finds by 64 bits, from a
table of addresses, so that objects may lie anywhere.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from openinfer.runtime.devices.cpu.elf_object import (
    ABSOLUTE,
    EXECUTABLE,
    LOCAL,
    RESOLVED_LATE,
    THREAD_LOCAL,
    UNDEFINED,
    WEAK,
    WRITABLE,
    ElfObject,
    Relocations,
    Section,
    Symbol,
    read_object,
)
from openinfer.runtime.errors import ArtefactError
from openinfer.runtime.storage import AnyArray

TABLE: Final = "_GLOBAL_OFFSET_TABLE_"
"""What code calls the table of addresses."""

_SYMBOL, _ENTRY, _TABLE, _PLACE, _NOTHING = range(5)
_FORMS: Final = {
    1: (8, _SYMBOL, _NOTHING),  # R_X86_64_64
    2: (4, _SYMBOL, _PLACE),  # PC32
    4: (4, _SYMBOL, _PLACE),  # PLT32
    9: (4, _ENTRY, _PLACE),  # GOTPCREL
    24: (8, _SYMBOL, _PLACE),  # PC64
    25: (8, _SYMBOL, _TABLE),  # GOTOFF64
    26: (4, _TABLE, _PLACE),  # GOTPC32
    27: (8, _ENTRY, _TABLE),  # GOT64
    28: (8, _ENTRY, _PLACE),  # GOTPCREL64
    29: (8, _TABLE, _PLACE),  # GOTPC64
    31: (8, _SYMBOL, _TABLE),  # PLTOFF64
    41: (4, _ENTRY, _PLACE),  # GOTPCRELX
    42: (4, _ENTRY, _PLACE),  # REX_GOTPCRELX
}
"""Of each kind of relocation how many bytes it writes: an address, plus its addend, minus another address.
An entry is the place in the table that holds the address of a symbol."""

_READ, _WRITE, _EXECUTE = 1, 2, 4
"""Linux' PROT_READ, PROT_WRITE and PROT_EXEC. Windows' `mmap` lacks these names, and this is imported there,
too, before it is said that code cannot run."""
_PROTECTIONS: Final = {EXECUTABLE: _READ | _EXECUTE, 0: _READ, WRITABLE: _READ | _WRITE}
"""What may be done with the memory of sections, by their flags, in the order in which they lie."""


class LoadedObject:
    """Objects in memory. Their code stays valid as long as this lives."""

    def __init__(self, memory: object, addresses: Mapping[str, int]) -> None:
        self._memory = memory
        self._addresses = addresses

    def address(self, symbol: str) -> int:
        """The address of a symbol that was asked for; raises ArtefactError (OI0840) for others."""
        if symbol not in self._addresses:
            raise ArtefactError(
                "OI0840",
                f"the object has no symbol {symbol!r}",
                hint=f"it was loaded for {', '.join(sorted(self._addresses))}",
            )
        return self._addresses[symbol]


def load_object(
    data: bytes, symbols: Iterable[str], imports: Mapping[str, int] | None = None
) -> LoadedObject:
    """`load_objects` of one."""
    return load_objects([data], symbols, imports)


def load_objects(
    objects: Sequence[bytes], symbols: Iterable[str], imports: Mapping[str, int] | None = None
) -> LoadedObject:
    """Link ELF objects into this process, against each other, the C library, libm and `imports`.

    `imports` gives the addresses of functions of the host that the objects call.

    Raises ArtefactError OI0840 when one is damaged or a symbol cannot be found, OI0813 where there is no
    memory.
    """
    try:
        image = _Image([read_object(data) for data in objects], imports or {})
        image.relocate()
        found = {symbol: image.exported(symbol) for symbol in symbols}
        image.protect()
    except (OSError, MemoryError, OverflowError) as error:
        raise ArtefactError(
            "OI0813",
            "not enough memory to link the code of a program",
            hint="free some memory, or raise the limit of this process (`ulimit -v`)",
        ) from error
    return LoadedObject(image.memory, found)


class _Image:
    """The memory of objects while they are linked."""

    def __init__(self, objects: Sequence[ElfObject], imports: Mapping[str, int]) -> None:
        self._objects = objects
        self._imports = imports
        self._places: dict[tuple[int, int], int] = {}
        """Where a section of an object begins."""
        self._spans: list[tuple[int, int, int]] = []
        """Begin, end and protection of pages."""
        size = self._lay_out()
        self.memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._bytes: AnyArray = np.frombuffer(self.memory, np.uint8)
        self._base = int(self._bytes.ctypes.data)
        for number, section in self._all_sections():
            if section.data:
                place = self._places[number, section.number]
                self._bytes[place : place + section.size] = np.frombuffer(section.data, np.uint8)
        self._globals = self._defined()
        self._entries: dict[int, int] = {}
        """Addresses that the table holds, and where."""

    def _all_sections(self) -> Iterable[tuple[int, Section]]:
        for number, one in enumerate(self._objects):
            for section in one.sections:
                yield number, section

    def _lay_out(self) -> int:
        """Places for all sections, those of a protection on pages of their own; bytes of all."""
        size = 0
        for group, protection in _PROTECTIONS.items():
            begin = size
            for number, section in self._all_sections():
                flags = section.flags & (EXECUTABLE | WRITABLE)
                if flags not in _PROTECTIONS:
                    raise _impossible("a section of it may be written and executed")
                if flags == group:
                    place = -(-size // section.alignment) * section.alignment
                    self._places[number, section.number] = place
                    size = place + section.size
            if group == 0:
                self._table = -(-size // 8) * 8
                size = self._table + 8 * sum(map(_entries_at_most, self._objects))
            size = -(-max(size, begin + 1) // mmap.PAGESIZE) * mmap.PAGESIZE
            self._spans.append((begin, size, protection))
        return size

    def _defined(self) -> dict[str, int]:
        """The addresses of symbols that objects show to each other."""
        found: dict[str, tuple[int, bool]] = {}
        for number, one in enumerate(self._objects):
            for symbol in one.symbols:
                if symbol.binding == LOCAL or not symbol.defined:
                    continue
                address, weak = self._address(number, symbol), symbol.binding == WEAK
                if address is None:
                    continue
                known = found.get(symbol.name)
                if known is not None and not known[1] and not weak:
                    raise _impossible(f"two objects define {symbol.name!r}")
                if known is None or known[1]:
                    found[symbol.name] = address, weak
        return {name: address for name, (address, _) in found.items()}

    def _address(self, number: int, symbol: Symbol) -> int | None:
        """Where a symbol lies that its object defines; None in a section that takes no memory."""
        if symbol.section == ABSOLUTE:
            return symbol.value
        place = self._places.get((number, symbol.section))
        return None if place is None else self._base + place + symbol.value

    def relocate(self) -> None:
        """Writes the addresses that code and data hold."""
        for number, one in enumerate(self._objects):
            values = self._values(number, one)
            for relocations in one.relocations:
                self._write(self._places[number, relocations.section], relocations, values, one)
        table = np.array(list(self._entries), np.uint64).view(np.uint8)
        self._bytes[self._table : self._table + table.size] = table

    def _values(self, number: int, one: ElfObject) -> AnyArray:
        """The addresses of an object's symbols, u64; 0 for those that nothing in it uses."""
        values = np.zeros(len(one.symbols), np.uint64)
        used = {index for each in one.relocations for index in each.rows["symbol"].tolist()}
        for index in used:
            symbol = one.symbols[index]
            if symbol.kind in (THREAD_LOCAL, RESOLVED_LATE):
                raise _impossible(f"{symbol.name!r} is of a kind that is not known")
            values[index] = self._value(number, symbol)
        return values

    def _value(self, number: int, symbol: Symbol) -> int:
        if symbol.section != UNDEFINED and symbol.binding == LOCAL:
            address = self._address(number, symbol)
        elif symbol.name == TABLE:
            address = self._base + self._table
        elif symbol.name == "":
            address = 0
        else:
            address = self._globals.get(symbol.name, self._imports.get(symbol.name))
            if address is None:
                address = _of_process(symbol.name)
            if address is None and symbol.binding == WEAK:
                address = 0
        if address is None:
            raise _impossible(f"there is no {symbol.name!r}")
        return address & 0xFFFF_FFFF_FFFF_FFFF

    def _write(
        self, place: int, relocations: Relocations, values: AnyArray, one: ElfObject
    ) -> None:
        size = next(s.size for s in one.sections if s.number == relocations.section)
        table = np.uint64(self._base + self._table)
        # NumPy's own `unique` and `isin` would import as much as a start needs otherwise.
        for kind in sorted(set(relocations.rows["kind"].tolist())):
            if kind not in _FORMS:
                raise _impossible(f"it has relocations of the kind {kind}, which is not known")
            width, plus, minus = _FORMS[kind]
            rows = relocations.rows[relocations.rows["kind"] == kind]
            if int(rows["offset"].max()) + width > size:
                raise _impossible("a relocation lies outside of its section")
            places = place + rows["offset"].astype(np.int64)
            found = values[rows["symbol"]]
            if plus == _ENTRY:
                found = table + self._entries_of(found)
            elif plus == _TABLE:
                found = np.full(len(rows), table)
            found = found + rows["addend"].view(np.uint64)
            if minus == _PLACE:
                found = found - (np.uint64(self._base) + places.astype(np.uint64))
            elif minus == _TABLE:
                found = found - table
            if width == 4:
                far = found.view(np.int64)
                if (far != far.astype(np.int32)).any():
                    raise _impossible("something that it uses lies too far away")
            parts = found.view(np.uint8).reshape(-1, 8)[:, :width]
            self._bytes[places[:, None] + np.arange(width)] = parts

    def _entries_of(self, addresses: AnyArray) -> AnyArray:
        """Where the table holds addresses, from its beginning."""
        entries = self._entries
        found = [entries.setdefault(one, 8 * len(entries)) for one in addresses.tolist()]
        return np.array(found, np.uint64)

    def exported(self, symbol: str) -> int:
        """The address of a symbol of the objects."""
        if symbol not in self._globals:
            raise _impossible(f"there is no {symbol!r}")
        return self._globals[symbol]

    def protect(self) -> None:
        """Makes code executable, and what is not meant to change unchangeable; nothing is written behind it.

        Raises ArtefactError (OI0840) where the system forbids to execute what a process wrote.
        """
        libc: Any = ctypes.CDLL(None, use_errno=True)
        for begin, end, protection in self._spans:
            start, length = ctypes.c_void_p(self._base + begin), ctypes.c_size_t(end - begin)
            if libc.mprotect(start, length, protection):
                raise _impossible("the system forbids to execute it")


def _entries_at_most(one: ElfObject) -> int:
    """Entries of the table that an object may need."""
    of_table = {kind for kind, (_, plus, _) in _FORMS.items() if plus == _ENTRY}
    return sum(kind in of_table for each in one.relocations for kind in each.rows["kind"].tolist())


@cache
def _of_process(name: str) -> int | None:
    """The address of a function of this process, or of libm."""
    for library in (None, "libm.so.6"):
        try:
            found = ctypes.CDLL(library)[name]
        except (OSError, AttributeError):
            continue
        return ctypes.cast(found, ctypes.c_void_p).value
    return None


def _impossible(reason: str) -> ArtefactError:
    return ArtefactError("OI0840", f"the machine code cannot be linked: {reason}")
