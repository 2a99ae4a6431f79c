"""The largest of each square of pixels is taken while they are still sums of a convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, ModuleOp, TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from openinfer.dialects import nn
from openinfer.lowering.demands import demands_of
from openinfer.lowering.facts import Facts
from openinfer.lowering.fusing import may_join
from openinfer.lowering.locations import absorb_nodes, give_location
from openinfer.runtime.sizes import Size

SIDE = 2


@dataclass(frozen=True)
class FusePooling(ModulePass):
    """Max pooling of squares of two becomes part of the convolution before it.

    Before:
        %y = nn.conv(%x, %w) extras(%bias) { addf, maximumf } : … -> tensor<1x32x64x64xf32>
        %p = nn.pool(%y) {kind = "max", kernel = [2, 2], stride = [2, 2], …}
    After:
        %p = nn.conv(%x, %w) extras(%bias) {pool = 2 : i64} { addf, maximumf } : … -> tensor<1x32x32x32xf32>

    The body then follows the maximum, a quarter as often: that gives the same numbers where the body
    never falls when its argument rises, as a bias and relu do (a zero may have the other sign).

    Requires: level `linalg` on tensors, epilogues fused.
    Leaves: other windows; bodies that may fall, or that tell pixels apart; convolutions with several
        users, with a barrier behind them, or that the machine's kernel does not pool well; everything
        when mathematics are strict.
    """

    name: ClassVar[str] = "fuse-pooling"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if Facts.of(op).strict_math:
            return
        for pool in [o for o in op.walk() if isinstance(o, nn.PoolOp)]:
            conv = pool.inputs[0].owner
            if isinstance(conv, nn.ConvOp) and _squares(pool) and _may_fuse(conv, pool):
                _fuse(conv, pool)


def _squares(pool: nn.PoolOp) -> bool:
    """Whether windows of two by two lie side by side."""
    side, one, zero = Size.of(SIDE), Size.of(1), Size.of(0)
    return (
        pool.kind.data == "max"
        and all(nn.sizes_in(numbers) == (side, side) for numbers in (pool.kernel, pool.stride))
        and all(size == zero for size in nn.sizes_in(pool.padding))
        and pool.ceil is None
        and nn.sizes_in(pool.dilation) == (one, one)
    )


def _may_fuse(conv: nn.ConvOp, pool: nn.PoolOp) -> bool:
    result = conv.result[0]
    if not result.has_one_use() or conv.parent_block() is not pool.parent_block():
        return False
    if conv.pool is not None or not may_join(conv, pool):
        return False
    if nn.element_of(result) != nn.element_of(pool.result[0]):
        return False
    for attribute in conv.maps or ():
        if {e.position for e in attribute.data.results if isinstance(e, AffineDimExpr)} & {2, 3}:
            return False
    if not demands_of(conv).pools(conv, pool):
        return False
    return not conv.body or _never_falls(conv.body[0].block)


_KEPT = (arith.MaximumfOp, arith.MinimumfOp, arith.MaxnumfOp, arith.MinnumfOp, arith.AddfOp)
"""What rises or stays with each operand."""


_BELOW = [arith.CMPF_COMPARISON_OPERATIONS.index(name) for name in ("olt", "ole")]


def _never_falls(body: Block) -> bool:
    """Whether what a body yields rises or stays when its first argument rises, rounding included."""
    rising: set[SSAValue] = {body.args[0]}
    for op in body.ops:
        used = [v for v in op.operands if v in rising]
        if not used or isinstance(op, nn.YieldOp):
            continue
        if isinstance(op, arith.CmpfOp) and all(
            _is_limit(u.operation, rising) for u in op.result.uses
        ):
            continue
        if isinstance(op, arith.SelectOp) and _is_limit(op, rising):
            rising.add(op.result)
            continue
        if isinstance(op, arith.MulfOp):
            if len(used) != 1 or not _is_positive(op.rhs if op.lhs in rising else op.lhs):
                return False
        elif isinstance(op, arith.SubfOp):
            if op.rhs in rising:
                return False
        elif not isinstance(op, (*_KEPT, arith.TruncFOp, arith.ExtFOp)):
            return False
        rising.update(op.results)
    return True


def _is_limit(op: Operation, rising: set[SSAValue]) -> bool:
    """Whether an op is `x < limit ? limit : x`."""
    if not isinstance(op, arith.SelectOp) or not isinstance(op.cond.owner, arith.CmpfOp):
        return False
    test, limit, value = op.cond.owner, op.lhs, op.rhs
    below = test.predicate.value.data in _BELOW
    return (
        below and value in rising and limit not in rising and (test.lhs, test.rhs) == (value, limit)
    )


def _is_positive(value: SSAValue) -> bool:
    op = value.owner
    if not isinstance(op, arith.ConstantOp) or not isinstance(op.value, FloatAttr):
        return False
    return op.value.value.data > 0


def _fuse(conv: nn.ConvOp, pool: nn.PoolOp) -> None:
    kind = pool.result[0].type
    assert isinstance(kind, TensorType)
    properties = {**conv.own_properties, "pool": nn.int_setting(SIDE)}
    body = None
    if conv.body:
        body = conv.body[0]
        conv.detach_region(body)
    new = nn.ConvOp(conv.inputs, [kind], (), properties, body, extras=conv.extras)
    new.attributes.update(conv.attributes)
    give_location(conv.location, new)
    absorb_nodes(new, conv, pool)
    new.result[0].name_hint = pool.result[0].name_hint
    Rewriter.replace_op(pool, [new], new.result)
    _erase(conv)


def _erase(op: Operation) -> None:
    op.detach()
    op.erase()
