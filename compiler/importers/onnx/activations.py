"""Activation functions: by name where there is an op, else by their formula."""

from __future__ import annotations

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.onnx.node import Node, Result, operator


@operator("Relu")
def relu(node: Node) -> Result:
    return node.g.op("relu", node.x())


@operator("LeakyRelu")
def leaky_relu(node: Node) -> Result:
    return node.g.op("relu", node.x(), negative_slope=node.float("alpha", 0.01))


@operator("ThresholdedRelu")
def thresholded_relu(node: Node) -> Result:
    g, x = node.g, node.x()
    return g.op("where", g.op("gt", x, node.float("alpha", 1.0)), x, 0.0)


@operator("PRelu")
def prelu(node: Node) -> Result:
    g, x, slope = node.g, node.x(0), node.x(1)
    return g.op("where", g.op("lt", x, 0.0), g.op("mul", slope, x), x)


@operator("Elu")
def elu(node: Node) -> Result:
    return node.g.op("elu", node.x(), alpha=node.float("alpha", 1.0))


@operator("Celu")
def celu(node: Node) -> Result:
    return node.g.op("celu", node.x(), alpha=node.float("alpha", 1.0))


@operator("Selu")
def selu(node: Node) -> Result:
    g, x = node.g, node.x()
    alpha = node.float("alpha", 1.6732632423543772)
    gamma = node.float("gamma", 1.0507009873554805)
    if abs(alpha - 1.6732632423543772) < 1e-6 and abs(gamma - 1.0507009873554805) < 1e-6:
        return g.op("selu", x)
    return g.op("mul", g.op("elu", x, alpha=alpha), gamma)


@operator("Gelu")
def gelu(node: Node) -> Result:
    node.expect("approximate", "none", "tanh")
    return node.g.op("gelu", node.x(), approximate=node.text("approximate", "none"))


@operator("Mish")
def mish(node: Node) -> Result:
    return node.g.op("mish", node.x())


@operator("Softplus")
def softplus(node: Node) -> Result:
    return node.g.op("softplus", node.x())


@operator("Softsign")
def softsign(node: Node) -> Result:
    g, x = node.g, node.x()
    return g.op("div", x, g.op("add", g.op("abs", x), 1.0))


@operator("HardSigmoid")
def hard_sigmoid(node: Node) -> Result:
    return hard_sigmoid_of(node, node.x(), node.float("alpha", 0.2), node.float("beta", 0.5))


def hard_sigmoid_of(node: Node, x: Value, alpha: float, beta: float) -> Value:
    g = node.g
    # As a relu, which keeps NaN.
    return g.op("relu", g.op("add", g.op("mul", x, alpha), beta), clamp_max=1.0)


@operator("HardSwish")
def hard_swish(node: Node) -> Result:
    return node.g.op("hard_swish", node.x())


@operator("Swish")
def swish(node: Node) -> Result:
    g, x, alpha = node.g, node.x(), node.float("alpha", 1.0)
    if alpha == 1.0:
        return g.op("silu", x)
    return g.op("mul", x, g.op("sigmoid", g.op("mul", x, alpha)))


@operator("Shrink")
def shrink(node: Node) -> Result:
    g, x = node.g, node.x()
    bias, lambd = node.float("bias", 0.0), node.float("lambd", 0.5)
    if x.dtype[0] in "iu":
        wide = g.op("cast", x, to="f32")
        return g.op("cast", _shrunk(node, wide, bias, lambd), to=x.dtype)
    return _shrunk(node, x, bias, lambd)


def _shrunk(node: Node, x: Value, bias: float, lambd: float) -> Value:
    g = node.g
    above = g.op("where", g.op("gt", x, lambd), g.op("sub", x, bias), 0.0)
    return g.op("where", g.op("lt", x, -lambd), g.op("add", x, bias), above)


@operator("Softmax", "LogSoftmax")
def softmax(node: Node) -> Result:
    g, x = node.g, node.x()
    name = "softmax" if node.op == "Softmax" else "log_softmax"
    if node.version >= 13:
        return g.op(name, x, axis=node.axis(node.int("axis", -1), x.rank))
    # Before version 13 all axes from `axis` on count as one.
    axis = node.axis(node.int("axis", 1), x.rank)
    if axis == x.rank - 1:
        return g.op(name, x, axis=axis)
    flat = g.op("reshape", x, shape=[*x.dims[:axis], -1])
    return g.op("reshape", g.op(name, flat, axis=-1), shape=list(x.dims))


@operator("Hardmax")
def hardmax(node: Node) -> Result:
    g, x = node.g, node.x()
    axis = node.axis(node.int("axis", -1 if node.version >= 13 else 1), x.rank)
    if node.version < 13 and axis != x.rank - 1:
        flat = g.op("reshape", x, shape=[*x.dims[:axis], -1])
        return g.op("reshape", _hardmax(node, flat, axis), shape=list(x.dims))
    return _hardmax(node, x, axis)


def _hardmax(node: Node, x: Value, axis: int) -> Value:
    best = node.g.op("argmax_axis", x, axis=axis)
    return node.g.op("one_hot", best, depth=x.dims[axis], axis=axis, dtype=x.dtype)


@operator("LpNormalization")
def lp_normalization(node: Node) -> Result:
    g, x = node.g, node.x()
    axis = node.axis(node.int("axis", -1), x.rank)
    node.expect("p", 1, 2)
    if node.int("p", 2) == 1:
        length = g.op("sum_axis", g.op("abs", x), axes=[axis], keepdims=True)
    else:
        length = g.op("sqrt", g.op("sum_axis", g.op("mul", x, x), axes=[axis], keepdims=True))
    return g.op("where", g.op("eq", length, 0.0), g.op("mul", x, 0.0), g.op("div", x, length))
