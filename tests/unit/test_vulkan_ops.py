"""Ops that are kernels of their own on a Vulkan device, against the simulator, and their errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.api import compile
from openinfer.lowering.vulkan.schedules.fourier import MOST_SAMPLES, TERMS
from openinfer.runtime.options import TIERS

Draw = np.random.Generator


def agree(
    text: str, inputs: dict[str, Any], tolerance: float = 0, narrow: float | None = None
) -> None:
    """The device gives what the simulator does; nothing is left to the host. `narrow`: of f16."""
    found = oi.compile(text, device="vulkan", fallback=False).make_executor().run(**inputs)
    expected = oi.Simulator(text).make_executor().run(**inputs)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        allowed = tolerance if narrow is None or value.dtype != np.float16 else narrow
        both: list[Any] = [found[name], value]
        if value.dtype.kind == "f":
            both = [np.asarray(one, np.float64) for one in both]
        np.testing.assert_allclose(*both, rtol=allowed, atol=allowed, err_msg=name)


def floats(draw: Draw, *shape: int, dtype: str = "float32") -> Any:
    return draw.standard_normal(shape).astype(dtype)


MOVEMENT = """
dynamic { x: f32[N, C]; h: f16[7, 4]; i: i64[N, 3]; k: i64[M]; u: u8[M, 2]; c: i64; }
block entry {
    assign a: f32[M, C]; assign d: f32[M, 2, C]; assign e: f32[N];
    assign f: f32[N, 2 * C]; assign g: i64[3 * N, 3]; assign j: f16[3, 4]; assign l: f16[7, 4];
    assign m: f32[N - 1, C];
    op gather(x, k) >> a; op gather(x, u) >> d; op gather(x, c, axis=1) >> e;
    op concat(x, x, axis=1) >> f; op concat(i, i, i, axis=0) >> g;
    op slice(h, start=1, stop=7, step=2) >> j;
    op flip(h, axes=[0, 1]) >> l;
    op slice(x, start=1) >> m;
    return a, d, e, f, g, j, l, m;
}
"""


@pytest.mark.parametrize(
    ("rows", "columns", "count"), [(1, 1, 1), (9, 33, 70), (70, 5, 0), (1000, 3, 9)]
)
def test_movement(rows: int, columns: int, count: int, everything_on_vulkan: None) -> None:
    draw = np.random.default_rng(rows + count)
    inputs = {
        "x": floats(draw, rows, columns),
        "h": floats(draw, 7, 4, dtype="float16"),
        "i": draw.integers(-9, 9, (rows, 3)),
        "k": draw.integers(0, rows, count),
        "u": draw.integers(0, min(rows, 255), (count, 2)).astype(np.uint8),
        "c": draw.integers(0, columns, ()),
    }
    agree(MOVEMENT, inputs)


TABLE = """
dynamic { x: f32[N, 4]; k: %s[M]; }
block entry {
    assign y: f32[M, 4]; assign z: f32[M, 4]; assign w: f32[N, 4];
    op add(x, x) >> w; op gather(w, k) >> y; op %s >> z;
    return y, z;
}
"""


@pytest.mark.parametrize("dtype", ["i64", "i32", "u8", "u32", "u64"])
def test_an_index_outside_is_the_error_of_the_cpu(dtype: str, everything_on_vulkan: None) -> None:
    """Also one whose lower 32 bits are an index; the first one of several, and of the first node."""
    text = TABLE % (dtype, "gather(x, k)")
    x = np.ones((5, 4), np.float32)
    wrong = {"i64": -1, "i32": -(2**31), "u8": 255, "u32": 2**32 - 1, "u64": 2**32 + 1}[dtype]
    numpy_dtype = np.dtype(dtype.replace("i", "int").replace("u", "uint"))
    found: list[str] = []
    executors = [
        oi.compile(text, device="vulkan", fallback=False).make_executor(),
        oi.compile(text).make_executor(),
    ]
    for executor in executors:
        with pytest.raises(oi.StepError) as raised:
            executor.run(x=x, k=np.array([4, 5 if wrong < 0 else wrong, wrong], numpy_dtype))
        found.append(str(raised.value))
        # The executor stays usable.
        assert executor.run(x=x, k=np.array([4, 0], numpy_dtype))["z"].shape == (2, 4)
    assert found[0] == found[1]
    assert "index" in found[0]


MANY = """
dynamic {{ x: f32[4, 5]; k: i64[M]; u: f32[4, M]; }}
block entry {{ assign y: f32[{shape}]; assign z: f32[{behind}]; {nodes} return y, z; }}
"""
ROWS, COLUMNS = ("gather(x, k, axis=0)", "M, 5", 4), ("gather(x, k, axis=1)", "4, M", 5)
JOINED = ('scatter(x, k, u, axis=1, mode="add")', "4, 5", 5)


@pytest.mark.parametrize("device", ["cpu", "vulkan"])
@pytest.mark.parametrize("count", [9, 6000])
@pytest.mark.parametrize(
    ("first", "then"), [(ROWS, COLUMNS), (COLUMNS, ROWS), (JOINED, ROWS)], ids=["rows", "columns", "joined"]
)  # fmt: skip
def test_of_many_wrong_indices_the_first_is_named(
    first: tuple[str, str, int],
    then: tuple[str, str, int],
    count: int,
    device: str,
    everything_on_vulkan: None,
) -> None:
    """Of all nodes, and whatever the order is in which threads and invocations come to them."""
    text = MANY.format(
        shape=first[1], behind=then[1], nodes=f"op {first[0]} >> y; op {then[0]} >> z;"
    )
    executor = oi.compile(text, device=device).make_executor(threads=4)
    k = np.full(count, 1)
    k[3:] = np.arange(count - 3) + 100
    x, u = np.ones((4, 5), np.float32), np.ones((4, count), np.float32)
    for _ in range(25):
        with pytest.raises(oi.StepError) as raised:
            executor.run(x=x, k=k, u=u)
        said = f">> y: index 100 at position [3] of the indices is outside 0..{first[2]}"
        assert said in str(raised.value)


def test_the_mean_of_nothing(everything_on_vulkan: None) -> None:
    """Also where the driver divides by multiplying, and takes 0 times infinity for 0."""
    text = """
    dynamic { x: f32[3, 0]; y: f16[n, 3]; }
    block entry { a = op mean_axis(x, axes=[1]); b = op mean_axis(y, axes=[0]); return a, b; }
    """
    with oi.compile(text, device="vulkan", fallback=False).make_executor() as executor:
        found = executor.run(x=np.zeros((3, 0), np.float32), y=np.zeros((0, 3), np.float16))
    assert all(np.isnan(np.asarray(value)).all() for value in found.values())


def test_an_empty_table(everything_on_vulkan: None) -> None:
    program = oi.compile(TABLE % ("i64", "gather(x, k)"), device="vulkan", fallback=False)
    executor = program.make_executor()
    x = np.ones((0, 4), np.float32)
    assert executor.run(x=x, k=np.zeros(0, np.int64))["z"].shape == (0, 4)
    with pytest.raises(oi.StepError, match=r"index 0.* is outside"):
        executor.run(x=x, k=np.zeros(1, np.int64))


def test_indices_that_the_device_computes(everything_on_vulkan: None) -> None:
    text = """
