"""What patterns ask of a value: the op behind it, a constant, an elementwise function."""

from __future__ import annotations

from collections.abc import Sequence

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


def parts_of(op: Operation, edges: Sequence[SSAValue]) -> list[Operation] | None:
    """`op` and the ops that compute it from the values `edges`; None when they must stay apart.

    Constants may stand anywhere; the others have no barrier and no hint between them and `op`.
    """
    seen: dict[Operation, None] = {op: None}
    pending = [op]
    while pending:
        for value in pending.pop().operands:
            part = value.owner
            if value in edges or constant_of(value) is not None or part in seen:
                continue
            if not isinstance(part, Operation) or not may_join(part, op):
                return None
            seen[part] = None
            pending.append(part)
    return list(seen)


def single_use(value: SSAValue) -> bool:
    """Whether exactly one operand reads the value."""
    return value.has_one_use()
