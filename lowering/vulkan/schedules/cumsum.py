"""`nn.cumsum`: an invocation walks a line.

Before:
    nn.cumsum(%x) outs(%y) {axis = 0 : i64} : (memref<?x64xf32>, memref<?x64xf32>) -> ()

After:
    scf.if %inside {
      scf.for %k = %c0 to %rows step %c1 iter_args(%high = …, %low = …) {
        %v = memref.load %x[%k, %j]
        …                                   // the sum, and what its roundings took away
        memref.store %total, %y[%k, %j] } }

Requires: bufferised.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, Float64Type
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.nn import CumsumOp, element_of
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import resize_float, wide_type
from openinfer.lowering.vulkan.schedules.exact_sums import ExactSum
from openinfer.lowering.vulkan.schedules.grid import Grid
from openinfer.lowering.vulkan.schedules.lines import Lines, Place


def lower_cumsum(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of running sums, or products."""
    assert isinstance(op, CumsumOp)
    lines = Lines(b, op.output, op.axis.value.data)
    length = lines.length

    def line(number: SSAValue) -> None:
        sums = _Sums(b, op)
        at = lines.place(number)

        def step(k: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
            place: Index = b.sub(b.sub(length, 1), k) if op.reverse is not None else k
            return sums.step(at, place, old)

        b.reduce(0, length, 1, sums.first(), step, hint="k")

    return lines.each(line)


class _Sums:
    """One step of running sums or products after the other."""

    def __init__(self, b: LoopBuilder, op: CumsumOp) -> None:
        self.b, self.op = b, op
        self.exclusive = op.exclusive is not None
        self.product = op.product is not None
        self.element = element_of(op.output)
        self.exact: ExactSum | None = None
        narrow = isinstance(self.element, AnyFloat) and not isinstance(self.element, Float64Type)
        if narrow and not self.product and not b.facts.strict_math:
            self.exact = ExactSum(b, wide_type(self.element))

    def first(self) -> list[SSAValue]:
        """What the sums begin with: -0.0 + x is x, also for -0.0."""
        if self.product:
            return [self.b.constant(1, self.element)]
        zero = 0.0 if self.exclusive else -0.0
        if self.exact is not None:
            return self.exact.first(zero)
        start = zero if isinstance(self.element, AnyFloat) else 0
        return [self.b.constant(start, self.element)]

    def step(self, at: Place, place: Index, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
        value = self.b.load(self.op.inputs[0], at(place))
        new = self._more(value, old)
        total = self._total(old if self.exclusive else new)
        self.b.store(total, self.op.output, at(place))
        return new

    def _more(self, value: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
        if self.exact is not None:
            high, low = old
            return self.exact.more(resize_float(self.b, value, self.exact.kind), high, low)
        floats = isinstance(self.element, AnyFloat)
        if self.product:
            more = arith.MulfOp if floats else arith.MuliOp
        else:
            more = arith.AddfOp if floats else arith.AddiOp
        return [self.b.insert(more(old[0], value))]

    def _total(self, sums: Sequence[SSAValue]) -> SSAValue:
        if self.exact is None:
            return sums[0]
        high, low = sums
        return resize_float(self.b, self.exact.total(high, low), self.element)
