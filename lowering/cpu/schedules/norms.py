"""Layer norm and RMS norm: walks over each row.

Before:
    nn.layer_norm(%x, %w, %c) outs(%y) {eps = 1.0e-12 : f64, has_bias, has_weight}
      : (memref<?x384xf32>, memref<384xf32>, memref<384xf32>, memref<?x384xf32>) -> ()

After:
    scf.for %i = %c0 to %rows step %c1 {
      … %mean = arith.divf %sum, %n : f32 … %variance = arith.divf %squares, %n : f32 …
      scf.for %k = %c0 to %c384 step %c16 {
        %r = vector.fma %normal, %weight, %bias : vector<16xf32>
        vector.store %r, %y[%i, %k] : memref<?x384xf32>, vector<16xf32> }
    } {openinfer.parallel}

Requires: bufferised; contiguous operands; weight and bias of the last axis.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.dialects.math import SqrtOp
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.nn import LayerNormOp, RmsNormOp, element_of
from openinfer.lowering.cpu.vector_width import lanes_of
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.lines import Line, over_lines
from openinfer.lowering.kernels.numeric import (
    compare_floats,
    count_as,
    greater,
    reduction,
    select,
    wide_type,
)
from openinfer.lowering.kernels.rules import Rule
from openinfer.lowering.kernels.runs import AxisView, view_around
from openinfer.runtime.quick_dataclass import dataclass

FAR = 8.0
"""Standard deviations from 0 beyond which the rounding of a mean is taken out: nearer rows lose 5e-7 of
one to it at most."""


@dataclass
class _Row:
    """One row of a norm."""

    line: Line
    source: AxisView
    target: AxisView
    count: SSAValue
    eps: float

    def mean(self, of: Callable[[SSAValue, SSAValue], SSAValue]) -> SSAValue:
        """The mean of `of(element, sum so far)`, as a scalar."""
        line, b = self.line, self.line.b

        def add(x: SSAValue, y: SSAValue) -> SSAValue:
            return b.insert(arith.AddfOp(x, y))

        (total,) = line.reduce(
            (0.0,), lambda k, mask, old: [of(line.load(self.source, k, mask), old[0])], (add,)
        )
        return b.insert(arith.DivfOp(reduction(b, "add", total), self.count))

    def scaled(
        self, square: SSAValue, shift: SSAValue | None = None
    ) -> Callable[[SSAValue], SSAValue]:
        """Divides x - shift by sqrt(square + eps); times its inverse unless mathematics are strict."""
        b, kind = self.line.b, square.type
        shifted = b.insert(arith.AddfOp(square, b.constant(self.eps, kind)))
        root = b.insert(SqrtOp(shifted))
        if b.facts.strict_math:
            roots = b.splat(root, self.line.lanes)
            return lambda x: b.insert(arith.DivfOp(x, roots))
        factor = b.insert(arith.DivfOp(b.constant(1.0, kind), root))
        inverse = b.splat(factor, self.line.lanes)
        if shift is None:
            return lambda x: b.insert(arith.MulfOp(x, inverse))
        # Nothing times an infinite factor is nothing here.
        none = compare_floats(b, "oeq", shift, b.constant(0.0, kind))
        product = select(b, none, shift, b.insert(arith.MulfOp(shift, factor)))
        start = b.splat(b.insert(arith.NegfOp(product)), self.line.lanes)
        return lambda x: b.fma(x, inverse, start)

    def write(
        self,
        normal: Callable[[SSAValue], SSAValue],
        weight: AxisView | None,
        bias: AxisView | None,
    ) -> None:
        """normal(x) · weight + bias, each as far as there is one."""
        line, b = self.line, self.line.b

        def element(k: SSAValue, mask: SSAValue | None) -> None:
            value = normal(line.load(self.source, k, mask))
            if weight is not None and bias is not None:
                value = b.fma(value, line.load(weight, k, mask), line.load(bias, k, mask))
            elif weight is not None:
                value = b.insert(arith.MulfOp(value, line.load(weight, k, mask)))
            elif bias is not None:
                value = b.insert(arith.AddfOp(value, line.load(bias, k, mask)))
            line.store(value, self.target, k, mask)

        line.each(element)


def _over_rows(b: LoopBuilder, op: LayerNormOp | RmsNormOp, body: Callable[[_Row], None]) -> None:
    source, target = view_around(b, op.inputs[0], -1), view_around(b, op.output, -1)
    computed = wide_type(element_of(op.inputs[0]))
    count = count_as(b, source.count.value(b), computed)
    eps = op.eps.value.data

    def one(line: Line) -> None:
        body(_Row(line, source, target, count, eps))

    over_lines(b, source, lanes_of(op, computed), computed, one)


def _layer_norm(b: LoopBuilder, op: Operation) -> bool:
    """The mean first, then the mean of (x - mean)²: one pass would cancel.

    A mean is rounded, by 1e-3 at 1e4, and what that is off by is the mean of x - mean. In a row that is far
    from 0 it goes from the variance and from every element, unless mathematics are strict.
    """
    assert isinstance(op, LayerNormOp)
    rest = [view_around(b, value, -1) for value in op.inputs[1:]]
    weight = rest.pop(0) if op.has_weight is not None else None
    bias = rest.pop(0) if op.has_bias is not None else None

    def row(r: _Row) -> None:
        lanes = r.line.lanes
        mean = r.mean(lambda x, old: b.insert(arith.AddfOp(old, x)))
        means = b.splat(mean, lanes)

        def centred(x: SSAValue) -> SSAValue:
            return b.insert(arith.SubfOp(x, means))

        def add(x: SSAValue, old: SSAValue) -> SSAValue:
            return b.insert(arith.AddfOp(old, centred(x)))

        def add_square(x: SSAValue, old: SSAValue) -> SSAValue:
            difference = centred(x)
            return b.fma(difference, difference, old)

        if b.facts.strict_math:
            variance = r.mean(add_square)
            scaled = r.scaled(variance)
        else:
            squares = r.mean(add_square)

            def corrected() -> list[SSAValue]:
                off = r.mean(add)
                variance = b.insert(arith.SubfOp(squares, b.insert(arith.MulfOp(off, off))))
                # Rounding may have left less than nothing of it; NaN stays.
                return [off, greater(b, b.constant(0.0, variance.type), variance)]

            kind = squares.type
            limit = b.insert(arith.MulfOp(squares, b.constant(FAR * FAR, kind)))
            far = compare_floats(b, "ogt", b.insert(arith.MulfOp(mean, mean)), limit)
            near = [b.constant(0.0, kind), squares]
            off, variance = b.when(far, corrected, lambda: near, [kind, kind])
            scaled = r.scaled(variance, off)
        r.write(lambda x: scaled(centred(x)), weight, bias)

    _over_rows(b, op, row)
    return True


def _rms_norm(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, RmsNormOp)
    weight = view_around(b, op.inputs[1], -1) if len(op.inputs) > 1 else None

    def row(r: _Row) -> None:
        square = r.mean(lambda x, old: b.fma(x, x, old))
        r.write(r.scaled(square), weight, None)

    _over_rows(b, op, row)
    return True


RULES: dict[str, Rule] = {LayerNormOp.name: _layer_norm, RmsNormOp.name: _rms_norm}
