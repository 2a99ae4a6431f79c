"""Programs that once only the simulator ran: both executors agree over several steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import openinfer
from openinfer.runtime.errors import OpenInferError

i32 = np.int32


def f(*shape: int) -> Any:
    count = int(np.prod(shape))
    return (np.arange(count, dtype=np.float32) % 13 - 6).reshape(shape)


def agree(text: str, steps: Sequence[Mapping[str, Any]]) -> tuple[Any, Any, int]:
    """Runs both executors step by step; how many steps failed on both, with the same code."""
    simulator = openinfer.Simulator(text).make_executor()
    compiled = openinfer.compile(text).make_executor(1)
    kept = [v.name for v in simulator.variables.values() if v.memory == "persistent"]
    failures = 0
    for number, given in enumerate(steps):
        expected, got = (_run(executor, given) for executor in (simulator, compiled))
        if isinstance(expected, OpenInferError):
            failures += 1
            assert isinstance(got, OpenInferError), f"step {number}: {expected}"
            assert got.code == expected.code, f"step {number}: {expected} / {got}"
        else:
            assert not isinstance(got, OpenInferError), f"step {number}: {got}"
            assert got.keys() == expected.keys()
            for name, value in expected.items():
                assert np.shape(got[name]) == np.shape(value), f"step {number}: {name}"
                np.testing.assert_allclose(got[name], value, 1e-5, 1e-5, err_msg=f"{number} {name}")
        states = simulator.snapshot(), compiled.snapshot()
        for name in kept:
            expected_state, state = states[0][name], states[1][name]
            for index, tensor in expected_state.entries.items():
                assert state.entries[index].shape == tensor.shape, f"step {number}: {name}"
                np.testing.assert_allclose(state.entries[index].values(), tensor.values(), 1e-5)
    return simulator, compiled, failures


def _run(executor: Any, given: Mapping[str, Any]) -> Any:
    try:
        return executor.run(**given)
    except OpenInferError as error:
        return error


def counts(values: Sequence[int], **others: Any) -> list[dict[str, Any]]:
    return [{"n": i32(n), **others} for n in values]


# Variables that have another shape in each round, or on each side of a branch

IN_A_LOOP = """
dynamic { n: i32; x: f32[B, 2]; }
block entry {
  assign t: f32[_, 2]; assign s: f32[2]; assign u: f32[2];
  loop l (i in 0..n) {
    op slice(x, starts=[0, 0], stops=[i + 1, 2]) >> t;
    op sum_axis(t, axes=[0]) >> u;
    op add(s, u) >> s;
  }
  op sum_axis(t, axes=[0]) >> u;
  op add(u, s) >> s;
  return s, t;
}
"""

IN_NESTED_LOOPS = """
dynamic { n: i32; x: f32[B, 2]; }
block entry {
  assign t: f32[_, 2];
  loop a (i in 0..n) {
    loop b (j in 0..i) {
      op slice(x, starts=[j, 0], stops=[i + 1, 2]) >> t;
      op mul(t, t) >> t;
    }
  }
  return t;
}
"""

ON_ONE_SIDE = """
dynamic { n: i32; x: f32[4]; }
block entry {
  assign t: f32[_]; assign s: f32;
  branch n one two;
  op sum_axis(t, axes=[0]) >> s;
  return s;
}
block one { op neg(x) >> t; return; }
block two { return; }
"""

BY_LOOP_INDEX = """
dynamic { n: i32; x: f32[4]; }
block entry {
  loop l (i in 0..n) { assign t: f32[i + 1, 4]; op add(t, x) >> t; }
  return t;
}
"""

KEPT_FROM_ROUND_TO_ROUND = """
dynamic { n: i32; k: i32; x: f32[4]; }
block entry {
  assign m: i32;
  op add(k, m) >> m;
  loop l (i in 0..n) {
    assign t: f32[k, 4]; op add(t, x) >> t;
    assign w: f32[m, 4]; op add(w, x) >> w;
    op add(m, k) >> m;
  }
  return t, w;
}
"""

BY_VOLATILE = """
dynamic { n: i32; x: f32[4]; }
volatile { m: i32; y: f32[m, 4]; }
block entry { op add(n, n) >> m; op add(y, x) >> y; return y; }
"""

EXCHANGED = """
dynamic { n: i32; x: f32[2]; }
persistent { T(i): f32[2] @table; U(i): f32[2] @table; }
block entry {
  assign a: f32[_, 2]; assign b: f32[_, 2]; assign c: f32[_, 2];
  cache.write x >> T[n];
  cache.write x >> U[2];
  cache.read T[] >> a;
  cache.read U[] >> b;
  loop l (i in 0..n) { transfer a >> c; transfer b >> a; transfer c >> b; }
  return a, b;
}
"""

OF_A_TABLE = """
dynamic { x: f32[2]; }
persistent { n: i32; T(i): f32[2] @table; }
block entry {
  assign t: f32[_, 2];
  cache.write x >> T[n];
  loop l (i in 0..n) { cache.read T[0..i + 1] >> t; }
  cache.increment n;
  branch n some none;
  return t;
}
block some { cache.read T[1..] >> t; op neg(t) >> t; return; }
block none { return; }
"""


def test_a_variable_of_another_shape_in_each_round() -> None:
    steps = [{"x": f(b, 2), "n": i32(n)} for b, n in ((4, 3), (4, 1), (40, 40), (4, 0), (3, 4))]
    assert agree(IN_A_LOOP, steps)[2] == 2
    assert agree(IN_NESTED_LOOPS, steps)[2] == 3


def test_a_variable_that_one_side_of_a_branch_writes() -> None:
    assert agree(ON_ONE_SIDE, counts((1, 0, 1), x=f(4)))[2] == 1


def test_a_dimension_names_the_index_of_a_loop() -> None:
    assert agree(BY_LOOP_INDEX, counts((1, 5, 0, 30), x=f(4)))[2] == 1


def test_a_temporary_keeps_its_value_while_its_shape_stays() -> None:
    pairs = ((1, 2), (5, 3), (0, 2), (2, 0), (3, 1), (20, 2))
    steps = [{"n": i32(n), "k": i32(k), "x": f(4)} for n, k in pairs]
    assert agree(KEPT_FROM_ROUND_TO_ROUND, steps)[2] == 0


def test_a_volatile_scalar_gives_a_dimension_where_it_is_used() -> None:
    assert agree(BY_VOLATILE, counts((1, 2, 0, 9, 50), x=f(4)))[2] == 0


def test_variables_of_other_shapes_are_exchanged() -> None:
    assert agree(EXCHANGED, counts((3, 4, 50, 1, 0), x=f(2)))[2] == 0


def test_slices_of_a_table_in_rounds_and_branches() -> None:
    assert agree(OF_A_TABLE, [{"x": f(2)}] * 25)[2] == 0


# Returns inside of loops

RETURNS = """
dynamic { n: i32; m: i32; x: f32[4]; }
volatile { y: f32[4]; }
block entry {
  loop c (k in 0..2) {
    loop a (i in 0..n) {
      op add(y, x) >> y;
      loop b (j in i..m) { op mul(y, x) >> y; return y; }
      op sub(y, x) >> y;
      op add(y, y) >> y;
    }
    op add(y, x) >> y;
  }
  op neg(y) >> y;
  return y;
}
"""

RETURNS_IN_A_CALL = """
dynamic { n: i32; m: i32; x: f32[2]; }
persistent { T(i): f32[2] @table; }
volatile { y: f32[2]; }
block entry { loop l (i in 0..3) { branch sub; op add(y, x) >> y; } return y; }
block sub {
  loop a (i in 0..n) {
    op add(y, x) >> y;
    loop b (j in 0..m) { cache.write y >> T[j]; return; }
    op mul(y, x) >> y;
  }
  cache.write y >> T[n];
  op sub(y, x) >> y;
  return;
}
"""


@pytest.mark.parametrize(("text", "width"), [(RETURNS, 4), (RETURNS_IN_A_CALL, 2)])
def test_returns_inside_of_loops_whose_bounds_the_step_knows(text: str, width: int) -> None:
    pairs = ((0, 0), (1, 0), (2, 0), (3, 1), (1, 1), (3, -1), (4, 2), (2, 5))
    steps = [{"n": i32(n), "m": i32(m), "x": f(width)} for n, m in pairs]
    assert agree(text, steps)[2] == 0


# Expressions over values of the step

DIVIDED = """
dynamic { n: i32; m: i32; x: f32[8]; }
block entry { assign t: f32[n / m, 8]; op add(t, x) >> t; return t; }
"""

BETWEEN = """
dynamic { n: i32; m: i32; x: f32[B, 2]; }
block entry {
  assign t: f32[m - n, 2]; assign w: f32[_, 2];
  op slice(x, starts=[n, 0], stops=[m, 2]) >> t;
  op slice(x, starts=[n, 0], stops=[m, 2]) >> w;
  op mul(w, w) >> w;
  return t, w;
}
"""

FROM_THE_END = """
dynamic { n: i32; m: i32; x: f32[B, 3]; }
block entry {
  assign t: f32[_, 3]; assign w: f32[_, _]; assign one: f32[1, 3];
  op slice(x, starts=[n, 0], stops=[m, 3]) >> t;
  op mul(t, t) >> t;
  op slice(x, axis=0, start=n) >> w;
  op add(w, w) >> w;
  op slice(x, starts=[0, 0], stops=[1, 3]) >> one;
  return t, w, one;
}
"""

EXTREMES = """
dynamic { n: i32; x: f32[3]; }
block entry { assign t: f32[max(n, 1) - min(n, 1), 3]; op add(t, x) >> t; return t; }
"""


def test_dimensions_that_divide() -> None:
    pairs = ((4, 2), (7, 2), (3, 0), (9, -3), (-9, -3), (1, 1), (300, 2))
    steps = [{"n": i32(n), "m": i32(m), "x": f(8)} for n, m in pairs]
    assert agree(DIVIDED, steps)[2] == 2


def test_differences_need_room_for_what_they_may_be() -> None:
    rows = ((4, 0, 2), (60, 3, 56), (40, 5, 5), (40, 5, 4), (4, 2, 5), (90, 1, 89))
    steps = [{"x": f(b, 2), "n": i32(n), "m": i32(m)} for b, n, m in rows]
    assert agree(BETWEEN, steps)[2] == 2


def test_bounds_of_a_slice_that_count_from_the_end() -> None:
    rows = ((4, 0, 2), (4, -3, -1), (4, -1, 4), (4, -4, 4), (4, -5, 4), (4, 2, -3), (50, -40, 45))
    steps = [{"x": f(b, 3), "n": i32(n), "m": i32(m)} for b, n, m in rows]
    assert agree(FROM_THE_END, steps)[2] == 2


def test_extremes_of_negative_values() -> None:
    assert agree(EXTREMES, counts((0, 1, 5, 50, -5), x=f(3)))[2] == 0


# Persistent variables with open dimensions

OPEN_VALUE = """
dynamic { what: i32; x: f32[B, 4]; }
persistent { P: f32[_, 4]; }
volatile { y: f32[_, 4]; s: f32[4]; }
block entry {
  assign t: f32[_, 4]; assign two: i32; assign c: bool;
  branch what stores keeps;
  op fill(two, value=2) >> two;
  op eq(what, two) >> c;
  branch c clears keeps;
  cache.read P >> t;
  op sum_axis(P, axes=[0]) >> s;
  op add(t, P) >> y;
  return y, s;
}
block stores { cache.write x >> P; return; }
block keeps { return; }
block clears { cache.reset P; return; }
"""

OPEN_LINE = """
dynamic { n: i32; x: f32[B]; }
persistent { L: f32[_]; k: i32; }
volatile { y: f32[_]; }
block entry {
  assign t: f32[_];
  cache.write x >> L;
  cache.increment k;
  loop l (i in 0..n) {
    cache.read L >> t;
    op concat(L, t, axis=0) >> y;
    cache.write y >> L;
  }
  op neg(L) >> y;
  return y;
}
"""

OPEN_TABLE = """
dynamic { i: i32; j: i32; what: i32; x: f32[B, 2]; }
persistent { T(p): f32[_, 2] @table @init(1.5); }
block entry {
  assign y: f32[_, 2]; assign all: f32[_, _, 2]; assign c: bool; assign two: i32;
  branch what stores keeps;
  op fill(two, value=2) >> two;
  op eq(what, two) >> c;
  branch c clears keeps;
  cache.read T[j] >> y;
  cache.read T[] >> all;
  return y, all;
}
block stores { cache.write x >> T[i]; return; }
block keeps { return; }
block clears { cache.reset T; return; }
"""


def test_a_value_with_an_open_dimension() -> None:
    rows = ((0, 3), (1, 3), (0, 9), (1, 1), (1, 40), (0, 2), (2, 6), (0, 4), (1, 0), (1, 5))
    steps = [{"what": i32(w), "x": f(b, 4) + number} for number, (w, b) in enumerate(rows)]
    simulator, compiled, failures = agree(OPEN_VALUE, steps)
    assert failures == 2
    np.testing.assert_array_equal(compiled.fetch("P"), simulator.fetch("P"))
    for executor in (simulator, compiled):
        executor.reset()
        with pytest.raises(OpenInferError) as caught:
            executor.fetch("P")
        assert caught.value.code == "OI0506"


def test_a_value_that_grows_by_itself() -> None:
    steps = [{"n": i32(n), "x": f(b)} for n, b in ((0, 3), (1, 2), (3, 4), (2, 1), (5, 3))]
    assert agree(OPEN_LINE, steps)[2] == 0


def test_a_table_with_an_open_dimension() -> None:
    rows = (
        *((0, 0, 0, 2), (0, 0, 1, 2), (2, 1, 1, 2), (1, 5, 1, 3), (1, 3, 0, 9), (0, 1, 2, 1)),
        *((1, 1, 1, 1), (2, 2, 1, 2), (4, 0, 1, 1), (3, -1, 1, 1), (0, 0, 2, 2), (30, 7, 1, 50)),
    )
    steps = [{"i": i32(i), "j": i32(j), "what": i32(w), "x": f(b, 2) + i} for i, j, w, b in rows]
    _, _, failures = agree(OPEN_TABLE, steps)
    assert failures > 3


@pytest.mark.parametrize(
    ("text", "name", "inputs"),
    [
        (OPEN_VALUE, "P", {"what": i32(1), "x": f(3, 4)}),
        (OPEN_TABLE, "T", {"i": i32(2), "j": i32(1), "what": i32(1), "x": f(3, 2)}),
    ],
)
def test_snapshots_of_open_dimensions(text: str, name: str, inputs: Any, tmp_path: Any) -> None:
    simulator = openinfer.Simulator(text).make_executor()
    program = openinfer.compile(text)
    first, second = program.make_executor(1), program.make_executor(1)
    assert not first.snapshot()[name].entries
    first.run(**inputs)
    first.snapshot().save(tmp_path / "state.safetensors")
    simulator.restore(tmp_path / "state.safetensors")
    second.restore(simulator.snapshot())
    again = {**inputs, "what": i32(0)}
    expected = simulator.run(**again)
    for executor in (first, second):
        for key, value in executor.run(**again).items():
            np.testing.assert_array_equal(value, expected[key])


def test_a_failing_step_leaves_open_dimensions_as_they_were() -> None:
    text = """
    dynamic { n: i32; x: f32[B, 2]; }
    persistent { P: f32[_, 2]; T(i): f32[_, 2] @table; U(i): f32[2] @table @fixed(i=4); }
    volatile { y: f32[_, 2]; row: f32[2]; }
    block entry {
      assign z: f32[_, 2];
      cache.write x >> P;
      cache.read P >> z;
      cache.reset T;
      cache.write z >> T[1];
      cache.read U[n] >> row;
      op add(z, row) >> y;
      return y;
    }
    """
    rows = ((0, 3), (9, 1), (1, 5), (9, 30), (2, 2), (9, 0), (3, 4))
    steps = [{"n": i32(n), "x": f(b, 2) + n} for n, b in rows]
    assert agree(text, steps)[2] == 3
