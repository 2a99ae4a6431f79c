"""Steps that come again, which machine code runs; and all that it leaves to Python."""

from __future__ import annotations

import ctypes
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

import numpy as np
import pytest
from interrupts import interrupted, raises
from test_vulkan_pieces import ROWS, record
from vulkan_library import Library

import openinfer as oi
from openinfer.lowering.vulkan import lower_dispatches
from openinfer.runtime.devices.vulkan import hand_over, step
from openinfer.runtime.devices.vulkan.commands import CommandPool
from openinfer.runtime.devices.vulkan.known_steps import KnownSteps
from openinfer.runtime.devices.vulkan.logical import Allocation, logical_device
from openinfer.runtime.devices.vulkan.memory import FOR_HOST
from openinfer.runtime.devices.vulkan.native import SUBMIT, address, native_code
from openinfer.runtime.devices.vulkan.pieces import Asked, read_piece
from openinfer.runtime.devices.vulkan.record import HEAD, KNOWN, USED, empty_record
from openinfer.runtime.devices.vulkan.step import DeviceStep
from openinfer.runtime.errors import OpenInferError

CHAIN = """
dynamic { x: f32[B, 64]; }
constant { w: f32[64, 64] @init(0.01); }
block entry {
    assign y: f32[B, 64]; assign z: f32[B, 64];
    op matmul(x, w) >> y;
    op softmax(y, axis=1) >> z;
    op matmul(z, w) >> z;
    return y, z;
}
"""
COUNTS = CHAIN.replace("return y", "cache.increment n;\n    return y").replace(
    "block", "persistent { n: i32; }\nblock"
)
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
CACHE = """
dynamic { x: f32[1, 64]; at: i32; }
constant { w: f32[64, 64] @init(0.01); }
persistent { t(i): f32[64] @table; }
block entry {
    assign h: f32[1, 64]; assign y: f32[1, 64];
    op matmul(x, w) >> h;
    cache.write h >> t[at..at + 1];
    cache.read t[at..at + 1] >> y;
    op matmul(y, w) >> y;
    return y;
}
"""


