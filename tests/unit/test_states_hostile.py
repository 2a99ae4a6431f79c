"""State under hostile numbers and after failures: the compiled program against the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer
from openinfer.runtime.errors import OpenInferError


def outcome(executor: Any, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    try:
        return "", {k: np.asarray(v) for k, v in executor.run(**given).items()}
    except OpenInferError as error:
        return error.code, {}


def check(text: str, steps: list[dict[str, Any]], *, codes: bool = True) -> Any:
    simulator = openinfer.Simulator(text).make_executor(max_state_bytes=1 << 24)
    compiled = openinfer.compile(text).make_executor(1, max_state_bytes=1 << 24)
    for number, given in enumerate(steps):
        wanted, values = outcome(simulator, given)
        found, results = outcome(compiled, given)
        assert bool(wanted) == bool(found), f"step {number}: {wanted} / {found}"
        if codes:
            assert found == wanted, f"step {number}"
        for key, value in values.items():
            np.testing.assert_allclose(results[key], value, 1e-6, err_msg=f"step {number} {key}")
        for info in simulator.variables.values():
            if info.memory == "persistent" and not wanted:
                np.testing.assert_allclose(
                    np.asarray(compiled.fetch(info.name)), np.asarray(simulator.fetch(info.name))
                )
    return compiled


HUGE = [2**63 - 1, 2**62, 2**62 + 1, 2**63 - 2**30, 2**40, 2**31, -(2**63), -(2**62), -1]


@pytest.mark.parametrize("index", ["2*i", "i + 1", "i*i", "i", "3*i - 1"])
@pytest.mark.parametrize("fixed", ["", " @fixed(k=4)"])
def test_index_arithmetic_never_wraps_around(index: str, fixed: str) -> None:
    text = f"""
    dynamic {{ i: i64; x: f32[64]; }}
    persistent {{ T(k): f32[64] @table{fixed}; }}
    block entry {{
      assign t: f32[64];
      cache.write x >> T[{index}];
      cache.read T[{index}] >> t;
      return t;
    }}
    """
    x = np.ones(64, np.float32)
    steps = [{"i": np.int64(i), "x": x} for i in (1, *HUGE, 1)]
    check(text, steps, codes=False)


def test_growing_matrices_refuse_huge_counts() -> None:
    text = """
    dynamic { i: i64; }
    persistent { A(k): f32[2] @auto_dim(k); }
    block entry { assign t: f32[_]; cache.read A[2*i] >> t; return t; }
    """
    check(text, [{"i": np.int64(i)} for i in (1, *HUGE, 2)], codes=False)


def test_a_step_that_cannot_be_laid_out_leaves_the_executor_usable() -> None:
    text = """
    dynamic { i: i64; j: i64; x: f32[4]; }
    persistent { T(k): f32[4] @table; }
    block entry {
      assign t: f32[i, 4];
      op add(t, x) >> t;
      assign s: f32[i];
      op sum_axis(t, axes=[1]) >> s;
      cache.write x >> T[j];
      return s;
    }
    """
    executor = openinfer.compile(text).make_executor(1)

    def run(i: int, j: int) -> Any:
        return executor.run(i=np.int64(i), j=np.int64(j), x=np.full(4, i * 100 + j, np.float32))[
            "s"
        ]

    run(1, 1)
    with pytest.raises(OpenInferError):
        run(2**40, 1)
    run(1, 2)
    with pytest.raises(OpenInferError):
        run(2**45, 40)
    for i, j in ((3, 40), (3, 2), (3, 100), (2, 3)):
        np.testing.assert_array_equal(run(i, j), np.full(i, 4 * (i * 100 + j)))
    table: Any = executor.fetch("T")
    assert table[100, 0] == 400
    assert table[3, 0] == 203


def test_what_a_failing_step_appended_and_reset_is_gone() -> None:
    text = """
    dynamic { i: i64; r: i64; x: f32[2]; }
    persistent { T(k): f32[2] @table; U(k): f32[2] @table @fixed(k=8); }
    block entry {
      assign z: i64; assign c: bool; assign w: f32[_, 2];
      cache.write x >> T[i];
      op eq(r, z) >> c;
      branch c keep clear;
      cache.write x >> U[r];
      cache.read T[] >> w;
      return w;
    }
    block keep { return; }
    block clear { cache.reset T; return; }
    """
    steps = [
        {"i": np.int64(i), "r": np.int64(r), "x": np.full(2, v, np.float32)}
        for i, r, v in ((1, 0, 1), (10, 9, 7), (12, 0, 2))
    ]
    check(text, steps)


def test_an_unread_read_makes_an_entry() -> None:
    text = """
    dynamic { a: i64; b: i64; }
    persistent { T(i): f32[2] @table; }
    block entry {
      assign v: f32[2]; assign w: f32[_, 2];
      cache.read T[a] >> v;
      cache.reset T[b];
      cache.read T[] >> w;
      return w;
    }
    """
    check(text, [{"a": np.int64(3), "b": np.int64(0)}, {"a": np.int64(1), "b": np.int64(3)}])


def test_a_broadcast_of_zeros_into_a_sum_compiles() -> None:
    text = """
    dynamic { x: f32[4]; }
    block entry {
      assign t: f32[3, 4]; assign s: f32[4];
      op add(t, x) >> t;
      op sum_axis(t, axes=[0]) >> s;
      return s;
    }
    """
    x = np.arange(4, dtype=np.float32)
    check(text, [{"x": x}])


def test_snapshots_wait_for_sizes_that_only_a_step_knows() -> None:
    text = """
    dynamic { x: f32[B]; }
    persistent { s: f32[2*B]; A(k): f32[B] @auto_dim(k); }
    block entry {
      assign t: f32[2*B]; assign a: f32[_];
      op concat(x, x, axis=0) >> t;
      cache.read A[2] >> a;
      cache.write t >> s;
      return a;
    }
    """
    program = openinfer.compile(text)
    first, second = program.make_executor(1), program.make_executor(1)
    x = np.arange(3, dtype=np.float32)
    first.run(x=x)
    second.restore(first.snapshot())
    assert second.snapshot() == first.snapshot()
    np.testing.assert_array_equal(second.run(x=x)["a"], np.zeros(5))
    np.testing.assert_array_equal(second.fetch("s"), [0, 1, 2, 0, 1, 2])


def test_fetched_state_cannot_be_written_into() -> None:
    text = """
    dynamic { x: f32[2]; }
    persistent { s: f32[2]; }
    block entry { cache.write x >> s; return x; }
    """
    executor = openinfer.compile(text).make_executor(1)
    executor.run(x=np.ones(2, np.float32))
    view: Any = executor.fetch("s", copy=False)
    with pytest.raises(ValueError):
        view[0] = 9
