"""Builds loop code: a thin hand on xDSL's builder for scf, vector, memref and arith.

Names follow the mathematics; every method inserts at the current point and returns SSA values, so a
schedule reads like the loops that it makes. Bodies of loops are Python callables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.builder import Builder
from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue
from xdsl.rewriter import InsertPoint

from openinfer.lowering.options import strict_math

Index = SSAValue | int
"""An index value: SSA, or a Python int that becomes a constant."""


def _within(value: float, kind: AnyFloat) -> float:
    """The value, or infinity where rounding it to a float type gives that."""
    try:
        kind.pack([value])
    except OverflowError:
        return math.copysign(math.inf, value)
    return value


class LoopBuilder:
    """Inserts loop code at one point."""

    def __init__(self, point: InsertPoint) -> None:
        self.builder = Builder(point)

    def insert(self, op: Operation) -> SSAValue:
        """Inserts an op and returns its only result."""
        self.builder.insert(op)
        return op.results[0]

    def do(self, op: Operation) -> None:
        """Inserts an op without a result."""
        self.builder.insert(op)

    # Constants and index arithmetic

    def index(self, value: Index) -> SSAValue:
        if isinstance(value, SSAValue):
            return value
        constant = self.insert(arith.ConstantOp(IntegerAttr(value, IndexType())))
        constant.name_hint = f"c{value}" if value >= 0 else f"cm{-value}"
        return constant

    def constant(self, value: float | int, kind: Attribute) -> SSAValue:
        """A scalar or splat vector constant of type `kind`; floats beyond its range are infinite."""
        if isinstance(kind, VectorType):
            if isinstance(kind.element_type, AnyFloat):
                value = _within(float(value), kind.element_type)
            data = DenseIntOrFPElementsAttr.from_list(kind, [value])
            return self.insert(arith.ConstantOp(data, kind))
        if isinstance(kind, AnyFloat):
            return self.insert(arith.ConstantOp(FloatAttr(_within(float(value), kind), kind)))
        assert isinstance(kind, IntegerType | IndexType)
        return self.insert(arith.ConstantOp(IntegerAttr(int(value), kind)))

    def add(self, a: Index, b: Index) -> SSAValue:
        if b == 0:
            return self.index(a)
        return self.insert(arith.AddiOp(self.index(a), self.index(b)))

    def sub(self, a: Index, b: Index) -> SSAValue:
        return self.insert(arith.SubiOp(self.index(a), self.index(b)))

    def mul(self, a: Index, b: Index) -> SSAValue:
        return self.insert(arith.MuliOp(self.index(a), self.index(b)))

    def floordiv(self, a: Index, b: Index) -> SSAValue:
        """Of non-negative values."""
        return self.insert(arith.DivUIOp(self.index(a), self.index(b)))

    def rem(self, a: Index, b: Index) -> SSAValue:
        """Of non-negative values."""
        return self.insert(arith.RemUIOp(self.index(a), self.index(b)))

    def round_down(self, a: Index, multiple: int) -> Index:
        """The largest multiple that is not above `a`."""
        if isinstance(a, int):
            return a // multiple * multiple
        return self.sub(a, self.rem(a, multiple))

    def compare(self, predicate: str, a: Index, b: Index) -> SSAValue:
        """`eq ne slt sle sgt sge ult ule ugt uge` on indices."""
        return self.insert(arith.CmpiOp(self.index(a), self.index(b), predicate))

    # Control flow

    def loop(
        self,
        start: Index,
        stop: Index,
        step: Index,
        body: Callable[[SSAValue], None],
        *,
        parallel: bool = False,
        hint: str = "i",
    ) -> None:
        """`for i in range(start, stop, step)` without carried values.

        `parallel` marks the loop whose iterations may run on several threads.
        """
        self.reduce(
            start, stop, step, (), lambda i, _: (body(i), ())[1], hint=hint, parallel=parallel
        )

    def reduce(
        self,
        start: Index,
        stop: Index,
        step: Index,
        carried: Sequence[SSAValue],
        body: Callable[[SSAValue, Sequence[SSAValue]], Sequence[SSAValue]],
        *,
        parallel: bool = False,
        hint: str = "i",
    ) -> tuple[SSAValue, ...]:
        """A loop that carries values: `body(i, values)` returns the next ones."""
        block = Block(arg_types=[IndexType(), *(v.type for v in carried)])
        block.args[0].name_hint = hint
        loop = scf.ForOp(
            self.index(start), self.index(stop), self.index(step), list(carried), Region(block)
        )
        if parallel:
            from xdsl.dialects.builtin import UnitAttr

            loop.attributes["openinfer.parallel"] = UnitAttr()
        self.builder.insert(loop)
        outer = self.builder.insertion_point
        self.builder.insertion_point = InsertPoint.at_end(block)
        results = body(block.args[0], block.args[1:])
        self.builder.insert(scf.YieldOp(*results))
        self.builder.insertion_point = outer
        return tuple(loop.results)

    def when(
        self,
        condition: SSAValue,
        then: Callable[[], Sequence[SSAValue] | None],
        otherwise: Callable[[], Sequence[SSAValue] | None] | None = None,
        types: Sequence[Attribute] = (),
    ) -> tuple[OpResult, ...]:
        """`if condition`; both branches return values of `types`."""
        regions = [
            Region(Block()) if branch is not None else Region() for branch in (then, otherwise)
        ]
        op = scf.IfOp(condition, list(types), regions[0], regions[1])
        # Inserted before it is filled: what is built inside may look for its function.
        self.builder.insert(op)
        outer = self.builder.insertion_point
        for region, branch in zip(regions, (then, otherwise)):
            if branch is not None:
                self.builder.insertion_point = InsertPoint.at_end(region.block)
                self.builder.insert(scf.YieldOp(*(branch() or ())))
        self.builder.insertion_point = outer
        return tuple(op.results)

    # Memory

    def dim(self, buffer: SSAValue, axis: int) -> Index:
        """The extent of an axis: a Python int when the type says it."""
        kind = buffer.type
        assert isinstance(kind, MemRefType)
        extent = kind.get_shape()[axis]
        if extent != DYNAMIC_INDEX:
            return extent
        return self.insert(memref.DimOp(buffer, self.index(axis)))

    def load(self, buffer: SSAValue, indices: Sequence[Index]) -> SSAValue:
        return self.insert(memref.LoadOp.get(buffer, [self.index(i) for i in indices]))

    def store(self, value: SSAValue, buffer: SSAValue, indices: Sequence[Index]) -> None:
        self.do(memref.StoreOp.get(value, buffer, [self.index(i) for i in indices]))

    def vload(
        self, buffer: SSAValue, indices: Sequence[Index], lanes: int, mask: SSAValue | None = None
    ) -> SSAValue:
        """`lanes` neighbours along the last axis; lanes that the mask leaves out read 0."""
        assert isinstance(buffer.type, MemRefType)
        kind = VectorType(buffer.type.element_type, [lanes])
        places = [self.index(i) for i in indices]
        if mask is None:
            return self.insert(vector.LoadOp(buffer, places, kind))
        zero = self.constant(0, kind)
        return self.insert(vector.MaskedLoadOp(buffer, places, mask, zero, kind))

    def vstore(
        self,
        value: SSAValue,
        buffer: SSAValue,
        indices: Sequence[Index],
        mask: SSAValue | None = None,
    ) -> None:
        places = [self.index(i) for i in indices]
        if mask is None:
            self.do(vector.StoreOp(value, buffer, places))
        else:
            self.do(vector.MaskedStoreOp(buffer, places, mask, value))

    def splat(self, value: SSAValue, lanes: int) -> SSAValue:
        return self.insert(vector.BroadcastOp(value, VectorType(value.type, [lanes])))

    def mask(self, count: Index, lanes: int) -> SSAValue:
        """True in the first `count` lanes."""
        return self.insert(vector.CreateMaskOp([self.index(count)], VectorType(i1, [lanes])))

    def fma(self, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
        """a·b + c on vectors of floats; with strict mathematics the product is rounded first."""
        if strict_math():
            return self.insert(arith.AddfOp(self.insert(arith.MulfOp(a, b)), c))
        return self.insert(vector.FMAOp(a, b, c))

    # Arithmetic that is done here and now when both sides are known

    def plus(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        return self.add(b, a) if isinstance(a, int) else self.add(a, b)

    def minus(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return self.index(a) if isinstance(b, int) and b == 0 else self.sub(a, b)

    def minimum(self, a: Index, b: Index) -> Index:
        """The smaller of two signed indices."""
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.insert(arith.MinSIOp(self.index(a), self.index(b)))

    def maximum(self, a: Index, b: Index) -> Index:
        """The larger of two signed indices."""
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self.insert(arith.MaxSIOp(self.index(a), self.index(b)))