def drawn(batch: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal((batch, 64), np.float32)


@pytest.fixture
def asked(vulkan: None, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Words of the records that Python was asked to take."""
    if native_code() is None:
        pytest.skip("machine code is not made here")
    found: list[int] = []
    real = DeviceStep.drain_safely

    def watched(self: DeviceStep, logged: int) -> bool:
        found.append(int(self.record[USED]))
        return real(self, logged)

    monkeypatch.setattr(DeviceStep, "drain_safely", watched)
    return found


class Both:
    """A compiled program and the simulator."""

    def __init__(self, text: str) -> None:
        self.executor: Any = oi.compile(text, device="vulkan").make_executor()
        self._oracle = oi.Simulator(text).make_executor()

    def agree(self, **given: Any) -> None:
        found, expected = self.executor.run(**given), self._oracle.run(**given)
        for name, value in expected.items():
            assert np.allclose(found[name], value, atol=1e-4), name


@pytest.mark.parametrize("text", [CHAIN, WAITS])
def test_a_step_that_comes_again_needs_no_python(
    asked: list[int], everything_on_vulkan: None, text: str
) -> None:
    """Other numbers, too; a step of other sizes does once."""
    both = Both(text)
    both.agree(x=drawn(3))
    assert asked
    asked.clear()
    for seed in range(4):
        both.agree(x=drawn(3, seed))
    assert asked == []
    both.agree(x=drawn(5))
    assert asked
    both.agree(x=drawn(3))
    asked.clear()
    for batch in (5, 3, 5, 5, 3):
        both.agree(x=drawn(batch, batch))
    assert asked == []


def test_a_place_in_a_cache_is_a_number(asked: list[int], everything_on_vulkan: None) -> None:
    """A decode step, whose position changes with every token."""
    both = Both(CACHE)
    for at in range(64):
        both.agree(x=drawn(1, at), at=np.int32(at))
    # Each time it grows, a few times more.
    assert len(asked) < 40
    # What is overwritten goes to the undo log: other steps.
    for first in (0, 16):
        asked.clear()
        for at in range(first, first + 16):
            both.agree(x=drawn(1, 64 + at), at=np.int32(at))
    assert asked == []


def test_records_that_are_full_are_taken_one_by_one(
    asked: list[int], everything_on_vulkan: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is waited for between them; where the last one is another, Python takes over the first ones."""
    monkeypatch.setattr(lower_dispatches, "RECORD_WORDS", 48)
    both = Both(CHAIN)
    both.agree(x=drawn(3))
    assert len(asked) > 2
    asked.clear()
    both.agree(x=drawn(3, 1))
    assert asked == []
    (known,) = [one for one in (_step_of(both.executor)._again,) if one is not None]
    # Only its first records are known from here on.
    last = known._root
    while last.branches[0].words.submission is None:
        last = known._all[last.branches[0].words.taken]
    last.first.value = None
    last.branches.clear()
    both.agree(x=drawn(3, 2))
    assert len(asked) == 1
    both.agree(x=drawn(3, 3))
    assert len(asked) == 1


def _step_of(executor: Any) -> Any:
    (found,) = executor._loaded._steps.values()
    return found


def test_a_staging_buffer_that_grows(asked: list[int], everything_on_vulkan: None) -> None:
    both = Both(CHAIN)
    for batch in (3, 3000, 3, 3000, 3):
        both.agree(x=drawn(batch))
    asked.clear()
    for batch in (3000, 3):
        both.agree(x=drawn(batch, 7))
    assert asked == []


def test_commands_that_are_given_back_are_not_used(
    asked: list[int], everything_on_vulkan: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "MOST_RECORDED", 2)
    both = Both(CHAIN)
    for batch in (7, 5, 3, 7, 7, 5, 5, 3, 3, 7, 5, 3, 7, 7):
        both.agree(x=drawn(batch, batch))
    count = len(asked)
    both.agree(x=drawn(7, 1))
    assert len(asked) == count


def test_several_threads_with_executors_of_their_own(
    asked: list[int], everything_on_vulkan: None
) -> None:
    """They share the queue of the device."""
    program, oracle = oi.compile(CHAIN, device="vulkan"), oi.Simulator(CHAIN).make_executor()
    inputs = [drawn(batch, batch) for batch in range(1, 9)]
    expected = [oracle.run(x=x)["z"] for x in inputs]
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with program.make_executor() as executor:
                for turn in range(24):
                    one = (number + turn // 6) % len(inputs)
                    assert np.allclose(executor.run(x=inputs[one])["z"], expected[one], atol=1e-5)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert failures == []


def test_ctrl_c_comes_behind_the_step(asked: list[int], everything_on_vulkan: None) -> None:
    """State is as if it had not been, or as if it had ended; the next step is right."""
    executor: Any = oi.compile(COUNTS, device="vulkan").make_executor()
    x = drawn(20000)
    expected = executor.run(x=x)["z"].copy()
    asked.clear()
    steps = 1
    for _ in range(3):
        with suppress(KeyboardInterrupt):
            interrupted(lambda: executor.run(x=x), raises(KeyboardInterrupt), 0.002)
        count = int(executor.fetch("n"))
        assert count in (steps, steps + 1)
        assert np.array_equal(executor.run(x=x)["z"], expected)
        steps = count + 1


@pytest.mark.parametrize("event", ["call", "return"])
@pytest.mark.parametrize(
    "function",
    [hand_over._submit, DeviceStep.drain_safely],  # pyright: ignore[reportPrivateUsage]
)
def test_ctrl_c_where_python_is_asked(
    vulkan: None,
    everything_on_vulkan: None,
    monkeypatch: pytest.MonkeyPatch,
    function: Any,
    event: str,
) -> None:
    """Outside of every `try`: where the function begins that a step calls, and where it ends."""
    executor: Any = oi.compile(COUNTS, device="vulkan").make_executor()
    oracle = oi.Simulator(COUNTS).make_executor()
    lost: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    before = sys.gettrace()

    def trace(frame: FrameType, what: str, _: object) -> Any:
        if frame.f_code is function.__code__ and what == event:
            sys.settrace(before)
            raise KeyboardInterrupt
        return trace

    executor.run(x=drawn(2))
    steps = 1
    for batch in (3, 5):
        # Sizes that machine code does not know.
        sys.settrace(trace)
        try:
            with pytest.raises(KeyboardInterrupt):
                executor.run(x=drawn(batch))
        finally:
            sys.settrace(before)
        count = int(executor.fetch("n"))
        assert count in (steps, steps + 1)
        found = executor.run(x=drawn(batch))["z"]
        assert np.allclose(found, oracle.run(x=drawn(batch))["z"], atol=1e-4)
        steps = count + 1
    assert lost == []


def test_steps_go_to_python_where_there_is_no_machine_code(
    library: Library, everything_on_vulkan: None
) -> None:
    for text in (CHAIN, WAITS):
        both = Both(text)
        for batch in (3, 3, 5, 3, 5):
            both.agree(x=drawn(batch, batch))
        assert _step_of(both.executor)._again is None
    assert library.counts["vkQueueSubmit"] >= 10


# The machine code by itself


class Machine:
    """What machine code knows of one record, a driver that does nothing, and what Python is asked for."""

    def __init__(self, library: Library) -> None:
        self.device = logical_device()
        assert self.device.native is not None
        self.asked: list[int] = []
        self.python = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_int64, ctypes.c_int64)(self._take)
        self.library = library
        for name in ("vkQueueSubmit", "vkWaitForFences", "vkResetFences"):
            library.replaced[name] = lambda *_: 0
        code = self.device.native.code
        code.left_to(ctypes.cast(self.python, ctypes.c_void_p).value or 0)
        self.submit: Any = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_int64, ctypes.c_int64)(
            code.addresses[SUBMIT]
        )
        self.pool = CommandPool(self.device)
        self.numbers = Allocation(self.device, 4096, FOR_HOST)
        self.staging = Allocation(self.device, 4096, FOR_HOST)
        self.known = KnownSteps(self.device.native, self.pool, self.numbers, self.staging)
        self.words = empty_record()
        self.words[KNOWN] = self.known.address
        self.host = np.arange(64, dtype=np.uint8)
        self.piece = read_piece(self.record(), ROWS, 1, 16)
        moves, _ = self.piece.moves(self.piece.words)
        asked = Asked(self.piece, 10, 256, moves, self.piece.words, 0)
        self.known.learn([asked], [self.pool.record().end()])
        self.known.begin()

    def _take(self, _: int, logged: int) -> bool:
        self.asked.append(logged)
        return True

    def record(self, **given: Any) -> Any:
        """That of `test_vulkan_pieces.py`, with 64 bytes of `self.host` that go to the device; those of the
        device go behind the first eight of them."""
        return record(host=address(self.host), **given)

    def hand_over(self, words: Any, logged: int = 5) -> bool:
        self.words[HEAD : HEAD + len(words)] = words
        self.words[USED] = HEAD + len(words)
        ends: bool = self.submit(address(self.words), logged)
        return ends

    def bytes_of(self, allocation: Allocation, start: int, count: int) -> list[int]:
        return list(ctypes.string_at(allocation.mapped + start, count))


@pytest.fixture
def machine(native_library: Library) -> Any:
    yield (found := Machine(native_library))
    hand_over.submit_address()
    del found


def test_numbers_and_bytes_go_where_the_commands_look(machine: Any) -> None:
    ctypes.memset(machine.numbers.mapped, 255, 4096)
    machine.host = np.concatenate([machine.host, np.zeros(64, np.uint8)])
    ctypes.memset(machine.staging.mapped + 256 + 64, 9, 64)
    assert not machine.hand_over(machine.record(groups=7, word=-2))
    assert machine.asked == []
    found = np.array(machine.bytes_of(machine.numbers, 36, 32), np.uint8).view(np.int32)
    assert found.tolist() == [-1, 7, 1, 1, 0, 0, -2, -1]
    # What came from the host, and what went there.
    assert machine.bytes_of(machine.staging, 256, 64) == list(range(64))
    assert machine.host[8:72].tolist() == [9] * 64
    assert machine.words[USED] == HEAD
    assert (machine.known.marks.logged, machine.known.marks.done) == (5, 5)
    assert machine.library.counts["vkQueueSubmit"] == 1


@pytest.mark.parametrize("place", [0, 2, 3, 4, 8, 9, 10, 11, 15, 16, 18, 19, 20, 21, 22])
def test_another_record_is_left_to_python(machine: Any, place: int) -> None:
    words = machine.record()
    words[place] += 4
    assert machine.hand_over(words)
    assert machine.asked == [5]
    assert machine.words[USED] == HEAD + len(words)
    assert machine.library.counts["vkQueueSubmit"] == 0
    assert machine.known.taken() == ([], 0, 0)


def test_a_longer_record_and_a_shorter_one_are_left_to_python(machine: Any) -> None:
    words = machine.record()
    assert machine.hand_over(words[:-4])
    assert machine.hand_over(np.concatenate([words, words[-4:]]))
    assert machine.asked == [5, 5]


@pytest.mark.parametrize("groups", [65536, -1, 1 << 31])
def test_too_many_workgroups_are_left_to_python(machine: Any, groups: int) -> None:
    assert not machine.hand_over(machine.record(groups=65535))
    machine.known.begin()
    assert machine.hand_over(machine.record(groups=groups))
    assert machine.asked == [5]


def test_a_device_that_is_lost_is_left_to_python(machine: Any) -> None:
    machine.device.lose()
    assert machine.hand_over(machine.record())
    assert machine.asked == [5]
    assert machine.library.counts["vkQueueSubmit"] == 0


def test_a_step_that_nobody_runs_is_left_to_python(machine: Any) -> None:
    machine.known.stop()
    assert machine.hand_over(machine.record())
    machine.words[KNOWN] = 0
    assert machine.hand_over(machine.record())
    assert machine.asked == [5, 5]


@pytest.mark.parametrize(
    ("call", "result", "message", "done"),
    [
        ("vkQueueSubmit", -2, "vkQueueSubmit: out of device memory", 0),
        ("vkWaitForFences", 2, "work of more than 60 s: timeout", 0),
        ("vkWaitForFences", -4, "vkWaitForFences: device lost", 0),
        ("vkResetFences", -1, "vkResetFences: out of host memory", 5),
    ],
)
def test_what_the_driver_says_is_raised_by_python(
    machine: Any, call: str, result: int, message: str, done: int
) -> None:
    """A submission that is refused leaves the device as it was; else nobody knows what goes on there."""
    machine.library.replaced[call] = lambda *_: result
    machine.library.replaced["vkGetFenceStatus"] = lambda *_: 0
    assert machine.hand_over(machine.record())
    assert machine.asked == [5]
    with pytest.raises(OpenInferError) as raised:
        machine.known.check()
    assert (raised.value.code, raised.value.message) == ("OI0774", message)
    assert machine.known.marks.done == done
    assert machine.device.lifetime.lost == (call != "vkQueueSubmit")


@pytest.mark.parametrize("looks", [3, 1 << 40])
def test_machine_code_spins_for_a_while(machine: Any, looks: int) -> None:
    """Then it waits as others do."""
    calls: list[str] = []

    def look(*_: Any) -> int:
        calls.append("look")
        return int(len(calls) < looks)

    def wait(*_: Any) -> int:
        calls.append("wait")
        return 0

    machine.library.replaced.update(vkGetFenceStatus=look, vkWaitForFences=wait)
    machine.known.marks.spin = 20_000_000
    assert not machine.hand_over(machine.record())
    assert machine.asked == []
    assert calls[:3] == ["look"] * 3
    assert calls.count("wait") == (looks > 3)


def test_rows_of_other_widths_have_no_tables(machine: Any) -> None:
    """Elements of three bytes: machine code shifts, and leaves them to Python."""
    machine.piece.firsts.elements[:] = 3
    machine.known.forget()
    asked = Asked(machine.piece, 0, 0, [], machine.piece.words, 0)
    machine.known.learn([asked], [])
    machine.known.begin()
    assert machine.hand_over(machine.record())
    assert machine.asked == [5]
