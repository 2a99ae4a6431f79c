"""LSTM and GRU against PyTorch's layers with the same weights, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from op_runs import Array, by_program, by_twin, program

import openinfer as oi
from openinfer.dialects.ops.base import ArityError, OpDTypeError, OpError, SettingError, ShapeError
from openinfer.dialects.opset import TensorSpec, find, infer_outputs

RANDOM = np.random.default_rng(5)


@dataclass
class Layer:
    """Operands and settings of one layer, with what PyTorch makes of them."""

    operands: list[Array]
    settings: dict[str, Any]
    expected: list[Array]


def layer(
    kind: str, batch: int | None, *, both: bool, first: bool, bias: bool, hidden: int = 5
) -> Layer:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.manual_seed(1)
    ways = 2 if both else 1
    module: Any = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[kind](
        3, hidden, bidirectional=both, bias=bias, batch_first=first
    ).double()
    shape = (4, 3) if batch is None else (batch, 4, 3) if first else (4, batch, 3)
    x = RANDOM.normal(size=shape)
    lead = (ways, hidden) if batch is None else (ways, batch, hidden)
    states = [RANDOM.normal(size=lead) for _ in range(2 if kind == "lstm" else 1)]
    tensors = [torch.from_numpy(state) for state in states]
    with torch.no_grad():
        y, last = module(torch.from_numpy(x), tuple(tensors) if kind == "lstm" else tensors[0])
    weights = {name: value.detach().numpy() for name, value in module.state_dict().items()}
    operands = [x, *(states if both else [state[0] for state in states])]
    for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
        if name in weights:
            backward = weights.get(f"{name}_reverse", weights[name])
            operands.append(np.stack([weights[name], backward]) if both else weights[name])
    ends = [end.numpy() for end in (last if kind == "lstm" else (last,))]
    expected = [y.numpy(), *(ends if both else [end[0] for end in ends])]
    direction = "bidirectional" if both else "forward"
    return Layer(operands, {"direction": direction, "batch_first": first}, expected)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("batch", [None, 1, 3])
@pytest.mark.parametrize("both", [False, True])
def test_twins_are_pytorchs_layers(kind: str, batch: int | None, both: bool):
    for first in (False, True):
        for bias in (False, True):
            row = layer(kind, batch, both=both, first=first, bias=bias)
            found = by_twin(kind, row.operands, row.settings, len(row.expected))
            for ours, theirs in zip(found, row.expected, strict=True):
                np.testing.assert_allclose(ours, theirs, atol=1e-12)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize(("both", "hidden"), [(False, 37), (True, 6)])
def test_compiled_layers_are_pytorchs(kind: str, both: bool, hidden: int):
    row = layer(kind, 3, both=both, first=False, bias=True, hidden=hidden)
    state = (*(["2"] if both else []), "B", str(hidden))
    names: dict[int, Any] = {0: ("T", "B", "3"), 1: state}
    if kind == "lstm":
        names[2] = state
    for dtype, limit in (("f64", 1e-12), ("f32", 2e-6)):
        count = len(row.expected)
        pairs = by_program(kind, row.operands, row.settings, count, names=names, dtype=dtype)
        for (_, ours), theirs in zip(pairs, row.expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=limit)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_reverse_is_forward_of_the_reversed_sequence(kind: str):
    row = layer(kind, 2, both=False, first=False, bias=True)
    count = len(row.expected)
    turned = [row.operands[0][::-1].copy(), *row.operands[1:]]
    backward = by_twin(kind, turned, {"direction": "reverse"}, count)
    np.testing.assert_array_equal(backward[0][::-1], by_twin(kind, row.operands, {}, count)[0])


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_states_carry_a_sequence_over_its_parts(kind: str):
    """A stream that is cut anywhere gives the same as the whole: one program for every length."""
    row = layer(kind, 2, both=False, first=False, bias=True)
    count = len(row.expected)
    states = count - 1
    names: dict[int, Any] = {0: ("T", "2", "3")}
    text, tensors = program(kind, row.operands, {}, count, names)
    with oi.compile(oi.graph(text), None).make_executor() as executor:
        carried = {f"a{i}": row.operands[i] for i in range(1, 1 + states)}
        found: list[Array] = []
        for part in np.split(row.operands[0], [1, 3]):
            results = executor.run(**{**tensors, **carried, "a0": part.copy()})
            found.append(np.asarray(results["r0"]))
            carried = {f"a{i}": np.asarray(results[f"r{i}"]) for i in range(1, 1 + states)}
    np.testing.assert_allclose(np.concatenate(found), row.expected[0], atol=1e-12)


def test_saturated_gates_stay_finite():
    x = np.full((2, 1, 1), 1e4, np.float32)
    state = np.zeros((1, 1), np.float32)
    for sign in (1, -1):
        weights = [np.full((4, 1), sign, np.float32), np.zeros((4, 1), np.float32)]
        for simulated, compiled in by_program("lstm", [x, state, state, *weights], None, 3):
            assert np.isfinite(compiled).all()
            np.testing.assert_allclose(compiled, simulated, atol=1e-6)


X = TensorSpec.of("f32", [4, 2, 3])
H = TensorSpec.of("f32", [2, 5])
LSTM = [X, H, H, TensorSpec.of("f32", [20, 3]), TensorSpec.of("f32", [20, 5])]
GRU = [X, H, TensorSpec.of("f32", [15, 3]), TensorSpec.of("f32", [15, 5])]


@pytest.mark.parametrize(
    ("op", "operands", "settings", "outputs", "error", "message"),
    [
        ("lstm", LSTM, {}, 4, ArityError, "3 outputs, got 4"),
        ("gru", GRU, {}, 3, ArityError, "2 outputs, got 3"),
        ("lstm", LSTM[:4], {}, 1, ArityError, "5 to 7 operands"),
        ("lstm", [X, H, H, *GRU[2:]], {}, 1, ShapeError, "w_hh has shape [15, 5]"),
        ("gru", [X, H, TensorSpec.of("f32", [15, 4]), GRU[3]], {}, 1, ShapeError, "w_ih has shape"),
        ("gru", [X, TensorSpec.of("f32", [3, 5]), *GRU[2:]], {}, 1, ShapeError, "h0 has shape [3"),
        ("gru", [*GRU, TensorSpec.of("f32", [5])], {}, 1, ShapeError, "b_ih has shape [5]"),
        ("gru", GRU, {"direction": "bidirectional"}, 1, ShapeError, "w_hh is f32[15, 5]"),
        ("gru", GRU, {"direction": "up"}, 1, SettingError, '"forward" or "reverse"'),
        ("gru", [H, H, *GRU[2:]], {}, 1, ShapeError, "w_ih has shape"),
        ("gru", [X, TensorSpec.of("i32", [2, 5]), *GRU[2:]], {}, 1, OpDTypeError, "h0 is i32"),
        ("gru", [TensorSpec.of("f32", [3]), *GRU[1:]], {}, 1, ShapeError, "x is f32[3]"),
    ],
)  # fmt: skip
def test_refusals(
    op: str,
    operands: list[TensorSpec],
    settings: dict[str, Any],
    outputs: int,
    error: type[OpError],
    message: str,
):
    spec = find(op)
    assert spec is not None
    with pytest.raises(error) as raised:
        infer_outputs(spec, operands, settings, outputs)
    assert message in raised.value.message


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize(("direction", "lead"), [("forward", ""), ("bidirectional", "2, ")])
def test_a_number_stands_for_a_whole_state(kind: str, direction: str, lead: str) -> None:
    gates, ways = {"lstm": 4, "gru": 3}[kind], (2,) if lead else ()
    states, numbers = ("h, c", "0, 0.5") if kind == "lstm" else ("h", "0")
    text = f"""
    dynamic {{ x: f32[T, B, 3]; h: f32[{lead}B, 5]; c: f32[{lead}B, 5]; }}
    volatile {{ wi: f32[{lead}{5 * gates}, 3] @init(0.125); wh: f32[{lead}{5 * gates}, 5] @init(0.25); }}
    block entry {{
        y = op {kind}(x, {states}, wi, wh, direction="{direction}");
        z = op {kind}(x, {numbers}, wi, wh, direction="{direction}");
        return y, z;
    }}
    """
    h = np.zeros((*ways, 2, 5), np.float32)
    x = RANDOM.normal(size=(4, 2, 3)).astype(np.float32)
    for executor in (oi.Simulator(text).make_executor(), oi.compile(text).make_executor(1)):
        found = executor.run(x=x, h=h, c=h + np.float32(0.5))
        np.testing.assert_array_equal(np.asarray(found["y"]), np.asarray(found["z"]))
        assert np.abs(np.asarray(found["y"])).max() > 0.1


@pytest.mark.parametrize("make", [oi.Simulator, oi.compile])
def test_both_directions_of_a_state_dict(make: Any) -> None:
    """PyTorch has a tensor for each direction; `stack` makes one of them."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.manual_seed(2)
    module = torch.nn.LSTM(3, 5, batch_first=True, bidirectional=True)
    shapes = {"weight_ih": "20, 3", "weight_hh": "20, 5", "bias_ih": "20", "bias_hh": "20"}
    declared = "".join(
        f'{name}{end}: f32[{shape}] @ref("{name}_l0{end}"); '
        for name, shape in shapes.items()
        for end in ("", "_reverse")
    )
    stacked = ", ".join(f"stack({name}, {name}_reverse)" for name in shapes)
    text = (
        f"dynamic {{ x: f32[B, L, 3]; }} constant {{ {declared} }} block entry {{ y, h, c = op lstm("
        f'x, 0, 0, {stacked}, direction="bidirectional", batch_first=true); return y; }}'
    )
    x = torch.randn(2, 4, 3)
    with torch.no_grad():
        expected = module(x)[0].numpy()
    found = make(oi.graph(text), module.state_dict()).make_executor().run(x=x.numpy())["y"]
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-6)
