"""`nn.sort`: an invocation counts how many elements of a line stand in front of its own; of long lines, and
those whose length only the step knows, a workgroup exchanges the positions.

Before:
    nn.sort(%x) outs(%v, %p) {axis = 0 : i64} : (memref<64xf32>, memref<8xf32>, memref<8xi64>) -> ()

After:
    scf.if %inside {
      %x_i = memref.load %x[%i]
      %rank = scf.for %j = %c0 to %i …      // those before it that do not stand behind it
      %rank_2 = scf.for %j = …              // those behind it that stand in front of it
      scf.if %rank_2 < 8 { memref.store %x_i, %v[%rank_2] … } }

Counting takes work that grows with the square of a line's length, but every invocation of the device has
some. Equal values keep their order either way.

The exchanges are those of a bitonic network (Batcher): in round r blocks of 2**(r + 1) are sorted, whose
halves are. First each position of a block may change places with that of its mirror image, then with the one
2**(r - 1), 2**(r - 2), …, 1 further on. All of them put the smaller value in front, so that places behind the
last one need not be there: they would hold the largest value, and never move.

Requires: bufferised; longer lines: the scratch buffer `home`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, i1, i64
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.extensions.arith import IndexCastOp
from openinfer.dialects.nn import SortOp, dims_of
from openinfer.lowering.demands import Scratch
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import index_to, select
from openinfer.lowering.kernels.scratch import scratch_of
from openinfer.lowering.kernels.sort_order import Order
from openinfer.lowering.vulkan.schedules.grid import Grid, each_element, each_group, groups_for
from openinfer.lowering.vulkan.schedules.group_line import invocations_for
from openinfer.lowering.vulkan.schedules.lines import Lines, Place
from openinfer.lowering.vulkan.schedules.workgroup import Workgroup, device_barrier

MOST_COUNTED = 1 << 15
"""Elements of a line that are compared with each other."""
MOST_ROUNDS = 31
"""Doublings from one position to more than a line has."""


def sort_scratch(op: SortOp) -> list[Scratch]:
    """The scratch buffer of a sort, here on tensors, whose lines are not counted."""
    dims = dims_of(op.inputs[0])
    length = dims[op.axis.value.data].constant
    return [] if length is not None and length <= MOST_COUNTED else [Scratch("home", i64, dims)]


def lower_sort(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a sort."""
    assert isinstance(op, SortOp)
    length = b.dim(op.inputs[0], op.axis.value.data)
    if isinstance(length, int) and length <= MOST_COUNTED:
        return _by_counting(b, op, length)
    return _Exchanges(b, op).emit()


def _order(op: SortOp) -> Order:
    return Order(op.descending is not None, op.unsigned is not None)


