"""Values rounded to the block formats `q4_k` and `q6_k`, with the least squared error that a search finds.

A block of 256 values has sub-blocks with scales of their own, which are integers times one f16 of the block.
A function takes f32 [n, 256] and gives the blocks as uint8 [n, bytes]. Scales are searched in three steps:
for each sub-block the best of a few grids, each fitted by least squares; the nearest integers, and their
neighbours where those are better; last the f16 of the block, fitted to the codes that were chosen.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]
_GRIDS = np.linspace(-1, 1, 21)
"""How much wider or narrower than the range of the values a grid is, in steps."""
_NEAR = (0, -1, 1)
_PIECE = 64
"""So many blocks are rounded at once."""


def q4_k(values: Values) -> Values:
    """`d·S·q - dmin·M` with S and M of six bits for 32 values, q of four."""
    return _in_pieces(_q4_k, values, 144)


def q6_k(values: Values) -> Values:
    """`d·s·q` with s of eight bits for 16 values, q from -32 to 31."""
    return _in_pieces(_q6_k, values, 210)


def _in_pieces(function: Callable[[Values], Values], values: Values, nbytes: int) -> Values:
    """Of some blocks at a time, so that what is computed with stays in the processor's cache."""
    blocks = values.reshape(-1, 256)
    found = np.empty((len(blocks), nbytes), np.uint8)
    with np.errstate(over="ignore", invalid="ignore"):  # Of a fit that is then not taken.
        for start in range(0, len(blocks), _PIECE):
            found[start : start + _PIECE] = function(blocks[start : start + _PIECE])
    return found


def _q4_k(values: Values) -> Values:
    x = values.reshape(-1, 8, 32).astype(np.float32)
    scales, minima = _grids_with_minimum(x)
    d = _half(scales.max(1) / 63)
    dmin = _half(minima.max(1) / 63)
    s, m = _nearest(scales, d, 63), _nearest(minima, dmin, 63)
    for _ in range(2):
        s, m = _better_pairs(x, d, dmin, s, m)
        d, dmin = _fitted_pair(x, _codes(x, d, dmin, s, m), s, m, d, dmin)
    codes = _codes(x, d, dmin, s, m)
    out = np.empty((len(x), 144), np.uint8)
    out[:, 0:2], out[:, 2:4] = _f16_bytes(d), _f16_bytes(dmin)
    s8, m8 = s.astype(np.uint8), m.astype(np.uint8)
    out[:, 4:8] = s8[:, :4] | (s8[:, 4:] >> 4) << 6
    out[:, 8:12] = m8[:, :4] | (m8[:, 4:] >> 4) << 6
    out[:, 12:16] = (s8[:, 4:] & 15) | (m8[:, 4:] & 15) << 4
    q = codes.astype(np.uint8).reshape(-1, 4, 2, 32)
    out[:, 16:] = (q[:, :, 0] | q[:, :, 1] << 4).reshape(-1, 128)
    return out


def _q6_k(values: Values) -> Values:
    x = values.reshape(-1, 16, 16).astype(np.float32)
    scales = _grids_around_zero(x)
    extreme = np.take_along_axis(scales, np.abs(scales).argmax(1)[:, None], 1)[:, 0]
    d = _half(extreme / -128)
    s = np.clip(np.rint(_divided(scales, d[:, None])), -128, 127)
    s = _better_scales(x, d, s)
    step = (d[:, None] * s)[..., None]
    codes = np.clip(np.rint(_divided(x, step)), -32, 31)
    d = _fitted(x, codes * s[..., None], d)
    codes = np.clip(np.rint(_divided(x, (d[:, None] * s)[..., None])), -32, 31)
    q = (codes + 32).astype(np.uint8).reshape(-1, 2, 4, 32)
    low, high = q & 15, q >> 4
    out = np.empty((len(x), 210), np.uint8)
    out[:, :128] = (low[:, :, :2] | low[:, :, 2:] << 4).reshape(-1, 128)
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    out[:, 128:192] = np.bitwise_or.reduce(high << shifts, axis=2).reshape(-1, 64)
    out[:, 192:208] = s.astype(np.int8).view(np.uint8)
    out[:, 208:210] = _f16_bytes(d)
    return out


# Scales of sub-blocks


def _grids_with_minimum(x: Values) -> tuple[Values, Values]:
    """S and M of each sub-block, M from 0 on: x is about S·q - M."""
    low = np.minimum(x.min(-1, keepdims=True), 0)
    span = x.max(-1, keepdims=True) - low
    best = np.full_like(x[..., 0], np.inf)
    scale, minimum = np.zeros_like(best), np.zeros_like(best)
    count, sum_x, sum_xx = x.shape[-1], x.sum(-1), (x * x).sum(-1)
    above_low, inverse = x - low, _divided(np.ones_like(span), span)
    for wider in _GRIDS:
        q = np.clip(np.rint(above_low * (inverse * np.float32(15 + wider))), 0, 15)
        sum_q, sum_qq, sum_xq = q.sum(-1), (q * q).sum(-1), (q * x).sum(-1)
        found = _divided(count * sum_xq - sum_x * sum_q, count * sum_qq - sum_q**2)
        least = (sum_x - found * sum_q) / count
        above = least > 0
        found = np.where(above, _divided(sum_xq, sum_qq), found)
        least = np.where(above, 0, least)
        # The squared differences, written out in sums.
        error = sum_xx + found * (found * sum_qq - 2 * sum_xq + 2 * least * sum_q)
        error += least * (count * least - 2 * sum_x)
        better = (error < best) & (found >= 0)
        best = np.where(better, error, best)
        scale, minimum = np.where(better, found, scale), np.where(better, -least, minimum)
    return scale, minimum


