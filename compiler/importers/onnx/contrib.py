"""Operators of ONNX Runtime's own set, `com.microsoft`, that its optimiser and exporters write.

As its documentation of contributed operators says (docs/ContribOperators.md of microsoft/onnxruntime).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.onnx.items import number_of
from openinfer.compiler.importers.onnx.node import Node, Result, operator
from openinfer.compiler.importers.onnx.products import product_of
from openinfer.compiler.importers.onnx.refusals import CONTENT, DAMAGED, Refusal
from openinfer.runtime.dtypes import dtype as find_dtype
from openinfer.runtime.sizes import Size
from openinfer.runtime.tensors import Tensor

DOMAIN = "com.microsoft"

# Norms


@operator("SimplifiedLayerNormalization")
@operator("SimplifiedLayerNormalization", domain=DOMAIN)
def simplified_layer_normalization(node: Node) -> Result:
    x, weight = node.x(0), node.x(1)
    node.ignore("stash_type")
    node.need(not node.wants(1), "the deviation as a result")
    axis = node.axis(node.int("axis", -1), x.rank)
    return node.g.op("rms_norm", x, weight, axis=axis, eps=node.float("epsilon", 1e-5))


@operator("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=DOMAIN)
def skip_layer_normalization(node: Node) -> list[Result]:
    """A norm of a sum; the sum itself is the fourth result."""
    g, simple = node.g, node.op == "SkipSimplifiedLayerNormalization"
    node.need(not node.wants(1) and not node.wants(2), "statistics as results")
    total = g.op("add", node.x(0), node.x(1))
    weight = node.x(2)
    beta, bias = (None, node.optional(3)) if simple else (node.optional(3), node.optional(4))
    if bias is not None:
        total = g.op("add", total, bias)
    eps = node.float("epsilon", 1e-12)
    if simple:
        y = g.op("rms_norm", total, weight, eps=eps)
    else:
        y = g.op("layer_norm", total, weight, *([] if beta is None else [beta]), eps=eps)
    return [y, None, None, total]


# Activations


@operator("Gelu", "FastGelu", "BiasGelu", domain=DOMAIN)
def gelu(node: Node) -> Result:
    x, bias = node.x(0), node.optional(1)
    if bias is not None:
        x = node.g.op("add", x, bias)
    return node.g.op("gelu", x, **({"approximate": "tanh"} if node.op == "FastGelu" else {}))


@operator("QuickGelu", domain=DOMAIN)
def quick_gelu(node: Node) -> Result:
    g, x, alpha = node.g, node.x(), node.float("alpha", 1.702)
    if alpha == 1.0:
        return g.op("silu", x)
    return g.op("mul", x, g.op("sigmoid", g.op("mul", x, alpha)))


# Products


@operator("FusedMatMul", "TransposeMatMul", domain=DOMAIN)
def fused_matmul(node: Node) -> Result:
    node.expect("transBatchA", 0)
    node.expect("transBatchB", 0)
    settings = {
        name: True
        for name, key in (("transpose_a", "transA"), ("transpose_b", "transB"))
        if node.flag(key)
    }
    a, b = node.x(0), node.x(1)
    node.need(not settings or (a.rank > 1 and b.rank > 1), "a transposed vector")
    product = product_of(node, a, b, **settings)
    alpha = node.float("alpha", 1.0)
    return product if alpha == 1.0 else node.g.op("mul", product, alpha)


@operator("MatMulNBits", domain=DOMAIN)
def matmul_n_bits(node: Node) -> Result:
    """`a @ w^T + bias`; w `[N, K]` lies in blocks along K, each with a scale and a zero point.

    The bytes of the file are those of u4 and u2 here: element by element from the lowest bits on.
    """
    g, a = node.g, node.x(0)
    rows, depth = node.int("N", 0), node.int("K", 0)
    bits, block = node.int("bits", 4), node.int("block_size", 0)
    node.ignore("accuracy_level")
    node.expect("weight_prepacked", 0)
    node.need(bits in (2, 4, 8), f"bits={bits}")
    node.need(not node.there(4), "g_idx")
    if rows < 1 or depth < 1 or block < 16 or block & (block - 1):
        raise Refusal(DAMAGED, f"MatMulNBits of N={rows}, K={depth} and blocks of {block}")
    if a.rank == 0 or a.dims[-1] != Size.of(depth):
        raise Refusal(DAMAGED, f"MatMulNBits of K={depth} and an operand of {a.dims[-1:]}")
    blocks = -(-depth // block)
    packed = stored_tensor(node, 1)
    if packed.dtype.name != "u8" or packed.size != rows * blocks * block * bits // 8:
        raise Refusal(DAMAGED, f"MatMulNBits has weights of {packed.dtype}{list(packed.shape)}")
    dtype = f"u{bits}"
    shape = (rows, blocks, block)
    stored = packed.storage.reshape(shape if bits == 8 else (-1,))
    weight = g.weight(
        node.item(1).name or "weight",
        Tensor(find_dtype(dtype), shape, stored),
        dtype,
        shape,
    )
    scale = g.op("reshape", node.x(2), shape=[rows, blocks, 1])
    wide = g.op("sub", g.op("cast", weight, to=scale.dtype), _zero_points(node, shape, bits, scale))
    w = g.op("reshape", g.op("mul", wide, scale), shape=[rows, blocks * block])
    if blocks * block != depth:
        w = g.op("slice", w, axis=1, start=0, stop=depth)
    if w.dtype != a.dtype:
        w = g.op("cast", w, to=a.dtype)
    bias = node.optional(5)
    return g.op("linear", a, w, *([] if bias is None else [bias]))


def _zero_points(node: Node, shape: tuple[int, int, int], bits: int, scale: Value) -> Value | float:
    """What is taken away from the numbers of a block: `[N, blocks, 1]`, or one number for all."""
    rows, blocks, _ = shape
    if not node.there(3):
        return float(1 << (bits - 1))
    if node.item(3).dtype != "u8":
        return node.g.op("reshape", node.x(3), shape=[rows, blocks, 1])
    found = np.asarray(node.numbers(3), np.uint8).reshape(-1)
    each = -(-blocks * bits // 8)
    if found.size != rows * each:
        raise Refusal(DAMAGED, f"MatMulNBits has {found.size} bytes of zero points")
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    values = (found[:, None] >> shifts) & ((1 << bits) - 1)
    values = values.reshape(rows, -1)[:, :blocks]
    return node.const(values.reshape(rows, blocks, 1).astype(np.float32), scale.dtype, "zeros")


def stored_tensor(node: Node, place: int) -> Tensor:
    """A tensor of the file as it lies there. Raises Refusal for one that a run computes."""
    item = node.item(place)
    content = item.numbers()
    if content is not None:
        return Tensor.from_values(item.dtype, content)
    file = node.reader.shared.file
    for proto in file.proto.graph.initializer:
        if proto.name == item.name:
            return file.tensor(proto)
    raise Refusal(CONTENT, f"{node.op} needs weights that the file holds, not {item.name}")


# Attention


@operator("RotaryEmbedding", domain=DOMAIN)
def rotary_embedding(node: Node) -> Result:
    """x `[B, L, heads * size]` or `[B, heads, L, size]`; tables `[positions, n / 2]`."""
    g, x, places = node.g, node.x(0), node.x(1)
    heads, turned = node.int("num_heads", 0), node.int("rotary_embedding_dim", 0)
    node.expect("is_packed_batching", 0)
    node.need(node.float("scale", 1.0) == 1.0, "a scale")
    node.need(not turned or heads > 0, "rotary_embedding_dim without num_heads")
    cos, sin = node.x(2), node.x(3)
    length = number_of(x.dims[-2])
    if places.dims == (Size.of(1),):
        places = g.op("add", g.op("iota", shape=[length], dtype=places.dtype), places)
    cos, sin = (g.op("gather", table, places) for table in (cos, sin))
    settings: dict[str, Any] = {"interleaved": True} if node.flag("interleaved") else {}
    if x.rank == 3 and heads:
        settings["heads"] = heads
    elif x.rank == 3:
        # All elements of a table turn, so a head has twice as many.
        size = cos.dims[-1].constant
        width = x.dims[-1].constant
        if not size or not width or width % (2 * size):
            raise Refusal(DAMAGED, f"RotaryEmbedding of width {x.dims[-1]}")
        settings["heads"] = width // (2 * size)
    return g.op("rope", x, cos, sin, **settings)


@operator("MultiHeadAttention", domain=DOMAIN)
def multi_head_attention(node: Node) -> Result:
    """q, k, v `[B, L, heads * size]`, with biases one after the other in one tensor."""
    g, heads = node.g, node.int("num_heads", 0)
    node.need(not any(node.there(place) for place in (6, 7, 8, 9)), "past keys and values")
    node.need(
        not any(node.wants(place) for place in (1, 2, 3)), "keys, values or scores as results"
    )
    q = node.x(0)
    node.need(q.rank == 3 and node.there(1) and node.there(2), "packed queries, keys and values")
    parts = [q, node.x(1), node.x(2)]
    node.need(all(part.rank == 3 for part in parts), "keys and values that have heads already")
    bias = node.optional(3)
    if bias is not None:
        widths = [number_of(part.dims[-1]) for part in parts]
        split = g.ops("split", bias, results=3, axis=0, sizes=widths)
        parts = [g.op("add", part, own) for part, own in zip(parts, split)]
    mask = visible(node, node.optional(4), number_of(parts[1].dims[1]))
    return attended(node, parts, heads, mask, node.optional(5))


@operator("Attention", domain=DOMAIN)
def attention(node: Node) -> Result:
    """x `[B, L, D]`, weights `[D, 3 * heads * size]`: queries, keys and values in one product."""
    g, heads = node.g, node.int("num_heads", 0)
    node.need(not any(node.there(place) for place in (4, 6)), "past keys and values")
    node.need(not node.wants(1), "keys and values as results")
    node.expect("do_rotary", 0)
    node.expect("past_present_share_buffer", 0)
    node.ignore("rotary_embedding_dim")
    product = g.op("matmul", node.x(0), node.x(1))
    bias = node.optional(2)
    if bias is not None:
        product = g.op("add", product, bias)
    widths = node.ints("qkv_hidden_sizes")
    parts = g.ops("split", product, results=3, axis=2, **({"sizes": widths} if widths else {}))
    mask = visible(node, node.optional(3), number_of(product.dims[1]))
    return attended(node, parts, heads, mask, node.optional(5))


def visible(node: Node, mask: Value | None, keys: Any) -> Value | None:
    """What may be seen, `[B, 1, 1 or L, keys]`, of numbers that are not 0 there, or of counts of keys."""
    if mask is None:
        return None
    g = node.g
    node.need(mask.rank in (1, 2, 3), f"a mask of rank {mask.rank}")
    if mask.rank == 1:
        # Counts of keys, one for each sequence; two or three numbers each are other forms.
        node.need(mask.dims == node.x(0).dims[:1], "a mask of starts and ends")
        places = g.op("iota", shape=[keys], dtype=mask.dtype)
        seen = g.op("lt", places, g.op("unsqueeze", mask, axes=[1]))
    else:
        seen = g.op("ne", mask, 0)
    return g.op("unsqueeze", seen, axes=[1, 2] if seen.rank == 2 else [1])


def attended(node: Node, parts: Any, heads: int, mask: Value | None, added: Value | None) -> Value:
    """Attention of q, k and v `[B, L, heads * size]`, as attributes say."""
    g = node.g
    # What is hidden counts -10000 there, and not at all here; rows that see nothing differ.
    node.ignore("mask_filter_value")
    q, k, v = parts
    if heads < 1:
        raise Refusal(DAMAGED, f"{node.op} has num_heads={heads}")
    settings: dict[str, Any] = {"heads": heads}
    if node.flag("unidirectional"):
        node.need(q.dims[1] == k.dims[1], "unidirectional queries beside other keys")
        settings["causal"] = True
    scale = node.float("scale", 0.0)
    if scale:
        settings["scale"] = scale
    if added is not None and mask is not None:
        added = g.op("where", mask, added, float("-inf"))
    shown = added if added is not None else mask
    return g.op("attention", q, k, v, *([] if shown is None else [shown]), **settings)
