"""Rules of adaptive pools.

Windows of one length, side by side, are plain windows. Otherwise each axis is pooled by itself: the elements
of a window are gathered, filled up to the length of the longest one with its last element, which changes no
maximum; for a mean the filling counts as 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr, i1, i64
from xdsl.ir import SSAValue

from openinfer.dialects import nn
from openinfer.dialects.ops.adaptive_pooling import ADAPTIVE_AXES, adaptive_sizes
from openinfer.dialects.ops.base import product
from openinfer.dialects.ops.windows import Window
from openinfer.dialects.opset import TensorSpec
from openinfer.lowering.graph.op_rules import Call, Check, Settings, op_rule
from openinfer.lowering.graph.pool_rules import ALONE, images, pooled
from openinfer.lowering.graph.requirements import Requirements
from openinfer.lowering.graph.scalars import (
    computed,
    dtype_of,
    narrowed,
    number,
    size_number,
    stored,
    widened,
)
from openinfer.runtime.sizes import Size

_ONE = Size.of(1)


def _check(axes: int) -> Check:
    def check(
        requirements: Requirements, operands: Sequence[TensorSpec], settings: Settings
    ) -> None:
        """There is something to pool, and a window at least."""
        for extent in operands[0].dims[-axes:]:
            requirements.at_most(_ONE, extent)
        for size in adaptive_sizes(settings, axes):
            requirements.at_most(_ONE, size)

    return check


def _adaptive_pool(call: Call) -> Sequence[SSAValue]:
    axes = ADAPTIVE_AXES[call.spec.name]
    kind = "max" if "max" in call.spec.name else "average"
    x = images(call, axes)
    dtype = dtype_of(x)
    x = widened(call, x, stored(dtype) if kind == "max" else computed(dtype))
    sizes = adaptive_sizes(call.settings, axes)
    windows = [_equal(extent, size) for extent, size in zip(nn.dims_of(x)[2:], sizes)]
    known = [window for window in windows if window is not None]
    if len(known) == axes:
        x = pooled(call, x, known, sizes, kind, nn.element_of(x))
    else:
        for axis, (size, window) in enumerate(zip(sizes, windows)):
            x = _along(call, x, 2 + axis, size, kind, window)
    return [narrowed(call, call.reshape(x, call.results[0].dims), call.type)]


def _equal(extent: Size, size: Size) -> Window | None:
    """The windows of an axis that divides into so many; None where it may not."""
    length = extent // size
    return _side_by_side(length) if length * size == extent else None


def _side_by_side(length: Size) -> Window:
    return Window(length, length, Size.of(0), Size.of(0), _ONE)


def _along(
    call: Call, x: SSAValue, axis: int, size: Size, kind: str, window: Window | None
) -> SSAValue:
    """x pooled along one axis to some size, by equal windows where there are some."""
    dims = nn.dims_of(x)
    extent = dims[axis]
    result = (*dims[:axis], size, *dims[axis + 1 :])
    element = nn.element_of(x)
    if extent == size:
        return x
    outer, inner = product(dims[:axis]), product(dims[axis + 1 :])
    if window is not None:
        lines = call.reshape(x, (_ONE, outer, extent, inner))
        y = pooled(call, lines, (window, ALONE), (size, inner), kind, element)
        return call.reshape(y, result)
    longest = _longest(extent, size)
    places, inside, lengths = _places(call, extent, size, longest)
    chosen = call.add(
        nn.GatherOp,
        [call.reshape(x, (outer, extent, inner)), places],
        nn.tensor_type(element, (outer, size, longest, inner)),
        axis=nn.int_setting(1),
        node=nn.int_setting(call.step.builder.node),
    )
    if kind == "max":
        y = pooled(call, chosen, (_side_by_side(longest), ALONE), (_ONE, inner), kind, element)
        return call.reshape(y, result)
    kept = call.elementwise(
        "where",
        [call.reshape(inside, (size, longest, _ONE)), chosen, number(call, 0.0, element)],
        nn.tensor_type(element, (outer, size, longest, inner)),
    )
    sums = call.add(
        nn.ReduceOp,
        [kept],
        nn.tensor_type(element, (outer, size, inner)),
        kind=StringAttr("sum"),
        axes=nn.ints_setting([2]),
    )
    counts = call.convert(lengths, nn.tensor_type(element, (size,)))
    counts = call.reshape(counts, (size, _ONE))
    y = call.elementwise("div", [sums, counts], nn.tensor_type(element, (outer, size, inner)))
    return call.reshape(y, result)


def _longest(extent: Size, size: Size) -> Size:
    """The length of the longest window, or a bound of it where the sizes are not known."""
    length, count = extent.constant, size.constant
    if length is None or count is None:
        # Less than an element more than the exact part on both sides.
        return (extent + size - 1) // size + 1
    return Size.of(max(-(-(i + 1) * length // count) - i * length // count for i in range(count)))


def _places(
    call: Call, extent: Size, size: Size, longest: Size
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """For each window the places of its elements and which of them count, `[size, longest]`, and how many
    do, `[size]`."""
    line, grid = nn.tensor_type(i64, (size,)), nn.tensor_type(i64, (size, longest))
    length, count = size_number(call, extent), size_number(call, size)
    one = number(call, 1, i64)

    def do(kind: str, a: SSAValue, b: SSAValue) -> SSAValue:
        whole = bool(nn.dims_of(a) or nn.dims_of(b))
        return call.elementwise(kind, [a, b], line if whole else nn.tensor_type(i64, []))

    def column(value: SSAValue) -> SSAValue:
        return call.reshape(value, (size, _ONE))

    windows = call.add(nn.IotaOp, [], line, axis=nn.int_setting(0))
    starts = do("floor_div", do("mul", windows, length), count)
    above = do("add", do("mul", do("add", windows, one), length), do("sub", count, one))
    ends = do("floor_div", above, count)
    lengths = do("sub", ends, starts)
    steps = call.add(nn.IotaOp, [], nn.tensor_type(i64, (longest,)), axis=nn.int_setting(0))
    places = call.elementwise("add", [column(starts), steps], grid)
    places = call.elementwise("min", [places, column(do("sub", ends, one))], grid)
    inside = call.elementwise("lt", [steps, column(lengths)], nn.tensor_type(i1, (size, longest)))
    return places, inside, lengths


for _name, _axes in ADAPTIVE_AXES.items():
    op_rule(_name, check=_check(_axes))(_adaptive_pool)
