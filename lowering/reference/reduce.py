"""Twins of reductions and normalisations."""

from __future__ import annotations

from typing import Any

import numpy as np

from openinfer.lowering.program.value_arrays import wrap
from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import AnyArray, value_range


def _axes(call: Call) -> tuple[int, ...]:
    axes = call.settings["axes"]
    assert isinstance(axes, tuple)
    rank = call.inputs[0].ndim
    return tuple(sorted({int(axis) % rank for axis in axes}))


def _keep(call: Call) -> bool:
    return bool(call.settings["keepdims"])


def accumulator_of(call: Call) -> str:
    """The dtype in which to add up: of `acc`, else f32 or f64 for floats, 64 bits for integers.

    Sums and products of integers are the same modulo 2**n whichever width adds them; a mean is not.
    """
    acc = call.settings.get("acc")
    if isinstance(acc, tuple):
        return str(acc[0])
    row = DTYPES[call.dtypes[0]]
    if row.is_float:
        return "f64" if row.name == "f64" else "f32"
    return "i64" if row.kind == "int" else "u64"


def _fold(call: Call, function: Any) -> AnyArray:
    """`np.sum` or `np.prod` over the axes in the accumulator's dtype; sums of f32 in f64, rounded once."""
    dtype = accumulator_of(call)
    x = call.inputs[0].astype(DTYPES[dtype].value)
    wide = np.float64 if dtype == "f32" and function is np.sum else x.dtype
    result = np.asarray(function(x, axis=_axes(call), keepdims=_keep(call), dtype=wide))
    return result.astype(x.dtype)


@twin("sum_axis")
def _sum(call: Call) -> AnyArray:
    return _fold(call, np.sum)


@twin("prod_axis")
def _prod(call: Call) -> AnyArray:
    return _fold(call, np.prod)


@twin("mean_axis")
def _mean(call: Call) -> AnyArray:
    total = _fold(call, np.sum)
    shape = call.inputs[0].shape
    count = int(np.prod([shape[axis] for axis in _axes(call)]))
    accumulator = DTYPES[accumulator_of(call)]
    if accumulator.is_float:
        return total / total.dtype.type(count)
    total = wrap(total, accumulator.name)
    if DTYPES[call.outputs[0]].is_float:
        return total.astype(np.float64) / count
    if count == 0:
        return np.zeros_like(total)
    floored = total // total.dtype.type(count)
    inexact = floored * total.dtype.type(count) != total
    return floored + (inexact & (total < 0)).astype(total.dtype)


def _extreme(call: Call, function: Any, largest: bool) -> AnyArray:
    """NaN wins in NumPy's max and min, as the language asks. Nothing to choose from: the limit."""
    x = call.inputs[0]
    bounds = value_range(DTYPES[call.dtypes[0]])
    limit = bounds[0 if largest else 1] if bounds else (-np.inf if largest else np.inf)
    return np.asarray(function(x, axis=_axes(call), keepdims=_keep(call), initial=limit))


@twin("max_axis")
def _max(call: Call) -> AnyArray:
    return _extreme(call, np.max, True)


@twin("min_axis")
def _min(call: Call) -> AnyArray:
    return _extreme(call, np.min, False)


def _position(call: Call, function: Any) -> AnyArray:
    x, axis = call.inputs[0], call.settings["axis"]
    assert isinstance(axis, int)
    if call.settings["select_first"]:
        found = function(x, axis=axis, keepdims=_keep(call))
    else:
        found = x.shape[axis] - 1 - function(np.flip(x, axis), axis=axis, keepdims=_keep(call))
    return np.asarray(found, dtype=np.int64)


@twin("argmax_axis")
def _argmax(call: Call) -> AnyArray:
    return _position(call, np.argmax)


@twin("argmin_axis")
def _argmin(call: Call) -> AnyArray:
    return _position(call, np.argmin)


def shifted(x: AnyArray, axis: int) -> AnyArray:
    """`x - max(x)` along an axis; empty axes are left alone."""
    return x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)


@twin("softmax")
def _softmax(call: Call) -> AnyArray:
    axis = call.settings["axis"]
    assert isinstance(axis, int)
    power = np.exp(shifted(call.exact(), axis))
    return power / np.sum(power, axis=axis, keepdims=True)


@twin("log_softmax")
def _log_softmax(call: Call) -> AnyArray:
    axis = call.settings["axis"]
    assert isinstance(axis, int)
    x = shifted(call.exact(), axis)
    return x - np.log(np.sum(np.exp(x), axis=axis, keepdims=True))


def _normalised_axes(call: Call) -> tuple[int, ...]:
    axis = call.settings["axis"]
    assert isinstance(axis, int)
    rank = call.inputs[0].ndim
    return tuple(range(axis % rank, rank))


@twin("layer_norm")
def _layer_norm(call: Call) -> AnyArray:
    x, axes = call.exact(), _normalised_axes(call)
    centred = x - np.mean(x, axis=axes, keepdims=True)
    variance = np.mean(centred * centred, axis=axes, keepdims=True)
    y = centred / np.sqrt(variance + _eps(call))
    if len(call.inputs) > 1:
        y = y * call.exact(1)
    return y + call.exact(2) if len(call.inputs) > 2 else y


@twin("rms_norm")
def _rms_norm(call: Call) -> AnyArray:
    x, axes = call.exact(), _normalised_axes(call)
    y = x / np.sqrt(np.mean(x * x, axis=axes, keepdims=True) + _eps(call))
    return y * call.exact(1) if len(call.inputs) > 1 else y


def _eps(call: Call) -> float:
    eps = call.settings["eps"]
    assert isinstance(eps, int | float)
    return float(eps)
