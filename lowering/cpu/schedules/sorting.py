"""The positions along an axis in sorted order: by merging runs, or by choosing the first ones."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, i64
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.arith import IndexCastOp
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import (
    index_to,
    select,
)
from openinfer.lowering.kernels.runs import AxisView, each, view_around
from openinfer.lowering.kernels.sort_order import Order

Line = tuple[SSAValue, SSAValue]
"""The outer and the inner index of a line along the axis."""
Values = tuple[SSAValue, ...]


class Sorter:
    """Sorts the lines of a buffer along one axis; equal values keep their order."""

    def __init__(
        self, b: LoopBuilder, source: SSAValue, results: Line, axis: int, order: Order
    ) -> None:
        """`results` take the first values of every line, as many as they hold, and their places."""
        self.b = b
        self.axis = axis
        self.order = order
        self.source = view_around(b, source, axis)
        self.values, self.places = (view_around(b, buffer, axis) for buffer in results)
        self.count = self.source.count.value(b)
        self.taken = self.places.count.value(b)

    def lines(self, body: Callable[[Line], None]) -> None:
        """`body` for every line; they go in parallel."""
        b, source = self.b, self.source
        one = source.outer.static == 1
        each(
            b,
            source.outer,
            lambda o: each(b, source.inner, lambda i: body((o, i)), parallel=one),
            parallel=True,
        )

    def load(self, view: AxisView, line: Line, k: Index) -> SSAValue:
        """The position that a buffer of positions holds at a place."""
        raw = self.b.load(view.buffer, view.at(line[0], k, line[1]))
        return self.b.insert(IndexCastOp(raw, IndexType()))

    def store(self, view: AxisView, line: Line, k: Index, position: SSAValue) -> None:
        raw = index_to(self.b, position, i64)
        self.b.store(raw, view.buffer, view.at(line[0], k, line[1]))

    def before(self, line: Line, p: SSAValue, q: SSAValue) -> SSAValue:
        """Whether the value at position p comes strictly before the one at q."""
        return self.order.before(self.b, *(self.value(line, place) for place in (p, q)))

    def value(self, line: Line, position: SSAValue) -> SSAValue:
        return self.b.load(self.source.buffer, self.source.at(line[0], position, line[1]))

    def finish(self, line: Line, found: AxisView) -> None:
        """Writes the values at the positions that were found, and the positions."""

        def result(k: SSAValue) -> None:
            place = self.load(found, line, k)
            target = self.values
            self.b.store(self.value(line, place), target.buffer, target.at(line[0], k, line[1]))
            if found is not self.places:
                self.store(self.places, line, k, place)

        self.b.loop(0, self.taken, 1, result, hint="k")

    # All of a line

    def merge(self, scratch: Line) -> None:
        """Sorts whole lines. `scratch` are two buffers of i64 in the shape of the source: positions
        move from one to the other and back, in sorted runs that double each time."""
        b = self.b
        home, away = (view_around(b, buffer, self.axis) for buffer in scratch)
        rounds = _rounds(b, self.count)

        def sort(line: Line) -> None:
            b.loop(0, self.count, 1, lambda k: self.store(home, line, k, k), hint="k")

            def double(width: SSAValue) -> list[SSAValue]:
                self._merge_runs(home, away, line, width)
                self._merge_runs(away, home, line, b.mul(width, 2))
                return [b.mul(width, 4)]

            b.reduce(0, rounds, 1, (b.index(1),), lambda _, v: double(v[0]), hint="round")
            self.finish(line, home)

        self.lines(sort)

    def _merge_runs(self, source: AxisView, target: AxisView, line: Line, width: SSAValue) -> None:
        """Neighbouring sorted runs of `width` positions become one each; a lone last run stays."""
        b, count = self.b, self.count
        last = b.sub(count, 1)

        def pair(low: SSAValue) -> None:
            middle = b.minimum(b.add(low, width), count)
            high = b.minimum(b.add(b.index(middle), width), count)

            def step(k: SSAValue, ends: Values) -> list[SSAValue]:
                left, right = ends
                # Behind its end a run is read at a place that exists, and not taken.
                here = self.load(source, line, b.minimum(left, last))
                there = self.load(source, line, b.minimum(right, last))
                wins = b.insert(
                    arith.OrIOp(b.compare("sge", left, middle), self.before(line, there, here))
                )
                wins = b.insert(arith.AndIOp(wins, b.compare("slt", right, high)))
                self.store(target, line, k, select(b, wins, there, here))
                return [
                    select(b, wins, left, b.add(left, 1)),
                    select(b, wins, b.add(right, 1), right),
                ]

            b.reduce(low, high, 1, (low, b.index(middle)), lambda k, v: step(k, tuple(v)), hint="k")

        b.loop(0, count, b.mul(width, 2), pair, hint="low")

    # The first ones of a line

    def choose(self) -> None:
        """Keeps the best positions of what was seen so far in order, in the result itself.

        An element that comes before the last one that is kept moves up to its place. That is seldom
        where few are kept of many, and never needs more room.
        """
        b, places = self.b, self.places
        if self.taken == 0:
            return

        def sort(line: Line) -> None:
            def start(j: SSAValue) -> None:
                self.store(places, line, j, j)
                self._move_up(line, j)

            b.loop(0, self.taken, 1, start, hint="j")
            last = b.sub(self.taken, 1)

            def offer(j: SSAValue) -> None:
                def take() -> None:
                    self.store(places, line, last, j)
                    self._move_up(line, last)

                b.when(self.before(line, j, self.load(places, line, last)), take)

            b.loop(self.taken, self.count, 1, offer, hint="j")
            self.finish(line, places)

        if isinstance(self.taken, int):
            self.lines(sort)
        else:
            # Where nothing is kept there is no last one.
            b.when(b.compare("ne", self.taken, 0), lambda: self.lines(sort))

    def _move_up(self, line: Line, start: SSAValue) -> None:
        """The position at `start` changes places with those in front of it that it comes before."""
        b, places = self.b, self.places

        def step(n: SSAValue) -> None:
            k = b.sub(start, n)
            above = b.sub(k, 1)
            upper, lower = self.load(places, line, above), self.load(places, line, k)
            moves = self.before(line, lower, upper)
            self.store(places, line, above, select(b, moves, lower, upper))
            self.store(places, line, k, select(b, moves, upper, lower))

        b.loop(0, start, 1, step, hint="n")


def _rounds(b: LoopBuilder, count: Index) -> Index:
    """How often runs must become four times as long to hold `count` elements, from 1 on."""
    if isinstance(count, int):
        rounds = 0
        while 4**rounds < count:
            rounds += 1
        return rounds

    def step(width: SSAValue, rounds: SSAValue) -> list[SSAValue]:
        shorter = b.compare("slt", width, count)
        return [b.mul(width, 4), b.add(rounds, select(b, shorter, b.index(1), b.index(0)))]

    # 4 to the power of 31 is the last one that an index holds.
    carried = (b.index(1), b.index(0))
    return b.reduce(0, 31, 1, carried, lambda _, v: step(v[0], v[1]), hint="power")[1]
