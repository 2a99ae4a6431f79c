"""Persistent values in the memory of a Vulkan device: what steps do, and what failed steps leave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.api import compile
from openinfer.runtime.devices.vulkan.commands import CommandPool, Recording
from openinfer.runtime.devices.vulkan.record import TO_DEVICE, TO_HOST
from openinfer.runtime.errors import OpenInferError

RING = """
dynamic {{ x: {dtype}[1, 300]; at: i32; to: i32; clear: bool; i: i32[1]; }}
constant {{ few: f32[4, 2] @init(1.0); }}
persistent {{ t(i): {dtype}[300] @table; m(i, j): {dtype}[300] @table; last: {dtype}[1, 300]; n: i32; }}
block entry {{
    assign h: {dtype}[1, 300]; assign all: {dtype}[at + 1, 300]; assign g: f32[1, 2];
    assign one: {dtype}[300]; assign column: {dtype}[to + 1, 300];
    op add(x, last) >> h;
    cache.write h >> last;
    cache.write h >> t[at..at + 1];
    op reshape(h, shape=[300]) >> one;
    cache.write one >> m[to, at];
    cache.read t[0..at + 1] >> all;
    cache.read m[0..to + 1, at] >> column;
    op add(all, all) >> all;
    op add(column, column) >> column;
    branch clear wipe rest;
    op gather(few, i, axis=0) >> g;
    cache.increment n;
    return all, column, g;
}}
block wipe {{ cache.reset t[at]; return; }}
block rest {{ return; }}
"""
DTYPES = {
    "f32": np.float32,
    "f16": np.float16,
    "i8": np.int8,
    "i32": np.int32,
    "i64": np.int64,
    "u16": np.uint16,
}


def step(rng: np.random.Generator, dtype: str, *, index: int) -> dict[str, Any]:
    """The inputs of a step; an index above 3 makes it fail behind its writes."""
    return {
        "x": rng.integers(0, 3, (1, 300)).astype(DTYPES[dtype]),
        "at": np.int32(rng.integers(0, 40)),
        "to": np.int32(rng.integers(0, 5)),
        "clear": np.bool_(rng.integers(0, 3) == 0),
        "i": np.array([index], np.int32),
    }


def equal_states(found: oi.Executor, wanted: oi.Executor) -> None:
    for name in ("t", "m", "last", "n"):
        a, b = found.fetch(name), wanted.fetch(name)
        assert np.array_equal(np.asarray(a), np.asarray(b)), name


WRITTEN = """
dynamic {{ x: {dtype}[1, 900]; at: i32; i: i32[1]; }}
constant {{ few: f32[4, 2] @init(1.0); }}
persistent {{ t(l, i): {dtype}[3, 300] @table; m(i): f64[1] @table; }}
block entry {{
    assign h: {dtype}[1, 900]; assign r: {dtype}[1, 900]; assign one: {dtype}[3, 300];
    assign g: f32[1, 2]; assign e: f64[1];
    assign f: f64; assign all: {dtype}[3, at + 1, 3, 300];
    op cast(at, to=f64) >> f;
    op reshape(f, shape=[1]) >> e;
    op exp(e) >> e;
    cache.write e >> m[at];
    op add(x, x) >> h;
    loop layers (l in 0..3) {{
        op add(h, x) >> h;
        op mul(h, x) >> r;
        op reshape(r, shape=[3, 300]) >> one;
        cache.write one >> t[l, at];
    }}
    op gather(few, i, axis=0) >> g;
    op add(h, x) >> h;
    op reshape(h, shape=[3, 300]) >> one;
    cache.write one >> t[1, at];
    cache.read t[0..3, 0..at + 1] >> all;
    op add(all, all) >> all;
    return all, g;
}}
"""
"""Kernels write into the tables, twice into one place; in front of the second time an index may be wrong."""


@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_write_into_states(vulkan: None, dtype: str) -> None:
    """New and old entries of the device and of the host, and steps that fail behind a write."""
    text = WRITTEN.format(dtype=dtype)
    program = compile(text, device="vulkan")
    assert [row.name for row in program.manifest.states if row.device] == ["t"]
    copies = [row for row in program.manifest.calls if row.kernel.startswith("copy_box")]
    assert copies
    assert all("device_log" in row.buffers for row in copies), "others than those of the undo log"
    rng = np.random.default_rng(3)
    wanted: Any = oi.Simulator(text).make_executor()
    with program.make_executor() as found:
        for number in range(12):
            inputs: dict[str, Any] = {
                "x": rng.integers(0, 4, (1, 900)).astype(DTYPES[dtype]),
                "at": np.int32(rng.integers(0, 5 + number)),
                "i": np.array([rng.integers(0, 6)], np.int32),
            }
            if inputs["i"][0] > 3:
                for executor in (wanted, found):
                    with pytest.raises(oi.StepError, match="index"):
                        executor.run(**inputs)
            else:
                a, b = found.run(**inputs), wanted.run(**inputs)
                for name in ("all", "g"):
                    assert np.array_equal(np.asarray(a[name]), np.asarray(b[name])), (number, name)
            for name in ("t", "m"):
                a, b = found.fetch(name), wanted.fetch(name)
                assert np.array_equal(np.asarray(a), np.asarray(b)), (number, name)


@pytest.mark.parametrize("dtype", DTYPES)
def test_steps_agree_with_the_simulator(vulkan: None, dtype: str) -> None:
    """Writes of new and old entries, growth, resets, failing steps, snapshots, in drawn order."""
    text = RING.format(dtype=dtype)
    program = compile(text, device="vulkan")
    there = [row.name for row in program.manifest.states if row.device]
    assert there == ["t", "m", "last"]
    moves = [row for row in program.manifest.calls if row.kernel in (TO_DEVICE, TO_HOST)]
    moved = {name for row in moves for name in row.buffers}
    assert not {name for name in moved if "state" in name or name == "last"}, moved
    rng = np.random.default_rng(list(DTYPES).index(dtype))
    wanted: Any = oi.Simulator(text).make_executor()
    with program.make_executor() as found:
        kept: Any = None
        for number in range(14):
            inputs = step(rng, dtype, index=int(rng.integers(0, 6)))
            if inputs["i"][0] > 3:
                for executor in (wanted, found):
                    with pytest.raises(oi.StepError, match="index"):
                        executor.run(**inputs)
            else:
                a, b = found.run(**inputs), wanted.run(**inputs)
                for name in ("all", "column", "g"):
                    assert np.array_equal(np.asarray(a[name]), np.asarray(b[name])), (number, name)
            if number == 5:
                kept = found.snapshot(), wanted.snapshot()
            if number == 10:
                found.restore(kept[0])
                wanted.restore(kept[1])
            equal_states(found, wanted)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_step_whose_device_fails_changes_nothing(
    vulkan: None, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """Wherever its commands are not handed in: what they would have kept of overwritten entries is not there,
    and neither is what they would have overwritten."""
    text = RING.format(dtype="f32")
    program = compile(text, device="vulkan")
    rng = np.random.default_rng(7)
    wanted: Any = oi.Simulator(text).make_executor()
    run = CommandPool.run
    left = 10**9

    def failing(pool: CommandPool, recordings: list[Recording]) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise error
        run(pool, recordings)

    monkeypatch.setattr(CommandPool, "run", failing)
    with program.make_executor() as found:
        failed = 0
        for number in range(16):
            inputs = step(rng, "f32", index=0)
            inputs["at"], inputs["to"] = np.int32(number % 3), np.int32(number % 2)
            left = 1 + number % 2 if number > 5 else 10**9
            try:
                found.run(**inputs)
            except (KeyboardInterrupt, MemoryError, OpenInferError):
                failed += 1
            else:
                wanted.run(**inputs)
            left = 10**9
            equal_states(found, wanted)
        assert failed
