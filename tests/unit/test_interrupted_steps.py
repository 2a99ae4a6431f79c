"""A step that an interrupt ends leaves everything as it was, in the simulator and in native code."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from interrupts import interrupted, raises

import openinfer as oi
from openinfer.runtime.devices.compiled.watching import Watcher
from openinfer.runtime.devices.cpu import native_call, observer

ROOT = Path(__file__).resolve().parents[2]

TEXT = """
dynamic { n: i64; }
persistent { s: i64; T(i): f32[2] @table; }
volatile { v: f32[2]; }
block entry {
    loop i (i in 0..n) {
        cache.increment s;
        cache.read T[i] >> v;
    }
    return s;
}
"""


class Alarm(Exception):
    """What a handler of the user raises."""


def test_signals_end_the_call_that_they_are_for_and_nothing_else() -> None:
    """They come before it, while it runs and behind it."""

    def work() -> None:
        for _ in range(50):
            time.sleep(1e-5)

    ended = 0
    for number in range(100):
        try:
            interrupted(work, raises(Alarm), number / 10_000)
        except Alarm:
            ended += 1
    assert 0 < ended < 100


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Alarm])
def test_the_simulator_undoes_a_step_that_is_interrupted(kind: type[BaseException]) -> None:
    executor = oi.Simulator(TEXT).make_executor()
    assert executor.run(n=np.int64(3))["s"] == 3
    with pytest.raises(kind):
        interrupted(lambda: executor.run(n=np.int64(10**9)), raises(kind))
    assert executor.fetch("s") == 3
    assert np.asarray(executor.fetch("T")).shape == (3, 2)
    assert executor.run(n=np.int64(2))["s"] == 5


# Compiled steps. A whole step of ROUNDS rounds takes seconds: the interrupt comes long before its end, and
# whether it came is seen by what `run` raises, never by a clock.

PRODUCTS = """
dynamic { n: i64; x: f32[64, 64]; }
persistent { s: i64; last: f32[64, 64]; T(i): f32[2] @table; }
volatile { y: f32[64, 64]; v: f32[2]; }
block entry {
    op relu(x) >> y;
    loop i (i in 0..n) {
        op matmul(y, x) >> y;
        cache.write y >> last;
        cache.increment s;
        cache.read T[i] >> v;
    }
    return y, s;
}
"""
STATIC = PRODUCTS.replace("0..n", "0..ROUNDS")
NESTED = PRODUCTS.replace(
    "loop i (i in 0..n) {", "loop i (i in 0..3) { loop j (j in 0..n) {"
).replace("    return", "    }\n    return")
STATELESS = """
dynamic { n: i64; x: f32[64, 64]; }
volatile { y: f32[64, 64]; }
block entry {
    op relu(x) >> y;
    loop i (i in 0..n) { op matmul(y, x) >> y; }
    return y;
}
"""
SECTIONS = """
dynamic { n: i64; x: f32[64, 64]; }
volatile { a: f32[64, 64]; b: f32[64, 64]; }
block entry {
    assign h: f32[64, 64];
    op relu(x) >> h;
    yield h;
    await h;
    return h, a, b;
}
block left {
    await h;
    op relu(h) >> a;
    loop i (i in 0..n) { op matmul(a, a) >> a; }
    yield h;
}
block right {
    await h;
    op relu(h) >> b;
    loop i (i in 0..n) { op matmul(b, b) >> b; }
    yield h;
}
"""
ROUNDS = 1_000_000
EYE = np.eye(64, dtype=np.float32)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, Alarm])
@pytest.mark.parametrize("text", [PRODUCTS, NESTED])
def test_a_compiled_step_is_interrupted_and_undone(
    text: str, kind: type[BaseException], threads: int
) -> None:
    executor: Any
    with oi.compile(text).make_executor(threads) as executor:
        first: Any = executor.run(n=np.int64(3), x=EYE)["s"]
        entries = np.asarray(executor.fetch("T")).shape
        for _ in range(2):
            with pytest.raises(kind):
                interrupted(lambda: executor.run(n=np.int64(ROUNDS), x=2 * EYE), raises(kind))
            assert executor.finished_steps == 1
            assert executor.fetch("s") == first
            assert np.array_equal(executor.fetch("last"), EYE)
            assert np.asarray(executor.fetch("T")).shape == entries
        results = executor.run(n=np.int64(3), x=EYE)
        assert results["s"] == 2 * first
        assert np.array_equal(results["y"], EYE)


def test_a_loop_whose_rounds_are_written_down_is_interrupted() -> None:
    executor = oi.compile(STATIC.replace("ROUNDS", str(ROUNDS))).make_executor(1)
    with pytest.raises(KeyboardInterrupt):
        interrupted(lambda: executor.run(n=np.int64(1), x=EYE), raises(KeyboardInterrupt))
    assert (executor.finished_steps, executor.fetch("s")) == (0, 0)


CHILD = """
import sys
import numpy as np
import openinfer as oi
from tests.unit.interrupts import interrupted, raises
EYE = np.eye(64, dtype=np.float32)
with oi.compile(sys.argv[1]).make_executor(int(sys.argv[2])) as executor:
    try:
        interrupted(lambda: executor.run(n=np.int64(10**12), x=EYE), raises(KeyboardInterrupt))
    except KeyboardInterrupt:
        pass
    assert executor.finished_steps == 0
    results = executor.run(n=np.int64(5), x=EYE)
    assert len(results) and all(np.array_equal(value, EYE) for value in results.values())
