"""The memory of the process as a device's memory: blocks are arrays of NumPy's."""

from __future__ import annotations

import numpy as np

from openinfer.runtime.devices.base import Box, Memory
from openinfer.runtime.storage import AnyArray

ALIGNMENT = 64


def aligned_bytes(count: int) -> AnyArray:
    """Zeroed bytes that start at a cache line."""
    block = np.zeros(count + ALIGNMENT, np.uint8)
    start = -block.ctypes.data % ALIGNMENT
    return block[start : start + count]


class HostMemory(Memory):
    """What the host reads, it reads where it lies."""

    def allocate(self, nbytes: int) -> AnyArray:
        """See `Memory.allocate`."""
        return aligned_bytes(nbytes)

    def address(self, block: AnyArray) -> int:
        """See `Memory.address`."""
        return block.ctypes.data

    def write(self, block: AnyArray, start: int, data: AnyArray) -> None:
        """See `Memory.write`."""
        block[start : start + data.size] = data

    def read(self, block: AnyArray, start: int, count: int) -> AnyArray:
        """See `Memory.read`."""
        return block[start : start + count]

    def copy(self, source: Box, target: Box) -> None:
        """See `Memory.copy`."""
        _part(target)[...] = _part(source)

    def fill(self, box: Box, entry: AnyArray) -> None:
        """See `Memory.fill`."""
        _part(box)[...] = entry

    def gather(self, box: Box) -> AnyArray:
        """See `Memory.gather`."""
        return np.ascontiguousarray(_part(box)).reshape(-1)

    def owner(self, block: AnyArray) -> object | None:
        """See `Memory.owner`."""
        return block.base


def _part(box: Box) -> AnyArray:
    return box.block.reshape(*box.capacity, box.entry)[box.slices]