dynamic { x: f32[9, 4]; k: i64[M]; }
block entry {
    assign y: f32[M, 4]; assign twice: i64[M];
    op add(k, k) >> twice; op gather(x, twice) >> y;
    return y;
}
"""
    x = floats(np.random.default_rng(1), 9, 4)
    agree(text, {"x": x, "k": np.array([0, 4, 2])})
    executor = oi.compile(text, device="vulkan", fallback=False).make_executor()
    with pytest.raises(oi.StepError, match="index 10"):
        executor.run(x=x, k=np.array([0, 5, 2]))


# Extremes, orders, running sums

SEARCHES = """
dynamic { x: f32[N, C]; h: f16[N, C]; n: i64[N, C]; u: u8[N, C]; }
block entry {
    assign a: i64[N]; assign b: i64[N]; assign c: i64[C]; assign d: i64[C];
    assign e: i64[N, 1]; assign f: i64[N]; assign g: i64[1, C];
    op argmax_axis(x, axis=1) >> a; op argmin_axis(x, axis=1, select_first=false) >> b;
    op argmax_axis(x, axis=0, select_first=false) >> c; op argmin_axis(h, axis=0) >> d;
    op argmin_axis(n, axis=1, keepdims=true) >> e; op argmax_axis(u, axis=1) >> f;
    op argmax_axis(n, axis=0, keepdims=true) >> g;
    return a, b, c, d, e, f, g;
}
"""


@pytest.mark.parametrize("tier", TIERS[:2])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 5), (2, 1000), (700, 3)])
def test_extremes(
    rows: int,
    columns: int,
    tier: str,
    everything_on_vulkan: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With equal values, infinities and NaN in some lines, and lines of which all elements are the worst."""
    monkeypatch.setenv("OPENINFER_VULKAN_TIER", tier)
    draw = np.random.default_rng(rows)
    x = np.round(floats(draw, rows, columns), 1)
    x[0] = -np.inf
    x[-1, columns // 2 :] = np.nan
    x[rows // 2, columns // 3] = np.inf
    inputs = {
        "x": x,
        "h": np.round(floats(draw, rows, columns), 1).astype(np.float16),
        "n": draw.integers(-3, 3, (rows, columns)) * 2**40,
        "u": draw.integers(0, 256, (rows, columns)).astype(np.uint8),
    }
    agree(SEARCHES, inputs)
    for known in (f"N={rows}", f"C={columns}"):
        name, _, size = known.partition("=")
        agree(SEARCHES.replace(f"{name}]", f"{size}]").replace(f"{name},", f"{size},"), inputs)


SUMS = """
dynamic { x: f32[N, C]; n: i32[N, C]; h: f16[N, C]; }
block entry {
    assign a: f32[N, C]; assign b: f32[N, C]; assign c: i32[N, C]; assign d: f16[N, C];
    op cumsum(x, axis=1) >> a; op cumsum(x, axis=0, exclusive=true, reverse=true) >> b;
    op cumsum(n, axis=1, reverse=true) >> c; op cumsum(h, axis=0) >> d;
    return a, b, c, d;
}
"""


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 70), (65, 2), (0, 3)])
def test_running_sums(rows: int, columns: int, everything_on_vulkan: None) -> None:
    draw = np.random.default_rng(rows)
    x = floats(draw, rows, columns)
    x[: rows // 2, columns // 2] = np.inf
    inputs = {
        "x": x,
        "n": draw.integers(-(2**31), 2**31, (rows, columns)).astype(np.int32),
        "h": floats(draw, rows, columns, dtype="float16"),
    }
    agree(SUMS, inputs, 1e-6, 1e-3)


def test_a_long_running_sum_is_exact(everything_on_vulkan: None) -> None:
    """Each sum is rounded once, however long the line, and a first zero keeps its sign."""
    text = "dynamic { x: f32[N]; } block entry { assign a: f32[N]; op cumsum(x, axis=0) >> a; return a; }"
    executor = oi.compile(text, device="vulkan", fallback=False).make_executor()
    x = np.full(60_000, 0.1, np.float32)
    expected = np.cumsum(x, dtype=np.float64).astype(np.float32)
    found: Any = executor.run(x=x)["a"]
    assert np.abs(found / expected - 1).max() < 1e-7
    found = executor.run(x=np.array([-0.0, -0.0, 1, np.inf, -np.inf, 2], np.float32))["a"]
    assert np.signbit(found[:2]).all()
    np.testing.assert_array_equal(found, [-0.0, -0.0, 1, np.inf, np.nan, np.nan])


SCATTERS = """
dynamic { x: f32[N, %s]; k: i64[M]; v: f32[M, %s]; y: i32[3, N]; w: i32[3, M, 2]; u: u8[M, 2]; }
block entry {
    assign a: f32[N, %s]; assign b: f32[N, %s]; assign c: f32[N, %s]; assign d: i32[3, N];
    assign e: i32[3, N];
    op scatter(x, k, v, axis=0) >> a; op scatter(x, k, v, axis=0, mode="add") >> b;
    op scatter(x, k, v, axis=0, mode="max") >> c; op scatter(y, u, w, axis=1, mode="add") >> d;
    op scatter(y, u, w, axis=1, mode="min") >> e;
    return a, b, c, d, e;
}
"""


def scattered(rows: int, columns: int, count: int) -> dict[str, Any]:
    draw = np.random.default_rng(rows + count)
    return {
        "x": floats(draw, rows, columns),
        "k": draw.integers(0, rows, count),
        "v": floats(draw, count, columns),
        "y": draw.integers(-99, 99, (3, rows)).astype(np.int32),
        "w": draw.integers(-99, 99, (3, count, 2)).astype(np.int32),
        "u": draw.integers(0, min(rows, 255), (count, 2)).astype(np.uint8),
    }


@pytest.mark.parametrize(("rows", "count"), [(1, 1), (5, 40), (300, 7), (9, 0)])
@pytest.mark.parametrize("columns", [3, 64])
def test_scatters(rows: int, count: int, columns: int, everything_on_vulkan: None) -> None:
    """By elements and by rows, with equal indices."""
    agree(SCATTERS % ((columns,) * 5), scattered(rows, columns, count))


@pytest.mark.parametrize("columns", [3, 64])
def test_a_scatter_outside_is_the_error_of_the_cpu(
    columns: int, everything_on_vulkan: None
) -> None:
    text = SCATTERS % ((columns,) * 5)
    inputs = scattered(5, columns, 4)
    inputs["k"] = np.array([4, 2**32 + 1, -1, 0])
    found: list[str] = []
    for program in (oi.compile(text, device="vulkan", fallback=False), oi.compile(text)):
        with pytest.raises(oi.StepError) as raised:
            program.make_executor().run(**inputs)
        found.append(str(raised.value))
    assert found[0] == found[1]
    assert str(2**32 + 1) in found[0]


BY_ELEMENTS = """
dynamic { x: f32[N, 5]; y: u8[N, 5]; i: i64[M, 5]; k: u8[N, 7]; u: f32[M, 5]; w: u8[N, 7]; }
volatile { a: f32[M, 5]; b: u8[N, 7]; c: f32[N, 5]; d: u8[N, 5]; e: u8[N, 5]; }
block entry {
    op gather_elements(x, i) >> a;
    op gather_elements(y, k, axis=1) >> b;
    op scatter_elements(x, i, u, reduction="add") >> c;
    op scatter_elements(y, k, w, axis=1, reduction="max") >> d;
    op scatter_elements(y, k, w, axis=1) >> e;
    return;
}
"""


def by_elements() -> dict[str, Any]:
    draw = np.random.default_rng(5)
    return {
        "x": floats(draw, 9, 5),
        "y": draw.integers(0, 256, (9, 5)).astype(np.uint8),
        "i": draw.integers(0, 9, (40, 5)),
        "k": draw.integers(0, 5, (9, 7)).astype(np.uint8),
        "u": floats(draw, 40, 5),
        "w": draw.integers(0, 256, (9, 7)).astype(np.uint8),
    }


def test_gathers_and_scatters_by_elements(everything_on_vulkan: None) -> None:
    agree(BY_ELEMENTS, by_elements())


@pytest.mark.parametrize(("name", "wrong"), [("i", -1), ("i", 2**32 + 1), ("k", 5)])
def test_an_index_of_an_element_outside_is_the_error_of_the_cpu(
    name: str, wrong: int, everything_on_vulkan: None
) -> None:
    inputs = by_elements()
    inputs[name][3, 1:] = wrong
    found: list[str] = []
    for program in (
        oi.compile(BY_ELEMENTS, device="vulkan", fallback=False),
        oi.compile(BY_ELEMENTS),
    ):
        with pytest.raises(oi.StepError) as raised:
            program.make_executor().run(**inputs)
        found.append(str(raised.value))
    assert found[0] == found[1]
    assert f"index {wrong} at position [3, 1]" in found[0]


# Windows

WINDOWS = """
dynamic {
    x: f32[B, 4, %(h)s, %(w)s]; h: f16[B, 4, %(h)s, %(w)s]; i: i8[B, 4, %(h)s, %(w)s]; t: f32[B, 4, 5, 6];
    q: f32[4, 2, 3, 3]; r: f32[6, 2, 3, 2]; s: f32[4, 1, 2, 2]; bias: f32[6];
}
block entry {
    assign a: f32[_, _, _, _]; assign b: f32[_, _, _, _]; assign c: i8[_, _, _, _];
    assign d: f16[_, _, _, _]; assign e: f32[_, _, _, _]; assign f: f32[_, _, _, _];
    assign g: f32[_, _, _, _]; assign j: f32[_, _, _, _]; assign k: f32[_, _, _, _];
    assign l: f32[_, _, _, _]; assign m: f16[_, _, _, _];
    op max_pool2d(x, kernel_size=[3, 2], stride=2, padding=1) >> a;
    op avg_pool2d(x, kernel_size=3, stride=[1, 2], padding=1, ceil_mode=true) >> b;
    op max_pool2d(i, kernel_size=2, stride=1, dilation=[2, 1]) >> c;
    op avg_pool2d(h, kernel_size=2, padding=1, count_include_pad=false) >> d;
    op upsample2d(x, scale=1.3, mode="nearest") >> e;
    op upsample2d(x, scale=[2.5, 0.7], mode="bilinear") >> f;
    op upsample2d(x, size=[7, 3], mode="bilinear", align_corners=true) >> g;
    op conv_transpose2d(t, q, stride=2, padding=1, groups=2) >> j;
    op conv2d(x, r, bias, stride=[1, 2], padding=[1, 0, 2, 1], groups=2) >> k; op relu(k) >> k;
    op conv2d(x, s, dilation=2, groups=4) >> l;
    op conv2d(h, s, padding=1, groups=4) >> m;
    return a, b, c, d, e, f, g, j, k, l, m;
}
"""


@pytest.mark.parametrize(
    ("batch", "height", "width"), [(1, 3, 3), (2, 9, 12), (0, 4, 4), (3, 5, 40)]
)
def test_windows(batch: int, height: int, width: int, everything_on_vulkan: None) -> None:
    draw = np.random.default_rng(width)
    x = floats(draw, batch, 4, height, width)
    inputs = {
        "x": x,
        "h": x.astype(np.float16),
        "i": draw.integers(-128, 128, x.shape).astype(np.int8),
        "t": floats(draw, batch, 4, 5, 6),
        "q": floats(draw, 4, 2, 3, 3),
        "r": floats(draw, 6, 2, 3, 2),
        "s": floats(draw, 4, 1, 2, 2),
        "bias": floats(draw, 6),
    }
    agree(WINDOWS % {"h": height, "w": width}, inputs, 3e-6, 1e-3)


def test_strict_mathematics_keep_the_order_of_sums(everything_on_vulkan: None) -> None:
    """Bit for bit what the CPU gives in strict mathematics."""
    draw = np.random.default_rng(3)
    text = """
dynamic { x: f32[2, 4, 9, 9]; r: f32[6, 4, 3, 3]; c: f32[5, 300]; }
block entry {
    assign a: f32[2, 6, 7, 7]; assign b: f32[2, 4, 4, 4]; assign d: f32[5, 300];
    op conv2d(x, r) >> a; op avg_pool2d(x, kernel_size=3, stride=2) >> b; op cumsum(c, axis=1) >> d;
    return a, b, d;
}
"""
    inputs = {
        "x": floats(draw, 2, 4, 9, 9),
        "r": floats(draw, 6, 4, 3, 3),
        "c": floats(draw, 5, 300),
    }
    found, expected = (
        compile(text, device=device, strict_math=True).make_executor().run(**inputs)
        for device in ("vulkan", "cpu")
    )
    for name in ("a", "b", "d"):
        np.testing.assert_array_equal(found[name], expected[name])


# Sine and cosine


def test_sine_and_cosine_of_any_argument(everything_on_vulkan: None) -> None:
    """Within 0.75 units in the last place, of floats of every exponent and near multiples of pi/2."""
    text = """
dynamic { x: f32[N]; h: f16[N]; }
block entry {
    assign a: f32[N]; assign b: f32[N]; assign c: f16[N];
    op sin(x) >> a; op cos(x) >> b; op sin(h) >> c;
    return a, b, c;
}
"""
    bits = np.arange(0, 2**32, 99991, dtype=np.uint64).astype(np.uint32)
    turns = (np.arange(-999, 1000) * (np.pi / 2)).astype(np.float32)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 16367173 * 2.0**72], np.float32)
    near = np.linspace(-20, 20, 20001).astype(np.float32)
    x = np.concatenate([bits.view(np.float32), near, turns, special])
    executor = oi.compile(text, device="vulkan", fallback=False).make_executor()
    with np.errstate(all="ignore"):
        found = executor.run(x=x, h=x.astype(np.float16))
        wide = x.astype(np.float64)
        exact = {"a": np.sin(wide), "b": np.cos(wide)}
        narrow = np.sin(x.astype(np.float16).astype(np.float64))
    for name, expected in exact.items():
        np.testing.assert_array_equal(np.isnan(found[name]), ~np.isfinite(x))
        known = abs(expected) > 2.0**-126
        units = np.spacing(abs(expected[known]).astype(np.float32))
        error = abs(np.asarray(found[name], np.float64)[known] - expected[known]) / units
        assert error.max() < 0.75, (x[known][error.argmax()], error.max())
    np.testing.assert_allclose(np.asarray(found["c"], np.float64), narrow, atol=5e-4)
    zero: Any = executor.run(x=np.array([0, -0.0], np.float32), h=np.zeros(2, np.float16))["a"]
    assert np.signbit(zero).tolist() == [False, True]


