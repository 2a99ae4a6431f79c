"""Lowering rules: functions that build the loops of one op on buffers, by the op's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint

from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.inserted import keep_location
from openinfer.lowering.rewriting import rewrite
from openinfer.runtime.quick_dataclass import dataclass

Rule = Callable[[LoopBuilder, Operation], bool]
"""Builds the loops of an op before it; False, and nothing built, when the op is to stay."""


def on_buffers(op: Operation) -> bool:
    """Whether an op writes to buffers instead of giving values."""
    return not op.results and any(isinstance(v.type, MemRefType) for v in op.operands)


@dataclass(frozen=True)
class _ByRule(RewritePattern):
    """An op on buffers = the loops that its rule builds."""

    rules: Mapping[str, Rule]

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        rule = self.rules.get(op.name)
        if rule is None or not on_buffers(op):
            return
        with keep_location(op):
            lowered = rule(LoopBuilder(InsertPoint.before(op)), op)
        if lowered:
            rewriter.erase(op)


def lower_by_rules(module: ModuleOp, rules: Mapping[str, Rule]) -> None:
    """Replaces every op on buffers that has a rule, once."""
    rewrite(module, _ByRule(rules), recursive=False, only=rules)
