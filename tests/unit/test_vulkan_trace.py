"""Traces of steps on a Vulkan device: its own times, its barriers and transfers, on a lane of their own."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vulkan_library import Library

import openinfer as oi
from openinfer.compiler.tools.openinfer import main
from openinfer.runtime.devices.compiled.trace_events import DeviceCalls, device_entry
from openinfer.runtime.devices.vulkan.logical import logical_device
from openinfer.runtime.devices.vulkan.timing import Clock
from openinfer.runtime.manifest import CallRow
from openinfer.runtime.trace import Event
from openinfer.runtime.trace_files import read_trace

PROGRAM = """
dynamic { x: f32[B, 300]; }
constant { w: f32[300, 300] @init(0.01); v: f32[300, 300] @init(0.02); }
block entry {
    assign h: f32[B, 300];
    op matmul(x, w) >> h;
    loop rounds (i in 0..3) { op softmax(h, axis=1) >> h; op matmul(h, v) >> h; }
    return h;
}
"""


def drawn(batch: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal((batch, 300), np.float32)


def steps_of(batches: list[int]) -> list[list[Event]]:
    """The events of each step; its results are those of the plain build."""
    program = oi.compile(PROGRAM, device="vulkan")
    with program.make_executor(trace=True) as traced, program.make_executor() as plain:
        for batch in batches:
            x = drawn(batch, batch)
            assert np.array_equal(traced.run(x=x)["h"], plain.run(x=x)["h"])
        events = traced.trace()
    return [[e for e in events if e.step == step] for step in range(len(batches))]


def kernels_of(step: list[Event]) -> list[Event]:
    return [event for event in step if event.kind == "OpExecute"]


def test_kernels_have_the_times_of_the_device(vulkan: None) -> None:
    """One after the other, within the step, with the nodes that they compute."""
    for step in steps_of([3, 64, 3]):
        kernels = kernels_of(step)
        assert [event.op_name for event in kernels] == ["matmul", *["softmax", "matmul"] * 3]
        assert {event.lane for event in kernels} == {"device"}
        assert all(event.duration_ns > 0 for event in kernels)
        begin, end = step[0].start_ns, step[-1].start_ns
        assert (step[0].kind, step[-1].kind) == ("BlockEnter", "BlockExit")
        timed = [event for event in step if event.lane == "device"]
        for before, after in zip([None, *timed], [*timed, None], strict=True):
            left = begin if before is None else before.start_ns + before.duration_ns
            right = end if after is None else after.start_ns
            assert left <= right
        assert kernels[1].nodes
        assert kernels[1].location is not None
        assert kernels[1].location.line == 7


def test_barriers_and_transfers_are_shown(vulkan: None) -> None:
    (step,) = steps_of([3])
    lane = [event for event in step if event.lane == "device"]
    moves = [event.op_name for event in lane if event.kind == "Transfer"]
    assert moves[0] == "transfer to device"
    assert moves[-1] == "transfer to host"
    # Every kernel reads what the one before it has written.
    for before, event in pairwise(lane):
        if event.kind == "OpExecute":
            assert (before.kind, before.description) == ("Barrier", f"before {event.kernel}")
            assert (before.start_ns, before.duration_ns) == (event.start_ns, 0)


def test_a_traced_step_is_submitted_as_a_whole(library: Library) -> None:
    """Its kernels are not waited for one by one: as many submissions as without a trace."""
    program, counts = oi.compile(PROGRAM, device="vulkan"), list[int]()
    for traced in (False, True):
        with program.make_executor(trace=traced) as executor:
            executor.run(x=drawn(3))
            before = library.counts["vkQueueSubmit"]
            executor.run(x=drawn(3))
            counts.append(library.counts["vkQueueSubmit"] - before)
    assert counts[0] == counts[1] < 7


def test_a_text_that_grows_and_a_trace_that_is_switched_off(vulkan: None) -> None:
    program = oi.compile(PROGRAM, device="vulkan")
    with program.make_executor(trace=True) as executor:
        for batch in range(1, 12):
            executor.run(x=drawn(batch))
        assert len(kernels_of(executor.trace())) == 11 * 7
        executor.tracing = False
        executor.clear_trace()
        executor.run(x=drawn(2))
        assert executor.trace() == []
        executor.tracing = True
        executor.run(x=drawn(2))
        assert len(kernels_of(executor.trace())) == 7


def test_without_timestamps_the_clock_of_the_host_is_taken(
    library: Library, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every kernel is waited for then."""
    monkeypatch.setattr(logical_device(), "timestamps", (0, 1.0))
    before = library.counts["vkQueueSubmit"]
    (step,) = steps_of([3])
    assert library.counts["vkQueueSubmit"] - before > 7
    assert {event.lane for event in step} == {"host"}
    assert len(kernels_of(step)) == 7
    assert all(event.duration_ns > 0 for event in kernels_of(step))


