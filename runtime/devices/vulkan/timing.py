"""When the device did what it was asked for: timestamps around commands, on the clock of the host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from openinfer.runtime.devices.vulkan.driver import api, check, number_of
from openinfer.runtime.devices.vulkan.logical import LogicalDevice

ROOM: Final = 8192
"""Commands of a submission that are timed."""
LAST_STAGE: Final = 0x2000
"""A timestamp is taken when everything in front of it has ended."""
WORDS_OF_64: Final = 1


class Span(NamedTuple):
    """A command, in nanoseconds of the monotonic clock of the host."""

    row: int
    """Of the manifest's `calls`."""
    waits: bool
    """Whether a barrier stands in front of it."""
    asked: int
    """When the step asked for it."""
    start: int
    duration: int


class Clock:
    """How the nanoseconds of a device lie on the clock of the host.

    Work begins behind its submission and has ended when the host sees its fence: what all submissions
    leave of that is a narrow range. Where clocks drift apart it becomes empty, and begins anew.
    """

    def __init__(self) -> None:
        self._low, self._high = -(1 << 127), 1 << 127

    def offset(self, first: int, last: int, submitted: int, seen: int) -> int:
        """What is added to the nanoseconds of a device, which has worked from `first` to `last`, while the
        host went from `submitted` to `seen`."""
        low, high = submitted - first, seen - last
        self._low, self._high = max(self._low, low), min(self._high, high)
        if self._low > self._high:
            self._low, self._high = low, high
        return self._high


class Timer:
    """The timestamps of one submission at a time."""

    _token: int | None = None

    def __init__(self, device: LogicalDevice) -> None:
        self._device = device
        self.row = 0
        """Which call the next command belongs to,"""
        self.asked = 0
        """and when the step asked for it."""
        self._calls: list[tuple[int, bool, int]] = []
        self._clock = Clock()
        vk = api()
        self._pool = vk.ffi.new("VkQueryPool *")
        self._token = device.lifetime.hold()
        create = vk.ffi.new("VkQueryPoolCreateInfo *")
        create.sType = vk.VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO
        create.queryType, create.queryCount = vk.VK_QUERY_TYPE_TIMESTAMP, 2 * ROOM
        make = vk.lib.vkCreateQueryPool
        check("vkCreateQueryPool", make(device.handle, create, vk.ffi.NULL, self._pool))

    def __del__(self) -> None:
        if self._token is not None:
            handle, pool = self._device.handle, self._pool
            self._device.lifetime.release(self._token, lambda: destroy(handle, pool))

    def reset(self, commands: Any) -> None:
        """A command buffer begins, the only one of the next submission."""
        self._calls = []
        api().lib.vkCmdResetQueryPool(commands, self._pool[0], 0, 2 * ROOM)

    def begin(self, commands: Any, *, waits: bool) -> None:
        """In front of a command, behind its barrier."""
        self._calls.append((self.row, waits, self.asked))
        self._put(commands, 0)

    def end(self, commands: Any) -> None:
        """Behind it."""
        self._put(commands, 1)

    @property
    def number(self) -> int:
        """The pool of its timestamps, as a number: two for each command, as many as there is room for."""
        return number_of(self._pool[0])

    def took(self, calls: Iterable[tuple[int, bool, int]]) -> None:
        """Commands were recorded with their timestamps: row, whether a barrier stands in front, and when the
        step asked for it."""
        self._calls += calls

    def _put(self, commands: Any, side: int) -> None:
        number = len(self._calls) - 1
        if number < ROOM:
            write = api().lib.vkCmdWriteTimestamp
            write(commands, LAST_STAGE, self._pool[0], 2 * number + side)

    def read(self, submitted: int, seen: int) -> list[Span]:
        """The commands of a submission that has ended, which the host began and saw ended then."""
        count = min(len(self._calls), ROOM)
        if not count:
            return []
        vk = api()
        found = vk.ffi.new("uint64_t[]", 2 * count)
        read = vk.lib.vkGetQueryPoolResults
        given = (self._pool[0], 0, 2 * count, 16 * count, found, 8, WORDS_OF_64)
        check("vkGetQueryPoolResults", read(self._device.handle, *given))
        times = nanoseconds(list(found), *self._device.timestamps)
        first = self._clock.offset(times[0], times[-1], submitted, seen)
        return [
            Span(*call, first + start, end - start)
            for call, start, end in zip(self._calls, times[::2], times[1::2])
        ]


def nanoseconds(ticks: list[int], bits: int, period: float) -> list[int]:
    """Ticks of a counter that may begin anew between two of them, the latest last; never less than the one
    before."""
    found = [round(ticks[0] * period)]
    mask = (1 << bits) - 1
    for tick in ticks[1:]:
        passed = tick - ticks[0] & mask
        found.append(max(found[-1], found[0] + round(passed * period)))
    return found


def destroy(handle: Any, pool: Any) -> None:
    """Gives the timestamps back."""
    vk = api()
    vk.lib.vkDestroyQueryPool(handle, pool[0], vk.ffi.NULL)
