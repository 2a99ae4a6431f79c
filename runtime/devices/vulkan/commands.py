"""Commands for a device: recorded one behind the other, submitted as often as wanted, waited for."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from openinfer.runtime.devices.vulkan.driver import (
    DEVICE_LOST,
    NOT_READY,
    TIMEOUT,
    VulkanFailure,
    api,
    check,
    number_of,
)
from openinfer.runtime.devices.vulkan.hazards import Hazards, Range
from openinfer.runtime.devices.vulkan.kernels import Kernel
from openinfer.runtime.devices.vulkan.logical import Allocation, LogicalDevice
from openinfer.runtime.storage import AnyArray

if TYPE_CHECKING:
    from openinfer.runtime.devices.vulkan.step_clock import Stamps
    from openinfer.runtime.devices.vulkan.timing import Timer

SECONDS = 60
"""How long a submission may take until it counts as hung."""
SPIN = 0.002
"""Seconds of asking again and again whether work has ended; waiting costs some 20 us more."""
_HOST, _TRANSFER, _COMPUTE, _INDIRECT = 0x4000, 0x1000, 0x800, 0x2
_STAGES = _COMPUTE | _TRANSFER
_ACCESSES = 0x20 | 0x40 | 0x800 | 0x1000
"""Kernels and copies, what they read and write."""
_OF_KERNELS = 0x20 | 0x40
_HOST_READS = 0x2000


class Dispatch(NamedTuple):
    """A start of a kernel."""

    row: int
    """Of the manifest's `calls`."""
    kernel: Kernel
    ranges: Sequence[Range]
    """Of its buffers."""
    numbers: int
    """Where its groups and words stand among the numbers of its piece."""
    groups: tuple[int, ...] = ()
    """Of each axis, where they are known; else none."""


class Copy(NamedTuple):
    """Bytes from one buffer to another."""

    row: int
    source: Allocation
    first: int
    target: Allocation
    start: int
    nbytes: int


class CommandPool:
    """Where one owner has command buffers of, one submission at a time: no two threads use it at once."""

    _token: int | None = None

    def __init__(self, device: LogicalDevice) -> None:
        self.device = device
        vk = api()
        ffi, lib = vk.ffi, vk.lib
        # Destroying nothing is allowed: these are empty until they are made.
        self._pool, self._fence = ffi.new("VkCommandPool *"), ffi.new("VkFence *")
        self._token = device.lifetime.hold()
        create = ffi.new("VkCommandPoolCreateInfo *")
        create.sType = vk.VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO
        create.queueFamilyIndex, create.flags = device.family, 2
        make = lib.vkCreateCommandPool
        check("vkCreateCommandPool", make(device.handle, create, ffi.NULL, self._pool))
        self._request = ffi.new("VkCommandBufferAllocateInfo *")
        self._request.sType = vk.VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO
        self._request.commandPool, self._request.commandBufferCount = self._pool[0], 1
        fence = ffi.new("VkFenceCreateInfo *")
        fence.sType = vk.VK_STRUCTURE_TYPE_FENCE_CREATE_INFO
        check("vkCreateFence", lib.vkCreateFence(device.handle, fence, ffi.NULL, self._fence))
        self._pending = False
        """Whether something was submitted that has not been waited for."""
        self.ended = False
        """Whether the last submission has done what it was asked for, even if `run` raised something."""

    def record(self, timer: Timer | None = None, stamps: Stamps | None = None) -> Recording:
        """A command buffer that is being recorded; `timer` measures each command, `stamps` all of them."""
        vk = api()
        made = vk.ffi.new("VkCommandBuffer *")
        allocate = vk.lib.vkAllocateCommandBuffers
        check("vkAllocateCommandBuffers", allocate(self.device.handle, self._request, made))
        return Recording(self.device, made, timer, stamps)

    def free(self, recording: Recording) -> None:
        """Gives a command buffer back that is not handed in any more. On a lost device it ends with the
        others."""
        if not self.device.lifetime.lost:
            vk = api()
            free = vk.lib.vkFreeCommandBuffers
            free(self.device.handle, self._pool[0], 1, recording.handle)

    def run(self, recordings: Sequence[Recording]) -> None:
        """Submits what was recorded, in order, and waits for its end.

        Raises VulkanFailure, and the device is lost for a device that the driver has lost, and for work of
        which nobody knows whether it ends.
        """
        self.ended = False
        self.device.lifetime.check()
        submission, kept = self.submission(recordings)
        with self._answering():
            self._run(submission)
        del kept

    def submission(self, recordings: Sequence[Recording]) -> tuple[Any, Any]:
        """VkSubmitInfo of what was recorded, and what it points to."""
        vk = api()
        handles = vk.ffi.new("VkCommandBuffer[]", [one.handle[0] for one in recordings])
        made = vk.ffi.new("VkSubmitInfo *")
        made.sType = vk.VK_STRUCTURE_TYPE_SUBMIT_INFO
        made.commandBufferCount, made.pCommandBuffers = len(recordings), handles
        return made, handles

    def fail(self, call: str, result: int, *, pending: bool) -> None:
        """Raises what `run` raises, where machine code has submitted in its place; `pending` says whether
        something may still run."""
        self._pending = pending
        with self._answering():
            raise _failure(call, result)

    @contextmanager
    def _answering(self) -> Generator[None]:
        """What becomes of the device when a submission fails."""
        try:
            yield
        except VulkanFailure as failure:
            if failure.result == DEVICE_LOST:
                self.device.lose()
            elif self._pending:
                self.device.lose(self._is_running)
            raise
        except BaseException:  # Ctrl-C: the work ends before what it uses.
            if self._pending:
                self._settle()
            raise

    @property
    def fence(self) -> Any:
        """What submissions signal."""
        return self._fence[0]

    def _run(self, submission: Any) -> None:
        vk = api()
        lib, device = vk.lib, self.device
        with device.queue_lock:
            self._pending = True
            result = device.submit(submission, self._fence[0])
            self._pending = result >= 0
        check("vkQueueSubmit", result)
        # A driver that computes on the processor needs it.
        if device.physical.software or not self._spin(self._fence[0]):
            self._wait()
        self.ended = True
        check("vkResetFences", lib.vkResetFences(device.handle, 1, self._fence))
        self._pending = False

    def _wait(self) -> None:
        wait, handle = api().lib.vkWaitForFences, self.device.handle
        result = wait(handle, 1, self._fence, 1, SECONDS * 10**9)
        if result:
            raise _failure("vkWaitForFences", result)

    def _settle(self) -> None:
        """Waits for work that nobody waits for any more; where it does not end, the device is lost."""
        try:
            self._wait()
            self.ended = True
            lib = api().lib
            check("vkResetFences", lib.vkResetFences(self.device.handle, 1, self._fence))
            self._pending = False
        except VulkanFailure:
            self.device.lose(self._is_running)

    def _is_running(self) -> bool:
        """Whether what was submitted goes on."""
        return api().lib.vkGetFenceStatus(self.device.handle, self._fence[0]) == NOT_READY

    def _spin(self, fence: Any) -> bool:
        """Whether the work ended soon."""
        status, handle = api().lib.vkGetFenceStatus, self.device.handle
        end = time.perf_counter() + SPIN
        while True:
            result = status(handle, fence)
            if not result:
                return True
            check("vkGetFenceStatus", result)
            if time.perf_counter() > end:
                return False

    def __del__(self) -> None:
        if self._token is not None:
            handle, pool, fence = self.device.handle, self._pool, self._fence
            self.device.lifetime.release(self._token, lambda: _destroy(handle, pool, fence))


