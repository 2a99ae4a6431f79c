"""Python's cyclic collector stays off while anything is compiled."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from threading import get_ident
from typing import ClassVar

from openinfer.runtime.locks import after_fork, new_lock


@contextmanager
def no_collection() -> Generator[None]:
    """Without the cyclic collector: IR is all cycles and all alive, and scanning it is a fifth of
    the time of a compilation."""
    _Collector.stop()
    try:
        yield
    finally:
        _Collector.go_on()


def settle() -> None:
    """What is there by now is taken for old: the next collection of young objects does not scan it."""
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()


class _Collector:
    """Stays off while any thread compiles, and is then as it was before the first of them."""

    lock = new_lock()
    threads: ClassVar[list[int]] = []
    enabled = True

    @classmethod
    def stop(cls) -> None:
        with cls.lock:
            if not cls.threads:
                cls.enabled = gc.isenabled()
                gc.disable()
            cls.threads.append(get_ident())

    @classmethod
    def go_on(cls) -> None:
        with cls.lock:
            cls.threads.remove(get_ident())
            if not cls.threads and cls.enabled:
                gc.enable()

    @classmethod
    def forked(cls) -> None:
        """The threads that compiled are not here any more."""
        left = [thread for thread in cls.threads if thread == get_ident()]
        if cls.threads and not left and cls.enabled:
            gc.enable()
        cls.threads[:] = left


after_fork(_Collector.forked)
