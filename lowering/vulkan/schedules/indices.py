"""Indices that a program computes, as places in a buffer: of 64 bits in memory, of 32 in a kernel."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, IntegerType, i64
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.arith import IndexCastOp, IndexCastUIOp
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import compare_integers


def checked_index(
    b: LoopBuilder, raw: SSAValue, bound: Index, unsigned: bool
) -> tuple[SSAValue, SSAValue]:
    """An index, and whether it lies in 0..bound; `unsigned`: it has no sign."""
    assert isinstance(raw.type, IntegerType)
    index = b.insert((IndexCastUIOp if unsigned else IndexCastOp)(raw, IndexType()))
    if raw.type.width.data <= 32:
        # As a number without a sign what is below 0 is too large.
        return index, b.compare("ult", index, bound)
    # Before the upper bits are lost.
    limit = b.insert(IndexCastOp(b.index(bound), i64))
    return index, compare_integers(b, "ult", raw, limit)
