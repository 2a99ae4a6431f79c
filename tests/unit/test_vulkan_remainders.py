"""The remainder of floats on a Vulkan device: exact, whatever the exponents are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi

TEXT = """
dynamic { x: DTYPE[N]; y: DTYPE[N]; }
block entry {
    assign a: DTYPE[N]; assign b: DTYPE[N];
    op rem(x, y) >> a; op floor_mod(x, y) >> b;
    return a, b;
}
"""
WORDS = {
    "f16": (np.float16, np.uint16),
    "f32": (np.float32, np.uint32),
    "f64": (np.float64, np.uint64),
}


@pytest.mark.parametrize("dtype", sorted(WORDS))
def test_remainders(dtype: str, everything_on_vulkan: None) -> None:
    """Of numbers of any bits, subnormal, infinite and NaN among them; of neighbours; of multiples."""
    kind, word = WORDS[dtype]
    draw = np.random.default_rng(3)
    bits = draw.integers(0, np.iinfo(word).max, (2, 3000), dtype=word, endpoint=True).view(kind)
    near = draw.standard_normal((2, 500)).astype(kind)
    few = np.array([0.0, -0.0, 1.0, 3.0, -7.0, np.inf, -np.inf, np.nan], kind)
    tiny = np.array([1, 2, 3, 700], word).view(kind)
    edges = np.concatenate([few, tiny, np.array([np.finfo(kind).max], kind)])
    x, y = (part.ravel() for part in np.meshgrid(edges, edges))
    multiples = near[0] * kind(64)
    x = np.concatenate([bits[0], near[0], multiples, x])
    y = np.concatenate([bits[1], near[1], near[0], y])
    text = TEXT.replace("DTYPE", dtype)
    executor = oi.compile(text, device="vulkan", fallback=False).make_executor()
    found: Any = executor.run(x=x, y=y)
    expected: Any = oi.Simulator(text).make_executor().run(x=x, y=y)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(expected["a"], np.fmod(x, y))
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    numbers = ~np.isnan(expected["a"])
    signs: list[Any] = [np.signbit(one["a"][numbers]) for one in (found, expected)]
    np.testing.assert_array_equal(signs[0], signs[1])
