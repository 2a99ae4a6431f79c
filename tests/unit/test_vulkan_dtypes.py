"""Dtypes that need something of a device: each kind of kernel against the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.devices.description import DeviceDescription

F64 = DeviceDescription(f64=True)


def agree(text: str, inputs: dict[str, Any], tolerance: float = 0) -> None:
    """The device gives what the simulator does; to the last bit and sign, where no tolerance is said."""
    found = oi.compile(text, device="vulkan", fallback=False).make_executor().run(**inputs)
    expected = oi.Simulator(text).make_executor().run(**inputs)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        have, want = np.asarray(found[name]), np.asarray(value)
        assert (have.dtype, have.shape) == (want.dtype, want.shape), name
        np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance, err_msg=name)
        if want.dtype.kind == "f":
            signs = [np.signbit(one) & ~np.isnan(one) & (not tolerance) for one in (have, want)]
            np.testing.assert_array_equal(*signs, err_msg=name)


def doubles(draw: np.random.Generator, *shape: int) -> Any:
    """Numbers with some of all kinds: infinities, NaN, zeros of both signs, subnormal ones."""
    found = draw.standard_normal(shape) * 10.0 ** draw.integers(-300, 300, shape)
    odd = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 5e-324, -3e-310, 2.5, -0.5, 1e300])
    where = draw.random(shape) < 0.3
    found[where] = draw.choice(odd, where.sum())
    return found


# f64

ELEMENTS = """
dynamic { x: f64[%(n)s, %(c)s]; y: f64[%(n)s, %(c)s]; h: f16[%(n)s, %(c)s]; i: i64[%(n)s, %(c)s]; }
block entry {
    assign a: f64[_, _]; assign b: f64[_, _]; assign d: f64[_, _]; assign e: f64[_, _];
    assign f: f64[_, _]; assign g: f64[_, _]; assign j: f64[_, _]; assign k: f64[_, _];
    assign l: bool[_, _]; assign m: f64[_, _]; assign o: f32[_, _]; assign p: f16[_, _];
    assign q: i32[_, _]; assign r: f64[_, _]; assign s: f64[_, _];
    assign u: f64[_, _]; assign v: f64[_, _]; assign w: u8[_, _]; assign z: i64[_, _];
    op add(x, y) >> a; op sub(x, y) >> b; op mul(x, y) >> d; op div(x, y) >> e;
    op abs(x) >> f; op sqrt(f) >> g; op floor(x) >> j; op max(x, y) >> k;
    op lt(x, y) >> l; op where(l, x, y) >> m; op cast(x, to=f32) >> o; op cast(x, to=f16) >> p;
    op cast(x, to=i32, rounding_mode="even") >> q; op cast(h, to=f64) >> r; op cast(i, to=f64) >> s;
    op neg(x) >> u; op relu(x, negative_slope=0.5) >> v; op cast(x, to=u8) >> w;
    op cast(x, to=i64) >> z;
    return a, b, d, e, f, g, j, k, l, m, o, p, q, r, s, u, v, w, z;
}
"""


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 33), (16, 64), (0, 4)])
def test_elements_of_f64(rows: int, columns: int, everything_on_vulkan: None) -> None:
    """One at a time, and by accesses of 16 bytes where the extents are known."""
    draw = np.random.default_rng(rows)
    inputs = {
        "x": doubles(draw, rows, columns),
        "y": doubles(draw, rows, columns),
        "h": draw.standard_normal((rows, columns)).astype(np.float16),
        "i": draw.integers(-(2**63), 2**63, (rows, columns)),
    }
    agree(ELEMENTS % {"n": "N", "c": "C"}, inputs)
    agree(ELEMENTS % {"n": rows, "c": columns}, inputs)


def test_f64_becomes_f16_by_one_rounding(everything_on_vulkan: None) -> None:
    """Numbers that are half-way between two of f16 once they are rounded to f32."""
    draw = np.random.default_rng(2)
    halves = (draw.integers(1024, 2048, 500) + 0.5) * 2.0 ** draw.integers(-30, 4, 500)
    x = np.concatenate([halves, halves * (1 + 2.0**-40), halves * (1 - 2.0**-40)])
    text = "dynamic { x: f64[N]; } block entry { assign y: f16[N]; op cast(x, to=f16) >> y; return y; }"
    agree(text, {"x": x})


MOVES = """
dynamic { x: f64[N, C]; y: f64[N, C]; k: i64[M]; u: f64[M, C]; }
block entry {
    assign a: f64[M, C]; assign b: f64[N, 2 * C]; assign d: f64[C, N]; assign e: f64[N - 1, C];
    assign f: f64[N, C]; assign g: i64[N]; assign h: f64[_, C]; assign i: f64[N, C]; assign j: f64[N, C];
    assign l: f64[N]; assign m: f64[M, C];
    op gather(x, k) >> a; op concat(x, y, axis=1) >> b; op transpose(x) >> d;
    op slice(x, start=1) >> e; op flip(x, axes=[1]) >> f; op argmax_axis(x, axis=1) >> g;
    op pad(x, pads=[1, 0, 0, 0]) >> h; op scatter(x, k, u) >> i;
    op fill(x, value=0.1) >> j; op max_axis(x, axis=1) >> l;
    op cumsum(u, axis=1) >> m;
    return a, b, d, e, f, g, h, i, j, l, m;
}
"""


@pytest.mark.parametrize(("rows", "columns", "count"), [(1, 1, 1), (9, 33, 70), (70, 300, 3)])
def test_f64_moves(rows: int, columns: int, count: int, everything_on_vulkan: None) -> None:
    draw = np.random.default_rng(rows)
    inputs = {
        "x": doubles(draw, rows, columns),
        "y": doubles(draw, rows, columns),
        "k": draw.integers(0, rows, count),
        "u": doubles(draw, count, columns),
    }
    agree(MOVES, inputs)


SUMS = """
dynamic { x: f64[N, C]; w: f64[C, N]; i: f64[2, 3, 9, 9]; k: f64[4, 3, 3, 3]; }
block entry {
    assign a: f64[N]; assign b: f64[C]; assign c: f64[N]; assign e: f64[N, C];
    assign f: f64[N, C]; assign g: f64[N, N]; assign h: f64[_, _, _, _]; assign j: f64[_, _, _, _];
    assign l: f64[_, _, _, _];
    op sum_axis(x, axis=1) >> a; op sum_axis(x, axis=0) >> b; op mean_axis(x, axis=1) >> c;
    op layer_norm(x) >> e; op rms_norm(x) >> f; op matmul(x, w) >> g;
    op conv2d(i, k, padding=1) >> h; op avg_pool2d(i, kernel_size=3) >> j;
    op upsample2d(i, scale=1.3, mode="bilinear") >> l;
    return a, b, c, e, f, g, h, j, l;
}
"""


@pytest.mark.parametrize(("rows", "columns"), [(1, 5), (9, 33), (3, 700), (64, 80)])
def test_sums_of_f64(rows: int, columns: int, everything_on_vulkan: None) -> None:
    """No sum passes through f32: they agree to a few units in the last place of f64."""
    draw = np.random.default_rng(rows)
    inputs = {
        "x": draw.standard_normal((rows, columns)),
        "w": draw.standard_normal((columns, rows)),
        "i": draw.standard_normal((2, 3, 9, 9)),
        "k": draw.standard_normal((4, 3, 3, 3)),
    }
    agree(SUMS, inputs, 1e-12)
    agree(SUMS.replace("N", str(rows)).replace("C", str(columns)), inputs, 1e-12)


PRODUCT = """
dynamic { x: %(d)s[%(n)d, 256]; w: %(d)s[256, 192]; b: %(d)s[192]; }
block entry { assign y: %(d)s[%(n)d, 192]; op matmul(x, w) >> y; op add(y, b) >> y; return y; }
"""


@pytest.mark.parametrize("dtype", ["f64", "i64"])
@pytest.mark.parametrize("rows", [2, 40, 130])
def test_products_of_64_bits(rows: int, dtype: str, everything_on_vulkan: None) -> None:
    """Products of few rows, of elements and of tiles."""
    text = PRODUCT % {"d": dtype, "n": rows}
    draw = np.random.default_rng(rows)
    kind = np.float64 if dtype == "f64" else np.int64
    inputs = {
        "x": (draw.standard_normal((rows, 256)) * 9).astype(kind),
        "w": (draw.standard_normal((256, 192)) * 9).astype(kind),
        "b": draw.standard_normal(192).astype(kind),
    }
    agree(text, inputs, 1e-11 if dtype == "f64" else 0)


@pytest.mark.parametrize(("op", "function"), [("sin(x)", "sin"), ("gelu(x)", "erfc?")])
def test_other_functions_of_f64_are_the_hosts(op: str, function: str, vulkan: None) -> None:
    text = f"dynamic {{ x: f64[40, 40]; }} block entry {{ assign y: f64[40, 40]; op {op} >> y; return y; }}"
    with pytest.raises(oi.UnsupportedError, match=f"the device has no {function} of f64"):
        oi.compile(text, device="vulkan", fallback=False)
    x = np.random.default_rng(3).standard_normal((40, 40))
    found: Any = oi.compile(text, device="vulkan").make_executor().run(x=x)["y"]
    np.testing.assert_array_equal(found, oi.compile(text).make_executor().run(x=x)["y"])


def test_a_device_without_f64_leaves_it_to_the_host(
    vulkan: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the lowest tier does, whose kernels use what every device has."""
    text = "dynamic { x: f64[40, 40]; } block entry { assign y: f64[40, 40]; op neg(x) >> y; return y; }"
    oi.compile(text, device="vulkan", fallback=False)
    monkeypatch.setenv("OPENINFER_VULKAN_TIER", "scalar")
    with pytest.raises(oi.UnsupportedError, match="the device does not store f64"):
        oi.compile(text, device="vulkan", fallback=False)
    assert F64.within("matrix").f64
    assert not F64.within("scalar").f64
    assert F64.key != F64.within("scalar").key


