"""Packed and 8-bit dtypes in whole programs: inputs, weights, results and threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dialects.nn.elements import dtype_name, element_type
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.packages.oinf_writer import OinfContent
from openinfer.runtime.sizes import Size
from openinfer.runtime.storage import value_range
from openinfer.runtime.tensors import Tensor

PACKED = ("i4", "i2", "i1", "u4", "u2", "u1")
EIGHT = ("f8", "f8e4m3")


def draw(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Tensor:
    rng = np.random.default_rng([seed, *dtype.encode()])
    row = DTYPES[dtype]
    if row.is_float:
        return Tensor.from_values(dtype, rng.standard_normal(shape))
    low, high = value_range(row) or (0, 0)
    values = rng.integers(low, high + 1, shape)
    return Tensor.from_values(dtype, np.where(values == 0, 1, values) if dtype == "t1" else values)


def same(found: Any, expected: Any) -> None:
    """Equal to the last bit, those behind the last element included."""
    for name, want in expected.items():
        have = found[name]
        if isinstance(want, Tensor):
            assert (have.dtype, have.shape) == (want.dtype, want.shape)
            np.testing.assert_array_equal(have.storage, want.storage, err_msg=name)
        else:
            np.testing.assert_array_equal(have, want, err_msg=name)


MOVES = """
dynamic {{ x: {d}[A, 7]; y: {d}[A, 7]; p: i32[3]; c: bool[A, 7]; }}
block entry {{
  assign s: {d}[A, 7]; assign t: {d}[7, A]; assign j: {d}[A, 14]; assign k: {d}[2*A, 7];
  assign g: {d}[3, 7]; assign w: {d}[A, 7]; assign r: {d}[7*A]; assign u: {d}[A, 5];
  assign e: bool[A, 7]; assign f: {d}[A, 7]; assign n: {d}[A, 3];
  op {sum}(x, y) >> s;
  op transpose(s) >> t;
  op concat(s, y, axis=1) >> j;
  op concat(x, s) >> k;
  op gather(x, p) >> g;
  op where(c, x, s) >> w;
  op reshape(w, shape=[-1]) >> r;
  op slice(s, axis=1, start=1, stop=6) >> u;
  op slice(y, axis=1, start=1, stop=7, step=2) >> n;
  op lt(x, y) >> e;
  op flip(s, axes=[1]) >> f;
  return s, t, j, k, g, w, r, u, e, f, n;
}}
"""


@pytest.mark.parametrize("dtype", ["i4", "u2", "i1", "f8e4m3", "t2", "t1", "bitset"])
def test_elements_move_within_bytes(dtype: str) -> None:
    """Rows of 7 begin anywhere in a byte; sizes are those of the inputs; several threads."""
    arithmetic = "max" if dtype in (*PACKED, *EIGHT) else "add" if dtype == "bitset" else None
    text = MOVES.format(d=dtype, sum=arithmetic or "max")
    if arithmetic is None:
        text = text.replace("op max(x, y) >> s;", "op where(c, y, x) >> s;")
    if dtype == "bitset":
        text = text.replace("op lt(", "op eq(")
    program = oi.compile(text)
    simulator = oi.Simulator(text).make_executor()
    executors = [program.make_executor(threads=n) for n in (1, 3)]
    for rows in (3, 8, 41):
        inputs = {
            "x": draw(dtype, (rows, 7)),
            "y": draw(dtype, (rows, 7), 1),
            "p": np.array([2, 0, 1], np.int32),
            "c": np.random.default_rng(rows).random((rows, 7)) < 0.5,
        }
        expected = simulator.run(**inputs)
        for executor in executors:
            same(executor.run(**inputs), expected)


@pytest.mark.parametrize("dtype", ["i4", "u1"])
def test_threads_never_share_a_byte(dtype: str) -> None:
    text = f"""
    dynamic {{ x: {dtype}[N]; y: {dtype}[N]; m: {dtype}[33, 24]; v: {dtype}[24]; o: {dtype}[33, 5]; }}
    block entry {{
      assign s: {dtype}[N]; assign r: {dtype}[33, 24]; assign t: {dtype}[24, 33];
      assign q: {dtype}[33, 5];
      op xor(x, y) >> s; op xor(m, v) >> r; op transpose(r) >> t; op not(o) >> q;
      return s, r, t, q;
    }}"""
    program, simulator = oi.compile(text), oi.Simulator(text).make_executor()
    executor = program.make_executor(threads=4)
    for count in (3, 200, 1001, 4096):
        inputs = {"x": draw(dtype, (count,)), "y": draw(dtype, (count,), 1)}
        inputs |= {"m": draw(dtype, (33, 24)), "v": draw(dtype, (24,)), "o": draw(dtype, (33, 5))}
        expected = simulator.run(**inputs)
        for _ in range(40):
            same(executor.run(**inputs), expected)


@pytest.mark.parametrize("dtype", [*PACKED, "f8", "t2", "t1"])
def test_weights_are_read_where_they_lie(dtype: str, tmp_path: Path) -> None:
    """Packed in the file, packed in memory; members of a table begin with bytes of their own."""
    tensors = {"W": draw(dtype, (5, 3))}
    tensors |= {f"V.{n}": draw(dtype, (5, 3), n + 1) for n in range(3)}
    oi.write_oinf(OinfContent(tensors=tensors), tmp_path / "m.oinf")
    text = f"""
    dynamic {{ c: bool[5, 3]; }}
    constant {{ W: {dtype}[5, 3]; V(l): {dtype}[5, 3] @pattern("V.{{l}}"); }}
    volatile {{ y: {dtype}[5, 3]; z: f32[5, 3]; }}
    block entry {{
      op where(c, W, V[1]) >> y;
      loop all (l in 0..3) {{ op where(c, V[l], y) >> y; }}
      op cast(y, to=f32) >> z;
      return;
    }}"""
    with oi.open_model(tmp_path / "m.oinf") as model:
        executor = oi.compile(text, model).make_executor()
        simulator = oi.Simulator(text, model).make_executor()
        for seed in range(3):
            inputs = {"c": np.random.default_rng(seed).random((5, 3)) < 0.5}
            same(executor.run(**inputs), simulator.run(**inputs))
        same({"W": executor.fetch("W")}, {"W": simulator.fetch("W")})
        same({"V": executor.fetch("V[2]")}, {"V": simulator.fetch("V[2]")})


@pytest.mark.parametrize(
    ("dtype", "transposed"), [("i4", False), ("i4", True), ("u1", False), ("f8", True)]
)
def test_products_of_packed_weights(dtype: str, transposed: bool, tmp_path: Path) -> None:
    shape = (37, 21) if transposed else (21, 37)
    oi.write_oinf(OinfContent(tensors={"W": draw(dtype, shape)}), tmp_path / "m.oinf")
    wide = "f32" if dtype == "f8" else "i32" if dtype[0] == "i" else "u32"
    flag = "true" if transposed else "false"
    text = f"""
    dynamic {{ x: {dtype}[M, 21]; b: {dtype}[37]; }}
    constant {{ W: {dtype}[{shape[0]}, {shape[1]}]; }}
    volatile {{ y: {dtype}[M, 37]; z: {wide}[M, 37]; }}
    block entry {{
      op matmul(x, W, transpose_b={flag}) >> y;
      op add(y, b) >> y;
      op matmul(x, W, transpose_b={flag}{"" if dtype == "f8" else f", acc={wide}"}) >> z;
      return;
    }}"""
    with oi.open_model(tmp_path / "m.oinf") as model:
        executor = oi.compile(text, model).make_executor(threads=2)
        simulator = oi.Simulator(text, model).make_executor()
        for rows in (1, 3, 9):
            inputs = {"x": draw(dtype, (rows, 21)), "b": draw(dtype, (37,))}
            found, expected = executor.run(**inputs), simulator.run(**inputs)
            if dtype == "f8":
                np.testing.assert_allclose(found["z"], expected["z"], rtol=1e-5, atol=1e-5)
                same({"y": found["y"]}, {"y": expected["y"]})
            else:
                same(found, expected)


def test_packed_values_take_packed_bytes() -> None:
    text = """
    dynamic { x: i4[N, 3]; }
    block entry { assign y: i4[N, 3]; assign z: i4[N, 3]; op neg(x) >> y; op flip(y) >> z;
                  return z; }"""
    program = oi.compile(text)
    sizes = [Size.of(row.size) for row in program.manifest.plan]
    assert [size.evaluate({"N": n}) for n in (0, 1, 5) for size in sizes[:1]] == [0, 2, 8]
    executor = program.make_executor()
    found: Any = executor.run(x=draw("i4", (5, 3)))["z"]
    assert found.storage.nbytes == 8
    view = executor.fetch("z", copy=False)
    assert isinstance(view, Tensor)
    np.testing.assert_array_equal(view.storage, found.storage)


def test_every_node_shows_its_value() -> None:
    text = """
    dynamic { x: i4[5]; y: f8[5]; }
    block entry { assign a: i4[5]; assign b: u1[5]; assign c: f8[5];
      op neg(x) >> a; op cast(a, to=u1) >> b; op exp(y) >> c; return a, b, c; }"""
    inputs = {"x": draw("i4", (5,)), "y": draw("f8", (5,))}
    seen: list[list[Any]] = []
    for executor in (oi.compile(text).make_executor(), oi.Simulator(text).make_executor()):
        executor.insert(**inputs)
        values: list[Any] = []
        for node in executor.iterate():
            if node.event.op_name:
                values += [executor.fetch(name) for name in node.event.output]
        seen.append(values)
    assert len(seen[0]) == len(seen[1]) == 3
    for found, expected in zip(*seen):
        same({"value": found}, {"value": expected})


def test_bits_behind_the_last_element_of_an_input_do_not_count() -> None:
    text = "dynamic { x: i4[3]; } block entry { assign y: i4[3]; transfer x >> y; return y; }"
    dirty = Tensor(DTYPES["i4"], (3,), np.array([0x21, 0xF3], np.uint8))
    for executor in (oi.compile(text).make_executor(), oi.Simulator(text).make_executor()):
        found: Any = executor.run(x=dirty)["y"]
        assert found.storage.tolist() == [0x21, 0x03]
    assert dirty.storage.tolist() == [0x21, 0xF3]


def test_the_pattern_of_minus_two_is_refused() -> None:
    """t2 has no -2: neither from the caller nor from a file."""
    text = "dynamic { x: t2[2]; } block entry { assign y: t2[2]; transfer x >> y; return y; }"
    wrong = Tensor(DTYPES["t2"], (2,), np.array([0b0110], np.uint8))
    for executor in (oi.compile(text).make_executor(), oi.Simulator(text).make_executor()):
        with pytest.raises(oi.InputError, match="a t2 value is -2"):
            executor.run(x=wrong)


def test_arithmetic_on_ternary_values_is_refused() -> None:
    for dtype in ("t2", "t1"):
        text = f"dynamic {{ x: {dtype}[2]; }} volatile {{ y: {dtype}[2]; }} "
        text += "block entry { op add(x, x) >> y; return; }"
        for build in (oi.compile, oi.Simulator):
            with pytest.raises(oi.ProgramError, match=f"`add` does not take {dtype}"):
                build(text)


@pytest.mark.parametrize("dtype", DTYPES)
def test_element_types_name_their_dtype(dtype: str) -> None:
    element = element_type(dtype)
    assert dtype_name(element) == dtype
    assert str(element) == DTYPES[dtype].ir
