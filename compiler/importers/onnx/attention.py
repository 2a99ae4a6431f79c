"""Attention as an op of ours where that computes the same, else by the body that ONNX gives."""

from __future__ import annotations

from typing import Any

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.onnx.bodies import body_of
from openinfer.compiler.importers.onnx.node import Node, Result, operator
from openinfer.compiler.importers.onnx.refusals import DAMAGED, OPERATOR, Refusal

_TAKEN = {
    *("q_num_heads", "kv_num_heads", "scale", "is_causal", "softcap"),
    *("softmax_precision", "qk_matmul_output_mode"),
}


@operator("Attention")
def attention(node: Node) -> Result | list[Result]:
    q, k, v = node.x(0), node.x(1), node.x(2)
    heads, groups = node.int("q_num_heads", 0), node.int("kv_num_heads", 0)
    if not _plain(node, q, k, v, heads):
        return _by_body(node)
    settings: dict[str, Any] = {}
    scale = node.float_or_none("scale")
    if scale is not None:
        settings["scale"] = scale
    if node.flag("is_causal"):
        settings["causal"] = True
    cap = node.float("softcap", 0.0)
    if cap:
        settings["softcap"] = cap
    if q.rank == 3:
        settings["heads"] = heads
        if groups != heads:
            settings["kv_heads"] = groups
    node.ignore("softmax_precision", "qk_matmul_output_mode")
    mask = node.optional(3)
    return node.g.op("attention", q, k, v, *([] if mask is None else [mask]), **settings)


def _plain(node: Node, q: Value, k: Value, v: Value, heads: int) -> bool:
    """Whether `attention` says all of it: no cache, no scores as results, no mask of bools."""
    if not set(node.attributes) <= _TAKEN:
        return False
    if q.rank != k.rank or k.rank != v.rank or q.rank not in (3, 4):
        return False
    if any(node.there(place) for place in range(4, 7)) or any(node.wants(i) for i in range(1, 4)):
        return False
    if q.rank == 3 and heads < 1:
        raise Refusal(DAMAGED, "Attention of three axes needs q_num_heads and kv_num_heads")
    if q.dtype not in ("f32", "f64") or node.int("softmax_precision", 1) not in (1, 11):
        return False
    # ONNX counts keys from the first query, ours stand before the last one.
    if node.flag("is_causal") and (q.dims[-2] != k.dims[-2] or node.there(3)):
        return False
    if not node.there(3):
        return True
    mask = node.item(3)
    return mask.dtype == q.dtype and mask.rank >= 2 and mask.dims[-1] == k.dims[-2]


def _by_body(node: Node) -> list[Result]:
    function = body_of(node)
    if function is None:
        raise Refusal(OPERATOR, f"operator {node.op} is not supported")
    return [*node.reader.call(node, function)]