def _failure(call: str, result: int) -> VulkanFailure:
    return VulkanFailure(f"work of more than {SECONDS} s" if result == TIMEOUT else call, result)


def _destroy(handle: Any, pool: Any, fence: Any) -> None:
    vk = api()
    vk.lib.vkDestroyFence(handle, fence[0], vk.ffi.NULL)
    vk.lib.vkDestroyCommandPool(handle, pool[0], vk.ffi.NULL)


class Recording:
    """Commands one behind the other. A barrier stands where ranges of bytes meet, one of them written."""

    def __init__(
        self,
        device: LogicalDevice,
        handle: Any,
        timer: Timer | None = None,
        stamps: Stamps | None = None,
    ) -> None:
        self.device, self.handle, self._timer, self._stamps = device, handle, timer, stamps
        vk = api()
        ffi, lib = vk.ffi, vk.lib
        self._buffer = handle[0]
        self.number = number_of(self._buffer)
        begin = ffi.new("VkCommandBufferBeginInfo *")
        begin.sType = vk.VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO
        check("vkBeginCommandBuffer", lib.vkBeginCommandBuffer(self._buffer, begin))
        if timer is not None:
            timer.reset(self._buffer)
        if stamps is not None:
            stamps.begin(self._buffer)
        self._barrier = ffi.new("VkMemoryBarrier *")
        self._barrier.sType = vk.VK_STRUCTURE_TYPE_MEMORY_BARRIER
        self._region = ffi.new("VkBufferCopy *")
        self._push = ffi.new("uint32_t *")
        self._infos: dict[int, tuple[Any, Any]] = {}
        self._hazards = Hazards()
        self._copied = self._apart = False
        """Whether a copy stands behind the last barrier; whether only kernels waited since copies did."""

    def wait(self) -> None:
        """The next command waits for everything before it, other recordings included."""
        self._hazards = Hazards()
        self._put_barrier(_STAGES, _ACCESSES)

    def _wait(self, ranges: Sequence[Range], *, copies: bool = True) -> None:
        """A barrier, where the next command has to wait. One between kernels leaves copies out, which takes
        less time."""
        waits = self._hazards.needs_barrier(ranges, anyway=copies and self._apart)
        if waits:
            self._apart = not (copies or self._copied)
            self._copied = False
            if self._apart:
                self._put_barrier(_COMPUTE, _OF_KERNELS, _COMPUTE, _OF_KERNELS)
            else:
                self._put_barrier(_STAGES, _ACCESSES)
        self._copied |= copies
        if self._timer is not None:
            self._timer.begin(self._buffer, waits=waits)

    def _timed(self) -> None:
        """The command that waited is there."""
        if self._timer is not None:
            self._timer.end(self._buffer)

    def _put_barrier(
        self, stages: int, accesses: int, after: int = _STAGES, written: int = _ACCESSES
    ) -> None:
        """`stages` wait, with their `accesses`, for all of `after`."""
        vk = api()
        null, barrier = vk.ffi.NULL, self._barrier
        barrier.srcAccessMask, barrier.dstAccessMask = written, accesses
        wait = vk.lib.vkCmdPipelineBarrier
        wait(self._buffer, after, stages, 0, 1, barrier, 0, null, 0, null)

    def copy(
        self, source: Allocation, first: int, target: Allocation, start: int, nbytes: int
    ) -> None:
        """Bytes of one buffer to another."""
        if not nbytes:
            return
        self._wait(
            [
                Range(source, first, first + nbytes, False),
                Range(target, start, start + nbytes, True),
            ]
        )
        self._region.srcOffset, self._region.dstOffset, self._region.size = first, start, nbytes
        api().lib.vkCmdCopyBuffer(self._buffer, source.buffer, target.buffer, 1, self._region)
        self._timed()

    def copy_all(self, source: Allocation, target: Allocation, regions: AnyArray) -> None:
        """Many pieces of a buffer to another one, as one command: rows of first, start and bytes."""
        table = np.ascontiguousarray(regions, np.int64)
        table = table[table[:, 2] > 0]
        if not len(table):
            return
        vk = api()
        (first, start, _), (last, stop, _) = table.min(axis=0), (table + table[:, 2:]).max(axis=0)
        ranges = [Range(source, first, last, False), Range(target, start, stop, True)]
        self._wait(ranges)
        place = vk.ffi.cast("VkBufferCopy *", table.ctypes.data)
        copy = vk.lib.vkCmdCopyBuffer
        copy(self._buffer, source.buffer, target.buffer, len(table), place)
        self._timed()

    def fill(self, target: Allocation, runs: Sequence[tuple[int, int]], word: int) -> None:
        """Puts a word of 32 bits everywhere into runs of bytes: starts and lengths, multiples of 4."""
        runs = [run for run in runs if run[1]]
        if not runs:
            return
        self._wait([Range(target, runs[0][0], runs[-1][0] + runs[-1][1], True)])
        for start, nbytes in runs:
            api().lib.vkCmdFillBuffer(self._buffer, target.buffer, start, nbytes, word)
        self._timed()

    def dispatch(
        self,
        kernel: Kernel,
        ranges: Sequence[Range],
        numbers: Allocation,
        place: int,
        first: int,
        groups: Sequence[int] = (),
    ) -> None:
        """Starts a kernel on the buffers of some ranges, with as many workgroups as `groups`, or else three
        words at byte `place` of `numbers` when it runs, say; `first` is its push constant."""
        vk = api()
        lib = vk.lib
        self._wait(ranges, copies=False)
        buffer = self._buffer
        infos, writes = self._rows(len(ranges))
        for number, one in enumerate(ranges):
            info = infos[number]
            allocation = one.buffer
            assert isinstance(allocation, Allocation)
            info.buffer, info.offset = allocation.buffer, one.start
            info.range = one.stop - one.start
        lib.vkCmdBindPipeline(buffer, 1, kernel.pipeline)
        self.device.push_descriptors(buffer, 1, kernel.layout, 0, len(ranges), writes)
        self._push[0] = first
        lib.vkCmdPushConstants(buffer, kernel.layout, 0x20, 0, 4, self._push)
        if groups:
            lib.vkCmdDispatch(buffer, *groups)
        else:
            lib.vkCmdDispatchIndirect(buffer, numbers.buffer, place)
        self._timed()

    def _rows(self, count: int) -> tuple[Any, Any]:
        """Structures for some bindings, made once."""
        if count not in self._infos:
            vk = api()
            ffi = vk.ffi
            infos = ffi.new("VkDescriptorBufferInfo[]", count)
            writes = ffi.new("VkWriteDescriptorSet[]", count)
            for number in range(count):
                writes[number].sType = vk.VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET
                writes[number].dstBinding, writes[number].descriptorCount = number, 1
                writes[number].descriptorType = vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
                writes[number].pBufferInfo = infos + number
            self._infos[count] = infos, writes
        return self._infos[count]

    def end(self) -> Recording:
        """Nothing more is recorded. When it has run, the host reads what was written."""
        if self._stamps is not None:
            self._stamps.end(self._buffer)
        self._put_barrier(_HOST, _HOST_READS)
        check("vkEndCommandBuffer", api().lib.vkEndCommandBuffer(self._buffer))
        return self
