"""What kernels of a device may use: one description, decided when a program is compiled.

A description is data, like that of a processor (`runtime/target.py`): nothing in a pass asks a driver. It is
what `Device.describe` says of the device of this machine; the plain one is what every device can do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from openinfer.runtime.options import TIERS
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.tuning_device import DeviceProduct, DeviceTile, identity_of

SUBGROUPS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Sizes of subgroups that Vulkan has."""
MOST_SHARED = 1 << 20
MOST_INVOCATIONS = 1 << 12
MOST_BUFFERS = 29
"""Buffers of a kernel beside its numbers: devices give 30 (Vulkan's roadmap of 2022), many 32."""


@dataclass(frozen=True)
class DeviceDescription:
    """What kernels of a device may use."""

    subgroup: int = 1
    """Invocations that exchange values without memory; 1 where none do."""
    shared_memory: int = 16384
    """Bytes that the invocations of a workgroup share; what every Vulkan device has."""
    invocations: int = 256
    """The most invocations of a workgroup."""
    matrices: bool = False
    """Whether a subgroup multiplies 16 x 16 matrices of f16 and adds them up in f32."""
    alignment: int = 256
    """A buffer is bound at a multiple of so many bytes; no device asks for more."""
    f64: bool = False
    """Whether kernels compute in f64, with infinities, NaN and signs of zeros as they should be."""
    workgroup_matrices: bool = False
    """Whether a workgroup of 128 or 256 invocations does that with matrices whose sides are multiples of 32
    (16 along the sum), takes them from tensors in memory, and gives them to functions of their elements."""
    tiles: Mapping[DeviceProduct, DeviceTile] = field(
        default_factory=dict[DeviceProduct, DeviceTile], hash=False
    )
    """Those that were measured on such a device."""

    def within(self, tier: str) -> DeviceDescription:
        """What of it belongs to a tier of `TIERS`, or to one below."""
        level = TIERS.index(tier)
        return replace(
            self,
            subgroup=self.subgroup if level else 1,
            matrices=self.matrices and level >= 2,
            workgroup_matrices=self.workgroup_matrices and level >= 3,
            alignment=self.alignment if level else 256,
            f64=self.f64 and level > 0,
        )

    @property
    def key(self) -> str:
        """A text that differs wherever kernels may differ."""
        return (
            f"tiles {identity_of(self.tiles)} "
            f"subgroup {self.subgroup} shared {self.shared_memory} "
            f"invocations {self.invocations} matrices {self.matrices} alignment {self.alignment} "
            f"f64 {self.f64} workgroup matrices {self.workgroup_matrices}"
        )


PLAIN = DeviceDescription()
