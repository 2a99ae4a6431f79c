"""Elements that lie the other way on a Vulkan device: tiles of them are turned in shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.options import TIERS
from openinfer.runtime.tensors import Tensor

NAMES = ("f32", "f16", "bf16", "f8e4m3", "i8", "u16", "i64", "f64", "bool")
TURNED = """
dynamic {{ x: {dtype}[B, L, 40]; }}
volatile {{ y: {dtype}[B, 40, L]; }}
block entry {{ op transpose(x, perm=[0, 2, 1]) >> y; return y; }}
"""
SUMS = """
dynamic { x: f32[70, 37]; z: f32[70, 37]; c: f32[37, 70]; r: f32[70]; d: f32[37]; }
volatile { y: f32[37, 70]; }
block entry {
    assign p: f32[37, 70]; assign q: f32[37, 70]; assign e: f32[70, 37];
    op transpose(x, perm=[1, 0]) >> p;
    op add(z, d) >> e;
    op transpose(e, perm=[1, 0]) >> q;
    op mul(p, q) >> y;
    op add(y, c) >> y;
    op add(y, r) >> y;
    return y;
}
"""


def drawn(dtype: str, *shape: int) -> Tensor:
    """Numbers of all kinds that every dtype has."""
    draw = np.random.default_rng(sum(shape))
    values = draw.integers(0, 2 if dtype == "bool" else 100, shape)
    return Tensor.from_values(dtype, values)


def values(result: Any) -> Any:
    return result.values() if isinstance(result, Tensor) else np.asarray(result)


@pytest.mark.parametrize("tier", TIERS[:2])
def test_every_dtype(
    tier: str, everything_on_vulkan: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENINFER_VULKAN_TIER", tier)
    for dtype in NAMES:
        if dtype == "f64" and tier == "scalar":
            continue
        graph = oi.graph(TURNED.format(dtype=dtype))
        program = oi.compile(graph, None, device="vulkan", fallback=False)
        with program.make_executor() as executor, oi.Simulator(graph).make_executor() as simulator:
            # Less than a tile, one, several with their edges.
            for batch, length in ((2, 5), (1, 32), (3, 77)):
                x = drawn(dtype, batch, length, 40)
                found, expected = (values(one.run(x=x)["y"]) for one in (executor, simulator))
                assert found.shape == expected.shape == (batch, 40, length)
                np.testing.assert_array_equal(found, expected, err_msg=dtype)


@pytest.mark.parametrize("tier", TIERS[:2])
def test_two_inputs_are_turned_and_others_are_not(
    tier: str, everything_on_vulkan: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENINFER_VULKAN_TIER", tier)
    shapes = {"x": (70, 37), "z": (70, 37), "c": (37, 70), "r": (70,), "d": (37,)}
    draw = np.random.default_rng(1)
    inputs = {name: draw.standard_normal(shape).astype("f4") for name, shape in shapes.items()}
    graph = oi.graph(SUMS)
    program = oi.compile(graph, None, device="vulkan")
    with program.make_executor() as executor, oi.Simulator(graph).make_executor() as simulator:
        found, expected = (np.asarray(one.run(**inputs)["y"]) for one in (executor, simulator))
    np.testing.assert_array_equal(found, expected)
