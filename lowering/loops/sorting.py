"""Stable merge sort of the positions along one axis, in two scratch buffers."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, MemRefType, i64
from xdsl.ir import SSAValue

from openinfer.lowering.loops.builder import Index, LoopBuilder
from openinfer.lowering.loops.numeric import (
    compare_floats,
    compare_integers,
    index_to,
    is_float,
    select,
    widen,
)
from openinfer.lowering.loops.runs import AxisView, each, view_around


class Sorter:
    """Sorts the lines of a buffer along one axis.

    `scratch` are two buffers of i64 in the shape of the source: positions move from one to the
    other and back, in runs that double each time.
    """

    def __init__(
        self,
        b: LoopBuilder,
        source: SSAValue,
        scratch: tuple[SSAValue, SSAValue],
        axis: int,
        *,
        descending: bool,
        unsigned: bool,
    ) -> None:
        self.b = b
        self.axis = axis
        self.source = view_around(b, source, axis)
        self.scratch = [view_around(b, buffer, axis) for buffer in scratch]
        self.descending = descending
        self.unsigned = unsigned

    def emit(self, values: SSAValue, positions: SSAValue) -> None:
        """Writes the first values of every line, as many as the results hold, and their places."""
        b, source = self.b, self.source
        results = [view_around(b, buffer, self.axis) for buffer in (values, positions)]
        rounds = _rounds(b, source.count.value(b))
        outer_is_one = source.outer.static == 1

        def line(outer: SSAValue, inner: SSAValue) -> None:
            count = source.count.value(b)
            home, away = self.scratch
            b.loop(0, count, 1, lambda k: _store(b, home, (outer, k, inner), k), hint="k")

            def double(_: SSAValue, carried: tuple[SSAValue, ...]) -> list[SSAValue]:
                (width,) = carried
                self.merge_runs(home, away, (outer, inner), width)
                twice = b.mul(width, 2)
                self.merge_runs(away, home, (outer, inner), twice)
                return [b.mul(width, 4)]

            b.reduce(0, rounds, 1, (b.index(1),), lambda i, v: double(i, tuple(v)), hint="round")

            def result(k: SSAValue) -> None:
                place = _load(b, home, (outer, k, inner))
                value = b.load(source.buffer, source.at(outer, place, inner))
                b.store(value, results[0].buffer, results[0].at(outer, k, inner))
                _store(b, results[1], (outer, k, inner), place)

            b.loop(0, results[0].count.value(b), 1, result, hint="k")

        each(
            b,
            source.outer,
            lambda o: each(b, source.inner, lambda i: line(o, i), parallel=outer_is_one),
            parallel=True,
        )

    def merge_runs(
        self,
        source: AxisView,
        target: AxisView,
        line: tuple[SSAValue, SSAValue],
        width: SSAValue,
    ) -> None:
        """Neighbouring sorted runs of `width` positions become one each; a lone last run stays."""
        b = self.b
        outer, inner = line
        count = self.source.count.value(b)
        last = b.sub(count, 1)

        def pair(low: SSAValue) -> None:
            middle = b.minimum(b.add(low, width), count)
            high = b.minimum(b.add(middle, width), count)

            def step(k: SSAValue, places: tuple[SSAValue, ...]) -> list[SSAValue]:
                left, right = places
                # Behind its end a run is read at a place that exists, and not taken.
                here = _load(b, source, (outer, b.minimum(left, last), inner))
                there = _load(b, source, (outer, b.minimum(right, last), inner))
                wins = b.insert(
                    arith.OrIOp(
                        b.compare("sge", left, middle), self.before((outer, inner), there, here)
                    )
                )
                wins = b.insert(arith.AndIOp(wins, b.compare("slt", right, high)))
                _store(b, target, (outer, k, inner), select(b, wins, there, here))
                return [
                    select(b, wins, left, b.add(left, 1)),
                    select(b, wins, b.add(right, 1), right),
                ]

            b.reduce(low, high, 1, (low, b.index(middle)), lambda k, v: step(k, tuple(v)), hint="k")

        b.loop(0, count, b.mul(width, 2), pair, hint="low")

    def before(self, line: tuple[SSAValue, SSAValue], p: SSAValue, q: SSAValue) -> SSAValue:
        """Whether the value at p comes strictly before the one at q."""
        b, (outer, inner) = self.b, line
        x, y = (b.load(self.source.buffer, self.source.at(outer, place, inner)) for place in (p, q))
        if not is_float(x):
            relation = ("u" if self.unsigned else "s") + ("gt" if self.descending else "lt")
            return compare_integers(b, relation, x, y)
        x, y = widen(b, x), widen(b, y)
        less = compare_floats(b, "ogt" if self.descending else "olt", x, y)
        # A NaN is larger than every number.
        larger, smaller = (x, y) if self.descending else (y, x)
        alone = b.insert(
            arith.AndIOp(
                compare_floats(b, "uno", larger, larger), compare_floats(b, "ord", smaller, smaller)
            )
        )
        return b.insert(arith.OrIOp(less, alone))


def _rounds(b: LoopBuilder, count: Index) -> Index:
    """How often runs must become four times as long to hold `count` elements, from 1 on."""
    if isinstance(count, int):
        rounds = 0
        while 4**rounds < count:
            rounds += 1
        return rounds

    def step(_: SSAValue, carried: tuple[SSAValue, ...]) -> list[SSAValue]:
        width, rounds = carried
        shorter = b.compare("slt", width, count)
        return [b.mul(width, 4), b.add(rounds, select(b, shorter, b.index(1), b.index(0)))]

    # 4 to the power of 31 is the last one that an index holds.
    carried = (b.index(1), b.index(0))
    return b.reduce(0, 31, 1, carried, lambda i, v: step(i, tuple(v)), hint="power")[1]


Place = tuple[Index, Index, Index]


def _load(b: LoopBuilder, view: AxisView, place: Place) -> SSAValue:
    """A position out of a buffer of i64."""
    from openinfer.dialects.extensions.arith import IndexCastOp

    return b.insert(IndexCastOp(b.load(view.buffer, view.at(*place)), IndexType()))


def _store(b: LoopBuilder, view: AxisView, place: Place, position: SSAValue) -> None:
    assert isinstance(view.buffer.type, MemRefType)
    b.store(index_to(b, position, i64), view.buffer, view.at(*place))
