"""Weights that the package holds in f16, or in blocks that no kernel reads, are f16 in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType, f16, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from openinfer.dialects import nn
from openinfer.lowering.demands import demands_of
from openinfer.lowering.facts import Facts
from openinfer.lowering.interface import Weight, input_count, read_weights, write_weights
from openinfer.lowering.locations import give_location
from openinfer.lowering.nn.keep_blocks import members_of
from openinfer.runtime.blocks import BLOCKS


@dataclass(frozen=True)
class KeepNarrow(ModulePass):
    """Gives an f32 weight whose tensors are f16 that type; its kernels widen it in registers.

    Before:
        weights = [{variable = "W", sources = ["w"], formats = ["f16"]}]
        %y = nn.matmul(%x, %W) {transpose_b} : (tensor<2x64xf32>, tensor<8x64xf32>) -> tensor<2x8xf32>
        %r = nn.gather(%W, %i) {axis = 0 : i64} : (tensor<8x64xf32>, tensor<3xi32>) -> tensor<3x64xf32>
    After:
        weights = [{variable = "W", sources = ["w"], dtype = "f16"}]
        %y = nn.matmul(%x, %W) {transpose_b} : (tensor<2x64xf32>, tensor<8x64xf16>) -> tensor<2x8xf32>
        %g = nn.gather(%W, %i) {axis = 0 : i64} : (tensor<8x64xf16>, tensor<3xi32>) -> tensor<3x64xf16>
        %r = nn.elementwise(%g) {kind = "cast"} : (tensor<3x64xf16>) -> tensor<3x64xf32>

    Its readers are right operands of products, or matrices of experts, that the machine widens
    (`Demands.widens`), and tables that are gathered. What f16 tensors hold stays the same. With
    `precision = "q8"` weights in blocks become f16, too: their values are rounded when they are unpacked.

    Requires: level `nn`; after `keep-blocks`, which takes what kernels read in blocks.
    Leaves: no row with `formats`: other weights become the declared dtype when they are loaded.
    """

    name: ClassVar[str] = "keep-narrow"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rows = read_weights(op)
        if not any(row.formats for row in rows):
            return
        first, rounds = input_count(op), Facts.of(op).precision == "q8"
        for function in op.body.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                arguments = function.body.block.args[first:]
                rows = [
                    _decided(row, argument, rounds)
                    for row, argument in zip(rows, arguments, strict=True)
                ]
                function.update_function_type()
        write_weights(op, rows)


def _decided(row: Weight, argument: SSAValue, rounds: bool) -> Weight:
    """The row of a weight that is f16 now, where it may be and all its readers read that; else as it is."""
    plain = replace(row, formats=())
    if not row.formats or (not rounds and any(kind in BLOCKS for kind in row.formats)):
        return plain
    values = [argument, *members_of(argument)]
    if not all(_reads(use.operation, use.index) for value in values for use in value.uses):
        return plain
    for value in values:
        _narrow(value)
    return replace(plain, dtype="f16")


def _reads(op: Operation, operand: int) -> bool:
    match op:
        case nn.MemberOp():
            return True
        case nn.MatmulOp():
            fits = operand == 1 and op.left is not op.right and nn.element_of(op.left) == f32
            return fits and demands_of(op).widens(op, operand, f16)
        case nn.ExpertMatmulOp():
            fits = operand == 1 and nn.element_of(op.inputs[0]) == f32
            return fits and demands_of(op).widens(op, operand, f16)
        case nn.GatherOp():
            return operand == 0 and demands_of(op).widens(op, operand, f16)
        case _:
            return False


def _narrow(value: SSAValue) -> None:
    """Makes a weight, or a member of one, f16, and widens what is gathered of it."""
    assert isinstance(value.type, TensorType)
    narrow = Rewriter.replace_value_with_new_type(value, nn.with_element(value.type, f16))
    for use in list(narrow.uses):
        if isinstance(use.operation, nn.GatherOp):
            _widen_rows(use.operation)


def _widen_rows(op: nn.GatherOp) -> None:
    """Casts what is gathered to f32."""
    wide = op.result[0].type
    assert isinstance(wide, TensorType)
    rows = Rewriter.replace_value_with_new_type(op.result[0], nn.with_element(wide, f16))
    cast = nn.ElementwiseOp([rows], [wide], properties={"kind": StringAttr("cast")})
    give_location(op.location, cast)
    cast.attributes.update(op.attributes)
    block = op.parent_block()
    assert block is not None
    block.insert_op_after(cast, op)
    rows.replace_uses_with_if(cast.result[0], lambda use: use.operation is not cast)
