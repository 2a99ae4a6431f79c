"""`nn.conv`: an invocation computes an element of the result.

Before:
    nn.conv(%x, %w) outs(%y) {kernel = array<i64: 3, 3>, groups = 1 : i64, …}
      : (memref<?x4x9x9xf32>, memref<8x4x3x3xf32>, memref<?x8x7x7xf32>) -> ()

After:
    scf.if %inside {                          // %n, %o, %h, %w of the element
      %sum = scf.for %c = %c0 to %c4 …
        scf.for %i = %first to %behind …      // the rows of the kernel that meet the plane
          scf.for %j = … { %v = memref.load %x[%n, %c, %line, %column] … }
      memref.store %sum, %y[%n, %o, %h, %w] }

Requires: bufferised; no layout of the kernels, no pooling.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.math import FmaOp
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects.nn import ConvOp, element_of
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import accumulator_of, add, convert, multiply
from openinfer.lowering.kernels.epilogue import Epilogue, Place, extras_of
from openinfer.lowering.kernels.window_axes import axes_of, reached
from openinfer.lowering.vulkan.schedules.grid import Grid, each_element
from openinfer.lowering.vulkan.schedules.nested_loops import Ranges, Values, over


def lower_conv(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a convolution, with what follows it."""
    assert isinstance(op, ConvOp)
    return each_element(b, op.output, _Convolution(b, op).element)


class _Convolution:
    def __init__(self, b: LoopBuilder, op: ConvOp) -> None:
        self.b, self.op = b, op
        self.source, self.weight = op.inputs[:2]
        self.axes = axes_of(b, op)
        body = op.body[0].block if op.body else None
        self.epilogue = Epilogue(b, op.output, extras_of(op), body)
        stored = element_of(op.output)
        self.sums: Attribute = accumulator_of(stored) if body is None else body.args[0].type
        assert isinstance(self.weight.type, MemRefType)
        outputs, self.channels, *self.kernel = self.weight.type.get_shape()
        self.together = outputs // op.groups.value.data
        """Channels of the result that read the same channels of x."""

    def element(self, place: list[SSAValue]) -> None:
        b = self.b
        batch, output, *numbers = place
        firsts, ranges = self._reach(numbers)
        group: Index = 0
        if self.op.groups.value.data > 1:
            group = b.mul(b.floordiv(output, self.together), self.channels)

        def step(at: list[SSAValue], old: Values) -> Values:
            channel, *parts = at
            there = [
                b.plus(b.times(part, way.dilation), first)
                for part, way, first in zip(parts, self.axes, firsts)
            ]
            value = self._load(self.source, [batch, b.plus(channel, group), *there])
            return [self._more(value, self._load(self.weight, [output, *at]), old[0])]

        self.epilogue.prepare(None)
        zero = b.constant(0, self.sums)
        (total,) = over(b, [(0, self.channels, None), *ranges], [zero], step)
        self.epilogue.store(total, Place(tuple(place), None))

    def _reach(self, numbers: Sequence[SSAValue]) -> tuple[list[Index], Ranges]:
        """Where a window begins along each axis, and which of its elements lie in the plane."""
        b = self.b
        firsts: list[Index] = []
        ranges: list[tuple[Index, Index, int | None]] = []
        for axis, (way, number) in enumerate(zip(self.axes, numbers)):
            first = b.minus(b.times(number, way.stride), way.before)
            firsts.append(first)
            size = self.kernel[axis]
            if way.inside:
                ranges.append((0, size, None))
            else:
                extent = b.dim(self.source, 2 + axis)
                ranges.append((*reached(b, first, way.dilation, extent, size), size))
        return firsts, ranges

    def _load(self, buffer: SSAValue, place: Sequence[Index]) -> SSAValue:
        return convert(self.b, self.b.load(buffer, place), self.sums)

    def _more(self, x: SSAValue, weight: SSAValue, total: SSAValue) -> SSAValue:
        """total + x · weight, rounded once where mathematics are not strict."""
        b = self.b
        if b.facts.strict_math:
            return add(b, total, multiply(b, x, weight))
        return b.insert(FmaOp(x, weight, total))
