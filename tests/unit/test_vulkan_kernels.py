"""The forms that kernels of the device have, in every tier, against the simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.tools.openinfer import main
from openinfer.compiler.tools.openinfer_opt import main as optimise
from openinfer.compiler.tools.running import results
from openinfer.compiler.tools.tolerance import difference
from openinfer.compiler.tools.values import drawn_inputs
from openinfer.runtime.devices import device_of
from openinfer.runtime.devices.vulkan.kernels import Words
from openinfer.runtime.devices.vulkan.logical import logical_device
from openinfer.runtime.options import TIERS
from openinfer.runtime.spirv.check_words import check_words
from tests.sweeps import FULL

PROGRAMS = {
    "lines": """
dynamic { x: f32[B, C]; z: f16[B, C]; w: f32[C]; v: f32[C]; h: f16[C]; }
volatile { a: f32[B, C]; b: f32[B, C]; c: f16[B, C]; d: f32[B, C]; e: f32[B, C]; f: f16[B, C]; g: f16[B, C]; }
block entry {
    op softmax(x, axis=1) >> a; op softmax(x, axis=0) >> b; op softmax(z, axis=1) >> c;
    op layer_norm(x, w, v, eps=1e-5) >> d; op rms_norm(x, w, eps=1e-6) >> e;
    op rms_norm(z, h, eps=1e-5) >> f; op layer_norm(z, eps=1e-5) >> g;
    return;
}
""",
    "sums": """
dynamic { x: f32[B, C, D]; z: f16[B, C, D]; n: i32[B, C, D]; p: i8[B, C, D]; l: i64[B, C, D]; }
volatile {
    a: f32[B, C]; b: f32[C, D]; c: f32[B, D]; d: f32[D]; e: f16[B, C]; f: i32[C]; g: i8[B, D];
    h: f32[B]; i: f32[C, D]; j: f16[C, D]; k: f32[B, C]; m: i64[B, D];
}
block entry {
    op sum_axis(x, axes=[2]) >> a; op sum_axis(x, axes=[0]) >> b; op mean_axis(x, axes=[1]) >> c;
    op max_axis(x, axes=[0, 1]) >> d; op max_axis(z, axes=[2]) >> e; op sum_axis(n, axes=[0, 2]) >> f;
    op max_axis(p, axes=[1]) >> g; op sum_axis(x, axes=[1, 2]) >> h; op min_axis(x, axes=[0]) >> i;
    op sum_axis(z, axes=[0]) >> j; op prod_axis(x, axes=[2]) >> k; op sum_axis(l, axes=[1]) >> m;
    return;
}
""",
    "products": """
dynamic {
    x: f32[B, M, K]; y: f32[K, N]; z: f32[N, K]; w: f32[B, K, N]; h: f16[M, K]; g: f16[N, K];
    i: i32[M, K]; j: i32[K, N]; bias: f32[N]; r: f32[B, M, N]; t: f32[B, K, M];
}
volatile { a: f32[B, M, N]; b: f32[B, M, N]; c: f32[B, M, N]; d: f16[M, N]; e: i32[M, N]; f: f32[B, M, N]; }
block entry {
    op matmul(x, y) >> a; op add(a, bias) >> a; op gelu(a) >> a;
    op matmul(x, z, transpose_b=true) >> b; op add(b, r) >> b;
    op matmul(x, w) >> c; op matmul(h, g, transpose_b=true) >> d; op matmul(i, j) >> e;
    op matmul(t, w, transpose_a=true) >> f;
    return;
}
""",
    "wide products": """
dynamic {
    x: f32[M, 100]; y: f32[100, 68]; z: f32[64, 128]; h: f16[M, 64]; g: f16[96, 64]; gg: f16[64, 40];
    r: f32[M, 68]; q: i8[M, 64]; p: i8[32, 64];
}
volatile { a: f32[M, 68]; c: f16[M, 96]; d: f16[M, 40]; e: f32[64, 64]; s: i8[M, 32]; }
block entry {
    op matmul(x, y) >> a; op add(a, r) >> a; op gelu(a) >> a; op matmul(h, g, transpose_b=true) >> c;
    op matmul(h, gg) >> d; op matmul(z, z, transpose_b=true) >> e; op matmul(q, p, transpose_b=true) >> s;
    return;
}
""",
    "large tiles": """
dynamic {
    x: f32[1000, 36]; y: f32[36, 2044]; z: f32[2044, 36]; v: f32[1024, 32]; w: f32[2048, 32];
    i: i32[1024, 16]; j: i32[2048, 16];
}
volatile { a: f32[1000, 2044]; b: f32[1000, 2044]; c: f32[1024, 2048]; d: i32[1024, 2048]; }
block entry {
    op matmul(x, y) >> a; op matmul(x, z, transpose_b=true) >> b; op matmul(v, w, transpose_b=true) >> c;
    op matmul(i, j, transpose_b=true) >> d;
    return;
}
""",
    "few rows": """
