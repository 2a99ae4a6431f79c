"""`VK_NV_cooperative_matrix2`: whether a device has it as kernels need it, and how it is asked for.

The package `vulkan` is older than the extension: its structures are made here, of words of 32 bits: type,
room, and two for the next structure, then what they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from openinfer.runtime.spirv.check_limits import RESERVED

WORKGROUP_MATRICES: Final = "VK_NV_cooperative_matrix2"
CAPABILITIES_OF_WORKGROUP_MATRICES: Final = frozenset({
    *("TensorAddressingNV", "CooperativeMatrixTensorAddressingNV"),
    *("CooperativeMatrixPerElementOperationsNV", "CooperativeMatrixReductionsNV"),
    "CooperativeMatrixConversionsNV",
})  # fmt: skip
"""What kernels may need then."""

_FEATURES, _FLEXIBLE, _PROPERTIES = 1000593000, 1000593001, 1000593002
"""Types of structures."""
_HEAD: Final = 4
_ALL, _WANTED = 7, 6
"""Features, and how many of them, from the first on, kernels need: matrices of a workgroup, of any shape,
reductions, conversions, functions of elements, tensors; not loads of blocks."""
_ROW: Final = 10
"""Numbers of a row of shapes: multiples of rows, columns and steps, types of both operands, sums and result,
whether it saturates, scope, invocations."""
_NUMBERS: Final = 3
_F16, _F32, _WORKGROUP = 0, 1, 2
_SIZES: Final = (128, 256)
_LARGE, _SIDE, _LARGEST = 32, 16, 256


class _Words:
    """A structure, or several in a row, of words."""

    def __init__(self, ffi: Any, kind: int, count: int, rows: int = 1) -> None:
        self.each = -(-(_HEAD + count) // 2) * 2
        self.memory = ffi.new("uint64_t[]", rows * self.each // 2)
        self.words = ffi.cast("uint32_t *", self.memory)
        self.pointer = ffi.cast("void *", self.memory)
        for row in range(rows):
            self.words[row * self.each] = kind

    def row(self, number: int, count: int) -> list[int]:
        """What one of them holds."""
        first = number * self.each + _HEAD
        return [self.words[place] for place in range(first, first + count)]


def wanted_features(ffi: Any, following: Any) -> tuple[Any, Any]:
    """The structure that asks for what kernels need, in front of others, and what keeps it alive."""
    asked = _Words(ffi, _FEATURES, _ALL)
    asked.memory[1] = int(ffi.cast("uintptr_t", following))
    for number in range(_WANTED):
        asked.words[_HEAD + number] = 1
    return asked.pointer, asked


def has_workgroup_matrices(vk: Any, instance: Any, handle: Any, extensions: set[str]) -> bool:
    """Whether a device has them, of f16 with sums in f32, as `DeviceDescription` says."""
    if WORKGROUP_MATRICES not in extensions:
        return False
    ffi, lib = vk.ffi, vk.lib
    features = _Words(ffi, _FEATURES, _ALL)
    whole = ffi.new("VkPhysicalDeviceFeatures2 *")
    whole.sType = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2
    whole.pNext = features.pointer
    lib.vkGetPhysicalDeviceFeatures2(handle, whole)
    numbers = _Words(ffi, _PROPERTIES, _NUMBERS)
    both = ffi.new("VkPhysicalDeviceProperties2 *")
    both.sType = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2
    both.pNext = numbers.pointer
    lib.vkGetPhysicalDeviceProperties2(handle, both)
    return suffices(features.row(0, _ALL), numbers.row(0, _NUMBERS), _shapes(vk, instance, handle))


def suffices(
    features: Sequence[int], numbers: Sequence[int], shapes: Sequence[Sequence[int]]
) -> bool:
    """Whether what a device says of itself is all that kernels need: its features; the largest workgroup, the
    largest side and the shared memory that is taken; rows of shapes."""
    invocations, side, taken = numbers
    if not all(features[:_WANTED]) or invocations < max(_SIZES) or side < _LARGEST:
        return False
    return taken <= RESERVED and all(any(_fits(row, size) for row in shapes) for size in _SIZES)


def _fits(row: Sequence[int], size: int) -> bool:
    """Whether a row of shapes lets a workgroup of a size have our matrices."""
    rows, columns, steps, *types, saturates, scope, invocations = row
    return (
        types == [_F16, _F16, _F32, _F32]
        and not saturates
        and (scope, invocations) == (_WORKGROUP, size)
        and not (_LARGE % rows or _LARGE % columns or _SIDE % steps)
    )


def _shapes(vk: Any, instance: Any, handle: Any) -> list[list[int]]:
    """The rows of shapes of a device."""
    ffi = vk.ffi
    name = "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV"
    found = vk.lib.vkGetInstanceProcAddr(instance, name.encode())
    if found == ffi.NULL:
        return []
    ask = ffi.cast("VkResult(*)(VkPhysicalDevice, uint32_t *, void *)", found)
    count = ffi.new("uint32_t *")
    if ask(handle, count, ffi.NULL) < 0:
        return []
    rows = _Words(ffi, _FLEXIBLE, _ROW, max(1, count[0]))
    if ask(handle, count, rows.pointer) < 0:
        return []
    return [rows.row(number, _ROW) for number in range(count[0])]
