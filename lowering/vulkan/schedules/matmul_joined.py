"""Products whose batches share the right operand, seen as one product of all their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.epilogue import Extra
from openinfer.lowering.kernels.runs import collapse
from openinfer.lowering.vulkan.schedules.grid import product
from openinfer.lowering.vulkan.schedules.matmul_operands import Operand, Product
from openinfer.lowering.vulkan.schedules.matmul_starts import Ends


@dataclass(frozen=True)
class Problem:
    """A product as workgroups go through it: batches that share the right operand are rows."""

    product: Product
    joined: bool
    extents: list[Index]
    """Batches, rows, columns."""
    left: SSAValue
    output: SSAValue
    starts: tuple[Extra, ...]

    def operands(self, batch: Sequence[Index]) -> tuple[Operand, Operand]:
        """Both operands in a batch."""
        if not self.joined:
            return self.product.operands(batch)
        left, right = self.product.operands([0] * (len(self.product.extents) - 2))
        return replace(left, buffer=self.left, leading=(), count=self.extents[0]), right


def problem_of(found: Product, ends: Ends) -> Problem:
    """The problem of a product: one of two axes, if no part of it has batches that lie otherwise."""
    b, rank = found.b, len(found.extents)
    plain = Problem(found, False, found.extents, found.left, found.output, ends.starts)
    starts = [_joined(b, extra, rank) for extra in ends.starts]
    shapes = [_shape(one) for one in (found.left, found.right, found.output)]
    alike = shapes[0][:-1] == shapes[2][:-1] and all(one == 1 for one in shapes[1][:-2])
    if rank == 2 or not alike or None in starts:
        return plain
    left, output = (_two_axes(b, one) for one in (found.left, found.output))
    extents = [product(b, found.extents[:-1]), found.extents[-1]]
    kept = tuple(one for one in starts if one is not None)
    return Problem(found, True, extents, left, output, kept)


def _joined(b: LoopBuilder, extra: Extra, rank: int) -> Extra | None:
    """What an epilogue reads, seen along rows of all batches and columns."""
    *front, _ = extra.axes
    if all(kind == "at" for kind, _ in front):
        return replace(extra, axes=(*front, ("dim", 1)))
    if extra.is_identity(rank):
        return Extra(_two_axes(b, extra.buffer), (("dim", 0), ("dim", 1)))
    return None


def _two_axes(b: LoopBuilder, buffer: SSAValue) -> SSAValue:
    last = len(_shape(buffer)) - 1
    return collapse(b, buffer, [list(range(last)), [last]])


def _shape(buffer: SSAValue) -> tuple[int, ...]:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type.get_shape()
