"""The twin of `grid_sample`."""

from __future__ import annotations

from itertools import product

import numpy as np

from openinfer.dialects.ops.sampling import CUBIC
from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.storage import AnyArray


@twin("grid_sample")
def _grid_sample(call: Call) -> AnyArray:
    x, grid = call.exact(0), call.wide(1)
    mode, padding = str(call.settings["mode"]), str(call.settings["padding_mode"])
    corners = bool(call.settings["align_corners"])
    extents = x.shape[2:]
    result = np.zeros((*x.shape[:2], *grid.shape[1:-1]), np.float64)
    if 0 in x.shape or result.size == 0:
        return result
    taps: list[list[tuple[AnyArray, AnyArray]]] = []
    for axis, extent in enumerate(extents):
        place = _place(grid[..., len(extents) - 1 - axis], extent, corners)
        if mode != "bicubic":
            place = _inside(place, extent, padding, corners)
        taps.append(_taps(place, mode))
    batch = np.arange(x.shape[0]).reshape(-1, *[1] * (grid.ndim - 2))
    for chosen in product(*taps):
        weight = np.ones(grid.shape[:-1])
        there = np.ones(grid.shape[:-1], bool)
        index: list[AnyArray] = []
        for (place, share), extent in zip(chosen, extents):
            if mode == "bicubic":
                place = _inside(place, extent, padding, corners)
            there &= (place >= 0) & (place <= extent - 1)
            index.append(np.where(there, place, 0).astype(np.int64))
            weight = weight * share
        found = np.moveaxis(x, 1, -1)[(batch, *index)]  # (N, places…, C)
        found = np.where(there[..., None], found, 0.0) * weight[..., None]
        result += np.moveaxis(found, -1, 1)
    return result


def _place(g: AnyArray, extent: int, corners: bool) -> AnyArray:
    """From -1..1 to the positions of elements."""
    one, half = g.dtype.type(1), g.dtype.type(0.5)
    if corners:
        return (g + one) * half * g.dtype.type(extent - 1)
    return ((g + one) * g.dtype.type(extent) - one) * half


def _inside(place: AnyArray, extent: int, padding: str, corners: bool) -> AnyArray:
    """The place that is read for one outside."""
    if padding == "zeros":
        return place
    if padding == "reflection":
        low, span = (0.0, extent - 1.0) if corners else (-0.5, float(extent))
        if span == 0:
            place = np.zeros_like(place)
        else:
            away = np.abs(place - low)
            turns = np.floor(away / span)
            rest = away - turns * span
            place = np.where(turns % 2 == 0, rest, span - rest) + low
    return np.fmax(np.fmin(place, extent - 1), 0).astype(place.dtype)


def _taps(place: AnyArray, mode: str) -> list[tuple[AnyArray, AnyArray]]:
    """The elements of an axis that count, with their weights."""
    if mode == "nearest":
        return [(np.rint(place), np.ones(place.shape))]
    first = np.floor(place)
    t = (place - first).astype(np.float64)
    if mode == "bilinear":
        return [(first, 1 - t), (first + 1, t)]
    return [(first + k, _cubic(np.abs(t - k))) for k in (-1, 0, 1, 2)]


def _cubic(d: AnyArray) -> AnyArray:
    """The weight of an element at a distance, by Keys' cubic convolution."""
    near = (CUBIC + 2) * d**3 - (CUBIC + 3) * d**2 + 1
    far = CUBIC * (d**3 - 5 * d**2 + 8 * d - 4)
    return np.where(d <= 1, near, far)