print("fine")
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("text", [STATELESS, SECTIONS])
def test_steps_without_state_are_interrupted(text: str, threads: int) -> None:
    """No state says that the step was cut short: in a process of its own, it would take days."""
    command = [sys.executable, "-c", CHILD, text, str(threads)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, cwd=ROOT
    )
    assert done.stderr == ""
    assert done.stdout == "fine\n"


def test_a_handler_that_raises_nothing_lets_the_step_go_on() -> None:
    seen: list[int] = []
    executor: Any = oi.compile(PRODUCTS).make_executor(1)

    def steps() -> None:
        while not seen:
            before = int(executor.fetch("s"))
            # The first one is over before the signal comes, another one is not.
            assert executor.run(n=np.int64(20_000), x=EYE)["s"] == before + 20_000

    interrupted(steps, lambda number, frame: seen.append(len(seen)))


def test_a_step_of_another_thread_goes_on() -> None:
    executor: Any = oi.compile(PRODUCTS).make_executor(1)
    found: list[int] = []

    def work() -> None:
        found.append(int(executor.run(n=np.int64(100_000), x=EYE)["s"]))

    thread = threading.Thread(target=work)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        interrupted(lambda: threading.Event().wait(60), raises(KeyboardInterrupt), 0.1)
    thread.join()
    assert found == [100_000]


def test_a_traced_step_is_interrupted() -> None:
    executor = oi.compile(PRODUCTS).make_executor(1, trace=True)
    executor.run(n=np.int64(3), x=EYE)
    with pytest.raises(KeyboardInterrupt):
        interrupted(lambda: executor.run(n=np.int64(ROUNDS), x=EYE), raises(KeyboardInterrupt))
    assert executor.fetch("s") == 3
    assert executor.run(n=np.int64(2), x=EYE)["s"] == 5


def test_a_loaded_program_is_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "products.oip"
    oi.compile(PRODUCTS).save(path)
    executor = oi.load(path).make_executor(1)
    with pytest.raises(KeyboardInterrupt):
        interrupted(lambda: executor.run(n=np.int64(ROUNDS), x=EYE), raises(KeyboardInterrupt))
    assert executor.fetch("s") == 0
    assert executor.run(n=np.int64(2), x=EYE)["s"] == 2


