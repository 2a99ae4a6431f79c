"""Products of bytes that are added up in 32 bits on a Vulkan device: integer dot products."""

from __future__ import annotations

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.options import TIERS

PRODUCTS = """
dynamic {{ x: {b}8[M, {k}]; w: {b}8[70, {k}]; v: {b}8[{k}, 70]; }}
constant {{ c: {b}32 @init(-7); }}
volatile {{ p: {b}32[M, 70]; q: {b}32[M, 70]; }}
block entry {{
    op matmul(x, w, transpose_b=true, acc={b}32) >> p;
    op add(p, c) >> p;
    op matmul(x, v, acc={b}32) >> q;
    return p, q;
}}
"""


@pytest.mark.parametrize("tier", TIERS[:2])
@pytest.mark.parametrize("signed", [True, False])
def test_products_of_bytes(
    signed: bool, tier: str, everything_on_vulkan: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few rows and tiles; steps that are a multiple of 16 and of 4, and neither; sums beyond 2^31 wrap."""
    monkeypatch.setenv("OPENINFER_VULKAN_TIER", tier)
    draw = np.random.default_rng(0)
    low, high, kind = (-128, 128, np.int8) if signed else (0, 256, np.uint8)
    for rows, depth in ((1, 512), (3, 100), (40, 96), (100, 37), (17, 128)):
        text = PRODUCTS.format(b="i" if signed else "u", k=depth).replace("M,", f"{rows},")
        if not signed:
            text = text.replace("@init(-7)", "@init(4294967290)")
        shapes = {"x": (rows, depth), "w": (70, depth), "v": (depth, 70)}
        inputs = {name: draw.integers(low, high, shape, kind) for name, shape in shapes.items()}
        program = oi.compile(oi.graph(text), None, device="vulkan", fallback=False)
        with program.make_executor() as executor:
            found = executor.run(**inputs)
        with oi.Simulator(oi.graph(text)).make_executor() as simulator:
            expected = simulator.run(**inputs)
        for name in ("p", "q"):
            np.testing.assert_array_equal(found[name], expected[name], err_msg=f"{rows} {depth}")
