"""The twin of attention."""

from __future__ import annotations

import math

import numpy as np

from openinfer.dialects.ops.attention import head_counts
from openinfer.dialects.opset import TensorSpec
from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.storage import AnyArray


@twin("attention")
def _attention(call: Call) -> AnyArray:
    q, k, v = (call.exact(i) for i in range(3))
    shape = q.shape
    mask = call.inputs[3] if len(call.inputs) > 3 else None
    if call.settings["heads"] is not None:
        return _merged(call, q, k, v, mask)
    split = q.ndim == 2 and (k.ndim == 3 or q.shape[-1] != k.shape[-1])
    projection = None
    if split:
        heads, size = k.shape[-2], k.shape[-1]
        q = _by_head(q, heads, size)  # (heads, rows, size)
        k, v = _by_head(k, heads, size), _by_head(v, heads, size)  # (heads, keys, size)
        projection, mask = mask, None
    result = _attend(call, q, k, v, mask)
    if split:
        result = np.reshape(np.moveaxis(result, 0, 1), shape)
        if projection is not None:
            result = result @ projection.astype(np.float64)
    return result


def _merged(call: Call, q: AnyArray, k: AnyArray, v: AnyArray, mask: AnyArray | None) -> AnyArray:
    """Attention of q (…, queries, heads * size) with its heads as a part of the last axis."""
    specs = [TensorSpec.of("f64", x.shape) for x in (q, k)]
    heads, groups = head_counts(specs[0], specs[1], call.settings)

    def turned(x: AnyArray, count: int) -> AnyArray:
        """(…, heads, length, size)"""
        if x.ndim == q.ndim:
            x = np.reshape(x, (*x.shape[:-1], count, x.shape[-1] // count))
        return np.swapaxes(x, -2, -3)

    result = _attend(call, turned(q, heads), turned(k, groups), turned(v, groups), mask)
    result = np.swapaxes(result, -2, -3)  # (…, queries, heads, size)
    return np.reshape(result, (*q.shape[:-1], heads * result.shape[-1]))


def _by_head(x: AnyArray, heads: int, size: int) -> AnyArray:
    """`[T, H * Dh]` or `[T, H, Dh]` as (heads, T, size)."""
    return np.moveaxis(np.reshape(x, (-1, heads, size)), 1, 0)


def _attend(call: Call, q: AnyArray, k: AnyArray, v: AnyArray, mask: AnyArray | None) -> AnyArray:
    """Attention per head; q (…, heads, queries, size), k and v (…, groups, keys, size)."""
    if q.ndim > 2 and k.shape[-3] != q.shape[-3] and k.shape[-3]:
        group = q.shape[-3] // k.shape[-3]
        k, v = np.repeat(k, group, axis=-3), np.repeat(v, group, axis=-3)
    scale = call.settings["scale"]
    if scale is None:
        scale = 1 / math.sqrt(q.shape[-1]) if q.shape[-1] else 1.0
    assert isinstance(scale, int | float)
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * scale  # (…, heads, queries, keys)
    softcap = call.settings["softcap"]
    if softcap is not None:
        assert isinstance(softcap, int | float)
        scores = softcap * np.tanh(scores / softcap)
    seen = np.broadcast_to(_visible(call, q.shape[-2], k.shape[-2]), scores.shape)
    if mask is not None and mask.dtype == np.bool_:
        seen = seen & mask
    elif mask is not None:
        scores = scores + mask.astype(np.float64)
    scores = np.where(seen, scores, -np.inf)
    top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    # A row that may attend to nothing has only -inf: its weights are 0, not NaN.
    weights = np.exp(scores - np.where(top == -np.inf, 0.0, top))
    total = np.sum(weights, axis=-1, keepdims=True)
    weights = weights / np.where(total == 0, 1.0, total)
    result = np.matmul(weights, v)
    if np.isfinite(v).all():
        return result
    # A value that is not seen is not read: 0 times infinity would be NaN.
    v = np.broadcast_to(v, (*scores.shape[:-2], *v.shape[-2:]))
    for place in np.argwhere(np.isnan(result).any(axis=-1)):
        row = tuple(place)
        keys = seen[row]
        result[row] = weights[row][keys] @ v[row[:-1]][keys]
    return result


def _visible(call: Call, queries: int, keys: int) -> AnyArray:
    """Which key each query may see; the queries are the last positions of the keys."""
    position = np.arange(queries)[:, None] + (keys - queries)
    distance = position - np.arange(keys)[None, :]
    seen = np.ones((queries, keys), dtype=np.bool_)
    if call.settings["causal"]:
        seen &= distance >= 0
    window = call.settings["window"]
    if isinstance(window, int):
        seen &= np.abs(distance) < window
    return seen
