"""Elements of variables in expressions, `K[slots[i]]`, and sizes as operands, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.frontend import parse_program, print_program
from openinfer.runtime.errors import OpenInferError

SLOTS = """
dynamic { slots: i32[S]; firsts: i32[S]; counts: i64[S]; x: f32[N, 4]; }
persistent { K(l, s, t): f32[4] @table; }
block entry {
    loop layers (l in 0..2) {
        loop sequences (i in 0..S) {
            part = op slice(x, start=firsts[i], stop=firsts[i] + counts[i]);
            cache.write part >> K[l, slots[i], 0..counts[i]];
        }
    }
    first = cache.read K[1, slots[0], 0..counts[0]];
    last = cache.read K[0, slots[S - 1], 0..counts[S - 1]];
    return first, last;
}
"""
ROWS = {
    "slots": np.array([5, 0, 2], np.int32),
    "firsts": np.array([4, 1, 0], np.int32),
    "counts": np.array([2, 3, 1]),
    "x": np.arange(24, dtype=np.float32).reshape(6, 4),
}


def executors(text: str) -> list[oi.Executor]:
    return [oi.Simulator(text).make_executor(), oi.compile(text).make_executor(1)]


def run(executor: oi.Executor, **inputs: Any) -> dict[str, Any]:
    return {name: np.asarray(value) for name, value in executor.run(**inputs).items()}


def test_entries_are_selected_by_elements() -> None:
    for executor in executors(SLOTS):
        found = run(executor, **ROWS)
        np.testing.assert_array_equal(found["first"], ROWS["x"][4:6])
        np.testing.assert_array_equal(found["last"], ROWS["x"][0:1])


def test_what_an_element_stands_for_is_printed() -> None:
    text = print_program(parse_program(SLOTS))
    assert "op gather(slots, i64_i) >> slots_i;" in text
    assert "K[l, slots_i, 0..counts_i]" in text
    # Read once in an iteration, though the statement behind it names it again.
    assert text.count("op gather(counts, i64_i)") == 1
    assert print_program(parse_program(text)) == text


def test_elements_of_what_is_computed_are_read_where_they_are_named() -> None:
    text = """
    dynamic { a: i32[3]; x: f32[2]; }
    persistent { K(t): f32[2] @table; }
    block entry {
        b = op add(a, 1);
        cache.write x >> K[b[1]];
        b = op add(b, 1);
        y = op mul(x, 2);
        cache.write y >> K[b[1]];
        all = cache.read K[];
        return all;
    }
    """
    for executor in executors(text):
        found = run(executor, a=np.array([9, 0, 9], np.int32), x=np.array([3, 4], np.float32))
        np.testing.assert_array_equal(found["all"], [[0, 0], [3, 4], [6, 8]])


def test_blocks_and_inner_loops_leave_the_elements_around_them_alone() -> None:
    text = """
    dynamic { a: i32[3]; }
    block entry {
        assign n: i64;
        loop outer (i in 0..3) {
            op add(n, i) >> n;
            first = op slice(a, start=a[i], stop=a[i] + 1);
            loop inner (i in 0..2) { part = op slice(a, start=a[i], stop=a[i] + 1); }
            branch other;
            again = op slice(a, start=a[i], stop=a[i] + 1);
        }
        return first, again, n;
    }
    block other { loop rounds (i in 0..1) { part = op slice(a, start=a[i], stop=a[i] + 1); } return; }
    """
    for executor in executors(text):
        found = run(executor, a=np.array([2, 0, 1], np.int32))
        assert found["first"] == found["again"] == [0]
        assert found["n"] == 3


def test_sizes_and_indices_are_operands() -> None:
    text = """
    size twice = 2 * N;
    dynamic { x: f32[N]; ids: i64[N]; }
    block entry {
        total = op add(ids, twice);
        loop rounds (l in 1..3) {
            total = op add(total, l);
            scale = op cast(N, to=f32);
            one = op gather(ids, l);
        }
        y = op mul(x, scale);
        return y, total, one;
    }
    """
    x, ids = np.ones(3, np.float32), np.array([7, 8, 9])
    for executor in executors(text):
        found = run(executor, x=x, ids=ids)
        np.testing.assert_array_equal(found["y"], 3 * x)
        np.testing.assert_array_equal(found["total"], ids + 6 + 1 + 2)
        assert found["one"] == 9


@pytest.mark.parametrize("which", [0, 1])
def test_an_index_outside_is_an_error_of_the_step(which: int) -> None:
    text = """
    dynamic { a: i32[S]; n: i32; x: f32[2]; }
    persistent { K(t): f32[2] @table; }
    block entry { cache.write x >> K[a[n + 1]]; return; }
    """
    executor = executors(text)[which]
    with pytest.raises(OpenInferError, match="3") as caught:
        executor.run(a=np.zeros(3, np.int32), n=np.int32(2), x=np.zeros(2, np.float32))
    assert caught.value.code.startswith("OI06")
