"""The kernels of a device: words that are checked, and the pipelines that its driver makes of them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from openinfer.runtime.devices.vulkan.driver import OUT_OF_MEMORY, PhysicalDevice, api, check
from openinfer.runtime.devices.vulkan.lifetime import Lifetime
from openinfer.runtime.devices.vulkan.pipeline_cache import PipelineCache
from openinfer.runtime.devices.vulkan.workgroup_matrices import (
    CAPABILITIES_OF_WORKGROUP_MATRICES,
)
from openinfer.runtime.errors import ArtefactError, UnsupportedError
from openinfer.runtime.options import available_cpus
from openinfer.runtime.spirv.check_limits import Interface, check_limits, check_start
from openinfer.runtime.spirv.check_words import check_words
from openinfer.runtime.spirv.instructions import CAPABILITIES
from openinfer.runtime.spirv.words import Module
from openinfer.runtime.version import source_fingerprint

CAPABILITIES_OF_ALL = frozenset(
    {"Shader", "SignedZeroInfNanPreserve", "StorageBuffer8BitAccess", "StorageBuffer16BitAccess"}
    | {"Int8", "Int16", "Int64", "Float16"}
    | {"DotProduct", "DotProductInput4x8Bit"}
)
CAPABILITIES_OF_SUBGROUPS = frozenset({"GroupNonUniform", "GroupNonUniformShuffle"})
CAPABILITIES_OF_MATRICES = frozenset({"CooperativeMatrixKHR", "VulkanMemoryModel"})
CAPABILITIES_OF_F64 = frozenset({"Float64"})
"""What kernels may need of a device, by what it was asked for."""
MOST_THREADS: Final = 8
"""How many threads a driver is asked by at the same time: it takes up to 250 ms for a kernel."""

ANEW: Final = "compile the program on this machine, or with OPENINFER_VULKAN_TIER=scalar"
MOST_KEPT: Final = 1024
"""Kernels that are kept for the programs to come; the first ones go first."""


class Words(NamedTuple):
    """A module, and what has to be known to make a pipeline of it."""

    words: bytes
    bindings: int
    name: str
    """Of its entry."""

    @property
    def key(self) -> bytes:
        """The same for equal modules; they have equal entries."""
        return hashlib.sha256(self.bindings.to_bytes(4, "little") + self.words).digest()


class Kernel:
    """A pipeline, and how it takes its buffers."""

    _token: int | None = None
    pipeline: Any = None

    def __init__(self, kernels: Kernels, layout: Any) -> None:
        """The pipeline is still to be made."""
        self.layout = layout
        self._kernels, self._token = kernels, kernels.lifetime.hold()

    def __del__(self) -> None:
        if self._token is not None:
            kernels, pipeline = self._kernels, self.pipeline
            kernels.lifetime.release(self._token, lambda: kernels.destroy(pipeline))


class Kernels:
    """The kernels of a device, one for equal modules."""

    def __init__(self, physical: PhysicalDevice, device: Any, lifetime: Lifetime) -> None:
        self.physical, self.lifetime = physical, lifetime
        self._device = device
        self._made: dict[bytes, Kernel] = {}
        self._layouts: dict[int, Any] = {}
        """By the number of bindings."""
        self._sets: list[Any] = []
        """The layouts of their sets, which commands look at, too."""
        self._lock = threading.Lock()

    def make(self, wanted: Sequence[Words]) -> list[Kernel]:
        """The pipelines of some modules.

        Raises ArtefactError OI0760, OI0761 for words that are no module, or not what the program calls,
        UnsupportedError OI0773 for those that need what the device was not asked for, or more than it has:
        a driver may crash on them. Raises VulkanFailure.
        """
        keys = [one.key for one in wanted]
        token = self.lifetime.hold()
        try:
            with self._lock:
                kept = self._made  # Where the device is lost meanwhile, nobody looks there again.
                missing = {key: one for key, one in zip(keys, wanted) if key not in kept}
                if missing:
                    kept.update(self._make_all(missing))
                made = [kept[key] for key in keys]
                while len(kept) > MOST_KEPT:
                    del kept[next(iter(kept))]
                return made
        finally:
            self.lifetime.release(token, lambda: None)

    def _make_all(self, missing: Mapping[bytes, Words]) -> dict[bytes, Kernel]:
        cache = PipelineCache(self.physical, self._device, sorted(self._checked_as(missing)))
        try:
            # What is kept was written behind the checks of the same words.
            for one in missing.values():
                if not cache.found:
                    self._check(check_words(one.words), one)
                self._layout(one.bindings)
            # The longest first, so that none is left for the end.
            order = sorted(missing, key=lambda key: -len(missing[key].words))
            with ThreadPoolExecutor(min(MOST_THREADS, available_cpus(), len(missing))) as pool:
                made = pool.map(lambda key: self._make(missing[key], cache.handle), order)
                found = dict(zip(order, made))
            cache.keep()
            return found
        finally:
            cache.close()

    def _checked_as(self, missing: Mapping[bytes, Words]) -> Iterator[bytes]:
        """The modules, and all that their checks depend on."""
        has, limits = self.physical.description.key, self.physical.limits
        yield f"{source_fingerprint()} {limits} {has}".encode()
        for key, one in missing.items():
            yield key + one.name.encode(errors="surrogatepass")

    def _check(self, module: Module, wanted: Words) -> None:
        """What the driver is not to be asked."""
        self._check_capabilities(module, wanted.name)
        check_limits(module, self.physical.limits, wanted.name, self.physical.name, ANEW)
        check_start(module, Interface(wanted.name, wanted.bindings))

    def _check_capabilities(self, module: Module, name: str) -> None:
        given = set(CAPABILITIES_OF_ALL)
        if self.physical.description.subgroup > 1:
            given |= CAPABILITIES_OF_SUBGROUPS
        if self.physical.description.matrices:
            given |= CAPABILITIES_OF_MATRICES
        if self.physical.description.workgroup_matrices:
            given |= CAPABILITIES_OF_WORKGROUP_MATRICES
        if self.physical.description.f64:
            given |= CAPABILITIES_OF_F64
        names = {code: capability for capability, (code, _) in CAPABILITIES.items()}
        for one in module.instructions:
            if one.row.name != "Capability":
                continue
            capability = names.get(one.of("Capability")[0], "what has no name")
            if capability not in given:
                raise UnsupportedError(
                    "OI0773",
                    f"the kernel {name} needs {capability}, which {self.physical.name} does not offer",
                    hint=ANEW,
                )

    def _layout(self, bindings: int) -> Any:
        """How kernels take so many buffers, and the number where theirs begin."""
        if bindings in self._layouts:
            return self._layouts[bindings]
        vk = api()
        ffi, lib, null = vk.ffi, vk.lib, vk.ffi.NULL
        rows = ffi.new("VkDescriptorSetLayoutBinding[]", bindings)
        for number in range(bindings):
            rows[number].binding, rows[number].descriptorCount = number, 1
            rows[number].descriptorType = vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
            rows[number].stageFlags = vk.VK_SHADER_STAGE_COMPUTE_BIT
        layout = ffi.new("VkDescriptorSetLayoutCreateInfo *")
        layout.sType = vk.VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO
        layout.flags = vk.VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR
        layout.bindingCount, layout.pBindings = bindings, rows
        sets = ffi.new("VkDescriptorSetLayout *")
        make = lib.vkCreateDescriptorSetLayout
        check("vkCreateDescriptorSetLayout", make(self._device, layout, null, sets))
        pushed = ffi.new("VkPushConstantRange *")
        pushed.stageFlags, pushed.size = vk.VK_SHADER_STAGE_COMPUTE_BIT, 4
        whole = ffi.new("VkPipelineLayoutCreateInfo *")
        whole.sType = vk.VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO
        whole.setLayoutCount, whole.pSetLayouts = 1, sets
        whole.pushConstantRangeCount, whole.pPushConstantRanges = 1, pushed
        made = ffi.new("VkPipelineLayout *")
        result = lib.vkCreatePipelineLayout(self._device, whole, null, made)
        if result < 0:
            lib.vkDestroyDescriptorSetLayout(self._device, sets[0], null)
            check("vkCreatePipelineLayout", result)
        self._sets.append(sets[0])
        self._layouts[bindings] = made[0]
        return made[0]

    def _make(self, wanted: Words, cache: Any) -> Kernel:
        """A pipeline; several threads are in here."""
        vk = api()
        ffi, lib, null = vk.ffi, vk.lib, vk.ffi.NULL
        words, kernel = wanted.words, Kernel(self, self._layout(wanted.bindings))
        code = ffi.new("uint32_t[]", len(words) // 4)
        ffi.memmove(code, words, len(words))
        shader = ffi.new("VkShaderModuleCreateInfo *")
        shader.sType = vk.VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO
        shader.codeSize, shader.pCode = len(words), code
        module = ffi.new("VkShaderModule *")
        check("vkCreateShaderModule", lib.vkCreateShaderModule(self._device, shader, null, module))
        entry = ffi.new("char[]", wanted.name.encode())
        create = ffi.new("VkComputePipelineCreateInfo *")
        create.sType = vk.VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO
        create.layout = kernel.layout
        create.stage.sType = vk.VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO
        create.stage.stage, create.stage.module = vk.VK_SHADER_STAGE_COMPUTE_BIT, module[0]
        create.stage.pName = entry
        pipeline = ffi.new("VkPipeline *")
        result = lib.vkCreateComputePipelines(self._device, cache, 1, create, null, pipeline)
        lib.vkDestroyShaderModule(self._device, module[0], null)
        if result in OUT_OF_MEMORY:
            check("vkCreateComputePipelines", result)
        if result < 0:
            raise ArtefactError(
                "OI0772",
                f"{self.physical.name} refuses the kernel {wanted.name}: VkResult {result}",
            )
        kernel.pipeline = pipeline[0]
        return kernel

    def destroy(self, pipeline: Any) -> None:
        """Gives a pipeline back that no command uses any more, if it was made."""
        if pipeline is not None:
            vk = api()
            vk.lib.vkDestroyPipeline(self._device, pipeline, vk.ffi.NULL)

    def forget(self) -> None:
        """The pipelines end with the programs that have them."""
        self._made = {}

    def end(self) -> None:
        """Gives back what pipelines were made with: there are none any more."""
        vk = api()
        for layout in self._layouts.values():
            vk.lib.vkDestroyPipelineLayout(self._device, layout, vk.ffi.NULL)
        for sets in self._sets:
            vk.lib.vkDestroyDescriptorSetLayout(self._device, sets, vk.ffi.NULL)
