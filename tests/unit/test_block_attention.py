"""Attention over keys and values that lie in blocks: kernels that read them against the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.lowering.reference.twins import evaluate

KEYS = 75


def program(settings: str) -> str:
    """Four heads of 64 that share two of keys and values; values in f32 in the second result."""
    return f"""
    dynamic {{ q: f32[Q, 256]; k: u8[T, 136]; v: u8[T, 136]; }}
    block entry {{
        keys = op dequantize_blocks(k);
        values = op dequantize_blocks(v);
        y = op attention(q, keys, values, heads=4, kv_heads=2, {settings});
        more = op dequantize_blocks(k);
        plain = op dequantize_blocks(v);
        z = op attention(q, more, plain, heads=4, kv_heads=2, {settings});
        return y, z, plain;
    }}
    """


def draw(queries: int) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    rows = [rng.standard_normal((KEYS, 128)).astype(np.float32) * 2 for _ in range(2)]
    k, v = (evaluate("quantize_blocks", [x], ["f32"], {"format": "q8_0"})[0] for x in rows)
    return {"q": rng.standard_normal((queries, 256)).astype(np.float32), "k": k, "v": v}


@pytest.mark.parametrize(
    ("settings", "target"),
    [("causal=true", "avx512"), ("causal=true, window=20", "avx2"), ("softcap=2.0", "generic")],
)
def test_attention_over_blocks(settings: str, target: str) -> None:
    """One query, few of them, and several blocks; where a value has another reader it is unpacked."""
    text = program(settings)
    compiled = oi.compile(text, target=target).make_executor()
    simulator = oi.Simulator(text).make_executor()
    for queries in (1, 5, 40):
        given = draw(queries)
        found, wanted = compiled.run(**given), simulator.run(**given)
        for name in ("y", "z"):
            ours, theirs = np.asarray(found[name]), np.asarray(wanted[name])
            assert np.abs(ours - theirs).max() <= 2e-6 * np.abs(theirs).max(), (queries, name)


def test_blocks_that_a_query_does_not_see() -> None:
    """A scale that is infinite or NaN changes nothing where causal or a window hides it."""
    text = program("causal=true")
    given = draw(40)
    given["v"][KEYS - 3, 1] = 0x7C  # The high byte of an f16: infinite.
    given["k"][KEYS - 2, 1] = 0x7E  # NaN.
    found = np.asarray(oi.compile(text).make_executor().run(**given)["y"])
    wanted = np.asarray(oi.Simulator(text).make_executor().run(**given)["y"])
    assert np.isfinite(wanted[:37]).all()
    assert not np.isfinite(wanted[37:]).all()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
