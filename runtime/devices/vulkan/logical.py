"""A device that is in use: its queue, its memory, its kernels."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from openinfer.runtime.devices.vulkan.ahead import begin
from openinfer.runtime.devices.vulkan.buffers import HOST_CACHED, Buffer, Buffers
from openinfer.runtime.devices.vulkan.driver import (
    MATRICES,
    PhysicalDevice,
    api,
    check,
    choose,
    extensions_of,
    number_of,
    queue_family,
    timestamps_of,
)
from openinfer.runtime.devices.vulkan.kernels import Kernels
from openinfer.runtime.devices.vulkan.lifetime import Lifetime
from openinfer.runtime.devices.vulkan.native import native_device
from openinfer.runtime.devices.vulkan.workgroup_matrices import (
    WORKGROUP_MATRICES,
    wanted_features,
)
from openinfer.runtime.errors import UnsupportedError
from openinfer.runtime.locks import after_fork, new_lock

EXTENSIONS = ("VK_KHR_push_descriptor",)
"""What kernels are started with; every driver of a desktop GPU has it."""

_MAKING = new_lock()
_MADE: dict[int, LogicalDevice] = {}
"""By number: a driver may be listed twice, with the same UUID."""
_HANGING: list[LogicalDevice] = []
"""Those that were given up before their work had ended."""
_ALL: weakref.WeakSet[LogicalDevice] = weakref.WeakSet()


class Allocation:
    """A buffer with memory of its own; `mapped` is its address in this process, or 0. `readable`: there, and
    as quickly read as the host's own memory."""

    _token: int | None = None
    _made: Buffer | None = None

    def __init__(self, device: LogicalDevice, nbytes: int, kinds: tuple[int, ...]) -> None:
        self.device, self.nbytes = device, nbytes
        self._token = device.lifetime.hold()
        self._made = device.buffers.make(nbytes, kinds)
        self.buffer: Any = self._made.handle
        self.number = number_of(self.buffer)
        part = self._made.part
        self.mapped = part.mapped
        self.readable = bool(part.mapped and device.buffers.types[part.chunk.kind] & HOST_CACHED)

    def __del__(self) -> None:
        if self._token is not None:
            buffers, made = self.device.buffers, self._made
            self.device.lifetime.release(self._token, lambda: made and buffers.free(made))


