"""Persistent variables of compiled programs against the simulator, over many steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import openinfer
from openinfer.runtime.errors import OpenInferError
from openinfer.runtime.state import State

F32 = np.float32


@pytest.fixture(autouse=True, params=["seen", "unseen"])
def memory(request: pytest.FixtureRequest) -> None:
    """All of it also on a device whose memory the host does not see."""
    if request.param == "unseen":
        request.getfixturevalue("unseen_memory")


def f(*shape: int, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(F32)


def ints(*values: int) -> Any:
    return np.array(values, np.int32).reshape(() if len(values) == 1 else (len(values),))


def compare_steps(
    text: str, inputs: Sequence[Mapping[str, Any]], **options: Any
) -> tuple[Any, Any, int]:
    """Runs both executors side by side; results, states and errors agree after every step."""
    simulator = openinfer.Simulator(text).make_executor()
    compiled = openinfer.compile(text, **options).make_executor(1)
    persistent = [v for v in simulator.variables.values() if v.memory == "persistent"]
    failures = 0
    for number, given in enumerate(inputs):
        found: list[Any] = []
        for executor in (simulator, compiled):
            try:
                found.append(executor.run(**given))
            except OpenInferError as error:
                found.append(error)
        expected, got = found
        if isinstance(expected, OpenInferError):
            failures += 1
            assert isinstance(got, OpenInferError), f"step {number}: {expected}"
            assert got.code == expected.code, f"step {number}: {expected} / {got}"
        else:
            assert not isinstance(got, OpenInferError), f"step {number}: {got}"
            for name, value in expected.items():
                np.testing.assert_allclose(got[name], value, 1e-5, 1e-5, err_msg=f"{number} {name}")
        for info in persistent:
            same_state(simulator.snapshot()[info.name], compiled.snapshot()[info.name], info.name)
    return simulator, compiled, failures


def same_state(expected: Any, got: Any, name: str) -> None:
    if expected.entries:
        assert got.extents == expected.extents, name
    for index, tensor in expected.entries.items():
        np.testing.assert_allclose(
            got.entries[index].values(), tensor.values(), 1e-5, 1e-5, err_msg=f"{name}{index}"
        )


KV = """
dynamic { x: f32[4]; }
volatile { y: f32[4]; }
persistent { step: i32 @init(0); K(l, t): f32[4] @table; total: f32[4]; }
block entry {
  assign ks: f32[step + 1, 4];
  assign s: f32[4];
  loop layers (l in 0..2) {
    cache.write x >> K[l, step];
    cache.read K[l, 0..step + 1] >> ks;
    op sum_axis(ks, axes=[0]) >> s;
    op add(y, s) >> y;
  }
  cache.read total >> s;
  op add(s, x) >> s;
  cache.write s >> total;
  cache.increment step;
  return;
}
"""

TABLE = """
dynamic { i: i32; j: i32; a: i32; b: i32; x: f32[3]; }
persistent { T(p, q): f32[3] @table @init(0.5); }
block entry {
  assign one: f32[3];
  assign some: f32[_, 3];
  assign all: f32[_, _, 3];
  assign column: f32[_, 3];
  cache.read T[i, j] >> one;
  op add(one, x) >> one;
  cache.write one >> T[i, j];
  cache.read T[i, a..b] >> some;
  cache.read T[0..i, j] >> column;
  cache.read T[] >> all;
  return one, some, all, column;
}
"""

FIXED = """
dynamic { i: i32; x: f32[2, 3]; }
persistent { R(k): f32[3] @table @fixed(k=6); n: i32; }
block entry {
  assign part: f32[_, 3];
  cache.increment n;
  cache.write x >> R[i..i + 2];
  cache.read R[0..-2] >> part;
  return part;
}
"""

MATRIX = """
dynamic { n: i32; r: i32; v: f32[3]; }
persistent { A(i, j): f32[2, 3] @auto_dim(i, j) @init(1.5); step: i32; }
block entry {
  assign whole: f32[_, _];
  assign row: f32[_];
  assign rows: f32[_, _];
  assign s: f32;
  cache.read A[n, 0] >> whole;
  op sum_axis(whole, axes=[0, 1]) >> s;
  cache.read A[1, ] >> row;
  op add(row, s) >> row;
  cache.write row >> A[1, ];
  cache.write v >> A[r, ];
  cache.read A[0..D + i, ] >> rows;
  cache.read A[] >> whole;
  cache.increment step;
  return whole, s, rows;
}
"""

MATRICES = """
dynamic { l: i32; n: i32; m: i32; }
persistent { C(l, i, j): f32[1, 2] @table @auto_dim(i, j); }
block entry {
  assign one: f32[_, _];
  assign two: f32[_, _, _];
  cache.read C[l, n, m] >> one;
  op add(one, one) >> one;
  op fill(one, value=2.5) >> one;
  cache.write one >> C[l, n, m];
  cache.read C[0..2, 3, 3] >> two;
  return one, two;
}
"""

RESETS = """
dynamic { i: i32; j: i32; what: i32; x: f32[2]; }
persistent { T(p, q): f32[2] @table; A(i): f32[2] @auto_dim(i); n: i32 @init(7);
   s: f32[2] @init(3.0); }