def test_the_command_line_ends_without_a_traceback(tmp_path: Path) -> None:
    path = tmp_path / "products.oi"
    path.write_text(STATELESS.replace("0..n", f"0..{10**12}"))
    # The signal comes from inside, when the program is compiled and the step runs.
    code = f"""
import os, signal, sys, threading
# Ignored where the tests run in the background of a shell.
signal.signal(signal.SIGINT, signal.default_int_handler)
from openinfer.compiler.tools.openinfer import main
from openinfer.runtime.devices.compiled.context import Context
whole = Context._call
def call(self):
    threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
    whole(self)
Context._call = call
sys.exit(main(["run", {str(path)!r}, "--input", "n=1", "--threads", "1"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 130
    assert done.stderr == ""
    assert done.stdout == ""


# Watched steps: handlers run in the callback that shows a node, too, and nothing that they raise is lost.

NODES = (
    "dynamic { x: f32[N, N]; }\npersistent { s: i64; }\nvolatile { y: f32[N, N]; }\n"
    "block entry {\ncache.increment s;\nop relu(x) >> y;\n"
    + "op matmul(y, x) >> y;\n" * 40
    + "return y, s;\n}"
)


def observed(text: str) -> Any:
    """An executor of a program whose watched build is there already."""
    program = oi.compile(text)
    program.observed().loaded()
    return program.make_executor(1)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Alarm])
def test_no_interrupt_of_a_watched_step_is_lost(kind: type[BaseException]) -> None:
    executor = observed(PRODUCTS)
    executor.run(n=np.int64(3), x=EYE)
    came: list[int] = []

    def handler(number: int, frame: FrameType | None) -> None:
        came.append(number)
        raise kind

    for after in range(5):
        came.clear()
        executor.insert(n=np.int64(ROUNDS), x=2 * EYE)
        gc.disable()
        try:
            with pytest.raises(kind):
                interrupted(lambda: next(executor.iterate()), handler, 0.1 + after / 50, 20)
        finally:
            gc.enable()
        assert len(came) == 1, "an interrupt was lost, and another one ended the step"
        assert executor.fetch("s") == 3
        assert np.array_equal(executor.fetch("last"), EYE)
        assert np.asarray(executor.fetch("T")).shape == (3, 2)
    assert executor.run(n=np.int64(2), x=EYE)["s"] == 5


@pytest.mark.parametrize(("builtins", "rounds"), [(True, 10**12), (False, 1000)])
def test_what_a_watcher_raises_ends_a_long_step(
    builtins: bool, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the builtins, as on other interpreters, the step runs to its end first."""
    if not builtins:
        monkeypatch.setattr(native_call, "_builtins", lambda: None)
        observer.observer_address.cache_clear()
    executor = observed(PRODUCTS)
    observer.observer_address.cache_clear()
    calls: list[int] = []

    def fails(self: Watcher, node: int, output: int, value: int) -> None:
        calls.append(node)
        raise Alarm

    monkeypatch.setattr(Watcher, "record", fails)
    executor.insert(n=np.int64(rounds), x=EYE)
    with pytest.raises(Alarm):
        next(executor.iterate())
    assert len(calls) == 1
    monkeypatch.undo()
    assert executor.run(n=np.int64(2), x=EYE)["s"] == 2


def test_a_watched_step_without_loops_is_interrupted_between_its_nodes() -> None:
    """The whole step takes many seconds: after the first nodes the others are not run any more."""
    executor = observed(NODES)
    x = np.eye(1500, dtype=np.float32)
    executor.insert(x=x)
    started = time.thread_time()
    with pytest.raises(KeyboardInterrupt):
        interrupted(lambda: next(executor.iterate()), raises(KeyboardInterrupt), 0.05)
    took = time.thread_time() - started
    assert executor.fetch("s") == 0
    started = time.thread_time()
    executor.run(x=x)
    # Processor time: 40 products against the two or three that it takes to hear of the signal.
    assert took < (time.thread_time() - started) / 2
    assert executor.fetch("s") == 1
