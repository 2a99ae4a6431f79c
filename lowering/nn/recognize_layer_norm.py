"""Layer normalisation written out becomes one operation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import FloatAttr, ModuleOp, UnitAttr, f32, f64
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from openinfer.dialects import nn
from openinfer.lowering.facts import Facts
from openinfer.lowering.fusing import may_join
from openinfer.lowering.locations import absorb_nodes
from openinfer.lowering.nn.matching import constant_of, elementwise, parts_of
from openinfer.lowering.rewriting import rewrite


@dataclass(frozen=True)
class RecognizeLayerNorm(ModulePass):
    """Reads a row once for mean, variance and result.

    Before:
        %m = mean(%x); %d = %x - %m; %v = mean(%d·%d); %r = rsqrt(%v + eps)
        %n = %d·%r; %y = %n·%w + %b
    After:
        %y = nn.layer_norm(%x, %w, %b) {eps = 1.0e-05 : f64, has_weight, has_bias} : …

    Requires: level `nn`; f32 or f64.
    Leaves: means over other axes than the last, variances of something else than x, and what has a
        barrier in between; under `strict_math` everything.
    """

    name: ClassVar[str] = "recognize-layer-norm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not Facts.of(op).strict_math:
            rewrite(op, [Normalise(), ScaleAndShift()], erase_dead=True)


def _last_axis_mean(value: SSAValue) -> SSAValue | None:
    """x when a value is the mean of x over its last axis, that axis kept."""
    owner = value.owner
    if not isinstance(owner, nn.ReduceOp) or owner.kind.data != "mean" or owner.keepdims is None:
        return None
    rank = len(nn.dims_of(owner.inputs[0]))
    return owner.inputs[0] if list(owner.axes.get_values()) == [rank - 1] else None


def _square_of(value: SSAValue) -> SSAValue | None:
    """d when a value is d·d or d**2."""
    product = elementwise(value, "mul")
    if product is not None:
        return product.inputs[0] if product.inputs[0] is product.inputs[1] else None
    power = elementwise(value, "pow")
    if power is not None and constant_of(power.inputs[1]) == 2.0:
        return power.inputs[0]
    return None


def _variance(value: SSAValue, centred: SSAValue) -> float | None:
    """eps when a value is mean(centred²) + eps."""
    total = elementwise(value, "add")
    if total is None:
        return None
    for x, y in (total.inputs, tuple(reversed(total.inputs))):
        eps = constant_of(y)
        mean = _last_axis_mean(x)
        if eps is not None and mean is not None and _square_of(mean) is centred:
            return eps
    return None


def _normalised(op: nn.ElementwiseOp) -> tuple[SSAValue, float] | None:
    """(x - mean, eps) when op is (x - mean) / sqrt(variance + eps)."""
    if op.kind.data == "div":
        root = elementwise(op.inputs[1], "sqrt")
        if root is not None:
            eps = _variance(root.inputs[0], op.inputs[0])
            return None if eps is None else (op.inputs[0], eps)
    if op.kind.data == "mul":
        for x, y in (op.inputs, tuple(reversed(op.inputs))):
            root = elementwise(y, "rsqrt")
            if root is not None:
                eps = _variance(root.inputs[0], x)
                if eps is not None:
                    return x, eps
    return None


class Normalise(RewritePattern):
    """(x - mean(x)) / sqrt(mean((x - mean(x))²) + eps) = layer_norm(x)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.ElementwiseOp, rewriter: PatternRewriter) -> None:
        if op.kind.data not in ("mul", "div") or len(op.inputs) != 2:
            return
        found = _normalised(op)
        if found is None:
            return
        centred, eps = found
        difference = elementwise(centred, "sub")
        if difference is None:
            return
        x, mean = difference.inputs
        if _last_axis_mean(mean) is not x or nn.element_of(x) not in (f32, f64):
            return
        parts = parts_of(op, [x])
        if op.result[0].type != x.type or parts is None:
            return
        new = nn.LayerNormOp([x], [x.type], properties={"eps": FloatAttr(eps, f64)})
        absorb_nodes(new, *parts)
        rewriter.replace(op, new)


class ScaleAndShift(RewritePattern):
    """layer_norm(x)·w = layer_norm(x, w);  layer_norm(x, w) + b = layer_norm(x, w, b)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.ElementwiseOp, rewriter: PatternRewriter) -> None:
        if op.kind.data not in ("mul", "add"):
            return
        for x, y in (op.inputs, tuple(reversed(op.inputs))):
            norm = x.owner
            if not isinstance(norm, nn.LayerNormOp) or not x.has_one_use():
                continue
            if x.type != op.result[0].type or nn.element_of(y) != nn.element_of(x):
                continue
            if nn.dims_of(y) != nn.dims_of(x)[-1:] or norm.has_bias is not None:
                continue
            weighted = norm.has_weight is not None
            if (op.kind.data == "mul") is weighted or not may_join(norm, op):
                continue
            new = nn.LayerNormOp(
                [*norm.inputs, y],
                [op.result[0].type],
                properties={
                    "eps": norm.eps,
                    "has_weight": UnitAttr(),
                    "has_bias": UnitAttr() if weighted else None,
                },
            )
            absorb_nodes(new, norm, op)
            rewriter.replace(op, new)
            rewriter.erase(norm)
            return
