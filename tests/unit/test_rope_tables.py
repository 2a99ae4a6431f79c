"""Rotation by tables of cosines and sines, which a program makes of positions, sizes and metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from op_runs import Array, Draws, by_program, by_twin

import openinfer as oi
from openinfer.runtime.errors import OpenInferError

DRAWS = Draws(21)


def tables(places: Array, pairs: int) -> tuple[Array, Array]:
    angles = places[..., None] * 10000.0 ** (-np.arange(pairs) / pairs)
    return np.cos(angles), np.sin(angles)


@pytest.mark.parametrize(
    ("shape", "places", "settings", "dims"),
    [
        ((5, 24), (5,), {"heads": 3}, 8),
        ((2, 5, 24), (2, 5), {"heads": 3, "interleaved": True}, 6),
        ((2, 3, 5, 8), (2, 5), {}, 4),
        ((2, 5, 3, 8), (1, 5), {"layout": "blhd", "interleaved": True}, 8),
    ],
)
def test_tables_turn_as_positions_do(
    shape: tuple[int, ...], places: tuple[int, ...], settings: dict[str, Any], dims: int
) -> None:
    x, at = DRAWS.normal(*shape), np.arange(np.prod(places)).reshape(places) * 7
    (expected,) = by_twin("rope", [x, at], {**settings, "dims": dims})
    operands = [x, *tables(at, dims // 2)]
    found = [*by_twin("rope", operands, settings), *by_program("rope", operands, settings)[0]]
    for value in found:
        np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12)


# What language models do with angles: frequency factors, a linear scale, the ramp and the magnitude of yarn.
SCALED = """
dynamic { x: f32[L, 2 * 16]; at: i32[L, 1]; }
constant {
    base: f64 @ref("rope.freq_base") @init(10000);
    factor: f64 @ref("rope.scaling.factor") @init(1);
    slow: f64 @init(1);  low: f64 @init(1);  high: f64 @init(4);
    per_pair: f64[n/2] @ref("rope_freqs.weight") @init(1);
}
size n = 12;
block entry {
    i = op iota(shape=[n/2], dtype=f64);
    count = op fill(i, value=n);
    twice = op mul(i, -2.0);
    exponent = op div(twice, count);
    power = op pow(base, exponent);
    theta = op div(power, per_pair);

    width = op sub(high, low);
    above = op sub(i, low);
    ramp = op div(above, width);
    slowed = op clamp(ramp, min=0.0, max=1.0);      // 0: as trained, 1: all of the scale
    kept = op sub(1.0, slowed);
    scaled = op div(theta, factor);
    a = op mul(scaled, slowed);
    b = op mul(theta, kept);
    mixed = op add(a, b);

    logarithm = op log(factor);
    grown = op mul(logarithm, 0.1);
    magnitude = op add(grown, slow);
    place = op cast(at, to=f64);
    angle = op mul(place, mixed);
    c = op cos(angle);
    s = op sin(angle);
    cosine = op mul(c, magnitude);
    sine = op mul(s, magnitude);
    y = op rope(x, cos=cosine, sin=sine, heads=2, interleaved=true);
    return y;
}
"""


def scaled(x: Array, at: Array, base: float, factor: float, per_pair: Array) -> Array:
    """The same in NumPy, pair by pair."""
    i = np.arange(6)
    theta = base ** (-2 * i / 12) / per_pair
    slowed = np.clip((i - 1) / 3, 0, 1)
    theta = theta / factor * slowed + theta * (1 - slowed)
    angle = at * theta
    phase = (np.cos(angle) + 1j * np.sin(angle)) * (1 + 0.1 * np.log(factor))
    y = x.astype(np.float64).reshape(len(x), 2, 16).copy()
    turned = (y[..., 0:12:2] + 1j * y[..., 1:12:2]) * phase[:, None]
    y[..., 0:12:2], y[..., 1:12:2] = turned.real, turned.imag
    return y.reshape(x.shape)


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("device", ["simulator", "cpu", "vulkan"])
def test_scaled_angles(
    device: str, held: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A package has the numbers, or `@init` stands in for them."""
    if device == "vulkan":
        request.getfixturevalue("vulkan")
    base, factor, per_pair = 10000.0, 1.0, np.ones(6)
    model = None
    if held:
        base, factor, per_pair = 500000.0, 4.0, 1 + np.arange(6.0)
        content = oi.OinfContent(
            metadata={"rope.freq_base": base, "rope.scaling.factor": factor},
            tensors={"rope_freqs.weight": per_pair},
        )
        oi.write_oinf(content, tmp_path / "model.oinf")
        model = oi.open_model(tmp_path / "model.oinf")
    x, at = DRAWS.normal(7, 32).astype(np.float32), np.arange(7, dtype=np.int32)[:, None] * 900
    program: Any = oi.Simulator(SCALED, model) if device == "simulator" else None
    program = program or oi.compile(SCALED, model, device=device)
    with program.make_executor() as executor:
        found = np.array(executor.run(x=x, at=at)["y"])
    np.testing.assert_allclose(found, scaled(x, at, base, factor, per_pair), 1e-5, 1e-5)


