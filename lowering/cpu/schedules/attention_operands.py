"""How the operands of attention lie in memory."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from openinfer.lowering.cpu.schedules.packing import Matrix
from openinfer.lowering.kernels.builder import Index


@dataclass(frozen=True)
class Heads:
    """A `[batch, heads, length, size]` operand in one of its two layouts."""

    buffer: SSAValue
    layout: str

    def axis(self, name: str) -> int:
        """The axis of `b`atch, `h`eads, `l`ength or `d` (head size)."""
        return self.layout.index(name)

    def at(self, batch: Index, head: Index, position: Index, column: Index) -> list[Index]:
        if self.layout == "bhld":
            return [batch, head, position, column]
        return [batch, position, head, column]

    def rows(self, batch: Index, head: Index) -> HeadRows:
        """The `[length, size]` matrix of one head."""
        return HeadRows(self.buffer, (batch, head), self.layout)


@dataclass(frozen=True)
class HeadRows(Matrix):
    """The matrix of one head; `leading` are its batch and its number."""

    layout: str = "bhld"

    def at(self, *place: Index) -> list[Index]:
        batch, head = self.leading
        row, column = place
        return Heads(self.buffer, self.layout).at(batch, head, row, column)
