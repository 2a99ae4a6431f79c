"""The clock of whole steps: what the device took for the last one, all its submissions."""

from __future__ import annotations

import time

import numpy as np

import openinfer as oi
from openinfer.runtime.devices.vulkan.step_clock import StepClock

CHAIN = """
dynamic { x: f32[64, 64]; }
block entry {
    assign y: f32[64, 64];
    op matmul(x, x) >> y;
    op matmul(y, x) >> y;
    return y;
}
"""

WAITS = """
dynamic { x: f32[64, 64]; }
constant { w: f32[64, 64] @init(0.5); }
block entry {
    assign s: f32[64, 64];
    assign d: f64[64, 64];
    assign y: f32[64, 64];
    op matmul(x, w) >> s;
    op cast(s, to=f64) >> d;
    op sin(d) >> d;
    op cast(d, to=f32) >> y;
    op matmul(y, w) >> y;
    return y;
}
"""


def test_a_clock_has_the_time_of_the_last_step(vulkan: None) -> None:
    """Less than the host waits; the results are those without a clock."""
    program, x = oi.compile(CHAIN, device="vulkan"), np.eye(64, dtype=np.float32)
    with program.make_executor() as plain, StepClock() as clock, program.make_executor() as timed:
        for factor in (1, 2, 3):
            before = time.perf_counter_ns()
            found = timed.run(x=factor * x)["y"]
            wall = time.perf_counter_ns() - before
            # Another executor leaves the clock alone.
            assert np.array_equal(found, plain.run(x=factor * x)["y"])
            assert 0 < clock.nanoseconds < wall
            assert (clock.submissions, clock.commands) == (1, 3)  # Two products, and the way back.


def test_a_step_that_waits_has_several_submissions(vulkan: None) -> None:
    """For a sine of f64, which the host computes."""
    program = oi.compile(WAITS, device="vulkan")
    with StepClock() as clock, program.make_executor() as timed:
        timed.run(x=np.ones((64, 64), np.float32))
        first = clock.submissions
        timed.run(x=np.ones((64, 64), np.float32))
        assert clock.submissions == first > 1
        assert clock.nanoseconds > 0


def test_an_executor_outside_has_no_clock(vulkan: None) -> None:
    program, x = oi.compile(CHAIN, device="vulkan"), np.eye(64, dtype=np.float32)
    with StepClock() as clock:
        pass
    with program.make_executor() as executor:
        executor.run(x=x)
    assert clock.submissions == 0
