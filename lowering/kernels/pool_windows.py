"""What pooling a window means: which elements count, how they are joined, what a sum is divided by."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects.nn import PoolOp
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import INF, count_as, largest
from openinfer.lowering.kernels.window_axes import Axis, reached
from openinfer.runtime.quick_dataclass import dataclass


@dataclass(frozen=True)
class Reach:
    """What one window covers of an axis: places `first + k * dilation` for k in a range."""

    first: Index
    start: Index
    stop: Index
    counted: Index
    """How many of its elements lie in the plane or its padding."""


def reach(
    b: LoopBuilder, op: PoolOp, way: Axis, number: Index, extent: Index, size: Index
) -> Reach:
    """What window `number`, of `size` elements, covers of an axis of a plane."""
    first = b.minus(b.times(number, way.stride), way.before)
    if way.inside and op.ceil is None:
        return Reach(first, 0, size, size)
    start, stop = reached(b, first, way.dilation, extent, size)
    _, counted = reached(b, first, way.dilation, b.plus(extent, way.after), size)
    return Reach(first, start, stop, counted)


Combine = Callable[[LoopBuilder, SSAValue, SSAValue], SSAValue]


def combination(op: PoolOp, computed: Attribute) -> tuple[Combine, float | int]:
    """How elements are joined, and what an empty window gives."""
    if op.kind.data == "average":
        return (lambda b, x, y: b.insert(arith.AddfOp(x, y))), 0.0
    if isinstance(computed, AnyFloat):
        return largest, -INF
    if op.unsigned is not None:
        return (lambda b, x, y: b.insert(arith.MaxUIOp(x, y))), 0
    assert isinstance(computed, IntegerType)
    return (lambda b, x, y: b.insert(arith.MaxSIOp(x, y))), -(1 << (computed.bitwidth - 1))


def divisor_of(
    b: LoopBuilder, op: PoolOp, rows: Reach, columns: Reach, computed: Attribute
) -> SSAValue:
    """What the sum of a window is divided by."""
    if op.divisor is not None:
        return b.constant(op.divisor.value.data, computed)
    if op.count_padding is not None:
        sides = [rows.counted, columns.counted]
    else:
        sides = [b.minus(side.stop, side.start) for side in (rows, columns)]
    if isinstance(sides[0], int) and isinstance(sides[1], int):
        return b.constant(sides[0] * sides[1], computed)
    return count_as(b, b.mul(*sides), computed)
