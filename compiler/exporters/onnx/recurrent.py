"""LSTM and GRU in ONNX, whose gates stand in another order: i, o, f, g and z, r, n."""

from __future__ import annotations

from openinfer.compiler.exporters.onnx.calls import Call, op
from openinfer.compiler.exporters.onnx.graph import NoForm, Value

_ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}
"""Our gates in the order of ONNX."""


@op("lstm", "gru")
def _recurrent(call: Call) -> list[str]:
    g, order = call.g, _ORDER[call.op]
    states = 2 if call.op == "lstm" else 1
    x, *rest = call.operands
    if x.rank != 3:
        raise NoForm("a sequence without batches has no form in ONNX")
    direction = str(call.settings["direction"])
    both = direction == "bidirectional"
    starts, weights = rest[:states], rest[states:]
    hidden = starts[0].dims[-1].constant
    if hidden is None:
        raise NoForm("the size of the states must be known")

    def sided(value: Value, name: str) -> str:
        """With an axis for the directions."""
        return name if both else call.node("Unsqueeze", name, g.ints([0]))

    def ordered(value: Value) -> str:
        axis = 1 if both else 0
        sizes = g.ints([hidden] * len(order))
        parts = g.several("Split", value.name, sizes, stems=["gate"] * len(order), axis=axis)
        return sided(value, call.node("Concat", *(parts[place] for place in order), axis=axis))

    w, r, *biases = (ordered(value) for value in weights)
    bias = ""
    if biases:
        if len(biases) == 1:
            biases.append(call.node("Mul", biases[0], call.number(0.0)))
        bias = call.node("Concat", *biases, axis=1)
    batches = bool(call.settings["batch_first"])
    sequence = call.node("Transpose", x.name, perm=[1, 0, 2]) if batches else x.name
    given = [sequence, w, r, bias, "", *(sided(start, start.name) for start in starts)]
    extra = {"linear_before_reset": 1} if call.op == "gru" else {}
    y, *last = g.several(
        call.op.upper(),
        *given,
        stems=["y", *["state"] * states],
        hidden_size=hidden,
        direction=direction,
        **extra,
    )
    # [T, directions, B, H]
    places = [2, 0, 1, 3] if batches else [0, 2, 1, 3]
    y = call.node("Transpose", y, perm=places)
    size = hidden * (2 if both else 1)
    ends = [g.node("Reshape", y, g.ints([0, 0, size]), stem=call.stems[0])]
    for stem, state in zip(call.stems[1:], last):
        if both:
            ends.append(g.node("Identity", state, stem=stem))
        else:
            ends.append(g.node("Squeeze", state, g.ints([0]), stem=stem))
    return ends[: len(call.results)]
