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

The work grows with the square of the length. One element of a row that is not finite makes all results NaN.
Requires: bufferised; lengths that are known, up to `MOST_SAMPLES`; mathematics are not strict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan, sqrt

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.nn import FourierOp, IrfftOp, RfftOp, element_of
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import INF, absolute, compare_floats, resize_float, select
from openinfer.lowering.kernels.turns import part_of_turn
from openinfer.lowering.vulkan.schedules.exact_sums import ExactSum
from openinfer.lowering.vulkan.schedules.grid import Grid, each_element

MOST_SAMPLES = 1 << 12
"""Samples of a row whose terms an invocation adds up."""

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

        bins = b.minimum(b.dim(source, len(row)), length // 2 + 1)
        transform.store(transform.summed(bins, j, term), place)

    return each_element(b, op.output, element)


class _Transform:
    def __init__(self, b: LoopBuilder, op: FourierOp) -> None:
        self.b, self.op = b, op
        length = op.n.data.constant
        assert length is not None
        self.length = length

    def load(self, place: Sequence[Index]) -> SSAValue:
        return resize_float(self.b, self.b.load(self.op.inputs[0], place), f32)

    def summed(self, count: Index, step: SSAValue, term: Term) -> SSAValue:
        """The terms of a row; that of place j is `j * step` parts of a turn further on."""
        b, sums = self.b, ExactSum(self.b, f32)

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

        first = [*sums.first(), b.constant(0, f32), b.index(0)]
        high, low, mark, _ = b.reduce(0, b.minimum(count, self.length), 1, first, add, hint="j")
        return b.insert(arith.AddfOp(self._scaled(sums.total(high, low)), mark))

    def _scaled(self, value: SSAValue) -> SSAValue:
        """By 1/n or its root, if the norm says so."""
        inverse = isinstance(self.op, IrfftOp)
        if self.op.norm.data == ("forward" if inverse else "backward"):
            return value
        factor = 1 / sqrt(self.length) if self.op.norm.data == "ortho" else 1 / self.length
        return self.b.insert(arith.MulfOp(value, self.b.constant(factor, f32)))

    def store(self, value: SSAValue, place: Sequence[SSAValue]) -> None:
        target = self.op.output
        self.b.store(resize_float(self.b, value, element_of(target)), target, place)