def test_files_have_two_lanes(
    vulkan: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, stored = tmp_path / "p.oi", tmp_path / "t.json"
    program.write_text(PROGRAM)
    line = ["run", str(program), "--size", "B=3", "--device", "vulkan", "--trace", str(stored)]
    assert main(line) == 0
    events = read_trace(stored.read_text())
    assert {event.lane for event in events} == {"host", "device"}
    assert main([*line, "--trace-format", "chrome"]) == 0
    rows = json.loads(stored.read_text())["traceEvents"]
    names = {row["tid"]: row["args"]["name"] for row in rows if row["ph"] == "M"}
    assert names == {1: "host", 2: "device"}
    assert {row["name"] for row in rows if row["tid"] == 2} >= {"matmul", "memory barrier"}
    page = tmp_path / "t.html"
    line = ["trace", str(program), "--size", "B=3", "--device", "vulkan", "--html", str(page)]
    assert main([*line, "--by", "kernel"]) == 0
    assert "transfer to host" in capsys.readouterr().out
    assert "memory barrier" in page.read_text()


def test_devices_say_whether_they_have_timestamps(
    vulkan: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["devices", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    number = logical_device().physical.number
    (facts,) = [row["facts"] for row in rows if row["name"] == f"vulkan:{number}"]
    bits, period = logical_device().timestamps
    assert facts["timestamps"] == (f"{bits} bits, {period:g} ns" if bits else "none")


# Without a device


@pytest.mark.parametrize("seed", range(5))
def test_the_clock_of_a_device_lies_on_that_of_the_host(seed: int) -> None:
    """With delays on both sides, and a drift: never before the submission, never behind the fence."""
    draw, clock = random.Random(seed), Clock()
    apart, drift, now = draw.randrange(-(10**15), 10**15), draw.uniform(-1e-4, 1e-4), 10**12
    errors: list[float] = []
    for _ in range(300):
        submitted = now
        begun = submitted + draw.randrange(1000, 20_000)
        ended = begun + draw.randrange(1000, 2_000_000)
        seen = ended + draw.randrange(1000, 20_000)
        first, last = (int(t * (1 + drift)) + apart for t in (begun, ended))
        offset = clock.offset(first, last, submitted, seen)
        assert submitted <= first + offset
        assert last + offset <= seen
        errors.append(abs(first + offset - begun))
        now = seen + draw.randrange(1, 1_000_000)
    assert max(errors) < 50_000


def test_calls_of_the_device_belong_to_who_asked() -> None:
    rows = [CallRow("transfer to device", ["x"]), CallRow("add_0", ["x", "y"])]
    spans = [(0, False, 100, 10**9, 40), (1, True, 205, 10**9 + 50, 41), (0, False, 400, 10**10, 7)]
    listed = [(5, 0, 7, 8), *(device_entry(*span) for span in spans)]
    assert listed[2] == (-2, 83, 10**9 + 50, 205)
    calls = DeviceCalls(listed, rows)
    assert calls.until(100) == []
    assert calls.until(200) == [(rows[0], False, 100, 10**9, 40)]
    assert calls.until(300) == [(rows[1], True, 205, 10**9 + 50, 41)]
    assert calls.until(300) == []
    assert [call.duration for call in calls.rest()] == [7]
    assert calls.rest() == []


KEPT = """
dynamic { x: f32[R, 300]; at: i32; }
constant { w: f32[300, 300] @init(0.01); }
persistent { t(i): f32[300] @table; }
block entry {
    assign h: f32[R, 300]; assign all: f32[at + R, 300]; assign y: f32[1, 300];
    op matmul(x, w) >> h;
    cache.write h >> t[at..at + R];
    cache.read t[0..at + R] >> all;
    op sum_axis(all, axes=[0], keepdims=true) >> y;
    return y;
}
"""


def test_work_of_any_name_belongs_to_who_asked_for_it(vulkan: None) -> None:
    """A product has several kernels, of which a step chooses one; what a state keeps is moved by kernels, and
    with what it overwrites."""
    program = oi.compile(KEPT, device="vulkan")
    assert [row.name for row in program.manifest.states if row.device] == ["t"]
    with program.make_executor(trace=True) as executor:
        for rows, at in ((1, 0), (3, 1), (1, 1)):
            executor.run(x=drawn(rows), at=np.int32(at))
        events = executor.trace()
    for number in range(3):
        lane = [e for e in events if e.step == number and e.lane == "device"]
        work = [e for e in lane if e.kind not in ("Barrier", "Transfer")]
        shown = [e.op_name or e.kind for e in work]
        assert shown[0] == "matmul"
        assert shown[-1] == "sum_axis"
        assert "CacheWrite" in [e.kind for e in work]
        assert all(e.duration_ns > 0 for e in work)
        assert all(a.start_ns + a.duration_ns <= b.start_ns for a, b in pairwise(work))
    products = {e.kernel for e in events if e.op_name == "matmul"}
    assert len(products) == 2
    assert all(name.startswith("matmul_0") for name in products)
