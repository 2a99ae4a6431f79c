"""Builds loop code: a thin hand on xDSL's builder for scf, vector, memref and arith.

Names follow the mathematics; every method inserts at the current point and returns SSA values, so a
schedule reads like the loops that it makes. Bodies of loops are Python callables.

What kernels consist of is made with `create`, which takes operands and types as they are: the
constructors of ops look at every argument first, and take three times as long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from xdsl.builder import Builder
from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    UnitAttr,
    VectorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue
from xdsl.rewriter import InsertPoint

from openinfer.lowering.attributes import INDEX, i64_attribute, index_attribute, vector_of
from openinfer.lowering.facts import Facts
from openinfer.lowering.operations import VALUES
from openinfer.lowering.quick_ops import append_new

Index = SSAValue | int
"""An index value: SSA, or a Python int that becomes a constant."""

PARALLEL = "openinfer.parallel"
"""Marks a loop whose rounds may run on several threads."""
TOGETHER = "openinfer.together"
"""Marks a loop whose rounds follow each other, while threads share the parallel loops of each."""
TILED = "openinfer.tiled"
"""Marks a loop of the step over the parts of a batch: all rounds are what one kernel does without it."""
SUMS = "openinfer.sums"
"""What a loop adds up, for passes that put sums in blocks: "products", "long products" (a part of a long
sum), "marks", of which only NaN matters, or what a kernel of the device has to add "in order"."""
BESIDE = "openinfer.beside"
"""How many parts of one sum a loop adds up side by side, for passes that put sums in blocks."""
ROUNDS = "openinfer.rounds"
"""How often a loop runs at most, for passes that put sums in blocks, where its bounds do not say it."""


@lru_cache(maxsize=4096, typed=True)
def _number(value: float | int, negative_zero: bool, kind: Attribute) -> Attribute:
    """A number as an attribute of a scalar type, or as all elements of a vector; `negative_zero` tells zeros
    apart, which are equal."""
    if isinstance(kind, VectorType):
        if isinstance(kind.element_type, AnyFloat):
            value = _within(float(value), kind.element_type)
        return DenseIntOrFPElementsAttr.from_list(kind, [value])
    if isinstance(kind, AnyFloat):
        return FloatAttr(_within(float(value), kind), kind)
    assert isinstance(kind, IntegerType | IndexType)
    return IntegerAttr(int(value), kind)


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
        self._home = point.block
        self._facts: Facts | None = None

    @property
    def facts(self) -> Facts:
        """The facts of the module that is built in; asked for once."""
        if self._facts is None:
            around = self._home.parent_op()
            assert around is not None, "the block to build in has to stand in a module"
            self._facts = Facts.of(around)
        return self._facts

    def insert(self, op: Operation) -> SSAValue:
        """Inserts an op and returns its only result."""
        self.do(op)
        return op.results[0]

    def do(self, op: Operation) -> None:
        """Inserts an op without a result."""
        point = self.builder.insertion_point
        if point.insert_before is None:
            point.block.add_op(op)
        else:
            point.block.insert_op_before(op, point.insert_before)

    def insert_first(self, op: Operation) -> SSAValue:
        """Inserts an op in front of the block that building began in, and returns its only result."""
        Builder(InsertPoint.at_start(self._home)).insert(op)
        return op.results[0]

    def _of_two(self, kind: type[Operation], a: Index, b: Index) -> SSAValue:
        """An op of two values of one type, which its result has too."""
        first = self.index(a)
        operands = (first, self.index(b))
        return self.made(kind, operands, first.type)

    def made(
        self,
        kind: type[Operation],
        operands: Sequence[SSAValue],
        result: Attribute,
        properties: Mapping[str, Attribute] = {},
    ) -> SSAValue:
        """The result of a new op."""
        point = self.builder.insertion_point
        if point.insert_before is None:
            return append_new(point.block, kind, operands, result, properties)
        return self.insert(
            kind.create(operands=operands, result_types=(result,), properties=properties)
        )

    # Constants and index arithmetic

    def index(self, value: Index) -> SSAValue:
        if value.__class__ in VALUES or isinstance(value, SSAValue):
            return value  # pyright: ignore[reportReturnType]
        constant = self.made(arith.ConstantOp, (), INDEX, {"value": index_attribute(value)})
        constant.name_hint = f"c{value}" if value >= 0 else f"cm{-value}"
        return constant

    def constant(self, value: float | int, kind: Attribute) -> SSAValue:
        """A scalar or splat vector constant of type `kind`; floats beyond its range are infinite."""
        negative_zero = value == 0 and math.copysign(1.0, value) < 0
        attribute = _number(value, negative_zero, kind)
        return self.made(arith.ConstantOp, (), kind, {"value": attribute})

    def add(self, a: Index, b: Index) -> SSAValue:
        if b == 0:
            return self.index(a)
        return self._of_two(arith.AddiOp, a, b)

    def sub(self, a: Index, b: Index) -> SSAValue:
        return self._of_two(arith.SubiOp, a, b)

    def mul(self, a: Index, b: Index) -> SSAValue:
        return self._of_two(arith.MuliOp, a, b)

    def floordiv(self, a: Index, b: Index) -> SSAValue:
        """Of non-negative values."""
        return self._of_two(arith.DivUIOp, a, b)

    def rem(self, a: Index, b: Index) -> SSAValue:
        """Of non-negative values."""
        return self._of_two(arith.RemUIOp, a, b)

    def round_down(self, a: Index, multiple: int) -> Index:
        """The largest multiple that is not above `a`."""
        if isinstance(a, int):
            return a // multiple * multiple
        return self.sub(a, self.rem(a, multiple))

    def compare(self, predicate: str, a: Index, b: Index) -> SSAValue:
        """`eq ne slt sle sgt sge ult ule ugt uge` on indices."""
        left, right = self.index(a), self.index(b)
        if not isinstance(left.type, IndexType):
            return self.insert(arith.CmpiOp(left, right, predicate))
        number = arith.CMPI_COMPARISON_OPERATIONS.index(predicate)
        return self.made(arith.CmpiOp, (left, right), i1, {"predicate": i64_attribute(number)})

    # Control flow

    def loop(
        self,
        start: Index,
        stop: Index,
        step: Index,
        body: Callable[[SSAValue], None],
        *,
        parallel: bool = False,
        together: bool = False,
        hint: str = "i",
    ) -> None:
        """`for i in range(start, stop, step)` without carried values.

        `parallel` marks the loop whose iterations may run on several threads, `together` one around such
        loops, whose iterations follow each other. Its bounds are the same whoever asks.
        """
        self.reduce(
            start, stop, step, (), lambda i, _: (body(i), ())[1], hint=hint, parallel=parallel
        )
        if together:
            block = self.builder.insertion_point.block
            before = self.builder.insertion_point.insert_before
            loop = block.last_op if before is None else before.prev_op
            assert isinstance(loop, scf.ForOp)
            loop.attributes[TOGETHER] = UnitAttr()

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
        sums: str | None = None,
        rounds: int | None = None,
        beside: int = 1,
    ) -> tuple[SSAValue, ...]:
        """A loop that carries values: `body(i, values)` returns the next ones.

        `sums` says what it adds up, as `SUMS` has it, `beside` in how many parts, `rounds` how often it
        runs at most.
        """
        block = Block(arg_types=[INDEX, *(v.type for v in carried)])
        block.args[0].name_hint = hint
        loop = scf.ForOp(
            self.index(start), self.index(stop), self.index(step), list(carried), Region(block)
        )
        if parallel:
            loop.attributes[PARALLEL] = UnitAttr()
        if sums is not None:
            loop.attributes[SUMS] = StringAttr(sums)
        if beside > 1:
            loop.attributes[BESIDE] = index_attribute(beside)
        if rounds is not None:
            loop.attributes[ROUNDS] = index_attribute(rounds)
        self.do(loop)
        outer = self.builder.insertion_point
        self.builder.insertion_point = InsertPoint.at_end(block)
        results = body(block.args[0], block.args[1:])
        self.do(scf.YieldOp(*results))
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
        self.do(op)
        outer = self.builder.insertion_point
        for region, branch in zip(regions, (then, otherwise)):
            if branch is not None:
                self.builder.insertion_point = InsertPoint.at_end(region.block)
                self.do(scf.YieldOp(*(branch() or ())))
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
        assert isinstance(buffer.type, MemRefType)
        places = [self.index(i) for i in indices]
        kind = buffer.type.element_type
        return self.made(memref.LoadOp, (buffer, *places), kind)

    def store(self, value: SSAValue, buffer: SSAValue, indices: Sequence[Index]) -> None:
        places = [self.index(i) for i in indices]
        self.do(memref.StoreOp.create(operands=(value, buffer, *places)))

    def vload(
        self, buffer: SSAValue, indices: Sequence[Index], lanes: int, mask: SSAValue | None = None
    ) -> SSAValue:
        """`lanes` neighbours along the last axis; lanes that the mask leaves out read 0."""
        assert isinstance(buffer.type, MemRefType)
        kind = vector_of(buffer.type.element_type, lanes)
        places = [self.index(i) for i in indices]
        if mask is None:
            return self.made(vector.LoadOp, (buffer, *places), kind)
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
            self.do(vector.StoreOp.create(operands=(value, buffer, *places)))
        else:
            self.do(vector.MaskedStoreOp(buffer, places, mask, value))

    def splat(self, value: SSAValue, lanes: int) -> SSAValue:
        kind = vector_of(value.type, lanes)
        return self.made(vector.BroadcastOp, (value,), kind)

    def from_elements(self, values: Sequence[SSAValue]) -> SSAValue:
        """The vector of some scalars of one type."""
        found = self.splat(values[0], len(values))
        for lane, value in enumerate(values[1:], 1):
            place = DenseArrayBase.from_list(i64, [lane])
            found = self.insert(
                vector.InsertOp.build(
                    operands=[value, found, []],
                    result_types=[found.type],
                    properties={"static_position": place},
                )
            )
        return found

    def mask(self, count: Index, lanes: int) -> SSAValue:
        """True in the first `count` lanes."""
        return self.insert(vector.CreateMaskOp([self.index(count)], vector_of(i1, lanes)))

    def fma(self, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
        """a·b + c on vectors of floats; with strict mathematics the product is rounded first."""
        if self.facts.strict_math:
            return self.insert(arith.AddfOp(self.insert(arith.MulfOp(a, b)), c))
        return self.made(vector.FMAOp, (a, b, c), a.type)

    # Arithmetic that is done here and now when both sides are known

    def plus(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        return self.add(b, a) if isinstance(a, int) else self.add(a, b)

    def minus(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return self.index(a) if isinstance(b, int) and b == 0 else self.sub(a, b)

    def times(self, a: Index, b: Index) -> Index:
        """The product, where possible without an instruction."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if 0 in (a, b):
            return 0
        if isinstance(a, int):
            a, b = b, a
        return a if b == 1 else self.mul(a, b)

    def ceil_div(self, a: Index, divisor: Index) -> Index:
        """Of a value that is not negative."""
        if isinstance(a, int) and isinstance(divisor, int):
            return -(-a // divisor)
        return a if divisor == 1 else self.floordiv(self.plus(a, self.minus(divisor, 1)), divisor)

    def minimum(self, a: Index, b: Index) -> Index:
        """The smaller of two signed indices."""
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self._of_two(arith.MinSIOp, a, b)

    def maximum(self, a: Index, b: Index) -> Index:
        """The larger of two signed indices."""
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self._of_two(arith.MaxSIOp, a, b)
