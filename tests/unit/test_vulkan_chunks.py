"""The memory of a driver in chunks: against a model, with a driver that is not there; and few of them."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vulkan_library import Library

import openinfer as oi
from openinfer.runtime.devices.vulkan.chunks import (
    LARGE,
    LEAST_CHUNK,
    MOST_CHUNK,
    Chunk,
    Chunks,
    Part,
)
from openinfer.runtime.errors import StepError


class Driver:
    """Gives memory up to a limit, and takes it back."""

    def __init__(self, limit: int = 1 << 40) -> None:
        self.limit, self.used, self.asked = limit, 0, 0
        self.inside: Callable[[], object] = lambda: None
        """What happens while it is asked, as the collector may."""

    def allocate(self, kind: int, nbytes: int) -> Chunk:
        self.inside()
        if self.used + nbytes > self.limit:
            raise MemoryError
        self.used += nbytes
        self.asked += 1
        return Chunk(object(), kind, nbytes, self.asked << 40)

    def release(self, chunk: Chunk) -> None:
        assert chunk.unused
        self.used -= chunk.nbytes

    def chunks(self) -> Chunks:
        return Chunks(self.allocate, self.release)


def check(chunks: Chunks, driver: Driver, held: list[tuple[Part, int]]) -> None:
    """What was given lies apart, within its chunk, where it was asked to; all else is free."""
    assert driver.used == sum(chunk.nbytes for chunk in chunks.chunks)
    taken: dict[int, list[tuple[int, int]]] = {id(chunk): [] for chunk in chunks.chunks}
    for part, alignment in held:
        assert part.start % alignment == 0
        assert part.mapped == part.chunk.mapped + part.start
        taken[id(part.chunk)].append((part.start, part.start + part.nbytes))
    for chunk in chunks.chunks:
        covered = sorted(taken[id(chunk)] + chunk.free)
        ends = [0, *(stop for _, stop in covered)]
        assert [start for start, _ in covered] == ends[:-1]
        assert ends[-1] == chunk.nbytes
        free = sorted(chunk.free)
        assert all(one[1] < other[0] for one, other in pairwise(free))


@pytest.mark.parametrize("seed", range(6))
def test_drawn_sequences_agree_with_a_model(seed: int) -> None:
    draw, driver = random.Random(seed), Driver(limit=(60 if seed % 2 else 4000) << 20)
    chunks, held, refused = driver.chunks(), list[tuple[Part, int]](), 0
    for _ in range(600):
        if held and draw.random() < 0.45:
            part, _ = held.pop(draw.randrange(len(held)))
            chunks.give(part)
        else:
            most = draw.choice([100, 1 << 16, 1 << 21, 1 << 25])
            nbytes, alignment = draw.randint(1, most), 1 << draw.randrange(9)
            try:
                part = chunks.take(kind := draw.randrange(2), nbytes, alignment)
            except MemoryError:
                refused += 1
                continue
            assert (part.chunk.kind, part.nbytes) == (kind, nbytes)
            held.append((part, alignment))
        check(chunks, driver, held)
    assert bool(refused) == bool(seed % 2)
    for part, _ in held:
        chunks.give(part)
    # One of a kind is kept, for the next that asks.
    assert len({chunk.kind for chunk in chunks.chunks}) == len(chunks.chunks) <= 2


def test_small_parts_share_chunks_that_grow() -> None:
    driver = Driver()
    chunks = driver.chunks()
    for _ in range(1000):
        chunks.take(0, 1 << 18, 256)
    sizes = [chunk.nbytes for chunk in chunks.chunks]
    assert sizes[0] == LEAST_CHUNK
    assert sizes == sorted(sizes)
    assert max(sizes) == MOST_CHUNK
    assert len(sizes) < 12


def test_what_is_large_goes_back_at_once() -> None:
    driver = Driver()
    chunks = driver.chunks()
    large = chunks.take(0, LARGE, 256)
    assert driver.used == LARGE
    chunks.give(large)
    assert driver.used == 0


def test_unused_memory_of_another_kind_makes_room() -> None:
    driver = Driver(limit=LARGE + 4096)
    chunks = driver.chunks()
    chunks.give(chunks.take(0, 16, 16))
    assert driver.used == LEAST_CHUNK
    assert chunks.take(1, LARGE, 16).nbytes == LARGE
    assert [chunk.kind for chunk in chunks.chunks] == [1]
    # Where there is no room for a chunk, there may be some for what was asked for.
    assert chunks.take(1, 4096, 16).chunk.nbytes == 4096
    with pytest.raises(MemoryError):
        chunks.take(1, 1, 1)


def test_the_collector_gives_back_while_the_driver_is_asked() -> None:
    driver = Driver()
    chunks = driver.chunks()
    first = chunks.take(0, LEAST_CHUNK, 1)
    driver.inside = lambda: chunks.give(first)
    second = chunks.take(0, LEAST_CHUNK, 1)
    assert second.chunk is not first.chunk
    assert first.chunk.unused
    check(chunks, driver, [(second, 1)])


# On a device


def many(count: int) -> str:
    """A chain of products."""
    weights = " ".join(f"w{n}: f32[32, 32];" for n in range(count))
    ops = " ".join(f"op matmul(h, w{n}) >> h;" for n in range(count))
    return f"""
