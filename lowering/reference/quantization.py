"""Twins of `quantize` and `dequantize`, and of their forms for blocks."""

from __future__ import annotations

import numpy as np

from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.blocks import BLOCKS
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import AnyArray, value_range
from openinfer.runtime.unpacking import unpacked


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


@twin("quantize_blocks")
def _quantize_blocks(call: Call) -> AnyArray:
    """`q8_0`, the one format that there is."""
    block = BLOCKS[str(call.settings["format"])]
    x = call.inputs[0].astype(np.float32)
    parts = x.reshape(-1, block.elements)
    with np.errstate(all="ignore"):
        most = np.abs(parts).max(axis=1, keepdims=True, initial=0)
        d = most / np.float32(127)
        # A smaller d is 0 as f16, and its inverse may be infinite.
        counts = np.isfinite(most) & (most > np.float32(2.0**-100))
        inverse = np.where(counts, np.float32(1) / d, np.float32(0)).astype(np.float32)
        codes = np.where(counts, np.rint(parts * inverse), 0).astype(np.int8)
        d = np.where(np.isfinite(most), d, np.float32(np.nan)).astype("<f2")
    bytes_ = np.concatenate([d.view(np.uint8), codes.view(np.uint8)], axis=1)
    return bytes_.reshape(*x.shape[:-1], x.shape[-1] // block.elements * block.nbytes)


@twin("dequantize_blocks")
def _dequantize_blocks(call: Call) -> AnyArray:
    block, x = BLOCKS[str(call.settings["format"])], call.inputs[0]
    values = unpacked(block, np.ascontiguousarray(x).reshape(-1))
    return values.reshape(*x.shape[:-1], x.shape[-1] // block.nbytes * block.elements)
