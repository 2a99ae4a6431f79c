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
    assert kernels == {"matvec_0", "matvec_1"}
    expected = oi.Simulator(text, model).make_executor().run(**inputs)
    allowed = 1e-5 if x == "f32" else 4e-3
    for name, value in expected.items():
        both = [np.asarray(one, np.float64) for one in (found[name], value)]
        np.testing.assert_allclose(*both, rtol=allowed, atol=allowed, err_msg=name)
