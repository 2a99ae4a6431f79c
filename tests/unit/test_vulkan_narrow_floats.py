"""Floats that a Vulkan device stores and computes with in f32: against the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.tensors import Tensor

NARROW = ("bf16", "f8", "f8e4m3")
UNIT = {"bf16": 2.0**-8, "f8": 2.0**-3, "f8e4m3": 2.0**-4}
"""The relative error of a rounding."""


def values(result: Any) -> Any:
    return result.values() if isinstance(result, Tensor) else np.asarray(result)


def agree(text: str, inputs: dict[str, Any], unit: float = 0) -> None:
    """The device gives what the simulator does: up to a rounding, or to the last bit and sign."""
    found = oi.compile(text, device="vulkan", fallback=False).make_executor().run(**inputs)
    expected = oi.Simulator(text).make_executor().run(**inputs)
    assert found.keys() == expected.keys()
    for name, result in expected.items():
        have, want = values(found[name]), values(result)
        assert (have.dtype, have.shape) == (want.dtype, want.shape), name
        with np.errstate(invalid="ignore"):
            pair = [np.asarray(one, np.float64) for one in (have, want)]
        np.testing.assert_allclose(*pair, rtol=2.01 * unit, atol=unit**2, err_msg=name)
        if want.dtype.kind == "f" and not unit:
            signs = [np.signbit(one) & ~np.isnan(one) for one in (have, want)]
            np.testing.assert_array_equal(*signs, err_msg=name)


def all_codes(dtype: str, columns: int) -> Tensor:
    """Every value of a dtype: infinities, NaN and subnormal numbers among them."""
    bits = DTYPES[dtype].bits
    codes = np.arange(1 << bits).astype(f"uint{bits}").reshape(-1, columns)
    return Tensor(DTYPES[dtype], codes.shape, codes)


def drawn(dtype: str, *shape: int, seed: int = 0) -> Tensor:
    return Tensor.from_values(dtype, np.random.default_rng(seed).standard_normal(shape))


FROM = """
dynamic { x: %(d)s[N, %(c)s]; }
constant { one: %(d)s @init(1); three: %(d)s @init(3); }
block entry {
    assign a: f32[_, _]; assign b: f16[_, _]; assign c: i32[_, _]; assign d: u8[_, _]; assign e: bool[_, _];
    assign f: %(d)s[_, _]; assign g: %(d)s[_, _]; assign h: %(d)s[_, _]; assign i: %(d)s[_, _];
    op cast(x, to=f32) >> a; op cast(x, to=f16) >> b; op cast(x, to=i32) >> c; op cast(x, to=u8) >> d;
    op lt(x, one) >> e; op neg(x) >> f; op mul(x, x) >> g; op div(x, three) >> h; op add(x, x) >> i;
    return a, b, c, d, e, f, g, h, i;
}
"""


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("columns", ["C", "16"])
def test_every_value(columns: str, dtype: str, everything_on_vulkan: None) -> None:
    """One at a time, and by accesses of 16 bytes."""
    agree(FROM % {"d": dtype, "c": columns}, {"x": all_codes(dtype, 16)})


TO = """
dynamic { x: f32[N]; d: f64[N]; i: i64[N]; h: f16[N]; }
block entry {
    assign a: %(d)s[N]; assign b: %(d)s[N]; assign c: %(d)s[N]; assign e: %(d)s[N]; assign f: f64[N];
    op cast(x, to=%(d)s) >> a; op cast(d, to=%(d)s) >> b; op cast(i, to=%(d)s) >> c;
    op cast(h, to=%(d)s) >> e; op cast(a, to=f64) >> f;
    return a, b, c, e, f;
}
"""


@pytest.mark.parametrize("dtype", NARROW)
def test_roundings(dtype: str, everything_on_vulkan: None) -> None:
    """Half-way between two values, and beside that: to even, in one rounding, also from f64."""
    draw = np.random.default_rng(4)
    bits = 0x3F800000 + draw.integers(-(2**27), 2**27, 700)
    near = (bits & ~0xFFFFF | draw.choice([0x8000, 0x18000, 0x80000, 0x180000], 700)).astype(
        np.uint32
    )
    x = near.view(np.float32) * draw.choice([-1, 1], 700).astype(np.float32)
    x[:6] = [np.inf, -np.inf, np.nan, -0.0, 3.4e38, -3.4e38]
    d = x.astype(np.float64) * (1 + 2.0**-40 * draw.integers(-1, 2, 700))
    inputs = {"x": x, "d": d, "i": draw.integers(-(2**40), 2**40, 700) >> draw.integers(0, 40, 700)}
    agree(TO % {"d": dtype}, {**inputs, "h": draw.standard_normal(700).astype(np.float16)})


MOVES = """
dynamic { x: T[N, C]; y: T[N, C]; k: i64[M]; u: T[M, C]; }
block entry {
    assign a: T[M, C]; assign b: T[N, 2 * C]; assign d: T[C, N]; assign e: T[N - 1, C];
    assign f: T[N, C]; assign g: i64[N]; assign h: T[_, C]; assign i: T[N, C]; assign j: T[N, C];
    assign l: T[N]; assign m: bool[N, C]; assign n: T[N, C]; assign o: T[N, C];
    op gather(x, k) >> a; op concat(x, y, axis=1) >> b; op transpose(x) >> d;
    op slice(x, start=1) >> e; op flip(x, axes=[1]) >> f; op argmax_axis(x, axis=1) >> g;
    op pad(x, pads=[1, 0, 0, 0]) >> h; op scatter(x, k, u) >> i; op fill(x, value=0.1) >> j;
    op max_axis(x, axis=1) >> l; op lt(x, y) >> m; op where(m, x, y) >> n; op max(x, y) >> o;
    return a, b, d, e, f, g, h, i, j, l, m, n, o;
}
"""


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize(("rows", "columns", "count"), [(1, 1, 1), (9, 33, 70)])
def test_moves(rows: int, columns: int, count: int, dtype: str, everything_on_vulkan: None) -> None:
    inputs = {
        "x": drawn(dtype, rows, columns),
        "y": drawn(dtype, rows, columns, seed=1),
        "k": np.random.default_rng(rows).integers(0, rows, count),
        "u": drawn(dtype, count, columns, seed=2),
    }
    agree(MOVES.replace("T[", f"{dtype}["), inputs)


SUMS = """
dynamic { x: T[N, C]; w: T[C, N]; b: T[N]; i: T[2, 3, 9, 9]; k: T[4, 3, 3, 3]; }
block entry {
    assign a: T[N]; assign c: T[C]; assign d: T[N]; assign e: T[N, C]; assign f: T[N, C];
    assign g: T[N, N]; assign h: T[_, _, _, _]; assign j: T[_, _, _, _]; assign l: T[N, C];
    assign m: T[N, C]; assign n: T[N, C]; assign o: T[N, C];
    op sum_axis(x, axis=1) >> a; op sum_axis(x, axis=0) >> c; op mean_axis(x, axis=1) >> d;
    op layer_norm(x) >> e; op rms_norm(x) >> f; op matmul(x, w) >> g; op add(g, b) >> g;
    op relu(g) >> g; op conv2d(i, k, padding=1) >> h; op max_pool2d(i, kernel_size=3) >> j;
    op softmax(x, axis=1) >> l; op cumsum(x, axis=1) >> m; op silu(x) >> n; op exp(x) >> o;
    return a, c, d, e, f, g, h, j, l, m, n, o;
}
"""


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize(("rows", "columns"), [(3, 300), (64, 80)])
def test_sums(rows: int, columns: int, dtype: str, everything_on_vulkan: None) -> None:
    """They are added up in f32 and rounded once."""
    inputs = {
        "x": drawn(dtype, rows, columns),
        "w": drawn(dtype, columns, rows, seed=1),
        "b": drawn(dtype, rows, seed=2),
        "i": drawn(dtype, 2, 3, 9, 9, seed=3),
        "k": drawn(dtype, 4, 3, 3, 3, seed=4),
    }
    text = SUMS.replace("T[", f"{dtype}[")
    if rows > 3:  # Tiles of known sizes, and accesses of 16 bytes.
        text = text.replace("N", str(rows)).replace("C", str(columns))
    agree(text, inputs, UNIT[dtype])


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("rows", [1, 3])
def test_few_rows(rows: int, dtype: str, everything_on_vulkan: None) -> None:
    """A product of them leaves the norm, which is rounded, to a kernel of its own."""
    text = f"""
