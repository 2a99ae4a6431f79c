"""The Vulkan loader of this machine: what is missing, the instance, and its devices.

The package `vulkan` gives names, structures and the loader's functions; structures are filled here, since
its wrappers take six times as long, and some of them are wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from openinfer.runtime.devices.description import (
    MOST_INVOCATIONS,
    MOST_SHARED,
    PLAIN,
    SUBGROUPS,
    DeviceDescription,
)
from openinfer.runtime.devices.vulkan.ahead import begin, busy
from openinfer.runtime.devices.vulkan.workgroup_matrices import has_workgroup_matrices
from openinfer.runtime.errors import OpenInferError, UnsupportedError
from openinfer.runtime.locks import after_fork, new_lock
from openinfer.runtime.options import vulkan_device, vulkan_validation
from openinfer.runtime.spirv.check_limits import Limits

PACKAGE = "the package `vulkan` is not installed"
HINT = "pip install 'openinfer[vulkan]', and a driver: `apt-get install libvulkan1` and that of the GPU"
CHOICE = "OPENINFER_VULKAN_DEVICE"
"""Which device plain `vulkan` means: a number, a part of the name, or a UUID."""

_NEEDED = (1, 3)
"""The version of Vulkan that devices have."""
_API = _NEEDED[0] << 22 | _NEEDED[1] << 12
_KINDS = ("other", "integrated GPU", "discrete GPU", "virtual GPU", "CPU")
_BASIC, _SHUFFLE = 1, 16
"""Bits of what a subgroup can do."""
_COMPUTE = 32
_COMPUTES = 2
"""The bit of queues that compute."""
MATRICES = "VK_KHR_cooperative_matrix"
_F16, _F32, _SUBGROUP = 0, 1, 3
"""Component types and the scope of matrices."""
_making = new_lock()


class DriverIdentity(NamedTuple):
    """What a driver has made of kernels, another one may not be given."""

    vendor: int = 0
    device: int = 0
    version: int = 0
    uuid: str = ""
    caches: bytes = bytes(16)
    """`pipelineCacheUUID`."""


@dataclass(frozen=True)
class PhysicalDevice:
    """A device of a driver."""

    number: int
    handle: Any
    name: str
    kind: str
    """"discrete GPU", "CPU" (a driver that computes on the processor), …"""
    api: tuple[int, int, int]
    uuid: str
    limits: Limits
    """What a kernel may ask for."""
    largest_binding: int
    """The most bytes of a buffer that a kernel is given (`maxStorageBufferRange`)."""
    alignment: int
    """Where a buffer that a kernel is given may begin (`minStorageBufferOffsetAlignment`)."""
    description: DeviceDescription = PLAIN
    """What kernels may use of it."""
    largest_allocation: int = 1 << 30
    """The most bytes of a piece of memory, and of a buffer (`maxMemoryAllocationSize`, `maxBufferSize`)."""
    allocations: int = 4096
    """The most pieces of memory at a time (`maxMemoryAllocationCount`)."""
    driver: DriverIdentity = DriverIdentity()

    @property
    def software(self) -> bool:
        """Whether it only computes on the processor."""
        return self.kind == "CPU"


class VulkanFailure(OpenInferError):
    """A call of the driver failed (OI0774); the number is a VkResult."""

    def __init__(self, call: str, result: int) -> None:
        super().__init__(
            "OI0774",
            f"{call}: {_RESULTS.get(result, f'VkResult {result}')}",
            hint=_ROOM if result in OUT_OF_MEMORY else _ANEW,
        )
        self.result = result


_ANEW = (
    "make a new executor: it gets the device anew; "
    "OPENINFER_VULKAN_VALIDATE=1 shows what the driver was asked"
)
_ROOM = "free memory: other programs and processes use the device, too"
_RESULTS = {
    -1: "out of host memory",
    -2: "out of device memory",
    -3: "initialization failed",
    -4: "device lost",
    -5: "memory cannot be mapped",
    -6: "a layer is not present",
    -7: "an extension is not present",
    -8: "a feature is not present",
    -9: "no driver fits",
    -10: "too many objects",
    2: "timeout",
}
OUT_OF_MEMORY = (-1, -2)
DEVICE_LOST, NOT_READY, TIMEOUT = -4, 1, 2


def api() -> Any:
    """The module `vulkan`. Raises UnsupportedError OI0770 where it, or the loader, is missing."""
    try:
        import vulkan
    except ImportError:
        raise UnsupportedError("OI0770", PACKAGE, hint=HINT) from None
    except OSError as error:
        raise UnsupportedError(
            "OI0770", f"there is no Vulkan loader: {error}", hint="apt-get install libvulkan1"
        ) from None
    return vulkan


def check(call: str, result: int) -> None:
    """Raises VulkanFailure for a negative VkResult."""
    if result < 0:
        raise VulkanFailure(call, result)


def text(value: Any) -> str:
    """An array of characters."""
    return api().ffi.string(value).decode(errors="replace")


def number_of(handle: Any) -> int:
    """A handle of the driver, or a pointer, as a number."""
    return int(api().ffi.cast("uintptr_t", handle))


class Instance:
    """The connection of this process to the loader, and the devices behind it."""

    def __init__(self) -> None:
        vk = api()
        ffi, lib = vk.ffi, vk.lib
        validation = vulkan_validation()
        names = [ffi.new("char[]", b"VK_LAYER_KHRONOS_validation")] if validation else []
        listed = ffi.new("char *[]", names) if names else ffi.NULL
        kept: list[Any] = [names, listed]
        application = ffi.new("VkApplicationInfo *")
        application.sType, application.apiVersion = 0, _API
        create = ffi.new("VkInstanceCreateInfo *")
        create.sType, create.pApplicationInfo = 1, application
        if validation == "sync":
            more = ffi.new("VkValidationFeaturesEXT *")
            more.sType = vk.VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT
            chosen = ffi.new(
                "VkValidationFeatureEnableEXT[]",
                [vk.VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT],
            )
            more.enabledValidationFeatureCount, more.pEnabledValidationFeatures = 1, chosen
            create.pNext = more
            kept += [more, chosen]
        create.enabledLayerCount, create.ppEnabledLayerNames = len(names), listed
        handle = ffi.new("VkInstance *")
        result = lib.vkCreateInstance(create, ffi.NULL, handle)
        del kept
        if result < 0:
            raise UnsupportedError(
                "OI0770",
                f"the Vulkan loader finds no driver ({_RESULTS.get(result, result)})",
                hint="install the driver of the GPU; `vulkaninfo` shows what the loader sees",
            )
        self.handle = handle[0]
        self.devices = self._devices()

    def _devices(self) -> list[PhysicalDevice]:
        vk = api()
        ffi, lib = vk.ffi, vk.lib
        count = ffi.new("uint32_t *")
        check(
            "vkEnumeratePhysicalDevices",
            lib.vkEnumeratePhysicalDevices(self.handle, count, ffi.NULL),
        )
        handles = ffi.new("VkPhysicalDevice[]", max(1, count[0]))
        check(
            "vkEnumeratePhysicalDevices",
            lib.vkEnumeratePhysicalDevices(self.handle, count, handles),
        )
        found = [_described(self.handle, number, handles[number]) for number in range(count[0])]
        return [device for device in found if device.api >= _NEEDED]


def _described(instance: Any, number: int, handle: Any) -> PhysicalDevice:
    vk = api()
    ffi, lib = vk.ffi, vk.lib
    ids = ffi.new("VkPhysicalDeviceIDProperties *")
    ids.sType = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES
    both = ffi.new("VkPhysicalDeviceProperties2 *")
    groups = ffi.new("VkPhysicalDeviceSubgroupProperties *")
    groups.sType = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES
    sizes = ffi.new("VkPhysicalDeviceMaintenance3Properties *")
    sizes.sType = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES
    more = ffi.new("VkPhysicalDeviceMaintenance4Properties *")
    more.sType = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES
    controls = ffi.new("VkPhysicalDeviceFloatControlsProperties *")
    controls.sType = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES
    pushed = ffi.new("VkPhysicalDevicePushDescriptorPropertiesKHR *")
    pushed.sType = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PUSH_DESCRIPTOR_PROPERTIES_KHR
    ids.pNext, groups.pNext, sizes.pNext, more.pNext = groups, sizes, more, controls
    controls.pNext = pushed
    both.sType, both.pNext = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, ids
    lib.vkGetPhysicalDeviceProperties2(handle, both)
    found, limits = both.properties, both.properties.limits
    version, matrices = found.apiVersion, _multiplies_matrices(instance, handle)
    return PhysicalDevice(
        number,
        handle,
        text(found.deviceName),
        _KINDS[found.deviceType] if found.deviceType < len(_KINDS) else "other",
        (version >> 22 & 127, version >> 12 & 1023, version & 4095),
        bytes(ids.deviceUUID).hex(),
        Limits(
            limits.maxComputeWorkGroupInvocations,
            (
                limits.maxComputeWorkGroupSize[0],
                limits.maxComputeWorkGroupSize[1],
                limits.maxComputeWorkGroupSize[2],
            ),
            limits.maxComputeSharedMemorySize,
            min(
                limits.maxPerStageDescriptorStorageBuffers,
                limits.maxDescriptorSetStorageBuffers,
                limits.maxPerStageResources,
                pushed.maxPushDescriptors,
            ),
            limits.maxPushConstantsSize,
        ),
        limits.maxStorageBufferRange,
        limits.minStorageBufferOffsetAlignment,
        DeviceDescription(
            groups.subgroupSize if _exchanges(handle, groups) else 1,
            min(limits.maxComputeSharedMemorySize, MOST_SHARED),
            _invocations(limits),
            matrices,
            limits.minStorageBufferOffsetAlignment,
            _computes_in_f64(handle, controls),
            matrices and has_workgroup_matrices(vk, instance, handle, extensions_of(handle)),
        ),
        min(sizes.maxMemoryAllocationSize, more.maxBufferSize),
        limits.maxMemoryAllocationCount,
        DriverIdentity(
            found.vendorID,
            found.deviceID,
            found.driverVersion,
            bytes(ids.driverUUID).hex(),
            bytes(found.pipelineCacheUUID),
        ),
    )


def _computes_in_f64(handle: Any, controls: Any) -> bool:
    """Whether kernels have f64, of which infinities, NaN and signs of zeros are what they should be."""
    vk = api()
    found = vk.ffi.new("VkPhysicalDeviceFeatures *")
    vk.lib.vkGetPhysicalDeviceFeatures(handle, found)
    return bool(found.shaderFloat64 and controls.shaderSignedZeroInfNanPreserveFloat64)


def _invocations(limits: Any) -> int:
    """The most invocations of a workgroup that lie along its first axis."""
    most = min(limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0])
    return max(PLAIN.invocations, min(most, MOST_INVOCATIONS))


def timestamps_of(handle: Any) -> tuple[int, float]:
    """Bits of a timestamp of the queues that compute, 0 where there are none, and nanoseconds of a tick."""
    vk = api()
    found = vk.ffi.new("VkPhysicalDeviceProperties *")
    vk.lib.vkGetPhysicalDeviceProperties(handle, found)
    bits = queue_family(handle)[1]
    return bits, found.limits.timestampPeriod


def queue_family(handle: Any) -> tuple[int, int]:
    """The first family of queues that compute, and bits of its timestamps; -1 and 0 without one."""
    vk = api()
    ffi, lib = vk.ffi, vk.lib
    count = ffi.new("uint32_t *")
    lib.vkGetPhysicalDeviceQueueFamilyProperties(handle, count, ffi.NULL)
    rows = ffi.new("VkQueueFamilyProperties[]", max(1, count[0]))
    lib.vkGetPhysicalDeviceQueueFamilyProperties(handle, count, rows)
    for number in range(count[0]):
        if rows[number].queueFlags & _COMPUTES:
            return number, rows[number].timestampValidBits
    return -1, 0


def _exchanges(handle: Any, groups: Any) -> bool:
    """Whether the invocations of a subgroup read each other's values, of every type, in kernels."""
    vk = api()
    ffi, lib = vk.ffi, vk.lib
    types = ffi.new("VkPhysicalDeviceShaderSubgroupExtendedTypesFeatures *")
    types.sType = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SUBGROUP_EXTENDED_TYPES_FEATURES
    whole = ffi.new("VkPhysicalDeviceFeatures2 *")
    whole.sType, whole.pNext = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, types
    lib.vkGetPhysicalDeviceFeatures2(handle, whole)
    wanted = _BASIC | _SHUFFLE
    return (
        bool(types.shaderSubgroupExtendedTypes)
        and groups.subgroupSize in SUBGROUPS
        and bool(groups.supportedStages & _COMPUTE)
        and groups.supportedOperations & wanted == wanted
    )


