"""Buffers of a device and the memory that they lie in."""

from __future__ import annotations

from typing import Any, NamedTuple

from openinfer.runtime.devices.vulkan.chunks import Chunk, Chunks, Part
from openinfer.runtime.devices.vulkan.driver import (
    OUT_OF_MEMORY,
    PhysicalDevice,
    VulkanFailure,
    api,
    check,
)

DEVICE_LOCAL, HOST_VISIBLE, HOST_COHERENT, HOST_CACHED = 1, 2, 4, 8
_STORAGE = 0x20 | 0x01 | 0x02 | 0x100
"""A buffer that kernels use, that copies read and write, and that counts of workgroups come from."""
_WHOLE = 2**64 - 1


class Buffer(NamedTuple):
    """A buffer, and the part of the device's memory that it is bound to."""

    handle: Any
    part: Part


class Buffers:
    """Makes the buffers of a device."""

    def __init__(self, physical: PhysicalDevice, device: Any) -> None:
        self.physical, self._device = physical, device
        self.types = self._memory_types()
        self.chunks = Chunks(self._allocate, self._release)

    def _memory_types(self) -> list[int]:
        vk = api()
        found = vk.ffi.new("VkPhysicalDeviceMemoryProperties *")
        vk.lib.vkGetPhysicalDeviceMemoryProperties(self.physical.handle, found)
        return [found.memoryTypes[n].propertyFlags for n in range(found.memoryTypeCount)]

    def make(self, nbytes: int, kinds: tuple[int, ...]) -> Buffer:
        """A buffer in memory of the first of `kinds` that there is.

        Raises MemoryError, and says where a limit of the device is the reason.
        """
        largest = self.physical.largest_allocation
        if nbytes > largest:
            raise MemoryError(
                f"{self.physical.name} gives {largest} bytes in one piece at most, not {nbytes}"
            )
        handle = self._make_handle(nbytes)
        try:
            return Buffer(handle, self._bound(handle, nbytes, kinds))
        except BaseException:
            self._destroy(handle)
            raise

    def _make_handle(self, nbytes: int) -> Any:
        vk = api()
        create = vk.ffi.new("VkBufferCreateInfo *")
        create.sType, create.size = vk.VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, max(nbytes, 4)
        create.usage = _STORAGE
        made = vk.ffi.new("VkBuffer *")
        try:
            make = vk.lib.vkCreateBuffer
            check("vkCreateBuffer", make(self._device, create, vk.ffi.NULL, made))
        except VulkanFailure as failure:
            raise self._no_memory(nbytes, failure) from None
        return made[0]

    def _bound(self, handle: Any, nbytes: int, kinds: tuple[int, ...]) -> Part:
        """The memory that a buffer is bound to now."""
        vk = api()
        needs = vk.ffi.new("VkMemoryRequirements *")
        vk.lib.vkGetBufferMemoryRequirements(self._device, handle, needs)
        last: MemoryError | None = None
        for kind in kinds:
            for number, flags in enumerate(self.types):
                if flags & kind != kind or not needs.memoryTypeBits >> number & 1:
                    continue
                try:
                    part = self.chunks.take(number, needs.size, needs.alignment)
                except MemoryError as error:
                    last = error
                    continue
                return self._bind(handle, part)
        raise last or self._no_memory(nbytes, None)

    def _bind(self, handle: Any, part: Part) -> Part:
        lib, memory = api().lib, part.chunk.memory
        try:
            bind = lib.vkBindBufferMemory
            check("vkBindBufferMemory", bind(self._device, handle, memory, part.start))
        except VulkanFailure as failure:
            self.chunks.give(part)
            raise self._no_memory(part.nbytes, failure) from None
        return part

    def _no_memory(self, nbytes: int, failure: VulkanFailure | None) -> Exception:
        if failure is None or failure.result in OUT_OF_MEMORY:
            return MemoryError(f"{self.physical.name} has no {nbytes} bytes left")
        return failure

    def free(self, buffer: Buffer) -> None:
        """Gives a buffer back."""
        self._destroy(buffer.handle)
        self.chunks.give(buffer.part)

    def end(self) -> None:
        """Gives all memory back: nobody has a buffer any more."""
        self.chunks.end()

    def _destroy(self, handle: Any) -> None:
        vk = api()
        vk.lib.vkDestroyBuffer(self._device, handle, vk.ffi.NULL)

    # Chunks

    def _allocate(self, kind: int, nbytes: int) -> Chunk:
        """See `Chunks`. Raises MemoryError, VulkanFailure."""
        most = self.physical.allocations
        if len(self.chunks.chunks) >= most:
            raise MemoryError(f"{self.physical.name} gives {most} pieces of memory at most")
        vk = api()
        request = vk.ffi.new("VkMemoryAllocateInfo *")
        request.sType = vk.VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO
        request.allocationSize, request.memoryTypeIndex = nbytes, kind
        made = vk.ffi.new("VkDeviceMemory *")
        try:
            allocate = vk.lib.vkAllocateMemory
            check("vkAllocateMemory", allocate(self._device, request, vk.ffi.NULL, made))
        except VulkanFailure as failure:
            raise self._no_memory(nbytes, failure) from None
        try:
            return Chunk(made[0], kind, nbytes, self._map(made[0], self.types[kind]))
        except VulkanFailure as failure:
            vk.lib.vkFreeMemory(self._device, made[0], vk.ffi.NULL)
            raise self._no_memory(nbytes, failure) from None

    def _map(self, memory: Any, flags: int) -> int:
        if not flags & HOST_VISIBLE or not flags & HOST_COHERENT:
            return 0
        vk = api()
        place = vk.ffi.new("void **")
        check("vkMapMemory", vk.lib.vkMapMemory(self._device, memory, 0, _WHOLE, 0, place))
        return int(vk.ffi.cast("uintptr_t", place[0]))

    def _release(self, chunk: Chunk) -> None:
        vk = api()
        vk.lib.vkFreeMemory(self._device, chunk.memory, vk.ffi.NULL)
