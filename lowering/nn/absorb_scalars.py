"""Scalar factors of a product's operands or result become its `alpha`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, FloatAttr, ModuleOp, f32, f64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from openinfer.dialects import nn
from openinfer.lowering.fusing import may_join
from openinfer.lowering.locations import absorb_nodes
from openinfer.lowering.nn.matching import constant_of, elementwise, single_use
from openinfer.lowering.options import current
from openinfer.lowering.rewriting import rewrite


@dataclass(frozen=True)
class AbsorbScalars(ModulePass):
    """Scales the accumulators of a matmul instead of a whole operand or result.

    Before:
        %y = nn.matmul(%q, %k) {transpose_b} : …
        %z = nn.elementwise(%y, %c) {kind = "mul"} : …
    After:
        %z = nn.matmul(%q, %k) {transpose_b, alpha = 0.5 : f64} : …

    Requires: level `nn`; f32 or f64, where the product is not rounded before it is scaled.
    Leaves: products that something else reads unscaled, operands of two dtypes, factors whose size
        would change what overflows, anything across a barrier; under `strict_math` everything.
    """

    name: ClassVar[str] = "absorb-scalars"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not current().strict_math:
            rewrite(op, [ScaledOperand(), ScaledResult()], erase_dead=True)


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


def _multiply(op: nn.MatmulOp, factor: float) -> FloatAttr:
    before = op.alpha.value.data if op.alpha is not None else 1.0
    return FloatAttr(before * factor, f64)


def _exact(op: nn.MatmulOp) -> bool:
    """Floats that are stored as wide as they are accumulated, all alike."""
    elements = {nn.element_of(v) for v in (*op.inputs[:2], op.result[0])}
    return elements in ({f32}, {f64})


class ScaledOperand(RewritePattern):
    """matmul(c·a, b) = c·matmul(a, b)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.MatmulOp, rewriter: PatternRewriter) -> None:
        if not isinstance(nn.element_of(op.inputs[0]), AnyFloat) or not _exact(op):
            return
        for position in (0, 1):
            found = scaled(op.inputs[position])
            if found is None or not single_use(op.inputs[position]):
                continue
            inner = op.inputs[position].owner
            if isinstance(inner, Operation) and may_join(inner, op):
                op.operands[position] = found[0]
                op.properties["alpha"] = _multiply(op, found[1])
                absorb_nodes(op, inner)
                rewriter.notify_op_modified(op)
                return


class ScaledResult(RewritePattern):
    """c·matmul(a, b) = matmul(a, b) with alpha times c"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.ElementwiseOp, rewriter: PatternRewriter) -> None:
        found = scaled(op.result[0])
        if found is None or not single_use(found[0]):
            return
        inner = found[0].owner
        if not isinstance(inner, nn.MatmulOp) or inner.body or not _exact(inner):
            return
        if not may_join(inner, op):
            return
        new = nn.MatmulOp(
            list(inner.inputs),
            [op.result[0].type],
            properties={
                **{k: v for k, v in inner.properties.items() if k != "operandSegmentSizes"},
                "alpha": _multiply(inner, found[1]),
            },
        )
        new.attributes.update(inner.attributes)
        absorb_nodes(new, inner, op)
        rewriter.replace(op, new)
        rewriter.erase(inner)
