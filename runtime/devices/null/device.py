"""The device `null`: a compiled executor whose device memory reads as zeros."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.runtime.devices.base import DeviceCall
from openinfer.runtime.devices.cpu.device import CpuDevice
from openinfer.runtime.devices.cpu.loaded import CpuProgram
from openinfer.runtime.devices.cpu.memory import HostMemory
from openinfer.runtime.devices.null.record import RECORD_WORDS, calls_in, clear, empty_record
from openinfer.runtime.slots import Slot, SlotKind

if TYPE_CHECKING:
    from openinfer.runtime.program import Program


class NullDevice(CpuDevice):
    """Runs the host half of programs, and no kernel of the device."""

    name = "null"

    def facts(self) -> Mapping[str, str]:
        """See `Device.facts`."""
        return {"kernels": "recorded, not run", "memory": "reads as zeros"}

    def load(self, program: Program) -> NullProgram:
        """See `Device.load`."""
        return NullProgram(program)


class NullProgram(CpuProgram):
    """The host half of a program, and a record of its calls for each context."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        # Nobody ever writes to it: pages of zeros take no memory.
        self._zeros = HostMemory()
        frame, calls = program.manifest.frame, Slot(SlotKind.CALLS)
        self._slot = frame.index(calls) if calls in frame else None

    @property
    def device_memory(self) -> HostMemory:
        """See `LoadedProgram.device_memory`."""
        return self._zeros

    def call(self, frame: Any) -> Callable[[], object]:
        """See `LoadedProgram.call`."""
        native = super().call(frame)
        if self._slot is None:
            return native
        words = empty_record()
        frame[self._slot] = words.ctypes.data

        def step() -> None:
            clear(words)
            native()

        return step

    def calls(self, frame: Any) -> list[DeviceCall]:
        """See `LoadedProgram.calls`."""
        if self._slot is None or not frame[self._slot]:
            return []
        words = (ctypes.c_int64 * RECORD_WORDS).from_address(frame[self._slot])
        return calls_in(np.ctypeslib.as_array(words), self.manifest.calls)
