"""What every executor must do: the same calls on the simulator and on each device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openinfer as oi

DEVICES = ("simulator", "cpu")

PROGRAM = """
dynamic { x: f32[B, 4]; k: i64[B]; }
constant { two: f32 @init(2.0); table: f32[3, 4] @init(0.5); }
volatile { y: f32[B, 4]; untouched: f32[4] @init(7.0); }
block entry {
    assign t: f32[B, 4];
    assign g: f32[B, 4];
    op mul(x, two) >> t;
    op gather(table, k) >> g;
    op add(t, g) >> y;
    loop twice (i in 0..2) { op add(y, y) >> y; }
    return t;
}
"""

Make = Callable[[str], Any]


@pytest.fixture(params=DEVICES)
def make(request: pytest.FixtureRequest) -> Make:
    """An executor of a program text on one device."""

    def build(text: str) -> Any:
        if request.param == "simulator":
            return oi.Simulator(text).make_executor()
        return oi.compile(text, device=request.param).make_executor()

    return build


def _inputs(batch: int = 3) -> dict[str, Any]:
    x = np.arange(batch * 4, dtype=np.float32).reshape(batch, 4)
    return {"x": x, "k": np.zeros(batch, np.int64)}


def _expected(inputs: dict[str, Any]) -> Any:
    return (inputs["x"] * 2 + np.float32(0.5)) * 4


def test_insert_step_fetch(make: Make) -> None:
    executor = make(PROGRAM)
    inputs = _inputs()
    executor.insert(**inputs)
    executor.step()
    assert np.array_equal(executor.fetch("y"), _expected(inputs))
    assert np.array_equal(executor.fetch("untouched"), np.full(4, 7, np.float32))
    assert executor.fetch("two") == 2


def test_run_gives_the_returned_values(make: Make) -> None:
    inputs = _inputs()
    result = make(PROGRAM).run(**inputs)
    assert list(result) == ["t"]
    assert np.array_equal(result["t"], inputs["x"] * 2)


def test_sizes_may_change_between_steps(make: Make) -> None:
    executor = make(PROGRAM)
    for batch in (1, 5, 2, 5):
        inputs = _inputs(batch)
        executor.run(**inputs)
        assert np.array_equal(executor.fetch("y"), _expected(inputs))


def test_fetch_copies_unless_told_otherwise(make: Make) -> None:
    executor = make(PROGRAM)
    executor.run(**_inputs())
    first = executor.fetch("y")
    first[:] = -1
    assert not np.array_equal(executor.fetch("y"), first)


def test_inputs_are_cleared_by_a_step(make: Make) -> None:
    executor = make(PROGRAM)
    executor.run(**_inputs())
    with pytest.raises(oi.InputError, match="not set: x"):
        executor.step()


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"z": np.zeros((3, 4), np.float32)}, "no variable is named 'z'"),
        ({"y": np.zeros((3, 4), np.float32)}, "volatile"),
        ({"x": np.zeros((3, 4), np.float64)}, "expected dtype f32, found float64"),
        ({"x": np.zeros((3, 5), np.float32)}, "dimension 1 is 5"),
        ({"x": np.zeros(4, np.float32)}, "dimensions"),
        ({"x": np.zeros((2, 4), np.float32), "k": np.zeros(3, np.int64)}, "B = 2"),
    ],
)
def test_wrong_inputs_are_refused_and_the_executor_stays_usable(
    make: Make, wrong: dict[str, Any], match: str
) -> None:
    executor = make(PROGRAM)
    with pytest.raises(oi.InputError, match=match):
        executor.insert(**wrong)
    inputs = _inputs()
    executor.run(**inputs)
    assert np.array_equal(executor.fetch("y"), _expected(inputs))


def test_a_failing_step_names_node_index_and_bound(make: Make) -> None:
    executor = make(PROGRAM)
    inputs = _inputs()
    with pytest.raises(oi.StepError, match=r"gather.*9.*3"):
        executor.run(x=inputs["x"], k=np.array([0, 9, 1]))
    executor.run(**inputs)
    assert np.array_equal(executor.fetch("y"), _expected(inputs))


def test_iterate_shows_every_node(make: Make) -> None:
    executor = make(PROGRAM)
    inputs = _inputs()
    executor.insert(**inputs)
    seen: list[str] = []
    for node in executor.iterate():
        if node.event.kind != "OpExecute":
            continue
        seen.append(node.event.op_name)
        if node.event.op_name == "mul":
            assert np.array_equal(node.fetch("t"), inputs["x"] * 2)
    assert seen == ["mul", "gather", "add", "add", "add"]
    assert np.array_equal(executor.fetch("y"), _expected(inputs))


def test_strided_and_fortran_inputs_mean_what_they_show(make: Make) -> None:
    executor = make(PROGRAM)
    wide = np.arange(24, dtype=np.float32).reshape(3, 8)
    for x in (wide[:, ::2], np.asfortranarray(wide[:, :4]), wide[::-1, 4:]):
        inputs = {"x": x, "k": np.zeros(3, np.int64)}
        executor.run(**inputs)
        assert np.array_equal(executor.fetch("y"), _expected(inputs))


def test_a_closed_executor_says_so(make: Make) -> None:
    executor = make(PROGRAM)
    with executor:
        executor.run(**_inputs())
    with pytest.raises(oi.InputError, match="closed"):
        executor.run(**_inputs())


def test_executors_share_nothing(make: Make) -> None:
    first, second = make(PROGRAM), make(PROGRAM)
    first.run(**_inputs(2))
    second.run(**_inputs(3))
    assert np.array_equal(first.fetch("y"), _expected(_inputs(2)))
