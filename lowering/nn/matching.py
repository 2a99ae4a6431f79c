"""What patterns ask of a value: the op behind it, a constant, an elementwise function."""

from __future__ import annotations

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Operation, SSAValue

from openinfer.dialects import nn
from openinfer.lowering.fusing import may_join


def constant_of(value: SSAValue) -> float | None:
    """The number that fills a tensor, seen through broadcasts and reshapes; else None."""
    owner = value.owner
    while isinstance(owner, nn.BroadcastOp | nn.ReshapeOp):
        owner = owner.inputs[0].owner
    if isinstance(owner, nn.FillOp) and isinstance(owner.value, FloatAttr | IntegerAttr):
        return float(owner.value.value.data)
    return None


def elementwise(value: SSAValue, kind: str) -> nn.ElementwiseOp | None:
    """The elementwise op of that kind behind a value, else None."""
    owner = value.owner
    if isinstance(owner, nn.ElementwiseOp) and owner.kind.data == kind:
        return owner
    return None


def joins(op: Operation, *values: SSAValue) -> bool:
    """Whether `op` may be made one with the ops behind its operands, or their operands: no barrier
    stands between, no hint forbids it."""
    return all(isinstance(v.owner, Operation) and may_join(v.owner, op) for v in values)


def single_use(value: SSAValue) -> bool:
    """Whether exactly one operand reads the value."""
    return value.has_one_use()