dynamic {{ x: {dtype}[{rows}, 512]; n: {dtype}[512]; w: {dtype}[300, 512]; }}
block entry {{
    assign h: {dtype}[{rows}, 512]; assign y: {dtype}[{rows}, 300];
    op rms_norm(x, n) >> h; op matmul(h, w, transpose_b=true) >> y; op relu(y) >> y; return y;
}}
"""
    inputs = {"x": drawn(dtype, rows, 512), "n": drawn(dtype, 512, seed=1)}
    agree(text, {**inputs, "w": drawn(dtype, 300, 512, seed=2)}, UNIT[dtype])


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("queries", [1, 21])
def test_attention(queries: int, dtype: str, everything_on_vulkan: None) -> None:
    text = f"""
dynamic {{ q: {dtype}[2, 4, L, 16]; k: {dtype}[2, 2, 30, 16]; v: {dtype}[2, 2, 30, 16]; }}
block entry {{ assign o: {dtype}[2, 4, L, 16]; op attention(q, k, v) >> o; return o; }}
"""
    keys = {name: drawn(dtype, 2, 2, 30, 16, seed=n) for n, name in enumerate("kv")}
    agree(text, {"q": drawn(dtype, 2, 4, queries, 16, seed=3), **keys}, UNIT[dtype])


@pytest.mark.parametrize("dtype", NARROW)
def test_a_state_lies_on_the_device(dtype: str, everything_on_vulkan: None) -> None:
    text = f"""
dynamic {{ x: {dtype}[1, 8]; }}
persistent {{ s: {dtype}[40, 8]; }}
block entry {{
    assign y: {dtype}[40, 8]; op add(s, x) >> y; cache.write y >> s; return y;
}}
"""
    device = oi.compile(text, device="vulkan", fallback=False).make_executor()
    simulator = oi.Simulator(text).make_executor()
    for seed in range(3):
        x = drawn(dtype, 1, 8, seed=seed)
        found, expected = device.run(x=x)["y"], simulator.run(x=x)["y"]
        np.testing.assert_array_equal(values(found), values(expected))
