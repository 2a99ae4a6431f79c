"""Shapes and the order of elements: nothing is computed."""

from __future__ import annotations

from typing import Any

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.onnx.items import Number, number_of
from openinfer.compiler.importers.onnx.node import Node, Result, operator, product
from openinfer.compiler.importers.onnx.refusals import CONTENT, DAMAGED, Refusal
from openinfer.runtime.sizes import Size

FAR = 1 << 31
"""Ends of slices from here on mean the end of the axis."""


@operator("Reshape")
def reshape(node: Node) -> Result:
    x = node.x()
    shape = node.ints("shape") if node.version < 5 else node.sizes(1)
    assert shape is not None
    wanted: list[Number] = list(shape)
    if not node.flag("allowzero"):
        for place, size in enumerate(wanted):
            if size == 0:
                if place >= x.rank:
                    raise Refusal(
                        DAMAGED, f"Reshape keeps axis {place} of a tensor of rank {x.rank}"
                    )
                wanted[place] = number_of(x.dims[place])
    return reshaped(node, x, wanted)


def reshaped(node: Node, x: Value, shape: list[Number]) -> Value:
    """`x` in another shape; the one size that is -1 is computed where that is possible."""
    g = node.g
    if -1 in shape:
        place = shape.index(-1)
        rest = product([one for i, one in enumerate(shape) if i != place])
        total = product(list(x.dims))
        if rest.constant == 0:
            shape[place] = 0
        else:
            exact = total // rest
            if exact * rest == total:
                shape[place] = number_of(exact)
    if tuple(Size.of(one) for one in shape) == x.dims:
        return x
    return g.op("reshape", x, shape=list(shape))


@operator("Flatten")
def flatten(node: Node) -> Result:
    x = node.x()
    axis = node.int("axis", 1)
    if not -x.rank <= axis <= x.rank:
        raise Refusal(DAMAGED, f"Flatten has axis {axis} for a tensor of rank {x.rank}")
    axis = axis + x.rank if axis < 0 else axis
    parts = [number_of(product(list(x.dims[:axis]))), number_of(product(list(x.dims[axis:])))]
    return reshaped(node, x, parts)


@operator("Transpose")
def transpose(node: Node) -> Result:
    x = node.x()
    perm = node.ints("perm")
    perm = list(range(x.rank))[::-1] if perm is None else perm
    if sorted(perm) != list(range(x.rank)):
        raise Refusal(DAMAGED, f"Transpose has perm={perm} for a tensor of rank {x.rank}")
    return x if perm == list(range(x.rank)) else node.g.op("permute", x, perm=perm)


@operator("Squeeze")
def squeeze(node: Node) -> Result:
    x = node.x()
    axes = node.axes("axes", 1, x.rank)
    if axes is None:
        axes = [i for i, dim in enumerate(x.dims) if dim.constant == 1]
    return node.g.op("squeeze", x, axes=axes) if axes else x


@operator("Unsqueeze")
def unsqueeze(node: Node) -> Result:
    x = node.x()
    count = len(node.ints("axes") or node.ints_of(1))
    axes = node.axes("axes", 1, x.rank + count)
    return node.g.op("unsqueeze", x, axes=sorted(axes)) if axes else x


@operator("Concat")
def concat(node: Node) -> Result:
    values = [node.x(place) for place in range(len(node.inputs))]
    axis = node.axis(node.int("axis", 1), values[0].rank)
    kept = [one for one in values if one.dims[axis].constant != 0] or values[:1]
    if len(kept) == 1:
        return kept[0]
    return node.g.op("concat", *node.agreed(kept, values[0].rank - axis), axis=axis)


