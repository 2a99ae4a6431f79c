"""Twins of pooling and resampling, window by window."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from openinfer.dialects.ops.adaptive_pooling import ADAPTIVE_AXES
from openinfer.dialects.ops.pooling import POOLED_AXES, pool_windows, resamplings
from openinfer.dialects.ops.windows import Window
from openinfer.dialects.opset import TensorSpec
from openinfer.lowering.reference.twins import Call, Twin, twin
from openinfer.runtime.sizes import Size
from openinfer.runtime.storage import AnyArray


def _int(size: Size) -> int:
    assert size.constant is not None
    return size.constant


def _places(window: Window, number: int, extent: int) -> tuple[list[int], int]:
    """The positions of x that a window covers, and how many of it lie in x or its padding."""
    first, step = number * _int(window.stride) - _int(window.before), _int(window.dilation)
    kernel = _int(window.kernel)

    def below(limit: int) -> int:
        """How many elements of the window lie before a position."""
        return min(max(-(-(limit - first) // step), 0), kernel)

    inside = range(below(0), below(extent))
    return [first + k * step for k in inside], below(extent + _int(window.after))


def _cover(call: Call, place: tuple[int, ...]) -> tuple[list[list[int]], int]:
    """The positions of x that a window covers along each axis, and how many of it lie in x or its padding."""
    x, axes = call.inputs[0], len(place)
    windows = pool_windows(call.settings, axes)
    found = [_places(*row) for row in zip(windows, place, x.shape[-axes:])]
    return [inside for inside, _ in found], math.prod(count for _, count in found)


def _max_pool(axes: int) -> Twin:
    def max_pool(call: Call) -> AnyArray:
        x = call.inputs[0]
        kind = x.dtype
        lowest = -np.inf if kind.kind == "f" else np.iinfo(kind).min
        y = np.empty(call.shapes[0], dtype=kind)
        for place in np.ndindex(*y.shape[-axes:]):
            inside, _ = _cover(call, place)
            part = x[(..., *np.ix_(*inside))]
            # NaN wins in NumPy's maximum, as the language asks.
            y[(..., *place)] = np.max(part, axis=tuple(range(-axes, 0)), initial=lowest)
        return y

    return max_pool


def _avg_pool(axes: int) -> Twin:
    def avg_pool(call: Call) -> AnyArray:
        x, divisor = call.exact(), call.settings["divisor_override"]
        y = np.empty(call.shapes[0])
        for place in np.ndindex(*y.shape[-axes:]):
            inside, count = _cover(call, place)
            if not call.settings["count_include_pad"]:
                count = math.prod(map(len, inside))
            if divisor is not None:
                assert isinstance(divisor, int)
                count = divisor
            total = np.sum(x[(..., *np.ix_(*inside))], axis=tuple(range(-axes, 0)))
            y[(..., *place)] = total / np.float64(count)
        return y

    return avg_pool


def _lp_pool(axes: int) -> Twin:
    def lp_pool(call: Call) -> AnyArray:
        x, p = np.abs(call.exact()), call.settings["p"]
        assert isinstance(p, float)
        y = np.empty(call.shapes[0])
        for place in np.ndindex(*y.shape[-axes:]):
            inside, _ = _cover(call, place)
            total = np.sum(x[(..., *np.ix_(*inside))] ** p, axis=tuple(range(-axes, 0)))
            y[(..., *place)] = total ** (1 / p)
        return y

    return lp_pool


_POOLS = {"max": _max_pool, "avg": _avg_pool, "lp": _lp_pool}
for _name, _axes in POOLED_AXES.items():
    twin(_name)(_POOLS[_name.partition("_")[0]](_axes))


def _adaptive_pool(axes: int, reduce: Callable[..., AnyArray]) -> Twin:
    def adaptive_pool(call: Call) -> AnyArray:
        x = call.inputs[0] if reduce is np.max else call.exact()
        extents, counts = x.shape[-axes:], call.shapes[0][-axes:]
        y = np.empty(call.shapes[0], x.dtype)
        for place in np.ndindex(*counts):
            cuts = [
                slice(i * extent // n, -(-(i + 1) * extent // n))
                for i, extent, n in zip(place, extents, counts)
            ]
            y[(..., *place)] = reduce(x[(..., *cuts)], axis=tuple(range(-axes, 0)))
        return y

    return adaptive_pool


for _name, _axes in ADAPTIVE_AXES.items():
    twin(_name)(_adaptive_pool(_axes, np.max if "max" in _name else np.mean))


def _sources(place: int, extent: int, result: int, scale: Fraction | None, corners: bool) -> float:
    """The position of x that position `place` of a bilinear result stands for."""
    if corners:
        exact = Fraction(place * (extent - 1), result - 1) if result > 1 else Fraction(0)
    else:
        ratio = 1 / scale if scale is not None else Fraction(extent, result)
        exact = (place + Fraction(1, 2)) * ratio - Fraction(1, 2)
    return float(max(exact, Fraction(0)))


@twin("upsample2d")
def _upsample(call: Call) -> AnyArray:
    x, shape = call.inputs[0], call.shapes[0]
    rows = resamplings(TensorSpec.of(call.dtypes[0], x.shape), call.settings)
    bilinear = call.settings["mode"] == "bilinear"
    corners = bool(call.settings["align_corners"])
    y = call.exact() if bilinear else x
    for axis, row in zip((-2, -1), rows):
        extent, result = x.shape[axis], shape[axis]
        if not bilinear:
            ratio = 1 / row.scale if row.scale is not None else Fraction(extent, result)
            chosen = [min(int(place * ratio), extent - 1) for place in range(result)]
            y = np.take(y, chosen, axis=axis)
            continue
        places = [_sources(p, extent, result, row.scale, corners) for p in range(result)]
        low = [min(int(place), extent - 1) for place in places]
        high = [min(place + 1, extent - 1) for place in low]
        share = np.array([place - base for place, base in zip(places, low)])
        share = share if axis == -1 else share[:, None]
        y = np.take(y, low, axis=axis) * (1 - share) + np.take(y, high, axis=axis) * share
    return y
