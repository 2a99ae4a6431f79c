"""Products of the same rows with weights of one shape become one product of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from openinfer.dialects import nn
from openinfer.lowering.demands import demands_of
from openinfer.lowering.facts import Facts
from openinfer.lowering.fusing import NO_FUSE, holds_barrier
from openinfer.lowering.locations import absorb_nodes, give_location
from openinfer.lowering.weight_arguments import WeightArguments


@dataclass(frozen=True)
class JoinProducts(ModulePass):
    """Computes Q, K and V, say, by one kernel, which is started once and has enough to do.

    Before:
        %wq = nn.member %Q[%l] : tensor<6x24x24x256xf16> -> tensor<24x24x256xf16>
        %q = nn.matmul(%x, %wq) extras(%bq) {layout = #nn.tiles<16>, maps = [(m, n) -> (n)]} {…} : …
        %k = nn.matmul(%x, %wk) extras(%bk) {layout = #nn.tiles<16>, maps = [(m, n) -> (n)]} {…} : …
    After:
        %w = nn.member %Q_and_others[%l] : tensor<6x2x24x24x256xf16> -> tensor<2x24x24x256xf16>
        %q, %k = nn.row_matmul(%x, %w) extras(%b) {layout = #nn.tiles<16>, maps = [(p, m, n) -> (p, n)],
            parts = 2} {…} : …

    Weights lie one behind the other when the program is loaded, and so do those that bodies read.

    Requires: layouts chosen, epilogues fused.
    Leaves: products that no kernel computes together (`Demands.joins`), whose bodies differ, or read what is
        neither the same nor weights; those that a barrier or a hint keeps apart.
    """

    name: ClassVar[str] = "join-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if Facts.of(op).observed:
            return  # Every value is to be where the program has it.
        for function in op.body.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                weights = WeightArguments(op, function)
                blocks = [b for o in function.walk() for r in o.regions for b in r.blocks]
                # All of them: one changes the arguments of the step.
                if any([_join_in(block, weights) for block in blocks]):
                    weights.finish()


def _join_in(block: Block, weights: WeightArguments) -> bool:
    """Joins the products of a block; whether there were any."""
    groups: dict[tuple[object, ...], list[nn.MatmulOp]] = {}
    stretch = 0
    for op in block.ops:
        if holds_barrier(op):
            stretch += 1
        elif isinstance(op, nn.MatmulOp) and op.layout is not None and NO_FUSE not in op.attributes:
            kind = op.result[0].type, DictionaryAttr(op.own_properties)
            others = DictionaryAttr(dict(op.attributes))
            key = (op.left, *kind, others, stretch, _place_of(op.right))
            groups.setdefault(key, []).append(op)
    joined = False
    for group in groups.values():
        while len(group) > 1:
            first, *rest = group
            alike = [first, *(op for op in rest if _are_alike(first, op, weights))]
            group = [op for op in rest if op not in alike]
            if len(alike) > 1 and demands_of(first).joins(alike):
                _join(alike, weights)
                joined = True
    return joined


def _place_of(right: SSAValue) -> tuple[SSAValue, ...] | None:
    """Which member of its family a weight is."""
    return tuple(right.owner.indices) if isinstance(right.owner, nn.MemberOp) else None


def _are_alike(first: nn.MatmulOp, op: nn.MatmulOp, weights: WeightArguments) -> bool:
    """Whether two products differ in nothing but weights."""
    if len(first.extras) != len(op.extras) or len(first.body) != len(op.body):
        return False
    if first.body and not first.body[0].is_structurally_equivalent(op.body[0]):
        return False
    if not weights.can_stack([first.right, op.right]):
        return False
    for mapping in first.maps or ():
        if not all(isinstance(e, AffineDimExpr | AffineConstantExpr) for e in mapping.data.results):
            return False
    pairs = zip(first.extras, op.extras)
    return all(a is b or weights.can_stack([a, b]) for a, b in pairs)


def _join(products: Sequence[nn.MatmulOp], weights: WeightArguments) -> None:
    """One op of some products, in the place of the first."""
    first = products[0]
    extras: list[SSAValue] = []
    maps: list[AffineMapAttr] = []
    for number, mapping in enumerate(first.maps or ()):
        own = [op.extras[number] for op in products]
        is_same = all(value is own[0] for value in own)
        extras.append(own[0] if is_same else weights.stack(own))
        maps.append(AffineMapAttr(_of_parts(mapping.data, follows=not is_same)))
    right = weights.stack([op.right for op in products])
    assert first.layout is not None
    settings: dict[str, Attribute | None] = {
        "layout": first.layout,
        "maps": ArrayAttr(maps) if first.maps is not None else None,
        "parts": nn.int_setting(len(products)),
    }
    kinds = [op.result[0].type for op in products]
    body = first.body[0].clone() if first.body else None
    new = nn.RowMatmulOp([first.left, right], kinds, (), settings, body, extras=extras)
    new.attributes.update(first.attributes)
    give_location(first.location, new)
    block = first.parent_block()
    assert block is not None
    block.insert_op_before(new, first)
    absorb_nodes(new, *products)
    for op, result in zip(products, new.result, strict=True):
        result.name_hint = op.result[0].name_hint
        read = [value.owner for value in op.operands]
        Rewriter.replace_op(op, [], [result])
        for member in read:
            if isinstance(member, nn.MemberOp) and member.parent and not member.member.uses:
                member.detach()
                member.erase()


def _of_parts(mapping: AffineMap, *, follows: bool) -> AffineMap:
    """A map of an extra operand behind the number of the part, which an axis of its own follows."""
    results: list[AffineExpr] = [AffineExpr.dimension(0)] if follows else []
    for expression in mapping.results:
        is_dim = isinstance(expression, AffineDimExpr)
        results.append(AffineExpr.dimension(expression.position + 1) if is_dim else expression)
    return AffineMap(mapping.num_dims + 1, 0, tuple(results))