def test_a_program_with_f64_is_refused_by_a_device_without_it(
    vulkan: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from openinfer.runtime.devices.vulkan import kernels

    text = "dynamic { x: f64[41, 43]; } block entry { assign y: f64[41, 43]; op neg(x) >> y; return y; }"
    program = oi.compile(text, device="vulkan", fallback=False)
    monkeypatch.setattr(kernels, "CAPABILITIES_OF_F64", frozenset[str]())
    with pytest.raises(oi.UnsupportedError, match="needs Float64") as raised:
        program.make_executor()
    assert raised.value.code == "OI0773"


# f16


@pytest.mark.parametrize(
    "text",
    [
        "assign y: f32[999]; op cast(a, to=f16) >> h; op cast(h, to=f32) >> y;",
        "assign y: f16[999]; op add(x, z) >> h; op add(h, x) >> y;",
        "assign y: f16[999]; op mul(x, z) >> h; op neg(h) >> h; op add(h, x) >> y;",
    ],
)
def test_what_is_rounded_to_f16_stays_rounded(text: str, everything_on_vulkan: None) -> None:
    """Also between two ops of a kernel, where a driver may take the conversion and back for nothing."""
    draw = np.random.default_rng(3)
    x, z = (draw.standard_normal(999).astype(np.float16) for _ in range(2))
    declared = "dynamic { a: f32[999]; x: f16[999]; z: f16[999]; }"
    text = f"{declared} block entry {{ assign h: f16[999]; {text} return y; }}"
    agree(text, {"a": draw.standard_normal(999).astype(np.float32), "x": x, "z": z})
