"""Resize and Upsample: sums of elements of each axis, whose places and weights are computed now."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.onnx.items import Array, numpy_dtype
from openinfer.compiler.importers.onnx.node import Node, Result, operator
from openinfer.compiler.importers.onnx.refusals import CONTENT, DAMAGED, Refusal
from openinfer.dialects.ops.base import FLOATS
from openinfer.runtime.sizes import Size


@operator("Upsample")
def upsample(node: Node) -> Result:
    x = node.x()
    node.expect("mode", "nearest", "linear", "bilinear")
    scales = (
        node.floats("scales")
        if node.version < 9
        else [float(one) for one in node.numbers(1).reshape(-1)]
    )
    mode = node.text("mode", "nearest")
    return _resized(
        node,
        x,
        list(range(x.rank)),
        scales or [],
        None,
        "nearest" if mode == "nearest" else "linear",
        "asymmetric",
        "floor",
    )


@operator("Resize")
def resize(node: Node) -> Result:
    x = node.x()
    mode = node.text("mode", "nearest")
    node.expect("mode", "nearest", "linear", "cubic")
    if node.version < 11:
        scales: list[float] | None = [float(one) for one in node.numbers(1).reshape(-1)]
        return _resized(node, x, list(range(x.rank)), scales, None, mode, "asymmetric", "floor")
    scales = None
    sizes = None
    if node.there(2) and node.item(2).dims != (Size.of(0),):
        scales = [float(one) for one in node.numbers(2).reshape(-1)]
    if node.there(3):
        sizes = node.sizes(3)
    axes = [node.axis(one, x.rank) for one in node.ints("axes") or range(x.rank)]
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if sizes is not None and policy != "stretch":
        sizes, scales = _kept_ratio(node, x, axes, sizes, policy)
    node.expect(
        "coordinate_transformation_mode",
        "half_pixel",
        "half_pixel_symmetric",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
        "tf_crop_and_resize",
        "tf_half_pixel_for_nn",
    )
    where = node.text("coordinate_transformation_mode", "half_pixel")
    region = (
        [float(one) for one in node.numbers(1).reshape(-1)]
        if where == "tf_crop_and_resize"
        else None
    )
    node.expect("nearest_mode", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    return _resized(
        *(
            node,
            x,
            axes,
            scales,
            sizes,
            mode,
            where,
            node.text("nearest_mode", "round_prefer_floor"),
        ),
        region=region,
        cubic=node.float("cubic_coeff_a", -0.75),
        outside=node.flag("exclude_outside"),
        antialias=node.flag("antialias"),
        fill=node.float("extrapolation_value", 0.0),
    )


def _kept_ratio(
    node: Node, x: Value, axes: list[int], sizes: list[Any], policy: str
) -> tuple[list[Any], list[float]]:
    node.need(policy in ("not_larger", "not_smaller"), f"keep_aspect_ratio_policy={policy}")
    extents = [_extent(node, x, axis) for axis in axes]
    ratios = [Fraction(int(size), extent) for size, extent in zip(sizes, extents)]
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    kept = [math.floor(ratio * extent + Fraction(1, 2)) for extent in extents]
    return kept, [float(ratio)] * len(axes)


def _extent(node: Node, x: Value, axis: int) -> int:
    found = x.dims[axis].constant
    if found is None:
        raise Refusal(CONTENT, f"{node.op} needs axes of known length")
    return found


def _resized(
    node: Node,
    x: Value,
    axes: list[int],
    scales: list[float] | None,
    sizes: list[Any] | None,
    mode: str,
    where: str,
    nearest: str,
    *,
    region: list[float] | None = None,
    cubic: float = -0.75,
    outside: bool = False,
    antialias: bool = False,
    fill: float = 0.0,
) -> Value:
    g = node.g
    if (scales is None and sizes is None) or len(
        sizes if sizes is not None else scales or []
    ) != len(axes):
        raise Refusal(DAMAGED, f"{node.op} needs a scale or a size for each axis")
    short = _as_one_op(
        node,
        x,
        axes,
        scales,
        sizes,
        mode,
        where,
        nearest,
        plain=not (antialias or outside or region),
    )
    if short is not None:
        return short
    wide = x.dtype
    if mode != "nearest" and x.dtype not in FLOATS:
        x = g.op("cast", x, to="f32")
    for place, axis in enumerate(axes):
        scale = scales[place] if scales is not None else None
        size = None if sizes is None else sizes[place]
        if scale == 1.0 and size is None and region is None:
            continue
        if size is not None and scale is None and x.dims[axis] == Size.of(size) and region is None:
            continue
        extent = _extent(node, x, axis)
        if isinstance(size, int) or size is None:
            target = size if size is not None else math.floor(extent * (scale or 0.0))
        else:
            raise Refusal(CONTENT, f"{node.op} needs axes of known length")
        if not 0 < target <= 1 << 16 or not 0 < extent <= 1 << 16:
            raise Refusal(CONTENT, f"{node.op} to {target} elements is not supported")
        ratio = scale if scale is not None else target / extent
        begin, end = (region[place], region[len(axes) + place]) if region else (0.0, 1.0)
        # In f32, as the scale is given: an element at the border of two is that of `0.5 / 0.2 = 2.5`.
        number = np.float32 if mode == "nearest" else np.float64
        at = _places(target, extent, number(ratio), where, begin, end)
        if mode == "nearest":
            x = g.op(
                "gather", x, node.const(_nearest(at, extent, nearest), "i64", "places"), axis=axis
            )
        else:
            weights = _weights(at, extent, ratio, mode, cubic, outside=outside, antialias=antialias)
            x = _weighted(node, x, axis, weights)
        if region and ((at < 0) | (at > extent - 1)).any():
            inside = node.const((at >= 0) & (at <= extent - 1), "bool", "inside")
            shape = [target if i == axis else 1 for i in range(x.rank)]
            x = g.op("where", g.op("reshape", inside, shape=shape), x, fill)
    if x.dtype != wide:
        x = g.op("cast", x, to=wide, rounding_mode="even")
    return x


def _as_one_op(
    node: Node,
    x: Value,
    axes: list[int],
    scales: list[float] | None,
    sizes: list[Any] | None,
    mode: str,
    where: str,
    nearest: str,
    *,
    plain: bool,
) -> Value | None:
    """`upsample2d`, for the forms that it has: images whose height and width grow by a whole factor."""
    factors = dict(zip(axes, scales or []))
    if (
        sizes is not None
        or x.rank != 4
        or not plain
        or any(factors.get(axis, 1.0) != 1.0 for axis in (0, 1))
    ):
        return None
    scale = [factors.get(2, 1.0), factors.get(3, 1.0)]
    if any(one < 1 or one != int(one) for one in scale):
        return None
    if mode == "nearest" and where == "asymmetric" and nearest == "floor":
        return node.g.op("upsample2d", x, scale=scale)
    if mode == "linear" and where in ("half_pixel", "pytorch_half_pixel") and x.dtype in FLOATS:
        return node.g.op("upsample2d", x, scale=scale, mode="bilinear")
    return None


def _places(
    target: int, extent: int, scale: np.floating[Any], where: str, begin: float, end: float
) -> Array:
    """Where each element of the result lies in the original, computed in the dtype of the scale."""
    i = np.arange(target, dtype=scale.dtype)
    match where:
        case "half_pixel":
            return (i + 0.5) / scale - 0.5
        case "half_pixel_symmetric":
            adjusted = target / (scale * extent)
            centre = extent / 2
            return centre * (1 - adjusted) + (i + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (i + 0.5) / scale - 0.5 if target > 1 else np.zeros(target)
        case "align_corners":
            return i * (extent - 1) / (scale * extent - 1) if target > 1 else np.zeros(target)
        case "tf_crop_and_resize":
            if target > 1:
                return begin * (extent - 1) + i * (end - begin) * (extent - 1) / (
                    scale * extent - 1
                )
            return np.full(target, 0.5 * (begin + end) * (extent - 1))
        case "tf_half_pixel_for_nn":
            return (i + 0.5) / scale
        case _:
            return i / scale


def _nearest(at: Array, extent: int, mode: str) -> Array:
    match mode:
        case "round_prefer_floor":
            found = np.ceil(at - 0.5)
        case "round_prefer_ceil":
            found = np.floor(at + 0.5)
        case "floor":
            found = np.floor(at)
        case _:
            found = np.ceil(at)
    return np.clip(found, 0, extent - 1).astype(np.int64)


def _weights(
    at: Array, extent: int, scale: float, mode: str, cubic: float, *, outside: bool, antialias: bool
) -> Array:
    """A matrix `[target, extent]`: what each element of the original adds to each of the result."""
    stretch = min(scale, 1.0) if antialias else 1.0
    reach = (1.0 if mode == "linear" else 2.0) / stretch
    matrix = np.zeros((len(at), extent))
    for row, x in enumerate(at):
        first, last = math.floor(x - reach) + 1, math.ceil(x + reach) - 1
        if not antialias:
            base = math.floor(x)
            first, last = (base, base + 1) if mode == "linear" else (base - 1, base + 2)
        places = np.arange(first, last + 1)
        weights = _kernel((places - x) * stretch, mode, cubic)
        if outside or antialias:
            weights = (
                np.where((places < 0) | (places >= extent), 0.0, weights) if outside else weights
            )
            weights = weights / weights.sum()
        for place, weight in zip(np.clip(places, 0, extent - 1), weights):
            matrix[row, place] += weight
    return matrix


def _kernel(distance: Array, mode: str, a: float) -> Array:
    d = np.abs(distance)
    if mode == "linear":
        return np.maximum(1 - d, 0.0)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _weighted(node: Node, x: Value, axis: int, weights: Array) -> Value:
    """The product with a matrix along an axis."""
    g, last = node.g, x.rank - 1
    matrix = node.const(weights.astype(numpy_dtype(x.dtype)), x.dtype, "weights")
    if axis == last:
        return (
            g.op("matmul", x, matrix, transpose_b=True)
            if x.rank > 1
            else g.op(
                "squeeze",
                g.op("matmul", g.op("unsqueeze", x, axes=[0]), matrix, transpose_b=True),
                axes=[0],
            )
        )
    perm = [*(i for i in range(x.rank) if i != axis), axis]
    back = [perm.index(i) for i in range(x.rank)]
    turned = g.op("matmul", g.op("permute", x, perm=perm), matrix, transpose_b=True)
    return g.op("permute", turned, perm=back)
