"""Twins of `quantize` and `dequantize`."""

from __future__ import annotations

import numpy as np

from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import AnyArray, value_range


def _along(call: Call, parameter: AnyArray) -> AnyArray:
    """A parameter so that it broadcasts to x: along the axis when it has more than one element."""
    x, axis = call.inputs[0], call.settings["axis"]
    if parameter.size == 1:
        return parameter.reshape(())
    assert isinstance(axis, int)
    return parameter.reshape([-1 if d == axis % x.ndim else 1 for d in range(x.ndim)])


def _scale(call: Call, wide: type[np.floating]) -> AnyArray:
    if len(call.inputs) > 1:
        return _along(call, call.inputs[1].astype(wide))
    scale = call.settings["scale"]
    assert isinstance(scale, int | float)
    return np.asarray(scale, wide)


def _zero_point(call: Call, codes: str) -> AnyArray:
    """The zero point as int64, brought into the range of the codes."""
    bounds = value_range(DTYPES[codes])
    assert bounds is not None
    if len(call.inputs) > 2:
        given = call.inputs[2]
        inside = np.clip(given, *_shared(bounds, call.dtypes[2]))
        return _along(call, inside.astype(np.int64))
    value = call.settings["zero_point"]
    assert value is None or isinstance(value, int)
    return np.asarray(value or 0, np.int64)


def _shared(bounds: tuple[int, int], dtype: str) -> tuple[int, int]:
    """The part of a range that a dtype can hold."""
    own = value_range(DTYPES[dtype])
    assert own is not None
    return max(bounds[0], own[0]), min(bounds[1], own[1])


@twin("quantize")
def _quantize(call: Call) -> AnyArray:
    codes = call.outputs[0]
    wide = np.float64 if "f64" in call.dtypes[:2] else np.float32
    whole = np.rint(call.inputs[0].astype(wide) / _scale(call, wide)).astype(np.float64)
    # Far beyond every range of codes, and still exact in int64.
    whole = np.clip(np.where(np.isnan(whole), 0.0, whole), -(2.0**52), 2.0**52)
    bounds = value_range(DTYPES[codes])
    assert bounds is not None
    return np.clip(whole.astype(np.int64) + _zero_point(call, codes), *bounds)


@twin("dequantize")
def _dequantize(call: Call) -> AnyArray:
    codes = call.dtypes[0]
    double = "f64" in (*call.dtypes[1:2], call.outputs[0])
    wide = np.float64 if double else np.float32
    difference = call.inputs[0].astype(np.int64) - _zero_point(call, codes)
    return difference.astype(wide) * _scale(call, wide)
