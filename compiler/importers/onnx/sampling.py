"""Elements read at places that the data says: neighbours are gathered and weighed."""

from __future__ import annotations

from itertools import product as pairs

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.onnx.items import number_of
from openinfer.compiler.importers.onnx.node import Node, Result, operator, product
from openinfer.compiler.importers.onnx.refusals import CONTENT, DAMAGED, Refusal

_CUBIC = -0.75


MAX_SAMPLES = 1 << 16
"""Samples of a region along an axis: where they lie is a constant of the program."""


@operator("GridSample")
def grid_sample(node: Node) -> Result:
    g, x, grid = node.g, node.x(0), node.x(1)
    axes = x.rank - 2
    node.expect("mode", "bilinear", "linear", "nearest", "bicubic", "cubic")
    mode = node.text("mode", "bilinear" if node.version < 20 else "linear").removeprefix("bi")
    node.expect("padding_mode", "zeros", "border", "reflection")
    padding = node.text("padding_mode", "zeros")
    corners = node.flag("align_corners")
    if axes not in (2, 3) or grid.rank != x.rank or grid.dims[-1].constant != axes:
        raise Refusal(DAMAGED, "GridSample has a grid that does not fit its tensor")
    node.need(mode != "cubic" or axes == 2, "mode=cubic of volumes")
    if mode != "cubic" or padding == "zeros":
        settings: dict[str, object] = {} if padding == "zeros" else {"padding_mode": padding}
        if mode != "linear":
            settings["mode"] = {"cubic": "bicubic"}.get(mode, mode)
        if corners:
            settings["align_corners"] = True
        return g.op("grid_sample", x, grid, **settings)
    # Elements between the border and the first one are read otherwise by our op.
    extents = [_extent(node, dim.constant) for dim in x.dims[2:]]
    count = product(list(grid.dims[1:-1]))
    # The last coordinate of the grid belongs to the first axis.
    places: list[Value] = []
    for axis, extent in enumerate(extents):
        at = axes - 1 - axis
        one = g.op("slice", grid, axis=grid.rank - 1, start=at, stop=at + 1)
        one = g.op("reshape", one, shape=[grid.dims[0], count])
        if one.dtype not in ("f32", "f64"):
            one = g.op("cast", one, to="f32")
        places.append(_denormalised(node, one, extent, corners))
    reader = _Pixels(node, x, extents, padding, corners)
    found = _interpolated(node, reader, places, mode)
    found = found if found.dtype == x.dtype else g.op("cast", found, to=x.dtype)
    return g.op("reshape", found, shape=[*x.dims[:2], *grid.dims[1:-1]])


def _extent(node: Node, extent: int | None) -> int:
    if extent is None or extent < 1:
        raise Refusal(CONTENT, f"{node.op} needs axes of known length")
    return extent


def _denormalised(node: Node, x: Value, extent: int, corners: bool) -> Value:
    """-1..1 as places of elements."""
    g = node.g
    if corners:
        return g.op("mul", g.op("add", x, 1.0), (extent - 1) / 2)
    return g.op("sub", g.op("mul", g.op("add", x, 1.0), extent / 2), 0.5)


class _Pixels:
    """Elements of a tensor `[N, C, …]` at whole places, which may lie outside."""

    def __init__(
        self, node: Node, x: Value, extents: list[int], padding: str, corners: bool
    ) -> None:
        self.node, self.extents, self.padding = node, extents, padding
        self.batch, self.channels = x.dims[:2]
        self.flat = node.g.op("reshape", x, shape=[self.batch, self.channels, product([*extents])])
        self.borders = [
            (0.0, extent - 1.0) if corners else (-0.5, extent - 0.5) for extent in extents
        ]

    def inside(self, at: Value, axis: int) -> Value:
        """A place that is outside brought inside, as the padding says; zeros leave it where it is."""
        g, extent = self.node.g, self.extents[axis]
        if self.padding == "zeros":
            return at
        if self.padding == "border":
            return g.op("clamp", at, min=0.0, max=extent - 1.0)
        low, high = self.borders[axis]
        reach = high - low
        if reach == 0:
            return g.op("mul", at, 0.0)
        # A triangle wave: the remainder by twice the reach, mirrored behind the first reach.
        rest = g.op("floor_mod", g.op("sub", at, low), 2 * reach)
        mirrored = g.op("add", g.op("mul", rest, -1.0), 2 * reach)
        return g.op("add", g.op("min", rest, mirrored), low)

    def at(self, places: list[Value]) -> Value:
        """`[N, C, P]` for whole places `[N, P]` of each axis."""
        g = self.node.g
        index: Value | None = None
        visible: Value | None = None
        for axis, (place, extent) in enumerate(zip(places, self.extents)):
            place = self.inside(place, axis)
            if self.padding == "zeros":
                within = g.op("and", g.op("ge", place, 0.0), g.op("le", place, extent - 1.0))
                visible = within if visible is None else g.op("and", visible, within)
            whole = g.op("cast", g.op("clamp", place, min=0.0, max=extent - 1.0), to="i64")
            index = whole if index is None else g.op("add", g.op("mul", index, extent), whole)
        assert index is not None
        shape = [self.batch, self.channels, index.dims[1]]
        wide = g.op("expand", g.op("unsqueeze", index, axes=[1]), shape=shape)
        found = g.op("gather_elements", self.flat, wide, axis=2)
        if visible is not None:
            found = g.op("where", g.op("unsqueeze", visible, axes=[1]), found, 0.0)
        return found


