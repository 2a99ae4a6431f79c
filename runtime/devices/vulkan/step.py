"""What a step asks its device for: the record is read, commands are made of it, moves are done in order."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from openinfer.runtime.devices.vulkan.commands import Commands
from openinfer.runtime.devices.vulkan.hazards import Range
from openinfer.runtime.devices.vulkan.logical import Allocation, Kernel
from openinfer.runtime.devices.vulkan.memory import FOR_HOST, VulkanMemory
from openinfer.runtime.devices.vulkan.record import (
    HEAD,
    RECORD_WORDS,
    TO_DEVICE,
    TO_HOST,
    USED,
    Launch,
    Move,
    calls_in,
    empty_record,
)
from openinfer.runtime.errors import UnsupportedError
from openinfer.runtime.manifest import CallRow

PARAMETER_WORDS = 1 << 18
"""Words that the kernels of a submission are given; when they are used up, it is submitted."""
MOST_GROUPS = 65535
LEAST_STAGING = 1 << 20


class DeviceStep:
    """The device's side of the steps of one context. Steps come one after the other."""

    def __init__(
        self,
        memory: VulkanMemory,
        kernels: Mapping[str, Kernel],
        rows: list[CallRow],
        *,
        at_once: bool,
    ) -> None:
        """`at_once`: what is asked for has happened when the step goes on, for stamps of a clock."""
        self.at_once = at_once
        self.memory, self.kernels, self.rows = memory, kernels, rows
        self.device = memory.device
        self.record = empty_record()
        self.commands = Commands(self.device)
        self._parameters = Allocation(self.device, 4 * PARAMETER_WORDS, FOR_HOST)
        words = (ctypes.c_uint32 * PARAMETER_WORDS).from_address(self._parameters.mapped)
        self._words = np.ctypeslib.as_array(words)
        self._used = 0
        self._staging = Allocation(self.device, LEAST_STAGING, FOR_HOST)
        """Bytes on their way to the device, and back."""
        self._staged = 0
        self._awaited: list[tuple[int, int, int]] = []
        """What the host reads once the commands ran: where, place in the staging buffer, bytes."""
        self.failure: BaseException | None = None

    def run(self, native: Callable[[], object]) -> None:
        """A step: its host half, and what it asks for."""
        self.record[USED], self.failure = HEAD, None
        _active.step = self
        try:
            native()
            self.drain()
            if self.failure is None:
                self.finish()
        finally:
            _active.step = None
            failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def drain_safely(self) -> None:
        """`drain` where nobody can be told what it raises: the end of the step raises it."""
        if self.failure is None:
            try:
                self.drain()
            except BaseException as error:
                self.failure = error
        self.record[USED] = HEAD

    def drain(self) -> None:
        """Makes commands of what the record holds, and empties it."""
        for call in calls_in(self.record, self.rows):
            if isinstance(call, Launch):
                self._launch(call)
            else:
                self._move(call)
        self.record[USED] = HEAD
        if self.at_once or self._awaited:
            self.finish()

    def finish(self) -> None:
        """Runs the commands, and waits for them."""
        self.commands.submit_and_wait()
        for target, place, nbytes in self._awaited:
            ctypes.memmove(target, self._staging.mapped + place, nbytes)
        self._awaited.clear()
        self._used = self._staged = 0

    def _stage(self, nbytes: int) -> int:
        """Room for bytes in the staging buffer; what is in it is done with first, if need be."""
        if self._staged + nbytes > self._staging.nbytes:
            self.finish()
        if nbytes > self._staging.nbytes:
            self._staging = Allocation(self.device, 2 * nbytes, FOR_HOST)
        place = self._staged
        self._staged += nbytes + -nbytes % 64
        return place

    def _move(self, call: Move) -> None:
        if not call.nbytes:
            return
        if call.row.kernel == TO_DEVICE:
            place = self._stage(call.nbytes)
            ctypes.memmove(self._staging.mapped + place, call.source, call.nbytes)
            block, start = self.memory.at(call.target)
            self.commands.copy(self._staging, place, block.allocation, start, call.nbytes)
        elif call.row.kernel == TO_HOST:
            place = self._stage(call.nbytes)
            block, start = self.memory.at(call.source)
            self.commands.copy(block.allocation, start, self._staging, place, call.nbytes)
            self._awaited.append((call.target, place, call.nbytes))
        else:
            (one, first), (other, start) = self.memory.at(call.source), self.memory.at(call.target)
            self.commands.copy(one.allocation, first, other.allocation, start, call.nbytes)

    def _launch(self, call: Launch) -> None:
        row = call.row
        if not all(call.groups):
            return
        if max(call.groups) > MOST_GROUPS:
            raise UnsupportedError(
                "OI0773",
                f"the kernel {row.kernel} needs {max(call.groups)} workgroups along an axis",
            )
        if self._used + len(call.words) > PARAMETER_WORDS:
            self.finish()
        ranges = [Range(self._parameters, 0, 4 * PARAMETER_WORDS, False)]
        words = list(call.words)
        for number, (address, nbytes) in enumerate(call.buffers):
            block, start = self.memory.at(address)
            # A binding begins at a multiple of the device's; the kernel is told how far behind it.
            begin = start - start % self.device.physical.alignment
            if start + nbytes - begin > self.device.physical.largest_binding:
                raise UnsupportedError(
                    "OI0773",
                    f"{row.buffers[number]} has {nbytes} bytes; {self.device.physical.name} gives kernels "
                    f"{self.device.physical.largest_binding} at most",
                )
            words[row.places[number]] = (start - begin) // row.elements[number]
            ranges.append(
                Range(block.allocation, begin, start + max(nbytes, 4), number in row.writes)
            )
        self._words[self._used : self._used + len(words)] = np.array(words, np.int64).astype(
            np.uint32
        )
        self.commands.dispatch(self.kernels[row.kernel], ranges, self._used, call.groups)
        self._used += len(words)


class _Active(threading.local):
    """The step that runs on this thread."""

    step: DeviceStep | None = None


_active = _Active()
_Submit = ctypes.CFUNCTYPE(None, ctypes.c_int64)


def _submit(record: int) -> None:
    """Called by steps; `record` is where the words of the calling step are."""
    step = _active.step
    if step is not None and step.record.ctypes.data == record:
        step.drain_safely()
        return
    # Nobody takes the words: the step may go on, and fills the record anew.
    (ctypes.c_int64 * RECORD_WORDS).from_address(record)[USED] = HEAD


@cache
def _kept() -> Any:
    return _Submit(_submit)


def submit_address() -> int:
    """The address of the function that steps call to have their record read."""
    return ctypes.cast(_kept(), ctypes.c_void_p).value or 0
