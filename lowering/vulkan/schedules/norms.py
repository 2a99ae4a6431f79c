"""`nn.layer_norm` and `nn.rms_norm`: a workgroup computes a row, or, of many short ones, each subgroup does.

Before:
    nn.layer_norm(%x, %w, %c) outs(%y) {eps = 1.0e-12 : f64, has_bias, has_weight}
      : (memref<?x384xf32>, memref<384xf32>, memref<384xf32>, memref<?x384xf32>) -> ()

After:
    scf.if %inside {                        // %x[%row, %thread], and what is a workgroup further on
      %mean = …                             // of the workgroup's elements
      %variance = …                         // the mean of (x - mean)²: one pass would cancel
      memref.store %r, %y[%row, %thread] }

Requires: bufferised; weight and bias of the last axis; mathematics are not strict.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith, gpu
from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.math import SqrtOp
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.nn import LayerNormOp, RmsNormOp
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.numeric import count_as, wide_type
from openinfer.lowering.vulkan.schedules.grid import (
    Grid,
    each_group,
    groups_for,
    product,
    split,
)
from openinfer.lowering.vulkan.schedules.group_line import (
    GroupLine,
    even_lanes,
    invocations_for,
    lines_for,
)
from openinfer.lowering.vulkan.schedules.wide import common_lanes, load_wide, store_wide
from openinfer.lowering.vulkan.schedules.workgroup import Workgroup

Normal = Callable[[SSAValue], SSAValue]
"""What becomes of an element before weight and bias."""


class _Rows:
    """The rows of a norm."""

    def __init__(self, b: LoopBuilder, op: LayerNormOp | RmsNormOp) -> None:
        self.b, self.op = b, op
        self.source, self.target = op.inputs[0], op.output
        assert isinstance(self.source.type, MemRefType)
        assert isinstance(self.target.type, MemRefType)
        rank = len(self.source.type.get_shape())
        self.axes = range(rank - 1)
        self.stored = self.target.type.element_type
        self.computed = wide_type(self.source.type.element_type)
        self.length = b.dim(self.source, rank - 1)
        self.size = invocations_for(b, self.length)
        self.lines = lines_for(b, self.size, self.row_count(b, self.source))
        self.group = Workgroup(b, self.size, alone=self.lines == 1)
        self.count = count_as(b, self.length, self.computed)
        self.eps = op.eps.value.data

    def row_count(self, b: LoopBuilder, source: SSAValue) -> Index:
        return product(b, [b.dim(source, axis) for axis in self.axes])

    def add(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.insert(arith.AddfOp(x, y))

    def mul(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.insert(arith.MulfOp(x, y))

    def sub(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.insert(arith.SubfOp(x, y))

    def mean(self, line: GroupLine, of: Normal) -> SSAValue:
        """The mean of `of(element)`."""
        total = line.fold(0, lambda x, old: self.add(old, of(x)), self.add)
        return self.b.insert(arith.DivfOp(total, self.count))

    def over_square(self, square: SSAValue) -> SSAValue:
        """1 / sqrt(square + eps)."""
        b = self.b
        root = b.insert(SqrtOp(self.add(square, b.constant(self.eps, self.computed))))
        return b.insert(arith.DivfOp(b.constant(1.0, self.computed), root))

    def lower(
        self,
        normal: Callable[[GroupLine], Normal],
        weight: SSAValue | None,
        bias: SSAValue | None,
    ) -> Grid:
        """normal(x) · weight + bias for every row, each as far as there is one."""
        b = self.b

        given = [buffer for buffer in (weight, bias) if buffer is not None]
        lanes = common_lanes(self.op, (self.source, self.target, *given))
        lanes = even_lanes(self.length, self.size, lanes)

        def read(buffer: SSAValue, place: list[Index], count: int) -> list[SSAValue]:
            return [convert(b, v, self.computed) for v in load_wide(b, buffer, place, count)]

        def row(number: SSAValue) -> None:
            around: list[Index] = [*split(b, number, [b.dim(self.source, a) for a in self.axes])]
            line = GroupLine(
                self.group,
                self.length,
                lambda k, count: read(self.source, [*around, k], count),
                self.computed,
                lanes,
            )
            finish = normal(line)

            def elements(k: SSAValue, values: list[SSAValue]) -> None:
                values = [finish(value) for value in values]
                if weight is not None:
                    values = list(map(self.mul, values, read(weight, [k], lanes)))
                if bias is not None:
                    values = list(map(self.add, values, read(bias, [k], lanes)))
                stored = [convert(b, value, self.stored) for value in values]
                store_wide(b, stored, self.target, [*around, k])

            line.each(elements)

        def some(number: SSAValue) -> None:
            row(b.add(b.mul(number, self.lines), b.insert(gpu.SubgroupIdOp())))

        def count(b: LoopBuilder, source: SSAValue) -> Index:
            rows = self.row_count(b, source)
            return rows // self.lines if isinstance(rows, int) else rows

        each_group(b, count(b, self.source), row if self.lines == 1 else some)
        return Grid(
            lambda host, value_of: groups_for(host, count(host, value_of(self.source))),
            self.size * self.lines,
        )


def lower_layer_norm(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a layer norm. What the rounding of the mean is off by is the mean of x - mean, and goes
    from the variance and from every element."""
    assert isinstance(op, LayerNormOp)
    rows = _Rows(b, op)
    rest = list(op.inputs[1:])
    weight = rest.pop(0) if op.has_weight is not None else None
    bias = rest.pop(0) if op.has_bias is not None else None

    def normal(line: GroupLine) -> Normal:
        rounded = rows.mean(line, lambda x: x)
        line.map(lambda x: rows.sub(x, rounded))
        off = rows.mean(line, lambda x: x)
        line.map(lambda x: rows.sub(x, off))
        factor = rows.over_square(rows.mean(line, lambda x: rows.mul(x, x)))
        return lambda x: rows.mul(x, factor)

    return rows.lower(normal, weight, bias)


def lower_rms_norm(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of an RMS norm."""
    assert isinstance(op, RmsNormOp)
    rows = _Rows(b, op)
    weight = op.inputs[1] if len(op.inputs) > 1 else None

    def normal(line: GroupLine) -> Normal:
        factor = rows.over_square(rows.mean(line, lambda x: rows.mul(x, x)))
        return lambda x: rows.mul(x, factor)

    return rows.lower(normal, weight, None)
