"""Products of one left operand in one loop: the same bits as one by one, on every target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.api import compile as compile_without
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

PROGRAM = """
dynamic { x: f32[1, L, dim]; }
constant {
    Wq: f32[dim, dim]; Wk: f32[dim, dim]; Wv: f32[dim, dim]; Wu: f32[dim, inner]; Wh: f16[dim, dim];
    bq: f32[dim]; bk: f32[dim]; Wg: f32[dim, inner];
}
volatile {
    q: f32[1, L, dim]; k: f32[1, L, dim]; v: f32[1, L, dim]; u: f32[1, L, inner]; h: f32[1, L, dim];
}
block entry {
    assign w: f32[dim, dim];
    assign g: f32[1, L, inner];
    op matmul(x, Wq) >> q;
    op add(q, bq) >> q;
    op matmul(x, Wk) >> k;
    op add(k, bk) >> k;
    op matmul(x, Wv, transpose_b=true) >> v;
    op matmul(x, Wu) >> u;
    op matmul(x, Wg) >> g;
    op silu(g) >> g;
    op mul(g, u) >> u;
    op cast(Wh, to=f32) >> w;
    op matmul(x, w) >> h;
    op add(h, x) >> h;
    return q, k, v, u, h;
}
"""

LAYERS = """
dynamic { x: f32[T, 32]; place: i32; }
constant {
    Wq(l): f32[32, 32] @pattern("q.{l}");
    Wk(l): f32[16, 32] @pattern("k.{l}");
    Wv(l): f32[16, 32] @pattern("v.{l}");
}
persistent { C(l, t): f32[16] @table; }
volatile { y: f32[T, 32]; }
block entry {
    assign h: f32[T, 32];
    assign q: f32[T, 32];
    assign k: f32[T, 16];
    assign v: f32[T, 16];
    assign kv: f32[T, 32];
    transfer x >> h;
    loop layers (l in 0..2) {
        op matmul(h, Wq[l], transpose_b=true) >> q;
        op matmul(h, Wk[l], transpose_b=true) >> k;
        op matmul(h, Wv[l], transpose_b=true) >> v;
        cache.write k >> C[l, place..place + T];
        op concat(k, v, axis=1) >> kv;
        op tanh(kv) >> kv;
        op add(q, kv) >> h;
    }
    transfer h >> y;
    return y;
}
"""


def package(folder: Path, dim: int, inner: int) -> oi.Package:
    random = np.random.default_rng(dim)

    def normal(*shape: int) -> Array:
        return random.standard_normal(shape).astype(np.float32)

    tensors: dict[str, Any] = {f"W{name}": normal(dim, dim) for name in "qkv"}
    tensors |= {"Wu": normal(dim, inner), "Wg": normal(dim, inner)}
    tensors |= {"Wh": normal(dim, dim).astype(np.float16)}
    tensors |= {"bq": normal(dim), "bk": normal(dim)}
    for layer in range(2):
        tensors |= {f"q.{layer}": normal(32, 32) / 6}
        tensors |= {f"{name}.{layer}": normal(16, 32) / 6 for name in "kv"}
    path = folder / "weights.oinf"
    oi.write_oinf(OinfContent({"dim": dim, "inner": inner}, {}, tensors), path)
    return oi.open_model(path)


CASES: list[tuple[dict[str, Any], int, int]] = [
    *(({"target": target}, 40, 70) for target in TARGETS),
    ({"precision": "bf16"}, 7, 5),
    ({"strict_math": True}, 7, 5),
]


@pytest.mark.parametrize(("settings", "dim", "inner"), CASES, ids=str)
def test_bits_of_each_product_stay(settings: dict[str, Any], dim: int, inner: int, tmp_path: Path):
    model = package(tmp_path, dim, inner)
    one = oi.compile(PROGRAM, model, **settings)
    apart = compile_without(PROGRAM, model, without=["merge-products"], **settings)
    for rows in (1, 3, 19):
        x = np.random.default_rng(rows).standard_normal((1, rows, dim), np.float32)
        expected = apart.make_executor(1).run(x=x)
        for threads in (1, 2):
            found = one.make_executor(threads).run(x=x)
            for name, value in expected.items():
                np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_layers_agree_with_the_simulator(tmp_path: Path):
    model = package(tmp_path, 7, 5)
    simulated = oi.Simulator(LAYERS, model).make_executor()
    compiled = oi.compile(LAYERS, model).make_executor(2)
    for rows in (1, 4):
        x = np.random.default_rng(rows).standard_normal((rows, 32), np.float32)
        given = {"x": x, "place": np.array(3, np.int32)}
        expected, found = simulated.run(**given), compiled.run(**given)
        np.testing.assert_allclose(found["y"], expected["y"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(compiled.fetch("C"), simulated.fetch("C"), rtol=0, atol=1e-5)


def test_weights_are_packed_once(tmp_path: Path):
    """Merging needs no copies of weights: each one is packed once, the originals are not kept."""
    program = oi.compile(PROGRAM, package(tmp_path, 40, 70))
    rows = program.manifest.weights
    packed = [row.variable for row in rows if row.prepare is not None]
    assert sorted(packed) == ["Wg", "Wh", "Wk", "Wq", "Wu", "Wv"]
    assert sorted(row.variable for row in rows if row.prepare is None) == ["bk", "bq"]
