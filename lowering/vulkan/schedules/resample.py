"""`nn.resample`: an invocation computes an element of the result.

Before:
    nn.resample(%x) outs(%y) {kind = "nearest", scales = array<i64: 3, 2, 3, 2>}
      : (memref<1x4x9x9xf32>, memref<1x4x13x13xf32>) -> ()

After:
    scf.if %inside {                          // %n, %c, %h, %w of the element
      %line = …                               // %h * 2 / 3, in 64 bits
      %v = memref.load %x[%n, %c, %line, %column]
      memref.store %v, %y[%n, %c, %h, %w] }

The place of x that a place of the result stands for is a fraction of whole numbers, so that which
element is read never hangs on a rounding. They have 64 bits: a scale may be any number.
Requires: bufferised.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, i64
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects.extensions.arith import IndexCastOp, SIToFPOp
from openinfer.dialects.nn import ResampleOp, element_of
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import resize_float, wide_type
from openinfer.lowering.vulkan.schedules.grid import Grid, each_element


def lower_resample(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a resampling."""
    assert isinstance(op, ResampleOp)
    source, target = op.inputs[0], op.output
    axes = [_axis(b, op, axis) for axis in range(2)]

    def nearest(place: list[SSAValue]) -> None:
        there = [way.nearest(b, at) for way, at in zip(axes, place[2:])]
        b.store(b.load(source, [*place[:2], *there]), target, place)

    def bilinear(place: list[SSAValue]) -> None:
        computed = wide_type(element_of(source))
        corners = op.corners is not None
        rows, columns = (way.between(b, at, corners, computed) for way, at in zip(axes, place[2:]))

        def line(at: SSAValue) -> SSAValue:
            low, high = (
                resize_float(b, b.load(source, [*place[:2], at, column]), computed)
                for column in (columns.low, columns.high)
            )
            return columns.mixed(b, low, high)

        value = rows.mixed(b, line(rows.low), line(rows.high))
        b.store(resize_float(b, value, element_of(target)), target, place)

    return each_element(b, target, nearest if op.kind.data == "nearest" else bilinear)


def _axis(b: LoopBuilder, op: ResampleOp, axis: int) -> _Axis:
    extent, result = b.dim(op.inputs[0], 2 + axis), b.dim(op.output, 2 + axis)
    if op.scales is None:
        return _Axis(extent, result, result, extent)
    numerator, denominator = op.scales.get_values()[2 * axis : 2 * axis + 2]
    return _Axis(extent, result, numerator, denominator)


@dataclass(frozen=True)
class _Between:
    """A place between two neighbours."""

    low: SSAValue
    high: SSAValue
    share: SSAValue

    def mixed(self, b: LoopBuilder, low: SSAValue, high: SSAValue) -> SSAValue:
        """`(1 - share) * low + share * high`"""
        rest = b.insert(arith.SubfOp(b.constant(1, self.share.type), self.share))
        parts = b.insert(arith.MulfOp(rest, low)), b.insert(arith.MulfOp(self.share, high))
        return b.insert(arith.AddfOp(*parts))


@dataclass(frozen=True)
class _Axis:
    """One axis: how many places x and the result have, and result over x as a fraction."""

    extent: Index
    result: Index
    numerator: Index
    denominator: Index

    def nearest(self, b: LoopBuilder, place: SSAValue) -> SSAValue:
        """`floor(place / scale)`"""
        above = b.mul(_wide(b, place), _wide(b, self.denominator))
        return self._place(b, b.floordiv(above, _wide(b, self.numerator)))

    def between(
        self, b: LoopBuilder, place: SSAValue, corners: bool, computed: Attribute
    ) -> _Between:
        """`(place + 1/2) / scale - 1/2`, or with `corners` last place on last place."""
        at = _wide(b, place)
        if corners:
            above = b.mul(at, _wide(b, b.minus(self.extent, 1)))
            below = _wide(b, b.maximum(b.minus(self.result, 1), 1))
        else:
            numerator = _wide(b, self.numerator)
            odd = b.add(b.mul(at, _wide(b, 2)), _wide(b, 1))
            above = b.sub(b.mul(odd, _wide(b, self.denominator)), numerator)
            below = b.mul(numerator, _wide(b, 2))
        above = b.insert(arith.MaxSIOp(above, _wide(b, 0)))
        low = b.floordiv(above, below)
        rest = b.sub(above, b.mul(low, below))
        share = b.insert(
            arith.DivfOp(b.insert(SIToFPOp(rest, computed)), b.insert(SIToFPOp(below, computed)))
        )
        return _Between(self._place(b, low), self._place(b, b.add(low, _wide(b, 1))), share)

    def _place(self, b: LoopBuilder, found: SSAValue) -> SSAValue:
        """A place of x, the last one for what lies behind it."""
        last = _wide(b, b.minus(self.extent, 1))
        return b.insert(IndexCastOp(b.insert(arith.MinSIOp(found, last)), IndexType()))


def _wide(b: LoopBuilder, number: Index) -> SSAValue:
    """A whole number of 64 bits."""
    if isinstance(number, int):
        return b.constant(number, i64)
    return b.insert(IndexCastOp(number, i64))