@operator("Split")
def split(node: Node) -> list[Result]:
    x = node.x()
    axis = node.axis(node.int("axis", 0), x.rank)
    parts: list[Number] | None
    if node.version < 13:
        found = node.ints("split")
        parts = None if found is None else [*found]
    else:
        parts = node.sizes(1) if node.there(1) else None
    count = node.int("num_outputs", len(node.outputs)) if node.version >= 18 else len(node.outputs)
    if count != len(node.outputs):
        raise Refusal(DAMAGED, f"Split has {len(node.outputs)} results and num_outputs={count}")
    if parts is None:
        extent = x.dims[axis]
        each = number_of(-(-extent // count))
        last = number_of(extent - Size.of(each) * (count - 1))
        parts = [*[each] * (count - 1), last]
    if len(parts) == 1:
        return [x]
    if 0 in parts:
        return _split_by_slices(node, x, axis, parts)
    return list(node.g.ops("split", x, results=len(parts), axis=axis, sizes=parts))


def _split_by_slices(node: Node, x: Value, axis: int, parts: list[Number]) -> list[Result]:
    results: list[Result] = []
    start = Size.of(0)
    for part in parts:
        results.append(
            node.g.op("slice", x, axis=axis, start=number_of(start), stop=number_of(start + part))
        )
        start = start + part
    return results


@operator("Slice")
def slice_of(node: Node) -> Result:
    x = node.x()
    starts: list[Number]
    stops: list[Number]
    if node.version < 10:
        starts = [*(node.ints("starts") or [])]
        stops = [*(node.ints("ends") or [])]
        axes, steps = node.ints("axes"), None
    else:
        starts, stops = node.sizes(1), node.sizes(2)
        axes = node.ints_of(3) if node.there(3) else None
        steps = node.ints_of(4) if node.there(4) else None
    axes = [node.axis(axis, x.rank) for axis in (range(len(starts)) if axes is None else axes)]
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(stops) == len(axes) == len(steps):
        raise Refusal(DAMAGED, "Slice has starts, ends, axes and steps of different lengths")
    for axis, start, stop, step in zip(axes, starts, stops, steps):
        x = _sliced(node, x, axis, start, stop, step)
    return x


def _sliced(node: Node, x: Value, axis: int, start: Number, stop: Number, step: int) -> Value:
    g, extent = node.g, x.dims[axis]
    if step == 0:
        raise Refusal(DAMAGED, "Slice has a step of 0")
    if step < 0:
        return _backwards(node, x, axis, start, stop, step)
    first = _clamped(start, extent)
    last = _clamped(stop, extent)
    if Size.of(first) == Size.of(0) and Size.of(last) == extent and step == 1:
        return x
    if isinstance(first, int) and isinstance(last, int) and last < first:
        last = first
    settings: dict[str, Any] = {"axis": axis, "start": first, "stop": last}
    return g.op("slice", x, **settings, step=step) if step > 1 else g.op("slice", x, **settings)


def _backwards(node: Node, x: Value, axis: int, start: Number, stop: Number, step: int) -> Value:
    """A negative step: the reversed axis, cut with the positive one."""
    extent = x.dims[axis].constant
    if extent is None:
        if start == -1 and isinstance(stop, int) and stop < -FAR // 2:
            flipped = node.g.op("flip", x, axes=[axis])
            return _sliced(node, flipped, axis, 0, FAR, -step)
        raise Refusal(CONTENT, "Slice with a negative step needs an axis of known length")
    if not isinstance(start, int) or not isinstance(stop, int):
        raise Refusal(CONTENT, "Slice with a negative step needs numbers as starts and ends")
    start = min(max(start + extent if start < 0 else start, -1), extent - 1)
    stop = min(max(stop + extent if stop < 0 else stop, -1), extent - 1)
    flipped = node.g.op("flip", x, axes=[axis])
    return _sliced(
        node, flipped, axis, extent - 1 - start, max(extent - 1 - stop, extent - 1 - start), -step
    )


def _clamped(place: Number, extent: Size) -> Number:
    """A bound of a slice within 0..extent, as ONNX cuts it off."""
    if isinstance(place, int):
        if place >= FAR:
            return number_of(extent)
        if place <= -FAR:
            return 0
        if extent.constant is not None:
            moved = place + extent.constant if place < 0 else place
            return min(max(moved, 0), extent.constant)
        # An open axis has an element at least, so its first and last one need no limit.
        if place in (0, 1):
            return place
        if place == -1:
            return number_of(extent - 1)
        bound = extent + place if place < 0 else Size.of(place)
        return number_of(Size.max(bound, 0) if place < 0 else Size.min(extent, bound))
    size = Size.of(place)
    if (-size - 1).nonnegative:
        return number_of(Size.max(extent + size, 0))
    # A size that is larger than the axis is an error of the step, where ONNX would cut it off.
    return number_of(size)


@operator("Expand")
def expand(node: Node) -> Result:
    x = node.x()
    return expanded(node, x, node.sizes(1))


def expanded(node: Node, x: Value, shape: list[Number]) -> Value:
    """`x` broadcast together with a shape, in which 1 keeps an extent."""
    rank = max(len(shape), x.rank)
    wanted: list[Number] = [*[1] * (rank - len(shape)), *shape]
    dims: list[Number] = [*[1] * (rank - x.rank), *(number_of(dim) for dim in x.dims)]
    result = [dim if want == 1 else want for dim, want in zip(dims, wanted)]
    if len(result) == x.rank and all(Size.of(a) == b for a, b in zip(result, x.dims)):
        return x
    if rank > x.rank:
        x = node.g.op("reshape", x, shape=dims)
    return node.g.op("expand", x, shape=result)


@operator("Tile")
def tile(node: Node) -> Result:
    x = node.x()
    repeats = node.sizes(1)
    if len(repeats) != x.rank:
        raise Refusal(DAMAGED, f"Tile has {len(repeats)} repeats for a tensor of rank {x.rank}")
    return node.g.op("tile", x, repeats=repeats)


@operator("Pad")
def pad(node: Node) -> Result:
    g, x = node.g, node.x()
    node.expect("mode", "constant", "edge", "reflect", "wrap")
    mode = node.text("mode", "constant")
    value: Any = 0
    if node.version < 11:
        pads = node.ints("pads") or []
        value = node.float("value", 0.0)
        axes = list(range(x.rank))
    else:
        pads = node.ints_of(1)
        value = node.number(2) if node.there(2) and node.item(2).dims != (Size.of(0),) else 0
        axes = (
            [node.axis(one, x.rank) for one in node.ints_of(3)]
            if node.there(3)
            else list(range(x.rank))
        )
    if len(pads) != 2 * len(axes):
        raise Refusal(DAMAGED, f"Pad has {len(pads)} pads for {len(axes)} axes")
    half = len(axes)
    for place, axis in enumerate(axes):
        before, after = pads[place], pads[half + place]
        if before < 0 or after < 0:
            # Negative borders cut off.
            stop = number_of(x.dims[axis] + min(after, 0))
            x = g.op("slice", x, axis=axis, start=-min(before, 0), stop=stop)
            pads[place], pads[half + place] = max(before, 0), max(after, 0)
    if not any(pads):
        return x
    if mode == "wrap":
        return _wrapped(node, x, axes, pads)
    settings: dict[str, Any] = {"value": value} if value and mode == "constant" else {}
    if mode != "constant":
        settings["mode"] = mode
    if axes != list(range(x.rank)):
        settings["axes"] = axes
    return g.op("pad", x, pads=pads, **settings)


def _wrapped(node: Node, x: Value, axes: list[int], pads: list[int]) -> Value:
    """Borders that go on with the other end."""
    for place, axis in enumerate(axes):
        before, after = pads[place], pads[len(axes) + place]
        extent = x.dims[axis].constant
        node.need(
            extent is not None and max(before, after) <= extent,
            "mode=wrap around an axis of unknown length",
        )
        assert extent is not None
        parts = [x]
        if before:
            parts.insert(0, node.g.op("slice", x, axis=axis, start=extent - before, stop=extent))
        if after:
            parts.append(node.g.op("slice", x, axis=axis, start=0, stop=after))
        x = node.g.op("concat", *parts, axis=axis) if len(parts) > 1 else x
    return x


@operator("DepthToSpace")
def depth_to_space(node: Node) -> Result:
    g, x, block = node.g, node.x(), node.int("blocksize", 1)
    node.expect("mode", "DCR", "CRD")
    n, c, h, w = x.dims
    inner = number_of(c // (block * block))
    if node.text("mode", "DCR") == "DCR":
        parts = g.op("reshape", x, shape=[n, block, block, inner, h, w])
        turned = g.op("permute", parts, perm=[0, 3, 4, 1, 5, 2])
    else:
        parts = g.op("reshape", x, shape=[n, inner, block, block, h, w])
        turned = g.op("permute", parts, perm=[0, 1, 4, 2, 5, 3])
    return g.op("reshape", turned, shape=[n, inner, h * block, w * block])


@operator("SpaceToDepth")
def space_to_depth(node: Node) -> Result:
    g, x, block = node.g, node.x(), node.int("blocksize", 1)
    node.expect("mode", "DCR", "CRD")
    n, c, h, w = x.dims
    parts = g.op("reshape", x, shape=[n, c, h // block, block, w // block, block])
    perm = [0, 3, 5, 1, 2, 4] if node.text("mode", "DCR") == "DCR" else [0, 1, 3, 5, 2, 4]
    turned = g.op("permute", parts, perm=perm)
    return g.op("reshape", turned, shape=[n, c * (block * block), h // block, w // block])


@operator("Trilu")
def trilu(node: Node) -> Result:
    x = node.x()
    diagonal = node.ints_of(1)[0] if node.there(1) else 0
    return node.g.op("triu" if node.flag("upper", True) else "tril", x, diagonal=diagonal)


@operator("CenterCropPad")
def center_crop_pad(node: Node) -> Result:
    g, x = node.g, node.x()
    axes = [node.axis(one, x.rank) for one in node.ints("axes") or range(x.rank)]
    shape = node.ints_of(1)
    if len(shape) != len(axes):
        raise Refusal(DAMAGED, f"CenterCropPad has {len(shape)} extents for {len(axes)} axes")
    for axis, wanted in zip(axes, shape):
        extent = x.dims[axis].constant
        if extent is None:
            raise Refusal(CONTENT, "CenterCropPad needs axes of known length")
        if extent > wanted:
            start = (extent - wanted) // 2
            x = g.op("slice", x, axis=axis, start=start, stop=start + wanted)
        elif extent < wanted:
            before = (wanted - extent) // 2
            x = g.op("pad", x, pads=[before, wanted - extent - before], axes=[axis])
    return x
