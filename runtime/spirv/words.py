"""Words of SPIR-V as instructions, and back: the one reader and the one writer.

Words may come from a file that anybody edited, so every count is checked before it is believed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from openinfer.runtime.errors import ArtefactError
from openinfer.runtime.spirv.instructions import ENUMERATIONS, MASKS, ROWS, Operand, Row, operand

MAGIC: Final = 0x07230203
HEADER: Final = 5
VERSIONS: Final = range(0x10000, 0x10700, 0x100)
MOST_IDS: Final = 0x3FFFFF
"""What the specification promises that a driver takes."""
IDS: Final = frozenset({"type", "id", "scope", "semantics"})


@dataclass(frozen=True)
class Part:
    """One operand as it stands: its kind, and its number, text, or words of a number."""

    kind: str
    value: int | str


@dataclass(frozen=True)
class Instruction:
    """One instruction: its row, its operands, and the index of its first word."""

    row: Row
    parts: tuple[Part, ...]
    place: int

    @property
    def result(self) -> int | None:
        """The id that it defines."""
        return self.first("result")

    @property
    def type(self) -> int | None:
        """The id of the type of its result."""
        return self.first("type")

    def first(self, kind: str) -> int | None:
        """The first operand of a kind."""
        return next((number(part) for part in self.parts if part.kind == kind), None)

    def of(self, kind: str) -> list[int]:
        """All operands of a kind."""
        return [number(part) for part in self.parts if part.kind == kind]


@dataclass(frozen=True)
class Module:
    """A module as its header and its instructions."""

    version: int
    generator: int
    bound: int
    instructions: tuple[Instruction, ...]


def number(part: Part) -> int:
    """The value of an operand that is no string."""
    assert isinstance(part.value, int)
    return part.value


def damaged(place: int, message: str) -> ArtefactError:
    """The error for words that form no instructions."""
    return ArtefactError(
        "OI0760",
        f"SPIR-V word {place}: {message}",
        hint="make the module anew; what lies on disk was cut off or edited",
    )


def read_words(data: bytes) -> Module:
    """The instructions of a module.

    Raises:
        ArtefactError: OI0760, the bytes are no instructions of the table.
    """
    if len(data) % 4 or len(data) < 4 * HEADER:
        raise damaged(0, f"{len(data)} bytes are no header and whole words")
    words = struct.unpack(f"<{len(data) // 4}I", data)
    magic, version, generator, bound, schema = words[:HEADER]
    if magic != MAGIC:
        raise damaged(0, f"{magic:#010x} where the magic number {MAGIC:#010x} is expected")
    if version not in VERSIONS:
        raise damaged(1, f"version {version:#x}, known are 1.0 to 1.6")
    if not 1 <= bound <= MOST_IDS:
        raise damaged(3, f"bound {bound} of the ids is not from 1 to {MOST_IDS}")
    if schema:
        raise damaged(4, f"schema {schema}, expected 0")
    return Module(version, generator, bound, tuple(_instructions(words)))


def _instructions(words: tuple[int, ...]) -> Iterator[Instruction]:
    place = HEADER
    while place < len(words):
        count, opcode = words[place] >> 16, words[place] & 0xFFFF
        row = ROWS.get(opcode)
        if row is None:
            raise damaged(place, f"opcode {opcode} is none of the table")
        if not 1 <= count <= len(words) - place:
            raise damaged(
                place, f"Op{row.name} of {count} words, {len(words) - place} words are left"
            )
        reader = _Reader(words, place + 1, place + count)
        yield Instruction(row, tuple(reader.read(row.operands)), place)
        if reader.place != reader.end:
            raise damaged(reader.place, f"Op{row.name} has words behind its last operand")
        place += count


class _Reader:
    """Reads the operands of one instruction."""

    def __init__(self, words: tuple[int, ...], place: int, end: int) -> None:
        self.words, self.place, self.end = words, place, end

    def word(self, kind: str) -> int:
        """The next word."""
        if self.place >= self.end:
            raise damaged(self.place, f"the instruction ends where {kind} is expected")
        self.place += 1
        return self.words[self.place - 1]

    def read(self, operands: Iterable[Operand]) -> Iterator[Part]:
        """The operands that a row or an enumerant asks for."""
        for one in operands:
            if one.repeats:
                while self.place < self.end:
                    yield from self.one(one.kind)
            elif not one.optional or self.place < self.end:
                yield from self.one(one.kind)

    def one(self, kind: str) -> Iterator[Part]:
        """One operand with what it brings along."""
        if kind == "string":
            yield Part(kind, self.string())
        elif kind == "number":
            # One or two words: the width of the type says, which the checker holds against this.
            place = self.place
            low = self.word(kind)
            wide = self.place < self.end
            value = low | (self.word(kind) << 32) if wide else low
            if self.place - place > 2:
                raise damaged(place, "a number has one or two words")
            yield Part("wide" if wide else kind, value)
        elif kind == "case":
            yield Part("word", self.word(kind))
            yield Part("id", self.word(kind))
        elif kind == "edge":
            yield Part("id", self.word(kind))
            yield Part("id", self.word(kind))
        elif kind == "opcode":
            yield from self.computed()
        elif kind in ENUMERATIONS:
            yield from self.enumerant(kind)
        else:
            yield Part(kind, self.word(kind))

    def computed(self) -> Iterator[Part]:
        """The instruction that a specialization constant is computed by, with its operands."""
        place = self.place
        row = ROWS.get(self.word("opcode"))
        front = [one.kind for one in row.operands[:2]] if row is not None else []
        if row is None or front != ["type", "result"] or row.name == "SpecConstantOp":
            raise damaged(place, "no constant is computed by this opcode")
        yield Part("opcode", row.opcode)
        yield from self.read(row.operands[2:])

    def enumerant(self, kind: str) -> Iterator[Part]:
        """A number of an enumeration, or the bits of a mask, with the operands of each."""
        place = self.place
        value = self.word(kind)
        yield Part(kind, value)
        known = ENUMERATIONS[kind].values()
        if kind in MASKS:
            taken = [row for row in sorted(known) if row[0] & value]
            rest = value & ~sum(bit for bit, _ in taken)
        else:
            taken = [row for row in known if row[0] == value][:1]
            rest = not taken
        if rest:
            raise damaged(place, f"{value} is no {kind} of the table")
        for _, operands in taken:
            yield from self.read(operand(text) for text in operands.split())

    def string(self) -> str:
        """Bytes up to a zero, which fills the last word."""
        place, found = self.place, b""
        while b"\0" not in found[-4:]:
            found += struct.pack("<I", self.word("string"))
        text, _, rest = found.partition(b"\0")
        if rest.strip(b"\0"):
            raise damaged(self.place - 1, "bytes behind the end of a string")
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise damaged(place, "the string is not UTF-8") from None


def write_words(module: Module) -> bytes:
    """The bytes of a module."""
    words = [MAGIC, module.version, module.generator, module.bound, 0]
    for instruction in module.instructions:
        body = [word for part in instruction.parts for word in _words(part)]
        words.append((len(body) + 1) << 16 | instruction.row.opcode)
        words += body
    return struct.pack(f"<{len(words)}I", *words)


def _words(part: Part) -> tuple[int, ...]:
    if isinstance(part.value, str):
        text = part.value.encode() + b"\0"
        text += b"\0" * (-len(text) % 4)
        return struct.unpack(f"<{len(text) // 4}I", text)
    if part.kind == "wide":
        return part.value & 0xFFFFFFFF, part.value >> 32
    return (part.value,)
