"""Products of one left operand with constant weights become one operation over all their panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from openinfer.dialects import nn
from openinfer.lowering.demands import demands_of
from openinfer.lowering.fusing import NO_FUSE, holds_barrier
from openinfer.lowering.hints import HINTS, hints_of
from openinfer.lowering.locations import absorb_nodes, give_location

_MOVABLE = (nn.MemberOp, nn.ReshapeOp, nn.SizeOp)
"""What a later product may need that is moved in front of the first one: views and numbers."""
_LARGE_STEPS = (nn.MatmulOp, nn.ConvOp, nn.AttentionOp, nn.RecurrentOp)
"""A product that stands behind one of these would keep its result for long if it were computed before."""


@dataclass(frozen=True)
class MergeProducts(ModulePass):
    """Computes Q, K and V, say, in one parallel loop over the panels of all their weights.

    Before:
        %q = nn.matmul(%x, %wq) {layout = #nn.panels<32>} : …
        %k = nn.matmul(%x, %wk) extras(%bk) {layout = …, maps = […]} {…} : …
    After:
        %q, %k = nn.products(%x, %wq, %wk) extras(%bk) {parts = [{layout = …}, {body, …}]} {…}

    Requires: layouts chosen, epilogues fused.
    Leaves: products of which one reads what the other gives, with attention, say, in between, that
        a barrier or a hint keeps apart or that carry different hints, with a transposed left
        operand, with a right operand for each of several leading indices, or large enough to be
        computed in blocks.
    """

    name: ClassVar[str] = "merge-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                for block in [b for o in function.walk() for r in o.regions for b in r.blocks]:
                    _merge_in(block)


def _merge_in(block: Block) -> None:
    groups: dict[tuple[object, ...], list[nn.MatmulOp]] = {}
    stretch = 0
    for op in block.ops:
        if holds_barrier(op) or NO_FUSE in op.attributes:
            stretch += 1
        elif not isinstance(op, _LARGE_STEPS):
            continue
        elif not isinstance(op, nn.MatmulOp) or not _fits(op):
            stretch += 1
        else:
            hints = tuple(sorted(hints_of(op).items()))
            key = (op.left, op.precision, hints, stretch)
            groups.setdefault(key, []).append(op)
    for group in groups.values():
        chosen = _together(group)
        if len(chosen) > 1:
            _merge(chosen)


def _fits(op: nn.MatmulOp) -> bool:
    """Whether the product is one matrix of rows by one weight with a layout."""
    if op.layout is None or set(op.attributes) - {HINTS}:
        return False
    if op.transpose_a is not None or op.unsigned is not None:
        return False
    if len(nn.dims_of(op.right)) != 3 or not demands_of(op).merges([op]):
        return False
    # Extra operands follow the columns and, row by row, the result: leading dimensions fold.
    rows, columns = nn.dims_of(op.left)[:-1], nn.dims_of(op.output)[-1]
    return nn.dims_of(op.output)[:-1] == rows and columns.constant is not None


def _together(group: Sequence[nn.MatmulOp]) -> list[nn.MatmulOp]:
    """The products that can be computed where the first one stands."""
    first, *rest = group
    chosen = [first]
    for op in rest:
        moved = _needed(op, first)
        if moved is not None:
            for other in moved:
                other.detach()
                block = first.parent_block()
                assert block is not None
                block.insert_op_before(other, first)
            chosen.append(op)
    return chosen


def _needed(op: nn.MatmulOp, first: nn.MatmulOp) -> list[Operation] | None:
    """What must move in front of `first` for `op` to be computed there; None when it cannot."""
    block = first.parent_block()
    assert block is not None
    behind: set[Operation] = set()
    current: Operation | None = first
    while current is not None and current is not op:
        behind.add(current)
        current = current.next_op
    found: dict[Operation, None] = {}

    def visit(value: SSAValue) -> bool:
        owner = value.owner
        if not isinstance(owner, Operation) or owner not in behind or owner in found:
            return True
        if not isinstance(owner, _MOVABLE) and not owner.name.startswith("arith."):
            return False
        if not all(visit(operand) for operand in owner.operands):
            return False
        found[owner] = None
        return True

    inner = [o for region in op.body for o in region.walk()]
    values = [*op.operands, *(v for o in inner for v in o.operands)]
    return list(found) if all(visit(value) for value in values) else None


def _merge(group: Sequence[nn.MatmulOp]) -> None:
    first = group[0]
    merged = nn.ProductsOp.of(group)
    give_location(first.location, merged)
    block = first.parent_block()
    assert block is not None
    block.insert_op_before(merged, first)
    absorb_nodes(merged, *group)
    for op, result in zip(group, merged.result, strict=True):
        result.name_hint = op.result[0].name_hint
        Rewriter.replace_op(op, [], [result])