def _grids_around_zero(x: Values) -> Values:
    """s of each sub-block: x is about s·q."""
    extreme = np.take_along_axis(x, np.abs(x).argmax(-1)[..., None], -1)
    inverse = _divided(-np.ones_like(extreme), extreme)
    best = np.zeros_like(x[..., 0])
    scale = np.zeros_like(best)
    for wider in _GRIDS:
        q = np.clip(np.rint(x * (inverse * np.float32(32 + wider))), -32, 31)
        sum_xq = (x * q).sum(-1)
        found = _divided(sum_xq, (q * q).sum(-1))
        # What the squared differences are less than the squares of x.
        error = -found * sum_xq
        better = error < best
        best, scale = np.where(better, error, best), np.where(better, found, scale)
    return scale


# Integers near them


def _better_pairs(
    x: Values, d: Values, dmin: Values, s: Values, m: Values
) -> tuple[Values, Values]:
    """The best of the pairs around S and M."""
    best, found = np.full_like(s, np.inf), (s, m)
    for ds, dm in itertools.product(_NEAR, _NEAR):
        pair = np.clip(s + ds, 0, 63), np.clip(m + dm, 0, 63)
        q = _codes(x, d, dmin, *pair)
        step, least = d[:, None] * pair[0], dmin[:, None] * pair[1]
        error = ((x - step[..., None] * q + least[..., None]) ** 2).sum(-1)
        better = error < best
        best = np.where(better, error, best)
        found = np.where(better, pair[0], found[0]), np.where(better, pair[1], found[1])
    return found


def _better_scales(x: Values, d: Values, s: Values) -> Values:
    """The best of the scales around s."""
    best, found = np.full_like(s, np.inf), s
    for near in _NEAR:
        one = np.clip(s + near, -128, 127)
        step = (d[:, None] * one)[..., None]
        q = np.clip(np.rint(_divided(x, step)), -32, 31)
        error = ((x - step * q) ** 2).sum(-1)
        better = error < best
        best, found = np.where(better, error, best), np.where(better, one, found)
    return found


def _codes(x: Values, d: Values, dmin: Values, s: Values, m: Values) -> Values:
    step, least = d[:, None] * s, dmin[:, None] * m
    return np.clip(np.rint(_divided(x + least[..., None], step[..., None])), 0, 15)


# The f16 of a block


def _fitted_pair(
    x: Values, codes: Values, s: Values, m: Values, d: Values, dmin: Values
) -> tuple[Values, Values]:
    """d and dmin for these codes, as they were where no better ones follow."""
    a = codes * s[..., None]
    b = -np.broadcast_to(m[..., None], a.shape)
    aa, ab, bb = ((left * right).sum((1, 2)) for left, right in ((a, a), (a, b), (b, b)))
    ax, bx = (a * x).sum((1, 2)), (b * x).sum((1, 2))
    determinant = aa * bb - ab * ab
    both = _divided(ax * bb - bx * ab, determinant), _divided(bx * aa - ax * ab, determinant)
    alone = _divided(ax - dmin * ab, aa), dmin

    def error(one: Values, other: Values) -> Values:
        return ((x - one[:, None, None] * a - other[:, None, None] * b) ** 2).sum((1, 2))

    best = error(d, dmin)
    for first, second in (alone, both):
        one, other = _half(first), _half(second)
        new = error(one, other)
        better = (one > 0) & (other >= 0) & (new < best)
        best = np.where(better, new, best)
        d, dmin = np.where(better, one, d), np.where(better, other, dmin)
    return d, dmin


def _fitted(x: Values, codes: Values, d: Values) -> Values:
    """d for these codes, as it was where no better one follows."""
    new = _half(_divided((x * codes).sum((1, 2)), (codes * codes).sum((1, 2))))
    errors = [((x - one[:, None, None] * codes) ** 2).sum((1, 2)) for one in (new, d)]
    return np.where(errors[0] < errors[1], new, d)


def _nearest(scales: Values, unit: Values, most: int) -> Values:
    return np.clip(np.rint(_divided(scales, unit[:, None])), 0, most)


def _divided(a: Values, b: Values) -> Values:
    """a / b, 0 where b is."""
    zero = b == 0
    return np.where(zero, 0, a / np.where(zero, 1, b))


def _half(values: Values) -> Values:
    """Rounded to f16."""
    return values.astype(np.float16).astype(np.float32)


def _f16_bytes(values: Values) -> Values:
    return values.astype("<f2")[:, None].view(np.uint8)
