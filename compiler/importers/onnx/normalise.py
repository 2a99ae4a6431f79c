"""Normalisation of batches, layers, groups and instances."""

from __future__ import annotations

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.onnx.items import number_of
from openinfer.compiler.importers.onnx.node import Node, Result, operator
from openinfer.compiler.importers.onnx.refusals import DAMAGED, Refusal
from openinfer.compiler.importers.onnx.training import trained_batch_norm

MOST_CHANNELS = 512
"""Of the window of an LRN; networks have 5."""


@operator("BatchNormalization")
def batch_normalization(node: Node) -> Result | list[Result]:
    x = node.x(0)
    node.ignore("momentum", "consumed_inputs", "is_test")
    node.expect("spatial", 1)
    if node.flag("training_mode"):
        return trained_batch_norm(node)
    node.need(
        not any(node.wants(place) for place in range(1, 5)),
        "statistics as results",
        "export the model in eval mode",
    )
    scale, bias, mean, variance = (node.x(place) for place in range(1, 5))
    return node.g.op("batch_norm", x, mean, variance, scale, bias, eps=node.float("epsilon", 1e-5))


@operator("InstanceNormalization")
def instance_normalization(node: Node) -> Result:
    x, scale, bias = node.x(0), node.x(1), node.x(2)
    return node.g.op("instance_norm", x, scale, bias, eps=node.float("epsilon", 1e-5))


@operator("LayerNormalization")
def layer_normalization(node: Node) -> Result | list[Result]:
    g, x, weight, bias = node.g, node.x(0), node.x(1), node.optional(2)
    axis = node.axis(node.int("axis", -1), x.rank)
    eps = node.float("epsilon", 1e-5)
    node.ignore("stash_type")
    shape = x.dims[axis:]
    results: list[Result] = []
    if weight.dims == shape and (bias is None or bias.dims == shape):
        rest = [] if bias is None else [bias]
        results.append(g.op("layer_norm", x, weight, *rest, axis=axis, eps=eps))
    else:
        y = g.op("mul", g.op("layer_norm", x, axis=axis, eps=eps), weight)
        results.append(y if bias is None else g.op("add", y, bias))
    if node.wants(1) or node.wants(2):
        axes = list(range(axis, x.rank))
        wide = x if x.dtype in ("f32", "f64") else g.op("cast", x, to="f32")
        variance = g.op("var", wide, axes=axes, keepdims=True, correction=0)
        results.append(g.op("mean_axis", wide, axes=axes, keepdims=True))
        results.append(g.op("rsqrt", g.op("add", variance, eps)))
    return results


@operator("RMSNormalization")
def rms_normalization(node: Node) -> Result:
    g, x, weight = node.g, node.x(0), node.x(1)
    axis = node.axis(node.int("axis", -1), x.rank)
    eps = node.float("epsilon", 1e-5)
    node.ignore("stash_type")
    if weight.dims == x.dims[axis:]:
        return g.op("rms_norm", x, weight, axis=axis, eps=eps)
    return g.op("mul", g.op("rms_norm", x, axis=axis, eps=eps), weight)


@operator("GroupNormalization")
def group_normalization(node: Node) -> Result:
    g, x, weight, bias = node.g, node.x(0), node.x(1), node.x(2)
    groups, eps = node.int("num_groups", 1), node.float("epsilon", 1e-5)
    node.ignore("stash_type")
    channels = x.dims[1]
    if weight.dims != (channels,):
        # Before version 21 weights belong to groups.
        each = channels // groups
        weight, bias = (_repeated(node, one, number_of(each), channels) for one in (weight, bias))
    return g.op("group_norm", x, weight, bias, groups=groups, eps=eps)


def _repeated(node: Node, x: Value, times: object, total: object) -> Value:
    wide = node.g.op("expand", node.g.op("unsqueeze", x, axes=[1]), shape=[x.dims[0], times])
    return node.g.op("reshape", wide, shape=[total])


@operator("LRN")
def local_response_normalization(node: Node) -> Result:
    g, x = node.g, node.x()
    size = node.int("size", 1)
    alpha, beta, bias = node.float("alpha", 1e-4), node.float("beta", 0.75), node.float("bias", 1.0)
    if size < 1 or x.rank < 3:
        raise Refusal(DAMAGED, f"LRN over {size} channels of a tensor of rank {x.rank}")
    # Each channel of the window is a slice of its own.
    node.need(size <= MOST_CHANNELS, f"size={size}")
    before = (size - 1) // 2
    squares = g.op("pad", g.op("mul", x, x), pads=[before, size - 1 - before], axes=[1])
    total: Value | None = None
    for place in range(size):
        part = g.op("slice", squares, axis=1, start=place, stop=number_of(x.dims[1] + place))
        total = part if total is None else g.op("add", total, part)
    assert total is not None
    scaled = g.op("add", g.op("mul", total, alpha / size), bias)
    return g.op("div", x, g.op("pow", scaled, beta))
