"""What a subgroup does with matrices of sums: the epilogue, of neighbouring results at a time.

    for each strip of matrices, which lie in a row:
        what the epilogue reads for the next strip is on its way
        the sums go to shared memory, as rows
        each invocation finishes some neighbours at a time, and stores them

A kernel's buffers may be one and the same, so that no read passes a write: all that a strip needs is read
before results of the one before it are written, or each result would wait for memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import VectorType, f32
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.extensions.gpu import SubgroupMmaStoreMatrixOp
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.epilogue import Epilogue, Extra, Place
from openinfer.lowering.vulkan.schedules.matmul_operands import both
from openinfer.lowering.vulkan.schedules.wide import (
    aligned_operands,
    is_multiple,
    is_width,
    load_wide,
    store_wide,
)
from openinfer.lowering.vulkan.schedules.workgroup import (
    barrier,
    shared_buffer,
    subgroup_barrier,
)

WORDS = 4
"""Sums that are read from shared memory at once: 16 bytes."""
LONG, VERY_LONG = 1024, 2048
"""Steps of sums after which they are read one by one, and after which there are no strips."""
MOST = 8
"""Results that an invocation finishes at once: 16 bytes of f16."""


Rows = list[list[SSAValue]]
"""Of each operand of the epilogue, what neighbouring results need."""


@dataclass(frozen=True)
class Part:
    """The sums of a subgroup: matrices of `side` x `side`, `down` below each other and `across` in a row."""

    side: int
    down: int
    across: int
    along: int
    """Subgroups that have a part of the same sums each; they add them up."""
    subgroups: int
    """Of the workgroup."""
    lanes: int
    """Invocations of a subgroup."""
    widest: int
    """Sums that are read from shared memory at once, if an invocation finishes as many."""
    most: int
    """Results that an invocation finishes at once, if it has as many of a strip."""
    strip: int = 1
    """Matrices in a row that are finished together; a divisor of `across`,"""
    tall: int = 1
    """and those below each other; a divisor of `down`."""

    @property
    def width(self) -> int:
        """Columns of a strip."""
        return self.strip * self.side

    @property
    def strips(self) -> list[tuple[int, int]]:
        """The first matrix of each strip, by its numbers down and across."""
        down, across = range(0, self.down, self.tall), range(0, self.across, self.strip)
        return [(i, j) for i in down for j in across]

    @property
    def height(self) -> int:
        """Rows of a strip."""
        return self.tall * self.side

    @property
    def results(self) -> int:
        """Results of a strip."""
        return self.height * self.width

    @property
    def words(self) -> int:
        """Sums that are read from shared memory at once."""
        return min(self.widest, self.together)

    @property
    def line(self) -> int:
        """Accesses of a row in shared memory: one more than there are, so that rows do not meet in a bank."""
        return self.width // self.words + 1

    @property
    def bytes(self) -> int:
        """Shared memory of a workgroup."""
        return self.subgroups * self.height * self.line * self.words * f32.size

    def within(self, free: int) -> Part:
        """The same with the longest strips that invocations share out evenly, and that fit in some bytes of
        shared memory."""
        for strip in range(self.across if self.most > 1 else 1, 1, -1):
            part = replace(self, strip=strip)
            if self.across % strip == 0 and part.is_even and part.bytes <= free:
                return part
        return replace(self, strip=1)

    @property
    def together(self) -> int:
        """Neighbours that an invocation finishes at once."""
        return min(self.most, self.results // (self.lanes * self.along))

    @property
    def is_even(self) -> bool:
        """Whether all invocations have equally many results of a strip."""
        return self.results % (self.lanes * self.along * self.together) == 0

    @property
    def turns(self) -> int:
        """How often an invocation does that for a strip."""
        return self.results // (self.lanes * self.along * self.together)


def widest_and_most(depth: Index) -> tuple[int, int]:
    """How a part ends after sums of `depth` steps, as `Part` has it.

    After very long ones a matrix is finished by itself, and each result: on an H200 (driver 580.159.04)
    4096 cubed takes 461 us with that, and 789 us with strips, of whatever accesses. What the driver says of
    both (registers, memory) does not explain it; and the longer a sum is, the less its end matters.
    """
    if not isinstance(depth, int) or depth >= VERY_LONG:
        return 1, 1
    return (WORDS if depth < LONG else 1), MOST


@dataclass(frozen=True)
class Where:
    """The place of a part in the result."""

    batch: Sequence[Index]
    row: SSAValue
    column: SSAValue
    subgroup: SSAValue
    """The number of the subgroup in its workgroup."""
    number: SSAValue
    """The number of the subgroup among those that share its sums."""
    lane: SSAValue
    rows: Index
    columns: Index
    """Rows and columns of the result."""
    whole: tuple[bool, bool]
    """Whether rows, and columns, are a multiple of those of a tile: then none is beyond the edge."""
    part: SSAValue | None = None
    """Which of several outputs it is; then `batch` begins with that, as extra operands are numbered."""


class Finish:
    """Takes matrices of sums, and stores results."""

    def __init__(
        self,
        b: LoopBuilder,
        op: Operation,
        epilogue: Epilogue,
        part: Part,
        outputs: Sequence[SSAValue] = (),
        *,
        in_squares: bool = False,
    ) -> None:
        """`outputs`: those of several parts. `in_squares`: whether they lie so, each square row by row."""
        self.in_squares = in_squares
        self.b, self.op, self.epilogue, self.part = b, op, epilogue, part
        self.outputs = list(outputs) or [epilogue.output]
        shape = [part.subgroups, part.height, part.line]
        kind = f32 if part.words == 1 else VectorType(f32, [part.words])
        self.sums = shared_buffer(b, kind, shape, "finished")
        self._aligned = aligned_operands(op)
        self._operands = list(op.operands)

    def build(self, sums: Sequence[SSAValue], where: Where) -> None:
        """Finishes the matrices of a subgroup, strip by strip."""
        b, part = self.b, self.part
        # What subgroups share, all of the workgroup wait for.
        wait = subgroup_barrier if part.along == 1 else barrier
        first = b.sub(where.subgroup, where.number)
        strips = part.strips
        coming = self._read(where, strips[0])
        for number, strip in enumerate(strips):
            here, coming = coming, []
            if number + 1 < len(strips):
                coming = self._read(where, strips[number + 1])
            # Everybody has read the strip before.
            wait(b)
            down, across = strip
            for below, behind in product(range(part.tall), range(part.strip)):
                total = sums[(down + below) * part.across + across + behind]
                column = behind * part.side // part.words
                at = [where.subgroup, b.index(below * part.side), b.index(column)]
                b.do(SubgroupMmaStoreMatrixOp(total, self.sums, at, part.line))
            wait(b)
            for turn, read in enumerate(here):
                self._store(where, strip, turn, first, read)

    def _place(self, where: Where, turn: int) -> tuple[SSAValue, SSAValue]:
        """Row and column, within a strip, of what an invocation finishes."""
        b, part = self.b, self.part
        each = part.lanes * part.turns
        number = b.add(b.mul(where.number, each), b.add(where.lane, turn * part.lanes))
        line = part.width // part.together
        return b.floordiv(number, line), b.mul(b.rem(number, line), part.together)

    def _result(self, where: Where, strip: tuple[int, int], turn: int) -> list[SSAValue]:
        """Row and column of the result."""
        b = self.b
        return [
            b.add(b.add(first, number * self.part.side), behind)
            for first, number, behind in zip(
                (where.row, where.column), strip, self._place(where, turn)
            )
        ]

    def _read(self, where: Where, strip: tuple[int, int]) -> list[Rows]:
        """What the epilogue reads for a strip, by turn."""
        if not self.epilogue.extras:
            return [[] for _ in range(self.part.turns)]
        found: list[Rows] = []
        for turn in range(self.part.turns):
            row, column = self._result(where, strip, turn)
            at = [*where.batch, self._within(row, where.rows, where.whole[0]), column]
            found.append([self._read_one(extra, at, where) for extra in self.epilogue.extras])
        return found

    def _within(self, place: SSAValue, extent: Index, whole: bool, neighbours: int = 1) -> SSAValue:
        """A place that is there: what lies beyond the edge is read, and not used."""
        b = self.b
        if whole:
            return place
        return b.index(b.minimum(place, b.maximum(b.minus(extent, neighbours), 0)))

    def _read_one(self, extra: Extra, at: Sequence[Index], where: Where) -> list[SSAValue]:
        """What neighbours need of an operand."""
        b, together = self.b, self.part.together
        axis = len(at) - 1
        *_, column = at
        assert isinstance(column, SSAValue)

        def place(column: SSAValue) -> list[Index]:
            here = [*at[:-1], column]
            return [here[n] if kind == "dim" else n for kind, n in extra.axes]

        whole = where.whole[1]
        if not extra.follows(axis):
            return [b.load(extra.buffer, place(column))] * together
        if extra.axes[-1] == ("dim", axis) and self._is_wide(extra.buffer):
            # As many are inside together, or none is.
            column = self._within(column, where.columns, whole, together)
            return load_wide(b, extra.buffer, place(column), together)
        return [
            b.load(extra.buffer, place(self._within(b.add(column, lane), where.columns, whole)))
            for lane in range(together)
        ]

    def _is_wide(self, buffer: SSAValue) -> bool:
        """Whether neighbours of a buffer are read together."""
        together = self.part.together
        aligned = self._operands.index(buffer) in self._aligned
        return together > 1 and aligned and is_multiple(buffer, together)

    def _store(
        self, where: Where, strip: tuple[int, int], turn: int, first: SSAValue, read: Rows
    ) -> None:
        b, part, epilogue = self.b, self.part, self.epilogue
        row, column = self._place(where, turn)
        totals = self._sums_at(first, row, column)
        for other in range(1, part.along):
            more = self._sums_at(b.add(first, other), row, column)
            totals = [b.insert(arith.AddfOp(x, y)) for x, y in zip(totals, more)]
        row, column = self._result(where, strip, turn)
        values: list[SSAValue] = []
        for lane, total in enumerate(totals):
            at = (*where.batch, row, b.add(column, lane))
            values.append(epilogue.finish(total, Place(at, None), [one[lane] for one in read]))
        for number, output in enumerate(self.outputs):
            limits: list[SSAValue] = []
            batch = where.batch
            if where.part is not None:
                limits.append(b.compare("eq", where.part, number))
                batch = batch[1:]
            self._write(where, values, output, (*batch, row, column), limits)

    def _write(
        self,
        where: Where,
        values: list[SSAValue],
        output: SSAValue,
        place: Sequence[Index],
        limits: list[SSAValue],
    ) -> None:
        """Neighbouring results, from a place on, where all limits hold."""
        b, together = self.b, self.part.together
        *batch, row, column = place
        wide = self._is_wide(output) and is_width(output, together)
        if not where.whole[0]:
            limits.append(b.compare("ult", row, where.rows))
        if wide:
            if not where.whole[1]:
                limits.append(b.compare("ult", column, where.columns))
            self._guarded(
                limits, lambda: store_wide(b, values, output, self._stored_at(batch, row, column))
            )
            return
        for lane, value in enumerate(values):
            there = b.add(column, lane)
            inside = list(limits)
            if not where.whole[1]:
                inside.append(b.compare("ult", there, where.columns))
            at = self._stored_at(batch, row, there)
            self._guarded(inside, lambda value=value, at=at: b.store(value, output, at))

    def _stored_at(self, batch: Sequence[Index], row: Index, column: Index) -> list[Index]:
        """Where a result lies in its buffer."""
        if not self.in_squares:
            return [*batch, row, column]
        b, side = self.b, self.part.side
        within = b.add(b.mul(b.rem(row, side), side), b.rem(column, side))
        return [*batch, b.floordiv(row, side), b.floordiv(column, side), within]

    def _guarded(self, limits: Sequence[SSAValue], store: Callable[[], None]) -> None:
        if limits:
            self.b.when(both(self.b, limits), store)
        else:
            store()

    def _sums_at(self, subgroup: SSAValue, row: SSAValue, column: SSAValue) -> list[SSAValue]:
        """The sums of neighbours."""
        b, words = self.b, self.part.words
        first = b.floordiv(column, words)
        found: list[SSAValue] = []
        for start in range(self.part.together // words):
            some = b.load(self.sums, [subgroup, row, b.add(first, start)])
            if words == 1:
                found.append(some)
                continue
            found += [b.insert(vector.ExtractOp(some, [n], f32)) for n in range(words)]
        return found
