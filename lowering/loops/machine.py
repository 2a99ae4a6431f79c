"""What the schedules of products know of the target: lanes, tile sizes, fused multiply-add."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Attribute, Operation

from openinfer.lowering.loops.target import bits_of, target_name_of
from openinfer.runtime.target import named_target


@dataclass(frozen=True)
class Machine:
    """The vector registers of a target and what fits in them."""

    vector_bits: int
    registers: int
    fused: bool
    """Whether a·b + c is one instruction; without it the product is rounded first."""
    most_rows: int = 8
    """Rows of a register tile at most."""

    def lanes(self, kind: Attribute) -> int:
        """How many elements of a scalar type fill a vector register."""
        return max(1, self.vector_bits // bits_of(kind))

    @property
    def tile(self) -> int:
        """Columns of a packed panel: two vectors of f32."""
        return self.tile_for(None)

    def tile_for(self, columns: int | None) -> int:
        """Columns of the panels of a matrix with so many columns: one vector if they fit in it.

        A panel of two would be half padding then, and be read for nothing.
        """
        lanes = self.vector_bits // 32
        return lanes if columns is not None and columns <= lanes else 2 * lanes

    @property
    def accumulators(self) -> int:
        """Registers that hold sums; the others hold operands.

        Two pipes times four cycles of latency want eight at least; more of them mean fewer loads
        for each multiplication. Without fused instructions a product takes a register of its own.
        """
        if self.registers >= 32:
            return 16
        return 12 if self.fused else 8

    def rows(self, vectors: int) -> int:
        """Rows of a register tile that is `vectors` vectors wide."""
        return max(1, min(self.most_rows, self.accumulators // vectors))


def machine_of(op: Operation) -> Machine:
    """The machine that the module around `op` is compiled for.

    Raises UnsupportedError OI0710 when the module names an unknown one.
    """
    target = named_target(target_name_of(op))
    return Machine(target.vector_bits, target.registers, target.name != "generic")
