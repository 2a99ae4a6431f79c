"""The commands of pieces as tables, which machine code records (`record_commands.ll`)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from openinfer.runtime.devices.vulkan.commands import Copy, Dispatch, Recording
from openinfer.runtime.devices.vulkan.driver import number_of
from openinfer.runtime.devices.vulkan.logical import Allocation
from openinfer.runtime.devices.vulkan.native import NativeDevice, address
from openinfer.runtime.devices.vulkan.timing import ROOM, Timer
from openinfer.runtime.storage import AnyArray

_ROW, _RANGE, _COPY_RANGES = 8, 4, 2
_WRITE = np.dtype(
    {
        "names": ["kind", "binding", "count", "type", "info"],
        "formats": ["<u4", "<u4", "<u4", "<u4", "<u8"],
        "offsets": [0, 24, 32, 36, 48],
        "itemsize": 64,
    }
)
"""The fields of VkWriteDescriptorSet that are not zero."""
_WRITE_KIND, _STORAGE_BUFFER, _BARRIER_KIND = 35, 7, 46


class Packed:
    """Commands as machine code records them. They name buffers, and keep none of them alive."""

    def __init__(
        self, commands: Iterable[Dispatch | Copy], numbers: Allocation, staging: Allocation
    ) -> None:
        """`numbers` is the first binding of every kernel; places in `staging` are added to when the commands
        are recorded."""
        self.calls: list[int] = []
        """The row of the manifest that each belongs to."""
        rows: list[tuple[int, ...]] = []
        ranges: list[tuple[int, int, int, int]] = []
        infos: list[tuple[int, int, int]] = []
        bindings: list[int] = []
        for one in commands:
            self.calls.append(one.row)
            if isinstance(one, Copy):
                source = 0 if one.source is staging else one.source.number
                target = 0 if one.target is staging else one.target.number
                rows.append((0, source, one.first, target, one.start, one.nbytes, 0, 0))
                continue
            count = len(one.ranges) + 1
            pipeline, layout = number_of(one.kernel.pipeline), number_of(one.kernel.layout)
            ranged = len(ranges), count - 1
            groups = _packed_groups(one.groups)
            rows.append((pipeline, layout, count, len(infos), one.numbers, *ranged, groups))
            infos.append((numbers.number, 0, numbers.nbytes))
            for buffer, start, stop, written in one.ranges:
                assert isinstance(buffer, Allocation)
                ranges.append((buffer.number, start, stop, written))
                infos.append((buffer.number, start, stop - start))
            bindings += range(count)
        self.rows = np.array(rows, np.int64).reshape(-1, _ROW)
        self.ranges = np.array(ranges, np.int64).reshape(-1, _RANGE)
        self._infos = np.array(infos, np.int64).reshape(-1, 3)
        self._writes = np.zeros(len(bindings), _WRITE)
        self._writes["kind"], self._writes["count"] = _WRITE_KIND, 1
        self._writes["type"], self._writes["binding"] = _STORAGE_BUFFER, bindings
        places = np.arange(len(bindings), dtype=np.uint64) * np.uint64(self._infos.itemsize * 3)
        self._writes["info"] = places + np.uint64(address(self._infos))
        kernels = self.rows[:, 0] != 0
        self.rows[kernels, 3] = self.rows[kernels, 3] * _WRITE.itemsize + address(self._writes)
        self.touched = len(ranges) + _COPY_RANGES * int((~kernels).sum())
        """Ranges of all its commands."""
        self.places = address(self.rows), len(self.rows), address(self.ranges)


def _packed_groups(groups: Sequence[int]) -> int:
    """Known numbers of workgroups as a word, 16 bits each; 0 where the step says them."""
    return sum(count << 16 * axis for axis, count in enumerate(groups))


class Part(NamedTuple):
    """Commands that are recorded, and what is added to their places."""

    packed: Packed
    numbers: int
    staged: int
    asked: int
    """When a step asked for them."""


class _Recording(ctypes.Structure):
    """`%Recording` of the machine code."""

    _fields_ = (
        ("device", ctypes.c_void_p),
        ("commands", ctypes.c_void_p),
        ("numbers", ctypes.c_int64),
        ("staging", ctypes.c_int64),
        ("room", ctypes.c_void_p),
        ("held", ctypes.c_int64),
        ("queries", ctypes.c_int64),
        ("number", ctypes.c_int64),
        ("most", ctypes.c_int64),
        ("waited", ctypes.c_void_p),
        ("barrier_kind", ctypes.c_uint32),
        ("barrier_next", ctypes.c_void_p),
        ("barrier_source", ctypes.c_uint32),
        ("barrier_target", ctypes.c_uint32),
        ("region", ctypes.c_int64 * 3),
        ("push", ctypes.c_uint32),
        ("copied", ctypes.c_int64),
        ("apart", ctypes.c_int64),
    )


class Recorder:
    """Records for one owner, one recording at a time."""

    def __init__(self, device: NativeDevice, numbers: Allocation) -> None:
        self._words = _Recording()
        self._words.device, self._words.numbers = device.address, numbers.number
        self._words.barrier_kind = _BARRIER_KIND
        self._words.most = ROOM
        self._place = ctypes.addressof(self._words)
        self._record = device.code.record
        self._room = np.empty((0, _RANGE), np.int64)

    def record(
        self,
        recording: Recording,
        parts: Sequence[Part],
        staging: Allocation,
        timer: Timer | None = None,
    ) -> None:
        """Commands one behind the other, as `Recording.copy` and `Recording.dispatch` would record them."""
        words = self._words
        touched = sum([part.packed.touched for part in parts])
        if touched > len(self._room):
            self._room = np.empty((2 * touched, _RANGE), np.int64)
            words.room = address(self._room)
        words.commands, words.staging = recording.number, staging.number
        words.held = words.number = words.copied = words.apart = 0
        waited: AnyArray | None = None
        if timer is not None:
            waited = np.zeros(sum([len(part.packed.calls) for part in parts]), np.uint8)
            words.queries, words.waited = timer.number, address(waited)
        for part in parts:
            self._record(self._place, *part.packed.places, part.numbers, part.staged)
        if timer is not None and waited is not None:
            words.queries, words.waited = 0, None
            called = [(row, part.asked) for part in parts for row in part.packed.calls]
            timer.took([(row, bool(w), at) for (row, at), w in zip(called, waited, strict=True)])
