"""What the schedules of products know of the target: lanes, tile sizes, fused multiply-add."""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, MemRefType, TensorType
from xdsl.ir import Attribute, Operation

from openinfer.dialects.nn import MatmulOp
from openinfer.lowering.cpu.vector_width import bits_of
from openinfer.lowering.facts import Facts
from openinfer.runtime.microarchitecture import DEFAULT, Microarchitecture
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.tuning import product_key


@dataclass(frozen=True)
class Machine:
    """The vector registers of a target and what fits in them."""

    vector_bits: int
    registers: int
    fused: bool
    """Whether a·b + c is one instruction; without it the product is rounded first."""
    most_rows: int = 8
    """Rows of a register tile at most."""
    tile_vectors: int = 2
    """Vectors of f32 that a packed panel is wide."""
    sums: int | None = None
    """Registers that hold sums, where that was measured."""
    depth: int | None = None
    """Steps of the contraction that are done at once, where that was measured; 0: all of them."""
    measured: Microarchitecture = DEFAULT
    """Numbers of the processor that schedules choose by."""

    @property
    def has_masks(self) -> bool:
        """Whether a load of some lanes of a vector is one instruction that reads no others."""
        return self.vector_bits >= 256

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
        return lanes if columns is not None and columns <= lanes else self.tile_vectors * lanes

    @property
    def accumulators(self) -> int:
        """Registers that hold sums; the others hold operands.

        Two pipes times four cycles of latency want eight at least; more of them mean fewer loads
        for each multiplication. Without fused instructions a product takes a register of its own.
        """
        if self.sums is not None:
            return self.sums
        if self.registers >= 32:
            return 16
        return 12 if self.fused else 8

    def rows(self, vectors: int) -> int:
        """Rows of a register tile that is `vectors` vectors wide."""
        return max(1, min(self.most_rows, self.accumulators // vectors))


def machine_of(op: Operation) -> Machine:
    """The machine that the module around `op` is compiled for, with what was measured of a product.

    Raises UnsupportedError OI0710 when the module names an unknown one.
    """
    facts = Facts.of(op)
    target = facts.target
    fused = target.name != "generic" and not facts.strict_math
    machine = Machine(target.vector_bits, target.registers, fused, measured=target.measured)
    if not facts.tiles or not isinstance(op, MatmulOp):
        return machine
    key = key_of(op)
    tile = facts.tiles.get(key) if key is not None else None
    if tile is None:
        return machine
    return replace(
        machine,
        most_rows=tile.rows,
        tile_vectors=tile.vectors,
        sums=tile.rows * tile.vectors,
        depth=tile.depth,
    )


def key_of(op: MatmulOp) -> str | None:
    """How a tuning names a product, on tensors as on buffers; None for one that has no tiles to tune.

    Those are products of integers and of operands that are rounded to bf16.
    """
    output = op.outs[0].type if op.on_buffers else op.output.type
    left = op.inputs[0].type
    if not isinstance(left, MemRefType | TensorType) or op.precision is not None:
        return None
    assert isinstance(output, MemRefType | TensorType)
    element = left.element_type
    if not isinstance(element, AnyFloat):
        return None
    depth = left.get_shape()[-2 if op.transpose_a is not None else -1]
    rows, columns = output.get_shape()[-2:]
    known = (None if extent == DYNAMIC_INDEX else extent for extent in (rows, depth, columns))
    return product_key(*known, dtype=str(element))
