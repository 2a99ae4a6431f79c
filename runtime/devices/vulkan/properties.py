"""What `openinfer devices` shows of a Vulkan device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openinfer.runtime.devices.description import DeviceDescription
from openinfer.runtime.devices.vulkan.driver import PhysicalDevice, api, text, timestamps_of

_DEVICE_LOCAL = 1


def facts_of(device: PhysicalDevice) -> Mapping[str, str]:
    """Name, driver, memory, and what kernels may use of it."""
    description = device.description
    return {
        "name": device.name,
        "kind": device.kind,
        "api": ".".join(map(str, device.api)),
        "driver": driver_of(device.handle),
        "uuid": device.uuid,
        "memory": _memory(device.handle),
        "numbers of kernels": ", ".join(["f32", "i32", *_numbers(device.handle)]),
        "subgroup": f"{description.subgroup} invocations",
        "shared memory": f"{description.shared_memory} bytes",
        "workgroup": f"{description.invocations} invocations",
        "matrices": _matrices(description),
        "timestamps": _timestamps(device.handle),
        "largest buffer of a kernel": f"{device.largest_binding} bytes",
    }


def _matrices(description: DeviceDescription) -> str:
    if not description.matrices:
        return "none"
    more = ", also of a workgroup" if description.workgroup_matrices else ""
    return f"16 x 16 of f16, sums in f32{more}"


def driver_of(handle: Any) -> str:
    """The driver and its version, for people."""
    vk = api()
    ffi = vk.ffi
    driver = ffi.new("VkPhysicalDeviceDriverProperties *")
    driver.sType = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES
    whole = ffi.new("VkPhysicalDeviceProperties2 *")
    whole.sType, whole.pNext = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, driver
    vk.lib.vkGetPhysicalDeviceProperties2(handle, whole)
    return f"{text(driver.driverName)} {text(driver.driverInfo)}".strip()


def _timestamps(handle: Any) -> str:
    """Of the queues that compute. Without them a trace has the times of launches and waits."""
    bits, period = timestamps_of(handle)
    return f"{bits} bits, {period:g} ns" if bits else "none"


def _memory(handle: Any) -> str:
    vk = api()
    found = vk.ffi.new("VkPhysicalDeviceMemoryProperties *")
    vk.lib.vkGetPhysicalDeviceMemoryProperties(handle, found)
    heaps = [found.memoryHeaps[number] for number in range(found.memoryHeapCount)]
    own = sum(heap.size for heap in heaps if heap.flags & _DEVICE_LOCAL)
    others = sum(heap.size for heap in heaps if not heap.flags & _DEVICE_LOCAL)
    parts = [f"{own / 2**30:.1f} GiB of the device"]
    if others:
        parts.append(f"{others / 2**30:.1f} GiB of the host")
    return ", ".join(parts)


def _numbers(handle: Any) -> list[str]:
    """Numbers beside those of 32 bits, which every device has."""
    vk = api()
    ffi = vk.ffi
    small = ffi.new("VkPhysicalDeviceShaderFloat16Int8Features *")
    small.sType = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES
    whole = ffi.new("VkPhysicalDeviceFeatures2 *")
    whole.sType, whole.pNext = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, small
    vk.lib.vkGetPhysicalDeviceFeatures2(handle, whole)
    there = {
        "f16": small.shaderFloat16,
        "f64": whole.features.shaderFloat64,
        "i8": small.shaderInt8,
        "i16": whole.features.shaderInt16,
        "i64": whole.features.shaderInt64,
    }
    return [name for name, has in there.items() if has]
