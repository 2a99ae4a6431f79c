"""Weights are laid out by several threads when a program is loaded."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from openinfer.runtime.devices.cpu import loaded


def test_several_threads_do_all_moves_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded, "available_cpus", lambda: 3)
    done: list[int] = []
    together = threading.Barrier(3, timeout=30)

    def move(number: int) -> None:
        if number < 3:
            together.wait()
        done.append(number)

    loaded.do_all([partial(move, number) for number in range(40)], loaded.WORTH_THREADS)
    assert sorted(done) == list(range(40))
    assert not [t for t in threading.enumerate() if t.name == "openinfer-weights"]


def test_a_failing_move_is_raised_when_all_threads_are_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loaded, "available_cpus", lambda: 2)

    def fail() -> None:
        raise MemoryError("no room")

    with pytest.raises(MemoryError, match="no room"):
        loaded.do_all([fail, fail, fail], loaded.WORTH_THREADS)
    assert not [t for t in threading.enumerate() if t.name == "openinfer-weights"]


def test_small_weights_need_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded, "Thread", None)
    done: list[int] = []
    loaded.do_all([partial(done.append, 1), partial(done.append, 2)], loaded.WORTH_THREADS - 1)
    assert done == [1, 2]
