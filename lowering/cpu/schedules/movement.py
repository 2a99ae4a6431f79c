"""Ops that move or make elements, as vector loops.

Before:
    nn.concat(%a, %b) outs(%y) {axis = 1 : i64}
      : (memref<?x16xf32>, memref<?x32xf32>, memref<?x48xf32>) -> ()

After:
    scf.for %i = %c0 to %rows step %c1 {
      %v = vector.load %a[%i, %c0] : memref<?x16xf32>, vector<16xf32>
      vector.store %v, %y[%i, %c0] : memref<?x48xf32>, vector<16xf32>
      scf.for %j = %c0 to %c32 step %c16 { … } // %b to %y[%i, %j + 16]
    } {openinfer.parallel}

Requires: bufferised; contiguous operands. A gather's second destination takes its errors; its
indices are signed, unless it says `unsigned_indices`.
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    FloatAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
)
from xdsl.dialects.linalg.ops import FillOp as LinalgFillOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from openinfer.dialects.nn import (
    BroadcastOp,
    CheckIndicesOp,
    ConcatOp,
    FillOp,
    GatherOp,
    IotaOp,
    ReshapeOp,
    SizeOp,
    SliceOp,
    TransposeOp,
    element_of,
)
from openinfer.lowering.cpu.schedules.block_rows import unpack_row
from openinfer.lowering.cpu.schedules.gathers import Move, Run, check_indices, gather, report_into
from openinfer.lowering.cpu.vector_width import lanes_of
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.copies import Cut, concatenate, copy_run, cut_out
from openinfer.lowering.kernels.nest import Access, Nest, nest_extents
from openinfer.lowering.kernels.nest_loops import Kernel, emit_kernel
from openinfer.lowering.kernels.numeric import index_to, positions
from openinfer.lowering.kernels.rules import Rule
from openinfer.lowering.kernels.runs import collapse, each, extent_of, vector_run, view_around
from openinfer.runtime.blocks import BLOCKS
from openinfer.runtime.errors import CompileError
from openinfer.runtime.sizes import Size


def _kind(value: SSAValue) -> MemRefType:
    assert isinstance(value.type, MemRefType)
    return value.type


# Fill and count -----------------------------------------------------------------------------------


def _fill_with_operand(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, LinalgFillOp)
    for value, target in zip(op.inputs, op.outputs):
        _fill(b, op, value, target)
    return True


def _fill_with_setting(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, FillOp)
    element = element_of(op.output)
    value = op.value
    if not isinstance(value, FloatAttr | IntegerAttr):
        raise CompileError("OI0932", f"nn.fill with {value}: neither an integer nor a float")
    number = value.value.data
    if isinstance(element, IntegerType):
        half = 1 << (element.bitwidth - 1)
        number = (int(number) + half) % (2 * half) - half
        if isinstance(value.type, IntegerType) and value.type.bitwidth == 1:
            number = abs(number)  # i1 holds true as -1
    _fill(b, op, b.constant(number, element), op.output)
    return True


def _fill(b: LoopBuilder, op: Operation, value: SSAValue, target: SSAValue) -> None:
    rank = _kind(target).get_num_dims()
    if rank == 0:
        b.store(value, target, ())
        return
    lanes = lanes_of(op, value.type)
    flat = collapse(b, target, [list(range(rank))])
    filled = b.splat(value, lanes)
    extent = extent_of(b, target, range(rank))
    vector_run(b, extent, lanes, lambda i, mask: b.vstore(filled, flat, [i], mask), parallel=True)


def _iota(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, IotaOp)
    view = view_around(b, op.output, op.axis.value.data)
    element = element_of(op.output)
    lanes = lanes_of(op, element)

    def along_axis(outer: SSAValue) -> None:
        def chunk(k: SSAValue, mask: SSAValue | None) -> None:
            value = index_to(b, positions(b, k, lanes), element)
            b.vstore(value, view.buffer, view.at(outer, k, 0), mask)

        vector_run(b, view.count, lanes, chunk, parallel=view.outer.static == 1)

    def across_axis(outer: SSAValue) -> None:
        def row(k: SSAValue) -> None:
            value = b.splat(index_to(b, k, element), lanes)

            def chunk(i: SSAValue, mask: SSAValue | None) -> None:
                b.vstore(value, view.buffer, view.at(outer, k, i), mask)

            vector_run(b, view.inner, lanes, chunk)

        each(b, view.count, row, parallel=view.outer.static == 1)

    each(b, view.outer, across_axis if view.parts[2] else along_axis, parallel=True)
    return True


# Permute and repeat -------------------------------------------------------------------------------


def _transpose(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, TransposeOp)
    order = op.permutation.get_values()
    indices = [AffineExpr.dimension(order.index(axis)) for axis in range(len(order))]
    _move(b, op, indices)
    return True


def _broadcast(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, BroadcastOp)
    have, want = _kind(op.inputs[0]).get_shape(), _kind(op.output).get_shape()
    missing = len(want) - len(have)
    indices = [
        AffineExpr.constant(0)
        if size == 1 and want[axis + missing] != 1
        else AffineExpr.dimension(axis + missing)
        for axis, size in enumerate(have)
    ]
    _move(b, op, indices)
    return True


def _move(b: LoopBuilder, op: TransposeOp | BroadcastOp, indices: list[AffineExpr]) -> None:
    """`output[d0, d1, …] = input[indices]`."""
    rank = _kind(op.output).get_num_dims()
    target = Access.of(op.output, [AffineExpr.dimension(d) for d in range(rank)])
    source = Access.of(op.inputs[0], indices)
    nest = Nest(nest_extents(b, rank, [target], op.name), [False] * rank, [source], [target])
    nest.simplify()
    lanes = lanes_of(op, element_of(op.output))
    emit_kernel(b, Kernel(nest, lambda b, inputs, outputs, index: inputs, lanes, [False], [None]))


# Views that became copies -------------------------------------------------------------------------


def _reshape(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, ReshapeOp)
    source, target = op.inputs[0], op.output
    ranks = [_kind(value).get_num_dims() for value in (source, target)]
    extent = extent_of(b, target, range(ranks[1]))
    flat = [
        collapse(b, value, [list(range(rank))]) if rank else value
        for value, rank in zip((source, target), ranks)
    ]
    copy_run(
        b,
        extent,
        lanes_of(op, element_of(target)),
        (flat[0], lambda i: [i] if ranks[0] else []),
        (flat[1], lambda i: [i] if ranks[1] else []),
        parallel=True,
    )
    return True


def _slice(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, SliceOp)
    cuts = [
        Cut(_size(b, start.data), step) for start, step in zip(op.starts, op.steps.get_values())
    ]
    cut_out(b, op.inputs[0], op.output, cuts, lanes_of(op, element_of(op.output)))
    return True


def _size(b: LoopBuilder, size: Size) -> Index:
    return b.insert(SizeOp(size)) if size.constant is None else size.constant


def _concat(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, ConcatOp)
    lanes = lanes_of(op, element_of(op.output))
    concatenate(b, op.inputs, op.output, op.axis.value.data, lanes)
    return True


def _gather(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, GatherOp)
    node = op.node.value.data if op.node is not None else 0
    errors = op.room("errors")
    report = report_into(b, errors, node) if errors is not None else None
    table, indices = op.inputs
    lanes = lanes_of(op, element_of(op.output))
    unsigned = op.unsigned_indices is not None
    move: Move | None = None
    if op.block is not None:
        assert isinstance(table.type, MemRefType)
        block, nbytes = BLOCKS[op.block.data], table.type.get_shape()[-1]

        def unpack(here: Run, there: Run) -> None:
            unpack_row(b, block, nbytes, here, there)

        move = unpack
    axis = op.axis.value.data
    gather(b, table, indices, op.output, axis, lanes, report, unsigned=unsigned, move=move)
    return True


def _check_indices(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, CheckIndicesOp)
    node = op.node.value.data if op.node is not None else 0
    report = report_into(b, op.output, node)
    bound = _size(b, op.bound.data)
    check_indices(b, op.inputs[0], bound, report, unsigned=op.unsigned_indices is not None)
    return True


RULES: dict[str, Rule] = {
    LinalgFillOp.name: _fill_with_operand,
    FillOp.name: _fill_with_setting,
    IotaOp.name: _iota,
    TransposeOp.name: _transpose,
    BroadcastOp.name: _broadcast,
    ReshapeOp.name: _reshape,
    SliceOp.name: _slice,
    ConcatOp.name: _concat,
    GatherOp.name: _gather,
    CheckIndicesOp.name: _check_indices,
}
