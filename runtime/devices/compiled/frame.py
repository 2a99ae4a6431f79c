"""The words that the native code of a step is called with: addresses, sizes, lengths, one slot each."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from openinfer.runtime.devices.base import LoadedProgram, Team, TraceRecord
from openinfer.runtime.devices.compiled.state import CompiledState
from openinfer.runtime.sizes import Size
from openinfer.runtime.storage import AnyArray

_STATE = ("held", "state", "counts", "marks", "cells", "log", "length")
_MOST_SECTIONS = 64


class Frame:
    """The frame of a context. The manifest says what each slot holds: a role, and what it is of."""

    def __init__(
        self,
        loaded: LoadedProgram,
        errors: AnyArray,
        team: Team | None,
        record: TraceRecord | None,
    ) -> None:
        """Fills in the slots that stay as they are: weights, the record of errors, team and trace."""
        slots = [text.partition(" ") for text in loaded.manifest.frame]
        # Two words more than slots: what the step gives back, and one that nobody reads.
        self.words: Any = (ctypes.c_uint64 * (len(slots) + 2))()
        self._slots = [(slot, role, rest) for slot, (role, _, rest) in enumerate(slots)]
        self.inputs = [(slot, rest) for slot, role, rest in self._slots if role == "input"]
        """The slot of each input."""
        self._arenas = [slot for slot, role, _ in self._slots if role == "arena"]
        self._device_arenas = [slot for slot, role, _ in self._slots if role == "device_arena"]
        self._arena_sizes = [slot for slot, role, _ in self._slots if role == "arena_size"]
        kept = {
            "errors": errors,
            "job": np.zeros(loaded.job_words + 1, np.int64),
            "section_errors": np.zeros(_MOST_SECTIONS * 4, np.int64),
            "poll": np.zeros(2, np.int64),
        }
        self._kept = kept
        for slot, role, rest in self._slots:
            if role == "weight":
                self.words[slot] = loaded.weight_address(int(rest))
            elif role == "device_weight":
                self.words[slot] = loaded.device_weight_address(int(rest.rpartition(" ")[2]))
            elif role in kept:
                self.words[slot] = kept[role].ctypes.data
            elif role == "team" and team is not None:
                self.words[slot] = team.address
            elif role == "trace" and record is not None:
                self.words[slot] = record.address

    def lay_out(self, sizes: Mapping[str, int], state: CompiledState) -> None:
        """Fills in what sizes and the memory of the state decide."""
        for slot, role, rest in self._slots:
            if role == "size":
                self.words[slot] = sizes[rest]
            elif role == "value":
                self.words[slot] = Size.of(rest).evaluate(sizes)
            elif role in _STATE:
                self.words[slot] = state.slots(role, rest)

    def enter(self, address: int, nbytes: int) -> None:
        """Steps work in the arena at `address` from here on."""
        for slot in self._arenas:
            self.words[slot] = address
        for slot in self._arena_sizes:
            self.words[slot] = nbytes

    def enter_device(self, address: int) -> None:
        """Device kernels work in the arena at `address` from here on."""
        for slot in self._device_arenas:
            self.words[slot] = address
