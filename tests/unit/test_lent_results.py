"""Large results of `run` are handed out where they lie, and stay as they are while they are held."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.host import cpu_unavailable_reason

pytestmark = pytest.mark.skipif(
    cpu_unavailable_reason() is not None,
    reason=cpu_unavailable_reason() or "machine code runs here",
)

Array = np.ndarray[Any, Any]
LARGE = """
dynamic { x: f32[N]; } volatile { y: f32[N]; z: f32[N]; }
block entry { op add(x, x) >> y; op add(x, y) >> z; return y, z; }
"""
SIZE = 1 << 16


def executor(threads: int = 1, text: str = LARGE) -> Any:
    return oi.compile(oi.graph(text)).make_executor(threads)


def ramp(start: float, size: int = SIZE) -> Array:
    return np.arange(size, dtype=np.float32) + np.float32(start)


def arena(array: Array) -> int:
    """The memory that an array lies in."""
    owner = array if array.base is None else array.base
    assert isinstance(owner, np.ndarray)
    return owner.ctypes.data


@pytest.mark.parametrize("threads", [1, 2])
def test_results_stay_while_they_are_held(threads: int) -> None:
    with executor(threads) as runner:
        held: list[dict[str, Array]] = []
        for step in range(7):
            held.append(runner.run(x=ramp(step)))
            for number, results in enumerate(held):
                np.testing.assert_array_equal(results["y"], 2 * ramp(number))
                np.testing.assert_array_equal(results["z"], 3 * ramp(number))
        # Two arenas at most are the caller's; the others are copies.
        lent = {
            arena(results["y"]) for results in held if arena(results["y"]) == arena(results["z"])
        }
        assert len(lent) == 2
        assert runner.arena_growths == 3


def test_a_result_that_is_dropped_costs_no_second_arena() -> None:
    with executor() as runner:
        places: set[int] = set()
        for step in range(5):
            results = runner.run(x=ramp(step))
            places.add(arena(results["y"]))
            assert results["y"].flags.writeable
            del results
        assert len(places) == 1
        assert runner.arena_growths == 1


def test_a_loop_that_names_its_result_copies_nothing() -> None:
    with executor() as runner:
        places: set[int] = set()
        for step in range(8):
            y = runner.run(x=ramp(step))["y"]
            places.add(arena(y))
            np.testing.assert_array_equal(y, 2 * ramp(step))
        assert len(places) == 2
        assert runner.arena_growths == 2


def test_a_part_of_a_result_holds_it() -> None:
    with executor() as runner:
        part = runner.run(x=ramp(1))["y"].reshape(256, 256)[3:5].T
        want = part.copy()
        memory = memoryview(runner.run(x=ramp(2))["z"])
        for step in range(3, 8):
            runner.run(x=ramp(step))
        np.testing.assert_array_equal(part, want)
        np.testing.assert_array_equal(np.asarray(memory), 3 * ramp(2))


def test_changes_are_the_callers() -> None:
    with executor() as runner:
        results = runner.run(x=ramp(1))
        results["y"][:] = -1
        np.testing.assert_array_equal(results["z"], 3 * ramp(1))
        np.testing.assert_array_equal(runner.run(x=ramp(2))["y"], 2 * ramp(2))
        assert (results["y"] == -1).all()


def test_other_sizes_leave_held_results_alone() -> None:
    with executor() as runner:
        first = runner.run(x=ramp(1))["z"]
        for size in (SIZE // 2, SIZE, 2 * SIZE, 7, SIZE):
            np.testing.assert_array_equal(runner.run(x=ramp(5, size))["z"], 3 * ramp(5, size))
        np.testing.assert_array_equal(first, 3 * ramp(1))
    np.testing.assert_array_equal(first, 3 * ramp(1))


@pytest.mark.parametrize("look", [False, True])
def test_results_stay_after_sizes_that_need_less_memory(look: bool) -> None:
    with executor() as runner:
        runner.insert(x=ramp(1))
        runner.step()
        seen = runner.fetch("y", copy=not look)
        # The same memory, laid out anew while it is looked at.
        runner.run(x=ramp(1, SIZE - 5))
        del seen
        held = [runner.run(x=ramp(step, SIZE - 5)) for step in range(4)]
        for step, results in enumerate(held):
            np.testing.assert_array_equal(results["y"], 2 * ramp(step, SIZE - 5))
            np.testing.assert_array_equal(results["z"], 3 * ramp(step, SIZE - 5))


def test_fetch_copies_and_small_results_are_copied() -> None:
    with executor() as runner:
        runner.run(x=ramp(1))
        fetched = runner.fetch("y")
        assert fetched.base is None
        small = runner.run(x=ramp(1, 64))["y"]
        assert small.base is None


@pytest.mark.parametrize("size", [1 << 12, 1 << 13, 1 << 14])
def test_results_of_any_size_stay_as_they_are(size: int) -> None:
    with executor() as runner:
        held = [runner.run(x=ramp(step, size)) for step in range(6)]
        for step, results in enumerate(held):
            np.testing.assert_array_equal(results["y"], 2 * ramp(step, size))
            np.testing.assert_array_equal(results["z"], 3 * ramp(step, size))


def test_results_that_share_memory_are_copied() -> None:
    text = """
    dynamic { x: f32[N]; } volatile { y: f32[N]; z: f32[N]; }
    block entry { op add(x, x) >> y; transfer y >> z; return y, z; }
    """
    with executor(text=text) as runner:
        results = runner.run(x=ramp(1))
        results["y"][:] = 0
        np.testing.assert_array_equal(results["z"], 2 * ramp(1))
