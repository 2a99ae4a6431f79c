"""What a driver takes its time for begins in a thread, before somebody waits for it.

Some take 0.3 s for the instance and 0.1 s for a device. Who asks for it later waits at its lock, and is told
what fails as if nobody had asked before.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

_working: list[threading.Thread] = []


def begin(work: Callable[[], object]) -> None:
    """Starts some work that others will ask for, too."""

    def run() -> None:
        try:
            work()
        except Exception:  # Who asks for it does it again, and gets the error.
            return

    _working[:] = [thread for thread in _working if thread.is_alive()]
    thread = threading.Thread(target=run, name="openinfer-vulkan")
    _working.append(thread)
    try:
        thread.start()
    except RuntimeError:  # There are no threads left, or the interpreter ends.
        _working.remove(thread)


def busy() -> bool:
    """Whether something that was begun has not ended."""
    return any(thread.is_alive() for thread in _working)


def _settle() -> None:
    """A fork waits: the child would find the driver as a thread has left it."""
    for thread in list(_working):
        if thread is not threading.current_thread():
            thread.join()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_settle)
