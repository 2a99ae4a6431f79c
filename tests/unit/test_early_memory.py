"""Memory for weights that is asked for while their program is compiled."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.backends import forked
from openinfer.runtime.devices.cpu import early_memory
from openinfer.runtime.devices.cpu.early_memory import EarlyMemory, weight_bytes

pytestmark = pytest.mark.skipif(not hasattr(mmap, "MADV_DONTFORK"), reason="needs Linux")
MIB = 1 << 20


def resident(block: Any) -> int:
    """Bytes of whole pages of a block that are in memory."""
    libc: Any = ctypes.CDLL(None)
    page = mmap.PAGESIZE
    begin = -(-block.ctypes.data // page) * page
    pages = (block.ctypes.data + block.size - begin) // page
    found = (ctypes.c_ubyte * pages)()
    assert libc.mincore(ctypes.c_void_p(begin), ctypes.c_size_t(pages * page), found) == 0
    return page * sum(one & 1 for one in found)


def within(block: Any, memory: EarlyMemory) -> bool:
    whole = memory._bytes
    return 0 <= block.ctypes.data - whole.ctypes.data <= whole.size - block.size


def test_blocks_are_zero_and_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_memory, "WORTH_A_THREAD", 0)
    with early_memory.early_memory(8 * MIB):
        memory = early_memory._current.get()
        assert memory is not None
        memory._thread.join()
        blocks = [weight_bytes(count) for count in (MIB, 3 * MIB + 5, 100, MIB)]
        assert [within(block, memory) for block in blocks] == [True, True, False, True]
        assert resident(blocks[3]) >= MIB - mmap.PAGESIZE
        # More than is left.
        assert not within(weight_bytes(4 * MIB), memory)
        for number, block in enumerate(blocks, 1):
            assert block.ctypes.data % 64 == 0
            assert not block.any()
            block[:] = number
        rest = memory._bytes[memory._end - 2 * MIB : memory._end]
        assert resident(rest) > MIB
    # What nobody took is given back, what was taken stays.
    assert resident(rest) == 0
    assert [set(np.unique(block)) for block in blocks] == [{1}, {2}, {3}, {4}]
    assert early_memory._current.get() is None
    assert not within(weight_bytes(MIB), memory)


def test_nothing_is_asked_for_where_it_does_not_pay_or_cannot_be_had() -> None:
    for nbytes in (MIB, 1 << 62):
        with early_memory.early_memory(nbytes):
            assert early_memory._current.get() is None
            assert weight_bytes(MIB).size == MIB


def test_a_system_that_cannot_find_memory_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_memory, "_POPULATE_WRITE", 12345)
    memory = EarlyMemory(MIB)
    memory._thread.join()
    block = memory.take(MIB)
    assert block is not None
    memory.close()
    assert not block.any()


def test_a_child_is_forked_beside_it_and_later_children_have_the_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = EarlyMemory(256 * MIB)
    block = memory.take(MIB)
    assert block is not None
    block[:] = 7
    monkeypatch.setattr(forked, "NATIVE_THREADS", ())
    ours = [threading.main_thread(), memory._thread]
    monkeypatch.setattr(threading, "enumerate", lambda: ours)
    assert forked.may_fork()
    monkeypatch.undo()
    memory.close()
    pid = os.fork()
    if pid == 0:
        os._exit(int(block[-1]))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_an_error_stops_it() -> None:
    begun: list[EarlyMemory] = []

    def fails() -> None:
        with early_memory.early_memory(1 << 30):
            memory = early_memory._current.get()
            assert memory is not None
            begun.append(memory)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert not begun[0]._thread.is_alive()
    assert early_memory._current.get() is None
    # It is stopped long before it has all of it.
    assert resident(begun[0]._bytes) == 0


def test_a_program_has_its_weights_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers; a context of another thread, and a program without weights, are no matter."""
    monkeypatch.setattr(early_memory, "WORTH_A_THREAD", 0)
    weights = np.random.default_rng(0).standard_normal((512, 512), np.float32)
    oi.write_oinf({"W": weights}, tmp_path / "m.oinf")
    text = "dynamic { x: f32[B, 512]; } constant { W: f32[512, 512]; } block entry {"
    text += " y = op matmul(x, W); return y; }"
    program = oi.compile(text, oi.open_model(tmp_path / "m.oinf"))
    taken: list[Any] = []
    real = EarlyMemory.take
    monkeypatch.setattr(
        EarlyMemory, "take", lambda self, n: taken.append(real(self, n)) or taken[-1]
    )
    with early_memory.early_memory(weights.nbytes + 2 * MIB):
        executor = program.make_executor(threads=2)
    assert sum(block.size for block in taken if block is not None) >= weights.nbytes
    x = np.ones((3, 512), np.float32)
    np.testing.assert_allclose(executor.run(x=x)["y"], x @ weights, rtol=1e-4, atol=1e-4)
