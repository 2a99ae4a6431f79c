"""The record of errors of a device: what its kernels note, and what becomes of it.

A step that ends well has moved the record to the host itself, and found zeros. Where it fails, what the
device has noted came before what the host has noted (`lowering/buffers/place_checks.py`), also where the step
has left before it could look: that is what the step fails with.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from openinfer.runtime.devices.vulkan.memory import VulkanMemory
from openinfer.runtime.slots import Slot, SlotKind

_WORDS = 4
_BYTES = 8 * _WORDS


def noted_around(
    run: Callable[[], object], slots: Sequence[Slot], frame: Any, memory: VulkanMemory
) -> Callable[[], object]:
    """A step with a frame, which reports what the device notes; `run` itself where no kernel notes anything.
    `slots` say what the words of the frame are."""
    host, device = Slot(SlotKind.ERRORS), Slot(SlotKind.DEVICE_ERRORS)
    if host not in slots or device not in slots:
        return run
    noted = _NotedErrors(memory, frame[slots.index(host)])
    frame[slots.index(device)] = noted.address
    return noted.around(run)


class _NotedErrors:
    """The record of the steps of one context."""

    def __init__(self, memory: VulkanMemory, errors: int) -> None:
        """`errors` is the address of the host's record of errors."""
        self._memory = memory
        self._block = memory.allocate(_BYTES)
        self._errors = (ctypes.c_int64 * _WORDS).from_address(errors)
        self._clean = True
        """Whether the record is known to be zeros."""

    @property
    def address(self) -> int:
        """What the frame says of the record."""
        return self._memory.address(self._block)

    def around(self, run: Callable[[], object]) -> Callable[[], None]:
        """A step that begins with a record of zeros, and whose first failure is in the host's record when it
        has ended."""

        def step() -> None:
            if not self._clean:
                self._memory.write(self._block, 0, np.zeros(_BYTES, np.uint8))
            self._clean = False
            run()
            if self._errors[0]:
                self._take()
            else:
                self._clean = True

        return step

    def _take(self) -> None:
        noted = self._memory.read(self._block, 0, _BYTES)
        first = int(noted[:8].view(np.int64)[0])
        if first:
            ctypes.memmove(self._errors, noted.ctypes.data, _BYTES)
        self._clean = not first
