"""What `Memory` promises, and what an executor makes of one that the host does not see."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from unseen import UnseenMemory

import openinfer as oi
from openinfer.runtime.devices.base import Box, Memory
from openinfer.runtime.devices.cpu.memory import HostMemory

PACKED = """
dynamic { x: i2[3]; at: i32; }
persistent { P(l, t): i2[3] @table @init(1); M(i, j): i4[2, 1] @auto_dim(i, j) @init(3); }
volatile { y: i2[3]; }
block entry {
    assign whole: i4[_, _];
    cache.write x >> P[1, at];
    cache.read M[at, 1] >> whole;
    op relu(x) >> y;
    return;
}
"""


@pytest.fixture(params=[HostMemory, UnseenMemory])
def memory(request: pytest.FixtureRequest) -> Memory:
    return request.param()


def content(memory: Memory, block: Any) -> Any:
    return memory.read(block, 0, block.nbytes).copy()


def test_blocks_are_zeros_at_a_cache_line(memory: Memory) -> None:
    for size in (0, 1, 63, 64, 1000):
        block = memory.allocate(size)
        assert block.nbytes == size
        assert not size or memory.address(block) % 64 == 0
        assert not content(memory, block).any()


def test_bytes_go_in_and_out(memory: Memory) -> None:
    block = memory.allocate(10)
    memory.write(block, 3, np.arange(1, 5, dtype=np.uint8))
    assert content(memory, block).tolist() == [0, 0, 0, 1, 2, 3, 4, 0, 0, 0]
    assert memory.read(block, 4, 2).tolist() == [2, 3]
    assert memory.read(block, 10, 0).tolist() == []


def test_boxes_of_every_place(memory: Memory) -> None:
    """Gathered, scattered, copied and filled: each as NumPy's slices do it."""
    capacity, entry = (3, 2, 4), 2
    start = np.arange(48, dtype=np.uint8)
    lengths = [[(a, n) for a in range(c) for n in range(c - a + 1)] for c in capacity]
    for places in product(*lengths):
        first, extents = zip(*places)
        block, other = memory.allocate(48), memory.allocate(48)
        memory.write(block, 0, start)
        box = Box(block, capacity, entry, first, extents)
        wanted = start.reshape(*capacity, entry)[box.slices]
        assert memory.gather(box).tolist() == wanted.reshape(-1).tolist()
        target = Box(other, capacity, entry, first, extents)
        found = np.zeros((*capacity, entry), np.uint8)
        memory.copy(box, target)
        found[box.slices] = wanted
        assert content(memory, other).tolist() == found.reshape(-1).tolist()
        memory.fill(target, np.array([7, 9], np.uint8))
        found[box.slices] = [7, 9]
        assert content(memory, other).tolist() == found.reshape(-1).tolist()
        new = np.arange(100, 100 + box.nbytes, dtype=np.uint8)
        memory.scatter(target, new)
        found[box.slices] = new.reshape(wanted.shape)
        assert content(memory, other).tolist() == found.reshape(-1).tolist()


def test_dense_boxes_are_those_without_gaps() -> None:
    capacity = (3, 2, 4)
    numbers = np.arange(24).reshape(capacity)
    lengths = [[(a, n) for a in range(c) for n in range(1, c - a + 1)] for c in capacity]
    for places in product(*lengths):
        first, extents = zip(*places)
        box = Box(None, capacity, 1, first, extents)
        inside = numbers[box.slices].reshape(-1)
        assert box.start == inside[0]
        assert box.dense == (inside[-1] - inside[0] + 1 == len(inside))


def test_results_of_a_memory_that_is_not_seen_are_copies(unseen_memory: None) -> None:
    text = "dynamic { x: f32[B, 4096]; } block entry { assign y: f32[B, 4096]; "
    text += "op mul(x, x) >> y; return y; }"
    x = np.arange(2 * 4096, dtype=np.float32).reshape(2, 4096)
    program = oi.compile(text)
    memory = program.loaded().memory
    assert isinstance(memory, UnseenMemory)
    with program.make_executor(threads=1) as executor:
        first: Any = executor.run(x=x)["y"]
        before = memory.reads
        second: Any = executor.run(x=-x[:1])["y"]
        assert memory.reads == before + 1
        kept: Any = executor.fetch("y", copy=False)
        third: Any = executor.run(x=np.zeros_like(x))["y"]
        for found, wanted in ((first, x * x), (second, x[:1] ** 2), (kept, x[:1] ** 2)):
            assert np.array_equal(found, wanted)
        assert not third.any()
        assert executor.arena_growths == 1


@pytest.mark.parametrize("seen", [True, False])
def test_packed_state(seen: bool, request: pytest.FixtureRequest) -> None:
    if not seen:
        request.getfixturevalue("unseen_memory")
    simulator = oi.Simulator(PACKED).make_executor()
    compiled = oi.compile(PACKED).make_executor()
    for number in (0, 3, 1, 40):
        given = {"x": oi.Tensor.from_values("i2", [1, -2, number % 2]), "at": np.int32(number)}
        for executor in (simulator, compiled):
            executor.run(**given)
        for name in (f"P[1, {number}]", "P", "M", "y"):
            wanted, found = (np.asarray(e.fetch(name)) for e in (simulator, compiled))
            assert np.array_equal(wanted, found), name
        saved = compiled.snapshot()
        for executor in (simulator, compiled):
            executor.restore(saved)
        assert compiled.snapshot() == saved
