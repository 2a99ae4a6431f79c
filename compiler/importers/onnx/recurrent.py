"""Recurrent layers: as an op where it computes the same, else step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.onnx.activations import hard_sigmoid_of
from openinfer.compiler.importers.onnx.contrib import stored_tensor
from openinfer.compiler.importers.onnx.node import Node, Result, operator, stacked
from openinfer.compiler.importers.onnx.refusals import CONTENT, DAMAGED, LIMIT, Refusal
from openinfer.runtime.tensors import Tensor

MAX_STEPS = 256
"""Steps that are written out."""
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
_Function = Callable[[Value], Value]


@dataclass
class Layer:
    """What the inputs of a node say, with time first; an axis of directions in front of weights."""

    x: Value
    w: Value
    r: Value
    bias: Value | None
    lengths: Value | None
    states: list[Value]
    peepholes: Value | None
    hidden: int
    directions: list[str]
    batch_first: bool


def _layer(node: Node) -> Layer:
    direction = node.text("direction", "forward")
    node.expect("direction", "forward", "reverse", "bidirectional")
    directions = ["forward", "reverse"] if direction == "bidirectional" else [direction]
    g, batch_first = node.g, node.flag("layout")
    x, w, r = node.x(0), node.x(1), node.x(2)
    hidden = node.int("hidden_size", r.dims[2].constant or 0)
    if x.rank != 3 or w.rank != 3 or r.rank != 3 or hidden < 1 or r.dims[2].constant != hidden:
        raise Refusal(DAMAGED, f"{node.op} has tensors that do not fit each other")
    states = [node.optional(5)]
    if node.op == "LSTM":
        states.append(node.optional(6))
    if batch_first:
        x = g.op("permute", x, perm=[1, 0, 2])
        states = [one if one is None else g.op("permute", one, perm=[1, 0, 2]) for one in states]
    shape = [len(directions), x.dims[1], hidden]
    known = [
        g.op("expand", node.const([[[0.0]]], x.dtype, "zero"), shape=shape) if one is None else one
        for one in states
    ]
    peepholes = node.optional(7) if node.op == "LSTM" else None
    return Layer(
        x,
        w,
        r,
        node.optional(3),
        node.optional(4),
        known,
        peepholes,
        hidden,
        directions,
        batch_first,
    )


@operator("RNN", "GRU", "LSTM")
def recurrent(node: Node) -> list[Result]:
    layer = _layer(node)
    functions = node.texts("activations") or DEFAULTS[node.op] * len(layer.directions)
    clip = node.float_or_none("clip")
    before = node.flag("linear_before_reset")
    forget = node.flag("input_forget")
    alphas, betas = node.floats("activation_alpha"), node.floats("activation_beta")
    plain = functions == DEFAULTS[node.op] * len(layer.directions) and clip is None and not forget
    if node.op == "LSTM":
        plain = plain and layer.peepholes is None
    if plain and layer.lengths is None and (node.op == "LSTM" or (node.op == "GRU" and before)):
        return _as_op(node, layer)
    each = len(DEFAULTS[node.op])
    if len(functions) != each * len(layer.directions):
        raise Refusal(
            DAMAGED,
            f"{node.op} has {len(functions)} activations for {len(layer.directions)} directions",
        )
    outputs: list[Value] = []
    ended: list[list[Value]] = []
    for place, direction in enumerate(layer.directions):
        chosen = [
            _function(node, functions[place * each + i], alphas, betas, place * each + i)
            for i in range(each)
        ]
        cell = _Cell(node, layer, place, chosen, clip, before, forget)
        y, states = cell.run(direction == "reverse")
        outputs.append(y)
        ended.append(states)
    g = node.g
    y = stacked(g, outputs, 1)
    last = [stacked(g, column) for column in zip(*ended)]
    return _arranged(node, layer, y, last)


def _arranged(node: Node, layer: Layer, y: Value, last: list[Value]) -> list[Result]:
    """`Y` and the last states in the node's layout; y is `[T, D, B, H]`, states are `[D, B, H]`."""
    if layer.batch_first:
        y = node.g.op("permute", y, perm=[2, 0, 1, 3])
        last = [node.g.op("permute", one, perm=[1, 0, 2]) for one in last]
    return [y, *last]


