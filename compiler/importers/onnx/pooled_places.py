"""Where the largest elements of windows lie: the second result of `MaxPool`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as places_of
from math import prod
from typing import Any

import numpy as np

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.onnx.items import number_of
from openinfer.compiler.importers.onnx.node import Node, Result
from openinfer.compiler.importers.onnx.refusals import CONTENT, Refusal

MOST = 1 << 20
"""Elements of all windows of one channel: a table of them stands in the program."""


def pool_with_places(
    node: Node,
    x: Value,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
) -> list[Result]:
    """The largest element of each window and its place in all of x, counted row by row, or with
    `storage_order` column by column."""
    g, axes = node.g, len(kernel)
    extents, channels = [dim.constant for dim in x.dims[2:]], x.dims[1].constant
    if None in extents or channels is None:
        raise Refusal(CONTENT, "MaxPool with Indices needs channels and axes of known length")
    known = [one or 0 for one in extents]
    up = node.flag("ceil_mode")
    counts: list[int] = []
    for i in range(axes):
        room = known[i] + before[i] + after[i] - (kernel[i] - 1) * dilations[i] - 1
        count = (-(-room // strides[i]) if up else room // strides[i]) + 1
        # The last window begins in x, or in the padding before it.
        counts.append(count - 1 if (count - 1) * strides[i] >= known[i] + before[i] else count)
    if prod(counts) * prod(kernel) > MOST:
        raise Refusal(CONTENT, f"MaxPool with Indices has more than {MOST} elements of windows")
    order = list(range(axes))
    if node.flag("storage_order"):
        order.reverse()
    weights = [1] * axes
    for i, axis in enumerate(order):
        weights[axis] = prod(known[other] for other in order[i + 1 :])
    table = np.full((prod(counts), prod(kernel)), -1, np.int64)
    rows = table.copy()
    for p, window in enumerate(places_of(*map(range, counts))):
        for k, step in enumerate(places_of(*map(range, kernel))):
            at = [window[i] * strides[i] - before[i] + step[i] * dilations[i] for i in range(axes)]
            if all(0 <= one < extent for one, extent in zip(at, known)):
                rows[p, k] = np.ravel_multi_index(at, known)
                table[p, k] = sum(one * weight for one, weight in zip(at, weights))
    batch: Any = number_of(x.dims[0])
    area = prod(known)
    flat = g.op("reshape", x, shape=[batch, channels, area])
    seen = g.op("gather", flat, node.const(np.maximum(rows, 0), "i64", "windows"), axis=2)
    least = float("-inf") if x.dtype[0] in "fb" else 0 if x.dtype[0] == "u" else -128
    if (rows < 0).any():
        seen = g.op("where", node.const(rows >= 0, "bool", "inside"), seen, least)
    best = g.op("argmax_axis", seen, axis=-1)
    first = node.const(np.arange(len(table)) * table.shape[1], "i64", "first")
    where = g.op("add", g.op("cast", best, to="i64"), first)
    place = g.op("gather", node.const(table.reshape(-1), "i64", "places"), where)
    planes = g.op("iota", shape=[number_of(x.dims[0] * channels)], dtype="i64")
    planes = g.op("reshape", g.op("mul", planes, area), shape=[batch, channels, 1])
    shape = [batch, channels, *counts]
    place = g.op("reshape", g.op("add", place, planes), shape=shape)
    return [g.op("reshape", g.op("max_axis", seen, axes=[-1]), shape=shape), place]
