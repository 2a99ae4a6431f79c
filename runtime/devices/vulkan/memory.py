"""The memory of a Vulkan device: blocks with addresses of their own, which no processor follows.

The host half of a step computes with addresses: those of a block begin at `number << 40`, so that every
address of a block says which block it is in. Moves outside of steps use the memory's own commands.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from typing import Final

import numpy as np

from openinfer.runtime.devices.base import Box, Memory
from openinfer.runtime.devices.vulkan.buffers import (
    DEVICE_LOCAL,
    HOST_CACHED,
    HOST_COHERENT,
    HOST_VISIBLE,
)
from openinfer.runtime.devices.vulkan.commands import CommandPool, Recording
from openinfer.runtime.devices.vulkan.driver import DEVICE_LOST, VulkanFailure
from openinfer.runtime.devices.vulkan.logical import Allocation, LogicalDevice
from openinfer.runtime.locks import new_lock
from openinfer.runtime.storage import AnyArray

SPAN: Final = 40
"""Bits of an address that lie within a block."""
FOR_KERNELS: Final = (DEVICE_LOCAL, 0)
FOR_SMALL: Final = (DEVICE_LOCAL | HOST_VISIBLE | HOST_COHERENT, *FOR_KERNELS)
"""What kernels use and the host may write into, where it reaches the device's memory."""
MOST_SMALL: Final = 16 << 20
"""Bytes of a block of that kind: some devices let the host reach no more than 256 MiB."""
FOR_HOST: Final = (
    HOST_VISIBLE | HOST_COHERENT | HOST_CACHED,
    HOST_VISIBLE | HOST_COHERENT,
)
FOR_NUMBERS: Final = (DEVICE_LOCAL | HOST_VISIBLE | HOST_COHERENT, HOST_VISIBLE | HOST_COHERENT)
"""What the host writes and kernels read: on the device, where the host reaches that."""
WORD: Final = 4
_numbering = new_lock()


class VulkanBlock:
    """A buffer of the device."""

    _last = 0

    def __init__(self, device: LogicalDevice, nbytes: int) -> None:
        self.nbytes = nbytes
        # Whole words: what fills memory fills words.
        kinds = FOR_SMALL if nbytes <= MOST_SMALL else FOR_KERNELS
        self.allocation = Allocation(device, nbytes + -nbytes % WORD, kinds)
        with _numbering:
            VulkanBlock._last += 1
            self.number = VulkanBlock._last

    @property
    def address(self) -> int:
        """Where it begins, for those who compute with addresses."""
        return self.number << SPAN


class VulkanMemory(Memory):
    """Blocks of one device."""

    def __init__(self, device: LogicalDevice) -> None:
        self.device = device
        self._blocks: weakref.WeakValueDictionary[int, VulkanBlock] = weakref.WeakValueDictionary()

    def allocate(self, nbytes: int) -> VulkanBlock:
        """See `Memory.allocate`."""
        block = VulkanBlock(self.device, nbytes)
        self._blocks[block.number] = block
        if nbytes:
            runs = [(0, block.allocation.nbytes)]
            self._run_now(lambda recording: recording.fill(block.allocation, runs, 0))
        return block

    def address(self, block: VulkanBlock) -> int:
        """See `Memory.address`."""
        return block.address

    def at(self, address: int) -> tuple[VulkanBlock, int]:
        """The block that an address is in, and how far. Raises VulkanFailure for one of a device that was
        lost: a program has another one by now."""
        block = self._blocks.get(address >> SPAN)
        if block is None:
            raise VulkanFailure("an address on a device that was there before", DEVICE_LOST)
        return block, address & (1 << SPAN) - 1

    def write(self, block: VulkanBlock, start: int, data: AnyArray) -> None:
        """See `Memory.write`. Raises VulkanFailure on a lost device."""
        self.device.lifetime.check()
        bytes_ = np.ascontiguousarray(data)
        if not bytes_.size:
            return
        mapped = block.allocation.mapped
        if mapped:
            ctypes.memmove(mapped + start, bytes_.ctypes.data, bytes_.size)
            return
        staging = Allocation(self.device, bytes_.size, FOR_HOST)
        ctypes.memmove(staging.mapped, bytes_.ctypes.data, bytes_.size)
        self._copy_now(staging, block.allocation, [(0, start, bytes_.size)])

    def read(self, block: VulkanBlock, start: int, count: int) -> AnyArray:
        """See `Memory.read`. Raises VulkanFailure on a lost device."""
        self.device.lifetime.check()
        found = np.empty(count, np.uint8)
        if not count:
            return found
        if block.allocation.readable:
            ctypes.memmove(found.ctypes.data, block.allocation.mapped + start, count)
            return found
        staging = Allocation(self.device, count, FOR_HOST)
        self._copy_now(block.allocation, staging, [(start, 0, count)])
        ctypes.memmove(found.ctypes.data, staging.mapped, count)
        return found

    def copy(self, source: Box, target: Box) -> None:
        """See `Memory.copy`. On a lost device nothing is left to be copied, or to be undone."""
        if self.device.lifetime.lost:
            return
        (firsts, count), (starts, _) = _runs(source), _runs(target)
        regions = np.stack([firsts, starts, np.full(len(firsts), count)], axis=1)
        self._copy_now(source.block.allocation, target.block.allocation, regions)

    def fill(self, box: Box, entry: AnyArray) -> None:
        """See `Memory.fill`. On a lost device there is nothing to fill."""
        if self.device.lifetime.lost:
            return
        bytes_ = entry.view(np.uint8).reshape(-1)
        runs = [(box.start, box.nbytes)]
        if not box.dense:
            starts, count = _runs(box)
            runs = [(start, count) for start in starts.tolist() if count]
        word = np.tile(bytes_, WORD // bytes_.size) if WORD % bytes_.size == 0 else None
        if word is None or any(start % WORD or count % WORD for start, count in runs):
            for start, count in runs:
                self.write(box.block, start, np.tile(bytes_, count // bytes_.size))
            return
        value = int.from_bytes(word.tobytes(), "little")
        self._run_now(lambda recording: recording.fill(box.block.allocation, runs, value))

    def _copy_now(
        self, source: Allocation, target: Allocation, regions: AnyArray | list[tuple[int, int, int]]
    ) -> None:
        """Copies pieces of a buffer to another one: first, start and bytes of each."""
        table = np.array(regions, np.int64).reshape(-1, 3)
        some = table[table[:, 2] > 0]
        self._run_now(lambda recording: recording.copy_all(source, target, some))

    def _run_now(self, put: Callable[[Recording], object]) -> None:
        """Records commands, runs them, and waits for them."""
        pool = CommandPool(self.device)
        recording = pool.record()
        put(recording)
        pool.run([recording.end()])


def _runs(box: Box) -> tuple[AnyArray, int]:
    """Where the bytes of a box that lie one behind the other along its last axis begin; how many they are."""
    if not box.extents:
        return np.array([box.start], np.int64), box.nbytes
    inner = box.extents[-1] * box.entry
    starts = np.zeros(1, np.int64)
    for at, extent, capacity in zip(box.first[:-1], box.extents[:-1], box.capacity[:-1]):
        steps = np.arange(at, at + extent, dtype=np.int64)
        starts = (starts[:, None] * capacity + steps).reshape(-1)
    return (starts * box.capacity[-1] + box.first[-1]) * box.entry, inner