def _reordered(node: Node, place: int, order: list[int], layer: Layer, suffix: str) -> Value:
    """The parts of a weight, one of `hidden` rows for each gate, in another order; directions in front where
    there are two. What the file holds is stored in that order, under a name of its own."""
    g, hidden, single = node.g, layer.hidden, len(layer.directions) == 1
    item, graph = node.item(place), node.reader.shared.file.proto.graph
    held = {proto.name for proto in graph.initializer}
    if not item.weight or item.name not in held:
        value = item.value
        parts = [
            g.op("slice", value, axis=1, start=one * hidden, stop=(one + 1) * hidden)
            for one in order
        ]
        joined = g.op("concat", *parts, axis=1)
        return g.op("squeeze", joined, axes=[0]) if single else joined
    stored = stored_tensor(node, place)
    rows = [one * hidden + row for one in order for row in range(hidden)]
    made = stored.storage[0, rows] if single else stored.storage[:, rows]
    name = f"{item.name}.{suffix}"
    while name in held:
        name += "_"
    shape = made.shape
    return g.weight(name, Tensor(stored.dtype, shape, made), stored.dtype.name, shape)


def _as_op(node: Node, layer: Layer) -> list[Result]:
    """`lstm` and `gru`: gates are i, o, f, c here and i, f, g, o there; z, r, h here and r, z, n there."""
    g, hidden = node.g, layer.hidden
    order, gates = ([0, 2, 3, 1], "ifgo") if node.op == "LSTM" else ([1, 0, 2], "rzn")
    weights = [_reordered(node, place, order, layer, gates) for place in (1, 2)]
    if layer.bias is not None:
        behind = [len(order) + one for one in order]
        weights += [
            _reordered(node, 3, half, layer, f"{gates}_{name}")
            for half, name in ((order, "ih"), (behind, "hh"))
        ]
    both = len(layer.directions) == 2
    states = layer.states if both else [g.op("squeeze", one, axes=[0]) for one in layer.states]
    operands = [layer.x, *states, *weights]
    direction = "bidirectional" if both else layer.directions[0]
    settings = {} if direction == "forward" else {"direction": direction}
    y, *last = g.ops(node.op.lower(), *operands, results=1 + len(layer.states), **settings)
    if both:
        y = g.op("reshape", y, shape=[*layer.x.dims[:2], 2, hidden])
        y = g.op("permute", y, perm=[0, 2, 1, 3])
    else:
        y = g.op("unsqueeze", y, axes=[1])
        last = [g.op("unsqueeze", one, axes=[0]) for one in last]
    return _arranged(node, layer, y, last)


def _function(
    node: Node, name: str, alphas: list[float] | None, betas: list[float] | None, place: int
) -> _Function:
    """An activation function by ONNX's name."""
    g = node.g
    alpha = alphas[place] if alphas and place < len(alphas) else None
    beta = betas[place] if betas and place < len(betas) else None
    match name.lower():
        case "sigmoid" | "tanh" | "relu" | "softplus" as op:
            return lambda x: g.op(op, x)
        case "elu":
            return lambda x: g.op("elu", x, alpha=1.0 if alpha is None else alpha)
        case "leakyrelu":
            return lambda x: g.op("relu", x, negative_slope=0.01 if alpha is None else alpha)
        case "hardsigmoid":
            a, b = 0.2 if alpha is None else alpha, 0.5 if beta is None else beta
            return lambda x: hard_sigmoid_of(node, x, a, b)
        case "affine":
            a, b = 1.0 if alpha is None else alpha, 0.0 if beta is None else beta
            return lambda x: g.op("add", g.op("mul", x, a), b)
        case "softsign":
            return lambda x: g.op("div", x, g.op("add", g.op("abs", x), 1.0))
        case _:
            node.refuse(f"the activation {name}")
            raise AssertionError


