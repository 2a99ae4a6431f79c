"""Quantised tensors and integer products as the operators define them: rounding, limits, zero points."""

from __future__ import annotations

from typing import Any

from openinfer.compiler.importers.graph_writer import GraphWriter, Value
from openinfer.compiler.importers.onnx.elementwise import converted
from openinfer.compiler.importers.onnx.items import Item, number_of
from openinfer.compiler.importers.onnx.node import Node, Result, operator
from openinfer.compiler.importers.onnx.products import product_of
from openinfer.compiler.importers.onnx.protos import element_dtype
from openinfer.compiler.importers.onnx.refusals import DAMAGED, TYPE, Refusal
from openinfer.compiler.importers.onnx.windows import convolution
from openinfer.dialects.ops.base import FLOATS, INTEGERS


@operator("QuantizeLinear")
@operator("QuantizeLinear", domain="com.microsoft")
def quantize_linear(node: Node) -> Result:
    x, scale = node.x(0), node.x(1)
    zero = node.optional(2)
    if zero is not None:
        to = zero.dtype
        if node.has("output_dtype") and node.int("output_dtype", 0):
            to = element_dtype(node.int("output_dtype", 0), node.op)
    else:
        number = node.int("output_dtype", 0)
        to = element_dtype(number, node.op) if number else "u8"
    if node.has("precision") and node.int("precision", 0):
        wide = element_dtype(node.int("precision", 0), node.op)
        x, scale = _cast(node, x, wide), _cast(node, scale, wide)
    saturate = node.flag("saturate", True)
    return quantized(node, x, scale, zero, to, saturate=saturate)


def _cast(node: Node, x: Value, to: str) -> Value:
    return x if x.dtype == to else node.g.op("cast", x, to=to)


def quantized(
    node: Node, x: Value, scale: Value, zero: Value | None, to: str, *, saturate: bool = True
) -> Value:
    """`round(x / scale) + zero`, within the limits of the dtype."""
    g = node.g
    axis, block = node.int("axis", 1), node.int("block_size", 0)
    if x.dtype in INTEGERS:
        x = g.op("cast", x, to="f32")
    if to in FLOATS:
        scale = spread(node, scale, x, axis, block)
        divided = g.op("div", x, _cast(node, scale, x.dtype))
        if zero is not None:
            divided = g.op("add", divided, _cast(node, spread(node, zero, x, axis, block), x.dtype))
        return converted(node, divided, to, saturate=saturate)
    if block or not _fits(scale, x, axis) or x.dtype != "f32" or scale.dtype != "f32":
        scale = _cast(node, spread(node, scale, x, axis, block), x.dtype)
        quotient = g.op("div", x, scale)
        quotient = _cast(node, quotient, "f32")
        if zero is None:
            return g.op("quantize", quotient, dtype=to, scale=1.0)
        # Halves go to the even neighbour before the zero point is added.
        whole = g.op("cast", quotient, to="i32", rounding_mode="even")
        moved = g.op("add", whole, _cast(node, spread(node, zero, x, axis, block), "i32"))
        return g.op("cast", moved, to=to)
    settings: dict[str, Any] = {"dtype": to}
    scale = _flat(node, scale)
    zero = None if zero is None else _flat(node, zero)
    if scale.rank == 1:
        settings["axis"] = node.axis(axis, x.rank)
    operands = [x, scale] if zero is None else [x, scale, zero]
    return g.op("quantize", *operands, **settings)


def _fits(scale: Value, x: Value, axis: int) -> bool:
    return scale.rank == 0 or scale.dims == (1,) or (scale.rank == 1 and x.rank > 0)


def _flat(node: Node, value: Value) -> Value:
    """A scale of one element, as one without axes."""
    if value.rank == 1 and value.dims[0].constant == 1:
        return node.g.op("reshape", value, shape=[])
    return value


def spread(node: Node, value: Value, x: Value, axis: int, block: int) -> Value:
    """A scale in a shape that broadcasts with the tensor that it belongs to."""
    g = node.g
    if value.rank == 0:
        return value
    if value.rank == 1 and value.dims[0].constant == 1 and not block:
        return g.op("reshape", value, shape=[])
    axis = node.axis(axis, x.rank)
    if block:
        if value.rank != x.rank:
            raise Refusal(DAMAGED, f"{node.op} with block_size needs scales of its tensor's rank")
        count, extent = value.dims[axis], x.dims[axis]
        dims = [*value.dims[: axis + 1], block, *value.dims[axis + 1 :]]
        wide = g.op("expand", g.op("unsqueeze", value, axes=[axis + 1]), shape=dims)
        wide = g.op(
            "reshape", wide, shape=[*value.dims[:axis], count * block, *value.dims[axis + 1 :]]
        )
        return (
            wide
            if count * block == extent
            else g.op("slice", wide, axis=axis, start=0, stop=number_of(extent))
        )
    if value.rank == 1:
        shape = [1] * x.rank
        return g.op(
            "reshape",
            value,
            shape=[value.dims[0] if i == axis else one for i, one in enumerate(shape)],
        )
    return value


@operator("DequantizeLinear")
@operator("DequantizeLinear", domain="com.microsoft")
def dequantize_linear(node: Node) -> Result:
    x, scale, zero = node.x(0), node.x(1), node.optional(2)
    number = node.int("output_dtype", 0)
    to = element_dtype(number, node.op) if number else scale.dtype
    return dequantized(node, x, scale, zero, to)


