"""Twins of pooling and resampling, window by window."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from openinfer.dialects.ops.pooling import pool_windows, resamplings
from openinfer.dialects.ops.windows import Window
from openinfer.dialects.opset import TensorSpec
from openinfer.lowering.reference.twins import Call, twin
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


@twin("max_pool2d")
def _max_pool(call: Call) -> AnyArray:
    x = call.inputs[0]
    vertical, horizontal = pool_windows(call.settings)
    kind = x.dtype
    lowest = -np.inf if kind.kind == "f" else np.iinfo(kind).min
    y = np.empty(call.shapes[0], dtype=kind)
    for i, j in np.ndindex(*y.shape[-2:]):
        rows, _ = _places(vertical, i, x.shape[-2])
        columns, _ = _places(horizontal, j, x.shape[-1])
        part = x[..., rows, :][..., columns]
        # NaN wins in NumPy's maximum, as the language asks.
        y[..., i, j] = np.max(part, axis=(-2, -1), initial=lowest)
    return y


@twin("avg_pool2d")
def _avg_pool(call: Call) -> AnyArray:
    x = call.exact()
    vertical, horizontal = pool_windows(call.settings)
    divisor = call.settings["divisor_override"]
    y = np.empty(call.shapes[0])
    for i, j in np.ndindex(*y.shape[-2:]):
        rows, tall = _places(vertical, i, x.shape[-2])
        columns, broad = _places(horizontal, j, x.shape[-1])
        count = tall * broad if call.settings["count_include_pad"] else len(rows) * len(columns)
        if divisor is not None:
            assert isinstance(divisor, int)
            count = divisor
        y[..., i, j] = np.sum(x[..., rows, :][..., columns], axis=(-2, -1)) / np.float64(count)
    return y


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