class _Cell:
    """One direction of a layer, a step after the other."""

    def __init__(
        self,
        node: Node,
        layer: Layer,
        direction: int,
        functions: list[_Function],
        clip: float | None,
        before: bool,
        forget: bool,
    ) -> None:
        self.node, self.layer, self.functions = node, layer, functions
        self.clip, self.before, self.forget = clip, before, forget
        g, hidden = node.g, layer.hidden
        self.w, self.r = (self._of(one, direction) for one in (layer.w, layer.r))
        gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[node.op]
        self.wb = self.rb = None
        if layer.bias is not None:
            bias = self._of(layer.bias, direction)
            self.wb = g.op("slice", bias, axis=0, start=0, stop=gates * hidden)
            self.rb = g.op("slice", bias, axis=0, start=gates * hidden, stop=2 * gates * hidden)
        self.states = [self._of(one, direction) for one in layer.states]
        self.peepholes: list[Value] = []
        if layer.peepholes is not None:
            whole = self._of(layer.peepholes, direction)
            self.peepholes = [self._part(whole, place) for place in range(3)]

    def _of(self, value: Value, direction: int) -> Value:
        g = self.node.g
        if value.dims[0].constant == 1:
            return g.op("squeeze", value, axes=[0])
        return g.op(
            "squeeze", g.op("slice", value, axis=0, start=direction, stop=direction + 1), axes=[0]
        )

    def _part(self, value: Value, place: int) -> Value:
        hidden = self.layer.hidden
        return self.node.g.op(
            "slice", value, axis=value.rank - 1, start=place * hidden, stop=(place + 1) * hidden
        )

    def run(self, backwards: bool) -> tuple[Value, list[Value]]:
        """All hidden states `[T, B, H]`, and the last states."""
        g, x = self.node.g, self.layer.x
        steps = x.dims[0].constant
        if steps is None:
            raise Refusal(
                CONTENT,
                f"{self.node.op} of this form over an axis of unknown length is not supported",
            )
        if not 0 < steps <= MAX_STEPS:
            raise Refusal(
                LIMIT,
                f"{self.node.op} of this form is written out for up to {MAX_STEPS} steps, not {steps}",
            )
        outputs: list[Value] = []
        for place in reversed(range(steps)) if backwards else range(steps):
            part = g.op("squeeze", g.op("slice", x, axis=0, start=place, stop=place + 1), axes=[0])
            before = self.states
            self.states = self._step(part)
            shown = self.states[0]
            if self.layer.lengths is not None:
                inside = g.op(
                    "reshape", g.op("gt", self.layer.lengths, place), shape=[x.dims[1], 1]
                )
                self.states = [
                    g.op("where", inside, new, old) for new, old in zip(self.states, before)
                ]
                shown = g.op("where", inside, shown, 0.0)
            outputs.append(shown)
        if backwards:
            outputs.reverse()
        y = stacked(g, outputs)
        return y, self.states

    def _linear(self, x: Value, w: Value, bias: Value | None) -> Value:
        return self.node.g.op("linear", x, w, *([] if bias is None else [bias]))

    def _apply(self, place: int, x: Value) -> Value:
        if self.clip is not None:
            x = self.node.g.op("clamp", x, min=-self.clip, max=self.clip)
        return self.functions[place](x)

    def _step(self, x: Value) -> list[Value]:
        match self.node.op:
            case "RNN":
                return self._rnn(x)
            case "GRU":
                return self._gru(x)
            case _:
                return self._lstm(x)

    def _rnn(self, x: Value) -> list[Value]:
        h = self.states[0]
        total = self.node.g.op(
            "add", self._linear(x, self.w, self.wb), self._linear(h, self.r, self.rb)
        )
        return [self._apply(0, total)]

    def _gru(self, x: Value) -> list[Value]:
        g, h, hidden = self.node.g, self.states[0], self.layer.hidden
        a, b = self._linear(x, self.w, self.wb), self._linear(h, self.r, self.rb)
        z = self._apply(0, g.op("add", self._part(a, 0), self._part(b, 0)))
        r = self._apply(0, g.op("add", self._part(a, 1), self._part(b, 1)))
        if self.before:
            inner = g.op("mul", r, self._part(b, 2))
        else:
            w = g.op("slice", self.r, axis=0, start=2 * hidden, stop=3 * hidden)
            bias = (
                None
                if self.rb is None
                else g.op("slice", self.rb, axis=0, start=2 * hidden, stop=3 * hidden)
            )
            inner = self._linear(g.op("mul", r, h), w, bias)
        n = self._apply(1, g.op("add", self._part(a, 2), inner))
        kept = g.op("mul", z, h)
        return [g.op("add", g.op("sub", n, g.op("mul", z, n)), kept)]

    def _lstm(self, x: Value) -> list[Value]:
        g, (h, c) = self.node.g, self.states
        total = g.op("add", self._linear(x, self.w, self.wb), self._linear(h, self.r, self.rb))
        i, o, f, n = (self._part(total, place) for place in range(4))
        if self.peepholes:
            i = g.op("add", i, g.op("mul", self.peepholes[0], c))
            f = g.op("add", f, g.op("mul", self.peepholes[2], c))
        i = self._apply(0, i)
        f = (
            g.op("sub", g.op("add", g.op("mul", i, 0.0), 1.0), i)
            if self.forget
            else self._apply(0, f)
        )
        c = g.op("add", g.op("mul", f, c), g.op("mul", i, self._apply(1, n)))
        if self.peepholes:
            o = g.op("add", o, g.op("mul", self.peepholes[1], c))
        return [g.op("mul", self._apply(0, o), self.functions[2](c)), c]
