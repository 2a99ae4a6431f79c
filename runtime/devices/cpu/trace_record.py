"""Where a traced step writes its stamps: entries in host memory, with the clock of the process."""

from __future__ import annotations

import numpy as np

from openinfer.runtime.devices.compiled.trace_events import Entries

CAPACITY = 1 << 16
"""Entries that one step has room for: 2 MiB."""


class TraceRecord:
    """The memory that a traced step writes into."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.enabled = True
        self._head = np.zeros(8, np.int64)
        self._entries = np.zeros((capacity, 4), np.int64)
        self._head[3] = self._entries.ctypes.data

    @property
    def address(self) -> int:
        """What the step is given."""
        return self._head.ctypes.data

    def begin(self) -> None:
        """A step starts, or starts again with more memory."""
        self._head[0] = self._head[2] = 0
        self._head[1] = len(self._entries) if self.enabled else 0

    def take(self) -> tuple[Entries, int]:
        """The entries of the step that ended, and how many more found no room."""
        if not self.enabled:
            return self._entries[:0], 0
        return self._entries[: self._head[0]].copy(), int(self._head[2])
