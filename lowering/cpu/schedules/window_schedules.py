"""Ops over windows of planes, as loops.

Before:
    nn.unfold(%x) outs(%y) {stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, …}
      : (memref<1x4x8x8xf32>, memref<1x4x3x3x8x8xf32>) -> ()

After:
    scf.for %c = %c0 to %c4 step %c1 { scf.for %i = … { scf.for %j = … { scf.for %h = … {
      scf.if %inside { … vector.maskedload %x[%c, %line, …] … vector.maskedstore %y[…] … }
      else { … vector.maskedstore %y[…], %mask, %zeros … }
    }}}} {openinfer.parallel}

Requires: bufferised; contiguous operands.
"""

from __future__ import annotations

from xdsl.ir import Operation

from openinfer.dialects.nn import FoldOp, PoolOp, ResampleOp, UnfoldOp, element_of
from openinfer.lowering.cpu.schedules.pooling import pool
from openinfer.lowering.cpu.schedules.resampling import resample
from openinfer.lowering.cpu.schedules.windows import fold, unfold
from openinfer.lowering.cpu.vector_width import lanes_of
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.rules import Rule


def _unfold(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, UnfoldOp)
    unfold(b, op, lanes_of(op, element_of(op.output)))
    return True


def _fold(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, FoldOp)
    fold(b, op, lanes_of(op, element_of(op.output)))
    return True


def _pool(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, PoolOp)
    pool(b, op)
    return True


def _resample(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, ResampleOp)
    resample(b, op)
    return True


RULES: dict[str, Rule] = {
    UnfoldOp.name: _unfold,
    FoldOp.name: _fold,
    PoolOp.name: _pool,
    ResampleOp.name: _resample,
}