dynamic {{ x: f32[B, 32]; }}
constant {{ {weights} }}
block entry {{ assign h: f32[B, 32]; op relu(x) >> h; {ops} return h; }}
"""


def model(count: int, folder: Path) -> oi.Package:
    """Its weights, each of them another one."""
    path = folder / "weights.oinf"
    weights = {f"w{n}": np.full((32, 32), (n + 1) / 640, np.float32) for n in range(count)}
    oi.write_oinf(weights, path)
    return oi.open_model(path)


def test_many_buffers_lie_in_few_pieces(library: Library, tmp_path: Path) -> None:
    x = np.ones((4, 32), np.float32)
    with oi.compile(many(40), model(40, tmp_path), device="vulkan").make_executor() as executor:
        found = executor.run(x=x)["h"]
    assert np.allclose(found, prod((n + 1) / 20 for n in range(40)), rtol=1e-4)
    assert library.counts["vkCreateBuffer"] > 40
    assert library.counts["vkAllocateMemory"] <= 6


def memory() -> Any:
    from openinfer.runtime.devices.vulkan.logical import logical_device
    from openinfer.runtime.devices.vulkan.memory import VulkanMemory

    return VulkanMemory(logical_device())


def test_blocks_of_a_chunk_do_not_touch_each_other(vulkan: None) -> None:
    there, draw = memory(), np.random.default_rng(5)
    sizes = [int(n) for n in draw.integers(1, 5000, 50)]
    contents = [draw.integers(0, 255, n, np.uint8) for n in sizes]
    blocks = [there.allocate(n) for n in sizes]
    for block, content in zip(blocks, contents):
        there.write(block, 0, content)
    del blocks[::3], contents[::3]
    gc.collect()
    fresh = [there.allocate(n) for n in sizes]
    assert not any(there.read(block, 0, block.nbytes).any() for block in fresh)
    for block, content in zip(blocks, contents):
        assert np.array_equal(there.read(block, 0, block.nbytes), content)


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ({"largest_allocation": 5000}, "gives 5000 bytes in one piece at most, not "),
        ({"allocations": 0}, "gives 0 pieces of memory at most"),
    ],
)
def test_limits_of_the_device_are_said(
    vulkan: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: Any, said: str
) -> None:
    from openinfer.runtime.devices.vulkan.logical import logical_device

    buffers = logical_device().buffers
    rows = 1 << 18  # 32 MiB: a chunk of its own.
    x = np.zeros((rows, 32), np.float32)
    with oi.compile(many(1), model(1, tmp_path), device="vulkan").make_executor() as executor:
        executor.run(x=x[:4])
        with monkeypatch.context() as patch:
            patch.setattr(buffers, "physical", replace(buffers.physical, **limit))
            with pytest.raises(StepError, match=said) as raised:
                executor.run(x=x)
        assert raised.value.code == "OI0604"
        assert f"with B = {rows}" in raised.value.message
        assert np.array_equal(executor.run(x=x[:4])["h"], np.zeros((4, 32), np.float32))
