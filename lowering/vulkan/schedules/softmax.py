"""`nn.softmax`: a workgroup computes a line along the last axis; along another axis an invocation does.

Before:
    nn.softmax(%x) outs(%y) {axis = 1 : i64} : (memref<?x64xf32>, memref<?x64xf32>) -> ()

After:
    scf.if %inside {                        // %x[%line, %thread], and what is a workgroup further on
      %top = …                              // the largest of the workgroup's elements
      %e = math.exp %shifted
      %total = …                            // the sum of the workgroup's powers
      memref.store %quotient, %y[%line, %thread]
    }

Requires: bufferised; operands of one float type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.math import ExpOp, LogOp
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.nn import SoftmaxOp
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.numeric import INF, greater, wide_type
from openinfer.lowering.vulkan.schedules.grid import (
    Grid,
    each_group,
    grid_for,
    groups_for,
    numbered,
    product,
    split,
)
from openinfer.lowering.vulkan.schedules.group_line import GroupLine, invocations_for
from openinfer.lowering.vulkan.schedules.wide import common_lanes, load_wide, store_wide
from openinfer.lowering.vulkan.schedules.workgroup import Workgroup


def lower_softmax(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a softmax, or of its logarithm."""
    assert isinstance(op, SoftmaxOp)
    source = op.inputs[0]
    assert isinstance(source.type, MemRefType)
    along = op.axis.value.data == len(source.type.get_shape()) - 1
    return _by_groups(b, op) if along else _by_invocations(b, op)


@dataclass
class _Lines:
    """The lines of an operand and of the result."""

    b: LoopBuilder
    op: SoftmaxOp

    def __post_init__(self) -> None:
        self.source, self.target = self.op.inputs[0], self.op.output
        assert isinstance(self.source.type, MemRefType)
        assert isinstance(self.target.type, MemRefType)
        self.axis = self.op.axis.value.data
        self.others = [a for a in range(len(self.source.type.get_shape())) if a != self.axis]
        self.stored = self.target.type.element_type
        self.computed = wide_type(self.source.type.element_type)

    def count(self, b: LoopBuilder, source: SSAValue) -> Index:
        """How many there are."""
        return product(b, [b.dim(source, a) for a in self.others])

    def place(self, number: SSAValue) -> Callable[[Index], list[Index]]:
        """Where the elements of a line lie, by its number."""
        b, axis = self.b, self.axis
        around = split(b, number, [b.dim(self.source, a) for a in self.others])
        return lambda k: [*around[:axis], k, *around[axis:]]

    def load(self, place: Sequence[Index]) -> SSAValue:
        return convert(self.b, self.b.load(self.source, place), self.computed)

    def power(self, value: SSAValue, top: SSAValue) -> SSAValue:
        """exp(value - top)."""
        return self.b.insert(ExpOp(self.b.insert(arith.SubfOp(value, top))))

    def add(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.insert(arith.AddfOp(x, y))

    def larger(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """The larger of two. NaN may be passed over: the sum will be NaN by it."""
        return greater(self.b, x, y)

    def results(self, values: Sequence[SSAValue], end: SSAValue) -> list[SSAValue]:
        """What becomes of what is left of some elements: powers times `end`, or logarithms less `end`."""
        b = self.b
        op = arith.SubfOp if self.op.log is not None else arith.MulfOp
        return [convert(b, b.insert(op(value, end)), self.stored) for value in values]

    def end(self, total: SSAValue) -> SSAValue:
        """What a line has in common, by the sum of its powers."""
        b = self.b
        if self.op.log is not None:
            return b.insert(LogOp(total))
        return b.insert(arith.DivfOp(b.constant(1.0, self.computed), total))


def _by_groups(b: LoopBuilder, op: SoftmaxOp) -> Grid:
    lines = _Lines(b, op)
    length = b.dim(lines.source, lines.axis)
    size = invocations_for(b, length)
    group = Workgroup(b, size)
    lanes = common_lanes(op, (lines.source, lines.target))

    def line(number: SSAValue) -> None:
        at = lines.place(number)

        def load(k: Index, count: int) -> list[SSAValue]:
            found = load_wide(b, lines.source, at(k), count)
            return [convert(b, value, lines.computed) for value in found]

        shared = GroupLine(group, length, load, lines.computed, lanes)
        top = shared.fold(-INF, lines.larger, lines.larger)
        if op.log is not None:
            shared.map(lambda x: b.insert(arith.SubfOp(x, top)))
            total = shared.fold(0, lambda x, old: lines.add(old, b.insert(ExpOp(x))), lines.add)
        else:
            shared.map(lambda x: lines.power(x, top))
            total = shared.fold(0, lambda x, old: lines.add(old, x), lines.add)
        end = lines.end(total)
        shared.each(
            lambda k, values: store_wide(b, lines.results(values, end), lines.target, at(k))
        )

    each_group(b, lines.count(b, lines.source), line)
    return Grid(
        lambda host, value_of: groups_for(host, lines.count(host, value_of(lines.source))), size
    )


def _by_invocations(b: LoopBuilder, op: SoftmaxOp) -> Grid:
    lines = _Lines(b, op)
    length = b.dim(lines.source, lines.axis)

    def line(number: SSAValue) -> None:
        at = lines.place(number)

        def fold(first: float, step: Callable[[SSAValue, SSAValue], SSAValue]) -> SSAValue:
            start = b.constant(first, lines.computed)
            (found,) = b.reduce(
                0, length, 1, [start], lambda k, old: [step(lines.load(at(k)), old[0])], hint="k"
            )
            return found

        top = fold(-INF, lines.larger)
        end = lines.end(fold(0, lambda x, old: lines.add(old, lines.power(x, top))))

        def finish(k: SSAValue) -> None:
            value = lines.load(at(k))
            log = op.log is not None
            left = b.insert(arith.SubfOp(value, top)) if log else lines.power(value, top)
            store_wide(b, lines.results([left], end), lines.target, at(k))

        b.loop(0, length, 1, finish, hint="k")

    numbered(b, lines.count(b, lines.source), line)
    return Grid(lambda host, value_of: grid_for(host, lines.count(host, value_of(lines.source))))
