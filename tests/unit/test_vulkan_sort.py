"""Sorting on a Vulkan device: short lines by counting, long ones and those of any length by exchanges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openinfer.lowering.vulkan.schedules.sort import MOST_COUNTED
from openinfer.runtime.options import TIERS
from tests.unit.test_vulkan_ops import agree, floats

ORDERS = """
dynamic { x: f32[N, 40]; n: i64[N, 40]; h: f16[33, N]; u: u8[N, 40]; }
block entry {
    assign a: f32[N, 40]; assign b: i64[N, 40]; assign c: i64[N, 40]; assign d: i64[N, 40];
    assign e: f16[7, N]; assign f: i64[7, N]; assign g: u8[N, 40]; assign i: i64[N, 40];
    op sort(x, axis=1) >> a, b; op sort(n, axis=1, descending=true) >> c, d;
    op topk(h, k=7, axis=0) >> e, f; op sort(u, axis=1) >> g, i;
    return a, b, c, d, e, f, g, i;
}
"""
ANY = """
dynamic { x: f32[N, L]; n: i64[N, L]; h: f16[L, N]; }
block entry {
    assign a: f32[N, L]; assign b: i64[N, L]; assign c: i64[N, L]; assign d: i64[N, L];
    assign e: f16[L, N]; assign f: i64[L, N];
    op sort(x, axis=1) >> a, b; op sort(n, axis=1, descending=true) >> c, d;
    op sort(h, axis=0) >> e, f;
    return a, b, c, d, e, f;
}
"""
LONG = """
dynamic { x: f32[2, LENGTH]; }
block entry {
    assign a: f32[2, LENGTH]; assign b: i64[2, LENGTH]; assign c: f32[2, 5]; assign d: i64[2, 5];
    op sort(x, axis=1) >> a, b; op topk(x, k=5, axis=1) >> c, d;
    return a, b, c, d;
}
"""


@pytest.mark.parametrize("rows", [0, 1, 9])
def test_orders(rows: int, everything_on_vulkan: None) -> None:
    """Equal values keep their order, NaN is larger than all."""
    draw = np.random.default_rng(rows)
    x = np.round(floats(draw, rows, 40), 1)
    x[:, 3:5], x[:, 9] = np.nan, np.inf
    inputs = {
        "x": x,
        "n": draw.integers(-3, 3, (rows, 40)) * 2**40,
        "h": np.round(floats(draw, 33, rows), 1).astype(np.float16),
        "u": draw.integers(0, 256, (rows, 40)).astype(np.uint8),
    }
    agree(ORDERS, inputs)


def drawn(rows: int, length: int) -> dict[str, Any]:
    """Many values come several times; NaN and infinite ones."""
    draw = np.random.default_rng(length)
    x = np.round(floats(draw, rows, length), 1)
    x[:, 3:5], x[:, 9:10] = np.nan, -np.inf
    n = draw.integers(-3, 3, (rows, length)) * 2**40
    return {"x": x, "n": n, "h": np.round(floats(draw, length, rows), 1).astype(np.float16)}


@pytest.mark.parametrize("tier", TIERS[:2])
def test_lines_of_any_length(
    tier: str, everything_on_vulkan: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of lengths that are no power of two, and of those that an invocation has several pairs of."""
    monkeypatch.setenv("OPENINFER_VULKAN_TIER", tier)
    for rows, length in ((2, 0), (0, 7), (3, 1), (2, 2), (4, 33), (1, 256), (2, 1001)):
        agree(ANY, drawn(rows, length))


def test_lines_too_long_to_be_counted(everything_on_vulkan: None) -> None:
    length = MOST_COUNTED + 7000
    agree(LONG.replace("LENGTH", str(length)), {"x": drawn(2, length)["x"]})
