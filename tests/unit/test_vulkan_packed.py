"""Integers of less than a byte on a Vulkan device: against the simulator, to the last bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_packed_programs import MOVES, PACKED, draw, same

import openinfer as oi
from openinfer.runtime.packages.oinf_writer import OinfContent


def agree(text: str, inputs: dict[str, Any]) -> None:
    """Bytes are the same, with the bits behind the last element; nothing runs on the host."""
    found = oi.compile(text, device="vulkan", fallback=False).make_executor().run(**inputs)
    same(found, oi.Simulator(text).make_executor().run(**inputs))


@pytest.mark.parametrize("dtype", [*PACKED, "t2", "t1", "bitset"])
def test_moves(dtype: str, everything_on_vulkan: None) -> None:
    """Rows of 7 begin anywhere in a byte."""
    text = MOVES.format(d=dtype, sum="max")
    if dtype == "bitset":
        text = text.replace("op max(", "op add(").replace("op lt(", "op eq(")
    elif dtype not in PACKED:
        text = text.replace("op max(x, y) >> s;", "op where(c, y, x) >> s;")
    rows = 41
    inputs = {
        "x": draw(dtype, (rows, 7)),
        "y": draw(dtype, (rows, 7), 1),
        "p": np.array([2, 0, 1], np.int32),
        "c": np.random.default_rng(rows).random((rows, 7)) < 0.5,
    }
    agree(text, inputs)


ARITHMETIC = """
dynamic {{ x: {d}[N]; y: {d}[N]; f: f32[N]; i: i64[N]; }}
block entry {{
    assign a: {d}[N]; assign b: {d}[N]; assign c: {d}[N]; assign e: {d}[N]; assign g: {d}[N];
    assign h: {d}[N]; assign j: bool[N]; assign k: f32[N]; assign l: i64[N]; assign m: i8[N];
    assign n: {d}[N]; assign o: {d}[N]; assign p: {d}[N]; assign q: {d}[N]; assign r: u16[N];
    op add(x, y) >> a; op sub(x, y) >> b; op mul(x, y) >> c; op min(x, y) >> e; op max(x, y) >> g;
    op xor(x, y) >> h; op lt(x, y) >> j; op cast(x, to=f32) >> k; op cast(x, to=i64) >> l;
    op cast(x, to=i8) >> m; op cast(f, to={d}) >> n; op cast(i, to={d}) >> o;
    op cast(i, to={d}, saturate=false) >> p; op not(x) >> q; op cast(x, to=u16) >> r;
    return a, b, c, e, g, h, j, k, l, m, n, o, p, q, r;
}}
"""


@pytest.mark.parametrize("dtype", PACKED)
@pytest.mark.parametrize("count", [1, 1001])
def test_arithmetic(count: int, dtype: str, everything_on_vulkan: None) -> None:
    """The last word and the last byte are partly used; several workgroups."""
    draws = np.random.default_rng(count)
    inputs = {
        "x": draw(dtype, (count,)),
        "y": draw(dtype, (count,), 1),
        "f": (draws.standard_normal(count) * 8).astype(np.float32),
        "i": draws.integers(-99, 99, count),
    }
    agree(ARITHMETIC.format(d=dtype), inputs)


SUMS = """
dynamic {{ x: {d}[N, C]; y: {d}[N, C]; z: {d}[2, C]; u: {d}[M, C]; k: i64[M]; }}
block entry {{
    assign a: {d}[N]; assign b: {d}[C]; assign e: i64[N]; assign f: {w}[N, N]; assign g: {d}[N, N];
    assign h: {d}[2, N]; assign i: {d}[N, C]; assign j: {d}[N, C]; assign l: {d}[N + 1, C + 3];
    assign m: {d}[N, C];
    op max_axis(x, axis=1) >> a; op sum_axis(x, axis=0) >> b; op argmax_axis(x, axis=1) >> e;
    op matmul(x, y, transpose_b=true, acc={w}) >> f; op matmul(x, y, transpose_b=true) >> g;
    op matmul(z, y, transpose_b=true) >> h; op scatter(x, k, u) >> i;
    op scatter(x, k, u, mode="add") >> j; op pad(x, pads=[1, 0, 0, 3]) >> l; op fill(x, value=1) >> m;
    return a, b, e, f, g, h, i, j, l, m;
}}
"""


@pytest.mark.parametrize("dtype", ["i4", "u2", "u1"])
@pytest.mark.parametrize("columns", [5, 64])
def test_sums_and_indices(columns: int, dtype: str, everything_on_vulkan: None) -> None:
    inputs = {
        "x": draw(dtype, (33, columns)),
        "y": draw(dtype, (33, columns), 1),
        "z": draw(dtype, (2, columns), 2),
        "u": draw(dtype, (5, columns), 3),
        "k": np.array([3, 9, 3, 0, 1]),
    }
    agree(SUMS.format(d=dtype, w="i32" if dtype == "i4" else "u32"), inputs)


@pytest.mark.parametrize("dtype", ["i4", "u2", "t1"])
def test_weights_that_begin_at_any_byte(
    dtype: str, tmp_path: Path, everything_on_vulkan: None
) -> None:
    """Members of a table, and a state, which the host keeps."""
    tensors = {f"V.{n}": draw(dtype, (5, 3), n) for n in range(3)}
    oi.write_oinf(OinfContent(tensors=tensors), tmp_path / "m.oinf")
    text = f"""
    dynamic {{ c: bool[5, 3]; }}
    constant {{ V(l): {dtype}[5, 3] @pattern("V.{{l}}"); }}
    persistent {{ s: {dtype}[5, 3]; }}
    volatile {{ y: {dtype}[5, 3]; z: f32[5, 3]; }}
    block entry {{
      op where(c, V[1], s) >> y;
      loop all (l in 0..3) {{ op where(c, V[l], y) >> y; }}
      cache.write y >> s; op cast(y, to=f32) >> z;
      return;
    }}"""
    with oi.open_model(tmp_path / "m.oinf") as model:
        executor = oi.compile(text, model, device="vulkan", fallback=False).make_executor()
        simulator = oi.Simulator(text, model).make_executor()
        for seed in range(3):
            inputs = {"c": np.random.default_rng(seed).random((5, 3)) < 0.5}
            same(executor.run(**inputs), simulator.run(**inputs))


@pytest.mark.parametrize("dtype", ["i4", "u1", "t2", "t1", "bool"])
def test_entries_of_a_growing_table(dtype: str, everything_on_vulkan: None) -> None:
    """The host keeps packed ones, which begin at any bit of what the device computes; a bool is a byte."""
    text = f"""
    dynamic {{ x: {dtype}[1, 3]; row: i64; to: i64; }}
    persistent {{ t(p, q): {dtype}[0] @table @auto_dim(q); k(i): {dtype}[3] @table; }}
    volatile {{ a: {dtype}[_]; b: {dtype}[_]; c: {dtype}[_, 3]; }}
    block entry {{
      assign e: {dtype}[_]; assign line: {dtype}[1, 3];
      op flip(x) >> line; cache.write line >> k[row..row + 1];
      cache.read t[row, to] >> e; op flip(e) >> e; cache.write e >> t[row, to];
      cache.read t[1, 5] >> a; op flip(a) >> b;
      cache.read k[0..row + 1] >> c; op flip(c) >> c;
      return;
    }}"""
    program = oi.compile(text, device="vulkan")
    assert [row.device for row in program.manifest.states] == [dtype == "bool"] * 2
    executor, simulator = program.make_executor(), oi.Simulator(text).make_executor()
    for step, (row, to) in enumerate([(0, 1), (1, 2), (1, 0), (2, 9), (1, 9), (1, 3)]):
        inputs = {"x": draw(dtype, (1, 3), step), "row": np.int64(row), "to": np.int64(to)}
        same(executor.run(**inputs), simulator.run(**inputs))


@pytest.mark.parametrize("op", ["cumsum(x, axis=0) >> y", "sort(x, axis=0) >> y, p"])
def test_lines_are_unpacked_first(op: str, everything_on_vulkan: None) -> None:
    """An invocation has a line, and neighbouring lines share bytes: they are walked as bytes."""
    text = (
        "dynamic { x: i4[40, 41]; } block entry { assign y: i4[40, 41]; assign p: i64[40, 41]; "
        f"op {op}; return y; }}"
    )
    agree(text, {"x": draw("i4", (40, 41))})


@pytest.mark.parametrize("dtype", ["i4", "u1"])
@pytest.mark.parametrize("count", [0, 9])
def test_a_scalar_and_no_elements(count: int, dtype: str, everything_on_vulkan: None) -> None:
    text = (
        f"dynamic {{ x: {dtype}[N]; s: {dtype}; }} "
        f"block entry {{ assign a: {dtype}[N]; op xor(x, s) >> a; return a; }}"
    )
    agree(text, {"x": draw(dtype, (count,)), "s": draw(dtype, ())})
