"""Fourier transforms of rows of known length, and the filters of sounds."""

from __future__ import annotations

import numpy as np

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.onnx.items import numpy_dtype
from openinfer.compiler.importers.onnx.node import Node, Result, operator
from openinfer.compiler.importers.onnx.protos import element_dtype
from openinfer.compiler.importers.onnx.refusals import CONTENT, DAMAGED, Refusal

MAX_ROW = 4096
"""Elements of a row that is transformed by a matrix."""


@operator("DFT")
def dft(node: Node) -> Result:
    g, x = node.g, node.x(0)
    inverse, onesided = node.flag("inverse"), node.flag("onesided")
    if node.version >= 20:
        axis = node.ints_of(2)[0] if node.there(2) else -2
    else:
        axis = node.int("axis", 1)
    axis = node.axis(axis, x.rank)
    parts = x.dims[-1].constant
    extent = x.dims[axis].constant
    if axis == x.rank - 1 or parts not in (1, 2):
        raise Refusal(DAMAGED, "DFT needs real and imaginary parts in its last axis")
    if extent is None:
        raise Refusal(CONTENT, "DFT needs an axis of known length")
    half = onesided and inverse
    length = int(node.number(1)) if node.there(1) else 2 * (extent - 1) if half else extent
    node.need(not half or parts == 2, "real parts alone, onesided=1 and inverse=1")
    node.need(0 < length <= MAX_ROW, f"rows of {length} elements")
    # Rows last, the parts of numbers in front of them.
    perm = [*(i for i in range(x.rank - 1) if i != axis), x.rank - 1, axis]
    rows = g.op("permute", x, perm=perm) if perm != list(range(x.rank)) else x
    if half:
        node.need(extent == length // 2 + 1, "dft_length, onesided=1 and inverse=1")
        found = _real(node, rows, length)
    else:
        if length < extent:
            rows = g.op("slice", rows, axis=x.rank - 1, start=0, stop=length)
        elif length > extent:
            rows = g.op("pad", rows, pads=[0, length - extent], axes=[x.rank - 1])
        bins = length // 2 + 1 if onesided else length
        found = _transformed(node, rows, length, bins, inverse)
    back = [perm.index(i) for i in range(x.rank)]
    return g.op("permute", found, perm=back) if back != list(range(x.rank)) else found


def _transformed(node: Node, rows: Value, length: int, bins: int, inverse: bool) -> Value:
    """`[…, parts, length]` → `[…, 2, bins]`, by matrices of cosines and sines, added up in f64."""
    g, axis = node.g, rows.rank - 2
    wide = rows if rows.dtype == "f64" else g.op("cast", rows, to="f64")
    angle = 2 * np.pi * (np.outer(np.arange(length), np.arange(bins)) % length) / length
    scale = 1 / length if inverse else 1.0
    cosine = node.const(np.cos(angle) * scale, "f64", "cosines")
    sine = node.const(np.sin(angle) * scale * (-1 if inverse else 1), "f64", "sines")
    real = g.op("slice", wide, axis=axis, start=0, stop=1)
    re, im = g.op("matmul", real, cosine), g.op("neg", g.op("matmul", real, sine))
    if rows.dims[axis].constant == 2:
        imaginary = g.op("slice", wide, axis=axis, start=1, stop=2)
        re = g.op("add", re, g.op("matmul", imaginary, sine))
        im = g.op("add", im, g.op("matmul", imaginary, cosine))
    found = g.op("concat", re, im, axis=axis)
    return found if rows.dtype == "f64" else g.op("cast", found, to=rows.dtype)


def _real(node: Node, rows: Value, length: int) -> Value:
    """`[…, 2, length/2 + 1]` → `[…, 1, length]`: bins but the first and the middle one count twice."""
    g, axis = node.g, rows.rank - 2
    bins = length // 2 + 1
    wide = rows if rows.dtype == "f64" else g.op("cast", rows, to="f64")
    twice = np.where((np.arange(bins) == 0) | (2 * np.arange(bins) == length), 1.0, 2.0)[:, None]
    angle = 2 * np.pi * (np.outer(np.arange(bins), np.arange(length)) % length) / length
    cosine = node.const(np.cos(angle) * twice / length, "f64", "cosines")
    sine = node.const(-np.sin(angle) * twice / length, "f64", "sines")
    real = g.op("matmul", g.op("slice", wide, axis=axis, start=0, stop=1), cosine)
    imaginary = g.op("matmul", g.op("slice", wide, axis=axis, start=1, stop=2), sine)
    found = g.op("add", real, imaginary)
    return found if rows.dtype == "f64" else g.op("cast", found, to=rows.dtype)


@operator("STFT")
def stft(node: Node) -> Result:
    g, x = node.g, node.x(0)
    step = node.ints_of(1)[0]
    window = node.optional(2)
    onesided = node.flag("onesided", True)
    extent = x.dims[1].constant
    node.need(x.rank == 2 or x.dims[-1].constant == 1, "complex signals")
    if extent is None:
        raise Refusal(CONTENT, "STFT needs a signal of known length")
    length = (
        node.ints_of(3)[0] if node.there(3) else (window.dims[0].constant or 0) if window else 0
    )
    if not 0 < length <= min(extent, MAX_ROW) or step < 1:
        raise Refusal(DAMAGED, "STFT has frames that do not fit its signal")
    frames = (extent - length) // step + 1
    places = np.arange(frames)[:, None] * step + np.arange(length)
    signal = g.op("reshape", x, shape=[x.dims[0], extent])
    rows = g.op("gather", signal, node.const(places, "i64", "frames"), axis=1)
    if window is not None:
        rows = g.op("mul", rows, window)
    found = _transformed(
        node,
        g.op("unsqueeze", rows, axes=[2]),
        length,
        length // 2 + 1 if onesided else length,
        False,
    )
    return g.op("permute", found, perm=[0, 1, 3, 2])


@operator("MelWeightMatrix")
def mel_weight_matrix(node: Node) -> Result:
    bands, length, rate = (node.ints_of(place)[0] for place in range(3))
    low, high = float(node.number(3)), float(node.number(4))
    dtype = element_dtype(node.int("output_datatype", 1), node.op)
    bins = length // 2 + 1
    if bands < 1 or bands * bins > 1 << 20 or rate < 1:
        raise Refusal(DAMAGED, "MelWeightMatrix has sizes that do not fit each other")
    ends = [2595 * np.log10(1 + hertz / 700) for hertz in (low, high)]
    mels = np.arange(bands + 2) * ((ends[1] - ends[0]) / (bands + 2)) + ends[0]
    places = ((length + 1) * (700 * (10 ** (mels / 2595) - 1)) // rate).astype(int)
    matrix = np.zeros((bins, bands))
    for band in range(bands):
        first, top, last = places[band : band + 3]
        if top == first:
            matrix[top, band] = 1
        else:
            matrix[first : top + 1, band] = (np.arange(first, top + 1) - first) / (top - first)
        if last > top:
            matrix[top:last, band] = (last - np.arange(top, last)) / (last - top)
    return node.reader.content(matrix.astype(numpy_dtype(dtype)), dtype, node.outputs[0])
