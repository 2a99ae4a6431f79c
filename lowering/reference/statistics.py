"""Twins of the reductions in `dialects/ops/statistics.py`."""

from __future__ import annotations

import numpy as np

from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.storage import AnyArray


def _axes(call: Call) -> tuple[int, ...]:
    axes = call.settings["axes"]
    assert isinstance(axes, tuple)
    return tuple(sorted({int(axis) % call.inputs[0].ndim for axis in axes}))


def _keep(call: Call) -> bool:
    return bool(call.settings["keepdims"])


@twin("logsumexp")
def _logsumexp(call: Call) -> AnyArray:
    x, axes = call.exact(), _axes(call)
    largest = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    # An infinite or no number decides alone, or is what there is of nothing.
    start = np.where(np.isfinite(largest), largest, 0)
    total = np.sum(np.exp(x - start), axis=axes, keepdims=True)
    found = np.log(total) + start
    return found if _keep(call) else np.squeeze(found, axis=axes)


def _variance(call: Call) -> AnyArray:
    """Sums of f32 in f64, rounded once; mean, differences and squares in f32, or all in f64."""
    x, axes = call.wide(), _axes(call)
    count = int(np.prod([x.shape[axis] for axis in axes]))
    correction = call.settings["correction"]
    assert isinstance(correction, int)

    def total(values: AnyArray) -> AnyArray:
        return np.sum(values, axis=axes, keepdims=True, dtype=np.float64).astype(x.dtype)

    centred = x - total(x) / x.dtype.type(count)
    found = total(centred * centred) / x.dtype.type(max(count - correction, 0))
    return found if _keep(call) else np.squeeze(found, axis=axes)


@twin("var")
def _var(call: Call) -> AnyArray:
    return _variance(call)


@twin("std")
def _std(call: Call) -> AnyArray:
    return np.sqrt(_variance(call))


@twin("any")
def _any(call: Call) -> AnyArray:
    return np.any(call.inputs[0] != 0, axis=_axes(call), keepdims=_keep(call))


@twin("all")
def _all(call: Call) -> AnyArray:
    return np.all(call.inputs[0] != 0, axis=_axes(call), keepdims=_keep(call))
