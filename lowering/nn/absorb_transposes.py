"""Transposes become part of how a product or an attention reads its operands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, TensorType, UnitAttr
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from openinfer.dialects import nn
from openinfer.lowering.fusing import may_join
from openinfer.lowering.locations import absorb_nodes
from openinfer.lowering.rewriting import rewrite


@dataclass(frozen=True)
class AbsorbTransposes(ModulePass):
    """Takes transposes into the flags of matmul and the layouts of attention.

    Before:
        %t = nn.transpose(%w) {permutation = array<i64: 1, 0>} : …
        %y = nn.matmul(%x, %t) : …
    After:
        %y = nn.matmul(%x, %w) {transpose_b} : …

    Requires: level `nn`.
    Leaves: transposes of other dimensions, those across a barrier or with a hint against it, and
        those of a result that something else reads; what is read transposed may stay for others.
    """

    name: ClassVar[str] = "absorb-transposes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(
            op,
            [
                MergeTransposes(),
                MatmulOfTranspose(),
                AttentionOfTranspose(),
                TransposeOfAttention(),
            ],
            erase_dead=True,
        )


def _order(op: nn.TransposeOp) -> tuple[int, ...]:
    return tuple(op.permutation.get_values())


def _swaps_last_two(order: tuple[int, ...]) -> bool:
    rank = len(order)
    return rank >= 2 and order == (*range(rank - 2), rank - 1, rank - 2)


class MergeTransposes(RewritePattern):
    """transpose(transpose(x, p), q) = transpose(x, p∘q); the identity is x."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.TransposeOp, rewriter: PatternRewriter) -> None:
        order = _order(op)
        if order == tuple(range(len(order))):
            rewriter.replace(op, [], [op.inputs[0]])
            return
        inner = op.inputs[0].owner
        if not isinstance(inner, nn.TransposeOp) or not may_join(inner, op):
            return
        first = _order(inner)
        merged = [first[d] for d in order]
        new = nn.TransposeOp(
            [inner.inputs[0]],
            [op.result[0].type],
            properties={"permutation": nn.ints_setting(merged)},
        )
        absorb_nodes(new, inner, op)
        rewriter.replace(op, new)


class MatmulOfTranspose(RewritePattern):
    """matmul(a, transpose(b)) = matmul(a, b) with transpose_b toggled; likewise for a."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.MatmulOp, rewriter: PatternRewriter) -> None:
        for position, flag in ((0, "transpose_a"), (1, "transpose_b")):
            inner = op.inputs[position].owner
            if not isinstance(inner, nn.TransposeOp) or not _swaps_last_two(_order(inner)):
                continue
            if not may_join(inner, op):
                continue
            op.operands[position] = inner.inputs[0]
            if flag in op.properties:
                del op.properties[flag]
            else:
                op.properties[flag] = UnitAttr()
            absorb_nodes(op, inner)
            rewriter.notify_op_modified(op)
            return


_OTHER = {"bhld": "blhd", "blhd": "bhld"}
_SWAP = (0, 2, 1, 3)


class AttentionOfTranspose(RewritePattern):
    """attention(transpose(q), …) reads q itself in the other layout."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.AttentionOp, rewriter: PatternRewriter) -> None:
        layouts = [layout.data for layout in op.layouts]
        for position in range(3):
            inner = op.inputs[position].owner
            if not isinstance(inner, nn.TransposeOp) or _order(inner) != _SWAP:
                continue
            if may_join(inner, op):
                op.operands[position] = inner.inputs[0]
                layouts[position] = _OTHER[layouts[position]]
                op.properties["layouts"] = _strings(layouts)
                absorb_nodes(op, inner)
                rewriter.notify_op_modified(op)
                return


class TransposeOfAttention(RewritePattern):
    """transpose(attention(…)) is the attention that writes the other layout."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.TransposeOp, rewriter: PatternRewriter) -> None:
        source: SSAValue = op.inputs[0]
        inner = source.owner
        if not isinstance(inner, nn.AttentionOp) or _order(op) != _SWAP:
            return
        if not source.has_one_use() or not may_join(inner, op):
            return
        layouts = [layout.data for layout in inner.layouts]
        layouts[3] = _OTHER[layouts[3]]
        kind = op.result[0].type
        assert isinstance(kind, TensorType)
        settings = {**inner.own_properties, "layouts": _strings(layouts)}
        new = nn.AttentionOp(inner.inputs, [kind], properties=settings)
        new.attributes.update(inner.attributes)
        absorb_nodes(new, inner, op)
        rewriter.replace(op, new)
        rewriter.erase(inner)


def _strings(names: list[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(name) for name in names])
