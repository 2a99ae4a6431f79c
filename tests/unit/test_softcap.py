"""Scores of attention that a cap bounds: c · tanh(s / c), before the mask, in every form and kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_runs import Array, Draws

import openinfer as oi
from openinfer.runtime.errors import OpenInferError

DRAWS = Draws(15)
CAP = 1.5

KNOWN = "y = op attention(q, keys, values, far, heads=4, kv_heads=2, causal=true, softcap=1.5);"
GIVEN = (
    "y = op attention(q, keys, values, heads=4, kv_heads=2, causal=true, window=3, softcap=cap);"
)
PROGRAM = """
dynamic {{
    q: {x}[L, 32]; k: {y}[L, 16]; v: {y}[L, 16]; far: {x}[1, M];
    cap: f32;
}}
persistent {{ T: i32; K(t): {y}[16] @table; V(t): {y}[16] @table; }}
block entry {{
    cache.write k >> K[T..T + L];
    cache.write v >> V[T..T + L];
    assign keys: {y}[M, 16];
    assign values: {y}[M, 16];
    cache.read K[0..T + L] >> keys;
    cache.read V[0..T + L] >> values;
    cache.increment L T;
    {statement}
    return y;
}}
"""


def capped(
    q: Array, k: Array, v: Array, cap: float, bias: Array | float = 0.0, window: int = 1000
) -> Array:
    """Causal attention of q [n, 4 * 8] over k, v [n, 2 * 8] in f64, head by head."""
    count, found = len(q), list[Array]()
    away = np.arange(count)[:, None] - np.arange(count)
    seen = (away >= 0) & (away < window)
    for head in range(4):
        mine = slice(8 * head, 8 * head + 8)
        theirs = slice(8 * (head // 2), 8 * (head // 2) + 8)
        scores = cap * np.tanh(q[:, mine] @ k[:, theirs].T / np.sqrt(8) / cap) + bias
        weights = np.exp(np.where(seen, scores, -np.inf))
        found.append(weights / weights.sum(-1, keepdims=True) @ v[:, theirs])
    return np.concatenate(found, -1)


@pytest.mark.parametrize(
    ("device", "x", "y", "statement"),
    [
        ("simulator", "f32", "f16", KNOWN),
        ("simulator", "f32", "f32", GIVEN),
        ("cpu", "f32", "f16", KNOWN),
        ("cpu", "f32", "f32", GIVEN),
        ("vulkan", "f16", "f16", KNOWN),
        ("vulkan", "f32", "f32", GIVEN),
    ],
)
def test_a_cap_bounds_scores(
    device: str, x: str, y: str, statement: str, request: pytest.FixtureRequest
) -> None:
    """A prompt of 19, 1 and 2 tokens over one cache; scores are large enough to meet the cap."""
    if device == "vulkan":
        request.getfixturevalue("everything_on_vulkan")
    text = PROGRAM.format(x=x, y=y, statement=statement)
    dtypes = [np.dtype({"f32": "float32", "f16": "float16"}[name]) for name in (x, y)]
    q = (3 * DRAWS.normal(22, 32)).astype(dtypes[0])
    k, v = (DRAWS.normal(22, 16).astype(dtypes[1]) for _ in range(2))
    far = DRAWS.normal(1, 22).astype(dtypes[0])
    program: Any = oi.Simulator(text) if device == "simulator" else oi.compile(text, device=device)
    parts: list[Array] = []
    with program.make_executor() as executor:
        start = 0
        for length in (19, 1, 2):
            own = slice(start, start + length)
            start += length
            given = {"q": q[own], "k": k[own], "v": v[own], "far": far[:, :start]}
            step = executor.run(**given, cap=np.float32(CAP))
            parts.append(np.array(step["y"], np.float64))
    wide_q, wide_k, wide_v = (array.astype(np.float64) for array in (q, k, v))
    bias, window = (far.astype(np.float64), 99) if statement == KNOWN else (0.0, 3)
    expected = capped(wide_q, wide_k, wide_v, CAP, bias, window)
    assert np.abs(expected - capped(wide_q, wide_k, wide_v, 1e9, bias, window)).max() > 0.1
    limit = 4e-3 if x == "f16" else 1e-5
    np.testing.assert_allclose(np.concatenate(parts), expected, rtol=limit, atol=limit)


SPLIT = """
dynamic { q: f32[3, 8]; k: f32[5, 2, 4]; v: f32[5, 2, 4]; }
block entry { y = op attention(q, k, v, softcap=0.5); return y; }
"""


def test_the_form_that_is_split_and_strict_mathematics() -> None:
    given = {"q": DRAWS.normal(3, 8), "k": DRAWS.normal(5, 2, 4), "v": DRAWS.normal(5, 2, 4)}
    given = {name: array.astype(np.float32) for name, array in given.items()}
    expected = oi.Simulator(SPLIT).make_executor().run(**given)["y"]
    forms: list[dict[str, Any]] = [{}, {"strict_math": True}, {"precision": "bf16"}]
    for settings in forms:
        found = oi.compile(SPLIT, **settings).make_executor().run(**given)["y"]
        limit = 2e-2 if "precision" in settings else 1e-5
        np.testing.assert_allclose(found, expected, rtol=limit, atol=limit)


@pytest.mark.parametrize("cap", ["0.0", "-1.0", "inf", "nan"])
def test_a_cap_is_positive_and_finite(cap: str) -> None:
    with pytest.raises(OpenInferError, match=r"OI0\d\d\d.*\n?.*softcap"):
        oi.Simulator(SPLIT.replace("0.5", cap))


def test_a_cap_of_the_step_is_positive_and_finite() -> None:
    text = SPLIT.replace("v: f32", "c: f32; v: f32").replace("0.5", "c")
    given = {"q": np.ones((3, 8)), "k": np.ones((5, 2, 4)), "v": np.ones((5, 2, 4))}
    given = {name: array.astype(np.float32) for name, array in given.items()}
    for program in (oi.Simulator(text), oi.compile(text)):
        with program.make_executor() as executor:
            for cap in (0.0, -2.0, np.nan, np.inf):
                with pytest.raises(OpenInferError) as caught:
                    executor.run(**given, c=np.float32(cap))
                assert caught.value.code == "OI0602"
                assert "softcap" in str(caught.value)
