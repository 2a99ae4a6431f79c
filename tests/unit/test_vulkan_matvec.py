"""Products of few rows on a Vulkan device, with the norm and the second product that they take in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.options import TIERS

LAYER = """
dynamic {{ h: {x}[{rows}, {depth}]; }}
constant {{
    n: {x}[{depth}]; q: {w}[{columns}, {depth}]; g: {w}[{columns}, {depth}]; u: {w}[{columns}, {depth}];
    b: {x}[{columns}];
}}
block entry {{
    assign a: {x}[{rows}, {depth}]; assign c: {x}[{rows}, {columns}];
    assign e: {x}[{rows}, {columns}]; assign f: {x}[{rows}, {columns}];
    op rms_norm(h, n, eps=1e-3) >> a;
    op matmul(a, q, transpose_b=true) >> c;
    op matmul(a, g, transpose_b=true) >> e;
    op matmul(a, u, transpose_b=true) >> f;
    op add(f, b) >> f;
    op sigmoid(e) >> e;
    op mul(e, f) >> e;
    return c, e;
}}
"""
SHAPES = [
    (1, 64, 7),
    (1, 1024, 33),
    (1, 999, 5),
    (3, 264, 40),
    (8, 128, 17),
    (1, 72, 1027),
    (2, 64, 517),
]


@pytest.mark.parametrize("tier", TIERS[:2])
@pytest.mark.parametrize(("rows", "depth", "columns"), SHAPES)
@pytest.mark.parametrize(("x", "w"), [("f32", "f32"), ("f16", "f16"), ("f32", "f16")])
def test_a_gated_layer(
    rows: int,
    depth: int,
    columns: int,
    x: str,
    w: str,
    tier: str,
    everything_on_vulkan: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENINFER_VULKAN_TIER", tier)
    text = LAYER.format(rows=rows, depth=depth, columns=columns, x=x, w=w)
    draw = np.random.default_rng(rows * depth + columns)
    numpy_dtype = {"f32": np.float32, "f16": np.float16}

    def drawn(dtype: str, *shape: int, scale: float = 1.0) -> Any:
        return (draw.standard_normal(shape) * scale).astype(numpy_dtype[dtype])

    path = tmp_path / "layer.oinf"
    matrices = {name: drawn(w, columns, depth, scale=depth**-0.5) for name in "qgu"}
    oi.write_oinf({"n": drawn(x, depth), **matrices, "b": drawn(x, columns)}, path)
    model = oi.open_model(path)
    program = oi.compile(text, model, device="vulkan", fallback=False)
    inputs = {"h": drawn(x, rows, depth)}
    executor = program.make_executor(trace=True)
    found = executor.run(**inputs)
    kernels = {e.kernel for e in executor.trace() if e.kind == "OpExecute"}
    assert kernels == {"matvecs_0"}
    expected = oi.Simulator(text, model).make_executor().run(**inputs)
    allowed = 1e-5 if x == "f32" else 4e-3
    for name, value in expected.items():
        both = [np.asarray(one, np.float64) for one in (found[name], value)]
        np.testing.assert_allclose(*both, rtol=allowed, atol=allowed, err_msg=name)


TURNED = """
dynamic {{ h: {x}[1, 96]; place: i32; }}
constant {{ n: {x}[96]; q: {x}[{heads} * 16, 96]; k: {x}[{heads} * 16, 96]; }}
persistent {{ t(i): {x}[{heads}, 16] @table; }}
block entry {{
    assign a: {x}[1, 96]; assign c: {x}[1, {heads} * 16]; assign d: {x}[1, {heads}, 1, 16];
    assign e: {x}[1, {heads}, 1, 16]; assign f: {x}[{heads}, 16]; assign places: i32[1];
    assign all: {x}[place + 1, {heads}, 16];
    op reshape(place, shape=[1]) >> places;
    op rms_norm(h, n, eps=1e-3) >> a;
    op matmul(a, q, transpose_b=true) >> c;
    op reshape(c, shape=[1, {heads}, 1, 16]) >> d;
    op rope(d, places{pairs}) >> d;
    op matmul(a, k, transpose_b=true) >> c;
    op reshape(c, shape=[1, {heads}, 1, 16]) >> e;
    op rope(e, places{pairs}) >> e;
    op reshape(e, shape=[{heads}, 16]) >> f;
    cache.write f >> t[place];
    cache.read t[0..place + 1] >> all;
    op add(all, all) >> all;
    return d, all;
}}
"""


@pytest.mark.parametrize("tier", TIERS[:2])
@pytest.mark.parametrize("heads", [1, 5, 64])
@pytest.mark.parametrize(("x", "pairs"), [("f32", ""), ("f16", ""), ("f32", ", interleaved=true")])
def test_rotations_of_what_a_product_gives(
    heads: int,
    x: str,
    pairs: str,
    tier: str,
    everything_on_vulkan: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A product and its rotation are one kernel, which writes into a table, too."""
    monkeypatch.setenv("OPENINFER_VULKAN_TIER", tier)
    text = TURNED.format(x=x, heads=heads, pairs=pairs)
    draw = np.random.default_rng(heads)
    dtype = {"f32": np.float32, "f16": np.float16}[x]
    path = tmp_path / "layer.oinf"
    matrices = {name: (draw.standard_normal((heads * 16, 96)) * 0.1).astype(dtype) for name in "qk"}
    oi.write_oinf({"n": draw.standard_normal(96).astype(dtype), **matrices}, path)
    model = oi.open_model(path)
    program = oi.compile(text, model, device="vulkan")
    found, expected = program.make_executor(), oi.Simulator(text, model).make_executor()
    allowed = 1e-5 if x == "f32" else 4e-3
    for place in (0, 1, 2, 1):
        inputs: dict[str, Any] = {
            "h": draw.standard_normal((1, 96)).astype(dtype),
            "place": np.int32(place),
        }
        a, b = found.run(**inputs), expected.run(**inputs)
        for name in ("d", "all"):
            both = [np.asarray(one[name], np.float64) for one in (a, b)]
            np.testing.assert_allclose(*both, rtol=allowed, atol=allowed, err_msg=name)
    kernels = [row.kernel for row in program.manifest.calls if row.kernel.startswith("matvec")]
    assert kernels == ["matvecs_0"]
    written = {row.buffers[n] for row in program.manifest.calls for n in row.writes}
    assert not any(row.kernel == "copy_box_1" for row in program.manifest.calls), written