def test_strict_mathematics_leave_functions_to_the_host(vulkan: None) -> None:
    text = "dynamic { x: f32[999]; } block entry { assign a: f32[999]; op cos(x) >> a; return a; }"
    with pytest.raises(oi.UnsupportedError, match="strict mathematics"):
        compile(text, device="vulkan", fallback=False, strict_math=True)


# Recurrences

LAYERS = """
dynamic {
    x: f32[T, B, 4]; h: f32[B, %(h)s]; c: f32[B, %(h)s]; u: f32[4 * %(h)s, 4]; w: f32[4 * %(h)s, %(h)s];
    a: f32[4 * %(h)s]; p: f32[3 * %(h)s, 4]; q: f32[3 * %(h)s, %(h)s]; d: f32[3 * %(h)s];
}
block entry {
    assign y: f32[T, B, %(h)s]; assign hn: f32[B, %(h)s]; assign cn: f32[B, %(h)s];
    assign z: f32[T, B, %(h)s]; assign zn: f32[B, %(h)s];
    op lstm(x, h, c, u, w, a, a) >> y, hn, cn;
    op gru(x, h, p, q, d, d, direction="reverse") >> z, zn;
    return y, hn, cn, z, zn;
}
"""


@pytest.mark.parametrize("tier", TIERS[:2])
@pytest.mark.parametrize(
    ("steps", "batch", "units"), [(1, 1, 1), (5, 3, 40), (2, 2, 300), (0, 2, 3)]
)
def test_recurrences(
    steps: int,
    batch: int,
    units: int,
    tier: str,
    everything_on_vulkan: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENINFER_VULKAN_TIER", tier)
    draw = np.random.default_rng(units)
    inputs = {"x": floats(draw, steps, batch, 4)}
    shapes = {
        "h": (batch, units),
        "c": (batch, units),
        "u": (4 * units, 4),
        "w": (4 * units, units),
    }
    shapes |= {"a": (4 * units,), "p": (3 * units, 4), "q": (3 * units, units), "d": (3 * units,)}
    inputs |= {name: floats(draw, *shape) / 4 for name, shape in shapes.items()}
    agree(LAYERS % {"h": units}, inputs, 2e-5)


@pytest.mark.parametrize("units", [3, 150])
def test_states_in_memory_of_the_device(units: int, everything_on_vulkan: None) -> None:
    """Those of as many units as a step says, which shared memory might not hold."""
    draw = np.random.default_rng(units)
    shapes = {"x": (5, 3, 4), "h": (3, units), "c": (3, units), "u": (4 * units, 4)}
    shapes |= {"w": (4 * units, units), "a": (4 * units,), "p": (3 * units, 4)}
    shapes |= {"q": (3 * units, units), "d": (3 * units,)}
    inputs = {name: floats(draw, *shape) / 4 for name, shape in shapes.items()}
    agree(LAYERS % {"h": "H"}, inputs, 2e-5)


# Fourier transforms

SPECTRA = """
dynamic { x: f32[R, %(n)s]; z: f32[R, %(m)s, 2]; }
block entry {
    assign a: f32[R, %(m)s, 2]; assign b: f32[R, %(n)s]; assign c: f32[R, 6, 2]; assign d: f32[R, 11];
    op rfft(x) >> a; op irfft(z, n=%(n)s, norm="ortho") >> b; op rfft(x, n=10, norm="forward") >> c;
    op irfft(z, n=11) >> d;
    return a, b, c, d;
}
"""


@pytest.mark.parametrize(("rows", "samples"), [(1, 1), (3, 12), (2, 101), (2, 1024), (0, 5)])
def test_spectra(rows: int, samples: int, everything_on_vulkan: None) -> None:
    """Their error grows with the root of the length, as that of other transforms does."""
    draw = np.random.default_rng(samples)
    bins = samples // 2 + 1
    inputs = {"x": floats(draw, rows, samples), "z": floats(draw, rows, bins, 2)}
    agree(SPECTRA % {"n": samples, "m": bins}, inputs, 1e-6 * max(4, np.sqrt(samples)))


ANY_SPECTRA = """
dynamic { x: f32[R, N]; z: f32[R, M, 2]; }
block entry {
    assign a: f32[_, _, _]; assign b: f32[_, _]; assign c: f32[_, _, _];
    op rfft(x) >> a; op irfft(z, norm="ortho") >> b; op rfft(x, norm="forward") >> c;
    return a, b, c;
}
"""


def test_spectra_of_any_length(everything_on_vulkan: None) -> None:
    """Also of more terms than one loop has turns."""
    draw = np.random.default_rng(7)
    for rows, samples, bins in ((1, 1, 2), (3, 12, 9), (2, 101, 60), (1, TERMS + 900, 3)):
        inputs = {"x": floats(draw, rows, samples), "z": floats(draw, rows, bins, 2)}
        agree(ANY_SPECTRA, inputs, 1e-6 * max(4, np.sqrt(samples)))


def test_the_longest_row(everything_on_vulkan: None) -> None:
    """A tone is one bin, and what the others hold is that of the row, rounded; a longer row is the host's."""
    text = (
        f"dynamic {{ x: f32[{MOST_SAMPLES}]; }} block entry {{ "
        f"assign a: f32[{MOST_SAMPLES // 2 + 1}, 2]; op rfft(x) >> a; return a; }}"
    )
    turns = 1365 * np.arange(MOST_SAMPLES) / MOST_SAMPLES
    x = np.cos(2 * np.pi * turns).astype(np.float32)
    executor = oi.compile(text, device="vulkan", fallback=False).make_executor()
    found: Any = executor.run(x=x)["a"]
    exact = np.fft.rfft(x.astype(np.float64))
    assert found[1365, 0] == pytest.approx(MOST_SAMPLES / 2, rel=1e-7)
    error = abs(found[:, 0] + 1j * found[:, 1] - exact)
    assert error.max() < 2e-5
    more = text.replace(str(MOST_SAMPLES), str(MOST_SAMPLES + 2))
    more = more.replace(str(MOST_SAMPLES // 2 + 1), str(MOST_SAMPLES // 2 + 2))
    with pytest.raises(oi.UnsupportedError, match="the host has fewer steps for rows of more than"):
        oi.compile(more, device="vulkan", fallback=False)


def test_gelu_of_every_half(everything_on_vulkan: None) -> None:
    text = "dynamic { x: f16[16, 4096]; } block entry { assign y: f16[16, 4096]; op gelu(x) >> y; return y; }"
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(16, 4096)
    program = oi.compile(text, device="vulkan", fallback=False)
    found, expected = [
        np.asarray(one.make_executor().run(x=x)["y"]) for one in (program, oi.Simulator(text))
    ]
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), ~known)
    found, expected = found[known], expected[known]
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    apart = abs(found[finite].astype(np.float64) - expected[finite])
    with np.errstate(over="ignore"):
        last_place = np.spacing(abs(expected[finite])).astype(np.float64)
    assert (apart <= last_place).all()


LONG_SUMS = {
    "along": ("x: f32[1, 200000];", "sum_axis(x, axes=[1])", "1"),
    "along an open axis": ("x: f32[1, N];", "sum_axis(x, axes=[1])", "1"),
    "across": ("x: f32[200000, 2];", "sum_axis(x, axes=[0])", "2"),
    "few rows": ("x: f32[2, 200000]; w: f32[3, 200000];", "matmul(x, w, transpose_b=true)", "2, 3"),
    "few rows, open": ("x: f32[2, K]; w: f32[3, K];", "matmul(x, w, transpose_b=true)", "2, 3"),
    "few rows, across": ("x: f32[1, 40000]; w: f32[40000, 64];", "matmul(x, w)", "1, 64"),
    "elements": ("x: f32[9, 20000]; w: f32[20000, 9];", "matmul(x, w)", "9, 9"),
    "tiles": ("x: f32[20, 20000]; w: f32[20000, 20];", "matmul(x, w)", "20, 20"),
    "tiles, open": ("x: f32[20, K]; w: f32[K, 20];", "matmul(x, w)", "20, 20"),
    "convolution": ("x: f32[1, 2500, 3, 3]; w: f32[2, 2500, 3, 3];", "conv2d(x, w)", "1, 2, 1, 1"),
    "windows at an edge": (
        "x: f32[1, 2500, 3, 3]; w: f32[2, 2500, 3, 3];",
        "conv2d(x, w, padding=[1, 1])",
        "1, 2, 3, 3",
    ),
}


@pytest.mark.parametrize("name", LONG_SUMS)
def test_long_sums(name: str, everything_on_vulkan: None) -> None:
    declared, call, shape = LONG_SUMS[name]
    text = f"dynamic {{ {declared} }} block entry {{ assign y: f32[{shape}]; op {call} >> y; return y; }}"
    program = oi.compile(text, device="vulkan", fallback=False)
    inputs: dict[str, Any] = {}
    for part in declared.split(";")[:-1]:
        own, sizes = part.replace("K", "200000" if "rows" in name else "20000").split(": f32")
        extents = [int(n) for n in sizes.strip("[]").replace("N", "200000").split(",")]
        inputs[own.strip()] = np.full(extents, 0.1 if own.strip() == "x" else 1, np.float32)
    found = np.asarray(program.make_executor().run(**inputs)["y"], np.float64)
    # All terms are the same: a sum is their number times one of them.
    x, term = inputs["x"], np.float64(np.float32(0.1))
    counts: Any = x.size // (x.shape[0] if "matmul" in call else 2 if name == "across" else 1)
    if "edge" in name:
        rows = np.array([2, 3, 2])
        counts = 2500 * np.broadcast_to(rows[:, None] * rows, (1, 2, 3, 3))
    np.testing.assert_allclose(found, np.broadcast_to(counts * term, found.shape), rtol=1.5e-6)


def test_rows_of_tables(everything_on_vulkan: None) -> None:
    text = """
    dynamic { x: f32[9, 8]; h: f16[3, 9, 16]; k: i64[M]; u: u8[M, 2]; }
    block entry {
        assign a: f32[M, 8]; assign c: f32[M, 2, 8]; assign d: f16[3, M, 16]; assign e: f16[3, 9, M];
        op gather(x, k) >> a; op gather(x, u) >> c; op gather(h, k, axis=1) >> d;
        op gather(h, k, axis=2) >> e;
        return a, c, d, e;
    }
    """
    draw = np.random.default_rng(5)
    inputs = {
        "x": floats(draw, 9, 8),
        "h": floats(draw, 3, 9, 16, dtype="float16"),
        "k": draw.integers(0, 9, 33),
        "u": draw.integers(0, 9, (33, 2)).astype(np.uint8),
    }
    agree(text, inputs)
