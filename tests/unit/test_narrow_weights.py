"""Weights and caches of narrow types: read as they lie, converted in registers, on both executors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.host import cpu_unavailable_reason
from openinfer.runtime.packages.oinf_writer import OinfContent

pytestmark = pytest.mark.skipif(
    cpu_unavailable_reason() is not None,
    reason=cpu_unavailable_reason() or "machine code runs here",
)

Array = np.ndarray[Any, Any]
LEVELS = ("generic", "avx2", "avx512")
TARGETS = LEVELS[: LEVELS.index(host_target().name) + 1] if not cpu_unavailable_reason() else ()
K, N = 40, 70

PRODUCTS = """
dynamic { x: f32[B, K]; }
constant {
    W: i8[K, N]; U: u8[K, N]; I: i16[N, K]; H: f16[K, N];
    s: f32[N]; t: f32[K, 1]; n: f32[N, 1];
}
volatile { a: f32[B, N]; b: f32[B, N]; c: f32[B, N]; d: f32[B, N]; e: f32[B, N]; f: f32[B, N]; }
block entry {
    assign w: f32[K, N];
    assign v: f32[N, K];
    op dequantize(W, s, axis=1) >> w;
    op matmul(x, w) >> a;
    op cast(U, to=f32) >> w;
    op mul(w, t) >> w;
    op matmul(x, w) >> b;
    op cast(I, to=f32) >> v;
    op mul(n, v) >> v;
    op matmul(x, v, transpose_b=true) >> c;
    op cast(W, to=f32) >> w;
    op matmul(x, w) >> d;
    op dequantize(W, scale=0.5, zero_point=3) >> w;
    op matmul(x, w) >> e;
    op cast(H, to=f32) >> w;
    op matmul(x, w) >> f;
    return a, b, c, d, e, f;
}
"""

DECODER = """
dynamic { x: f32[T, 32]; }
constant { W(l): i8[32, 32] @pattern("w.{l}"); s(l): f32[32] @pattern("s.{l}"); }
persistent { step: i32; C(l, t): f16[2, 16] @table; }
volatile { y: f32[T, 32]; }
block entry {
    assign h: f32[T, 32];
    assign w: f32[32, 32];
    assign flat: f16[T, 32];
    assign q4: f32[1, T, 2, 16];
    assign o4: f32[1, T, 2, 16];
    assign part: f16[T, 2, 16];
    assign cached: f16[1, step + T, 2, 16];
    assign wide: f32[1, step + T, 2, 16];
    assign k: f32[1, 2, step + T, 16];
    assign q: f32[1, 2, T, 16];
    assign o: f32[1, 2, T, 16];
    transfer x >> h;
    loop layers (l in 0..2) {
        op dequantize(W[l], s[l], axis=0) >> w;
        op matmul(h, w, transpose_b=true) >> h;
        op cast(h, to=f16) >> flat;
        op reshape(flat, shape=[T, 2, 16]) >> part;
        cache.write part >> C[l, step..step + T];
        cache.read C[l..l + 1, 0..step + T] >> cached;
        op cast(cached, to=f32) >> wide;
        op transpose(wide, perm=[0, 2, 1, 3]) >> k;
        op reshape(h, shape=[1, T, 2, 16]) >> q4;
        op transpose(q4, perm=[0, 2, 1, 3]) >> q;
        op attention(q, k, k, causal=true) >> o;
        op transpose(o, perm=[0, 2, 1, 3]) >> o4;
        op reshape(o4, shape=[T, 32]) >> h;
    }
    loop taken (t in 0..T) { cache.increment step; }
    transfer h >> y;
    return y;
}
"""


def package(folder: Path) -> oi.Package:
    random = np.random.default_rng(0)

    def whole(low: int, high: int, shape: tuple[int, ...], dtype: type[np.generic]) -> Array:
        return random.integers(low, high, shape).astype(dtype)

    tensors: dict[str, Any] = {
        "W": whole(-128, 128, (K, N), np.int8),
        "U": whole(0, 256, (K, N), np.uint8),
        "I": whole(-3000, 3000, (N, K), np.int16),
        "H": random.standard_normal((K, N)).astype(np.float16),
        "s": random.random(N, np.float32),
        "t": random.random((K, 1), np.float32),
        "n": random.random((N, 1), np.float32),
    }
    path = folder / "weights.oinf"
    oi.write_oinf(OinfContent({"K": K, "N": N}, {}, tensors), path)
    return oi.open_model(path)


@pytest.mark.parametrize("target", TARGETS)
def test_products_of_narrow_weights(target: str, tmp_path: Path):
    model = package(tmp_path)
    simulated = oi.Simulator(PRODUCTS, model).make_executor()
    compiled = oi.compile(PRODUCTS, model, target=target).make_executor(1)
    for rows in (1, 2, 3, 17):
        x = np.random.default_rng(rows).standard_normal((rows, K), np.float32)
        expected, found = simulated.run(x=x), compiled.run(x=x)
        for name, value in expected.items():
            scale = np.abs(np.asarray(value)).max()
            np.testing.assert_allclose(found[name], value, rtol=0, atol=2e-6 * scale, err_msg=name)


def test_small_integers_stay_small(tmp_path: Path):
    """The packed weights are as large as the weights, and nothing widens them in a step."""
    model = package(tmp_path)
    text = """
    dynamic { x: f32[1, K]; }
    constant { W: i8[K, N]; s: f32[N]; }
    volatile { y: f32[1, N]; }
    block entry {
        assign w: f32[K, N];
        op dequantize(W, s, axis=1) >> w;
        op matmul(x, w) >> y;
        return y;
    }
    """
    program = oi.compile(text, model)
    assert int(program.manifest.arena) < K * N


def test_a_decoder_with_narrow_weights_and_cache(tmp_path: Path):
    random = np.random.default_rng(1)
    tensors: dict[str, Any] = {}
    for layer in range(2):
        tensors[f"w.{layer}"] = random.integers(-128, 128, (32, 32)).astype(np.int8)
        tensors[f"s.{layer}"] = (random.random(32, np.float32) + 0.5) / 400
    path = tmp_path / "decoder.oinf"
    oi.write_oinf(OinfContent({}, {}, tensors), path)
    model = oi.open_model(path)
    simulated = oi.Simulator(DECODER, model).make_executor()
    program = oi.compile(DECODER, model)
    one, two = program.make_executor(1), program.make_executor(2)
    for rows in (19, 1, 1, 2, 1):
        x = random.standard_normal((rows, 32), np.float32)
        expected = np.asarray(simulated.run(x=x)["y"])
        found = np.asarray(one.run(x=x)["y"])
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)
        np.testing.assert_array_equal(found, np.asarray(two.run(x=x)["y"]))
