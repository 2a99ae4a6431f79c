"""Commands for a device: recorded one behind the other, submitted together, waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openinfer.runtime.devices.vulkan.driver import DEVICE_LOST, VulkanFailure, api, check
from openinfer.runtime.devices.vulkan.hazards import Hazards, Range
from openinfer.runtime.devices.vulkan.logical import Allocation, Kernel, LogicalDevice

SECONDS = 60
"""How long a submission may take until it counts as hung."""


class Commands:
    """A command buffer of one owner: no two threads use it at once."""

    def __init__(self, device: LogicalDevice) -> None:
        self.device = device
        vk = api()
        ffi, lib = vk.ffi, vk.lib
        pool = ffi.new("VkCommandPoolCreateInfo *")
        pool.sType = vk.VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO
        pool.queueFamilyIndex, pool.flags = device.family, 2
        self._pool = ffi.new("VkCommandPool *")
        make = lib.vkCreateCommandPool
        check("vkCreateCommandPool", make(device.handle, pool, ffi.NULL, self._pool))
        request = ffi.new("VkCommandBufferAllocateInfo *")
        request.sType = vk.VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO
        request.commandPool, request.commandBufferCount = self._pool[0], 1
        self._buffer = ffi.new("VkCommandBuffer *")
        check(
            "vkAllocateCommandBuffers",
            lib.vkAllocateCommandBuffers(device.handle, request, self._buffer),
        )
        fence = ffi.new("VkFenceCreateInfo *")
        fence.sType = vk.VK_STRUCTURE_TYPE_FENCE_CREATE_INFO
        self._fence = ffi.new("VkFence *")
        check("vkCreateFence", lib.vkCreateFence(device.handle, fence, ffi.NULL, self._fence))
        self._begin = ffi.new("VkCommandBufferBeginInfo *")
        self._begin.sType = vk.VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO
        self._begin.flags = 1
        self._submit = ffi.new("VkSubmitInfo *")
        self._submit.sType = vk.VK_STRUCTURE_TYPE_SUBMIT_INFO
        self._submit.commandBufferCount, self._submit.pCommandBuffers = 1, self._buffer
        self._barrier = ffi.new("VkMemoryBarrier *")
        self._barrier.sType = vk.VK_STRUCTURE_TYPE_MEMORY_BARRIER
        # Kernels and copies, what they read and write, and what the host has written.
        self._barrier.srcAccessMask = 0x20 | 0x40 | 0x800 | 0x1000 | 0x4000
        self._barrier.dstAccessMask = 0x20 | 0x40 | 0x800 | 0x1000 | 0x2000
        self._stages = 0x800 | 0x1000 | 0x4000
        self._region = ffi.new("VkBufferCopy *")
        self._push = ffi.new("uint32_t *")
        self._infos: dict[int, tuple[Any, Any]] = {}
        self._hazards = Hazards()
        self.count = 0
        """Commands since the last submission."""

    def _ready(self, ranges: Sequence[Range]) -> None:
        """Begins, and puts a barrier where the command has to wait."""
        vk = api()
        lib = vk.lib
        if not self.count:
            check("vkBeginCommandBuffer", lib.vkBeginCommandBuffer(self._buffer[0], self._begin))
        self.count += 1
        if self._hazards.needs_barrier(ranges):
            self._wait_for_all()

    def _wait_for_all(self) -> None:
        vk = api()
        null, stages = vk.ffi.NULL, self._stages
        vk.lib.vkCmdPipelineBarrier(
            self._buffer[0], stages, stages, 0, 1, self._barrier, 0, null, 0, null
        )

    def copy(
        self, source: Allocation, first: int, target: Allocation, start: int, nbytes: int
    ) -> None:
        """Bytes of one buffer to another."""
        if not nbytes:
            return
        self._ready(
            [
                Range(source, first, first + nbytes, False),
                Range(target, start, start + nbytes, True),
            ]
        )
        self._region.srcOffset, self._region.dstOffset, self._region.size = first, start, nbytes
        api().lib.vkCmdCopyBuffer(self._buffer[0], source.buffer, target.buffer, 1, self._region)

    def dispatch(
        self, kernel: Kernel, ranges: Sequence[Range], first: int, groups: tuple[int, int, int]
    ) -> None:
        """Starts a kernel on the buffers of some ranges; `first` is its push constant."""
        vk = api()
        lib = vk.lib
        self._ready(ranges)
        buffer = self._buffer[0]
        infos, writes = self._rows(len(ranges))
        for number, one in enumerate(ranges):
            info = infos[number]
            allocation = one.buffer
            assert isinstance(allocation, Allocation)
            info.buffer, info.offset = allocation.buffer, one.start
            info.range = max(4, one.stop - one.start)
        lib.vkCmdBindPipeline(buffer, 1, kernel.pipeline)
        self.device.push_descriptors(buffer, 1, kernel.layout, 0, len(ranges), writes)
        self._push[0] = first
        lib.vkCmdPushConstants(buffer, kernel.layout, 0x20, 0, 4, self._push)
        lib.vkCmdDispatch(buffer, *groups)

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

    def submit_and_wait(self) -> None:
        """Runs what was recorded, and waits for its end.

        Raises VulkanFailure for a lost device, and for work that does not end.
        """
        if not self.count:
            return
        self.count = 0
        self._hazards = Hazards()
        try:
            self._run()
        except VulkanFailure as failure:
            if failure.result == DEVICE_LOST:
                self.device.lose()
            raise

    def _run(self) -> None:
        vk = api()
        lib, device = vk.lib, self.device
        # The host reads what was written.
        self._wait_for_all()
        check("vkEndCommandBuffer", lib.vkEndCommandBuffer(self._buffer[0]))
        with device.queue_lock:
            check("vkQueueSubmit", lib.vkQueueSubmit(device.queue, 1, self._submit, self._fence[0]))
        result = lib.vkWaitForFences(device.handle, 1, self._fence, 1, SECONDS * 10**9)
        if result == 2:
            raise VulkanFailure(f"work of more than {SECONDS} s", DEVICE_LOST)
        check("vkWaitForFences", result)
        check("vkResetFences", lib.vkResetFences(device.handle, 1, self._fence))

    def __del__(self) -> None:
        device = getattr(self, "device", None)
        if device is not None and device.alive:
            vk = api()
            vk.lib.vkDestroyFence(device.handle, self._fence[0], vk.ffi.NULL)
            vk.lib.vkDestroyCommandPool(device.handle, self._pool[0], vk.ffi.NULL)
