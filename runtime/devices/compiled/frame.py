"""The words that the native code of a step is called with: addresses, sizes, lengths, one slot each."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from openinfer.runtime.devices.base import LoadedProgram, Team, TraceRecord
from openinfer.runtime.devices.compiled.state import CompiledState
from openinfer.runtime.sizes import Size
from openinfer.runtime.slots import OF_STATE, SlotKind
from openinfer.runtime.storage import AnyArray

_OF_STATE = OF_STATE | {
    SlotKind.HELD,
    SlotKind.DEVICE_HELD,
    SlotKind.CELLS,
    SlotKind.LOG,
    SlotKind.LOG_LENGTH,
    SlotKind.DEVICE_LOG,
    SlotKind.DEVICE_LOG_LENGTH,
}
_MOST_SECTIONS = 64


class Frame:
    """The frame of a context. The manifest says what each slot holds."""

    def __init__(
        self,
        loaded: LoadedProgram,
        errors: AnyArray,
        team: Team | None,
        record: TraceRecord | None,
    ) -> None:
        """Fills in the slots that stay as they are: weights, the record of errors, team and trace."""
        slots = loaded.manifest.frame
        # Two words more than slots: what the step gives back, and one that nobody reads.
        self.words: Any = (ctypes.c_uint64 * (len(slots) + 2))()
        self.inputs = [(n, s.name) for n, s in enumerate(slots) if s.kind == SlotKind.INPUT]
        """The slot of each input."""
        self._sizes = [(n, s.name) for n, s in enumerate(slots) if s.kind == SlotKind.SIZE]
        self._extents = [
            (n, Size.of(loaded.variables[s.name].dims[s.number]))
            for n, s in enumerate(slots)
            if s.kind == SlotKind.EXTENT
        ]
        self._of_state = [(n, s) for n, s in enumerate(slots) if s.kind in _OF_STATE]
        self._arena = [n for n, s in enumerate(slots) if s.kind == SlotKind.ARENA]
        self._arena_length = [n for n, s in enumerate(slots) if s.kind == SlotKind.ARENA_LENGTH]
        self._device_arena = [n for n, s in enumerate(slots) if s.kind == SlotKind.DEVICE_ARENA]
        self._kept = {
            SlotKind.ERRORS: errors,
            SlotKind.JOB: np.zeros(loaded.job_words + 1, np.int64),
            SlotKind.SECTION_ERRORS: np.zeros(_MOST_SECTIONS * 4, np.int64),
            SlotKind.POLL: np.zeros(2, np.int64),
        }
        for number, slot in enumerate(slots):
            if slot.kind == SlotKind.WEIGHT:
                self.words[number] = loaded.weight_address(slot.number)
            elif slot.kind == SlotKind.DEVICE_WEIGHT:
                self.words[number] = loaded.device_weight_address(slot.number)
            elif slot.kind in self._kept:
                self.words[number] = self._kept[slot.kind].ctypes.data
            elif slot.kind == SlotKind.TEAM and team is not None:
                self.words[number] = team.address
            elif slot.kind == SlotKind.TRACE and record is not None:
                self.words[number] = record.address

    def lay_out(self, sizes: Mapping[str, int], state: CompiledState) -> None:
        """Fills in what sizes and the memory of the state decide."""
        for number, name in self._sizes:
            self.words[number] = sizes[name]
        for number, extent in self._extents:
            self.words[number] = extent.evaluate(sizes)
        for number, slot in self._of_state:
            self.words[number] = state.word(slot)

    def enter(self, address: int, nbytes: int) -> None:
        """Steps work in the arena at `address` from here on."""
        for number in self._arena:
            self.words[number] = address
        for number in self._arena_length:
            self.words[number] = nbytes

    def enter_device(self, address: int) -> None:
        """Device kernels work in the arena at `address` from here on."""
        for number in self._device_arena:
            self.words[number] = address
