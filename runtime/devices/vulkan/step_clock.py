"""How long the device works at a step: two timestamps around its commands, and nothing between them.

with StepClock() as clock:
    executor = program.make_executor()
    executor.run(**inputs)
executor.run(**inputs)
clock.nanoseconds        # of the device, for the last step
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Final

from openinfer.runtime.devices.vulkan.driver import api, check
from openinfer.runtime.devices.vulkan.logical import LogicalDevice
from openinfer.runtime.devices.vulkan.timing import LAST_STAGE, WORDS_OF_64, destroy, nanoseconds

_BEGIN: Final = 0
_END: Final = 1


class StepClock:
    """Of one executor: the first whose first step runs within `with`, on the same thread.

    A step that waits for the device in between has several submissions; their times are added up, what the
    host does between them does not count. On a device without timestamps the times stay 0.
    """

    def __init__(self) -> None:
        self.nanoseconds = 0
        """Of the last step."""
        self.submissions = 0
        """Of the last step."""
        self.commands = 0
        """Kernels that the last step asked for, and moves."""

    def __enter__(self) -> StepClock:
        _made.clock = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _made.clock = None

    def begin(self) -> None:
        """A step begins."""
        self.nanoseconds = self.submissions = self.commands = 0

    def add(self, nanoseconds: int, commands: int) -> None:
        """A submission has ended."""
        self.nanoseconds += nanoseconds
        self.submissions += 1
        self.commands += commands


class _Made(threading.local):
    """The clock that an executor of this thread is to take."""

    clock: StepClock | None = None


_made = _Made()


def take_clock() -> StepClock | None:
    """The one whose `with` this is within, once."""
    clock, _made.clock = _made.clock, None
    return clock


class Stamps:
    """The two timestamps of one submission at a time."""

    _token: int | None = None

    def __init__(self, device: LogicalDevice, clock: StepClock) -> None:
        self._device, self._clock = device, clock
        vk = api()
        self._pool = vk.ffi.new("VkQueryPool *")
        self._token = device.lifetime.hold()
        create = vk.ffi.new("VkQueryPoolCreateInfo *")
        create.sType = vk.VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO
        create.queryType, create.queryCount = vk.VK_QUERY_TYPE_TIMESTAMP, 2
        make = vk.lib.vkCreateQueryPool
        check("vkCreateQueryPool", make(device.handle, create, vk.ffi.NULL, self._pool))

    def __del__(self) -> None:
        if self._token is not None:
            handle, pool = self._device.handle, self._pool
            self._device.lifetime.release(self._token, lambda: destroy(handle, pool))

    def begin_step(self) -> None:
        """A step begins."""
        self._clock.begin()

    def begin(self, commands: Any) -> None:
        """In front of the first command of a command buffer."""
        api().lib.vkCmdResetQueryPool(commands, self._pool[0], 0, 2)
        self._put(commands, _BEGIN)

    def end(self, commands: Any) -> None:
        """Behind the last one."""
        self._put(commands, _END)

    def _put(self, commands: Any, number: int) -> None:
        api().lib.vkCmdWriteTimestamp(commands, LAST_STAGE, self._pool[0], number)

    def read(self, count: int) -> None:
        """Adds the time of a submission that has ended, of so many commands, to the clock."""
        vk = api()
        found = vk.ffi.new("uint64_t[]", 2)
        read, handle = vk.lib.vkGetQueryPoolResults, self._device.handle
        result = read(handle, self._pool[0], 0, 2, 16, found, 8, WORDS_OF_64)
        check("vkGetQueryPoolResults", result)
        begin, end = nanoseconds(list(found), *self._device.timestamps)
        self._clock.add(end - begin, count)
