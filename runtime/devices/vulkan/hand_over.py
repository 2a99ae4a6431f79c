"""How a step has its record read: machine code calls Python, which asks the device side of the step."""

from __future__ import annotations

import ctypes
import threading
from functools import cache
from typing import Any, Protocol

from openinfer.runtime.devices.cpu.native_call import native_reader
from openinfer.runtime.devices.vulkan.native import native_code
from openinfer.runtime.devices.vulkan.record import HEAD, RECORD_WORDS, USED


class Taker(Protocol):
    """The device side of a step."""

    place: int
    """Where the words of its record are."""

    def drain_safely(self, logged: int) -> bool:
        """Takes over what the record asks for. Whether the step is to end."""
        ...


class _Running(threading.local):
    """The step that runs on this thread."""

    step: Taker | None = None


running = _Running()
_Submit = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_int64, ctypes.c_int64)


def _submit(record: int, logged: int) -> bool:
    """Called by steps; `record` is where the words of the calling step are. Whether the step is to end."""
    step = running.step
    if step is not None and step.place == record:
        return step.drain_safely(logged)
    # Nobody takes the words.
    (ctypes.c_int64 * RECORD_WORDS).from_address(record)[USED] = HEAD
    return True


@cache
def _kept() -> Any:
    return _Submit(_submit)


def submit_address() -> int:
    """The address of the function that steps call to have their record read.

    A signal may raise where `_submit` begins, or ends. ctypes would lose that, and tell the step anything.
    """
    take = native_reader(_submit) or ctypes.cast(_kept(), ctypes.c_void_p).value or 0
    code = native_code()
    return take if code is None else code.left_to(take)
