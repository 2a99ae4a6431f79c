"""The lines of buffers along one axis: all elements that have their other indices in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.vulkan.schedules.grid import Grid, grid_for, numbered, product, split

Place = Callable[[Index], list[Index]]
"""The indices of an element of a line."""


@dataclass(frozen=True)
class Lines:
    """The lines of a buffer, and of others that differ along the axis only."""

    b: LoopBuilder
    buffer: SSAValue
    axis: int

    @property
    def others(self) -> list[int]:
        """The axes that a line does not lie along."""
        assert isinstance(self.buffer.type, MemRefType)
        rank = self.buffer.type.get_num_dims()
        return [axis for axis in range(rank) if axis != self.axis % rank]

    @property
    def length(self) -> Index:
        """The elements of a line."""
        assert isinstance(self.buffer.type, MemRefType)
        return self.b.dim(self.buffer, self.axis % self.buffer.type.get_num_dims())

    def count(self, b: LoopBuilder, buffer: SSAValue) -> Index:
        """How many there are; `b` builds for the kernel or for the host, which has its own buffer."""
        return product(b, [b.dim(buffer, axis) for axis in self.others])

    def around(self, number: SSAValue) -> list[SSAValue]:
        """What the elements of a line have in common, by its number."""
        return split(self.b, number, [self.b.dim(self.buffer, axis) for axis in self.others])

    def place(self, number: SSAValue) -> Place:
        """Where the elements of a line lie, by its number."""
        around, axis = self.around(number), self.axis % (len(self.others) + 1)
        return lambda k: [*around[:axis], k, *around[axis:]]

    def each(self, body: Callable[[SSAValue], None]) -> Grid:
        """An invocation for each line."""
        numbered(self.b, self.count(self.b, self.buffer), body)
        return Grid(lambda host, value_of: grid_for(host, self.count(host, value_of(self.buffer))))
