"""Products hand rows to products as the matrices that those multiply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from openinfer.dialects import nn
from openinfer.lowering.demands import demands_of
from openinfer.lowering.facts import Facts
from openinfer.lowering.fusing import NO_FUSE
from openinfer.lowering.locations import absorb_nodes, give_location

Product = nn.MatmulOp | nn.RowMatmulOp


@dataclass(frozen=True)
class StoreSquares(ModulePass):
    """What a product gives, and only a product multiplies, lies in squares of the layout of its weight.

    Before:
        %f = nn.matmul(%h, %up) {layout = #nn.tiles<16>} : … -> tensor<128x1536xf16>
        %d = nn.matmul(%f, %down) {layout = #nn.tiles<16>} : …
    After:
        %f = nn.row_matmul(%h, %up) {layout = #nn.tiles<16>, tiled_result} : … -> tensor<8x96x256xf16>
        %d = nn.row_matmul(%f, %down) {layout = #nn.tiles<16>, tiled_left} : …

    Then the second one reads each matrix in one piece.

    Requires: layouts chosen, products joined, norms fused.
    Leaves: values that somebody else reads; products that do not gain by it (`Demands.reads_squares`);
        observed builds.
    """

    name: ClassVar[str] = "store-squares"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if Facts.of(op).observed:
            return  # Every value is to be as the program has it.
        for function in op.body.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                for found in list(function.walk()):
                    if isinstance(found, Product) and found.parent is not None:
                        _hand_over(found)


def _hand_over(op: Product) -> None:
    """Gives a product its rows in squares, where it gains by that."""
    rows = op.left
    giver = rows.owner
    if not isinstance(giver, Product) or not _gives_rows(giver, rows):
        return
    if {NO_FUSE} & {*giver.attributes, *op.attributes} or not demands_of(op).reads_squares(op):
        return
    layout = op.layout
    if not isinstance(layout, nn.TilesAttr) or giver.layout != layout:
        return
    *leading, down, across = nn.dims_of(rows)
    side = layout.data
    sizes = [size.constant for size in (down, across)]
    if any(size is None or size % side for size in sizes):
        return
    dims = [*leading, down // side, across // side, layout.width]
    kind = nn.tensor_type(nn.element_of(rows), dims)
    assert isinstance(kind, TensorType)
    made = _with(giver, {"tiled_result": UnitAttr()}, list(giver.inputs), [kind])
    _with(op, {"tiled_left": UnitAttr()}, [made.result[0], *op.inputs[1:]], [])


def _gives_rows(giver: Product, rows: SSAValue) -> bool:
    """Whether a value is the only product of an op, and nobody else reads it."""
    if giver.layout is None or len(list(rows.uses)) != 1 or giver.result[0] is not rows:
        return False
    return isinstance(giver, nn.MatmulOp) or (giver.parts is None and giver.tiled_result is None)


def _with(
    op: Product, more: dict[str, Attribute], inputs: list[SSAValue], kinds: list[Attribute]
) -> nn.RowMatmulOp:
    """The same product with other inputs, a setting more, and first results of other types."""
    types = [*kinds, *op.result.types[len(kinds) :]]
    body = op.body[0].clone() if op.body else None
    settings = {**op.own_properties, **more}
    new = nn.RowMatmulOp(inputs, types, (), settings, body, extras=op.extras)
    new.attributes.update(op.attributes)
    give_location(op.location, new)
    absorb_nodes(new, op)
    for old, result in zip(op.result, new.result):
        result.name_hint = old.name_hint
    Rewriter.replace_op(op, [new], new.result)
    return new
