"""An operand of `nn.matmul` in tiles, on its way through shared memory.

Shared memory is written and read in accesses of 16 bytes:

    steps are no neighbours in memory     accesses are of neighbouring rows or columns at a step, as in memory
    steps are neighbours                  accesses are of some steps of a row or column, as in memory
    the same, elements of 32 bits         an invocation may turn a block of 4 rows or columns by 2 steps, so
                                          that accesses are of rows or columns
    bytes that are added up in 32 bits    words of 4 steps

Lines of shared memory are one access longer than their elements, so that they do not meet in a bank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from xdsl.dialects import vector
from xdsl.ir import SSAValue

from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.vulkan.schedules.matmul_operands import Operand

WIDEST = 128
"""Bits of an access of shared memory."""
BLOCK_ROWS, BLOCK_STEPS = 4, 2
"""Rows or columns, and steps, of a block of elements of 32 bits that is turned."""


def wide_of(depth: int, each: int, bits: int, *, along: bool) -> int:
    """How many elements are one access of shared memory: steps, or rows or columns of an invocation."""
    if bits not in (32, 64):
        return 1
    return gcd(WIDEST // bits, depth if along else each)


def shape_of(depth: int, count: int, wide: int, *, along: bool) -> tuple[int, int]:
    """Lines of shared memory, and accesses of a line."""
    lines, elements = (count, depth) if along else (depth, count)
    return lines, elements // wide + 1


@dataclass(frozen=True)
class Side:
    """One operand of a tile: its rows or columns, and where they go in shared memory."""

    operand: Operand
    first: SSAValue
    """The first of the rows or columns."""
    count: int
    depth: int
    each: int
    """Rows or columns of an invocation."""
    own: SSAValue
    """The number of the invocation among those that have other rows or columns."""
    buffer: SSAValue
    wide: int
    """Elements of an access of shared memory."""
    lanes: int
    """Neighbours that are read from memory at once."""
    dots: bool
    """Whether four steps are multiplied at once."""
    turned: bool
    """Whether blocks are turned, so that accesses are of rows or columns where steps lie in memory."""

    @property
    def along(self) -> bool:
        """Whether accesses of shared memory are of steps."""
        return self.operand.along and not self.turned

    @property
    def piece(self) -> int:
        """Elements that an invocation takes at once."""
        return BLOCK_ROWS * BLOCK_STEPS if self.turned else max(self.wide, self.lanes)

    def pieces(self, size: int) -> range:
        """What each of some invocations reads: the numbers of pieces, without that of the invocation."""
        return range(0, self.count * self.depth // self.piece, size)

    def fetch(self, b: LoopBuilder, number: SSAValue, k: SSAValue) -> list[SSAValue]:
        """A piece of the steps from `k` on."""
        if self.turned:
            row, step = self._block(b, number)
            rows = [b.add(row, n) if n else row for n in range(BLOCK_ROWS)]
            return [
                value
                for row in rows
                for start in range(0, BLOCK_STEPS, self.lanes)
                for value in self._read(b, row, b.add(step, start) if start else step, k)
            ]
        far, near = self._split(b, number)
        found: list[SSAValue] = []
        for start in range(0, self.piece, self.lanes):
            at = b.add(near, start) if start else near
            place, step = (far, at) if self.operand.along else (at, far)
            found += self._read(b, place, step, k)
        return found

    def _read(self, b: LoopBuilder, place: SSAValue, step: SSAValue, k: SSAValue) -> list[SSAValue]:
        places = b.add(self.first, place), b.add(k, step)
        return self.operand.load_within(*places, (self.count, self.depth), self.lanes)

    def put(self, b: LoopBuilder, number: SSAValue, values: Sequence[SSAValue]) -> None:
        """Writes a piece to shared memory."""
        if self.turned:
            row, step = self._block(b, number)
            for n in range(BLOCK_STEPS):
                value = b.from_elements(values[n::BLOCK_STEPS])
                place = b.floordiv(row, BLOCK_ROWS)
                b.store(value, self.buffer, [b.add(step, n) if n else step, place])
            return
        line, near = self._split(b, number)
        for start in range(0, self.piece, self.wide):
            some = values[start : start + self.wide]
            value = some[0] if self.wide == 1 else b.from_elements(some)
            at = b.add(near, start) if start else near
            b.store(value, self.buffer, [line, b.floordiv(at, self.wide)])

    def _split(self, b: LoopBuilder, number: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The line of a piece, and where it begins in the line."""
        line = (self.depth if self.operand.along else self.count) // self.piece
        near = b.rem(number, line)
        return b.floordiv(number, line), b.mul(near, self.piece) if self.piece > 1 else near

    def _block(self, b: LoopBuilder, number: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The first row or column of a block, and its first step. Neighbouring invocations have neighbouring
        steps: four read 32 bytes of each row, and what eight of them write meets in no bank."""
        across = self.depth // BLOCK_STEPS
        row, step = b.floordiv(number, across), b.rem(number, across)
        return b.mul(row, BLOCK_ROWS), b.mul(step, BLOCK_STEPS)

    def at(self, b: LoopBuilder, number: int) -> SSAValue:
        """The row or column of the tile that an invocation has by this number. Neighbours of an access are
        neighbours there, too."""
        together = 1 if self.along else self.wide
        others = self.count // self.each
        place = b.add(self.own, number // together * others)
        return b.add(b.mul(place, together), number % together) if together > 1 else place

    def load(self, b: LoopBuilder, step: SSAValue, count: int) -> list[list[SSAValue]]:
        """Of each of some steps, the elements of the rows or columns of an invocation. Steps that are
        multiplied at once are one vector."""
        if self.along:
            lines = [
                [
                    element
                    for start in range(0, count, self.wide)
                    for element in self._elements(b, self.at(b, n), b.add(step, start))
                ]
                for n in range(self.each)
            ]
            return [list(step) for step in zip(*lines)]
        return [
            [
                element
                for n in range(0, self.each, self.wide)
                for element in self._elements(b, b.add(step, k), self.at(b, n))
            ]
            for k in range(count)
        ]

    def _elements(self, b: LoopBuilder, line: SSAValue, near: SSAValue) -> list[SSAValue]:
        """What an access reads."""
        found = b.load(self.buffer, [line, b.floordiv(near, self.wide)])
        if self.wide == 1 or self.dots:
            return [found]
        return [b.insert(vector.ExtractOp(found, [n], self.operand.sums)) for n in range(self.wide)]
