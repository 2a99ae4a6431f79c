"""Whether a device has matrices of a workgroup, and what its kernels may ask for then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import cffi
import pytest
from test_spirv_dialect import parsed
from test_vulkan_limits import KERNEL, refusal, with_matrices

from openinfer.lowering.facts import Facts
from openinfer.runtime.devices.description import DeviceDescription
from openinfer.runtime.devices.vulkan.driver import PhysicalDevice
from openinfer.runtime.devices.vulkan.kernels import Kernels, Words
from openinfer.runtime.devices.vulkan.lifetime import Lifetime
from openinfer.runtime.devices.vulkan.workgroup_matrices import (
    WORKGROUP_MATRICES,
    has_workgroup_matrices,
    suffices,
    wanted_features,
)
from openinfer.runtime.spirv.check_limits import RESERVED, Limits, check_limits
from openinfer.runtime.spirv.check_words import check_words
from tests.unit.test_spirv_deserialize import words_of

FEATURES = [1] * 7
NUMBERS = [256, 1024, 8192]
"""The largest workgroup, the largest side, the shared memory that is taken."""
SHAPES = [
    [16, 16, 16, 0, 0, 1, 1, 0, 3, 32],
    [32, 16, 16, 0, 0, 1, 1, 0, 2, 128],
    [32, 32, 16, 0, 0, 1, 1, 0, 2, 256],
    [32, 32, 32, 3, 3, 5, 5, 0, 2, 256],
]
"""As an NVIDIA H200 lists them."""


def changed(rows: list[list[int]], row: int, place: int, value: int) -> list[list[int]]:
    """The same rows, but for a number."""
    return [
        [value if (row, place) == (y, x) else number for x, number in enumerate(numbers)]
        for y, numbers in enumerate(rows)
    ]


@pytest.mark.parametrize(
    ("features", "numbers", "shapes", "there"),
    [
        (FEATURES, NUMBERS, SHAPES, True),
        ([*FEATURES[:6], 0], NUMBERS, SHAPES, True),
        ([0, *FEATURES[1:]], NUMBERS, SHAPES, False),
        ([*FEATURES[:5], 0, 1], NUMBERS, SHAPES, False),
        (FEATURES, [128, 1024, 8192], SHAPES, False),
        (FEATURES, [256, 128, 8192], SHAPES, False),
        (FEATURES, [256, 1024, 16384], SHAPES, False),
        (FEATURES, NUMBERS, SHAPES[:2], False),
        (FEATURES, NUMBERS, [], False),
        (FEATURES, NUMBERS, changed(SHAPES, 2, 1, 64), False),
        (FEATURES, NUMBERS, changed(SHAPES, 2, 2, 32), False),
        (FEATURES, NUMBERS, changed(SHAPES, 1, 5, 0), False),
        (FEATURES, NUMBERS, changed(SHAPES, 1, 8, 3), False),
    ],
)
def test_what_suffices(
    features: list[int], numbers: list[int], shapes: list[list[int]], there: bool
) -> None:
    assert suffices(features, numbers, shapes) == there


CDEF = """
typedef struct { uint32_t sType; void *pNext; uint32_t features[55]; } VkPhysicalDeviceFeatures2;
typedef struct { uint32_t sType; void *pNext; uint8_t properties[824]; } VkPhysicalDeviceProperties2;
typedef int VkResult;
typedef void *VkPhysicalDevice;
"""


@dataclass
class Driver:
    """A driver that says what it is told to, in memory as the extension lays it out."""

    shapes: list[list[int]] = field(default_factory=lambda: SHAPES)
    ffi: Any = field(default_factory=cffi.FFI)
    kept: list[Any] = field(default_factory=list[Any])

    def __post_init__(self) -> None:
        self.ffi.cdef(CDEF)

    def bindings(self) -> Any:
        """What the package `vulkan` is."""
        return SimpleNamespace(
            ffi=self.ffi,
            lib=SimpleNamespace(
                vkGetPhysicalDeviceFeatures2=self.answers(1000593000, FEATURES),
                vkGetPhysicalDeviceProperties2=self.answers(1000593002, NUMBERS),
                vkGetInstanceProcAddr=self.find,
            ),
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2=1000059000,
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2=1000059001,
        )

    def answers(self, kind: int, values: list[int]) -> Callable[[Any, Any], None]:
        def fill(_: Any, whole: Any) -> None:
            words = self.ffi.cast("uint32_t *", whole.pNext)
            assert words[0] == kind
            for number, value in enumerate(values):
                words[4 + number] = value

        return fill

    def find(self, _: Any, name: bytes) -> Any:
        assert name == b"vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV"

        def listed(_: Any, count: Any, rows: Any) -> int:
            if rows != self.ffi.NULL:
                words = self.ffi.cast("uint32_t *", rows)
                for number, row in enumerate(self.shapes[: count[0]]):
                    assert words[14 * number] == 1000593001
                    for place, value in enumerate(row):
                        words[14 * number + 4 + place] = value
            count[0] = len(self.shapes)
            return 0

        made = self.ffi.callback("VkResult(VkPhysicalDevice, uint32_t *, void *)", listed)
        self.kept.append(made)
        return self.ffi.cast("void *", made)


def test_a_driver_is_asked() -> None:
    driver = Driver()
    vk, null = driver.bindings(), driver.ffi.NULL
    assert has_workgroup_matrices(vk, null, null, {WORKGROUP_MATRICES})
    assert not has_workgroup_matrices(vk, null, null, {"VK_KHR_cooperative_matrix"})
    driver.shapes = SHAPES[:2]
    assert not has_workgroup_matrices(vk, null, null, {WORKGROUP_MATRICES})


def test_what_is_asked_for() -> None:
    """All features but loads of blocks, in front of what follows."""
    ffi = cffi.FFI()
    following = ffi.new("uint64_t *")
    pointer, kept = wanted_features(ffi, following)
    words, links = ffi.cast("uint32_t *", pointer), ffi.cast("uint64_t *", pointer)
    assert (words[0], links[1]) == (1000593000, int(ffi.cast("uintptr_t", following)))
    assert [words[4 + number] for number in range(7)] == [1, 1, 1, 1, 1, 1, 0]
    del kept


def test_tiers() -> None:
    all_of_it = DeviceDescription(32, 49152, 1024, matrices=True, workgroup_matrices=True)
    assert all_of_it.within("matrix2") == all_of_it
    below = all_of_it.within("matrix")
    assert below.matrices
    assert not below.workgroup_matrices
    assert below.key != all_of_it.key
    assert not all_of_it.within("subgroup").matrices


def test_a_module_says_it() -> None:
    module = parsed(
        'builtin.module attributes {openinfer.target = "generic", openinfer.workgroup_matrices} {}'
    )
    facts = Facts.of(module)
    assert facts.device_description.workgroup_matrices
    again = parsed("builtin.module {}")
    facts.write(again)
    assert again.attributes == module.attributes


# Kernels

LIMITS = Limits(256, (256, 256, 64), 16384, 30)


def with_tensors(text: str) -> str:
    """The kernel with matrices of a workgroup of 128."""
    return with_matrices(text).replace(
        "coopmatrix<16x16xf16, Subgroup, MatrixA>", "coopmatrix<64x16xf16, Workgroup, MatrixA>"
    )


@pytest.mark.parametrize(
    ("old", "new", "fits"),
    [
        ("64x16", "64x16", True),
        ("64x16", "32x48", True),
        ("64x16", "256x64", True),
        ("64x16", "16x16", False),
        ("64x16", "64x8", False),
        ("64x16", "288x16", False),
        ("64x16xf16, Workgroup, MatrixA", "16x64xf16, Workgroup, MatrixB", True),
        ("64x16xf16, Workgroup, MatrixA", "64x16xf16, Workgroup, MatrixB", False),
        ("64x16xf16, Workgroup, MatrixA", "64x32xf32, Workgroup, MatrixAcc", True),
        ("64x16xf16, Workgroup, MatrixA", "64x48xf32, Workgroup, MatrixAcc", False),
        ("Workgroup, MatrixA", "Device, MatrixA", False),
        ('"LocalSize", 64, 2, 1', '"LocalSize", 64, 4, 1', True),
        ('"LocalSize", 64, 2, 1', '"LocalSize", 64, 1, 1', False),
    ],
)
def test_shapes(old: str, new: str, fits: bool) -> None:
    text = with_tensors(KERNEL)
    assert old in text
    module = check_words(words_of(text.replace(old, new)))
    if fits:
        check_limits(module, LIMITS, "k", "it", "")
        return
    error = refusal(lambda: check_limits(module, LIMITS, "k", "it", ""))
    assert error.code == "OI0773"
    assert "multiples of 32 (16 along the sum) of a workgroup of 128 or 256" in error.message


def test_a_driver_takes_shared_memory() -> None:
    module = check_words(words_of(with_tensors(KERNEL)))
    own = 64 * 4 + 12
    check_limits(module, replace(LIMITS, shared_memory=own + RESERVED), "k", "it", "")
    error = refusal(
        lambda: check_limits(
            module, replace(LIMITS, shared_memory=own + RESERVED - 1), "k", "it", ""
        )
    )
    assert f"asks for {own + RESERVED} bytes of shared memory" in error.message


class NothingKept:
    """Stands in for what a driver has kept of pipelines."""

    found, handle = False, None

    def __init__(self, *_: object) -> None: ...

    def close(self) -> None: ...


def test_a_device_without_them_refuses_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its driver is asked."""
    monkeypatch.setattr("openinfer.runtime.devices.vulkan.kernels.PipelineCache", NothingKept)
    words = words_of(
        with_tensors(KERNEL).replace(
            "CooperativeMatrixKHR,", "CooperativeMatrixKHR, TensorAddressingNV,"
        )
    )
    described = DeviceDescription(32, matrices=True)
    physical = PhysicalDevice(
        0, None, "a device", "other", (1, 3, 0), "", LIMITS, 1 << 20, 16, described
    )
    kernels = Kernels(physical, None, Lifetime("a device", lambda: None))
    error = refusal(lambda: kernels.make([Words(words, 2, "main")]))
    assert error.code == "OI0773"
    assert "needs TensorAddressingNV, which a device does not offer" in error.message
