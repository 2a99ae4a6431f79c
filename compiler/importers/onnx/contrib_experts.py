"""Mixtures of experts of `com.microsoft`, with weights of floats and of integers in blocks.

As ONNX Runtime's documentation of contributed operators says (docs/ContribOperators.md of
microsoft/onnxruntime), and its CPU computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.onnx.contrib import DOMAIN, stored_tensor
from openinfer.compiler.importers.onnx.items import number_of
from openinfer.compiler.importers.onnx.node import Node, Result, operator
from openinfer.compiler.importers.onnx.refusals import DAMAGED, Refusal
from openinfer.runtime.dtypes import dtype as find_dtype
from openinfer.runtime.tensors import Tensor

_ACTIVATIONS = ("relu", "gelu", "silu", "swiglu", "identity")


@operator("MoE", domain=DOMAIN)
def mixture_of_experts(node: Node) -> Result:
    """Weights `[experts, out, in]`: inputs 2 and 4, a third one is 6; a bias behind each."""
    return _mixture(node, (2, 4, 6), 1, node.x, node.flag("normalize_routing_weights"))


@operator("QMoE", domain=DOMAIN)
def quantised_mixture(node: Node) -> Result:
    """The same of integers `[experts, out, in]`, each times the scale of its row, or of its block of a row.

    Weights are inputs 2, 5 and 8, with scales and biases behind each. ONNX Runtime's CPU reads
    `weights_prepacked=-1` as `[experts, out, in]`, and divides by the sum of the chosen weights in any case;
    other machines do where `normalize_routing_weights` is set, so that it must be.
    """
    node.expect("quant_type", "int")
    node.expect("weights_prepacked", -1, 0)
    node.ignore("accuracy_level")
    bits, block = node.int("expert_weight_bits", 4), node.int("block_size", 0)
    node.need(bits in (2, 4, 8), f"expert_weight_bits={bits}")
    for number in (1, 2, 3):
        name = f"fc{number}_expert_weight_bits"
        node.need(node.int(name, bits) == bits, name)
    node.need(not any(node.there(place) for place in (11, 12, 13)), "zero points")
    node.need(not any(node.there(place) for place in range(14, 21)), "scales of activations")
    normal = node.flag("normalize_routing_weights")
    node.need(normal, "normalize_routing_weights=0")

    def weight(place: int) -> Value:
        return _dequantised(node, place, bits, block)

    return _mixture(node, (2, 5, 8), 2, weight, normal)


def _mixture(
    node: Node,
    places: tuple[int, int, int],
    bias: int,
    weight: Callable[[int], Value],
    normal: bool,
) -> Result:
    """x `[rows, D]` or `[B, L, D]`, scores `[rows, experts]`: each row goes through the best `k` experts.

    The first layer is followed by the activation, times the third where that is given, and the second. What
    the experts give counts with the softmax of the scores, as parts of the chosen ones where `normal` is set.
    A bias is `bias` inputs behind its weight.
    """
    g, x, scores = node.g, node.x(0), node.x(1)
    count, name = node.int("k", 1), node.text("activation_type", "relu")
    node.expect("use_sparse_mixer", 0)
    node.need(name in _ACTIVATIONS, f"activation_type={name}")
    if x.rank not in (2, 3) or scores.rank != 2:
        raise Refusal(DAMAGED, f"{node.op} of {x.rank} and {scores.rank} axes")
    shape: list[Any] = [number_of(dim) for dim in x.dims]
    rows = g.op("reshape", x, shape=[-1, shape[-1]]) if x.rank == 3 else x
    weights = g.op("softmax", scores, axis=-1)
    best, chosen = g.ops("topk", weights, results=2, k=count, axis=-1)
    if normal:
        best = g.op("div", best, g.op("sum_axis", best, axes=[-1], keepdims=True))

    def layer(value: Value, place: int) -> Value:
        y = g.op("expert_linear", value, weight(place), chosen)
        added = node.optional(place + bias)
        return y if added is None else g.op("add", y, g.op("gather", added, chosen))

    first, second, third = places
    inner = _activated(node, layer(rows, first), name)
    if node.there(third):
        node.need(name != "swiglu", "activation_type=swiglu with a third layer")
        inner = g.op("mul", inner, layer(rows, third))
    outer = g.op("mul", layer(inner, second), g.op("unsqueeze", best, axes=[-1]))
    total = g.op("sum_axis", outer, axes=[-2])
    return g.op("reshape", total, shape=shape) if x.rank == 3 else total


def _activated(node: Node, x: Value, name: str) -> Value:
    """The activation; of swiglu, gates and values take turns in x `[rows, k, 2 * inner]`."""
    g = node.g
    if name != "swiglu":
        node.ignore("activation_alpha", "activation_beta", "swiglu_limit", "swiglu_fusion")
        node.ignore("swiglu_limit_after_activation")
        settings = {"approximate": "tanh"} if name == "gelu" else {}
        return x if name == "identity" else g.op(name, x, **settings)
    node.expect("swiglu_fusion", 1)
    node.expect("swiglu_limit_after_activation", 0)
    node.need(node.has("swiglu_fusion"), "swiglu_fusion=0")
    alpha, beta = node.float("activation_alpha", 1.0), node.float("activation_beta", 0.0)
    limit = node.float_or_none("swiglu_limit")
    width = x.dims[-1].constant
    if not width or width % 2:
        raise Refusal(DAMAGED, f"swiglu of {x.dims[-1]} elements")
    pairs = g.op("reshape", x, shape=[*(number_of(dim) for dim in x.dims[:-1]), width // 2, 2])
    gate, value = (
        g.op("squeeze", g.op("slice", pairs, axis=-1, start=one, stop=one + 1), axes=[-1])
        for one in (0, 1)
    )
    if limit is not None:
        gate = g.op("clamp", gate, max=limit)
        value = g.op("clamp", value, min=-limit, max=limit)
    if beta:
        value = g.op("add", value, beta)
    opened = g.op("sigmoid", gate if alpha == 1.0 else g.op("mul", gate, alpha))
    return g.op("mul", g.op("mul", gate, opened), value)


def _dequantised(node: Node, place: int, bits: int, block: int) -> Value:
    """A weight `[experts, out, in]` of bytes that hold `bits` an element, from the lowest bits on."""
    g, packed, scale = node.g, stored_tensor(node, place), node.x(place + 1)
    if packed.dtype.name != "u8" or len(packed.shape) != 3:
        raise Refusal(DAMAGED, f"QMoE has weights of {packed.dtype}{list(packed.shape)}")
    experts, rows, depth = (*packed.shape[:2], packed.shape[2] * 8 // bits)
    blocks = depth // block if block > 0 else 1
    if block > 0 and (block < 16 or block & (block - 1) or depth % block):
        raise Refusal(DAMAGED, f"QMoE of {depth} inputs in blocks of {block}")
    wanted = [experts, rows, blocks] if block > 0 else [experts, rows]
    if [dim.constant for dim in scale.dims] != wanted:
        raise Refusal(DAMAGED, f"QMoE has scales {[str(one) for one in scale.dims]}, not {wanted}")
    shape = (experts, rows, blocks, depth // blocks)
    stored = packed.storage.reshape(shape if bits == 8 else (-1,))
    weight = g.weight(
        node.item(place).name or "weight",
        Tensor(find_dtype(f"u{bits}"), shape, stored),
        f"u{bits}",
        shape,
    )
    wide = g.op("sub", g.op("cast", weight, to=scale.dtype), float(1 << (bits - 1)))
    wide = g.op("mul", wide, g.op("reshape", scale, shape=[experts, rows, blocks, 1]))
    found = g.op("reshape", wide, shape=[experts, rows, depth])
    dtype = node.x(0).dtype
    return found if found.dtype == dtype else g.op("cast", found, to=dtype)
