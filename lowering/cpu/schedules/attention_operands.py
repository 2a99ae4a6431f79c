"""How the operands of attention lie in memory."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

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
