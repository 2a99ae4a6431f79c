"""Weights that lie in blocks in the package stay in blocks, where kernels read them so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, Float64Type, ModuleOp, f16, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue, Use
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from openinfer.dialects import nn
from openinfer.lowering.demands import demands_of
from openinfer.lowering.facts import Facts
from openinfer.lowering.interface import Weight, input_count, read_weights, write_weights
from openinfer.lowering.locations import give_location
from openinfer.runtime.blocks import BLOCKS


@dataclass(frozen=True)
class KeepBlocks(ModulePass):
    """Gives a weight whose tensors are blocks of one format the type of such blocks.

    Before:
        weights = [{variable = "W", sources = ["w"], formats = ["q8_0"]}]
        %y = nn.matmul(%x, %W) {transpose_b} : (tensor<2x64xf32>, tensor<8x64xf32>) -> tensor<2x8xf32>
    After:
        weights = [{variable = "W", sources = ["w"], block = "q8_0"}]
        %y = nn.matmul(%x, %W) {transpose_b} :
            (tensor<2x64xf32>, tensor<8x64x!nn.block<q8_0>>) -> tensor<2x8xf32>

    Its readers are right operands of products along its rows, matrices of experts, and tables whose rows
    are gathered; the machine reads blocks of that format (`Demands.reads_blocks`). Nothing is unpacked when
    such a program is loaded, and what it computes means the same. Where some products read them, others may
    have the weight unpacked in front of them (`Demands.unpacks_blocks`), to f16 with `precision = "q8"`:

        %v = nn.unpack_blocks(%W) : (tensor<8x64x!nn.block<q8_0>>) -> tensor<8x64xf32>

    Requires: level `nn`; transposes absorbed; `choose-layouts` follows. What differs between the members of a
        family was told apart by `split-formats`.
    Leaves: other weights, for `keep-narrow`. Under `strict_math` all of them, since kernels of blocks add
        products up in an order of their own.
    """

    name: ClassVar[str] = "keep-blocks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rows = read_weights(op)
        if not any(row.formats for row in rows):
            return
        allowed = not Facts.of(op).strict_math
        first = input_count(op)
        for function in op.body.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                arguments = function.body.block.args[first:]
                rows = [
                    _decided(row, argument) if allowed else row
                    for row, argument in zip(rows, arguments, strict=True)
                ]
                function.update_function_type()
        write_weights(op, rows)


def _decided(row: Weight, argument: SSAValue) -> Weight:
    """The row of a weight that keeps its blocks, if all its readers read them."""
    if len(row.formats) != 1 or row.formats[0] not in BLOCKS:
        return row
    (block,) = row.formats
    values = [argument, *members_of(argument)]
    uses = [use for value in values for use in value.uses]
    others = [use for use in uses if not _reads_rows(use.operation, use.index, block)]
    if others and not _may_unpack(uses, others, block):
        return row
    products = [use.operation for use in others]
    for value in values:
        kind = nn.tensor_type(nn.BlockType.of(block), nn.dims_of(value))
        Rewriter.replace_value_with_new_type(value, kind)
    for product in products:
        _unpack(product)
    return replace(row, formats=(), block=block)


def _may_unpack(uses: Sequence[Use], others: Sequence[Use], block: str) -> bool:
    """Whether products beside those that read a weight in blocks have it unpacked."""
    gains = any(isinstance(u.operation, nn.MatmulOp) and u not in others for u in uses)
    return gains and all(
        isinstance(use.operation, nn.MatmulOp)
        and _is_along_rows(use.operation, use.index)
        and demands_of(use.operation).unpacks_blocks(use.operation, block)
        for use in others
    )


def _unpack(product: Operation) -> None:
    """The values of a weight for a product that does not read blocks."""
    assert isinstance(product, nn.MatmulOp)
    element = f16 if Facts.of(product).precision == "q8" else f32
    kind = nn.tensor_type(element, nn.dims_of(product.right))
    values = nn.UnpackBlocksOp([product.right], [kind])
    give_location(product.location, values)
    block = product.parent_block()
    assert block is not None
    block.insert_op_before(values, product)
    product.operands[1] = values.result[0]


def members_of(argument: SSAValue) -> Iterator[SSAValue]:
    """The members of a family that are read."""
    for use in argument.uses:
        if isinstance(use.operation, nn.MemberOp):
            yield use.operation.member


def _reads_rows(op: object, operand: int, block: str) -> bool:
    """Whether an op reads an operand row by row, and its kernel does so in blocks."""
    match op:
        case nn.MemberOp():
            return True
        case nn.MatmulOp():
            return _is_along_rows(op, operand) and demands_of(op).reads_blocks(op, block)
        case nn.ExpertMatmulOp():
            left = nn.element_of(op.inputs[0])
            fits = operand == 1 and op.inputs[0] is not op.inputs[1]
            fits = fits and isinstance(left, AnyFloat) and not isinstance(left, Float64Type)
            return fits and demands_of(op).reads_blocks(op, block)
        case nn.GatherOp():
            fits = operand == 0 and op.axis.value.data == 0 and len(nn.dims_of(op.inputs[0])) == 2
            return fits and demands_of(op).reads_blocks(op, block)
        case _:
            return False


def _is_along_rows(op: nn.MatmulOp, operand: int) -> bool:
    """Whether a product of floats reads its right operand row by row."""
    left = nn.element_of(op.left)
    fits = operand == 1 and op.left is not op.right and len(nn.dims_of(op.right)) == 2
    fits = fits and op.transpose_b is not None and op.transpose_a is None
    return fits and isinstance(left, AnyFloat) and not isinstance(left, Float64Type)