def _by_counting(b: LoopBuilder, op: SortOp, length: int) -> Grid:
    source, (values, places) = op.inputs[0], op.outs
    axis, order = op.axis.value.data, _order(op)
    taken = b.dim(values, axis)

    def element(place: list[SSAValue]) -> None:
        def at(k: Index) -> list[Index]:
            return [*place[:axis], k, *place[axis + 1 :]]

        own, here = b.load(source, place), place[axis]

        def count(
            first: Index, last: Index, rank: SSAValue, stands: Callable[[SSAValue], SSAValue]
        ) -> SSAValue:
            """`rank`, and how many of a range `stands` is true of."""

            def step(j: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
                found = stands(b.load(source, at(j)))
                return [select(b, found, b.add(old[0], 1), old[0])]

            (rank,) = b.reduce(first, last, 1, [rank], step, hint="j")
            return rank

        behind = count(0, here, b.index(0), lambda x: order.before(b, own, x))
        rank = b.sub(here, behind)
        rank = count(b.add(here, 1), length, rank, lambda x: order.before(b, x, own))

        def store() -> None:
            b.store(own, values, at(rank))
            b.store(index_to(b, here, i64), places, at(rank))

        b.when(b.compare("ult", rank, taken), store)

    return each_element(b, source, element)


class _Exchanges:
    """A workgroup for each line, which moves the positions of its elements in `home`."""

    def __init__(self, b: LoopBuilder, op: SortOp) -> None:
        self.b, self.op, self.order = b, op, _order(op)
        self.lines = Lines(b, op.inputs[0], op.axis.value.data)
        self.length = self.lines.length
        (self.home,) = scratch_of(op, "home")
        self.group = Workgroup(b, invocations_for(b, self.length))

    def emit(self) -> Grid:
        b, lines = self.b, self.lines
        each_group(b, lines.count(b, lines.buffer), self.line)
        return Grid(
            lambda host, value_of: groups_for(host, lines.count(host, value_of(lines.buffer))),
            self.group.size,
        )

    def each(self, count: Index, body: Callable[[SSAValue], None], hint: str) -> None:
        """`body` with all numbers below `count`, which the invocations share; then all wait."""
        self.b.loop(self.group.thread, count, self.group.size, body, hint=hint)
        device_barrier(self.b)

    def line(self, number: SSAValue) -> None:
        b, at = self.b, self.lines.place(number)
        self.each(self.length, lambda k: b.store(index_to(b, k, i64), self.home, at(k)), "k")
        rounds, pairs = self.rounds()

        def one_round(r: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
            (half,) = old

            def mirrored(p: SSAValue) -> None:
                first, offset = self.block(p, half)
                last = b.sub(b.add(first, b.mul(half, 2)), b.add(offset, 1))
                self.exchange(at, b.add(first, offset), last)

            def nearer(_: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
                (step,) = old

                def apart(p: SSAValue) -> None:
                    first, offset = self.block(p, step)
                    front = b.add(first, offset)
                    self.exchange(at, front, b.add(front, step))

                self.each(pairs, apart, "p")
                return [b.floordiv(step, 2)]

            self.each(pairs, mirrored, "p")
            b.reduce(0, r, 1, [b.floordiv(half, 2)], nearer, hint="s")
            return [b.mul(half, 2)]

        b.reduce(0, rounds, 1, [b.index(1)], one_round, hint="r")
        self.store(at)

    def rounds(self) -> tuple[Index, Index]:
        """How often the length of a block doubles, and half of what that comes to."""
        b, length = self.b, self.length
        if isinstance(length, int):
            rounds = (length - 1).bit_length()
            return rounds, (1 << rounds) // 2

        def double(_: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
            rounds, reach = old
            grows = b.compare("ult", reach, length)
            return [
                select(b, grows, b.add(rounds, 1), rounds),
                select(b, grows, b.mul(reach, 2), reach),
            ]

        rounds, reach = b.reduce(0, MOST_ROUNDS, 1, [b.index(0), b.index(1)], double)
        return rounds, b.floordiv(reach, 2)

    def block(self, pair: SSAValue, half: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Where the block of a pair begins, of which each has `half` of them, and which of them it is."""
        b = self.b
        return b.mul(b.floordiv(pair, half), b.mul(half, 2)), b.rem(pair, half)

    def exchange(self, at: Place, front: SSAValue, back: SSAValue) -> None:
        """Puts the position of the element that comes first in front."""
        b = self.b

        def look() -> None:
            p, q = (self.position(at, place) for place in (front, back))
            x, y = (b.load(self.op.inputs[0], at(one)) for one in (p, q))
            no = b.insert(arith.XOrIOp(self.order.before(b, x, y), b.constant(1, i1)))
            equal = b.insert(arith.AndIOp(no, b.compare("ult", q, p)))
            wrong = b.insert(arith.OrIOp(self.order.before(b, y, x), equal))

            def swap() -> None:
                b.store(index_to(b, q, i64), self.home, at(front))
                b.store(index_to(b, p, i64), self.home, at(back))

            b.when(wrong, swap)

        b.when(b.compare("ult", back, self.length), look)

    def position(self, at: Place, place: Index) -> SSAValue:
        return self.b.insert(IndexCastOp(self.b.load(self.home, at(place)), IndexType()))

    def store(self, at: Place) -> None:
        """The first values, as many as there are results for, and their positions."""
        b, (values, places) = self.b, self.op.outs

        def one(k: SSAValue) -> None:
            position = self.position(at, k)
            b.store(b.load(self.op.inputs[0], at(position)), values, at(k))
            b.store(index_to(b, position, i64), places, at(k))

        taken = b.dim(values, self.op.axis.value.data)
        b.loop(self.group.thread, taken, self.group.size, one, hint="k")
