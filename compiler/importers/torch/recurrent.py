"""Handlers of LSTM, GRU and plain recurrent layers: one op for each layer, both directions in one."""

from __future__ import annotations

from typing import Any

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.torch.handlers import REFUSALS, Call, handles
from openinfer.compiler.importers.torch.refusals import Refused
from openinfer.compiler.importers.torch.shapes import sliced

_PACKED = ("a packed sequence", "give padded sequences, and choose the last step by its index")
for _name in (
    "lstm.data",
    "gru.data",
    "rnn_tanh.data",
    "rnn_relu.data",
    "_pack_padded_sequence.default",
):
    REFUSALS[f"aten.{_name}"] = _PACKED


def _layers(call: Call) -> list[list[list[Value]]]:
    """The weights as `[layer][direction]`: w_ih, w_hh, and the biases where there are any."""
    flat = call.tensors("params")
    directions = 2 if call.flag("bidirectional") else 1
    count = call.integer("num_layers")
    each = 4 if call.flag("has_biases") else 2
    if len(flat) != count * directions * each:
        raise Refused("projections (proj_size) of the hidden state")
    parts = [flat[begin : begin + each] for begin in range(0, len(flat), each)]
    return [parts[directions * layer : directions * (layer + 1)] for layer in range(count)]


def _recurrent(call: Call, op: str, states: list[Value]) -> tuple[Value, ...]:
    """The last layer's sequence, and each state after the last step, of all layers and directions."""
    g = call.g
    call.skip("dropout")
    if call.flag("train") and float(call.number("dropout")):
        raise Refused("dropout of training is random", "export the module in eval mode: .eval()")
    settings: dict[str, Any] = {"batch_first": True} if call.flag("batch_first") else {}
    layers = _layers(call)
    directions = len(layers[0])
    if directions == 2:
        settings["direction"] = "bidirectional"
    x = call.tensor("input")
    if x.rank == 2:
        settings.pop("batch_first", None)
    ends: list[list[Value]] = [[] for _ in states]
    for layer, weights in enumerate(layers):
        begin = [_layer_state(call, state, layer, directions) for state in states]
        if directions == 1:
            arguments = weights[0]
        else:
            arguments = [g.op("stack", one, other) for one, other in zip(*weights)]
        x, *last = g.ops(op, x, *begin, *arguments, results=1 + len(states), **settings)
        for place, value in enumerate(last):
            ends[place].append(value if directions == 2 else g.op("unsqueeze", value, axes=[0]))
    found = (values[0] if len(values) == 1 else g.op("concat", *values) for values in ends)
    return x, *found


def _layer_state(call: Call, state: Value, layer: int, directions: int) -> Value:
    """The first states of a layer; without an axis of directions where there is one direction."""
    part = sliced(call.g, state, 0, layer * directions, (layer + 1) * directions)
    return part if directions == 2 else call.g.op("squeeze", part, axes=[0])


@handles("aten.lstm.input")
def lstm(call: Call) -> tuple[Value, ...]:
    return _recurrent(call, "lstm", call.tensors("hx"))


@handles("aten.gru.input")
def gru(call: Call) -> tuple[Value, ...]:
    return _recurrent(call, "gru", [call.tensor("hx")])
