"""Loops that read planes at other distances.

The place of x that a place of the result stands for is a fraction of integers, so that which element
is read never hangs on a rounding.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import f64
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects.nn import ResampleOp
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import count_as, element_type, resize_float, wide_type
from openinfer.lowering.kernels.runs import each, extent_of
from openinfer.lowering.kernels.window_axes import planes
from openinfer.runtime.quick_dataclass import dataclass


@dataclass(frozen=True)
class _Between:
    """A place between two neighbours: `(1 - share) * low + share * high`."""

    low: Index
    high: Index
    share: SSAValue


@dataclass(frozen=True)
class _Scale:
    """One axis: how many places x and the result have, and result over x as a fraction."""

    extent: Index
    result: Index
    numerator: Index
    denominator: Index

    def nearest(self, b: LoopBuilder, place: SSAValue) -> Index:
        """`floor(place / scale)`"""
        found = b.floordiv(b.mul(place, self.denominator), self.numerator)
        return b.minimum(found, b.minus(self.extent, 1))

    def between(
        self, b: LoopBuilder, place: SSAValue, corners: bool, computed: Attribute
    ) -> _Between:
        """`(place + 1/2) / scale - 1/2`, or with `corners` last place on last place."""
        if corners:
            above = b.mul(place, b.minus(self.extent, 1))
            below = b.maximum(b.minus(self.result, 1), 1)
        else:
            odd = b.plus(b.times(place, 2), 1)
            above = b.minus(b.mul(odd, self.denominator), self.numerator)
            below = b.times(self.numerator, 2)
        above = b.maximum(above, 0)
        low = b.floordiv(above, below)
        rest = b.minus(above, b.mul(low, below))
        # In f64 both are exact, and the quotient is rounded once.
        share = b.insert(arith.DivfOp(count_as(b, rest, f64), count_as(b, below, f64)))
        last = b.minus(self.extent, 1)
        return _Between(
            b.minimum(low, last),
            b.minimum(b.plus(low, 1), last),
            resize_float(b, share, computed),
        )


def resample(b: LoopBuilder, op: ResampleOp) -> None:
    """One element of the result after the other; rows are placed once."""
    source, target = planes(b, op.inputs[0]), planes(b, op.output)
    scales = [_scale(b, op, source, target, axis) for axis in range(2)]
    corners = op.corners is not None

    def nearest_row(outer: SSAValue, h: SSAValue) -> None:
        line = scales[0].nearest(b, h)

        def one(w: SSAValue) -> None:
            value = b.load(source, [outer, line, scales[1].nearest(b, w)])
            b.store(value, target, [outer, h, w])

        each(b, extent_of(b, target, [2]), one, hint="w")

    def bilinear_row(outer: SSAValue, h: SSAValue) -> None:
        computed = wide_type(element_type(source))
        rows = scales[0].between(b, h, corners, computed)

        def mixed(share: SSAValue, low: SSAValue, high: SSAValue) -> SSAValue:
            rest = b.insert(arith.SubfOp(b.constant(1, computed), share))
            parts = b.insert(arith.MulfOp(rest, low)), b.insert(arith.MulfOp(share, high))
            return b.insert(arith.AddfOp(*parts))

        def one(w: SSAValue) -> None:
            columns = scales[1].between(b, w, corners, computed)

            def line(at: Index) -> SSAValue:
                low, high = (
                    resize_float(b, b.load(source, [outer, at, place]), computed)
                    for place in (columns.low, columns.high)
                )
                return mixed(columns.share, low, high)

            value = mixed(rows.share, line(rows.low), line(rows.high))
            b.store(resize_float(b, value, element_type(target)), target, [outer, h, w])

        each(b, extent_of(b, target, [2]), one, hint="w")

    row = nearest_row if op.kind.data == "nearest" else bilinear_row

    def plane(outer: SSAValue) -> None:
        alone = extent_of(b, target, [0]).static == 1
        each(b, extent_of(b, target, [1]), lambda h: row(outer, h), parallel=alone, hint="h")

    each(b, extent_of(b, target, [0]), plane, parallel=True)


def _scale(b: LoopBuilder, op: ResampleOp, source: SSAValue, target: SSAValue, axis: int) -> _Scale:
    extent, result = b.dim(source, 1 + axis), b.dim(target, 1 + axis)
    if op.scales is None:
        return _Scale(extent, result, result, extent)
    numerator, denominator = op.scales.get_values()[2 * axis : 2 * axis + 2]
    return _Scale(extent, result, numerator, denominator)
