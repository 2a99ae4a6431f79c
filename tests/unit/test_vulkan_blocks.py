"""Weights in blocks on a Vulkan device: products of few rows read them, others have them unpacked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_block_products import blocks, write

import openinfer as oi
from openinfer.runtime.devices.description import PLAIN
from openinfer.runtime.devices.vulkan.device import VulkanDevice
from openinfer.runtime.options import TIERS

LAYER = """
dynamic {{ h: f32[{rows}, {depth}]; many: f32[M, {depth}]; }}
constant {{
    n: f32[{depth}]; g: f32[{columns}, {depth}] @dtype(_); u: f32[{columns}, {depth}] @dtype(_);
}}
block entry {{
    a = op rms_norm(h, n, eps=1e-3);
    c = op linear(a, g);
    d = op linear(a, u);
    e = op sigmoid(c);
    e = op mul(e, d);
    f = op linear(h, g);
    k = op linear(many, u);
    return e, f, k;
}}
"""


@pytest.mark.parametrize("tier", TIERS[:2])
@pytest.mark.parametrize(
    ("kind", "rows", "depth", "columns"),
    [("q8_0", 1, 64, 37), ("q8_0", 3, 1024, 32), ("q4_0", 1, 1056, 48), ("q4_0", 8, 96, 5)],
)
def test_products(
    kind: str,
    rows: int,
    depth: int,
    columns: int,
    tier: str,
    vulkan: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENINFER_VULKAN_TIER", tier)
    draw = np.random.default_rng(depth)
    tensors = {name: (kind, blocks(kind, columns, depth, n)) for n, name in enumerate("gu")}
    tensors["n"] = ("f32", draw.standard_normal(depth).astype(np.float32))
    package = oi.open_model(write(tmp_path / "layer.gguf", tensors))
    text = LAYER.format(rows=rows, depth=depth, columns=columns)
    program = oi.compile(text, package, device="vulkan")
    assert {row.block for row in program.manifest.weights if row.sources != ["n"]} == {kind}
    inputs = {
        "h": draw.standard_normal((rows, depth)).astype(np.float32),
        "many": draw.standard_normal((11, depth)).astype(np.float32),
    }
    found = program.make_executor().run(**inputs)
    with pytest.warns(oi.ModelWarning, match="OI0331"):  # The simulator computes with floats.
        expected = oi.Simulator(text, package).make_executor().run(**inputs)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-5, atol=2e-5, err_msg=name)


SOME = """
dynamic {{ h: f32[1, {depth}]; x: {left}[B, N, {depth}]; r: f32[B, N, {columns}]; }}
constant {{ w: f32[{columns}, {depth}] @dtype(_); }}
block entry {{
    a = op linear(h, w);
    b = op matmul(x, w, transpose_b=true, acc=f32);
    b = op add(b, r);
    return a, b;
}}
"""


@pytest.mark.parametrize("tier", TIERS[:2])
@pytest.mark.parametrize(("kind", "depth", "columns"), [("q8_0", 1024, 283), ("q4_0", 288, 256)])
def test_some_rows(
    kind: str,
    depth: int,
    columns: int,
    tier: str,
    everything_on_vulkan: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Up to 16 rows of which only the step knows how many read the blocks, more have them unpacked; also on
    a device that has no more than every one."""
    monkeypatch.setenv("OPENINFER_VULKAN_TIER", tier)
    if tier == TIERS[0]:
        monkeypatch.setattr(VulkanDevice, "describe", lambda _: PLAIN)
    draw = np.random.default_rng(depth)
    package = oi.open_model(
        write(tmp_path / "w.gguf", {"w": (kind, blocks(kind, columns, depth, 1))})
    )
    text = SOME.format(depth=depth, columns=columns, left="f32")
    program = oi.compile(text, package, device="vulkan")
    executor = program.make_executor(trace=True)
    weight = package.tensor("w").values().astype(np.float64)
    for batches, rows in ((1, 1), (2, 3), (1, 4), (1, 7), (1, 0), (2, 16), (1, 17)):
        inputs = {
            "h": draw.standard_normal((1, depth)).astype(np.float32),
            "x": draw.standard_normal((batches, rows, depth)).astype(np.float32),
            "r": draw.standard_normal((batches, rows, columns)).astype(np.float32),
        }
        executor.clear_trace()
        found = executor.run(**inputs)
        expected = inputs["x"].astype(np.float64) @ weight.T + inputs["r"]
        off = np.abs(found["b"] - expected)
        assert off.size == 0 or off.max() < 1e-6 * np.abs(expected).max()
        kernels = {event.kernel for event in executor.trace()}
        name = next((f"_of_blocks_of_{most}" for most in (4, 8, 16) if rows <= most), "")
        assert rows == 0 or f"matmul_1{name}" in kernels


ROTATED = """
dynamic {{ h: f32[1, 96]; place: i32[1]; }}
constant {{ q: f32[{heads} * {size}, 96] @dtype(_); k: f32[{heads} * {size}, 96] @dtype(_); }}
block entry {{
    a = op linear(h, q);
    a = op rope(a, place, heads={heads}{pairs});
    b = op linear(h, k);
    b = op rope(b, place, heads={heads}{pairs});
    return a, b;
}}
"""


@pytest.mark.parametrize("tier", TIERS[:2])
@pytest.mark.parametrize(
    ("heads", "size", "pairs", "kernels"),
    [(3, 32, "", ["matvecs_0"]), (5, 16, ", interleaved=true", ["matvecs_0"]), (2, 16, "", [])],
)
def test_rotations(
    heads: int,
    size: int,
    pairs: str,
    kernels: list[str],
    tier: str,
    everything_on_vulkan: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Columns that are turned together are of whole panels, or the rotation stays a kernel of its own."""
    monkeypatch.setenv("OPENINFER_VULKAN_TIER", tier)
    draw = np.random.default_rng(heads)
    tensors = {name: ("q8_0", blocks("q8_0", heads * size, 96, n)) for n, name in enumerate("qk")}
    package = oi.open_model(write(tmp_path / "layer.gguf", tensors))
    text = ROTATED.format(heads=heads, size=size, pairs=pairs)
    program = oi.compile(text, package, device="vulkan")
    named = [row.kernel for row in program.manifest.calls if row.kernel.startswith("matvec")]
    assert named == kernels
    inputs = {
        "h": draw.standard_normal((1, 96)).astype(np.float32),
        "place": np.array([7], np.int32),
    }
    found = program.make_executor().run(**inputs)
    with pytest.warns(oi.ModelWarning, match="OI0331"):  # The simulator computes with floats.
        expected = oi.Simulator(text, package).make_executor().run(**inputs)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-5, atol=2e-5, err_msg=name)
