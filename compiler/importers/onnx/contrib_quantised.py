"""Quantised operators of `com.microsoft`: products of integers, and others between two roundings.

As ONNX Runtime's documentation of contributed operators says (docs/ContribOperators.md of
microsoft/onnxruntime).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.onnx.contrib import DOMAIN, attended, visible
from openinfer.compiler.importers.onnx.items import number_of
from openinfer.compiler.importers.onnx.node import Node, Result, operator
from openinfer.compiler.importers.onnx.products import product_of
from openinfer.compiler.importers.onnx.quantised import (
    centred,
    dequantized,
    optional_item,
    quantized,
    quantized_to_bytes,
    requantized,
)
from openinfer.compiler.importers.onnx.refusals import DAMAGED, Refusal
from openinfer.compiler.importers.onnx.windows import average_pool_of

Function = Callable[[Node, Value], Value]


def _read(node: Node, place: int) -> Value:
    """The float of a tensor that its scale and its zero point follow."""
    return dequantized(node, node.x(place), node.x(place + 1), node.optional(place + 2))


def _written(node: Node, value: Value, place: int, dtype: str) -> Value:
    """A float as codes; the scale of the result is input `place`, its zero point the next one."""
    return quantized(node, value, node.x(place), node.optional(place + 1), dtype)


# Between two roundings


def _unary(function: Function) -> Callable[[Node], Result]:
    """The handler of an operator with inputs X, its scale and zero point, those of the result."""

    def handle(node: Node) -> Result:
        return _written(node, function(node, _read(node, 0)), 3, node.x(0).dtype)

    return handle


def _sigmoid(node: Node, x: Value) -> Value:
    return node.g.op("sigmoid", x)


def _leaky_relu(node: Node, x: Value) -> Value:
    return node.g.op("relu", x, negative_slope=node.float("alpha", 0.01))


def _softmax(node: Node, x: Value) -> Value:
    version = node.int("opset", 0)
    axis = node.axis(node.int("axis", -1), x.rank)
    node.need(version >= 13 or axis == x.rank - 1, f"axis={axis} and opset={version}")
    return node.g.op("softmax", x, axis=axis)


def _average(node: Node, x: Value) -> Value:
    return _channels_first(node, x, average_pool_of)


def _global_average(node: Node, x: Value) -> Value:
    axes = range(1, x.rank - 1) if node.flag("channels_last") else range(2, x.rank)
    return node.g.op("mean_axis", x, axes=list(axes), keepdims=True)


def _mean(node: Node, x: Value) -> Value:
    axes = node.ints("axes") or list(range(x.rank))
    axes = [node.axis(axis, x.rank) for axis in axes]
    return node.g.op("mean_axis", x, axes=axes, keepdims=node.flag("keepdims", True))


def _channels_first(node: Node, x: Value, function: Function) -> Value:
    """What a function gives of channels behind the batch, in the order that the node has them in."""
    if not node.flag("channels_last"):
        return function(node, x)
    first = [0, x.rank - 1, *range(1, x.rank - 1)]
    last = [0, *range(2, x.rank), 1]
    return node.g.op("transpose", function(node, node.g.op("transpose", x, perm=first)), perm=last)


for _name, _function in (
    ("QLinearSigmoid", _sigmoid),
    ("QLinearLeakyRelu", _leaky_relu),
    ("QLinearSoftmax", _softmax),
    ("QLinearAveragePool", _average),
    ("QLinearGlobalAveragePool", _global_average),
    ("QLinearReduceMean", _mean),
):
    operator(_name, domain=DOMAIN)(_unary(_function))


@operator("QLinearAdd", "QLinearMul", domain=DOMAIN)
def qlinear_pair(node: Node) -> Result:
    name = "add" if node.op == "QLinearAdd" else "mul"
    total = node.g.op(name, _read(node, 0), _read(node, 3))
    return _written(node, total, 6, node.x(0).dtype)


@operator("QLinearWhere", domain=DOMAIN)
def qlinear_where(node: Node) -> Result:
    chosen = node.g.op("where", node.x(0), _read(node, 1), _read(node, 4))
    return _written(node, chosen, 7, node.x(1).dtype)


@operator("QLinearConcat", domain=DOMAIN)
def qlinear_concat(node: Node) -> Result:
    """Scale and zero point of the result, then three inputs for each part."""
    count, rest = divmod(len(node.inputs) - 2, 3)
    if count < 1 or rest:
        raise Refusal(DAMAGED, f"QLinearConcat has {len(node.inputs)} inputs")
    parts = [_read(node, 2 + 3 * part) for part in range(count)]
    axis = node.axis(node.int("axis", 0), parts[0].rank)
    whole = node.g.op("concat", *parts, axis=axis) if count > 1 else parts[0]
    return _written(node, whole, 0, node.x(2).dtype)


# Products


def _scaled(node: Node, whole: Value, *places: int) -> Value:
    """A sum of integers times scales."""
    g = node.g
    factor: Value | float = 1.0
    for place in places:
        scale = node.x(place)
        if scale.rank and all(dim.constant == 1 for dim in scale.dims):
            scale = g.op("reshape", scale, shape=[])
        factor = scale if factor == 1.0 else g.op("mul", factor, scale)
    return g.op("mul", g.op("cast", whole, to="f32"), factor)


@operator("MatMulIntegerToFloat", domain=DOMAIN)
def matmul_integer_to_float(node: Node) -> Result:
    a = centred(node, node.x(0), optional_item(node, 4), -2)
    b = centred(node, node.x(1), optional_item(node, 5), -1)
    y = _scaled(node, product_of(node, a, b), 2, 3)
    return node.g.op("add", y, node.x(6)) if node.there(6) else y


@operator("DynamicQuantizeMatMul", domain=DOMAIN)
def dynamic_quantize_matmul(node: Node) -> Result:
    g = node.g
    codes, scale, zero = quantized_to_bytes(g, node.x(0))
    a = g.op("sub", g.op("cast", codes, to="i32"), g.op("cast", zero, to="i32"))
    b = centred(node, node.x(1), optional_item(node, 3), -1)
    y = g.op("mul", _scaled(node, product_of(node, a, b), 2), scale)
    return g.op("add", y, node.x(4)) if node.there(4) else y


@operator("QGemm", domain=DOMAIN)
def qgemm(node: Node) -> Result:
    """`alpha · (a · b)` of integers and c in units of it; a float where no scale of the result is given."""
    g = node.g
    a = centred(node, node.x(0), optional_item(node, 2), -2)
    transposed = node.flag("transB")
    b = centred(node, node.x(3), optional_item(node, 5), -2 if transposed else -1)
    settings = {"transpose_a": True} if node.flag("transA") else {}
    if transposed:
        settings["transpose_b"] = True
    whole = product_of(node, a, b, **settings)
    if node.there(6):
        whole = g.op("add", whole, node.x(6))
    node.need(node.float("alpha", 1.0) == 1.0, f"alpha={node.float('alpha', 1.0)}")
    if not node.there(7):
        return _scaled(node, whole, 1, 4)
    return requantized(node, whole, 1, 4, 7)


@operator("QAttention", domain=DOMAIN)
def qattention(node: Node) -> Result:
    """x `[B, L, D]` and weights `[D, 3 * heads * size]` of integers; the rest is as in `Attention`."""
    g, heads = node.g, node.int("num_heads", 0)
    node.need(not node.there(8) and not node.wants(1), "past keys and values")
    node.expect("do_rotary", 0)
    node.expect("past_present_share_buffer", 0)
    x = centred(node, node.x(0), optional_item(node, 6), -2)
    w = centred(node, node.x(1), optional_item(node, 7), -1)
    product = g.op("add", _scaled(node, product_of(node, x, w), 3, 4), node.x(2))
    parts = g.ops("split", product, results=3, axis=2)
    mask = visible(node, node.optional(5), number_of(product.dims[1]))
    return attended(node, parts, heads, mask, None)


# Tables


@operator("QEmbedLayerNormalization", domain=DOMAIN)
def q_embed_layer_normalization(node: Node) -> list[Result]:
    """Sums of rows of quantised tables, normalised; the second result counts the tokens that are seen."""
    g = node.g

    def table(place: int, number: int) -> Value:
        return dequantized(node, node.x(place), node.x(8 + number), node.optional(13 + number))

    places: Any = number_of(node.x(0).dims[1])
    total = g.op("gather", table(2, 0), node.x(0))
    total = g.op("add", total, g.op("slice", table(3, 1), axis=0, start=0, stop=places))
    if node.there(1):
        total = g.op("add", total, g.op("gather", table(4, 2), node.x(1)))
    y = g.op("layer_norm", total, table(5, 3), table(6, 4), eps=node.float("epsilon", 1e-12))
    return [y, seen_tokens(node, 7) if node.wants(1) else None]


def seen_tokens(node: Node, place: int) -> Value:
    """How many tokens of each sequence a mask shows, as i32; zeros without a mask."""
    g, mask = node.g, node.optional(place)
    if mask is None:
        zeros = g.op("mul", node.x(0), 0)
        return g.op("cast", g.op("sum_axis", zeros, axes=[1]), to="i32")
    seen = g.op("cast", g.op("eq", mask, 1), to="i32")
    return g.op("sum_axis", seen, axes=[1])
