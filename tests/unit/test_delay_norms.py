"""Loops whose last norm waits for the next round give what they gave, on a machine that asks for that."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from openinfer.dialects import nn
from openinfer.lowering.cpu.demands import CpuDemands
from openinfer.lowering.linalg.fuse_norms import FuseNorms

LAYERS = """
dynamic { x: f32[5, 16]; }
constant {
    W(l): f32[16, 16] @pattern("w.{l}"); g(l): f32[16] @pattern("g.{l}"); c: f32[16];
}
block entry {
    assign h: f32[5, 16]; assign k: f32[5, 16]; assign p: f32[5, 16];
    op add(x, c) >> h; op add(x, c) >> p;
    loop layers (l in FIRST..LAST) {
        op matmul(h, W[l]) >> k;
        op add(p, h) >> p;
        op add(k, h) >> h;
        op layer_norm(h, g[l], c, eps=1e-5) >> h;
    }
    op add(p, h) >> p;
    return h, p;
}
"""


@pytest.mark.parametrize(("first", "last"), [(0, 4), (1, 3), (2, 3), (3, 3)])
def test_a_loop(first: int, last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def takes_norm(self: CpuDemands, product: nn.MatmulOp) -> bool:
        asked.append(product.name)
        return True

    monkeypatch.setenv("OPENINFER_CACHE", "off")
    monkeypatch.setattr(CpuDemands, "takes_norm", takes_norm)
    monkeypatch.setattr(FuseNorms, "apply", lambda self, ctx, op: None)
    draw = np.random.default_rng(7)
    weights = {f"w.{n}": draw.standard_normal((16, 16)).astype("f4") for n in range(4)}
    weights |= {f"g.{n}": draw.standard_normal(16).astype("f4") for n in range(4)}
    oi.write_oinf({**weights, "c": draw.standard_normal(16).astype("f4")}, tmp_path / "w.oinf")
    model = oi.open_model(tmp_path / "w.oinf")
    text = LAYERS.replace("FIRST", str(first)).replace("LAST", str(last))
    inputs = {"x": draw.standard_normal((5, 16)).astype("f4")}
    found = oi.compile(text, model).make_executor().run(**inputs)
    assert bool(asked) == (last - first > 1)
    expected = oi.Simulator(text, model).make_executor().run(**inputs)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-5, atol=2e-5, err_msg=name)
