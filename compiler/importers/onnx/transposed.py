"""Transposed convolutions over any number of axes: convolutions of what has zeros between its elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.onnx.items import number_of
from openinfer.compiler.importers.onnx.node import Node
from openinfer.compiler.importers.onnx.refusals import DAMAGED, Refusal


def transposed_convolution(
    node: Node,
    x: Value,
    w: Value,
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int = 1,
) -> Value:
    """All of the result, without padding: x `[N, C, …]`, w `[C, O / groups, …]`, the result `[N, O, …]`."""
    g, axes = node.g, x.rank - 2
    kernel = [dim.constant or 1 for dim in w.dims[2:]]
    channels, outputs = w.dims[0].constant, w.dims[1].constant
    if channels is None or outputs is None or groups < 1 or channels % groups:
        raise Refusal(DAMAGED, f"{node.op} has weights of {w.dims} in {groups} groups")
    for axis, stride in enumerate(strides, 2):
        if stride != 1:
            x = _spread(node, x, axis, stride)
    borders = [(one - 1) * gap for one, gap in zip(kernel, dilations)]
    x = g.op("pad", x, pads=[*borders, *borders], axes=list(range(2, 2 + axes)))
    w = g.op("flip", w, axes=list(range(2, 2 + axes)))
    split = g.op("reshape", w, shape=[groups, channels // groups, outputs, *kernel])
    turned = g.op("transpose", split, perm=[0, 2, 1, *range(3, 3 + axes)])
    w = g.op("reshape", turned, shape=[groups * outputs, channels // groups, *kernel])
    settings: dict[str, Any] = {"groups": groups} if groups != 1 else {}
    if any(one != 1 for one in dilations):
        settings["dilation"] = list(dilations)
    return g.op(f"conv{axes}d", x, w, **settings)


def _spread(node: Node, x: Value, axis: int, stride: int) -> Value:
    """x with zeros between the elements of an axis."""
    g = node.g
    dims: list[Any] = [number_of(dim) for dim in x.dims]
    wide = g.op("unsqueeze", x, axes=[axis + 1])
    wide = g.op("pad", wide, pads=[0, stride - 1], axes=[axis + 1])
    dims[axis] = number_of(x.dims[axis] * stride)
    wide = g.op("reshape", wide, shape=dims)
    stop = number_of((x.dims[axis] - 1) * stride + 1)
    return g.op("slice", wide, axis=axis, start=0, stop=stop)


def cut(node: Node, x: Value, before: Sequence[int], extents: Sequence[Any]) -> Value:
    """The part of x that begins at `before` along the axes from the third on; zeros where x ends sooner."""
    g = node.g
    for axis, (start, extent) in enumerate(zip(before, extents), 2):
        missing = start + extent - x.dims[axis]
        more = missing.constant if hasattr(missing, "constant") else missing
        if more is None:
            raise Refusal(DAMAGED, f"{node.op} needs axes of known length")
        if more > 0:
            x = g.op("pad", x, pads=[0, more], axes=[axis])
        if start or more < 0:
            x = g.op("slice", x, axis=axis, start=start, stop=number_of(start + extent))
    return x
