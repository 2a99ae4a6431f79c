"""`nn.slice` and `nn.concat`: an invocation copies an element of the result.

Before:
    nn.slice(%x) outs(%y) {starts = [#graph.size<3>], steps = array<i64: -1>}
      : (memref<4xf32>, memref<2xf32>) -> ()

After:
    %i = number of the invocation
    scf.if %i < 2 {
      %place = %i * -1 + 3
      %v = memref.load %x[%place] : memref<4xf32>
      memref.store %v, %y[%i] : memref<2xf32>
    }

Requires: bufferised.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.nn import ConcatOp, SizeOp, SliceOp
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.vulkan.schedules.grid import Grid, each_element
from openinfer.runtime.sizes import Size


def lower_slice(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a slice."""
    assert isinstance(op, SliceOp)
    source = op.inputs[0]
    starts = [_size(b, start.data) for start in op.starts]
    steps = op.steps.get_values()

    def element(place: list[SSAValue]) -> None:
        there = [
            b.plus(i if step == 1 else b.mul(i, step), start)
            for i, step, start in zip(place, steps, starts, strict=True)
        ]
        b.store(b.load(source, there), op.output, place)

    return each_element(b, op.output, element)


def _size(b: LoopBuilder, size: Size) -> Index:
    return b.insert(SizeOp(size)) if size.constant is None else size.constant


def lower_concat(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a join: each element asks which operand it lies in."""
    assert isinstance(op, ConcatOp)
    assert isinstance(op.output.type, MemRefType)
    axis = op.axis.value.data % op.output.type.get_num_dims()

    def element(place: list[SSAValue]) -> None:
        def copy(sources: Sequence[SSAValue], there: list[SSAValue]) -> None:
            """From the one of `sources` that a place, counted from the first of them, lies in."""
            first, *others = sources

            def here() -> None:
                b.store(b.load(first, there), op.output, place)

            if not others:
                here()
                return
            extent = b.dim(first, axis)

            def behind() -> None:
                copy(others, [*there[:axis], b.sub(there[axis], extent), *there[axis + 1 :]])

            b.when(b.compare("ult", there[axis], extent), here, behind)

        copy(op.inputs, place)

    return each_element(b, op.output, element)
