"""Functions of constants are constants."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import FloatAttr, ModuleOp, f32, f64
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from openinfer.dialects import nn
from openinfer.lowering.nn.matching import constant_of
from openinfer.lowering.rewriting import rewrite


@dataclass(frozen=True)
class FoldConstants(ModulePass):
    """Evaluates functions of filled tensors, and drops x + 0, x·1, x - 0, x / 1.

    Before:
        %c = nn.elementwise(%a, %b) {kind = "mul"} : …   // filled with 2 and with 3
    After:
        %c = nn.fill() {value = 6.0 : f64} : …

    Requires: level `nn`.
    Leaves: integers, and floats that are rounded more than once (f16, bf16), to the kernels.
    """

    name: ClassVar[str] = "fold-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [FoldElementwise(), DropNeutral(), FoldMovement()], erase_dead=True)


_FOLDS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "neg": operator.neg,
    "abs": math.fabs,
    "sqrt": math.sqrt,
}


def _round_to_f32(value: float) -> float:
    import struct

    if math.isinf(value) or math.isnan(value):
        return value
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


class FoldElementwise(RewritePattern):
    """f(c…) is the constant f(c…), rounded to the element type"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.ElementwiseOp, rewriter: PatternRewriter) -> None:
        fold = _FOLDS.get(op.kind.data)
        element = nn.element_of(op.result[0])
        if fold is None or element not in (f32, f64):
            return
        values = [constant_of(v) for v in op.inputs]
        if any(v is None for v in values) or any(nn.element_of(v) != element for v in op.inputs):
            return
        numbers = [v for v in values if v is not None]
        if op.kind.data == "sqrt" and numbers[0] < 0:
            return
        if element == f32:
            # Two roundings of f64 arithmetic to f32 are one for these functions.
            result = _round_to_f32(fold(*(_round_to_f32(v) for v in numbers)))
        else:
            result = fold(*numbers)
        fill = nn.FillOp([], [op.result[0].type], properties={"value": FloatAttr(result, f64)})
        rewriter.replace(op, fill)


# x + 0 is not x for x = -0.0, but x + (-0.0) and x - 0 are.
_NEUTRAL = {"sub": (0.0, False), "mul": (1.0, True), "div": (1.0, False)}


class DropNeutral(RewritePattern):
    """x·1 = x, x / 1 = x, x - 0 = x"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.ElementwiseOp, rewriter: PatternRewriter) -> None:
        entry = _NEUTRAL.get(op.kind.data)
        if entry is None or len(op.inputs) != 2:
            return
        neutral, commutes = entry
        pairs = [op.inputs, tuple(reversed(op.inputs))] if commutes else [op.inputs]
        for x, y in pairs:
            constant = constant_of(y)
            if x.type != op.result[0].type or constant is None or constant != neutral:
                continue
            if math.copysign(1.0, constant) < 0:
                continue
            rewriter.replace(op, [], [x])
            return


class FoldMovement(RewritePattern):
    """A filled tensor in another shape is a filled tensor"""

    def match_and_rewrite(self, op: object, rewriter: PatternRewriter) -> None:
        if not isinstance(op, nn.ReshapeOp | nn.TransposeOp | nn.BroadcastOp | nn.SliceOp):
            return
        source = op.inputs[0].owner
        if isinstance(source, nn.FillOp):
            fill = nn.FillOp([], [op.result[0].type], properties={"value": source.value})
            rewriter.replace(op, fill)
