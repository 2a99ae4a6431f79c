"""Operands of products are rounded to the precision that the compilation asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import (
    BFloat16Type,
    DictionaryAttr,
    Float16Type,
    Float32Type,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i8,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects import nn
from openinfer.dialects.nn import update_interface
from openinfer.dialects.nn.row_ops import row_bytes
from openinfer.lowering.demands import demands_of
from openinfer.lowering.facts import Facts
from openinfer.lowering.interface import input_count
from openinfer.lowering.locations import give_location

_ROUNDED = (Float32Type, Float16Type, BFloat16Type)
"""What rounding to bf16 makes narrower, or leaves as it is."""
LARGEST = 65504.0
"""Of f16."""


@dataclass(frozen=True)
class LowerPrecision(ModulePass):
    """Under `precision="bf16"` products round their operands to bf16, and add up in f32.

    Before:
        %y = nn.matmul(%x, %w) : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
    After:
        %0 = nn.elementwise(%x) {kind = "cast"} : (tensor<8x64xf32>) -> tensor<8x64xbf16>
        %y = nn.matmul(%0, %w) {precision = "bf16"} :
            (tensor<8x64xbf16>, tensor<64x32xf32>) -> tensor<8x32xf32>

    Under `precision="q8"` the left operand of a product with a weight in blocks becomes blocks of bytes:
        %0 = nn.quantize_rows(%x) : (tensor<8x64xf32>) -> tensor<8x96xi8>
        %y = nn.matmul(%0, %w) {transpose_b, precision = "q8"} :
            (tensor<8x96xi8>, tensor<32x64x!nn.block<q8_0>>) -> tensor<8x32xf32>
    and that of a product with a weight of f16 becomes f16, on a machine that multiplies such matrices
    (`Demands.rounds_to_half`), and so do queries beside keys and values of f16.

    Requires: level `nn`; attention and layer norm recognised, transposes absorbed.
    Leaves: without the option everything; products of integers and of f64; those that do not gain
        on the machine (`Demands.rounds`). The right operand of a product is rounded where it is
        packed. Nothing but the operands of products changes.
    """

    name: ClassVar[str] = "lower-precision"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        precision = Facts.of(op).precision
        if precision is None:
            return
        for function in op.body.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                kinds = (_Rounding,) if precision == "bf16" else (_ToBytes, _ToHalf)
                count = sum(kind(function, input_count(op)).run() for kind in kinds)
                entries = {
                    "precision": StringAttr(precision),
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
        self.replaced: list[Operation] = []

    precision = "bf16"
    ROUNDED: ClassVar[tuple[type[nn.NNOp], ...]] = (nn.MatmulOp, nn.AttentionOp)

    def run(self) -> int:
        """How many products round their operands now."""
        count = 0
        for op in list(self.function.walk()):
            if not isinstance(op, self.ROUNDED) or not self._gains(op):
                continue
            for number in range(self._operands(op)):
                op.operands[number] = self._round(op.inputs[number])
            self._mark(op)
            count += 1
        for op in reversed(self.replaced):  # What reads a value goes before its maker.
            op.detach()
            op.erase()
        return count

    def _operands(self, op: nn.NNOp) -> int:
        """How many operands are rounded in the step."""
        return 1 if isinstance(op, nn.MatmulOp) else 3

    def _mark(self, op: nn.NNOp) -> None:
        op.properties["precision"] = StringAttr(self.precision)

    def _gains(self, op: nn.NNOp) -> bool:
        assert isinstance(op, nn.MatmulOp | nn.AttentionOp)
        values = op.inputs[: 2 if isinstance(op, nn.MatmulOp) else 3]
        if not all(isinstance(nn.element_of(v), _ROUNDED) for v in (*values, op.result[0])):
            return False
        weights = frozenset(n for n, value in enumerate(values) if self._is_weight(value))
        return demands_of(op).rounds(op, weights)

    def _is_weight(self, value: SSAValue) -> bool:
        """Whether a value is (a member of) a weight, which is rounded when the program is loaded."""
        owner = value.owner
        if isinstance(owner, nn.UnpackBlocksOp):
            return self._is_weight(owner.inputs[0])
        root = owner.family if isinstance(owner, nn.MemberOp) else value
        return root in self.block.args[self.first_weight :]

    def _round(self, value: SSAValue) -> SSAValue:
        """The value as bf16, made once, where the value itself is made."""
        if nn.element_of(value) == bf16 and self.precision == "bf16":
            return value
        if value not in self.rounded:
            made = self._rounding(value)
            made[-1].result[0].name_hint = value.name_hint
            owner = value.owner
            if isinstance(owner, Block):
                first = owner.first_op
                assert first is not None
                owner.insert_ops_before(made, first)
            else:
                assert isinstance(owner, Operation)
                block = owner.parent_block()
                assert block is not None
                block.insert_ops_after(made, owner)
                give_location(owner.location, *made)
            self.rounded[value] = made[-1].result[0]
        return self.rounded[value]

    def _rounding(self, value: SSAValue) -> list[nn.NNOp]:
        """What gives a value as bf16: its maker, if nobody else reads the value, or else a cast."""
        assert isinstance(value.type, TensorType)
        kind, owner = nn.with_element(value.type, bf16), value.owner
        if not isinstance(owner, nn.ReshapeOp | nn.AttentionOp) or not value.has_one_use():
            return [nn.ElementwiseOp([value], [kind], properties={"kind": StringAttr("cast")})]
        inputs = list(owner.inputs)
        if isinstance(owner, nn.ReshapeOp):
            inputs = [self._round(inputs[0])]
        self.replaced.append(owner)
        made = type(owner)(inputs, [kind], properties=owner.own_properties)
        made.attributes.update(owner.attributes)
        return [made]


class _ToBytes(_Rounding):
    """Left operands of products with weights in blocks become blocks of bytes."""

    precision = "q8"

    ROUNDED = (nn.MatmulOp, nn.ExpertMatmulOp)

    def _gains(self, op: nn.NNOp) -> bool:
        assert isinstance(op, nn.MatmulOp | nn.ExpertMatmulOp)
        in_blocks = isinstance(nn.element_of(op.inputs[1]), nn.BlockType)
        return in_blocks and demands_of(op).rounds_to_bytes(op)

    def _operands(self, op: nn.NNOp) -> int:
        return 1

    def _rounding(self, value: SSAValue) -> list[nn.NNOp]:
        *leading, row = nn.dims_of(value)
        kind = nn.tensor_type(i8, [*leading, row_bytes(row.evaluate({}))])
        return [nn.QuantizeRowsOp([value], [kind])]


class _ToHalf(_Rounding):
    """Left operands of products with weights of f16 become f16, where the machine multiplies such ones, and
    queries of attention over keys and values of f16, which gives f16 then."""

    def _operands(self, op: nn.NNOp) -> int:
        return 1

    def _mark(self, op: nn.NNOp) -> None:
        if isinstance(op, nn.AttentionOp):
            _widen_result(op)

    def _gains(self, op: nn.NNOp) -> bool:
        assert isinstance(op, nn.MatmulOp | nn.AttentionOp)
        own = op.inputs[: 2 if isinstance(op, nn.MatmulOp) else 3]
        kinds = [nn.element_of(value) for value in (*own, op.result[0])]
        if isinstance(op, nn.MatmulOp) and not self._is_weight(op.right):
            return False
        halves = [f16] * (len(own) - 1)
        return kinds == [f32, *halves, f32] and demands_of(op).rounds_to_half(op)

    def _rounding(self, value: SSAValue) -> list[nn.NNOp]:
        """What f16 has no number for becomes its largest one, as infinities would spread."""
        assert isinstance(value.type, TensorType)
        limits = {"min": FloatAttr(-LARGEST, f64), "max": FloatAttr(LARGEST, f64)}
        within = nn.ElementwiseOp(
            [value],
            [value.type],
            properties={"kind": StringAttr("clamp"), "settings": DictionaryAttr(limits)},
        )
        kind = nn.with_element(value.type, f16)
        cast = nn.ElementwiseOp(within.result, [kind], properties={"kind": StringAttr("cast")})
        return [within, cast]


def _widen_result(op: nn.AttentionOp) -> None:
    """Has an attention give f16, which those who read it get as f32."""
    wide = op.result[0].type
    assert isinstance(wide, TensorType)
    found = Rewriter.replace_value_with_new_type(op.result[0], nn.with_element(wide, f16))
    cast = nn.ElementwiseOp([found], [wide], properties={"kind": StringAttr("cast")})
    give_location(op.location, cast)
    Rewriter.insert_op(cast, InsertPoint.after(op))
    found.replace_uses_with_if(cast.result[0], lambda use: use.operation is not cast)
