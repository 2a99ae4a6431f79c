"""Powers, and rounding of halves, on a Vulkan device: how exact they are, and what they make of edges."""

from __future__ import annotations

from typing import Any

import numpy as np

import openinfer as oi

TEXT = """
dynamic { x: f32[N]; y: f32[N]; h: f16[N]; }
block entry {
    assign a: f32[N]; assign b: f32[N]; assign c: f16[N];
    op pow(x, y) >> a; op round(x) >> b; op pow(h, h) >> c;
    return a, b, c;
}
"""
UNITS = 1.5
"""Units in the last place that a power may be off by."""


def test_powers(everything_on_vulkan: None) -> None:
    draw = np.random.default_rng(1)
    edges = [
        0.0,
        1.0,
        2.0,
        3.0,
        0.5,
        2.5,
        1e-40,
        3e38,
        1.0000001,
        16777217.0,
        16777216.0,
        8388609 / 2,
    ]
    few = np.array([*edges, *(-x for x in edges), np.inf, -np.inf, np.nan, 0.49999997], np.float32)
    pairs = [part.ravel() for part in np.meshgrid(few, few)]
    drawn = [
        [draw.integers(0, 2**32, 5000, np.uint32).view(np.float32) for _ in range(2)],
        [np.exp(draw.uniform(-80, 80, 9000)), draw.uniform(-1, 1, 9000)],
        [1 + draw.standard_normal(5000) * 1e-3, draw.standard_normal(5000) * 5e4],
        [draw.uniform(0.1, 10, 9000), draw.uniform(-30, 30, 9000)],
    ]
    with np.errstate(invalid="ignore"):  # Some of the drawn bits are a signalling NaN.
        x, y = (np.concatenate([p, *d]).astype(np.float32) for p, d in zip(pairs, zip(*drawn)))
    inputs: Any = {"x": x, "y": y, "h": draw.uniform(0, 6, x.size).astype(np.float16)}
    executor = oi.compile(TEXT, device="vulkan", fallback=False).make_executor()
    found: Any = executor.run(**inputs)
    expected: Any = oi.Simulator(TEXT).make_executor().run(**inputs)
    np.testing.assert_array_equal(found["b"], expected["b"])
    np.testing.assert_allclose(found["c"], expected["c"], rtol=1e-3)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
        rounded = exact.astype(np.float32)
    values = np.asarray(found["a"])
    normal = np.isfinite(rounded) & (abs(exact) >= 2.0**-126)
    np.testing.assert_array_equal(np.isnan(values), np.isnan(rounded))
    infinite = np.isinf(rounded)
    np.testing.assert_array_equal(values[infinite], rounded[infinite])
    units = abs(values[normal] - exact[normal]) / np.spacing(abs(rounded[normal]))
    assert units.max() < UNITS
    small = abs(exact) < 2.0**-126
    assert abs(values[small] - exact[small]).max() <= 2.0**-126
    np.testing.assert_array_equal(np.signbit(values[small]), np.signbit(rounded[small]))
