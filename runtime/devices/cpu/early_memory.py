"""Memory for weights that the system finds while their program is still compiled.

Fresh memory costs time: the system clears it, and a virtual machine asks its host for it (a second and more
for a gigabyte was seen). A first start of a language model has one processor idle for longer than that.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import numpy as np

from openinfer.runtime.devices.cpu.memory import ALIGNMENT, aligned_bytes
from openinfer.runtime.storage import AnyArray

EARLY_MEMORY_THREAD: Final = "openinfer-memory"
"""The thread that waits for the system. It holds no lock that a forked child could miss."""

WORTH_A_THREAD: Final = 1 << 26
"""Bytes below which nothing is asked for early."""
_STEP: Final = 1 << 22
"""Bytes of a call: a fork waits for its end."""
_SMALL: Final = 1 << 16
"""Bytes of a block that is not worth a place here."""
_HUGE_PAGE: Final = 1 << 21
_POPULATE_WRITE: Final = 23
"""MADV_POPULATE_WRITE, of Linux 5.14: pages as if each had been written to."""


class EarlyMemory:
    """A stretch of zeroed memory that a thread has the system find; blocks are cut off its beginning.

    Raises OSError where there is no room for it, RuntimeError where there are no threads left.
    """

    def __init__(self, nbytes: int) -> None:
        self._mapping = mmap.mmap(-1, nbytes + _HUGE_PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._bytes: AnyArray = np.frombuffer(self._mapping, np.uint8)
        self._next = -self._bytes.ctypes.data % _HUGE_PAGE
        self._first, self._end = self._next, self._next + nbytes
        self._stopped = False
        # A child that is forked meanwhile has no use for it, and would make each write to it a copy.
        self._advise(mmap.MADV_HUGEPAGE)
        self._advise(mmap.MADV_DONTFORK)
        self._thread = threading.Thread(target=self._find, name=EARLY_MEMORY_THREAD, daemon=True)
        self._thread.start()

    def take(self, nbytes: int) -> AnyArray | None:
        """Zeroed bytes that start at a cache line, None where no room is left for them."""
        begin = self._next
        if begin + nbytes > self._end:
            return None
        self._next = -(-(begin + nbytes) // ALIGNMENT) * ALIGNMENT
        return self._bytes[begin : begin + nbytes]

    def close(self) -> None:
        """Stops the thread and gives back what nobody took; blocks that were taken stay."""
        self._stopped = True
        self._thread.join()
        self._advise(mmap.MADV_DOFORK)
        rest = -(-self._next // mmap.PAGESIZE) * mmap.PAGESIZE
        if rest < self._end:
            self._mapping.madvise(mmap.MADV_DONTNEED, rest, self._end - rest)

    def _advise(self, what: int) -> None:
        self._mapping.madvise(what, self._first, self._end - self._first)

    def _find(self) -> None:
        # That of `mmap` holds the interpreter's lock.
        madvise: Any = ctypes.CDLL(None).madvise
        base = self._bytes.ctypes.data
        for begin in range(self._first, self._end, _STEP):
            length = min(_STEP, self._end - begin)
            if self._stopped or madvise(
                ctypes.c_void_p(base + begin), ctypes.c_size_t(length), _POPULATE_WRITE
            ):
                # An older system knows no such call: it finds the memory when it is written to.
                return


_current: ContextVar[EarlyMemory | None] = ContextVar("early_memory", default=None)


@contextmanager
def early_memory(nbytes: int) -> Generator[None]:
    """Weights that are laid out in here (`weight_bytes`) find so much memory that was asked for before.

    Nothing but time depends on it: where the system has none of it, they find theirs as ever.
    """
    memory = _begun(nbytes)
    token = _current.set(memory)
    try:
        yield
    finally:
        _current.reset(token)
        if memory is not None:
            memory.close()


def _begun(nbytes: int) -> EarlyMemory | None:
    if nbytes < WORTH_A_THREAD or not hasattr(mmap, "MADV_DONTFORK"):
        return None
    try:
        return EarlyMemory(nbytes)
    except (OSError, OverflowError, RuntimeError):
        return None


def weight_bytes(count: int) -> AnyArray:
    """Zeroed bytes for a weight that start at a cache line, out of memory that was asked for early."""
    memory = _current.get()
    if memory is not None and count >= _SMALL:
        block = memory.take(count)
        if block is not None:
            return block
    return aligned_bytes(count)
