"""Convolutions whose windows have places of their own for each pixel."""

from __future__ import annotations

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.onnx.items import number_of
from openinfer.compiler.importers.onnx.node import Node, Result, operator
from openinfer.compiler.importers.onnx.refusals import CONTENT, DAMAGED, Refusal


@operator("DeformConv")
def deform_conv(node: Node) -> Result:
    """x is read between its pixels at the places of each window moved by the offsets, then multiplied.

    x `[N, C, H, W]`, w `[O, C / group, KH, KW]`, offsets `[N, parts * KH * KW * 2, OH, OW]` (down,
    across), a mask `[N, parts * KH * KW, OH, OW]`. Beyond the image there are zeros.
    """
    g, x, w, offset = node.g, node.x(0), node.x(1), node.x(2)
    bias, mask = node.optional(3), node.optional(4)
    node.need(x.rank == 4, f"{x.rank - 2} axes")
    kernel = node.ints("kernel_shape") or [dim.constant for dim in w.dims[2:]]
    strides, dilations = node.ints("strides") or [1, 1], node.ints("dilations") or [1, 1]
    pads, parts, groups = (
        *(node.ints("pads") or [0] * 4, node.int("offset_group", 1), node.int("group", 1)),
    )
    extents, count = [dim.constant for dim in x.dims[2:]], [d.constant for d in offset.dims[2:]]
    channels, outputs = x.dims[1].constant, w.dims[0].constant
    if None in (*kernel, *extents, *count, channels, outputs):
        raise Refusal(CONTENT, "DeformConv needs all sizes but that of the batch")
    taps = int(kernel[0] or 0) * int(kernel[1] or 0)
    assert channels is not None
    assert outputs is not None
    if parts < 1 or groups < 1 or channels % parts or channels % groups or outputs % groups:
        raise Refusal(DAMAGED, f"DeformConv of {channels} channels in {parts} and {groups} parts")
    batch = number_of(x.dims[0])
    moved = g.op("reshape", offset, shape=[batch, parts, taps, 2, *count])
    across = [
        _places(node, axis, kernel, strides, dilations, pads, count, extents) for axis in (0, 1)
    ]
    sampled: list[Value] = []
    each = channels // parts
    for part in range(parts):
        own = g.op("slice", moved, axis=1, start=part, stop=part + 1)
        own = g.op("reshape", own, shape=[batch, taps, 2, *count])
        ways: list[Value] = []
        for axis in (1, 0):
            way = g.op("slice", own, axis=2, start=axis, stop=axis + 1)
            way = g.op("reshape", way, shape=[batch, taps, *count])
            # From -1 to 1 between the outer edges: (2 p + 1) / extent - 1.
            scale = 2.0 / int(extents[axis] or 1)
            ways.append(g.op("add", g.op("mul", way, scale), across[axis]))
        grid = g.op("stack", *ways, axis=-1)
        lines = taps * int(count[0] or 0)
        grid = g.op("reshape", grid, shape=[batch, lines, count[1], 2])
        image = g.op("slice", x, axis=1, start=part * each, stop=(part + 1) * each)
        found = g.op("grid_sample", image, grid, mode="bilinear", padding_mode="zeros")
        found = g.op("reshape", found, shape=[batch, each, taps, *count])
        if mask is not None:
            weight = g.op("slice", mask, axis=1, start=part * taps, stop=(part + 1) * taps)
            found = g.op("mul", found, g.op("unsqueeze", weight, axes=[1]))
        sampled.append(found)
    whole = g.op("concat", *sampled, axis=1) if parts > 1 else sampled[0]
    pixels = int(count[0] or 0) * int(count[1] or 0)
    depth = channels // groups * taps
    columns = g.op("reshape", whole, shape=[batch, groups, depth, pixels])
    matrix = g.op("reshape", w, shape=[groups, outputs // groups, depth])
    y = g.op("reshape", g.op("matmul", matrix, columns), shape=[batch, outputs, *count])
    return y if bias is None else g.op("add", y, g.op("reshape", bias, shape=[outputs, 1, 1]))


def _places(node: Node, axis: int, *sizes: list[int | None] | list[int]) -> Value:
    """Where the windows stand along an axis, `[KH * KW, OH or 1, OW or 1]`, from -1 to 1."""
    kernel, strides, dilations, pads, count, extents = sizes
    extent, before = int(extents[axis] or 1), int(pads[axis] or 0)
    rows = int(kernel[0] or 0), int(kernel[1] or 0)
    steps = [
        place // rows[1] if axis == 0 else place % rows[1] for place in range(rows[0] * rows[1])
    ]
    numbers = [
        [
            (2 * (pixel * int(strides[axis] or 1) - before + step * int(dilations[axis] or 1)) + 1)
            / extent
            - 1
            for pixel in range(int(count[axis] or 0))
        ]
        for step in steps
    ]
    found = node.const(numbers, node.x(0).dtype, "places")
    shape = [len(steps), len(numbers[0]), 1] if axis == 0 else [len(steps), 1, len(numbers[0])]
    return node.g.op("reshape", found, shape=shape)
