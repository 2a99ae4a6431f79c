"""What a driver has made of kernels, kept on disk beside the programs that were compiled.

An entry belongs to the kernels of a program, what they were checked for, a device and a version of its
driver. Its checksum is that of the cache (`runtime/cache.py`), and its header is compared with the device
before the driver sees it: a driver may crash on what it has not written itself.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from openinfer.runtime.cache import About, Cache, cache_key
from openinfer.runtime.devices.vulkan.driver import DriverIdentity, PhysicalDevice, api
from openinfer.runtime.options import Options

HEADER: Final = struct.Struct("<IIII16s")
"""Its length, its version, vendor, device, and what the driver calls its kind of caches."""
VERSION: Final = 1


def header_of(driver: DriverIdentity) -> bytes:
    """How the data of a driver begins."""
    return HEADER.pack(HEADER.size, VERSION, driver.vendor, driver.device, driver.caches)


def fits(data: bytes, driver: DriverIdentity) -> bool:
    """Whether data may be handed to a driver."""
    return len(data) > HEADER.size and data.startswith(header_of(driver))


class PipelineCache:
    """A cache of the driver, with what the disk has for some kernels."""

    def __init__(self, physical: PhysicalDevice, device: Any, kernels: Sequence[bytes]) -> None:
        self._physical, self._device = physical, device
        driver = physical.driver
        numbers = f"{driver.vendor:x} {driver.device:x} {driver.version:x}"
        uuids = physical.uuid, driver.uuid, driver.caches.hex()
        self._key = cache_key("pipelines of vulkan", numbers, *uuids, *kernels)
        self._cache = Cache.of(Options.from_environment())
        data = self._cache.get(self._key)
        if data is not None and not fits(data, driver):
            self._cache.discard(self._key)
            data = None
        self.found = data is not None
        """Whether the disk had something that these kernels were made with."""
        self._known = len(data or b"")
        self.handle = self._make(data or b"")

    def _make(self, data: bytes) -> Any:
        """A cache with some content, or none where the driver does not want it."""
        vk = api()
        ffi = vk.ffi
        create = ffi.new("VkPipelineCacheCreateInfo *")
        create.sType = vk.VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO
        content = ffi.from_buffer(data)
        create.initialDataSize, create.pInitialData = len(data), content if data else ffi.NULL
        made = ffi.new("VkPipelineCache *")
        result = vk.lib.vkCreatePipelineCache(self._device, create, ffi.NULL, made)
        if result < 0 and data:
            return self._make(b"")
        # Kernels are made without one, too.
        return ffi.NULL if result < 0 else made[0]

    def keep(self) -> None:
        """Writes what has come in since it was read."""
        data = self._data()
        if fits(data, self._physical.driver) and len(data) > self._known:
            about = About(f"kernels as {self._physical.name} runs them")
            self._cache.put(self._key, data, about)

    def _data(self) -> bytes:
        """What the driver has in it; nothing where it does not say."""
        vk = api()
        ffi = vk.ffi
        if self.handle == ffi.NULL:
            return b""
        read, count = vk.lib.vkGetPipelineCacheData, ffi.new("size_t *")
        if read(self._device, self.handle, count, ffi.NULL):
            return b""
        data = ffi.new("char[]", max(1, count[0]))
        # Half of it (VK_INCOMPLETE) is as good as nothing.
        if read(self._device, self.handle, count, data):
            return b""
        return bytes(ffi.buffer(data, count[0]))

    def close(self) -> None:
        """The driver forgets it; the pipelines stay."""
        vk = api()
        vk.lib.vkDestroyPipelineCache(self._device, self.handle, vk.ffi.NULL)
