"""What patterns ask of a value: the op behind it, a constant, a factor, an elementwise function."""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, f64
from xdsl.ir import Operation, SSAValue

from openinfer.dialects import nn
from openinfer.lowering.fusing import may_join


def constant_of(value: SSAValue) -> float | None:
    """The number that fills a tensor, seen through broadcasts and reshapes; else None.

    Arithmetic of such numbers is one as well, since a scale is often written as 1 / sqrt(size).
    """
    owner = value.owner
    while isinstance(owner, nn.BroadcastOp | nn.ReshapeOp):
        owner = owner.inputs[0].owner
    if isinstance(owner, nn.FillOp) and isinstance(owner.value, FloatAttr | IntegerAttr):
        return float(owner.value.value.data)
    if not isinstance(owner, nn.ElementwiseOp) or nn.element_of(value) not in (f32, f64):
        return None
    compute = _ARITHMETIC.get(owner.kind.data)
    operands = [constant_of(operand) for operand in owner.inputs] if compute else []
    if compute is None or None in operands:
        return None
    try:
        found = compute(*operands)
    except (ArithmeticError, ValueError):
        return None
    return ctypes.c_float(found).value if nn.element_of(value) == f32 else found


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "sqrt": math.sqrt,
    "recip": (1.0).__truediv__,
    "neg": operator.neg,
    "mul": operator.mul,
    "div": operator.truediv,
}


def elementwise(value: SSAValue, kind: str) -> nn.ElementwiseOp | None:
    """The elementwise op of that kind behind a value, else None."""
    owner = value.owner
    if isinstance(owner, nn.ElementwiseOp) and owner.kind.data == kind:
        return owner
    return None


def scaled(value: SSAValue) -> tuple[SSAValue, float] | None:
    """(x, c) when a value is x·c or x/c with a constant c of usual size and the shape of x."""
    for kind in ("mul", "div"):
        op = elementwise(value, kind)
        if op is None:
            continue
        x, y = op.inputs
        factor = constant_of(y)
        if factor is None and kind == "mul":
            x, y = y, x
            factor = constant_of(y)
        if factor is None or x.type != value.type:
            return None
        if kind == "div":
            factor = 1.0 / factor if factor else 0.0
        return (x, factor) if _SMALL <= abs(factor) <= _LARGE else None
    return None


# A factor beyond these turns sums into 0, infinity or NaN that are something else term by term.
_SMALL, _LARGE = 1e-18, 1e18


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
