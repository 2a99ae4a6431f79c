"""`nn.gather_elements`, `nn.scatter_elements`: an index for each element, along its own line.

A gather has an invocation for each element of the result. A scatter has one for each line of it: it
copies the line, then makes the updates of the line one after the other, so that equal indices have a fixed
order and nothing is written by two invocations.

Before:
    nn.gather_elements(%x, %at) outs(%y) {axis = 1 : i64}
      : (memref<9x4xf32>, memref<9x7xi64>, memref<9x7xf32>) -> ()

After:
    scf.if %inside {                          // %i, %j of the element
      %index = memref.load %at[%i, %j] : memref<9x7xi64>
      %ok = arith.cmpi ult, %index, %four : i64
      scf.if %ok {
        %v = memref.load %x[%i, %index] : memref<9x4xf32>
        memref.store %v, %y[%i, %j] : memref<9x7xf32> } }

Indices outside are the host's to report (`nn.check_indices`); here nothing is written for them.
Requires: bufferised; no error record; no elements that share bytes.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from openinfer.dialects.nn import GatherElementsOp, ScatterElementsOp
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.joins import joined
from openinfer.lowering.vulkan.schedules.grid import Grid, each_element
from openinfer.lowering.vulkan.schedules.indices import checked_index
from openinfer.lowering.vulkan.schedules.lines import Lines
from openinfer.lowering.vulkan.schedules.matmul_operands import both


def lower_gather_elements(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a gather by elements."""
    assert isinstance(op, GatherElementsOp)
    x, indices = op.inputs
    axis = op.axis.value.data
    bound = b.dim(x, axis)

    def element(place: list[SSAValue]) -> None:
        raw = b.load(indices, place)
        index, inside = checked_index(b, raw, bound, op.unsigned_indices is not None)

        def copy() -> None:
            b.store(b.load(x, [*place[:axis], index, *place[axis + 1 :]]), op.output, place)

        b.when(inside, copy)

    return each_element(b, op.output, element)


def lower_scatter_elements(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a scatter by elements."""
    assert isinstance(op, ScatterElementsOp)
    x, indices, updates = op.inputs
    lines = Lines(b, op.output, op.axis.value.data)

    def line(number: SSAValue) -> None:
        at, around = lines.place(number), lines.around(number)

        def copy(k: SSAValue) -> None:
            b.store(b.load(x, at(k)), op.output, at(k))

        def update(n: SSAValue) -> None:
            unsigned = op.unsigned_indices is not None
            index, inside = checked_index(b, b.load(indices, at(n)), lines.length, unsigned)

            def write() -> None:
                new = b.load(updates, at(n))
                if op.mode.data != "set":
                    old = b.load(op.output, at(index))
                    new = joined(b, op.mode.data, old, new, unsigned=op.unsigned is not None)
                b.store(new, op.output, at(index))

            b.when(inside, write)

        def updates_of_the_line() -> None:
            b.loop(0, b.dim(indices, op.axis.value.data), 1, update, hint="n")

        b.loop(0, lines.length, 1, copy, hint="k")
        # There may be lines of x that no index is for.
        fitting = [
            b.compare("ult", place, b.dim(indices, axis))
            for place, axis in zip(around, lines.others)
            if b.dim(indices, axis) != b.dim(x, axis)
        ]
        if fitting:
            b.when(both(b, fitting), updates_of_the_line)
        else:
            updates_of_the_line()

    return lines.each(line)