def dequantized(node: Node, x: Value, scale: Value, zero: Value | None, to: str = "f32") -> Value:
    """`(x - zero) * scale`."""
    g = node.g
    axis, block = node.int("axis", 1), node.int("block_size", 0)
    if x.dtype in FLOATS or block or scale.rank > 1 or (x.rank == 0 and scale.rank == 1):
        scale = spread(node, scale, x, axis, block)
        wide = _cast(node, x, "f32")
        if zero is not None:
            wide = g.op("sub", wide, _cast(node, spread(node, zero, x, axis, block), "f32"))
        return _cast(node, g.op("mul", wide, _cast(node, scale, "f32")), to)
    settings: dict[str, Any] = {}
    scale = _flat(node, scale)
    zero = None if zero is None else _flat(node, zero)
    if scale.rank == 1:
        settings["axis"] = node.axis(axis, x.rank)
    result = g.op("dequantize", *([x, scale] if zero is None else [x, scale, zero]), **settings)
    return _cast(node, result, to)


def centred(node: Node, x: Value, zero: Item | None, axis: int) -> Value:
    """`x - zero` as i32; a zero point for each row or column stands along `axis`."""
    g = node.g
    wide = g.op("cast", x, to="i32")
    if zero is None:
        return wide
    known = zero.numbers()
    if known is not None and not known.any():
        return wide
    value = zero.value
    if value.rank == 1 and value.dims[0].constant != 1:
        shape = [value.dims[0] if i == axis % x.rank else 1 for i in range(x.rank)]
        value = g.op("reshape", value, shape=shape)
    elif value.rank == 1:
        value = g.op("reshape", value, shape=[])
    return g.op("sub", wide, g.op("cast", value, to="i32"))


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: Node) -> list[Result]:
    return [*quantized_to_bytes(node.g, node.x())]


def quantized_to_bytes(g: GraphWriter, x: Value) -> tuple[Value, Value, Value]:
    """(codes of u8, scale, zero point): all of x and 0 from the smallest code to the largest one."""
    axes = list(range(x.rank))
    low = g.op("min", g.op("min_axis", x, axes=axes, keepdims=False), 0.0)
    high = g.op("max", g.op("max_axis", x, axes=axes, keepdims=False), 0.0)
    scale = g.op("div", g.op("sub", high, low), 255.0)
    zero = g.op("quantize", g.op("neg", low), scale, dtype="u8")
    return g.op("quantize", x, scale, zero, dtype="u8"), scale, zero


def optional_item(node: Node, place: int) -> Item | None:
    return node.item(place) if node.there(place) else None


@operator("MatMulInteger")
def matmul_integer(node: Node) -> Result:
    a = centred(node, node.x(0), optional_item(node, 2), -2)
    b = centred(node, node.x(1), optional_item(node, 3), -1)
    return product_of(node, a, b)


@operator("ConvInteger")
def conv_integer(node: Node) -> Result:
    x = centred(node, node.x(0), optional_item(node, 2), 1)
    w = centred(node, node.x(1), optional_item(node, 3), 0)
    return convolution(node, x, w, None)


@operator("QLinearMatMul")
def qlinear_matmul(node: Node) -> Result:
    a, b = (_rows(node, place) for place in (0, 3))
    return requantized(node, product_of(node, a, b), 1, 4, 6)


def _rows(node: Node, place: int) -> Value:
    return centred(node, node.x(place), node.item(place + 2), -2 if place == 0 else -1)


@operator("QLinearConv")
@operator("QLinearConv", domain="com.microsoft")
def qlinear_conv(node: Node) -> Result:
    x = centred(node, node.x(0), node.item(2), 1)
    last = node.flag("channels_last")
    if last:
        x = node.g.op("transpose", x, perm=[0, x.rank - 1, *range(1, x.rank - 1)])
    w = centred(node, node.x(3), node.item(5), 0)
    bias = node.optional(8)
    product = convolution(node, x, w, None)
    if bias is not None:
        shape = [bias.dims[0], *[1] * (x.rank - 2)]
        product = node.g.op("add", product, node.g.op("reshape", bias, shape=shape))
    result = requantized(node, product, 1, 4, 6, channel=True)
    if last:
        result = node.g.op("transpose", result, perm=[0, *range(2, x.rank), 1])
    return result


def requantized(
    node: Node, whole: Value, left: int, right: int, result: int, *, channel: bool = False
) -> Value:
    """A sum of integers times both scales, divided by that of the result and rounded."""
    g = node.g
    scales = [_cast(node, node.x(place), "f32") for place in (left, right, result)]
    if channel and scales[1].rank == 1 and scales[1].dims[0].constant != 1:
        scales[1] = g.op("reshape", scales[1], shape=[scales[1].dims[0], *[1] * (whole.rank - 2)])
    elif scales[0].rank == 1 and scales[0].dims[0].constant != 1:
        scales[0] = g.op("reshape", scales[0], shape=[scales[0].dims[0], 1])
    factor = g.op("div", g.op("mul", scales[0], scales[1]), scales[2])
    scaled = g.op("mul", g.op("cast", whole, to="f32"), factor)
    zero = node.x(result + 1)
    if zero.dtype not in INTEGERS:
        raise Refusal(TYPE, f"{node.op} with a result of {zero.dtype} is not supported")
    if all(dim.constant == 1 for dim in zero.dims):
        return g.op("quantize", scaled, 1.0, _flat(node, zero), dtype=zero.dtype)
    rounded = g.op("cast", scaled, to="i32", rounding_mode="even")
    return g.op("cast", g.op("add", rounded, g.op("cast", zero, to="i32")), to=zero.dtype)
