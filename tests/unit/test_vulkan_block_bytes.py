"""Rows as blocks of bytes on a Vulkan device, and back: the bytes of the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi

TEXT = """
dynamic { x: DTYPE[B, ROWS, 96]; }
block entry {
    assign a: u8[_, _, _]; assign b: f32[_, _, _];
    op quantize_blocks(x) >> a; op dequantize_blocks(a) >> b;
    return a, b;
}
"""


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_bytes_are_those_of_the_simulator(dtype: str, everything_on_vulkan: None) -> None:
    """Also of rows that are zeros, tiny, or not finite."""
    draw = np.random.default_rng(5)
    x = draw.standard_normal((2, 8, 96)).astype(np.float32)
    x[0, 1] = 0
    x[0, 2, :32], x[0, 3, 40], x[0, 4, 70], x[0, 5, 3] = 1e-30, np.inf, np.nan, 3e38
    x[1] = np.round(x[1] * 20) / 4
    with np.errstate(over="ignore"):
        given: Any = x.astype(np.float16) if dtype == "f16" else x
    for rows in ("N", "8"):
        text = TEXT.replace("DTYPE", dtype).replace("ROWS", rows)
        program = oi.compile(text, device="vulkan", fallback=False)
        found: Any = program.make_executor().run(x=given)
        expected: Any = oi.Simulator(text).make_executor().run(x=given)
        for name in ("a", "b"):
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
