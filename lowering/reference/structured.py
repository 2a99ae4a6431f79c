"""Twins of matrix multiplication, linear layers and gather."""

from __future__ import annotations

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
