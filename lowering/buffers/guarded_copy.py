"""A copy in the memory of the device that is none when a kernel in front of it has noted an error."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import AffineMapAttr, MemRefType, i64
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.numeric import select
from openinfer.lowering.linalg.generic import PARALLEL, identity_map


def copy_unless(noted: SSAValue, source: SSAValue, target: SSAValue) -> linalg.GenericOp:
    """Copies a buffer into another one of its shape, where the first word of a record is 0.

    linalg.generic ins(%source, %noted) outs(%target) {
    ^bb0(%new, %word, %old):
      %none = arith.cmpi eq, %word, %c0 : i64
      %kept = arith.select %none, %new, %old
      linalg.yield %kept }
    """
    kind = target.type
    assert isinstance(kind, MemRefType)
    rank, element = kind.get_num_dims(), kind.element_type
    block = Block(arg_types=[element, i64, element])
    new, word, old = block.args
    b = LoopBuilder(InsertPoint.at_end(block))
    none = b.insert(arith.CmpiOp(word, b.constant(0, i64), "eq"))
    b.do(linalg.YieldOp(select(b, none, new, old)))
    identity = AffineMapAttr(identity_map(rank))
    first = AffineMapAttr(AffineMap(rank, 0, (AffineExpr.constant(0),)))
    return linalg.GenericOp(
        [source, noted],
        [target],
        Region(block),
        [identity, first, identity],
        [PARALLEL] * rank,
        [],
    )