def _interpolated(
    node: Node, pixels: _Pixels, places: list[Value], mode: str, join: str = "add"
) -> Value:
    """`[N, C, P]` at places between elements; `join` is what becomes of the weighed neighbours."""
    g = node.g
    if mode == "nearest":
        rounded = [g.op("round_even", one) for one in places]
        return pixels.at([pixels.inside(one, axis) for axis, one in enumerate(rounded)])
    places = [_only_outside(node, pixels, one, axis) for axis, one in enumerate(places)]
    bases = [g.op("floor", one) for one in places]
    rests = [g.op("sub", one, base) for one, base in zip(places, bases)]
    offsets = (0, 1) if mode == "linear" else (-1, 0, 1, 2)
    weights = [{offset: _weight(node, rest, offset, mode) for offset in offsets} for rest in rests]
    total: Value | None = None
    for chosen in pairs(offsets, repeat=len(places)):
        at = [
            g.op("add", base, float(offset)) if offset else base
            for base, offset in zip(bases, chosen)
        ]
        weight: Value | None = None
        for axis, offset in enumerate(chosen):
            one = weights[axis][offset]
            weight = one if weight is None else g.op("mul", weight, one)
        assert weight is not None
        value = pixels.at(at)
        if value.dtype != weight.dtype:
            value = g.op("cast", value, to=weight.dtype)
        part = g.op("mul", value, g.op("unsqueeze", weight, axes=[1]))
        total = part if total is None else g.op(join, total, part)
    assert total is not None
    return total


def _only_outside(node: Node, pixels: _Pixels, at: Value, axis: int) -> Value:
    """Places beyond the border brought inside; those between the border and the first element stay."""
    if pixels.padding == "zeros":
        return at
    g, (low, high) = node.g, pixels.borders[axis]
    beyond = g.op("or", g.op("lt", at, low), g.op("gt", at, high))
    return g.op("where", beyond, pixels.inside(at, axis), at)


def _weight(node: Node, rest: Value, offset: int, mode: str) -> Value:
    """What a neighbour counts, by how far the place lies behind its base."""
    g = node.g
    if mode == "linear":
        return rest if offset else g.op("sub", g.op("add", g.op("mul", rest, 0.0), 1.0), rest)
    # Keys' cubic: of the distance d, (a+2)d^3 - (a+3)d^2 + 1 up to 1, ad^3 - 5ad^2 + 8ad - 4a up to 2.
    distance = g.op("abs", g.op("sub", rest, float(offset)))
    a = _CUBIC
    factors = (a + 2, -(a + 3), 0.0, 1.0) if offset in (0, 1) else (a, -5 * a, 8 * a, -4 * a)
    value = g.op("mul", distance, factors[0])
    for factor in factors[1:3]:
        value = g.op("mul", g.op("add", value, factor), distance)
    return g.op("add", value, factors[3])


@operator("RoiAlign")
def roi_align(node: Node) -> Result:
    g, x, rois, batch = node.g, node.x(0), node.x(1), node.x(2)
    node.expect("mode", "avg", "max")
    node.expect("coordinate_transformation_mode", "half_pixel", "output_half_pixel")
    shifted = (
        node.version >= 16
        and node.text("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    )
    ratio = node.int("sampling_ratio", 0)
    node.need(ratio > 0, "sampling_ratio=0", "give a number of samples")
    scale = node.float("spatial_scale", 1.0)
    sizes = [node.int("output_height", 1), node.int("output_width", 1)]
    extents = [_extent(node, dim.constant) for dim in x.dims[2:]]
    if len(extents) != 2 or rois.rank != 2 or min(sizes) < 1:
        raise Refusal(DAMAGED, "RoiAlign has tensors that do not fit each other")
    count = rois.dims[0]
    images = g.op("gather", x, batch)
    places: list[Value] = []
    hidden: list[Value] = []
    for axis in range(2):
        first, last = (
            g.op("slice", rois, axis=1, start=at, stop=at + 1) for at in (1 - axis, 3 - axis)
        )
        first, last = g.op("mul", first, scale), g.op("mul", last, scale)
        if shifted:
            first, last = g.op("sub", first, 0.5), g.op("sub", last, 0.5)
        length = g.op("sub", last, first)
        if not shifted:
            length = g.op("max", length, 1.0)
        samples = sizes[axis] * ratio
        node.need(0 < samples <= MAX_SAMPLES, f"{samples} samples along an axis")
        steps = node.const([(i + 0.5) / samples for i in range(samples)], x.dtype, "steps")
        at = g.op("add", g.op("mul", length, g.op("reshape", steps, shape=[1, samples])), first)
        extent = extents[axis]
        hidden.append(g.op("or", g.op("lt", at, -1.0), g.op("gt", at, float(extent))))
        places.append(g.op("clamp", at, min=0.0, max=extent - 1.0))
    height, width = (size * ratio for size in sizes)
    shape = [number_of(count), height, width]
    spread = [(1, [count, height, 1]), (0, [count, 1, width])]
    full: list[Value] = []
    for value, (_, dims) in zip(places, spread):
        wide = g.op("expand", g.op("reshape", value, shape=dims), shape=shape)
        full.append(g.op("reshape", wide, shape=[count, height * width]))
    pixels = _Pixels(node, images, extents, "border", True)
    outside = g.op(
        "or", *(g.op("reshape", one, shape=dims) for one, (_, dims) in zip(hidden, spread))
    )
    # ONNX's maximum is that of the weighed neighbours, not of their sums.
    join = "add" if node.text("mode", "avg") == "avg" else "max"
    found = _interpolated(node, pixels, full, "linear", join)
    found = g.op("reshape", found, shape=[count, x.dims[1], height, width])
    found = g.op("where", g.op("unsqueeze", outside, axes=[1]), 0.0, found)
    return g.op("avg_pool2d" if join == "add" else "max_pool2d", found, kernel_size=ratio)
