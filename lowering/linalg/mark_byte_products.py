"""Products of i8 that add up in i32 are computed four at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, i8, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from openinfer.dialects import nn
from openinfer.lowering.demands import demands_of
from openinfer.lowering.interface import input_count


@dataclass(frozen=True)
class MarkByteProducts(ModulePass):
    """Says of products of i8 with sums in i32 that their kernel adds four products at a time.

    Before:
        %y = nn.matmul(%x, %w) {transpose_b} : (tensor<8x64xi8>, tensor<32x64xi8>) -> tensor<8x32xi32>
    After:
        %y = nn.matmul(%x, %w) {transpose_b, precision = "i8"} :
            (tensor<8x64xi8>, tensor<32x64xi8>) -> tensor<8x32xi32>

    Sums wrap as before, and no bit of them changes.

    Requires: level `nn`; products are final.
    Leaves: unsigned and boolean bytes, sums of other types, and what the machine does not ask for
        (`Demands.adds_fours`).
    """

    name: ClassVar[str] = "mark-byte-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                weights = function.body.block.args[input_count(op) :]
                for product in function.walk():
                    if isinstance(product, nn.MatmulOp) and _gains(product, weights):
                        product.properties["precision"] = StringAttr("i8")
                return


def _gains(op: nn.MatmulOp, weights: tuple[SSAValue, ...]) -> bool:
    if op.precision is not None or op.unsigned is not None or op.boolean is not None:
        return False
    kinds = [nn.element_of(value) for value in (*op.inputs[:2], op.result[0])]
    if kinds != [i8, i8, i32] or op.layout is not None:
        return False
    owner = op.right.owner
    root = owner.family if isinstance(owner, nn.MemberOp) else op.right
    return demands_of(op).adds_fours(op, root in weights)