dynamic {
    x: f32[1, 256]; y: f32[256, 96]; z: f32[N, 256]; h: f16[3, 512]; g: f16[64, 512]; gg: f16[512, 40];
    bias: f32[96]; s: f32[2, K]; t: f32[K, N]; u: f32[N, K]; i: i32[2, 200]; j: i32[200, 30];
    jj: i8[4, 300]; kk: i8[20, 300]; v: f16[K, 3]; w: f16[N, K];
}
volatile {
    a: f32[1, 96]; b: f32[1, N]; c: f16[3, 64]; d: f16[3, 40]; e: f32[2, N]; f: f32[2, N]; k: i32[2, 30];
    l: i8[4, 20]; m: f16[3, N];
}
block entry {
    op matmul(x, y) >> a; op add(a, bias) >> a; op gelu(a) >> a; op matmul(x, z, transpose_b=true) >> b;
    op matmul(h, g, transpose_b=true) >> c; op matmul(h, gg) >> d; op matmul(s, t) >> e;
    op matmul(s, u, transpose_b=true) >> f; op matmul(i, j) >> k; op matmul(jj, kk, transpose_b=true) >> l;
    op matmul(v, w, transpose_a=true, transpose_b=true) >> m;
    return;
}
""",
    "elements": """
dynamic {
    x: f32[B, 32]; y: f32[32]; h: f16[B, 32]; q: bool[B, 32]; z: f32[B, C]; i: i8[B, C]; n: i64[B, 32];
    t: f32[B, 32, 8];
}
volatile {
    a: f32[B, 32]; b: f32[B, 32]; c: f16[B, 32]; d: f32[B, 32]; e: f32[B, C]; f: i8[B, C]; g: i64[B, 32];
    k: f32[B, 8, 32]; l: bool[B, C]; o: f32[B, 32];
}
block entry {
    op add(x, y) >> a; op cast(h, to=f32) >> b; op add(b, x) >> b; op mul(h, h) >> c;
    op where(q, x, y) >> d; op neg(z) >> e; op add(i, i) >> f; op add(n, n) >> g;
    op transpose(t, permutation=[0, 2, 1]) >> k; op gt(z, z) >> l; op exp(x) >> o;
    return;
}
""",
    "attention": """
dynamic {
    q: f32[B, 4, L, D]; k: f32[B, 2, T, D]; v: f32[B, 2, T, D]; m: bool[B, 1, L, T]; f: f32[T];
    qh: f16[B, 4, L, D]; kh: f16[B, 2, T, D];
}
volatile {
    a: f32[B, 4, L, D]; b: f32[B, 4, L, D]; c: f32[B, 4, L, D]; d: f32[B, 4, L, D]; e: f16[B, 4, L, D];
    g: f32[B, 4, L, D]; h: f32[B, 4, L, D];
}
block entry {
    op attention(q, k, v) >> a; op attention(q, k, v, causal=true) >> b; op attention(q, k, v, m) >> c;
    op attention(q, k, v, f, causal=true, window=3) >> d; op attention(qh, kh, kh, scale=0.1) >> e;
    op attention(q, k, v, m, window=2) >> g; op attention(q, k, v, causal=true, window=5) >> h;
    return;
}
""",
    "one query": """
dynamic {
    q: f32[B, 4, L, 32]; k: f32[B, 2, T, 32]; v: f32[B, 2, T, 32]; m: bool[B, 1, L, T]; f: f32[T];
    qh: f16[B, 4, 1, 32]; kh: f16[B, 2, T, 32]; o: f32[B, 4, 1, 16]; p: f32[B, 4, T, 16];
}
volatile {
    a: f32[B, 4, L, 32]; b: f32[B, 4, L, 32]; c: f32[B, 4, L, 32]; d: f32[B, 4, L, 32]; e: f16[B, 4, 1, 32];
    g: f32[B, 4, L, 32]; h: f32[B, 4, 1, 16];
}
block entry {
    op attention(q, k, v) >> a; op attention(q, k, v, causal=true) >> b; op attention(q, k, v, m) >> c;
    op attention(q, k, v, f, causal=true, window=3) >> d; op attention(qh, kh, kh, scale=0.1) >> e;
    op attention(q, k, v, m, window=2) >> g; op attention(o, p, p) >> h;
    return;
}
""",
    "checks": """
