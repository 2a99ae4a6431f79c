"""Who watches the steps of watched builds: one function for a process, one watcher for each thread."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any

from openinfer.runtime.devices.base import Record
from openinfer.runtime.devices.cpu.native_call import native_observer

_Observer = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class _Watching(threading.local):
    """A watched step runs on the thread that calls it, and on no other."""

    record: Record | None = None
    failure: BaseException | None = None
    """What was raised where only the end of the step can raise it again."""


_watching = _Watching()


@contextmanager
def watched_by(record: Record) -> Generator[None]:
    """Shows the values of the watched step that this thread runs inside of a `with` block.

    What `record` raises, or a handler of a signal meanwhile, the step raises when it has ended; it shows
    nothing from then on, and leaves where it looks for interrupts.
    """
    before = _watching.record, _watching.failure
    _watching.record, _watching.failure = record, None
    try:
        yield
        failure = _watching.failure
    finally:
        _watching.record, _watching.failure = before
    if failure is not None:
        raise failure


def _observe(node: int, output: int, address: int) -> None:
    if _watching.record is not None:
        _watching.record(node, output, address)


def _observe_and_keep(node: int, output: int, address: int) -> None:
    """The same for ctypes, which reports what a callback raises, and loses it."""
    if _watching.failure is None:
        try:
            _observe(node, output, address)
        except BaseException as error:
            _watching.failure = error


@cache
def observer_address() -> int:
    """The address of the function that watched steps call."""
    return native_observer(_observe) or ctypes.cast(_kept(), ctypes.c_void_p).value or 0


@cache
def _kept() -> Any:
    return _Observer(_observe_and_keep)
