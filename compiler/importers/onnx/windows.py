"""Convolution and pooling."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.onnx.items import Array, number_of
from openinfer.compiler.importers.onnx.node import Node, Result, operator, product
from openinfer.compiler.importers.onnx.pooled_places import pool_with_places
from openinfer.compiler.importers.onnx.refusals import CONTENT, DAMAGED, Refusal
from openinfer.compiler.importers.onnx.transposed import cut, transposed_convolution
from openinfer.dialects.ops.base import FLOATS


@dataclass
class Window:
    """The windows of a convolution or pooling: a number for each of the last axes."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    before: list[int]
    after: list[int]

    @property
    def padding(self) -> Any:
        """As the ops take it: one number for each axis, or two where they differ."""
        if self.before == self.after:
            return self.before
        return [one for pair in zip(self.before, self.after) for one in pair]


def window_of(node: Node, x: Value, kernel: list[int]) -> Window:
    """Strides, dilations and padding of a node whose windows have this size."""
    axes = len(kernel)
    strides = node.ints("strides") or [1] * axes
    dilations = node.ints("dilations") or [1] * axes
    pads = node.ints("pads") or [0] * (2 * axes)
    mode = node.text("auto_pad", "NOTSET")
    if not len(strides) == len(dilations) == len(pads) // 2 == axes or x.rank != axes + 2:
        raise Refusal(
            DAMAGED, f"{node.op} has attributes for another number of axes than its tensor has"
        )
    if min(kernel) < 1 or min(strides) < 1 or min(dilations) < 1:
        raise Refusal(DAMAGED, f"{node.op} has a window, stride or dilation below 1")
    before, after = pads[:axes], pads[axes:]
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        before, after = [], []
        for place in range(axes):
            extent = x.dims[2 + place].constant
            reach = (kernel[place] - 1) * dilations[place] + 1
            if extent is None and strides[place] != 1:
                raise Refusal(CONTENT, f"{node.op} with auto_pad={mode} needs axes of known length")
            if extent is None:
                total = reach - 1
            else:
                total = max((-(-extent // strides[place]) - 1) * strides[place] + reach - extent, 0)
            small, large = total // 2, total - total // 2
            before.append(small if mode == "SAME_UPPER" else large)
            after.append(large if mode == "SAME_UPPER" else small)
    elif mode == "VALID":
        before, after = [0] * axes, [0] * axes
    elif mode != "NOTSET":
        node.refuse(f"auto_pad={mode}")
    return Window(kernel, strides, dilations, before, after)


def _kernel(node: Node, w: Value) -> list[int]:
    """The size of the windows: that of the weight, which the attribute repeats."""
    found = [dim.constant for dim in w.dims[2:]]
    if None in found:
        raise Refusal(CONTENT, f"{node.op} needs a weight of known shape")
    kernel = [one for one in found if one is not None]
    said = node.ints("kernel_shape")
    if said is not None and said != kernel:
        raise Refusal(DAMAGED, f"{node.op} has kernel_shape={said}, and a weight of {kernel}")
    return kernel


@operator("Conv")
def conv(node: Node) -> Result:
    return convolution(node, node.x(0), node.x(1), node.optional(2))


def convolution(node: Node, x: Value, w: Value, bias: Value | None, **settings: Any) -> Value:
    """A convolution as the node's attributes say."""
    axes = x.rank - 2
    node.need(1 <= axes <= 3, f"{axes} axes")
    window = window_of(node, x, _kernel(node, w))
    if any(window.strides[i] != 1 for i in range(axes)):
        settings["stride"] = window.strides
    if any(window.before) or any(window.after):
        settings["padding"] = window.padding
    if any(one != 1 for one in window.dilations):
        settings["dilation"] = window.dilations
    groups = node.int("group", 1)
    if groups != 1:
        settings["groups"] = groups
    operands = [x, w] if bias is None else [x, w, bias]
    return node.g.op(f"conv{axes}d", *operands, **settings)


@operator("ConvTranspose")
def conv_transpose(node: Node) -> Result:
    g, x, w, bias = node.g, node.x(0), node.x(1), node.optional(2)
    axes = x.rank - 2
    node.need(1 <= axes <= 3, f"{axes} axes")
    kernel = _kernel(node, w)
    mode = node.text("auto_pad", "NOTSET")
    strides = node.ints("strides") or [1] * axes
    dilations = node.ints("dilations") or [1] * axes
    pads = node.ints("pads") or [0] * (2 * axes)
    extra = node.ints("output_padding") or [0] * axes
    wanted = node.ints("output_shape")
    if not len(strides) == len(dilations) == len(extra) == len(pads) // 2 == axes:
        raise Refusal(DAMAGED, "ConvTranspose has attributes for another number of axes")
    before, after = pads[:axes], pads[axes:]
    if mode == "VALID":
        before, after = [0] * axes, [0] * axes
    if wanted is not None or mode.startswith("SAME"):
        before, after = [], []
        for place in range(axes):
            extent = x.dims[2 + place].constant
            if extent is None:
                raise Refusal(
                    CONTENT,
                    "ConvTranspose with output_shape or auto_pad needs axes of known length",
                )
            full = (
                strides[place] * (extent - 1)
                + extra[place]
                + (kernel[place] - 1) * dilations[place]
                + 1
            )
            goal = wanted[-axes:][place] if wanted is not None else extent * strides[place]
            total = full - goal
            if total < 0:
                extra[place] -= total
                total = 0
            small, large = total // 2, total - total // 2
            upper = mode == "SAME_UPPER"
            before.append(small if upper else large)
            after.append(large if upper else small)
    if axes == 3:
        result = transposed_convolution(node, x, w, strides, dilations, node.int("group", 1))
        extents = [
            result.dims[2 + place] - before[place] - after[place] + extra[place]
            for place in range(axes)
        ]
        result = cut(node, result, before, extents)
        if bias is None:
            return result
        return g.op("add", result, g.op("reshape", bias, shape=[bias.dims[0], 1, 1, 1]))
    if axes == 1:
        x, w = g.op("unsqueeze", x, axes=[2]), g.op("unsqueeze", w, axes=[2])
        strides, dilations, extra = [1, *strides], [1, *dilations], [0, *extra]
        before, after = [0, *before], [0, *after]
    # What is added at the end without padding there is a smaller cut, or more padding of the result.
    more = [0] * len(extra)
    for place, one in enumerate(extra):
        taken = min(one, after[place])
        after[place] -= taken
        rest = one - taken
        limit = max(strides[place], dilations[place]) - 1
        more[place] = max(rest - limit, 0)
        extra[place] = min(rest, limit)
    settings: dict[str, Any] = {}
    if any(one != 1 for one in strides):
        settings["stride"] = strides
    if any(before) or any(after):
        settings["padding"] = Window([], [], [], before, after).padding
    if any(extra):
        settings["output_padding"] = extra
    if any(one != 1 for one in dilations):
        settings["dilation"] = dilations
    groups = node.int("group", 1)
    if groups != 1:
        settings["groups"] = groups
    result = g.op("conv_transpose2d", x, w, **settings)
    if any(more):
        result = g.op("pad", result, pads=[0, 0, *more], axes=[2, 3])
    if bias is not None:
        result = g.op("add", result, g.op("reshape", bias, shape=[bias.dims[0], 1, 1]))
    return g.op("squeeze", result, axes=[2]) if axes == 1 else result


@operator("MaxPool")
def max_pool(node: Node) -> Result | list[Result]:
    x = node.x()
    window = window_of(node, x, node.ints("kernel_shape") or [1])
    if node.wants(1):
        form = (window.kernel, window.strides, window.dilations, window.before, window.after)
        return pool_with_places(node, x, *form)
    node.expect("storage_order", 0)
    settings: dict[str, Any] = {}
    if any(one != 1 for one in window.dilations):
        settings["dilation"] = window.dilations
    return _pooled(node, x, "max_pool", window, node.flag("ceil_mode"), settings)


@operator("AveragePool")
def average_pool(node: Node) -> Result:
    return average_pool_of(node, node.x())


def average_pool_of(node: Node, x: Value) -> Value:
    """The means of windows, as the node's attributes say."""
    window = window_of(node, x, node.ints("kernel_shape") or [1])
    count = node.flag("count_include_pad")
    ceil = node.flag("ceil_mode")
    if any(one != 1 for one in window.dilations) or _wide(window):
        return _counted_average(node, x, window, count, ceil)
    settings: dict[str, Any] = {}
    if any(window.before) or any(window.after):
        settings["count_include_pad"] = count
    elif ceil:
        settings["count_include_pad"] = False
    return _pooled(node, x, "avg_pool", window, ceil, settings)


def _wide(window: Window) -> bool:
    """Whether there is more padding than our pools take: half of what a window reaches over."""
    return any(
        max(before, after) > ((kernel - 1) * dilation + 1) // 2
        for before, after, kernel, dilation in zip(
            window.before, window.after, window.kernel, window.dilations
        )
    )


def _counted_average(node: Node, x: Value, window: Window, count: bool, ceil: bool) -> Value:
    """Sums of windows are a convolution of each channel; how many elements they have is known now."""
    g, axes = node.g, len(window.kernel)
    channels = x.dims[1].constant
    extents = [dim.constant for dim in x.dims[2:]]
    node.need(1 <= axes <= 3, f"{axes} axes")
    if channels is None or None in extents:
        raise Refusal(
            CONTENT, "AveragePool with dilations or wide padding needs axes of known length"
        )
    counts: list[Array] = []
    after: list[int] = []
    for place, extent in enumerate(one for one in extents if one is not None):
        found, more = _axis_counts(window, place, extent, count, ceil)
        counts.append(found)
        after.append(window.after[place] + more)
    padded = x
    if any(window.before) or any(after):
        padded = g.op("pad", x, pads=[*window.before, *after], axes=list(range(2, 2 + axes)))
    one = node.const(np.ones([1] * (axes + 2)), x.dtype, "ones")
    kernel = g.op("expand", one, shape=[channels, 1, *window.kernel])
    total = g.op(
        f"conv{axes}d",
        padded,
        kernel,
        groups=channels,
        stride=window.strides,
        dilation=window.dilations,
    )
    divisor = counts[0]
    for found in counts[1:]:
        divisor = np.multiply.outer(divisor, found)
    return g.op("div", total, node.const(divisor[None, None], x.dtype, "counts"))


def _axis_counts(
    window: Window, place: int, extent: int, count: bool, ceil: bool
) -> tuple[Array, int]:
    """How many elements of an axis each window has, and the padding that the last one needs more."""
    kernel, stride, dilation = window.kernel[place], window.strides[place], window.dilations[place]
    before, after = window.before[place], window.after[place]
    reach = (kernel - 1) * dilation + 1
    room = extent + before + after - reach
    if room < 0:
        raise Refusal(DAMAGED, "AveragePool has windows larger than its tensor")
    outputs = (-(-room // stride) if ceil else room // stride) + 1
    if ceil and (outputs - 1) * stride >= extent + before:
        outputs -= 1
    taps = np.arange(outputs)[:, None] * stride + np.arange(kernel) * dilation
    low, high = (0, extent + before + after) if count else (before, before + extent)
    more = max((outputs - 1) * stride + reach - (extent + before + after), 0)
    return np.maximum(((taps >= low) & (taps < high)).sum(1), 1), more


def _pooled(
    node: Node, x: Value, name: str, window: Window, ceil: bool, settings: dict[str, Any]
) -> Value:
    g, axes = node.g, len(window.kernel)
    node.need(1 <= axes <= 3, f"{axes} axes")
    if _wide(window):
        low = -math.inf if x.dtype in FLOATS else 0
        node.need(
            not ceil and (name != "max_pool" or x.dtype in FLOATS), "wide padding and ceil_mode"
        )
        value = {"value": low} if name == "max_pool" else {}
        pads = [*window.before, *window.after]
        x = g.op("pad", x, pads=pads, axes=list(range(2, 2 + axes)), **value)
        window = replace(window, before=[0] * axes, after=[0] * axes)
    settings = {"kernel_size": window.kernel, "stride": window.strides, **settings}
    if any(window.before) or any(window.after):
        settings["padding"] = window.padding
    if ceil:
        settings["ceil_mode"] = True
    return g.op(f"{name}{axes}d", x, **settings)


@operator("LpPool")
def lp_pool(node: Node) -> Result:
    x = node.x()
    window = window_of(node, x, node.ints("kernel_shape") or [1])
    settings: dict[str, Any] = {"p": float(node.int("p", 2))}
    if any(one != 1 for one in window.dilations):
        settings["dilation"] = window.dilations
    return _pooled(node, x, "lp_pool", window, node.flag("ceil_mode"), settings)


@operator("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: Node) -> Result:
    x = node.x()
    name = "mean_axis" if node.op == "GlobalAveragePool" else "max_axis"
    return node.g.op(name, x, axes=list(range(2, x.rank)), keepdims=True)


@operator("GlobalLpPool")
def global_lp_pool(node: Node) -> Result:
    g, x, p = node.g, node.x(), float(node.int("p", 2))
    total = g.op(
        "sum_axis", g.op("pow", g.op("abs", x), p), axes=list(range(2, x.rank)), keepdims=True
    )
    return g.op("pow", total, 1.0 / p)


@operator("MaxUnpool")
def max_unpool(node: Node) -> Result:
    g, x, indices = node.g, node.x(0), node.x(1)
    window = window_of(node, x, node.ints("kernel_shape") or [1])
    axes = len(window.kernel)
    if node.there(2):
        shape: list[Any] = list(node.sizes(2))
    else:
        inner = [
            number_of(
                (x.dims[2 + i] - 1) * window.strides[i]
                - window.before[i]
                - window.after[i]
                + window.kernel[i]
            )
            for i in range(axes)
        ]
        shape = [*x.dims[:2], *inner]
    # Indices count through the tensor that was pooled, which may be smaller than the wanted one.
    pooled = [
        number_of(
            (x.dims[2 + i] - 1) * window.strides[i]
            - window.before[i]
            - window.after[i]
            + window.kernel[i]
        )
        for i in range(axes)
    ]
    node.need(
        all(isinstance(one, int) for one in [*pooled, *shape]) or shape[2:] == pooled,
        "open axes and output_shape",
    )
    total = product([*x.dims[:2], *pooled])
    zeros = g.op("expand", node.const([0], x.dtype, "zero"), shape=[total])
    flat = g.op(
        "scatter", zeros, g.op("reshape", indices, shape=[-1]), g.op("reshape", x, shape=[-1])
    )
    result = g.op("reshape", flat, shape=[*x.dims[:2], *pooled])
    more = [int(want) - int(have) if want != have else 0 for want, have in zip(shape[2:], pooled)]
    if any(more):
        result = g.op("pad", result, pads=[*[0] * axes, *more], axes=list(range(2, 2 + axes)))
    return result


@operator("Col2Im")
def col2im(node: Node) -> Result:
    """The sum of overlapping blocks: a transposed convolution with kernels that put elements in place."""
    g, x = node.g, node.x(0)
    image, block = node.ints_of(1), node.ints_of(2)
    axes = len(block)
    strides = node.ints("strides") or [1] * axes
    dilations = node.ints("dilations") or [1] * axes
    pads = node.ints("pads") or [0] * (2 * axes)
    node.need(1 <= axes <= 3 and x.dtype in FLOATS, f"{axes} axes, or elements of {x.dtype}")
    area = prod(block)
    counts = [
        (image[i] + pads[i] + pads[axes + i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
        for i in range(axes)
    ]
    channels = x.dims[1] // area
    spread = g.op("reshape", x, shape=[x.dims[0] * channels, area, *counts])
    rows, columns = (
        g.op("iota", shape=shape, axis=i) for i, shape in enumerate(([area, 1], [1, area]))
    )
    place = g.op("cast", g.op("eq", rows, columns), to=x.dtype)
    place = g.op("reshape", place, shape=[area, 1, *block])
    if axes == 2:
        settings = {"stride": strides, "dilation": dilations}
        result = g.op("conv_transpose2d", spread, place, **settings)
    else:
        result = transposed_convolution(node, spread, place, strides, dilations)
    result = cut(node, result, pads[:axes], image)
    return g.op("reshape", result, shape=[x.dims[0], channels, *image])
