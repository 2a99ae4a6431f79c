"""The handler of what `nn.TransformerEncoderLayer` becomes without gradients: one op for all of it."""

from __future__ import annotations

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.torch.handlers import Call, handles

_BY_QUERY, _BY_KEY, _OF_HEADS = range(3)
"""What axes a mask has: `[L, L]`, `[B, L]`, or `[B, heads, L, L]`."""


@handles("aten._transformer_encoder_layer_fwd.default")
def encoder_layer(call: Call) -> Value:
    """Attention of a sequence `[B, L, D]` to itself and two products, each with its norm.

    A sequence of which nothing may be seen gets 0 from attention; PyTorch gives NaN.
    """
    g, x = call.g, call.tensor("src")
    call.skip("embed_dim")
    first, eps = call.flag("norm_first"), float(call.number("eps"))

    def norm(h: Value, place: int) -> Value:
        affine = (call.tensor(f"norm_{name}_{place}") for name in ("weight", "bias"))
        return g.op("layer_norm", h, *affine, eps=eps)

    def product(h: Value, name: str) -> Value:
        weight, bias = (call.tensor(name.format(part)) for part in ("weight", "bias"))
        return g.op("linear", h, weight, bias)

    h = product(norm(x, 1) if first else x, "qkv_{}")
    q, k, v = g.ops("split", h, results=3, axis=2)
    h = g.op("attention", q, k, v, *_visible(call), heads=call.integer("num_heads"))
    x = g.op("add", x, product(h, "proj_{}"))
    x = x if first else norm(x, 1)
    h = product(norm(x, 2) if first else x, "ffn_{}_1")
    h = g.op("gelu" if call.flag("use_gelu") else "relu", h)
    x = g.op("add", x, product(h, "ffn_{}_2"))
    return x if first else norm(x, 2)


def _visible(call: Call) -> list[Value]:
    """What may be attended to; PyTorch's mask says what may not. One of floats holds 0 and -inf."""
    call.must("mask_type", None, _BY_QUERY, _BY_KEY, _OF_HEADS)
    masks = call.maybe("mask")
    if call.raw("mask_type") == _BY_KEY:
        masks = [call.g.op("unsqueeze", mask, axes=[1, 2]) for mask in masks]
    return [call.g.op("not", call.cast(mask, "bool")) for mask in masks]
