"""`nn.rfft` and `nn.irfft`: an invocation adds up an element of the result, term by term.

Before:
    nn.rfft(%x) outs(%y) {n = #graph.size<12>, norm = "backward"}
      : (memref<?x12xf32>, memref<?x7x2xf32>) -> ()

After:
    scf.if %inside {                             // %row, %k, %part of the element
      %sum, …, %number = scf.for %j = %c0 to %c12 step %c1 iter_args(…) {
        …                                        // cosine and sine of %number / 12 of a turn
        %v = memref.load %x[%row, %j]
        … }                                      // %number is j * k, less whole turns
      memref.store %r, %y[%row, %k, %part] }

The work grows with the square of the length. The host has stages for known lengths, so that longer ones
are left to it; of others it adds up the same terms. One element of a row that is not finite makes all results
NaN.
Requires: bufferised; mathematics are not strict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan, sqrt

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.dialects.math import SqrtOp
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.nn import FourierOp, IrfftOp, RfftOp, SizeOp, element_of
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import (
    INF,
    absolute,
    compare_floats,
    count_as,
    resize_float,
    select,
)
from openinfer.lowering.kernels.turns import part_of_turn
from openinfer.lowering.vulkan.schedules.exact_sums import ExactSum
from openinfer.lowering.vulkan.schedules.grid import Grid, each_element

MOST_SAMPLES = 1 << 12
"""Samples of a row of a known length, whose terms an invocation adds up."""
TERMS = 1 << 12
"""Turns of one loop over terms: drivers that compute on the processor end a loop after 65,535."""

Term = Callable[[SSAValue, SSAValue, SSAValue], tuple[list[SSAValue], list[SSAValue]]]
"""Of the place in a row, cosine and sine: what is added, and the elements that were read."""


def lower_rfft(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a transform of rows of reals."""
    assert isinstance(op, RfftOp)
    transform = _Transform(b, op)
    source = op.inputs[0]

    def element(place: list[SSAValue]) -> None:
        *row, k, part = place
        real = b.compare("eq", part, 0)

        def term(
            j: SSAValue, cosine: SSAValue, sine: SSAValue
        ) -> tuple[list[SSAValue], list[SSAValue]]:
            value = transform.load([*row, j])
            phase = select(b, real, cosine, b.insert(arith.NegfOp(sine)))
            return [b.insert(arith.MulfOp(value, phase))], [value]

        samples = b.dim(source, len(row))
        transform.store(transform.summed(samples, k, term), place)

    return each_element(b, op.output, element)


def lower_irfft(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of the reverse. Bins but the first and the middle one stand for their mirror images, too."""
    assert isinstance(op, IrfftOp)
    transform = _Transform(b, op)
    source, length = op.inputs[0], transform.length

    def element(place: list[SSAValue]) -> None:
        *row, j = place

        def term(
            k: SSAValue, cosine: SSAValue, sine: SSAValue
        ) -> tuple[list[SSAValue], list[SSAValue]]:
            real, imaginary = (transform.load([*row, k, part]) for part in (0, 1))
            mirror = b.sub(b.index(length), k)
            proper = b.insert(arith.AndIOp(b.compare("ne", k, 0), b.compare("ult", k, mirror)))
            one, zero = b.constant(1, f32), b.constant(0, f32)
            weight = select(b, proper, b.constant(2, f32), one)
            # The first bin and the middle one are real.
            turned = select(b, proper, b.insert(arith.NegfOp(imaginary)), zero)
            parts = [
                b.insert(arith.MulfOp(value, b.insert(arith.MulfOp(weight, phase))))
                for value, phase in ((real, cosine), (turned, sine))
            ]
            return parts, [real, imaginary]

        half = length // 2 if isinstance(length, int) else b.floordiv(length, 2)
        bins = b.minimum(b.dim(source, len(row)), b.plus(half, 1))
        transform.store(transform.summed(bins, j, term), place)

    return each_element(b, op.output, element)


class _Transform:
    def __init__(self, b: LoopBuilder, op: FourierOp) -> None:
        self.b, self.op = b, op
        size = op.n.data
        self.length = b.insert(SizeOp(size)) if size.constant is None else size.constant

    def load(self, place: Sequence[Index]) -> SSAValue:
        return resize_float(self.b, self.b.load(self.op.inputs[0], place), f32)

    def summed(self, count: Index, step: SSAValue, term: Term) -> SSAValue:
        """The terms of a row; that of place j is `j * step` parts of a turn further on."""
        b, sums = self.b, ExactSum(self.b, f32)
        count = b.minimum(count, self.length)

        def add(j: SSAValue, old: Sequence[SSAValue]) -> list[SSAValue]:
            *total, mark, number = old
            parts, read = term(j, *part_of_turn(b, number, self.length))
            for value in parts:
                total = list(sums.more(value, *total))
            for value in read:
                finite = compare_floats(b, "olt", absolute(b, value), b.constant(INF, f32))
                mark = select(b, finite, mark, b.constant(nan, f32))
            further = b.add(number, step)
            behind = b.compare("uge", further, self.length)
            return [*total, mark, select(b, behind, b.sub(further, self.length), further)]

        def some(first: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
            return b.reduce(first, b.minimum(b.add(first, TERMS), count), 1, old, add, hint="j")

        found: Sequence[SSAValue] = [*sums.first(), b.constant(0, f32), b.index(0)]
        if isinstance(self.length, int):
            found = b.reduce(0, count, 1, found, add, hint="j")
        else:
            found = b.reduce(0, count, TERMS, found, some, hint="first")
        high, low, mark, _ = found
        return b.insert(arith.AddfOp(self._scaled(sums.total(high, low)), mark))

    def _scaled(self, value: SSAValue) -> SSAValue:
        """By 1/n or its root, if the norm says so."""
        b, inverse = self.b, isinstance(self.op, IrfftOp)
        if self.op.norm.data == ("forward" if inverse else "backward"):
            return value
        ortho = self.op.norm.data == "ortho"
        if isinstance(self.length, int):
            factor = b.constant(1 / sqrt(self.length) if ortho else 1 / self.length, f32)
            return b.insert(arith.MulfOp(value, factor))
        divisor = count_as(b, self.length, f32)
        return b.insert(arith.DivfOp(value, b.insert(SqrtOp(divisor)) if ortho else divisor))

    def store(self, value: SSAValue, place: Sequence[SSAValue]) -> None:
        target = self.op.output
        self.b.store(resize_float(self.b, value, element_of(target)), target, place)
