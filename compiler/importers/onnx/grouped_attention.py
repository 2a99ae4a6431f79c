"""`GroupQueryAttention` of `com.microsoft`, of exported language models. Caches stay inputs and results."""

from __future__ import annotations

from typing import Any

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.onnx.contrib import DOMAIN
from openinfer.compiler.importers.onnx.items import number_of
from openinfer.compiler.importers.onnx.node import Node, Result, operator
from openinfer.compiler.importers.onnx.refusals import DAMAGED, Refusal
from openinfer.runtime.sizes import Size


@operator("GroupQueryAttention", domain=DOMAIN)
def group_query_attention(node: Node) -> list[Result]:
    """q `[B, L, heads * size]`, k and v `[B, L, groups * size]`, or all three in one tensor; past
    `[B, groups, P, size]`. Queries stand at the end of the keys; results are y, and all keys and values."""
    g, heads, groups = node.g, node.int("num_heads", 0), node.int("kv_num_heads", 0)
    if heads < 1 or groups < 1 or heads % groups:
        raise Refusal(DAMAGED, f"GroupQueryAttention of {heads} heads and {groups} groups")
    for place, what in ((9, "position_ids"), (10, "attention_bias"), (11, "head_sink")):
        node.need(not node.there(place), what)
    for name in ("smooth_softmax", "qk_output"):
        node.expect(name, 0, -1)
    node.need(not any(node.wants(place) for place in range(3, 6)), "scores as results")
    q, k, v = _parts(node, heads, groups)
    size = q.dims[-1].constant
    if not size or size % heads:
        raise Refusal(DAMAGED, f"GroupQueryAttention of width {q.dims[-1]} and {heads} heads")
    length = q.dims[1]
    past = node.optional(3)
    before = Size.of(0) if past is None else past.dims[2]
    places = _places(node, before, length)
    if node.flag("do_rotary"):
        cos, sin = (g.op("gather", node.x(place), places) for place in (7, 8))
        turn: dict[str, Any] = {"interleaved": True} if node.flag("rotary_interleaved") else {}
        q = g.op("rope", q, cos, sin, heads=heads, **turn)
        k = g.op("rope", k, cos, sin, heads=groups, **turn)
    else:
        node.ignore("rotary_interleaved")
    k, v = (_apart(node, one, groups) for one in (k, v))
    if past is not None:
        k, v = (g.op("concat", node.x(place), one, axis=2) for place, one in ((3, k), (4, v)))
    settings: dict[str, Any] = {"causal": True}
    if scale := node.float("scale", 0.0):
        settings["scale"] = scale
    if cap := node.float("softcap", 0.0):
        settings["softcap"] = cap
    if (window := node.int("local_window_size", -1)) > 0:
        settings["window"] = window
    y = g.op("attention", _apart(node, q, heads), k, v, **settings)
    y = g.op("transpose", y, perm=[0, 2, 1, 3])
    y = g.op("reshape", y, shape=[number_of(dim) for dim in q.dims])
    return [y, k, v]


def _parts(node: Node, heads: int, groups: int) -> list[Value]:
    q = node.x(0)
    node.need(q.rank == 3, f"queries of rank {q.rank}")
    if node.there(1):
        return [q, node.x(1), node.x(2)]
    width = q.dims[-1].constant
    if not width or width % (heads + 2 * groups):
        raise Refusal(DAMAGED, f"GroupQueryAttention of width {q.dims[-1]}")
    size = width // (heads + 2 * groups)
    sizes = [heads * size, groups * size, groups * size]
    return list(node.g.ops("split", q, results=3, axis=2, sizes=sizes))


def _places(node: Node, before: Size, length: Size) -> Value:
    """The positions of the new tokens. Sequences of other lengths than the tensors say would stand elsewhere:
    each `seqlens_k` must be the last position, else an index that is not 0 ends the step."""
    g = node.g
    last = g.op("iota", shape=[1], start=number_of(before + length - 1), dtype="i64")
    counts = g.op("cast", node.x(5), to="i64")
    short = g.op("sub", g.op("reshape", counts, shape=[-1]), last)
    nothing = g.op("gather", node.const([0], "i64", "no_padding"), short)
    nothing = g.op("max_axis", nothing, axes=[0], keepdims=True)
    places = g.op("iota", shape=[number_of(length)], start=number_of(before), dtype="i64")
    return g.op("add", places, nothing)


def _apart(node: Node, x: Value, heads: int) -> Value:
    """`[B, L, heads * size]` as `[B, heads, L, size]`."""
    g = node.g
    size = number_of(x.dims[-1] // heads)
    x = g.op("reshape", x, shape=[number_of(dim) for dim in x.dims[:-1]] + [heads, size])
    return g.op("transpose", x, perm=[0, 2, 1, 3])