dynamic { x: f32[B, 9]; t: f32[9, C]; s: f32[3, 9]; }
volatile { y: f32[B, C]; z: f32[3, C]; }
block entry {
    assign k: i64[B]; assign l: i64[3];
    op argmax_axis(x, axis=1) >> k; op gather(t, k) >> y;
    op argmax_axis(s, axis=1) >> l; op gather(t, l) >> z;
    return;
}
""",
    "rows of a step": """
dynamic {
    x: f32[M, 256]; y: f32[256, 512]; z: f32[512, 256]; h: f16[2, M, 256]; g: f16[2, 512, 256];
    r: f32[M, 512];
}
volatile { a: f32[M, 512]; b: f32[M, 512]; c: f16[2, M, 512]; }
block entry {
    op matmul(x, y) >> a; op add(a, r) >> a; op gelu(a) >> a; op matmul(x, z, transpose_b=true) >> b;
    op matmul(h, g, transpose_b=true) >> c;
    return;
}
""",
}
SIZES = {
    "lines": ("B=3 C=2", "B=40 C=384", "B=2 C=1000", "B=7 C=1"),
    "sums": ("B=3 C=2 D=5", "B=40 C=3 D=70", "B=2 C=1 D=1000", "B=70 C=300 D=1"),
    "products": ("B=1 M=1 N=1 K=4", "B=2 M=70 N=65 K=33", "B=3 M=64 N=128 K=64"),
    "wide products": ("M=33", "M=128"),
    "large tiles": ("",),
    "few rows": ("N=1 K=70", "N=130 K=1000"),
    "elements": ("B=1 C=1", "B=7 C=5", "B=64 C=33"),
    "attention": (
        "B=1 L=1 T=1 D=4",
        "B=2 L=5 T=5 D=8",
        "B=1 L=3 T=300 D=32",
        "B=1 L=2 T=130 D=130",
    ),
    "one query": ("B=1 L=1 T=1", "B=2 L=1 T=300", "B=1 L=3 T=70"),
    "checks": ("B=1 C=1", "B=700 C=5"),
    "rows of a step": ("M=0", "M=1", "M=40", "M=970"),
}


@pytest.mark.parametrize("tier", TIERS[:2])
@pytest.mark.parametrize("form", SIZES)
def test_a_form_agrees_with_the_simulator(
    form: str,
    tier: str,
    everything_on_vulkan: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """One executor takes all sizes of a form, so that its kernels are made once. A full sweep has the watched
    build, too, node by node."""
    monkeypatch.setenv("OPENINFER_VULKAN_TIER", tier)
    graph = oi.graph(PROGRAMS[form])
    reference = oi.Simulator(graph).make_executor(trace=False)
    with oi.compile(graph, device="vulkan").make_executor() as executor:
        for sizes in SIZES[form]:
            named = {name: int(size) for name, size in (one.split("=") for one in sizes.split())}
            given = drawn_inputs(reference, {}, named, 0, 0)
            for each in (reference, executor):
                each.insert(**given)
                each.step()
            expected, found = results(reference), results(executor)
            wrong = {name: difference(value, found[name]) for name, value in expected.items()}
            assert wrong == dict.fromkeys(expected), sizes
    if not FULL:
        return
    path = tmp_path / "form.oi"
    path.write_text(PROGRAMS[form])
    # Each build is compiled once for all sizes.
    monkeypatch.delenv("OPENINFER_CACHE")
    monkeypatch.setenv("OPENINFER_CACHE_DIR", str(tmp_path / "programs"))
    for sizes in SIZES[form]:
        given = [word for size in sizes.split() for word in ("--size", size)]
        assert main(["compare", str(path), "--device", "vulkan", *given]) == 0, sizes
        assert "agree" in capsys.readouterr().out


def test_long_sums_are_shared(everything_on_vulkan: None) -> None:
    """An invocation of lavapipe ends a loop after 65,535 turns; a sum of more elements is right."""
    program = oi.compile(
        "dynamic { x: f32[N]; y: f32[N, 2]; } block entry { assign a: f32[1]; assign b: f32[2]; "
        "op sum_axis(x, axes=[0], keepdims=true) >> a; op sum_axis(y, axes=[0]) >> b; return a, b; }",
        device="vulkan",
    )
    count = 200_000
    x = np.ones(count, np.float32)
    found = program.make_executor().run(x=x, y=np.stack([x, 2 * x], axis=1))
    assert np.array_equal(found["a"], [count])
    assert np.array_equal(found["b"], [count, 2 * count])


@pytest.mark.parametrize(("queries", "depth"), [(2, 4), (1, 32)])
def test_a_row_that_sees_nothing_or_nan(
    queries: int, depth: int, everything_on_vulkan: None
) -> None:
    """Hidden values that are no numbers are no part of a result, a row that sees nothing is 0."""
    program = oi.compile(
        f"dynamic {{ q: f32[2, 1, {queries}, {depth}]; k: f32[2, 1, 3, {depth}]; "
        f"m: bool[2, 1, {queries}, 3]; }} block entry {{ assign o: f32[2, 1, {queries}, {depth}]; "
        "op attention(q, k, k, m) >> o; return o; }",
        device="vulkan",
    )
    q, k = np.ones((2, 1, queries, depth), np.float32), np.ones((2, 1, 3, depth), np.float32)
    k[:, 0, 2] = np.nan
    mask = np.zeros((2, 1, queries, 3), bool)
    mask[0, 0, 0, :2] = True
    found = np.asarray(program.make_executor().run(q=q, k=k, m=mask)["o"])
    wanted = np.zeros_like(q)
    wanted[0, 0, 0] = 1
    assert np.array_equal(found, wanted)
    mask[0, 0, 0, 2] = True
    seen = np.asarray(program.make_executor().run(q=q, k=k, m=mask)["o"])
    assert np.isnan(seen[0, 0, 0]).all()


def test_what_runs_on_the_device_runs_there(vulkan: None) -> None:
    """Nothing of these programs falls back to the host."""
    for form in ("lines", "products", "attention"):
        oi.compile(PROGRAMS[form], device="vulkan", fallback=False)


def test_a_program_for_other_subgroups_is_refused(
    vulkan: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    program = oi.compile(PROGRAMS["lines"], device="vulkan")
    assert program.manifest.subgroup > 1
    program.manifest = replace(program.manifest, subgroup=64)
    with pytest.raises(oi.UnsupportedError, match="subgroups of 64 invocations"):
        program.make_executor()


def test_an_unknown_tier_is_refused(vulkan: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENINFER_VULKAN_TIER", "best")
    with pytest.raises(oi.InputError, match="OPENINFER_VULKAN_TIER=best is no tier"):
        oi.compile(PROGRAMS["lines"], device="vulkan")


MATRICES = """
builtin.module attributes {
    openinfer.target = "generic", openinfer.device = "vulkan",
    openinfer.subgroup = 32 : i64, openinfer.matrices} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<96x96xf16>
    func.call @product_0(%a, %a, %a) : (memref<96x96xf16>, memref<96x96xf16>, memref<96x96xf16>) -> ()
    func.return
  }
  func.func private @product_0(%x: memref<96x96xf16>, %w: memref<96x96xf16>, %y: memref<96x96xf16>) {
    nn.matmul(%x, %w) outs(%y) : (memref<96x96xf16>, memref<96x96xf16>, memref<96x96xf16>) -> ()
    func.return
  }
}
"""


def test_products_of_matrices_are_words_that_the_checker_takes(
    vulkan: None, tmp_path: Path
) -> None:
    """A device without them, as processors are, refuses the kernel before its driver sees it."""
    text, words = tmp_path / "product.mlir", tmp_path / "product.spv"
    text.write_text(MATRICES)
    passes = "lower-device-kernels,convert-to-spirv"
    assert optimise([str(text), "-p", passes, "-t", "spirv", "-o", str(words)]) == 0
    check_words(words.read_bytes())
    if not device_of("vulkan").describe().matrices:
        with pytest.raises(oi.UnsupportedError, match="product_0 needs CooperativeMatrixKHR"):
            logical_device().kernels.make([Words(words.read_bytes(), 4, "product_0")])


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "turned"),
    [(70, 96, 512, True), (70, 96, 512, False), (33, 72, 40, False), (130, 200, 72, True)],
)
def test_products_of_matrices(
    vulkan: None, rows: int, columns: int, depth: int, turned: bool
) -> None:
    if not device_of("vulkan").describe().matrices:
        pytest.skip("the device multiplies no matrices of f16")
    shape = (columns, depth) if turned else (depth, columns)
    program = oi.compile(
        f"dynamic {{ x: f16[{rows}, {depth}]; w: f16[{shape[0]}, {shape[1]}]; }} "
        f"block entry {{ assign y: f16[{rows}, {columns}]; "
        f"op matmul(x, w{', transpose_b=true' if turned else ''}) >> y; return y; }}",
        device="vulkan",
    )
    rng = np.random.default_rng(1)
    x, w = ((rng.random(of) - 0.5).astype(np.float16) for of in ((rows, depth), shape))
    found = np.asarray(program.make_executor().run(x=x, w=w)["y"]).astype(np.float64)
    wanted = x.astype(np.float64) @ (w.T if turned else w).astype(np.float64)
    assert np.abs(found - wanted).max() <= 1e-3 * np.abs(wanted).max()
