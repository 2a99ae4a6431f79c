"""Operands of products are rounded to the precision that the compilation asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    bf16,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from openinfer.dialects import nn
from openinfer.dialects.nn import update_interface
from openinfer.lowering.facts import Facts
from openinfer.lowering.interface import input_count
from openinfer.lowering.locations import give_location

_ROUNDED = (Float32Type, Float16Type, BFloat16Type)
"""What rounding to bf16 makes narrower, or leaves as it is."""

LEAST_DEPTH = 16
"""A shorter contraction is over before the smaller operands have paid for their rounding."""
LEAST_ROWS = 8
"""With fewer rows a right operand that is no weight is used too seldom to be packed for it."""


@dataclass(frozen=True)
class LowerPrecision(ModulePass):
    """Under `precision="bf16"` products round their operands to bf16 and add up in f32.

    Before:
        %y = nn.matmul(%x, %w) : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
    After:
        %0 = nn.elementwise(%x) {kind = "cast"} : (tensor<8x64xf32>) -> tensor<8x64xbf16>
        %y = nn.matmul(%0, %w) {precision = "bf16"} :
            (tensor<8x64xbf16>, tensor<64x32xf32>) -> tensor<8x32xf32>

    Requires: level `nn`; attention and layer norm recognised, transposes absorbed.
    Leaves: without the option everything; products of integers and of f64;
        those too small to gain; those whose left operand is a weight or transposed. The right operand
        is rounded where it is packed. Nothing but the operands of products changes.
    """

    name: ClassVar[str] = "lower-precision"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if Facts.of(op).precision != "bf16":
            return
        for function in op.body.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                count = _Rounding(function, input_count(op)).run()
                entries = {
                    "precision": StringAttr("bf16"),
                    "rounded_products": IntegerAttr(count, i64),
                }
                update_interface(op, entries)
                return


class _Rounding:
    def __init__(self, function: FuncOp, first_weight: int) -> None:
        self.function = function
        self.block = function.body.block
        self.first_weight = first_weight
        self.rounded: dict[SSAValue, SSAValue] = {}

    def run(self) -> int:
        """How many products round their operands now."""
        count = 0
        for op in list(self.function.walk()):
            if isinstance(op, nn.MatmulOp) and self._gains(op):
                op.operands[0] = self._round(op.inputs[0])
            elif isinstance(op, nn.AttentionOp) and _attention_gains(op):
                for number in range(3):
                    op.operands[number] = self._round(op.inputs[number])
            else:
                continue
            op.properties["precision"] = StringAttr("bf16")
            count += 1
        return count

    def _gains(self, op: nn.MatmulOp) -> bool:
        values = (*op.inputs[:2], op.result[0])
        if not all(isinstance(nn.element_of(v), _ROUNDED) for v in values):
            return False
        if op.transpose_a is not None or self._is_weight(op.inputs[0]):
            return False
        depth = nn.dims_of(op.inputs[0])[-1].constant
        if depth is not None and depth < LEAST_DEPTH:
            return False
        rows = nn.dims_of(op.result[0])[-2].constant
        return self._is_weight(op.inputs[1]) or rows is None or rows >= LEAST_ROWS

    def _is_weight(self, value: SSAValue) -> bool:
        """Whether a value is (a member of) a weight, which is rounded when the program is loaded."""
        owner = value.owner
        root = owner.family if isinstance(owner, nn.MemberOp) else value
        return root in self.block.args[self.first_weight :]

    def _round(self, value: SSAValue) -> SSAValue:
        """The value as bf16, made once, where the value itself is made."""
        if nn.element_of(value) == bf16:
            return value
        if value not in self.rounded:
            made = self._rounding(value)
            made.result[0].name_hint = value.name_hint
            owner = value.owner
            if isinstance(owner, Block):
                first = owner.first_op
                assert first is not None
                owner.insert_op_before(made, first)
            else:
                assert isinstance(owner, Operation)
                block = owner.parent_block()
                assert block is not None
                block.insert_op_after(made, owner)
                give_location(owner.location, made)
            self.rounded[value] = made.result[0]
        return self.rounded[value]

    def _rounding(self, value: SSAValue) -> nn.NNOp:
        """What gives a value as bf16: its maker, if nobody else reads the value, or else a cast."""
        assert isinstance(value.type, TensorType)
        kind, owner = nn.with_element(value.type, bf16), value.owner
        if not isinstance(owner, nn.ReshapeOp | nn.AttentionOp) or not value.has_one_use():
            return nn.ElementwiseOp([value], [kind], properties={"kind": StringAttr("cast")})
        settings = {k: v for k, v in owner.properties.items() if k != "operandSegmentSizes"}
        inputs = list(owner.inputs)
        if isinstance(owner, nn.ReshapeOp):
            inputs = [self._round(inputs[0])]
        made = type(owner)(inputs, [kind], properties=settings)
        made.attributes.update(owner.attributes)
        return made


def _attention_gains(op: nn.AttentionOp) -> bool:
    """Whether the schedule in pairs takes an attention: several queries that see the same keys."""
    if not all(isinstance(nn.element_of(v), _ROUNDED) for v in (*op.inputs[:3], op.result[0])):
        return False
    if any(limit is not None for limit in (op.causal, op.window, op.windowed)):
        return False
    mask = nn.dims_of(op.mask) if op.mask is not None else ()
    if len(mask) > 1 and mask[-2].constant != 1:
        return False
    layouts = [layout.data for layout in op.layouts]
    queries = nn.dims_of(op.inputs[0])[layouts[0].index("l")].constant
    size, values = (nn.dims_of(op.inputs[n])[3].constant for n in (0, 2))
    if size is None or not values or size % 2 or size < LEAST_DEPTH:
        return False
    return queries is None or queries >= LEAST_ROWS
