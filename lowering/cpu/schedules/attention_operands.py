"""The matrix of one head of attention, as micro-kernels read it."""

from __future__ import annotations

from dataclasses import dataclass

from openinfer.lowering.cpu.schedules.packing import Matrix
from openinfer.lowering.kernels.attention_sight import Heads
from openinfer.lowering.kernels.builder import Index


@dataclass(frozen=True)
class HeadRows(Matrix):
    """The matrix of one head; `leading` are its batch and its number."""

    layout: str = "bhld"

    def at(self, *place: Index) -> list[Index]:
        batch, head = self.leading
        row, column = place
        return Heads(self.buffer, self.layout).at(batch, head, row, column)


def rows_of(heads: Heads, batch: Index, head: Index) -> HeadRows:
    """The `[length, size]` matrix of one head."""
    return HeadRows(heads.buffer, (batch, head), heads.layout)
