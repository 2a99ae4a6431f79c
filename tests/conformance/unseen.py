"""A device whose memory the host does not see: it is the CPU, but arena, state and undo log are only
reached through `Memory`, which gives copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from openinfer.runtime.devices.base import Box, Memory
from openinfer.runtime.devices.cpu.device import CpuDevice
from openinfer.runtime.devices.cpu.loaded import CpuProgram
from openinfer.runtime.devices.cpu.memory import HostMemory
from openinfer.runtime.devices.cpu.team import Team
from openinfer.runtime.program import Program


@dataclass(frozen=True)
class UnseenBlock:
    """All that the host knows of a block is how large it is."""

    nbytes: int
    inside: Any


class UnseenMemory(Memory):
    """Counts what crosses over to the host."""

    def __init__(self) -> None:
        self._host = HostMemory()
        self.reads = 0

    def allocate(self, nbytes: int) -> UnseenBlock:
        return UnseenBlock(nbytes, self._host.allocate(nbytes))

    def address(self, block: UnseenBlock) -> int:
        return self._host.address(block.inside)

    def write(self, block: UnseenBlock, start: int, data: Any) -> None:
        assert data.dtype == np.uint8
        assert data.ndim == 1
        assert 0 <= start <= start + data.size <= block.nbytes
        self._host.write(block.inside, start, data)

    def read(self, block: UnseenBlock, start: int, count: int) -> Any:
        assert 0 <= start <= start + count <= block.nbytes
        self.reads += 1
        return self._host.read(block.inside, start, count).copy()

    def copy(self, source: Box, target: Box) -> None:
        assert source.block is not target.block
        assert source.entry == target.entry
        assert source.extents == target.extents
        self._host.copy(_inside(source), _inside(target))

    def fill(self, box: Box, entry: Any) -> None:
        assert entry.shape == (box.entry,)
        self._host.fill(_inside(box), entry)


def _inside(box: Box) -> Box:
    assert int(np.prod(box.capacity)) * box.entry == box.block.nbytes
    assert all(0 <= a <= a + n <= c for a, n, c in zip(box.first, box.extents, box.capacity))
    return Box(box.block.inside, box.capacity, box.entry, box.first, box.extents)


class UnseenProgram(CpuProgram):
    """Without what is optional: no threads beside the caller's, no native look at inputs."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.memory = UnseenMemory()

    def make_team(self, threads: int) -> Team:
        return super().make_team(1)

    def place(self, rows: Any, inputs: int, held: object) -> None:
        del rows, inputs, held


class UnseenDevice(CpuDevice):
    """In place of `cpu`: it runs the same programs."""

    def load(self, program: Program) -> UnseenProgram:
        return UnseenProgram(program)
