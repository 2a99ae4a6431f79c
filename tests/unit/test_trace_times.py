"""Times of a traced step are those of its work: with any number of threads, on a machine that is busy."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

import openinfer as oi
from openinfer.compiler.tools.trace_profile import Profile
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.trace import Event

Array = NDArray[Any]

SIDE: Final = 192
STEPS: Final = 300
PRODUCTS: Final = 3
TEXT: Final = f"""
dynamic {{ x: f32[{SIDE}, {SIDE}]; y: f32[{SIDE}, {SIDE}]; }}
block entry {{
    assign h: f32[{SIDE}, {SIDE}];
    op matmul(x, y) >> h;
    op matmul(h, y) >> h;
    op matmul(h, x) >> h;
    return h;
}}
"""


@contextmanager
def busy() -> Generator[None]:
    """A process for each processor that keeps it from idling."""
    code = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): sum(range(10000))"
    command = [sys.executable, "-c", code, str(os.getpid())]
    others = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def steps_of(events: list[Event]) -> list[list[Event]]:
    found: dict[int, list[Event]] = {}
    for event in events:
        found.setdefault(event.step, []).append(event)
    return list(found.values())


def _duration(executor: BaseExecutor, x: Array, y: Array) -> int:
    begin = time.perf_counter_ns()
    executor.run(x=x, y=y)
    return time.perf_counter_ns() - begin


@pytest.mark.parametrize("threads", [1, 2])
def test_kernels_take_what_their_work_takes(threads: int) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.random((SIDE, SIDE), np.float32) for _ in range(2))
    program = oi.compile(TEXT)
    with program.make_executor(1) as alone:
        least = min(_duration(alone, x, y) for _ in range(STEPS)) // 3
    with program.make_executor(threads, trace=True) as executor, busy():
        for _ in range(STEPS):
            executor.run(x=x, y=y)
        events = executor.trace()
    steps = steps_of(events)
    assert len(steps) == STEPS
    whole = spent = 0
    for step in steps:
        kernels = [event for event in step if event.kernel]
        assert len(kernels) >= PRODUCTS
        taken = sum(event.duration_ns for event in kernels)
        begin, end = step[0].start_ns, step[-1].start_ns
        assert least <= taken <= end - begin
        assert all(begin <= k.start_ns and k.start_ns + k.duration_ns <= end for k in kernels)
        whole, spent = whole + end - begin, spent + taken
    # Between kernels nothing is done, though the machine may be; of all steps together that is little.
    assert spent >= whole / 2


def test_the_trace_says_how_many_threads_ran() -> None:
    program = oi.compile(TEXT)
    x = np.ones((SIDE, SIDE), np.float32)
    with program.make_executor(2, trace=True) as executor:
        assert executor.threads == 1
        executor.run(x=x, y=x)
        profile = Profile.of(executor.trace())
    assert profile.threads == 1
    assert profile.json([])["threads"] == 1
    assert "threads: 1" in profile.summary()
    with program.make_executor(2) as plain:
        assert plain.threads == 2
    with oi.Simulator(TEXT).make_executor() as simulator:
        simulator.run(x=x, y=x)
        assert "threads" not in Profile.of(simulator.trace()).summary()
