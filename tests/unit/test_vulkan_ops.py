"""Ops that are kernels of their own on a Vulkan device, against the simulator, and their errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi

Draw = np.random.Generator


def agree(text: str, inputs: dict[str, Any], tolerance: float = 0) -> None:
    """The device gives what the simulator does; nothing is left to the host."""
    found = oi.compile(text, device="vulkan", fallback=False).make_executor().run(**inputs)
    expected = oi.Simulator(text).make_executor().run(**inputs)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(
            np.asarray(found[name], np.float64) if value.dtype.kind == "f" else found[name],
            np.asarray(value, np.float64) if value.dtype.kind == "f" else value,
            rtol=tolerance,
            atol=tolerance,
            err_msg=name,
        )


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


def test_an_empty_table(everything_on_vulkan: None) -> None:
    program = oi.compile(TABLE % ("i64", "gather(x, k)"), device="vulkan", fallback=False)
    executor = program.make_executor()
    x = np.ones((0, 4), np.float32)
    assert executor.run(x=x, k=np.zeros(0, np.int64))["z"].shape == (0, 4)
    with pytest.raises(oi.StepError, match="index 0.* is outside"):
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
