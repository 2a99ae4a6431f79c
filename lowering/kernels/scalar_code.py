"""Elementwise ops on single elements as scalar code: loads, the body, stores; no loop around them."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.linalg.ops import FillOp, GenericOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import is_packed
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.clone_body import clone_body
from openinfer.lowering.kernels.inserted import keep_location
from openinfer.lowering.locations import absorb_nodes


def is_scalar_code(op: Operation) -> bool:
    """Whether an op reads and writes buffers of rank 0 only.

    Elements of a packed dtype share their byte with a tail, which a kernel clears at its end.
    """
    if not isinstance(op, GenericOp | FillOp):
        return False
    buffers = [v for v in op.operands if isinstance(v.type, MemRefType)]
    return not any(_shape(v) or is_packed(nn.element_of(v)) for v in buffers)


def emit_scalar_code(op: Operation) -> None:
    """Replaces an op of rank 0: everything is loaded before anything is stored.

    Before:
        linalg.generic … ins(%x : memref<i32>) outs(%y : memref<i32>) {
        ^bb0(%a: i32, %o: i32):
          %r = arith.addi %a, %k : i32
          linalg.yield %r : i32 }
    After:
        %a = memref.load %x[] : memref<i32>
        %r = arith.addi %a, %k : i32
        memref.store %r, %y[] : memref<i32>
    """
    assert isinstance(op, GenericOp | FillOp)
    b = LoopBuilder(InsertPoint.before(op))
    with keep_location(op):
        if isinstance(op, FillOp):
            results = [op.inputs[0]]
        else:
            block = op.body.block
            # An output that the body does not ask for may hold anything.
            values: dict[SSAValue, SSAValue] = {
                argument: b.load(operand, []) if isinstance(operand.type, MemRefType) else operand
                for argument, operand in zip(block.args, op.operands)
                if argument.uses
            }
            results = clone_body(b, block, values, _no_index)
        for value, buffer in zip(results, op.outputs, strict=True):
            b.store(value, buffer, [])
    store = op.prev_op
    assert store is not None
    absorb_nodes(store, op)
    op.detach()
    op.erase()


def _shape(buffer: SSAValue) -> tuple[int, ...]:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type.get_shape()


def _no_index(axis: int) -> SSAValue:
    raise AssertionError(f"an op of rank 0 has no axis {axis}")
