"""A device of its own with everything that it offers, for kernels that this project has not made.

Memory that kernels find by address, descriptors that are pushed, one layout for all kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

import numpy as np

from benchmarks.vulkan.chains import Array
from openinfer.runtime.devices.vulkan.driver import (
    PhysicalDevice,
    VulkanFailure,
    api,
    check,
    extensions_of,
    queue_family,
    timestamps_of,
)

WANTED: Final = (
    "VK_KHR_push_descriptor",
    "VK_KHR_cooperative_matrix",
    "VK_NV_cooperative_matrix2",
    "VK_KHR_workgroup_memory_explicit_layout",
)
MATRICES_NV: Final = 1000593000
"""The type of `VkPhysicalDeviceCooperativeMatrix2FeaturesNV`, which the bindings do not know: a head, and
seven features."""
BINDINGS: Final = 4
PUSHED: Final = 128
"""Bytes of push constants: eight words, twelve addresses."""
_USAGE: Final = 0x20 | 0x1 | 0x2 | 0x20000
"""Storage, copies, an address."""
_ADDRESSED: Final = 0x2
_DEVICE_LOCAL, _FOR_HOST = 0x1, 0x2 | 0x4
_COMPUTE, _TRANSFER = 0x800, 0x1000
_READS_AND_WRITES: Final = 0x20 | 0x40 | 0x800 | 0x1000
_STAGE_OF_KERNELS: Final = 0x20
_LAST_STAGE: Final = 0x2000
_PATIENCE: Final = 20 * 10**9
"""Nanoseconds that work may take."""


@dataclass
class Memory:
    """A buffer with memory of its own."""

    buffer: Any
    memory: Any
    nbytes: int
    address: int


@dataclass
class Dispatch:
    """A start of a kernel. It reads memory by address, or as bindings."""

    kernel: Any
    groups: tuple[int, int, int]
    addresses: Sequence[Memory] = ()
    bindings: Sequence[Memory] = ()
    words: Sequence[int] = ()


class RawDevice:
    """Use it in `with`: what was made on it ends there."""

    def __init__(self, physical: PhysicalDevice) -> None:
        self.physical = physical
        self._stack = ExitStack()
        vk = api()
        ffi, lib = vk.ffi, vk.lib
        self.family, _ = queue_family(physical.handle)
        self._period = timestamps_of(physical.handle)[1]
        names = [name for name in WANTED if name in extensions_of(physical.handle)]
        priority = ffi.new("float[]", [1.0])
        queue = ffi.new("VkDeviceQueueCreateInfo *")
        queue.sType = vk.VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO
        queue.queueFamilyIndex, queue.queueCount = self.family, 1
        queue.pQueuePriorities = priority
        features, kept = _all_features(physical, names)
        listed = [ffi.new("char[]", name.encode()) for name in names]
        pointers = ffi.new("char *[]", listed)
        create = ffi.new("VkDeviceCreateInfo *")
        create.sType, create.pNext = vk.VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, features
        create.queueCreateInfoCount, create.pQueueCreateInfos = 1, queue
        create.enabledExtensionCount, create.ppEnabledExtensionNames = len(names), pointers
        self.handle = self._made(
            "VkDevice", lambda made: lib.vkCreateDevice(physical.handle, create, ffi.NULL, made)
        )
        del kept
        self._later(lambda: lib.vkDestroyDevice(self.handle, ffi.NULL))
        found = ffi.new("VkQueue *")
        lib.vkGetDeviceQueue(self.handle, self.family, 0, found)
        self.queue = found[0]
        push = lib.vkGetDeviceProcAddr(self.handle, b"vkCmdPushDescriptorSetKHR")
        self._push = ffi.cast("PFN_vkCmdPushDescriptorSetKHR", push)
        self._make_layout()
        self._make_pool()

    def __enter__(self) -> RawDevice:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, VulkanFailure):
            # Work may go on for ever: what it uses stays.
            self._stack.pop_all()
            return
        api().lib.vkDeviceWaitIdle(self.handle)
        self._stack.close()

    def _later(self, end: Any) -> None:
        self._stack.callback(end)

    def _made(self, kind: str, make: Any) -> Any:
        """The handle that a function of the driver puts where it is told."""
        found = api().ffi.new(f"{kind} *")
        check(kind.replace("Vk", "vkCreate", 1), make(found))
        return found[0]

    def _make_layout(self) -> None:
        vk = api()
        ffi, lib = vk.ffi, vk.lib
        rows = ffi.new("VkDescriptorSetLayoutBinding[]", BINDINGS)
        for number in range(BINDINGS):
            rows[number].binding, rows[number].descriptorCount = number, 1
            rows[number].descriptorType = vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
            rows[number].stageFlags = _STAGE_OF_KERNELS
        create = ffi.new("VkDescriptorSetLayoutCreateInfo *")
        create.sType = vk.VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO
        create.flags = vk.VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR
        create.bindingCount, create.pBindings = BINDINGS, rows
        self._set = self._made(
            "VkDescriptorSetLayout",
            lambda made: lib.vkCreateDescriptorSetLayout(self.handle, create, ffi.NULL, made),
        )
        self._later(lambda: lib.vkDestroyDescriptorSetLayout(self.handle, self._set, ffi.NULL))
        pushed = ffi.new("VkPushConstantRange *")
        pushed.stageFlags, pushed.size = _STAGE_OF_KERNELS, PUSHED
        sets = ffi.new("VkDescriptorSetLayout[]", [self._set])
        whole = ffi.new("VkPipelineLayoutCreateInfo *")
        whole.sType = vk.VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO
        whole.setLayoutCount, whole.pSetLayouts = 1, sets
        whole.pushConstantRangeCount, whole.pPushConstantRanges = 1, pushed
        self._layout = self._made(
            "VkPipelineLayout",
            lambda made: lib.vkCreatePipelineLayout(self.handle, whole, ffi.NULL, made),
        )
        self._later(lambda: lib.vkDestroyPipelineLayout(self.handle, self._layout, ffi.NULL))

    def _make_pool(self) -> None:
        vk = api()
        ffi, lib = vk.ffi, vk.lib
        pool = ffi.new("VkCommandPoolCreateInfo *")
        pool.sType = vk.VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO
        pool.queueFamilyIndex, pool.flags = self.family, 2
        self._pool = self._made(
            "VkCommandPool", lambda made: lib.vkCreateCommandPool(self.handle, pool, ffi.NULL, made)
        )
        self._later(lambda: lib.vkDestroyCommandPool(self.handle, self._pool, ffi.NULL))
        queries = ffi.new("VkQueryPoolCreateInfo *")
        queries.sType = vk.VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO
        queries.queryType, queries.queryCount = vk.VK_QUERY_TYPE_TIMESTAMP, 2
        self._queries = self._made(
            "VkQueryPool", lambda made: lib.vkCreateQueryPool(self.handle, queries, ffi.NULL, made)
        )
        self._later(lambda: lib.vkDestroyQueryPool(self.handle, self._queries, ffi.NULL))
        fence = ffi.new("VkFenceCreateInfo *")
        fence.sType = vk.VK_STRUCTURE_TYPE_FENCE_CREATE_INFO
        self._fence = self._made(
            "VkFence", lambda made: lib.vkCreateFence(self.handle, fence, ffi.NULL, made)
        )
        self._later(lambda: lib.vkDestroyFence(self.handle, self._fence, ffi.NULL))

    # Memory

    def memory(self, nbytes: int, flags: int = _DEVICE_LOCAL) -> Memory:
        """Memory of the device, whatever is in it."""
        vk = api()
        ffi, lib = vk.ffi, vk.lib
        create = ffi.new("VkBufferCreateInfo *")
        create.sType = vk.VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO
        create.size, create.usage = nbytes, _USAGE
        buffer = self._made(
            "VkBuffer", lambda made: lib.vkCreateBuffer(self.handle, create, ffi.NULL, made)
        )
        self._later(lambda: lib.vkDestroyBuffer(self.handle, buffer, ffi.NULL))
        needs = ffi.new("VkMemoryRequirements *")
        lib.vkGetBufferMemoryRequirements(self.handle, buffer, needs)
        addressed = ffi.new("VkMemoryAllocateFlagsInfo *")
        addressed.sType = vk.VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO
        addressed.flags = _ADDRESSED
        allocate = ffi.new("VkMemoryAllocateInfo *")
        allocate.sType, allocate.pNext = vk.VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, addressed
        allocate.allocationSize = needs.size
        allocate.memoryTypeIndex = self._kind(needs.memoryTypeBits, flags)
        memory = self._made(
            "VkDeviceMemory",
            lambda made: lib.vkAllocateMemory(self.handle, allocate, ffi.NULL, made),
        )
        self._later(lambda: lib.vkFreeMemory(self.handle, memory, ffi.NULL))
        check("vkBindBufferMemory", lib.vkBindBufferMemory(self.handle, buffer, memory, 0))
        info = ffi.new("VkBufferDeviceAddressInfo *")
        info.sType = vk.VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO
        info.buffer = buffer
        address = lib.vkGetBufferDeviceAddress(self.handle, info)
        return Memory(buffer, memory, nbytes, address)

    def _kind(self, allowed: int, flags: int) -> int:
        vk = api()
        found = vk.ffi.new("VkPhysicalDeviceMemoryProperties *")
        vk.lib.vkGetPhysicalDeviceMemoryProperties(self.physical.handle, found)
        for number in range(found.memoryTypeCount):
            if allowed >> number & 1 and found.memoryTypes[number].propertyFlags & flags == flags:
                return number
        raise LookupError(f"{self.physical.name} has no memory of the kind {flags}")

    def filled(self, nbytes: int, data: Array) -> Memory:
        """Memory that holds an array, again and again."""
        ffi, lib = api().ffi, api().lib
        found = self.memory(nbytes)
        piece = min(nbytes, data.nbytes)
        with self.part():
            staging = self.memory(piece, _FOR_HOST)
            place = ffi.new("void **")
            check("vkMapMemory", lib.vkMapMemory(self.handle, staging.memory, 0, piece, 0, place))
            ffi.memmove(place[0], np.ascontiguousarray(data).tobytes()[:piece], piece)
            lib.vkUnmapMemory(self.handle, staging.memory)
            commands = self._begin()
            region = ffi.new("VkBufferCopy *")
            for start in range(0, nbytes, piece):
                region.dstOffset, region.size = start, min(piece, nbytes - start)
                lib.vkCmdCopyBuffer(commands, staging.buffer, found.buffer, 1, region)
            self.run(self._end(commands))
        return found

    def read(self, memory: Memory, count: int) -> Array:
        """The first bytes of some memory."""
        ffi, lib = api().ffi, api().lib
        with self.part():
            staging = self.memory(count, _FOR_HOST)
            commands = self._begin()
            region = ffi.new("VkBufferCopy *")
            region.size = count
            lib.vkCmdCopyBuffer(commands, memory.buffer, staging.buffer, 1, region)
            self.run(self._end(commands))
            place = ffi.new("void **")
            check("vkMapMemory", lib.vkMapMemory(self.handle, staging.memory, 0, count, 0, place))
            return np.frombuffer(ffi.buffer(place[0], count), np.uint8).copy()

    def part(self) -> ExitStack:
        """What is made within ends with it."""
        outer, inner = self._stack, ExitStack()
        self._stack = inner

        def end() -> None:
            self._stack = outer

        inner.callback(end)
        return inner

    # Kernels

    def kernel(self, words: bytes, entry: str = "main") -> Any:
        """A pipeline."""
        vk = api()
        ffi, lib = vk.ffi, vk.lib
        code = ffi.new("uint32_t[]", len(words) // 4)
        ffi.memmove(code, words, len(words))
        shader = ffi.new("VkShaderModuleCreateInfo *")
        shader.sType = vk.VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO
        shader.codeSize, shader.pCode = len(words), code
        module = self._made(
            "VkShaderModule",
            lambda made: lib.vkCreateShaderModule(self.handle, shader, ffi.NULL, made),
        )
        name = ffi.new("char[]", entry.encode())
        create = ffi.new("VkComputePipelineCreateInfo *")
        create.sType = vk.VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO
        create.layout = self._layout
        create.stage.sType = vk.VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO
        create.stage.stage, create.stage.module = _STAGE_OF_KERNELS, module
        create.stage.pName = name
        try:
            pipeline = self._made(
                "VkPipeline",
                lambda made: lib.vkCreateComputePipelines(
                    self.handle, ffi.NULL, 1, create, ffi.NULL, made
                ),
            )
        finally:
            lib.vkDestroyShaderModule(self.handle, module, ffi.NULL)
        self._later(lambda: lib.vkDestroyPipeline(self.handle, pipeline, ffi.NULL))
        return pipeline

    def record(self, dispatches: Sequence[Dispatch]) -> Any:
        """Commands with a barrier behind each kernel, and a timestamp at both ends."""
        lib = api().lib
        commands = self._begin()
        lib.vkCmdResetQueryPool(commands, self._queries, 0, 2)
        self._barrier(commands)
        lib.vkCmdWriteTimestamp(commands, _LAST_STAGE, self._queries, 0)
        for one in dispatches:
            lib.vkCmdBindPipeline(commands, 1, one.kernel)
            self._give(commands, one)
            lib.vkCmdDispatch(commands, *one.groups)
            self._barrier(commands)
        lib.vkCmdWriteTimestamp(commands, _LAST_STAGE, self._queries, 1)
        return self._end(commands)

    def _give(self, commands: Any, one: Dispatch) -> None:
        vk = api()
        ffi, lib = vk.ffi, vk.lib
        if one.bindings:
            infos = ffi.new("VkDescriptorBufferInfo[]", len(one.bindings))
            writes = ffi.new("VkWriteDescriptorSet[]", len(one.bindings))
            for number, memory in enumerate(one.bindings):
                infos[number].buffer, infos[number].range = memory.buffer, memory.nbytes
                writes[number].sType = vk.VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET
                writes[number].dstBinding, writes[number].descriptorCount = number, 1
                writes[number].descriptorType = vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
                writes[number].pBufferInfo = infos + number
            self._push(commands, 1, self._layout, 0, len(one.bindings), writes)
        if one.addresses or one.words:
            pushed = np.zeros(PUSHED // 4, np.uint32)
            pushed[: len(one.words)] = one.words
            for number, memory in enumerate(one.addresses):
                pushed[8 + 2 * number] = memory.address & 0xFFFFFFFF
                pushed[9 + 2 * number] = memory.address >> 32
            data = ffi.from_buffer(pushed)
            lib.vkCmdPushConstants(commands, self._layout, _STAGE_OF_KERNELS, 0, PUSHED, data)

    def _begin(self) -> Any:
        vk = api()
        ffi, lib = vk.ffi, vk.lib
        request = ffi.new("VkCommandBufferAllocateInfo *")
        request.sType = vk.VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO
        request.commandPool, request.commandBufferCount = self._pool, 1
        commands = self._made(
            "VkCommandBuffer", lambda made: lib.vkAllocateCommandBuffers(self.handle, request, made)
        )
        begin = ffi.new("VkCommandBufferBeginInfo *")
        begin.sType = vk.VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO
        check("vkBeginCommandBuffer", lib.vkBeginCommandBuffer(commands, begin))
        return commands

    def _barrier(self, commands: Any) -> None:
        vk = api()
        barrier = vk.ffi.new("VkMemoryBarrier *")
        barrier.sType = vk.VK_STRUCTURE_TYPE_MEMORY_BARRIER
        barrier.srcAccessMask = barrier.dstAccessMask = _READS_AND_WRITES
        stages, null = _COMPUTE | _TRANSFER, vk.ffi.NULL
        wait = vk.lib.vkCmdPipelineBarrier
        wait(commands, stages, stages, 0, 1, barrier, 0, null, 0, null)

    def _end(self, commands: Any) -> Any:
        check("vkEndCommandBuffer", api().lib.vkEndCommandBuffer(commands))
        return commands

    def run(self, commands: Any) -> None:
        """Submits commands and waits for them. Raises VulkanFailure, also for what does not end."""
        vk = api()
        ffi, lib = vk.ffi, vk.lib
        submit = ffi.new("VkSubmitInfo *")
        submit.sType = vk.VK_STRUCTURE_TYPE_SUBMIT_INFO
        listed = ffi.new("VkCommandBuffer[]", [commands])
        submit.commandBufferCount, submit.pCommandBuffers = 1, listed
        check("vkQueueSubmit", lib.vkQueueSubmit(self.queue, 1, submit, self._fence))
        fences = ffi.new("VkFence[]", [self._fence])
        result = lib.vkWaitForFences(self.handle, 1, fences, 1, _PATIENCE)
        check("vkWaitForFences", -4 if result > 0 else result)
        check("vkResetFences", lib.vkResetFences(self.handle, 1, fences))

    def seconds(self, commands: Any) -> float:
        """How long the device took for commands that `record` made."""
        vk = api()
        self.run(commands)
        found = vk.ffi.new("uint64_t[]", 2)
        read = vk.lib.vkGetQueryPoolResults
        given = (self._queries, 0, 2, 16, found, 8, 1)
        check("vkGetQueryPoolResults", read(self.handle, *given))
        return (found[1] - found[0]) * self._period * 1e-9


def _all_features(physical: PhysicalDevice, names: Sequence[str]) -> tuple[Any, Any]:
    """Every feature that the device has, of those that kernels may need: a chain of structures, and what
    keeps it alive."""
    vk = api()
    ffi = vk.ffi
    kinds = ["VULKAN_1_1", "VULKAN_1_2", "VULKAN_1_3"]
    types = ["Vulkan11", "Vulkan12", "Vulkan13"]
    if "VK_KHR_cooperative_matrix" in names:
        kinds.append("COOPERATIVE_MATRIX")
        types.append("CooperativeMatrix")
    if "VK_KHR_workgroup_memory_explicit_layout" in names:
        kinds.append("WORKGROUP_MEMORY_EXPLICIT_LAYOUT")
        types.append("WorkgroupMemoryExplicitLayout")
    chained: list[Any] = []
    for kind, name in zip(kinds, types, strict=True):
        end = "" if name.startswith("Vulkan") else "KHR"
        one = ffi.new(f"VkPhysicalDevice{name}Features{end} *")
        end = f"_{end}" if end else ""
        one.sType = getattr(vk, f"VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_{kind}_FEATURES{end}")
        chained.append(one)
    whole = ffi.new("VkPhysicalDeviceFeatures2 *")
    whole.sType = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2
    for before, one in zip([whole, *chained], chained, strict=False):
        before.pNext = one
    if "VK_NV_cooperative_matrix2" in names:
        # Type, the next one, seven features: as the C structure lies in memory.
        head = np.zeros(6, np.uint64)
        head[0] = MATRICES_NV
        matrices = ffi.from_buffer(head)
        chained[-1].pNext = ffi.cast("void *", matrices)
        chained.append((head, matrices))
    vk.lib.vkGetPhysicalDeviceFeatures2(physical.handle, whole)
    # Checks of every access, which nobody pays for elsewhere.
    whole.features.robustBufferAccess = chained[2].robustImageAccess = 0
    return whole, chained