block entry {
  assign zero: i32; assign one: i32; assign two: i32; assign c: bool; assign v: f32[2];
   assign w: f32[_];
  op fill(zero, value=0) >> zero;
  op fill(one, value=1) >> one;
  op fill(two, value=2) >> two;
  cache.read T[i, j] >> v;
  op add(v, x) >> v;
  cache.write v >> T[i, j];
  cache.read A[j] >> w;
  cache.increment 3 n;
  cache.write v >> s;
  op eq(what, zero) >> c;
  branch c clear nothing;
  op eq(what, one) >> c;
  branch c clear_row nothing;
  op eq(what, two) >> c;
  branch c clear_entry nothing;
  return v, w;
}
block clear { cache.reset T; cache.reset A; cache.reset n; cache.reset s; return; }
block clear_row { cache.reset T[i]; return; }
block clear_entry { cache.reset T[i, j]; return; }
block nothing { return; }
"""


def test_a_table_that_grows_with_each_step() -> None:
    inputs = [{"x": f(4, seed=i)} for i in range(40)]
    _, compiled, failures = compare_steps(KV, inputs)
    assert failures == 0
    assert compiled.fetch("K").shape == (2, 40, 4)
    np.testing.assert_array_equal(compiled.fetch("K[1, 3]"), inputs[3]["x"])


def test_single_entries_slices_and_whole_tables() -> None:
    random = np.random.default_rng(3)
    inputs: list[dict[str, Any]] = []
    for number in range(40):
        i, j, a, b = (int(n) for n in random.integers(-1, 9 if number > 20 else 4, 4))
        given = {"i": ints(i), "j": ints(j), "a": ints(a), "b": ints(b), "x": f(3, seed=number)}
        inputs.append(given)
    _, _, failures = compare_steps(TABLE, inputs)
    assert 0 < failures < 35


def test_fixed_bounds_and_negative_ends() -> None:
    inputs = [{"i": ints(i), "x": f(2, 3, seed=i + 9)} for i in (0, 1, 4, 5, -1, 3, 6, 2)]
    _, _, failures = compare_steps(FIXED, inputs)
    assert failures == 3


def test_a_matrix_that_grows() -> None:
    text = MATRIX.replace("D", "2")
    random = np.random.default_rng(5)
    inputs = [
        {
            "n": ints(int(random.integers(-1, 6))),
            "r": ints(int(random.integers(0, 8))),
            "v": f(3, seed=i),
        }
        for i in range(25)
    ]
    _, _, failures = compare_steps(text, inputs)
    assert 0 < failures < 20


def test_a_table_of_matrices() -> None:
    random = np.random.default_rng(6)
    inputs = [
        {"l": ints(int(random.integers(0, 3))), "n": ints(n), "m": ints(m)}
        for n, m in ((0, 0), (1, 2), (3, 3), (3, 3), (5, 1), (2, 2), (3, 3), (1, 1))
    ]
    compare_steps(MATRICES, inputs)


def test_resets() -> None:
    random = np.random.default_rng(7)
    inputs = [
        {
            "i": ints(int(random.integers(0, 4))),
            "j": ints(int(random.integers(0, 5))),
            "what": ints(int(random.integers(0, 8))),
            "x": f(2, seed=i),
        }
        for i in range(40)
    ]
    _, _, failures = compare_steps(RESETS, inputs)
    assert failures == 0


def test_a_failing_step_changes_nothing() -> None:
    text = """
    dynamic { i: i32; x: f32[2]; }
    persistent { T(k): f32[2] @table; U(k): f32[2] @table @fixed(k=8) @init(9.0); s: f32[2];
   n: i32; }
    block entry {
      cache.write x >> T[0];
      cache.write x >> T[i];
      cache.write x >> s;
      cache.increment n;
      cache.reset T;
      cache.write x >> T[1];
      cache.write x >> U[0];
      cache.write x >> U[i];
      return;
    }
    """
    inputs = [{"i": ints(i), "x": f(2, seed=i)} for i in (1, 3, 30, 2, 9, 100, 7)]
    _, compiled, failures = compare_steps(text, inputs)
    assert failures == 3
    assert compiled.fetch("n") == 4


def test_snapshots_go_from_one_executor_to_the_other(tmp_path: Any) -> None:
    for text in (KV, MATRIX.replace("D", "2")):
        simulator = openinfer.Simulator(text).make_executor()
        program = openinfer.compile(text)
        compiled = program.make_executor(1)

        def inputs(i: int, text: str = text) -> dict[str, Any]:
            if text is KV:
                return {"x": f(4, seed=i)}
            return {"n": ints(i), "r": ints(0), "v": f(3, seed=i)}

        for i in range(3):
            compiled.run(**inputs(i))
        compiled.snapshot().save(tmp_path / "state.safetensors")
        simulator.restore(tmp_path / "state.safetensors")
        other = program.make_executor(1)
        other.restore(simulator.snapshot())
        a, b, c = (e.run(**inputs(3)) for e in (simulator, compiled, other))
        for name in a:
            np.testing.assert_allclose(b[name], a[name], 1e-5, 1e-5)
            np.testing.assert_array_equal(b[name], c[name])
        assert State.load(tmp_path / "state.safetensors") != other.snapshot()


def test_executors_share_no_state() -> None:
    program = openinfer.compile(KV)
    first, second = program.make_executor(1), program.make_executor(1)
    first.run(x=f(4, seed=1))
    np.testing.assert_allclose(second.run(x=f(4, seed=2))["y"], 2 * f(4, seed=2), 1e-6)
    first.reset()
    assert first.fetch("step") == 0
    np.testing.assert_allclose(first.run(x=f(4, seed=3))["y"], 2 * f(4, seed=3), 1e-6)


def test_more_state_than_allowed_is_refused_before_it_is_taken() -> None:
    text = """
    dynamic { i: i32; x: f32[1024]; }
    persistent { T(k): f32[1024] @table; }
    block entry { cache.write x >> T[i]; return; }
    """
    executor = openinfer.compile(text).make_executor(1, max_state_bytes=1 << 20)
    executor.run(i=ints(100), x=f(1024, seed=1))
    with pytest.raises(OpenInferError, match="max_state_bytes") as caught:
        executor.run(i=ints(300), x=f(1024, seed=2))
    assert caught.value.code == "OI0609"
    assert executor.fetch("T").shape == (101, 1024)
    executor.run(i=ints(101), x=f(1024, seed=3))
    assert executor.fetch("T").shape == (102, 1024)


def test_matrices_of_different_shapes_are_fetched_one_by_one() -> None:
    text = """
    dynamic { l: i32; n: i32; }
    persistent { C(l, i): f32[2] @table @auto_dim(i); }
    block entry { assign one: f32[_]; cache.read C[l, n] >> one; return one; }
    """
    executor = openinfer.compile(text).make_executor(1)
    executor.run(l=ints(1), n=ints(0))
    assert executor.fetch("C").shape == (2, 2)
    executor.run(l=ints(0), n=ints(3))
    with pytest.raises(OpenInferError, match="different shapes") as caught:
        executor.fetch("C")
    assert caught.value.code == "OI0548"
    assert executor.fetch("C[0]").shape == (5,)
    with pytest.raises(OpenInferError, match="not there"):
        executor.fetch("C[7]")
