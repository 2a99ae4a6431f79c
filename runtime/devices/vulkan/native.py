"""Machine code between a step and its driver: what would take Python longer than the driver.

Two texts for LLVM, `record_commands.ll` and `submit_again.ll`, are compiled when the first device is used,
and kept with the compiled programs. They call the driver by the addresses that it gives for a device. Where
machine code cannot be made, Python does their work.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.resources import files
from typing import Any, Final

import numpy as np

from openinfer.runtime.cache import About, Cache, cache_key
from openinfer.runtime.devices.cpu.codegen import compile_llvm_text, host_target
from openinfer.runtime.devices.cpu.linking import load_object
from openinfer.runtime.devices.vulkan.driver import api, number_of
from openinfer.runtime.errors import ArtefactError, OpenInferError
from openinfer.runtime.locks import new_lock
from openinfer.runtime.options import Options
from openinfer.runtime.storage import AnyArray

RECORD, SUBMIT, QUEUE_SUBMIT, TAKE = (
    "openinfer_record",
    "openinfer_submit",
    "openinfer_queue_submit",
    "openinfer_take",
)
_TEXTS: Final = {"record_commands.ll": [RECORD], "submit_again.ll": [SUBMIT, QUEUE_SUBMIT, TAKE]}
_SUBMITTING: Final = ("vkQueueSubmit", "vkGetFenceStatus", "vkWaitForFences", "vkResetFences")
_RECORDING: Final = (
    "vkCmdPipelineBarrier",
    "vkCmdBindPipeline",
    "vkCmdPushDescriptorSetKHR",
    "vkCmdPushConstants",
    "vkCmdDispatchIndirect",
    "vkCmdCopyBuffer",
    "vkCmdWriteTimestamp",
    "vkCmdDispatch",
)
_MUTEX_WORDS: Final = 8
"""A mutex of the C library that nobody has is zeros, and no longer than that."""
_making = new_lock()


class NativeCode:
    """The functions, in memory."""

    def __init__(self) -> None:
        """Raises OpenInferError where they cannot be made."""
        self._libraries: list[Any] = []
        self.addresses: dict[str, int] = {}
        for name, symbols in _TEXTS.items():
            library = _loaded(name, symbols)
            self._libraries.append(library)
            self.addresses.update({symbol: library.address(symbol) for symbol in symbols})
        whole, place, number = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int
        make = ctypes.CFUNCTYPE
        # The interpreter's lock stays with the caller: recording is short, and never waits.
        self.record: Any = ctypes.PYFUNCTYPE(None, place, place, whole, place, whole, whole)(
            self.addresses[RECORD]
        )
        self.queue_submit: Any = make(number, place, place, whole)(self.addresses[QUEUE_SUBMIT])

    def left_to(self, take: int) -> int:
        """The address of what steps call; what it does not know, the function at `take` is called for, which
        the caller keeps alive."""
        ctypes.c_void_p.from_address(self.addresses[TAKE]).value = take
        return self.addresses[SUBMIT]


def _loaded(name: str, symbols: list[str]) -> Any:
    text = files("openinfer.runtime.devices.vulkan").joinpath(name).read_text("utf-8")
    target, kept = host_target(), Cache.of(Options.from_environment())
    key = cache_key("machine code between steps and drivers", text, repr(target))
    code = kept.get(key)
    if code is not None:
        try:
            return load_object(code, symbols)
        except ArtefactError:
            kept.discard(key)
    code = compile_llvm_text(text, target, opt_level=0, codegen_level=2)
    kept.put(key, code, About(program=f"{name} for this processor"))
    return load_object(code, symbols)


def native_code() -> NativeCode | None:
    """The code of this process; None where it cannot be made."""
    with _making:
        return _native_code()


@cache
def _native_code() -> NativeCode | None:
    try:
        return NativeCode()
    except (OpenInferError, AttributeError, OSError):
        return None


class NativeDevice:
    """What the code knows of a device: its queue, with a mutex of its own, and functions of its driver."""

    def __init__(self, code: NativeCode, device: Any, queue: Any) -> None:
        self.code = code
        words = [0] * _MUTEX_WORDS + [0, number_of(device), number_of(queue)]
        words += [address_of(device, name) for name in (*_SUBMITTING, *_RECORDING)]
        self._words = np.array(words, np.int64)
        self.address: int = self._words.ctypes.data

    @property
    def complete(self) -> bool:
        """Whether the driver has all of the functions."""
        return bool(self._words[_MUTEX_WORDS + 1 :].all())

    def lose(self) -> None:
        """Nothing is submitted any more but what Python is asked for."""
        self._words[_MUTEX_WORDS] = 1

    def submit(self, submission: Any, fence: Any) -> int:
        """`vkQueueSubmit` of one submission, while nobody else uses the queue."""
        result: int = self.code.queue_submit(self.address, number_of(submission), number_of(fence))
        return result


def native_device(device: Any, queue: Any) -> NativeDevice | None:
    """For the code of this process, if there is any, and the driver has all of the functions."""
    code = native_code()
    found = NativeDevice(code, device, queue) if code is not None else None
    return found if found is not None and found.complete else None


def address_of(device: Any, name: str) -> int:
    """The address of a function of the driver for a device, or of the layer that checks it; 0 without one."""
    return number_of(api().lib.vkGetDeviceProcAddr(device, name.encode()))


def address(array: AnyArray) -> int:
    """Where an array lies."""
    return int(array.__array_interface__["data"][0])
