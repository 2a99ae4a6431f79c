"""Programs whose loops compute the same in every round, and whose keys are turned in one transpose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.host import cpu_unavailable_reason
from openinfer.runtime.packages.oinf_writer import OinfContent

pytestmark = pytest.mark.skipif(
    cpu_unavailable_reason() is not None,
    reason=cpu_unavailable_reason() or "machine code runs here",
)

# Rope of places, a gate and a product that no round changes; a mask as large as places squared.
LAYERS = """
dynamic { x: f32[T, 2, 8]; places: i32[T]; gate: f32[T, 8]; n: i32; d: i32[4]; }
constant { W(l): f32[8, 8] @pattern("w.{l}"); V: f32[8, 8]; }
volatile { y: f32[T, 2, 8]; z: i32[4]; }
block entry {
    assign h: f32[T, 2, 8];
    assign g: f32[T, 8];
    assign p: f32[T, 8];
    assign g3: f32[T, 1, 8];
    assign t: f32[T, T];
    assign r: f32[T, 1];
    assign r3: f32[T, 1, 1];
    assign four: f32[2, T, 8];
    assign q: i32[4];
    transfer x >> h;
    transfer d >> z;
    loop layers (l in 0..2) {
        loop again (i in 0..n) {
            op transpose(h, perm=[1, 0, 2]) >> four;
            op rope(four, places) >> four;
            op transpose(four, perm=[1, 0, 2]) >> h;
            op sigmoid(gate) >> g;
            op matmul(g, V) >> p;
            op matmul(p, p, transpose_b=true) >> t;
            op tanh(t) >> t;
            op sum_axis(t, axes=[1], keepdims=true) >> r;
            op reshape(r, shape=[T, 1, 1]) >> r3;
            op matmul(p, W[l]) >> p;
            op reshape(p, shape=[T, 1, 8]) >> g3;
            op mul(h, g3) >> h;
            op mul(h, r3) >> h;
            op div(d, n) >> q;
            op add(z, q) >> z;
        }
    }
    transfer h >> y;
    return y, z;
}
"""

TURNED = """
dynamic { x: f32[B, L, 32]; }
volatile { y: f32[B, L, 32]; }
block entry {
    assign k: f32[B, L, 4, 8];
    assign q: f32[B, 4, L, 8];
    assign kh: f32[B, 4, L, 8];
    assign kt: f32[B, 4, 8, L];
    assign s: f32[B, 4, L, L];
    assign o: f32[B, 4, L, 8];
    assign o4: f32[B, L, 4, 8];
    op reshape(x, shape=[B, L, 4, 8]) >> k;
    op transpose(k, perm=[0, 2, 1, 3]) >> q;
    op transpose(k, perm=[0, 2, 1, 3]) >> kh;
    op transpose(kh, perm=[0, 1, 3, 2]) >> kt;
    op matmul(q, kt) >> s;
    op softmax(s, axis=3) >> s;
    op matmul(s, kh) >> o;
    op transpose(o, perm=[0, 2, 1, 3]) >> o4;
    op reshape(o4, shape=[B, L, 32]) >> y;
    return y;
}
"""


def package(folder: Path) -> oi.Package:
    random = np.random.default_rng(0)
    names = ("w.0", "w.1", "V")
    tensors: dict[str, Any] = {
        name: (random.standard_normal((8, 8)) / 3).astype(np.float32) for name in names
    }
    path = folder / "weights.oinf"
    oi.write_oinf(OinfContent({}, {}, tensors), path)
    return oi.open_model(path)


def test_what_no_round_changes(tmp_path: Path):
    """No rounds at all divide by nothing; one and several rounds agree with the simulator."""
    model = package(tmp_path)
    simulated = oi.Simulator(LAYERS, model).make_executor()
    compiled = oi.compile(LAYERS, model).make_executor(2)
    random = np.random.default_rng(1)
    for tokens, rounds in ((1, 1), (5, 0), (5, 2)):
        given = {
            "x": random.standard_normal((tokens, 2, 8)).astype(np.float32),
            "places": np.arange(3, 3 + tokens, dtype=np.int32),
            "gate": random.standard_normal((tokens, 8)).astype(np.float32),
            "n": np.array(rounds, np.int32),
            "d": np.array([7, -7, 0, 3], np.int32),
        }
        expected, found = simulated.run(**given), compiled.run(**given)
        scale = np.abs(np.asarray(expected["y"])).max()
        np.testing.assert_allclose(found["y"], expected["y"], rtol=0, atol=1e-5 * scale)
        np.testing.assert_array_equal(found["z"], expected["z"])


def test_keys_that_one_transpose_turns():
    simulated = oi.Simulator(TURNED).make_executor()
    compiled = oi.compile(TURNED).make_executor(1)
    x = np.random.default_rng(2).standard_normal((2, 9, 32)).astype(np.float32)
    np.testing.assert_allclose(compiled.run(x=x)["y"], simulated.run(x=x)["y"], rtol=0, atol=2e-5)
