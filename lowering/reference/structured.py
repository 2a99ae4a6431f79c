"""Twins of matrix multiplication, linear layers, attention and gather."""

from __future__ import annotations

import math

import numpy as np

from openinfer.lowering.reference.twins import Call, IndexFault, twin
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import AnyArray

LONG = 1024
"""Sums of more products are added up in f64 and rounded once; shorter ones are quick in f32."""


@twin("matmul")
def _matmul(call: Call) -> AnyArray:
    a, b = call.inputs
    a = np.swapaxes(a, -1, -2) if call.settings["transpose_a"] else a
    b = np.swapaxes(b, -1, -2) if call.settings["transpose_b"] else b
    return _product(call, a, b)


@twin("linear")
def _linear(call: Call) -> AnyArray:
    x, w, *bias = call.inputs
    result = _product(call, x, w.T)  # (..., out)
    if not bias:
        return result
    if DTYPES[call.dtypes[0]].is_float:
        return result.astype(np.float64) + bias[0].astype(np.float64)
    return result + bias[0]


def _product(call: Call, a: AnyArray, b: AnyArray) -> AnyArray:
    """a `[..., M, K]` or `[K]` by b `[..., K, N]`, wider than the result."""
    left, right = DTYPES[call.dtypes[0]], DTYPES[call.dtypes[1]]
    acc = call.settings["acc"]
    inner = str(acc[0]) if isinstance(acc, tuple) else None
    if left.kind == "bool":
        return np.matmul(a.astype(np.float64), b.astype(np.float64)) > 0
    if left.is_float:
        wide = inner or "f32"
        if "f64" in (left.name, right.name):
            wide = "f64"
        kind = DTYPES[wide].value
        if wide == "f32" and a.shape[-1] > LONG:
            return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(kind)
        return np.matmul(a.astype(kind), b.astype(kind))
    if left.bits <= 16 and a.shape[-1] <= 1 << 20:
        # Every partial sum is below 2**53: exact in float64, where NumPy is fast.
        whole = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
    else:
        kind = "int64" if left.kind == "int" else "uint64"
        whole = np.matmul(a.astype(kind), b.astype(kind))
    # The accumulator wraps; when the result is wider than it, that shows.
    return whole.astype(DTYPES[inner].value) if inner else whole


@twin("attention")
def _attention(call: Call) -> AnyArray:
    q, k, v = (call.exact(i) for i in range(3))
    shape = q.shape
    mask = call.inputs[3] if len(call.inputs) > 3 else None
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


@twin("gather")
def _gather(call: Call) -> AnyArray:
    table, indices = call.inputs
    axis = call.settings["axis"]
    assert isinstance(axis, int)
    check_indices(indices, table.shape[axis], f"axis {axis} of the table")
    return np.take(table, indices.astype(np.int64), axis=axis)


def check_indices(indices: AnyArray, extent: int, what: str) -> None:
    """Raises IndexFault for the first index that is outside `0..extent`."""
    wrong = (indices < 0) | (indices >= extent)
    if wrong.any():
        place = np.argwhere(wrong)[0].tolist()
        index = int(indices[tuple(place)])
        raise IndexFault(
            f"index {index} at position {place} of the indices is outside 0..{extent}, the "
            f"bounds of {what}",
            "check the data that the indices come from",
        )