def extensions_of(handle: Any) -> set[str]:
    """The extensions of a device."""
    vk = api()
    ffi, lib = vk.ffi, vk.lib
    count = ffi.new("uint32_t *")
    ask, name = lib.vkEnumerateDeviceExtensionProperties, "vkEnumerateDeviceExtensionProperties"
    check(name, ask(handle, ffi.NULL, count, ffi.NULL))
    rows = ffi.new("VkExtensionProperties[]", max(1, count[0]))
    check(name, ask(handle, ffi.NULL, count, rows))
    return {text(rows[n].extensionName) for n in range(count[0])}


def _multiplies_matrices(instance: Any, handle: Any) -> bool:
    """Whether a subgroup multiplies 16 x 16 matrices of f16 and adds them up in f32."""
    if MATRICES not in extensions_of(handle):
        return False
    vk = api()
    ffi, name = vk.ffi, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"
    ask = vk.lib.vkGetInstanceProcAddr(instance, name.encode())
    if ask == ffi.NULL:
        return False
    ask = ffi.cast(f"PFN_{name}", ask)
    count = ffi.new("uint32_t *")
    check(name, ask(handle, count, ffi.NULL))
    rows = ffi.new("VkCooperativeMatrixPropertiesKHR[]", max(1, count[0]))
    for row in rows:
        row.sType = vk.VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR
    check(name, ask(handle, count, rows))
    return any(
        (row.MSize, row.NSize, row.KSize) == (16, 16, 16)
        and (row.AType, row.BType, row.CType, row.ResultType) == (_F16, _F16, _F32, _F32)
        and row.scope == _SUBGROUP
        for row in rows[0 : count[0]]
    )


