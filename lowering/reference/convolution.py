"""Twins of the convolutions: a sum over the elements of the kernel, each a strided view of x."""

from __future__ import annotations

import numpy as np

from openinfer.dialects.ops.convolution import conv_windows, transposed_extents
from openinfer.dialects.ops.windows import Window
from openinfer.dialects.opset import TensorSpec
from openinfer.lowering.program.value_arrays import check_memory, wrap
from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size
from openinfer.runtime.storage import AnyArray

_ALL = (slice(None),) * 3


def _operands(call: Call) -> tuple[AnyArray, AnyArray]:
    """x and w in what products are added in: float64, or 64-bit integers that wrap."""
    if DTYPES[call.dtypes[0]].is_float:
        return call.exact(0), call.exact(1)
    kind = "int64" if DTYPES[call.dtypes[0]].kind == "int" else "uint64"
    return call.inputs[0].astype(kind), call.inputs[1].astype(kind)


def _finish(call: Call, y: AnyArray) -> AnyArray:
    """The sums in the shape of the result, as the accumulator keeps them, and the bias."""
    acc = call.settings["acc"]
    y = y.reshape(call.shapes[0])
    if isinstance(acc, tuple):
        inner = DTYPES[str(acc[0])]
        y = y.astype(inner.value) if inner.is_float else wrap(y, inner.name)
    if len(call.inputs) > 2:
        spatial = call.inputs[1].ndim - 2
        bias = call.inputs[2].astype(np.float64 if y.dtype.kind == "f" else y.dtype)
        y = y + bias.reshape([bias.size] + [1] * spatial)
    return y


def _int(size: Size) -> int:
    assert size.constant is not None
    return size.constant


def _reach(window: Window, place: int, count: int) -> slice:
    """Where element `place` of the kernel lies in the padded axis, for `count` windows."""
    stride, first = _int(window.stride), place * _int(window.dilation)
    return slice(first, first + stride * (count - 1) + 1 if count else first, stride)


@twin("conv1d", "conv2d", "conv3d")
def _conv(call: Call) -> AnyArray:
    x, w = _operands(call)
    spatial = w.ndim - 2
    windows = conv_windows(TensorSpec.of(call.dtypes[1], w.shape), call.settings, spatial)
    groups = call.settings["groups"]
    assert isinstance(groups, int)
    x = x if x.ndim == spatial + 2 else x[None]
    sides = [(_int(window.before), _int(window.after)) for window in windows]
    padded = [extent + sum(around) for extent, around in zip(x.shape[-spatial:], sides)]
    check_memory([*x.shape[:2], *padded])
    x = np.pad(x, [(0, 0), (0, 0), *sides])
    batch, outputs, channels = x.shape[0], w.shape[0], w.shape[1]
    x = x.reshape(batch, groups, channels, *x.shape[2:])
    w = w.reshape(groups, outputs // groups, channels, *w.shape[2:])
    counts = call.shapes[0][-spatial:]
    y = np.zeros((batch, groups, outputs // groups, *counts), dtype=x.dtype)
    for place in np.ndindex(*w.shape[3:]):
        cut = tuple(_reach(*row) for row in zip(windows, place, counts))
        part = x[_ALL + cut]  # (batch, groups, channels, windows…)
        factor = w[_ALL + place]  # (groups, outputs, channels)
        y = y + np.einsum("goc,ngc...->ngo...", factor, part)
    return _finish(call, y)


@twin("conv_transpose2d")
def _conv_transpose(call: Call) -> AnyArray:
    x, w = _operands(call)
    groups = call.settings["groups"]
    assert isinstance(groups, int)
    x = x if x.ndim == 4 else x[None]
    batch, channels, *counts = x.shape
    spec = TensorSpec.of(call.dtypes[1], w.shape)
    windows, _ = transposed_extents(spec, TensorSpec.of("f32", counts).dims, call.settings)
    x = x.reshape(batch, groups, channels // groups, *counts)
    w = w.reshape(groups, channels // groups, *w.shape[1:])
    extents = call.shapes[0][-2:]
    sides = [(_int(window.before), _int(window.after)) for window in windows]
    padded = [low + extent + high for extent, (low, high) in zip(extents, sides)]
    check_memory([batch, groups, w.shape[2], *padded])
    whole = np.zeros((batch, groups, w.shape[2], *padded), dtype=x.dtype)
    for place in np.ndindex(*w.shape[3:]):
        cut = tuple(_reach(*row) for row in zip(windows, place, counts))
        factor = w[_ALL + place]  # (groups, channels, outputs)
        whole[_ALL + cut] += np.einsum("gco,ngchw->ngohw", factor, x)
    kept = tuple(slice(low, low + extent) for extent, (low, _) in zip(extents, sides))
    return _finish(call, whole[_ALL + kept])
