"""Steps of optimisers, and what layers do while a model is trained."""

from __future__ import annotations

from openinfer.compiler.importers.graph_writer import Operand, Value
from openinfer.compiler.importers.onnx.items import number_of
from openinfer.compiler.importers.onnx.node import Node, Result, operator
from openinfer.compiler.importers.onnx.refusals import DAMAGED, Refusal

DOMAIN = "ai.onnx.preview.training"


def _tensors(node: Node, each: int) -> list[list[Value]]:
    """The inputs behind rate and step: so many for each tensor that is trained, kind by kind."""
    count, rest = divmod(len(node.inputs) - 2, each)
    if count < 1 or rest:
        raise Refusal(DAMAGED, f"{node.op} has {len(node.inputs)} inputs")
    places = range(2, 2 + count)
    return [[node.x(place + kind * count) for kind in range(each)] for place in places]


def _gradient(node: Node, x: Value, gradient: Value) -> Value:
    """The gradient with that of the norm of x."""
    norm = node.float("norm_coefficient", 0.0)
    if not norm:
        return gradient
    return node.g.op("add", gradient, node.g.op("mul", x, norm))


def _mixed(node: Node, old: Value, new: Operand, part: float) -> Value:
    """`part · old + (1 - part) · new`"""
    g = node.g
    return g.op("add", g.op("mul", old, part), g.op("mul", new, 1.0 - part))


def _first_step(node: Node) -> Value:
    """Whether nothing has been trained yet."""
    return node.g.op("le", node.x(1), 0)


def _by_kind(rows: list[tuple[Value, ...]]) -> list[Result]:
    return [value for kind in zip(*rows) for value in kind]


@operator("Momentum", domain=DOMAIN)
def momentum(node: Node) -> list[Result]:
    g, rate, alpha = node.g, node.x(0), node.float("alpha", 0.0)
    beta, mode = node.float("beta", 0.0), node.text("mode", "standard")
    node.expect("mode", "standard", "nesterov")
    factor = g.op("where", _first_step(node), 1.0, beta)
    rows: list[tuple[Value, ...]] = []
    for x, gradient, old in _tensors(node, 3):
        step = _gradient(node, x, gradient)
        new = g.op("add", g.op("mul", old, alpha), g.op("mul", step, factor))
        taken = new if mode == "standard" else g.op("add", step, g.op("mul", new, alpha))
        rows.append((g.op("sub", x, g.op("mul", taken, rate)), new))
    return _by_kind(rows)


@operator("Adagrad", domain=DOMAIN)
def adagrad(node: Node) -> list[Result]:
    g, decay, eps = node.g, node.float("decay_factor", 0.0), node.float("epsilon", 0.0)
    times = g.op("cast", node.x(1), to=node.x(0).dtype)
    rate = g.op("div", node.x(0), g.op("add", g.op("mul", times, decay), 1.0))
    rows: list[tuple[Value, ...]] = []
    for x, gradient, old in _tensors(node, 3):
        step = _gradient(node, x, gradient)
        new = g.op("add", old, g.op("mul", step, step))
        scaled = g.op("div", step, g.op("add", g.op("sqrt", new), eps))
        rows.append((g.op("sub", x, g.op("mul", scaled, rate)), new))
    return _by_kind(rows)


@operator("Adam", domain=DOMAIN)
def adam(node: Node) -> list[Result]:
    g, rate = node.g, node.x(0)
    alpha, beta, eps = (
        node.float(name, default)
        for name, default in (("alpha", 0.9), ("beta", 0.999), ("epsilon", 0.0))
    )
    post = node.float("norm_coefficient_post", 0.0)
    times = g.op("cast", node.x(1), to=rate.dtype)

    def missing(base: float) -> Value:
        """1 - base^T"""
        return g.op("sub", 1.0, g.op("exp", g.op("mul", g.op("log", _number(node, base)), times)))

    corrected = g.op("div", g.op("mul", rate, g.op("sqrt", missing(beta))), missing(alpha))
    rate = g.op("where", _first_step(node), rate, corrected)
    rows: list[tuple[Value, ...]] = []
    for x, gradient, mean, square in _tensors(node, 4):
        step = _gradient(node, x, gradient)
        mean = _mixed(node, mean, step, alpha)
        square = _mixed(node, square, g.op("mul", step, step), beta)
        taken = g.op("div", mean, g.op("add", g.op("sqrt", square), eps))
        new = g.op("sub", x, g.op("mul", taken, rate))
        rows.append((g.op("mul", new, 1.0 - post) if post else new, mean, square))
    return _by_kind(rows)


def _number(node: Node, value: float) -> Value:
    return node.const([value], node.x(0).dtype, "base")


def trained_batch_norm(node: Node) -> list[Result]:
    """With the statistics of the batch itself; what was measured before is mixed with them."""
    g, x, momentum = node.g, node.x(0), node.float("momentum", 0.9)
    axes = [0, *range(2, x.rank)]
    scale, bias, old_mean, old_variance = (node.x(place) for place in range(1, 5))
    mean = g.op("mean_axis", x, axes=axes)
    shape = [x.dims[1], *[1] * (x.rank - 2)]
    distance = g.op("sub", x, g.op("reshape", mean, shape=shape))
    variance = g.op("mean_axis", g.op("mul", distance, distance), axes=axes)
    y = g.op("batch_norm", x, mean, variance, scale, bias, eps=node.float("epsilon", 1e-5))
    return [
        y,
        _mixed(node, old_mean, mean, momentum),
        _mixed(node, old_variance, variance, momentum),
    ]


def trained_dropout(node: Node) -> list[Result]:
    """Elements are kept by chance, drawn anew in each step, and count more instead."""
    g, x = node.g, node.x(0)
    ratio = node.number(1) if node.there(1) else 0.5
    if not 0 <= ratio < 1:
        raise Refusal(DAMAGED, f"Dropout has the ratio {ratio}")
    shape = [number_of(dim) for dim in x.dims]
    seed = node.int("seed", 0)
    drawn = g.op("random_uniform", seed=seed, low=0.0, high=1.0, shape=shape, dtype="f32")
    kept = g.op("ge", drawn, float(ratio))
    y = g.op("mul", g.op("cast", kept, to=x.dtype), g.op("mul", x, 1.0 / (1.0 - ratio)))
    return [y, kept]
