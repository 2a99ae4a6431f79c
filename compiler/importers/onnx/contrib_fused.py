"""Operators of `com.microsoft` that ONNX Runtime's optimiser puts in place of several.

As its documentation of contributed operators says (docs/ContribOperators.md of microsoft/onnxruntime).
"""

from __future__ import annotations

from typing import Any

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.onnx.contrib import DOMAIN
from openinfer.compiler.importers.onnx.contrib_quantised import seen_tokens
from openinfer.compiler.importers.onnx.items import number_of
from openinfer.compiler.importers.onnx.node import Node, Result, operator
from openinfer.compiler.importers.onnx.windows import convolution


@operator("EmbedLayerNormalization", domain=DOMAIN)
def embed_layer_normalization(node: Node) -> list[Result]:
    """Rows of the tables of words, positions and segments, added up and normalised."""
    g, tokens, positions = node.g, node.x(0), node.optional(8)
    node.ignore("mask_index_type")
    total = g.op("gather", node.x(2), tokens)
    if positions is None:
        length: Any = number_of(tokens.dims[1])
        rows = g.op("slice", node.x(3), axis=0, start=0, stop=length)
    else:
        rows = g.op("gather", node.x(3), positions)
    total = g.op("add", total, rows)
    if node.there(1) and node.there(4):
        total = g.op("add", total, g.op("gather", node.x(4), node.x(1)))
    y = g.op("layer_norm", total, node.x(5), node.x(6), eps=node.float("epsilon", 1e-12))
    return [y, seen_tokens(node, 7) if node.wants(1) else None, total]


# Products and convolutions with what follows them


def _activated(node: Node, x: Value) -> Value:
    """What the attribute `activation` makes of a result."""
    g, name = node.g, node.text("activation", "")
    values = node.floats("activation_params") or []
    for key in ("activation_alpha", "activation_beta", "activation_gamma"):
        if node.has(key):
            values.append(node.float(key, 0.0))
    match name, values:
        case "", _:
            return x
        case (("Relu" | "Tanh" | "Sigmoid"), _):
            return g.op(name.lower(), x)
        case "LeakyRelu", [*slope]:
            return g.op("relu", x, negative_slope=slope[0] if slope else 0.01)
        case "Clip", [low, high]:
            return g.op("clamp", x, min=low, max=high)
        case "HardSigmoid", [alpha, beta]:
            return g.op("clamp", g.op("add", g.op("mul", x, alpha), beta), min=0.0, max=1.0)
        case _:
            node.refuse(f"activation={name} of {len(values)} numbers")
            return x


@operator("FusedConv", domain=DOMAIN)
def fused_conv(node: Node) -> Result:
    """A convolution, what is added to it, and an activation."""
    y = convolution(node, node.x(0), node.x(1), node.optional(2))
    if node.there(3):
        y = node.g.op("add", y, node.x(3))
    return _activated(node, y)


@operator("NhwcConv", "NhwcFusedConv", domain=DOMAIN)
def nhwc_conv(node: Node) -> Result:
    """The same of channels that stand last, in x, in the weight and in the result."""
    g, x, w = node.g, node.x(0), node.x(1)
    first, last = [0, x.rank - 1, *range(1, x.rank - 1)], [0, *range(2, x.rank), 1]
    x, w = (g.op("transpose", value, perm=first) for value in (x, w))
    y = g.op("transpose", convolution(node, x, w, node.optional(2)), perm=last)
    if node.there(3):
        y = g.op("add", y, node.x(3))
    return _activated(node, y)


@operator("FusedGemm", domain=DOMAIN)
def fused_gemm(node: Node) -> Result:
    g = node.g
    settings = {
        name: True
        for name, key in (("transpose_a", "transA"), ("transpose_b", "transB"))
        if node.flag(key)
    }
    y = g.op("matmul", node.x(0), node.x(1), **settings)
    alpha, beta, c = node.float("alpha", 1.0), node.float("beta", 1.0), node.optional(2)
    if alpha != 1.0:
        y = g.op("mul", y, alpha)
    if c is not None:
        y = g.op("add", y, c if beta == 1.0 else g.op("mul", c, beta))
    return _activated(node, y)


# Biases


@operator("BiasAdd", domain=DOMAIN)
def bias_add(node: Node) -> Result:
    return node.g.op("add", node.g.op("add", node.x(0), node.x(1)), node.x(2))


@operator("BiasSplitGelu", domain=DOMAIN)
def bias_split_gelu(node: Node) -> Result:
    """The first half of the last axis, with the bias, times the gelu of the second."""
    g = node.g
    value, gate = g.ops("split", g.op("add", node.x(0), node.x(1)), results=2, axis=-1)
    return g.op("mul", value, g.op("gelu", gate))
