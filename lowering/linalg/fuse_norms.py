"""Products compute the norm of their rows themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from openinfer.dialects import nn
from openinfer.lowering.demands import demands_of
from openinfer.lowering.fusing import may_join
from openinfer.lowering.locations import absorb_nodes, give_location

Norm = nn.LayerNormOp | nn.RmsNormOp
Product = nn.MatmulOp | nn.RowMatmulOp


@dataclass(frozen=True)
class FuseNorms(ModulePass):
    """A product that waits for nothing but its rows computes their norm as it reads them.

    Before:
        %n = nn.layer_norm(%h, %g) {eps = 1.0e-12 : f64, has_weight} : …
        %f = nn.matmul(%n, %up) {layout = #nn.tiles<16>} : …
        %d = nn.matmul(%f, %down) extras(%n) {layout = #nn.tiles<16>, maps = […]} { … } : …
    After:
        %f, %n = nn.row_matmul(%h, %up, %g) {centred, eps = 1.0e-12 : f64, gives_rows, has_weight, …}
        %d = nn.matmul(%f, %down) extras(%n) {layout = #nn.tiles<16>, maps = […]} { … } : …

    The norm is rounded as before; each of several products computes it, the first one gives it to everybody
    else.

    Requires: layouts chosen, epilogues fused.
    Leaves: products whose kernel takes no norm (`Demands.takes_norm`); norms that somebody reads in front of
        the first such product, that a barrier or a hint keeps apart.
    """

    name: ClassVar[str] = "fuse-norms"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                for found in list(function.walk()):
                    if isinstance(found, Norm):
                        _fuse(found)


def _fuse(norm: Norm) -> None:
    """Lets the products that multiply the rows of a norm compute it, if all others can wait for the first."""
    block = norm.parent_block()
    assert block is not None
    readers = list(dict.fromkeys(use.operation for use in norm.result[0].uses))
    takers = [op for op in readers if isinstance(op, Product) and _takes(op, norm)]
    if not takers:
        return
    order = {op: number for number, op in enumerate(block.ops)}
    takers.sort(key=order.__getitem__)
    first = takers[0]
    others = [op for op in readers if op not in takers]
    if any(order[_within(op, block)] < order[first] for op in others):
        return
    for op in takers:
        _join(norm, op, gives_rows=bool(others) and op is first)
    norm.detach()
    norm.erase()


def _takes(op: Product, norm: Norm) -> bool:
    rows = norm.result[0]
    once = sum(operand is rows for operand in op.operands) == 1
    if isinstance(op, nn.RowMatmulOp) and op.eps is not None:
        return False
    if not once or op.left is not rows or op.parent_block() is not norm.parent_block():
        return False
    machine = demands_of(op)
    most = machine.most_buffers
    # One more than the kernels of both have, where it gives the rows.
    buffers = len({*norm.operands, *op.operands, *op.results})
    fits = most is None or buffers <= most
    return fits and may_join(norm, op) and machine.takes_norm(op)


def _within(op: Operation, block: Block) -> Operation:
    """The op of a block that an op is, or stands in."""
    while op.parent_block() is not block:
        holder = op.parent_op()
        assert holder is not None, "a value is read where it is known"
        op = holder
    return op


def _join(norm: Norm, op: Product, *, gives_rows: bool) -> None:
    """An op that is both, in the place of the product."""
    x, *factors = norm.inputs
    is_layer = isinstance(norm, nn.LayerNormOp)
    has_weight = norm.has_weight is not None if is_layer else bool(factors)
    has_bias = is_layer and norm.has_bias is not None
    flags = {
        "centred": is_layer,
        "gives_rows": gives_rows,
        "has_bias": has_bias,
        "has_weight": has_weight,
    }
    settings: dict[str, Attribute | None] = {
        name: UnitAttr() for name, is_set in flags.items() if is_set
    }
    settings |= {"eps": norm.eps, "layout": op.layout, "maps": op.maps}
    settings["parts"] = op.parts if isinstance(op, nn.RowMatmulOp) else None
    rows, count = norm.result[0], len(op.result)
    kinds = [*op.result.types, *([rows.type] if gives_rows else [])]
    inputs: Sequence[SSAValue] = [x, op.inputs[1], *factors]
    body = op.body[0].clone() if op.body else None
    new = nn.RowMatmulOp(inputs, kinds, (), settings, body, extras=op.extras)
    new.attributes.update(op.attributes)
    give_location(op.location, new)
    absorb_nodes(new, norm, op)
    for old, result in zip(op.result, new.result):
        result.name_hint = old.name_hint
    Rewriter.replace_op(op, [new], new.result[:count])
    if gives_rows:
        new.result[count].name_hint = rows.name_hint
        rows.replace_all_uses_with(new.result[count])
