"""The operands of `nn.matmul` as its kernels read them: rows, columns, steps of the sum, and edges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.math import FmaOp
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects.nn import MatmulOp
from openinfer.lowering.kernels.batches import broadcast_place
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import accumulator_of, add, convert, multiply
from openinfer.lowering.kernels.numeric import is_float, select

Load = Callable[[SSAValue, SSAValue], SSAValue]
"""The element of an operand: its row or column, and the step of the sum."""


@dataclass(frozen=True)
class Operand:
    """One operand, in one batch of it."""

    b: LoopBuilder
    buffer: SSAValue
    leading: tuple[Index, ...]
    along: bool
    """Whether neighbours in memory are steps of the sum, and not rows or columns."""
    count: Index
    """Rows or columns."""
    depth: Index
    sums: Attribute
    unsigned: bool

    def load(self, place: Index, k: Index) -> SSAValue:
        """The element of a row or column at a step of the sum, as it is multiplied."""
        at = [*self.leading, place, k] if self.along else [*self.leading, k, place]
        value = self.b.load(self.buffer, at)
        return convert(self.b, value, self.sums, unsigned=self.unsigned)

    def load_within(self, place: SSAValue, k: SSAValue, block: tuple[int, int]) -> SSAValue:
        """The same, 0 beyond the edges. `block`: what rows or columns, and steps, are read together in."""
        b = self.b
        limits: list[SSAValue] = []
        places = [place, k]
        for number, (extent, together) in enumerate(zip((self.count, self.depth), block)):
            if isinstance(extent, int) and extent % together == 0:
                continue
            limits.append(b.compare("ult", places[number], extent))
            places[number] = b.index(b.minimum(places[number], b.minus(extent, 1)))
        value = self.load(*places)
        for limit in limits:
            value = select(b, limit, value, b.constant(0, self.sums))
        return value


class Product:
    """A product of matrices in batches."""

    def __init__(self, b: LoopBuilder, op: MatmulOp) -> None:
        self.b, self.op = b, op
        self.left, self.right, self.output = op.left, op.right, op.output
        self.boolean, self.unsigned = op.boolean is not None, op.unsigned is not None
        body = op.body[0].block if op.body else None
        stored = _memory(self.output).element_type
        self.sums: Attribute = accumulator_of(stored) if body is None else body.args[0].type
        rank = len(_memory(self.output).get_shape())
        self.extents = [b.dim(self.output, axis) for axis in range(rank)]
        self.rows, self.columns = self.extents[-2:]
        axes = len(_memory(self.left).get_shape())
        self.depth = b.dim(self.left, axes - 1 if op.transpose_a is None else axes - 2)

    def operands(self, batch: Sequence[Index]) -> tuple[Operand, Operand]:
        """Both operands in a batch of the result."""
        op, b = self.op, self.b
        found: list[Operand] = []
        for buffer, along, count in (
            (self.left, op.transpose_a is None, self.rows),
            (self.right, op.transpose_b is not None, self.columns),
        ):
            leading = broadcast_place(b, _memory(buffer).get_shape()[:-2], batch)
            found.append(
                Operand(b, buffer, leading, along, count, self.depth, self.sums, self.unsigned)
            )
        return found[0], found[1]

    def more(self, left: SSAValue, right: SSAValue, total: SSAValue) -> SSAValue:
        """total + left · right. Products of floats are not rounded by themselves, where mathematics are not
        strict."""
        b = self.b
        if is_float(total) and not b.facts.strict_math:
            return b.insert(FmaOp(left, right, total))
        product = multiply(b, left, right, boolean=self.boolean)
        return add(b, total, product, boolean=self.boolean)

    def join(self, one: SSAValue, other: SSAValue) -> SSAValue:
        """Two parts of a sum."""
        return add(self.b, one, other, boolean=self.boolean)

    def zero(self) -> SSAValue:
        return self.b.constant(0, self.sums)


def both(b: LoopBuilder, conditions: Sequence[SSAValue]) -> SSAValue:
    """Whether all of some conditions hold."""
    first, *others = conditions
    for other in others:
        first = b.insert(arith.AndIOp(first, other))
    return first


def _memory(buffer: SSAValue) -> MemRefType:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type
