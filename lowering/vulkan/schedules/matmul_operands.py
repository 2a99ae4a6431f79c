"""The operands of products as their kernels read them: rows, columns, steps of the sum, and edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType, VectorType, i8, i32
from xdsl.dialects.math import FmaOp
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects.nn import DotBytesOp, MatmulOp, MatvecOp, RowMatmulOp
from openinfer.dialects.nn.byte_ops import LANES
from openinfer.lowering.kernels.batches import broadcast_place
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import accumulator_of, add, convert, multiply
from openinfer.lowering.kernels.numeric import is_float, select
from openinfer.lowering.vulkan.schedules.forms import rows_of
from openinfer.lowering.vulkan.schedules.wide import common_lanes, joint_lanes, load_wide


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
    """What elements are multiplied as."""
    unsigned: bool

    def load(self, place: Index, k: Index) -> SSAValue:
        """The element of a row or column at a step of the sum, as it is multiplied."""
        at = [*self.leading, place, k] if self.along else [*self.leading, k, place]
        value = self.b.load(self.buffer, at)
        return convert(self.b, value, self.sums, unsigned=self.unsigned)

    def load_steps(self, place: Index, k: Index, lanes: int) -> list[SSAValue]:
        """The elements at some steps of the sum, where they are neighbours; `k` is a multiple of `lanes`."""
        if lanes == 1:
            return [self.load(place, k)]
        return self._load_wide([*self.leading, place, k], lanes)

    def load_places(self, place: Index, k: Index, lanes: int) -> list[SSAValue]:
        """The elements of neighbouring rows or columns; `place` is a multiple of `lanes`."""
        return self._load_wide([*self.leading, k, place], lanes)

    def _load_wide(self, place: Sequence[Index], lanes: int) -> list[SSAValue]:
        return [
            convert(self.b, value, self.sums, unsigned=self.unsigned)
            for value in load_wide(self.b, self.buffer, place, lanes)
        ]

    def load_within(
        self, place: SSAValue, k: SSAValue, block: tuple[int, int], lanes: int
    ) -> list[SSAValue]:
        """Neighbours in memory from a row or column and a step on, 0 beyond the edges.

        `block`: what rows or columns, and steps, are read together in. Of several `lanes` all are inside, or
        none is.
        """
        b = self.b
        limits: list[SSAValue] = []
        places = [place, k]
        for number, (extent, together) in enumerate(zip((self.count, self.depth), block)):
            if isinstance(extent, int) and extent % together == 0:
                continue
            limits.append(b.compare("ult", places[number], extent))
            neighbours = lanes if self.along == bool(number) else 1
            last = b.maximum(b.minus(extent, neighbours), 0)
            places[number] = b.index(b.minimum(places[number], last))
        place, k = places
        if self.along:
            values = self.load_steps(place, k, lanes)
        else:
            values = self.load_places(place, k, lanes)
        for limit in limits:
            zero = b.constant(0, self.sums)
            values = [select(b, limit, value, zero) for value in values]
        return values


class Product:
    """A product of matrices in batches."""

    def __init__(self, b: LoopBuilder, op: MatmulOp | MatvecOp | RowMatmulOp) -> None:
        self.b, self.op = b, op
        self.left, self.output = op.left, op.output
        if not isinstance(op, MatmulOp):
            self.rights = op.rights
            self.left_along = self.right_along = True
            self.boolean = self.unsigned = False
        else:
            self.rights = [op.right]
            self.left_along, self.right_along = op.transpose_a is None, op.transpose_b is not None
            self.boolean, self.unsigned = op.boolean is not None, op.unsigned is not None
        self.right = self.rights[0]
        body = op.body[0].block if op.body else None
        stored = _memory(self.output).element_type
        self.sums: Attribute = accumulator_of(stored) if body is None else body.args[0].type
        rank = len(_memory(self.output).get_shape())
        self.extents = [b.dim(self.output, axis) for axis in range(rank)]
        self.tiled_left = isinstance(op, RowMatmulOp) and op.tiled_left is not None
        if isinstance(op, RowMatmulOp) and op.tiled_result is not None:
            self.extents[-3:] = _of_squares(self.output)
        self.extents[-2] = rows_of(op, self.extents[-2])
        self.rows, self.columns = self.extents[-2:]
        self.dots = False
        """Whether steps are multiplied by fours (`nn.dot_bytes`)."""
        axes = len(_memory(self.left).get_shape())
        if self.tiled_left:
            self.depth: Index = _of_squares(self.left)[1]
        else:
            self.depth = b.dim(self.left, axes - 1 if self.left_along else axes - 2)

    def use_dots(self) -> None:
        """Has steps multiplied by fours, where both operands have them side by side, as bytes. The schedule
        adds up by `more_steps`, or gives `more` vectors."""
        along = self.left_along and self.right_along and not self.boolean
        self.dots = along and self.sums == i32 and self.is_of(i8)

    def is_of(self, element: Attribute) -> bool:
        """Whether both operands hold elements of a type."""
        return all(_memory(v).element_type == element for v in (self.left, self.right))

    def lanes_of(self, operand: Operand) -> int:
        """How many neighbours of an operand are read at once."""
        return common_lanes(self.op, (operand.buffer,))

    def lanes_along(self) -> int:
        """How many steps of the sum are read at once, of all operands."""
        if not self.left_along or not self.right_along:
            return 1
        return joint_lanes(self.op, self.op.inputs)

    def lanes_across(self) -> int:
        """How many columns of the right operand are read at once."""
        return 1 if self.right_along else common_lanes(self.op, (self.right,))

    def operands(self, batch: Sequence[Index]) -> tuple[Operand, Operand]:
        """Both operands in a batch of the result."""
        return self.left_operand(batch), self.matrices(batch)[0]

    def left_operand(self, batch: Sequence[Index]) -> Operand:
        """The left one."""
        return self._operand(self.left, self.left_along, self.rows, batch)

    def left_place(self, batch: Sequence[Index]) -> tuple[Index, ...]:
        """The leading indices of the left operand in a batch of the result."""
        inner = 3 if self.tiled_left else 2
        return broadcast_place(self.b, _memory(self.left).get_shape()[:-inner], batch)

    def matrices(self, batch: Sequence[Index]) -> list[Operand]:
        """The right operands in a batch of the result."""
        return [self._operand(b, self.right_along, self.columns, batch) for b in self.rights]

    def _operand(
        self, buffer: SSAValue, along: bool, count: Index, batch: Sequence[Index]
    ) -> Operand:
        leading = broadcast_place(self.b, _memory(buffer).get_shape()[:-2], batch)
        kept = i8 if self.dots else self.sums
        return Operand(self.b, buffer, leading, along, count, self.depth, kept, self.unsigned)

    def more(self, left: SSAValue, right: SSAValue, total: SSAValue) -> SSAValue:
        """total + left · right. Products of floats are not rounded by themselves, where mathematics are not
        strict."""
        b = self.b
        if isinstance(left.type, VectorType):
            return b.insert(DotBytesOp(total, left, right, unsigned=self.unsigned))
        if is_float(total) and not b.facts.strict_math:
            return b.insert(FmaOp(left, right, total))
        product = multiply(b, left, right, boolean=self.boolean)
        return add(b, total, product, boolean=self.boolean)

    def more_steps(
        self, left: Sequence[SSAValue], right: Sequence[SSAValue], total: SSAValue
    ) -> SSAValue:
        """The same for some steps of a row and a column."""
        if self.dots:
            left, right = (self._bytes(values) for values in (left, right))
        for x, y in zip(left, right):
            total = self.more(x, y, total)
        return total

    def _bytes(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """Bytes by fours, zeros behind the last of them."""
        b = self.b
        padded = [*values, *[b.constant(0, i8)] * (-len(values) % LANES)]
        return [b.from_elements(padded[n : n + LANES]) for n in range(0, len(padded), LANES)]

    def join(self, one: SSAValue, other: SSAValue) -> SSAValue:
        """Two parts of a sum."""
        return add(self.b, one, other, boolean=self.boolean)

    def zero(self) -> SSAValue:
        return self.b.constant(0, self.sums)


def _of_squares(buffer: SSAValue) -> list[int]:
    """Rows, and columns or steps, of a buffer of squares."""
    *_, down, across, width = _memory(buffer).get_shape()
    return [down * isqrt(width), across * isqrt(width)]


def both(b: LoopBuilder, conditions: Sequence[SSAValue]) -> SSAValue:
    """Whether all of some conditions hold."""
    first, *others = conditions
    for other in others:
        first = b.insert(arith.AndIOp(first, other))
    return first


def _memory(buffer: SSAValue) -> MemRefType:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type
