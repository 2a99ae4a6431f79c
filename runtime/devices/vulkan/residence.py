"""What a program has on a device: its kernels, its weights, and the memory of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from openinfer.runtime.devices.vulkan.kernels import Words
from openinfer.runtime.devices.vulkan.logical import LogicalDevice
from openinfer.runtime.devices.vulkan.memory import VulkanBlock, VulkanMemory
from openinfer.runtime.devices.vulkan.parts import part_of
from openinfer.runtime.devices.vulkan.record import MOVES
from openinfer.runtime.errors import ArtefactError, reason_of
from openinfer.runtime.storage import AnyArray

if TYPE_CHECKING:
    from openinfer.runtime.program import Program


def words_of(program: Program) -> list[Words]:
    """The kernels of a program."""
    bindings = {row.kernel: len(row.buffers) + 1 for row in program.manifest.calls}
    return [
        Words(program.part(part_of(name)), count, name)
        for name, count in bindings.items()
        if name not in MOVES
    ]


class Residence:
    """It ends with its device, and with the last executor that works there."""

    def __init__(
        self, device: LogicalDevice, words: Sequence[Words], weights: Sequence[AnyArray]
    ) -> None:
        self.device, self.memory = device, VulkanMemory(device)
        made = device.kernels.make(words)
        self.kernels = {one.name: kernel for one, kernel in zip(words, made, strict=True)}
        self._weights = weights
        self._blocks: dict[int, VulkanBlock] = {}

    def weight_address(self, number: int) -> int:
        """Where a weight is; it goes there when somebody first asks.

        Raises ArtefactError OI0813 where there is no room for it, VulkanFailure.
        """
        if number not in self._blocks:
            data = self._weights[number].reshape(-1).view(np.uint8)
            try:
                block = self.memory.allocate(data.size)
                self.memory.write(block, 0, data)
            except MemoryError as error:
                name = self.device.physical.name
                raise ArtefactError(
                    "OI0813",
                    f"not enough memory for the weights of the program on {name}{reason_of(error)}",
                    hint="free some memory, or use a smaller model",
                ) from error
            self._blocks[number] = block
        return self.memory.address(self._blocks[number])
