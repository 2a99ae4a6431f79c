"""What a traced step leaves: its stamps, and when the device did what it was asked for."""

from __future__ import annotations

import numpy as np

from openinfer.runtime.devices.compiled.trace_events import Entries, device_entry
from openinfer.runtime.devices.cpu.trace_record import TraceRecord
from openinfer.runtime.devices.vulkan.timing import Span


class VulkanTraceRecord(TraceRecord):
    """The record of a context; its `DeviceStep` adds the spans."""

    def __init__(self) -> None:
        super().__init__()
        self.spans: list[Span] = []

    def begin(self) -> None:
        """See `TraceRecord.begin`."""
        super().begin()
        self.spans.clear()

    def take(self) -> tuple[Entries, int]:
        """See `TraceRecord.take`: the spans are entries behind those of the stamps."""
        entries, dropped = super().take()
        if not self.enabled or not self.spans:
            return entries, dropped
        rows = np.array([device_entry(*span) for span in self.spans], np.int64)
        return np.concatenate([entries, rows]), dropped
