"""`nn.softmax`: an invocation computes a line, in three walks over it.

Before:
    nn.softmax(%x) outs(%y) {axis = 1 : i64} : (memref<?x64xf32>, memref<?x64xf32>) -> ()

After:
    scf.if %inside {
      %m = scf.for %k = … iter_args(%old = %low) { larger of %old and %x[%i, %k] }
      %s = scf.for %k = … iter_args(%old = %zero) { %old + exp(%x[%i, %k] - %m) }
      scf.for %k = … { memref.store exp(%x[%i, %k] - %m) / %s, %y[%i, %k] }
    }

Requires: bufferised; operands of one float type.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    HostValue,
    grid_for,
    numbered,
    product,
    split,
)


def lower_softmax(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a softmax, or of its logarithm."""
    assert isinstance(op, SoftmaxOp)
    source, target, axis = op.inputs[0], op.output, op.axis.value.data
    assert isinstance(source.type, MemRefType)
    assert isinstance(target.type, MemRefType)
    stored, computed = target.type.element_type, wide_type(source.type.element_type)
    others = [a for a in range(len(source.type.get_shape())) if a != axis]
    length = b.dim(source, axis)

    def line(number: SSAValue) -> None:
        place = split(b, number, [b.dim(source, a) for a in others])

        def at(k: SSAValue) -> list[Index]:
            return [*place[:axis], k, *place[axis:]]

        def load(k: SSAValue) -> SSAValue:
            return convert(b, b.load(source, at(k)), computed)

        def largest(k: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
            return [greater(b, load(k), old[0])]

        def shifted(k: SSAValue) -> SSAValue:
            return b.insert(arith.SubfOp(load(k), top))

        def sum_up(k: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
            return [b.insert(arith.AddfOp(old[0], b.insert(ExpOp(shifted(k)))))]

        def finish(k: SSAValue) -> None:
            if op.log is not None:
                value = b.insert(arith.SubfOp(shifted(k), b.insert(LogOp(total))))
            else:
                value = b.insert(arith.DivfOp(b.insert(ExpOp(shifted(k))), total))
            b.store(convert(b, value, stored), target, at(k))

        (top,) = b.reduce(0, length, 1, [b.constant(-INF, computed)], largest, hint="k")
        (total,) = b.reduce(0, length, 1, [b.constant(0, computed)], sum_up, hint="k")
        b.loop(0, length, 1, finish, hint="k")

    numbered(b, product(b, [b.dim(source, a) for a in others]), line)

    def grid(host: LoopBuilder, value_of: HostValue) -> tuple[Index, Index, Index]:
        given = value_of(source)
        return grid_for(host, product(host, [host.dim(given, a) for a in others]))

    return grid