LAYERS = """
dynamic { x: f32[L, 32]; at: i32[L, 1]; }
constant { W(l): f32[32, 32] @pattern("w.{l}"); }
block entry {
    assign h: f32[L, 32];
    transfer x >> h;
    loop layers (l in 0..3) {
        place = op cast(at, to=f32);
        i = op iota(shape=[8], dtype=f32);
        steps = op mul(i, -1.1);
        theta = op exp(steps);
        angle = op mul(place, theta);
        c = op cos(angle);
        s = op sin(angle);
        q = op matmul(h, W[l]);
        h = op rope(q, c, s, heads=2);
    }
    return h;
}
"""


def test_a_table_is_made_once_for_all_layers() -> None:
    """It stands in front of the loop, where `hoist-invariants` has put it."""
    tensors = {f"w.{n}": DRAWS.normal(32, 32).astype(np.float32) / 4 for n in range(3)}
    program = oi.compile(LAYERS, tensors)
    text = str(program.show("linalg"))
    loop = text.index("scf.for")
    assert text.index("math.cos") < loop
    assert "math.cos" not in text[loop:]
    x, at = DRAWS.normal(4, 32).astype(np.float32), np.arange(4, dtype=np.int32)[:, None]
    expected = oi.Simulator(LAYERS, tensors).make_executor().run(x=x, at=at)["h"]
    np.testing.assert_allclose(program.make_executor().run(x=x, at=at)["h"], expected, 1e-5, 1e-5)


X = "x: f32[5, 32];"


@pytest.mark.parametrize(
    ("declared", "call", "said"),
    [
        ("c: f32[5, 8]; s: f32[5, 4];", "rope(x, c, s, heads=2)", "have different shapes"),
        ("c: f32[4, 8]; s: f32[4, 8];", "rope(x, c, s, heads=2)", "does not broadcast to"),
        ("c: f32[5, 9]; s: f32[5, 9];", "rope(x, c, s, heads=2)", "each of up to 8 pairs"),
        ("c: f32; s: f32;", "rope(x, c, s, heads=2)", "each of up to 8 pairs"),
        ("c: f32[5, n]; s: f32[5, n];", "rope(x, c, s, heads=2)", "is not known"),
        ("c: i32[5, 8]; s: i32[5, 8];", "rope(x, c, s, heads=2)", "cos is i32"),
        ("c: f32[5, 8]; s: f32[5, 8];", "rope(x, c, s, heads=2, dims=8)", "turns 16 elements"),
        ("c: f32[5, 8]; s: f32[5, 8];", "rope(x, c, s, heads=2, base=500.0)", "base makes angles"),
        ("c: f32[5, 8];", "rope(x, cos=c, heads=2)", "the positions are f32"),
    ],
)
def test_tables_that_do_not_fit(declared: str, call: str, said: str) -> None:
    text = f"dynamic {{ {X} {declared} }} block entry {{ y = op {call}; return y; }}"
    with pytest.raises(OpenInferError, match=said):
        oi.compile(text)
