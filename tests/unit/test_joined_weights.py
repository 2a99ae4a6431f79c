"""Weights of joined products as they are loaded: laid out, one behind the other, layer by layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matrix_forms import as_for_an_h200

import openinfer as oi
from openinfer.runtime.devices.cpu.loaded import CpuProgram
from openinfer.runtime.devices.vulkan.device import SUBMIT
from openinfer.runtime.host import cpu_unavailable_reason

pytestmark = pytest.mark.skipif(
    cpu_unavailable_reason() is not None,
    reason=cpu_unavailable_reason() or "machine code runs here",
)

LAYERS = """
dynamic { x: f16[64, 128]; }
constant {
    Q(l): f16[48, 128] @pattern("q.{l}"); K(l): f16[48, 128] @pattern("k.{l}");
    O(l): f16[48, 128] @pattern("o.{l}"); b(l): f16[48] @pattern("b.{l}"); c(l): f16[48] @pattern("c.{l}");
}
block entry {
    assign q: f16[64, 48]; assign k: f16[64, 48]; assign y: f16[64, 128]; assign z: f16[64, 128];
    op add(x, x) >> y;
    loop layers (l in 0..2) {
        op layer_norm(y, eps=1e-5) >> y;
        op matmul(y, Q[l], transpose_b=true) >> q;
        op matmul(y, K[l], transpose_b=true) >> k;
        op add(q, b[l]) >> q;
        op add(k, c[l]) >> k;
        op softmax(q, axis=1) >> q;
        op softmax(k, axis=1) >> k;
        op mul(q, k) >> q;
        op matmul(q, O[l]) >> z;
        op add(y, z) >> y;
    }
    return y;
}
"""


def test_two_layers(tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    weights = {
        f"{name}.{layer}": draw.standard_normal(shape).astype(np.float16)
        for name, shape in (
            ("q", (48, 128)),
            ("k", (48, 128)),
            ("o", (48, 128)),
            ("b", 48),
            ("c", 48),
        )
        for layer in range(2)
    }
    oi.write_oinf(weights, tmp_path / "w.oinf")
    with as_for_an_h200():
        program = oi.compile(LAYERS, oi.open_model(tmp_path / "w.oinf"), device="vulkan")
    rows = program.manifest.weights
    found = {
        tuple(row.sources): one for row, one in zip(rows, CpuProgram(program, {SUBMIT: 1}).weights)
    }
    names = ("q.0", "k.0", "q.1", "k.1")
    expected = [weights[name].reshape(3, 16, 8, 16).swapaxes(1, 2) for name in names]
    np.testing.assert_array_equal(
        found[names].view(np.float16), np.concatenate([one.reshape(-1) for one in expected])
    )
    names = ("b.0", "c.0", "b.1", "c.1")
    np.testing.assert_array_equal(
        found[names].view(np.float16), np.concatenate([weights[name] for name in names])
    )
    assert "row_matmul_0.spv" in program.parts
