"""The numbers that workgroups of a step count each other with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openinfer.runtime.devices.vulkan.memory import VulkanBlock, VulkanMemory
from openinfer.runtime.manifest import DEVICE_COUNTS
from openinfer.runtime.slots import Slot, SlotKind


def add_counts(slots: Sequence[Slot], frame: Any, memory: VulkanMemory) -> VulkanBlock | None:
    """Gives the steps of a context zeros of 32 bits, where their kernels ask for them; each kernel leaves
    zeros behind. `slots` say what the words of the frame are. The memory, which the caller keeps."""
    wanted = Slot(SlotKind.DEVICE_COUNTS)
    if wanted not in slots:
        return None
    block = memory.allocate(4 * DEVICE_COUNTS)
    frame[slots.index(wanted)] = memory.address(block)
    return block