@cache
def _instance() -> Instance:
    return Instance()


after_fork(_instance.cache_clear)


def instance() -> Instance:
    """The instance of this process. Raises UnsupportedError OI0770 where Vulkan is not there."""
    with _making:
        return _instance()


def expect_instance() -> None:
    """Somebody will ask for the instance soon: it is made meanwhile."""
    if not _instance.cache_info().currsize and not busy():
        begin(instance)


def choose(wanted: str = "") -> PhysicalDevice:
    """The device of a number, a part of a name, or a UUID; without one what OPENINFER_VULKAN_DEVICE says, or
    the first that is no processor.

    Raises UnsupportedError OI0770 where there is none, OI0771 for a name of none.
    """
    devices = instance().devices
    wanted = (wanted or vulkan_device()).strip()
    listed = "; ".join(f"{d.number}: {d.name} ({d.kind})" for d in devices) or "none"
    if not wanted:
        found = [device for device in devices if not device.software]
        if not found:
            raise UnsupportedError(
                "OI0770",
                f"no GPU has a Vulkan driver; devices: {listed}",
                hint=f"{CHOICE}=0, or `vulkan:0`, takes a device that computes on the processor",
            )
        return found[0]
    for device in devices:
        if _is_called(device, wanted):
            return device
    raise UnsupportedError(
        "OI0771", f"no Vulkan device is called '{wanted}'", hint=f"the devices are: {listed}"
    )


def _is_called(device: PhysicalDevice, wanted: str) -> bool:
    """Whether a name means a device. Figures alone are a number, never a part of a name."""
    plain = wanted.lower().replace("-", "")
    if plain == device.uuid:
        return True
    if wanted.isdecimal():
        return int(wanted) == device.number
    return wanted.lower() in device.name.lower()