class LogicalDevice:
    """One queue of a device that computes. Submissions take `queue_lock`."""

    def __init__(self, physical: PhysicalDevice) -> None:
        self.physical = physical
        vk = api()
        ffi, lib = vk.ffi, vk.lib
        self.family, _ = queue_family(physical.handle)
        if self.family < 0:
            raise UnsupportedError("OI0770", f"{physical.name} has no queue that computes")
        self.timestamps = timestamps_of(physical.handle)
        """Bits of a timestamp, 0 where there are none, and nanoseconds of a tick."""
        priority = ffi.new("float[]", [1.0])
        queue = ffi.new("VkDeviceQueueCreateInfo *")
        queue.sType = vk.VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO
        queue.queueFamilyIndex, queue.queueCount = self.family, 1
        queue.pQueuePriorities = priority
        names = [ffi.new("char[]", name.encode()) for name in self._extensions()]
        listed = ffi.new("char *[]", names)
        features, kept = self._features()
        create = ffi.new("VkDeviceCreateInfo *")
        create.sType, create.pNext = vk.VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, features
        create.queueCreateInfoCount, create.pQueueCreateInfos = 1, queue
        create.enabledExtensionCount, create.ppEnabledExtensionNames = len(names), listed
        handle = ffi.new("VkDevice *")
        check("vkCreateDevice", lib.vkCreateDevice(physical.handle, create, ffi.NULL, handle))
        del kept
        self.handle = handle[0]
        found = ffi.new("VkQueue *")
        lib.vkGetDeviceQueue(self.handle, self.family, 0, found)
        self.queue = found[0]
        self.native = native_device(self.handle, self.queue)
        """What machine code knows of it, where there is any."""
        self.queue_lock = nullcontext() if self.native is not None else threading.Lock()
        _ALL.add(self)
        self.lifetime = Lifetime(physical.name, self._end)
        self.buffers = Buffers(physical, self.handle)
        self.push_descriptors = lib_function(self.handle, "vkCmdPushDescriptorSetKHR")
        self.kernels = Kernels(physical, self.handle, self.lifetime)

    def _extensions(self) -> list[str]:
        there = extensions_of(self.physical.handle)
        for name in EXTENSIONS:
            if name not in there:
                raise UnsupportedError("OI0770", f"{self.physical.name} lacks {name}")
        described = self.physical.description
        more = [MATRICES] if described.matrices else []
        more += [WORKGROUP_MATRICES] if described.workgroup_matrices else []
        return [*EXTENSIONS, *more]

    def _features(self) -> tuple[Any, Any]:
        """What kernels need, as far as the device has it: a chain of structures, and what keeps it alive."""
        vk = api()
        ffi, lib = vk.ffi, vk.lib
        narrow = ffi.new("VkPhysicalDevice8BitStorageFeatures *")
        narrow.sType = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES
        half = ffi.new("VkPhysicalDevice16BitStorageFeatures *")
        half.sType, half.pNext = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES, narrow
        small = ffi.new("VkPhysicalDeviceShaderFloat16Int8Features *")
        small.sType = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES
        small.pNext = half
        groups = ffi.new("VkPhysicalDeviceShaderSubgroupExtendedTypesFeatures *")
        groups.sType = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SUBGROUP_EXTENDED_TYPES_FEATURES
        groups.pNext = small
        # Every device of version 1.3 has it.
        dots = ffi.new("VkPhysicalDeviceShaderIntegerDotProductFeatures *")
        dots.sType = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES
        dots.pNext = groups
        all_of = ffi.new("VkPhysicalDeviceFeatures2 *")
        all_of.sType, all_of.pNext = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, dots
        lib.vkGetPhysicalDeviceFeatures2(self.physical.handle, all_of)
        there = (
            narrow.storageBuffer8BitAccess,
            half.storageBuffer16BitAccess,
            small.shaderFloat16,
            small.shaderInt8,
            all_of.features.shaderInt16,
            all_of.features.shaderInt64,
        )
        if not all(there):
            raise UnsupportedError(
                "OI0770", f"{self.physical.name} lacks numbers of 8, 16 or 64 bits in kernels"
            )
        wanted = ffi.new("VkPhysicalDeviceFeatures *")
        wanted.shaderInt16 = wanted.shaderInt64 = 1
        wanted.shaderFloat64 = int(self.physical.description.f64)
        all_of.features = wanted[0]
        half.uniformAndStorageBuffer16BitAccess = half.storagePushConstant16 = 0
        half.storageInputOutput16 = 0
        narrow.uniformAndStorageBuffer8BitAccess = narrow.storagePushConstant8 = 0
        kept = (dots, groups, small, half, narrow, wanted)
        if not self.physical.description.matrices:
            return all_of, kept
        matrices = ffi.new("VkPhysicalDeviceCooperativeMatrixFeaturesKHR *")
        matrices.sType = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR
        matrices.cooperativeMatrix, matrices.pNext = 1, all_of.pNext
        # Every device of version 1.3 has it, and kernels with matrices ask for it.
        model = ffi.new("VkPhysicalDeviceVulkanMemoryModelFeatures *")
        model.sType = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES
        model.vulkanMemoryModel, model.pNext = 1, matrices
        all_of.pNext = model
        kept = (*kept, matrices, model)
        if self.physical.description.workgroup_matrices:
            all_of.pNext, more = wanted_features(ffi, model)
            kept = (*kept, more)
        return all_of, kept

    def submit(self, submission: Any, fence: Any) -> int:
        """`vkQueueSubmit` for one who has `queue_lock`; gives its VkResult. Where machine code submits, too,
        it has a lock of its own."""
        if self.native is not None:
            return self.native.submit(submission, fence)
        return int(api().lib.vkQueueSubmit(self.queue, 1, submission, fence))

    def lose(self, running: Callable[[], bool] | None = None) -> None:
        """The driver has given it up, or it does not end what it works at, of which `running` says whether it
        goes on. Whoever asks for the device next gets a new one; this one ends with the last of its objects.
        """
        with _MAKING:
            if _MADE.get(self.physical.number) is self:
                del _MADE[self.physical.number]
            if running is not None:
                _HANGING.append(self)
        self.lifetime.lose(running)
        if self.native is not None:
            self.native.lose()
        self.kernels.forget()

    def _end(self) -> None:
        vk = api()
        self.kernels.end()
        self.buffers.end()
        vk.lib.vkDestroyDevice(self.handle, vk.ffi.NULL)


def lib_function(device: Any, name: str) -> Any:
    """A function of an extension."""
    vk = api()
    found = vk.lib.vkGetDeviceProcAddr(device, name.encode())
    return vk.ffi.cast(f"PFN_{name}", found)


def logical_device(wanted: str = "") -> LogicalDevice:
    """The device of a name, as `choose` takes it; one for a process. Raises UnsupportedError."""
    physical = choose(wanted)
    with _MAKING:
        _HANGING[:] = [device for device in _HANGING if not device.lifetime.sweep()]
        if physical.number not in _MADE:
            _MADE[physical.number] = LogicalDevice(physical)
        return _MADE[physical.number]


def expect_device(wanted: str = "") -> None:
    """Somebody will ask for the device of a name soon: the first of a process is made meanwhile."""
    if not _MADE:
        begin(lambda: logical_device(wanted))


def _forget() -> None:
    """The process ends, or is the child of one that has the devices: the driver frees what it has."""
    for device in list(_ALL):
        device.lifetime.over = True
    _MADE.clear()
    _HANGING.clear()


atexit.register(_forget)
after_fork(_forget)
