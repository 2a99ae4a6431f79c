"""A child of a fork compiles and runs, whatever other threads of its parent were inside of."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import llvmlite.binding as binding
import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler import compile as compiling
from openinfer.compiler.collector import no_collection

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

SECONDS = 60
"""Processor time does not count where something hangs; a child that is well needs one second."""


def program(number: int) -> str:
    """A text that nobody has compiled yet."""
    return (
        f"dynamic {{ x: f32[4]; }}\nconstant {{ c: f32 @init({number}.5); }}\n"
        "block entry { assign h: f32[4];\nop add(x, c) >> h; op relu(h) >> h; return h; }"
    )


def compiled(number: int) -> bool:
    executor: Any
    with oi.compile(program(number)).make_executor(1) as executor:
        found = executor.run(x=np.ones(4, np.float32))["h"]
    return bool(np.all(found == 1.5 + number)) and gc.isenabled()


def in_a_child(work: Callable[[], bool]) -> str:
    """How `work` ends there: "well", "badly", or "never"."""
    child = os.fork()
    if not child:
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(2)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return "well" if status == 0 else "badly"
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "never"


@contextmanager
def another_thread_inside(held: Callable[[], AbstractContextManager[object]]) -> Generator[None]:
    begun, gone = threading.Event(), threading.Event()

    def stay() -> None:
        with held():
            begun.set()
            gone.wait(2 * SECONDS)

    thread = threading.Thread(target=stay)
    thread.start()
    try:
        assert begun.wait(SECONDS)
        yield
    finally:
        gone.set()
        thread.join()


def test_a_child_compiles_while_another_thread_lowers_a_program() -> None:
    with (
        another_thread_inside(lambda: compiling._lowering),
        another_thread_inside(no_collection),
    ):
        assert not gc.isenabled()
        assert in_a_child(lambda: compiled(1)) == "well"
    assert gc.isenabled()


def has_what_another_thread_parses_and_loads(number: int) -> str:
    graph: Any = oi.Graph(program(number))
    # Before Python 3.12 all programs share a lock of the property.
    parsing = getattr(type(graph)._parsed, "lock", graph._lock)
    whole: Any = oi.compile(program(number + 1))

    def child() -> bool:
        found = oi.compile(graph).make_executor(1).run(x=np.ones(4, np.float32))["h"]
        other: Any = whole.make_executor(1).run(x=np.ones(4, np.float32))["h"]
        return bool(np.all(found == number + 1.5) and np.all(other == number + 2.5))

    with another_thread_inside(lambda: graph._lock), another_thread_inside(lambda: whole._lock):
        with another_thread_inside(lambda: parsing):
            return in_a_child(child)


def test_a_child_has_the_program_that_another_thread_parses_and_loads() -> None:
    assert has_what_another_thread_parses_and_loads(3) == "well"


def test_a_child_renews_the_locks_of_frozen_objects_and_odd_classes() -> None:
    """Servers freeze what they have before they fork; a class may answer in ways of its own."""

    class Shy(type):
        def __getattribute__(cls, name: str) -> Any:
            raise ReferenceError(name)

    odd = Shy("odd", (), {})
    gc.freeze()
    try:
        assert has_what_another_thread_parses_and_loads(5) == "well"
    finally:
        gc.unfreeze()
    assert type(odd) is Shy


def test_a_fork_waits_for_the_end_of_a_call_of_llvm() -> None:
    """What LLVM was in the middle of would stay so in the child for ever."""
    library: Any = binding.ffi.lib
    lock = library._lock
    begun, left = threading.Event(), threading.Event()

    def call() -> None:
        with lock:
            begun.set()
            time.sleep(0.5)
            left.set()

    thread = threading.Thread(target=call)
    thread.start()
    assert begun.wait(SECONDS)
    assert in_a_child(lambda: left.is_set() and compiled(5)) == "well"
    thread.join()
    assert compiled(6)


def test_children_compile_while_threads_of_their_parent_do() -> None:
    over, failures = threading.Event(), list[BaseException]()

    def work(first: int) -> None:
        try:
            while not over.is_set():
                first += 1
                assert compiled_beside(first)
        except BaseException as error:
            failures.append(error)

    def compiled_beside(number: int) -> bool:
        oi.compile(program(number)).loaded()
        return True

    threads = [threading.Thread(target=work, args=(100_000 * n,)) for n in (1, 2)]
    for thread in threads:
        thread.start()
    try:
        ends = [in_a_child(lambda n=n: compiled(1000 + n)) for n in range(8)]
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert ends == ["well"] * 8
    assert not failures
