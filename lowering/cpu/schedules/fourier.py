"""Loops of the Fourier transforms of rows.

A length that is known is factored into stages (`butterflies.py`); for one that only the run knows
every bin is a sum over its row, in f64. Either way the cosines and sines of all n-th parts of a turn
are made first. What the elements of a row times 0 add up to is added to every result: 0, or NaN
when one of them is not finite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi, sqrt

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import MemRefType, f64
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects.nn import FourierOp, IrfftOp, RfftOp, SizeOp, ThreadOp
from openinfer.lowering.cpu.schedules.butterflies import Row, Stage, radices
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import (
    count_as,
    element_type,
    index_to,
    resize_float,
    select,
)
from openinfer.lowering.kernels.runs import Extent, collapse, each, extent_of
from openinfer.lowering.kernels.scratch import scratch_of
from openinfer.runtime.quick_dataclass import dataclass


@dataclass(frozen=True)
class _Rows:
    """A buffer with all axes but the last one or two as one; none where there are no others."""

    buffer: SSAValue
    extent: Extent
    alone: bool

    @staticmethod
    def of(b: LoopBuilder, buffer: SSAValue, inner: int) -> _Rows:
        assert isinstance(buffer.type, MemRefType)
        rank = buffer.type.get_num_dims()
        lead = list(range(rank - inner))
        extent = extent_of(b, buffer, lead)
        if lead:
            last = [[axis] for axis in range(rank - inner, rank)]
            buffer = collapse(b, buffer, [lead, *last])
        return _Rows(buffer, extent, not lead)

    def count(self, b: LoopBuilder) -> Index:
        """The number of samples or bins of a row."""
        return b.dim(self.buffer, 0 if self.alone else 1)

    def at(self, row: Index, *places: Index) -> list[Index]:
        return list(places) if self.alone else [row, *places]


class Fourier:
    """What both directions share: the table, rows in scratch, the factor of the norm."""

    def __init__(self, b: LoopBuilder, op: FourierOp, lanes: int) -> None:
        self.b = b
        self.lanes = lanes
        self.norm = op.norm.data
        length = op.n.data
        self.static = length.constant
        self.length: Index = b.insert(SizeOp(length)) if self.static is None else self.static
        self.table, self.work = scratch_of(op, "table", "rows")
        self.thread = b.insert(ThreadOp())
        self.computed = element_type(self.work)
        spectra = 2 if isinstance(op, RfftOp) else 1
        self.source = _Rows.of(b, op.inputs[0], 3 - spectra)
        self.target = _Rows.of(b, op.outs[0], spectra)
        self.inverse = isinstance(op, IrfftOp)

    def emit(self) -> None:
        b = self.b
        self._make_table()
        each(b, self.target.extent, self._row, parallel=True, hint="row")

    def _row(self, row: SSAValue) -> None:
        mark = self._take_bins(row) if self.inverse else self._take_samples(row)
        if self.static is None:
            (self._samples_by_sums if self.inverse else self._bins_by_sums)(row, mark)
            return
        here = self._stages()
        (self._give_samples if self.inverse else self._give_bins)(row, here, mark)

    # The table

    def _make_table(self) -> None:
        b = self.b
        kind = element_type(self.table)

        def place(j: SSAValue) -> None:
            turns = b.insert(arith.MulfOp(index_to(b, j, f64), b.constant(2 * pi, f64)))
            angle = b.insert(arith.DivfOp(turns, count_as(b, self.length, f64)))
            for part, function in enumerate((math.CosOp, math.SinOp)):
                value = resize_float(b, b.insert(function(angle)), kind)
                b.store(value, self.table, [part, j])

        b.loop(0, self.length, 1, place, parallel=True, hint="j")

    def _phase(self, number: SSAValue) -> tuple[SSAValue, SSAValue]:
        cosine, sine = (
            resize_float(self.b, self.b.load(self.table, [part, number]), f64) for part in (0, 1)
        )
        return cosine, sine

    # Rows into scratch

    def _keep(self, value: SSAValue, part: int, place: Index) -> None:
        self.b.store(value, self.work, [self.thread, part, place])

    def _kept(self, part: int, place: Index) -> SSAValue:
        return self.b.load(self.work, [self.thread, part, place])

    def _clear(self, parts: Sequence[int], first: Index) -> None:
        zero = self.b.constant(0, self.computed)

        def place(j: SSAValue) -> None:
            for part in parts:
                self._keep(zero, part, j)

        self.b.loop(first, self.length, 1, place, hint="j")

    def _marked(self, mark: SSAValue, value: SSAValue) -> SSAValue:
        b = self.b
        nothing = b.insert(arith.MulfOp(value, b.constant(0, self.computed)))
        return b.insert(arith.AddfOp(mark, nothing))

    def _take_samples(self, row: SSAValue) -> SSAValue:
        """Samples as real parts, cut or padded; gives the mark."""
        b = self.b
        count = b.minimum(self.source.count(b), self.length)

        def place(j: SSAValue, mark: Sequence[SSAValue]) -> list[SSAValue]:
            value = resize_float(
                b, b.load(self.source.buffer, self.source.at(row, j)), self.computed
            )
            self._keep(value, 0, j)
            return [self._marked(mark[0], value)]

        self._clear((1,), 0)
        (mark,) = b.reduce(
            0, count, 1, [b.constant(0, self.computed)], place, hint="j", sums="marks"
        )
        self._clear((0,), count)
        return mark

    def _take_bins(self, row: SSAValue) -> SSAValue:
        """Bins and their mirror images, conjugated; gives the mark.

        The transform of the conjugate is the conjugate of what is wanted, which is real.
        """
        b = self.b
        bins = b.plus(_halved(b, self.length), 1)
        count = b.minimum(self.source.count(b), bins)
        self._clear((0, 1), 0)

        def place(k: SSAValue, mark: Sequence[SSAValue]) -> list[SSAValue]:
            real, imaginary = (
                resize_float(
                    b, b.load(self.source.buffer, self.source.at(row, k, part)), self.computed
                )
                for part in (0, 1)
            )
            mirror = b.sub(self.length, k)
            # Bins 0 and n/2 are their own mirror images: real.
            inside = b.compare("ult", k, mirror)
            proper = b.insert(arith.AndIOp(b.compare("ne", k, 0), inside))
            zero = b.constant(0, self.computed)
            turned = select(b, proper, imaginary, zero)
            other = select(b, proper, mirror, k)
            self._keep(real, 0, other)
            self._keep(turned, 1, other)
            self._keep(real, 0, k)
            self._keep(b.insert(arith.NegfOp(turned)), 1, k)
            return [self._marked(self._marked(mark[0], real), imaginary)]

        (mark,) = b.reduce(
            0, count, 1, [b.constant(0, self.computed)], place, hint="k", sums="marks"
        )
        return mark

    # A known length: stages

    def _stages(self) -> Row:
        """All stages, to and fro between two rows of scratch; gives the row of the result."""
        assert self.static is not None
        here, there = (Row(self.work, self.thread, part) for part in (0, 2))
        count, stride = self.static, 1
        for radix in radices(self.static):
            stage = Stage(
                self.b, self.table, self.computed, self.static, radix, count, stride, self.lanes
            )
            stage.emit(here, there)
            here, there = there, here
            count, stride = count // radix, stride * radix
        return here

    def _give_bins(self, row: SSAValue, here: Row, mark: SSAValue) -> None:
        b = self.b

        def place(k: SSAValue) -> None:
            for part, value in enumerate(here.load(b, k, 1, None)):
                self._store(value, mark, self.target.at(row, k, part))

        b.loop(0, self.target.count(b), 1, place, hint="k")

    def _give_samples(self, row: SSAValue, here: Row, mark: SSAValue) -> None:
        b = self.b

        def place(j: SSAValue) -> None:
            self._store(here.load(b, j, 1, None)[0], mark, self.target.at(row, j))

        b.loop(0, self.length, 1, place, hint="j")

    def _store(self, value: SSAValue, mark: SSAValue, place: Sequence[Index]) -> None:
        """The value by the factor of the norm, with the mark, rounded once."""
        b = self.b
        factor = self._factor(element_type(value))
        if factor is not None:
            value = b.insert(arith.MulfOp(value, factor))
        value = b.insert(arith.AddfOp(value, resize_float(b, mark, element_type(value))))
        b.store(resize_float(b, value, element_type(self.target.buffer)), self.target.buffer, place)

    def _factor(self, kind: Attribute) -> SSAValue | None:
        """1/n, 1/sqrt(n), or None for 1."""
        b = self.b
        if self.norm == ("forward" if self.inverse else "backward"):
            return None
        if self.static is not None:
            whole = 1 / self.static
            return b.constant(1 / sqrt(self.static) if self.norm == "ortho" else whole, kind)
        divisor = count_as(b, self.length, f64)
        if self.norm == "ortho":
            divisor = b.insert(math.SqrtOp(divisor))
        return resize_float(b, b.insert(arith.DivfOp(b.constant(1, f64), divisor)), kind)

    # A length that only the run knows: sums

    def _summed(
        self, step: Index, term: Callable[[SSAValue, SSAValue, SSAValue], Sequence[SSAValue]]
    ) -> tuple[SSAValue, SSAValue]:
        """Two sums over all places of the row; the phase of place j is j * step parts of a turn."""
        b = self.b

        def add(j: SSAValue, old: Sequence[SSAValue]) -> list[SSAValue]:
            *sums, number = old
            new = [
                b.insert(arith.AddfOp(total, value))
                for total, value in zip(sums, term(j, *self._phase(number)))
            ]
            further = b.add(number, step)
            behind = b.compare("uge", further, self.length)
            return [*new, select(b, behind, b.sub(further, self.length), further)]

        zero = b.constant(0, f64)
        first, second, _ = b.reduce(
            0, self.length, 1, [zero, zero, b.index(0)], add, hint="j", sums="products"
        )
        return first, second

    def _bins_by_sums(self, row: SSAValue, mark: SSAValue) -> None:
        b = self.b

        def term(j: SSAValue, cosine: SSAValue, sine: SSAValue) -> list[SSAValue]:
            value = resize_float(b, self._kept(0, j), f64)
            turned = b.insert(arith.NegfOp(sine))
            return [b.insert(arith.MulfOp(value, phase)) for phase in (cosine, turned)]

        def place(k: SSAValue) -> None:
            for part, value in enumerate(self._summed(k, term)):
                self._store(value, mark, self.target.at(row, k, part))

        b.loop(0, self.target.count(b), 1, place, hint="k")

    def _samples_by_sums(self, row: SSAValue, mark: SSAValue) -> None:
        """The real part of the sum over the conjugated spectrum."""
        b = self.b

        def term(k: SSAValue, cosine: SSAValue, sine: SSAValue) -> list[SSAValue]:
            real, imaginary = (resize_float(b, self._kept(part, k), f64) for part in (0, 1))
            return [
                b.insert(arith.MulfOp(real, cosine)),
                b.insert(arith.MulfOp(imaginary, sine)),
            ]

        def place(j: SSAValue) -> None:
            value = b.insert(arith.AddfOp(*self._summed(j, term)))
            self._store(value, mark, self.target.at(row, j))

        b.loop(0, self.length, 1, place, hint="j")


def _halved(b: LoopBuilder, length: Index) -> Index:
    return length // 2 if isinstance(length, int) else b.floordiv(length, 2)
