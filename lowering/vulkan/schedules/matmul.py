"""`nn.matmul`: an invocation computes an element of the result, and its epilogue.

Before:
    nn.matmul(%x, %w) outs(%y) : (memref<?x64xf32>, memref<64x32xf32>, memref<?x32xf32>) -> ()

After:
    scf.if %inside {
      %sum = scf.for %k = %c0 to %c64 step %c1 iter_args(%s = %zero) -> (f32) {
        %a = memref.load %x[%i, %k]
        %b = memref.load %w[%k, %j]
        … }
      memref.store %sum, %y[%i, %j] : memref<?x32xf32>
    }

Requires: bufferised; no layout of the right operand.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects.nn import MatmulOp
from openinfer.lowering.kernels.batches import broadcast_place
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import accumulator_of, add, convert, multiply
from openinfer.lowering.kernels.epilogue import Epilogue, Place, extras_of
from openinfer.lowering.vulkan.schedules.grid import (
    Grid,
    HostValue,
    grid_for,
    numbered,
    product,
    split,
)


def lower_matmul(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a product."""
    assert isinstance(op, MatmulOp)
    left, right, output = op.left, op.right, op.output
    assert isinstance(output.type, MemRefType)
    rank = len(output.type.get_shape())
    body = op.body[0].block if op.body else None
    epilogue = Epilogue(b, output, extras_of(op), body)
    boolean, unsigned = op.boolean is not None, op.unsigned is not None
    sums = accumulator_of(_element(output)) if body is None else body.args[0].type
    axes = len(_shape(left))
    depth = b.dim(left, axes - 1 if op.transpose_a is None else axes - 2)

    def element(number: SSAValue) -> None:
        *batch, row, column = split(b, number, extents)
        at_left, at_right = (
            broadcast_place(b, _shape(operand)[:-2], batch) for operand in (left, right)
        )

        def step(k: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
            places = [(row, k), (k, column)]
            if op.transpose_a is not None:
                places[0] = (k, row)
            if op.transpose_b is not None:
                places[1] = (column, k)
            x, y = (
                convert(b, b.load(operand, [*front, *place]), sums, unsigned=unsigned)
                for operand, front, place in zip((left, right), (at_left, at_right), places)
            )
            return [add(b, old[0], multiply(b, x, y, boolean=boolean), boolean=boolean)]

        epilogue.prepare(None)
        (total,) = b.reduce(0, depth, 1, [b.constant(0, sums)], step, hint="k")
        epilogue.store(total, Place((*batch, row, column), None))

    extents = [b.dim(output, axis) for axis in range(rank)]
    numbered(b, product(b, extents), element)

    def groups(host: LoopBuilder, value_of: HostValue) -> tuple[Index, Index, Index]:
        target = value_of(output)
        return grid_for(host, product(host, [host.dim(target, axis) for axis in range(rank)]))

    return Grid(groups)


def _shape(buffer: SSAValue) -> Sequence[int]:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type.get_shape()


def _element(buffer: SSAValue) -> Attribute:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type.element_type
