"""Machine code records what Python records: the same calls of the driver, one behind the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from vulkan_library import Library

import openinfer as oi
from openinfer.runtime.devices.vulkan.commands import CommandPool, Copy, Dispatch
from openinfer.runtime.devices.vulkan.driver import api, number_of
from openinfer.runtime.devices.vulkan.hazards import Range
from openinfer.runtime.devices.vulkan.logical import Allocation, LogicalDevice, logical_device
from openinfer.runtime.devices.vulkan.memory import FOR_KERNELS
from openinfer.runtime.devices.vulkan.native_recording import Packed, Part, Recorder
from openinfer.runtime.devices.vulkan.step import DeviceStep
from openinfer.runtime.devices.vulkan.step_clock import StepClock

Log = list[tuple[Any, ...]]

CHAIN = """
dynamic { x: f32[B, 64]; }
constant { w: f32[64, 64] @init(0.01); }
block entry {
    assign a: f32[B, 64]; assign b: f32[B, 64]; assign y: f32[B, 64];
    op matmul(x, w) >> a;
    op matmul(x, w) >> b;
    op add(a, b) >> y;
    op softmax(y, axis=1) >> y;
    return y, a;
}
"""
WAITS = """
dynamic { x: f32[B, 64]; }
constant { w: f32[64, 64] @init(0.5); table: f32[4096, 64] @init(0.25); }
block entry {
    assign s: f32[B, 64]; assign n: i64[B]; assign y: f32[B, 64];
    op matmul(x, w) >> s;
    op argmax_axis(s, axis=1) >> n;
    op gather(table, n, axis=0) >> y;
    return y;
}
"""
RING = """
dynamic { x: f32[B, 64]; at: i32; }
persistent { t(i): f32[64] @table; }
block entry {
    assign all: f32[at + B, 64]; assign y: f32[1, 64];
    cache.write x >> t[at..at + B];
    cache.read t[0..at + B] >> all;
    op sum_axis(all, axes=[0], keepdims=true) >> y;
    return y;
}
"""


@pytest.fixture
def device(native_library: Library) -> LogicalDevice:
    """One whose machine code calls the functions of the library."""
    return logical_device()


@pytest.fixture
def log(
    native_library: Library, device: LogicalDevice, monkeypatch: pytest.MonkeyPatch
) -> Callable[[bool], Log]:
    """Writes down what is recorded from here on, and tells the driver or not."""

    def follow(asks: bool) -> Log:
        found: Log = []

        def watched(name: str, real: Any) -> Callable[..., None]:
            def called(*given: Any) -> None:
                found.append((name, *_SHOWN[name](*given[1:])))
                if asks:
                    real(*given)

            return called

        for name in _SHOWN:
            pushes = name.endswith("KHR")
            real = device.push_descriptors if pushes else getattr(native_library.lib, name)
            native_library.replaced[name] = watched(name, real)
            if pushes:
                monkeypatch.setattr(device, "push_descriptors", native_library.replaced[name])
        return found

    return follow


def _bindings(_: int, layout: Any, first: int, count: int, writes: Any) -> tuple[Any, ...]:
    rows: list[Any] = []
    for write in writes[0:count]:
        info = write.pBufferInfo[0]
        shown = (write.sType, write.dstBinding, write.dstArrayElement, write.descriptorType)
        place = number_of(info.buffer), info.offset, info.range
        rows.append((*shown, write.descriptorCount, number_of(write.dstSet), *place))
    return number_of(layout), first, rows


_SHOWN: dict[str, Callable[..., tuple[Any, ...]]] = {
    "vkCmdPipelineBarrier": lambda before, behind, _, count, one, *rest: (
        *(before, behind, count, rest[0], rest[2]),
        *(one[0].sType, one[0].srcAccessMask, one[0].dstAccessMask),
    ),
    "vkCmdBindPipeline": lambda kind, pipeline: (kind, number_of(pipeline)),
    "vkCmdPushDescriptorSetKHR": _bindings,
    "vkCmdPushConstants": lambda layout, stages, first, nbytes, value: (
        number_of(layout),
        *(stages, first, nbytes),
        api().ffi.cast("uint32_t *", value)[0],
    ),
    "vkCmdDispatchIndirect": lambda numbers, place: (number_of(numbers), place),
    "vkCmdDispatch": lambda *groups: groups,
    "vkCmdCopyBuffer": lambda source, target, count, region: (
        *(number_of(source), number_of(target), count),
        *(region[0].srcOffset, region[0].dstOffset, region[0].size),
    ),
    "vkCmdWriteTimestamp": lambda stage, pool, query: (stage, number_of(pool), query),
}
"""What of each call is compared."""


@pytest.mark.parametrize("text", [CHAIN, WAITS, RING])
@pytest.mark.parametrize("kind", ["plain", "traced", "timed"])
def test_steps_are_recorded_alike(
    log: Callable[[bool], Log],
    monkeypatch: pytest.MonkeyPatch,
    everything_on_vulkan: None,
    text: str,
    kind: str,
) -> None:
    """Whole steps, and the parts of those that grow; with timestamps and without."""
    found = log(True)
    compared: list[Log] = []

    def both(original: Any) -> Any:
        def record(step: Any, *given: Any) -> Any:
            calls = step._timer._calls if step._timer is not None else []
            assert step._recorder is not None
            found.clear()
            recorder, recording = step._recorder, original(step, *given)
            native, timed = list(found), list(step._timer._calls) if step._timer else calls
            found.clear()
            step._recorder = None
            step._pool.free(original(step, *given))
            step._recorder = recorder
            assert native == found
            assert step._timer is None or step._timer._calls == timed
            assert len([one for one in native if one[0] == "vkCmdWriteTimestamp"]) == 2 * (
                len(timed) if kind == "traced" else kind == "timed"
            )
            compared.append(native)
            return recording

        return record

    for name in ("_record", "_part_of_launches"):
        monkeypatch.setattr(DeviceStep, name, both(getattr(DeviceStep, name)))
    program, oracle = oi.compile(text, device="vulkan"), oi.Simulator(text).make_executor()
    with StepClock() as clock:
        executor: Any = program.make_executor(trace=kind == "traced")
        at = 0
        for batch in (2, 3, 70, 4, 5, 6, 7, 8):
            x = np.random.default_rng(batch).standard_normal((batch, 64), np.float32)
            given = {"x": x, "at": np.int32(at)} if text is RING else {"x": x}
            expected = oracle.run(**given)["y"]
            if kind == "plain":
                clock.__exit__(None, None, None)
            assert np.allclose(executor.run(**given)["y"], expected, atol=1e-4)
            at += batch
    assert len(compared) >= 5
    names = {one[0] for calls in compared for one in calls}
    assert names >= {"vkCmdPushDescriptorSetKHR", "vkCmdPipelineBarrier"}
    assert "vkCmdDispatchIndirect" in names


def drawn_commands(
    rng: np.random.Generator, buffers: Sequence[Allocation], staging: Allocation
) -> list[Dispatch | Copy]:
    """Kernels and copies whose ranges meet now and then."""
    kernel: Any = SimpleNamespace(
        pipeline=api().ffi.cast("VkPipeline", 0x1234), layout=api().ffi.cast("VkPipelineLayout", 77)
    )
    found: list[Dispatch | Copy] = []
    for number in range(int(rng.integers(1, 60))):
        if rng.random() < 0.6:
            ranges: list[Range] = []
            for _ in range(rng.integers(1, 5)):
                start = int(rng.integers(0, 2000))
                buffer = buffers[int(rng.integers(len(buffers)))]
                stop = start + int(rng.integers(1, 200))
                ranges.append(Range(buffer, start, stop, bool(rng.random() < 0.4)))
            groups = tuple(int(v) for v in rng.integers(0, 65536, 3)) if rng.random() < 0.5 else ()
            found.append(Dispatch(number, kernel, ranges, int(rng.integers(0, 5000)), groups))
            continue
        kinds = [[staging, buffers[0]], [buffers[1], staging], [buffers[0], buffers[2]]]
        source, target = kinds[int(rng.integers(3))]
        first, start, nbytes = (int(v) for v in rng.integers(1, 300, 3))
        found.append(Copy(number, source, first, target, start, nbytes))
    return found


def test_barriers_stand_at_the_same_places(
    log: Callable[[bool], Log], device: LogicalDevice
) -> None:
    """Drawn ranges of a few buffers, in several parts of a recording."""
    numbers, staging, *buffers = [Allocation(device, 1 << 15, FOR_KERNELS) for _ in range(5)]
    assert device.native is not None
    pool, recorder = CommandPool(device), Recorder(device.native, numbers)
    found = log(False)
    barriers = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        parts: list[tuple[list[Dispatch | Copy], int, int]] = []
        for _ in range(rng.integers(1, 4)):
            base, staged = (int(v) for v in rng.integers(0, 2000, 2))
            parts.append((drawn_commands(rng, buffers, staging), base, staged))
        recording = pool.record()
        packed = [Part(Packed(one, numbers, staging), base, at, 0) for one, base, at in parts]
        recorder.record(recording, packed, staging)
        native = list(found)
        found.clear()
        recording = pool.record()
        for commands, base, staged in parts:
            for one in commands:
                if isinstance(one, Copy):
                    first = one.first + staged * (one.source is staging)
                    start = one.start + staged * (one.target is staging)
                    recording.copy(one.source, first, one.target, start, one.nbytes)
                else:
                    ranges = [Range(numbers, 0, numbers.nbytes, False), *one.ranges]
                    place = base + one.numbers
                    recording.dispatch(
                        one.kernel, ranges, numbers, 4 * place, place + 3, one.groups
                    )
        assert native == found
        commands = sum(len(one.calls) for one, *_ in packed)
        count = sum(name == "vkCmdPipelineBarrier" for name, *_ in native)
        assert count < commands
        barriers += count
        found.clear()
    assert barriers > 30
