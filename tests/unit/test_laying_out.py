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

    loaded.do_all([loaded.Move(loaded.WORTH_THREADS, partial(move, n)) for n in range(40)])
    assert sorted(done) == list(range(40))
    assert not [t for t in threading.enumerate() if t.name == "openinfer-weights"]


def test_a_failing_move_is_raised_when_all_threads_are_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loaded, "available_cpus", lambda: 2)

    def fail() -> None:
        raise MemoryError("no room")

    with pytest.raises(MemoryError, match="no room"):
        loaded.do_all([loaded.Move(loaded.WORTH_THREADS, fail)] * 3)
    assert not [t for t in threading.enumerate() if t.name == "openinfer-weights"]


def test_small_weights_need_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded, "Thread", None)
    done: list[int] = []
    half = (loaded.WORTH_THREADS - 1) // 2
    loaded.do_all([loaded.Move(half, partial(done.append, n)) for n in (1, 2)])
    assert done == [1, 2]


def test_the_largest_weights_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded, "available_cpus", lambda: 2)

    class NoThread:
        def __init__(self, **_: object) -> None: ...

        def start(self) -> None:
            raise RuntimeError("there are no threads left")

    monkeypatch.setattr(loaded, "Thread", NoThread)
    begun: list[int] = []
    sizes = [1, 3, loaded.WORTH_THREADS, 2]
    loaded.do_all([loaded.Move(size, partial(begun.append, size)) for size in sizes])
    assert begun == sorted(sizes, reverse=True)
