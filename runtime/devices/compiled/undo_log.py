"""The undo log of a context: what a step has overwritten of growing states.

The code of the step writes it. A part of it is three words, the number of a state, a place in its memory and
a length, and the bytes that were there, up to a multiple of eight. The bytes of states of the device are in
the device's memory, at the places where they would be.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openinfer.runtime.devices.base import Block, Box, Memory
from openinfer.runtime.devices.compiled.growing import Growing
from openinfer.runtime.slots import Slot, SlotKind

_HEADER = 24
_LEAST = 4096


class UndoLog:
    """Memory for what steps overwrite: of the host, and as much of the device where that has states."""

    def __init__(self, memory: Memory, device_memory: Memory | None) -> None:
        """`device_memory` is None where no growing state is there."""
        self._memory, self._device_memory = memory, device_memory
        self._here = memory.allocate(0)
        self._there: Block | None = device_memory.allocate(0) if device_memory is not None else None

    @property
    def nbytes(self) -> int:
        """Bytes that there is room for."""
        return self._here.nbytes

    def grow(self, need: int) -> None:
        """Room for as many bytes, and some more."""
        nbytes = max(need, 2 * self.nbytes, _LEAST)
        here = self._memory.allocate(nbytes)
        if self._device_memory is not None:
            self._there = self._device_memory.allocate(nbytes)
        self._here = here

    def word(self, slot: Slot) -> int:
        """What a slot of the frame holds: an address or a length."""
        if slot.kind == SlotKind.LOG:
            return self._memory.address(self._here)
        if slot.kind == SlotKind.DEVICE_LOG and self._there is not None:
            assert self._device_memory is not None
            return self._device_memory.address(self._there)
        return self.nbytes

    def replay(self, end: int, states: Mapping[int, Growing], kept: int | None) -> None:
        """Puts back what the first `end` bytes say, the last part first; `states` by their numbers. `kept` is
        as `LoadedProgram.kept_log` has it."""
        parts: list[tuple[Growing, int, int, int]] = []
        words = self._memory.read(self._here, 0, end)
        at = 0
        while at < end:
            number, start, length = (int(v) for v in words[at : at + _HEADER].view(np.int64))
            parts.append((states[number], start, length, at + _HEADER))
            at += _HEADER + -(-length // 8) * 8
        for growing, start, length, saved in reversed(parts):
            log = self._here
            if growing.row.device:
                if kept is not None and saved > kept:
                    continue
                assert self._there is not None
                log = self._there
            source = Box.of_bytes(log, saved, length)
            growing.memory.copy(source, Box.of_bytes(growing.block, start, length))
