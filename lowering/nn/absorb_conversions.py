"""Products and attention read narrow operands where they lie, and convert them in registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    IntegerType,
    ModuleOp,
    StringAttr,
    TensorType,
    f32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint

from openinfer.dialects import nn
from openinfer.lowering.demands import demands_of
from openinfer.lowering.facts import Facts
from openinfer.lowering.fusing import may_join
from openinfer.lowering.locations import absorb_nodes
from openinfer.lowering.nn.matching import elementwise
from openinfer.lowering.rewriting import rewrite
from openinfer.runtime.sizes import Size


@dataclass(frozen=True)
class AbsorbConversions(ModulePass):
    """Drops a widening of weights or cached keys; scales of integer weights go to the sums.

    Before:
        %c = nn.elementwise(%w) {kind = "cast"} : (tensor<8x4xi8>) -> tensor<8x4xf32>
        %d = nn.elementwise(%c, %s) {kind = "mul"} : (…, tensor<4xf32>) -> tensor<8x4xf32>
        %y = nn.matmul(%x, %d) : …
    After:
        %0 = nn.matmul(%x, %w) : (tensor<2x8xf32>, tensor<8x4xi8>) -> tensor<2x4xf32>
        %y = nn.elementwise(%0, %s) {kind = "mul"} : …

    Attention reads keys and values that `nn.dequantize_blocks` would make as the blocks that they are.

    Requires: level `nn`; `absorb-transposes`.
    Leaves: conversions that round, whose result something but products reads, that the machine does
        not widen (`Demands.widens`), or that a barrier or a hint keeps apart; scales that vary along
        both dimensions, and under `strict_math` all scales.
    """

    name: ClassVar[str] = "absorb-conversions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        patterns: list[RewritePattern] = [MatmulOfWidened(), AttentionOfWidened()]
        if not Facts.of(op).strict_math:
            patterns += [MatmulOfScaled(), AttentionOfBlocks()]
        rewrite(op, patterns, erase_dead=True)


_DIGITS: dict[type[Attribute], int] = {
    Float32Type: 24,
    Float16Type: 11,
    BFloat16Type: 8,
    Float8E5M2Type: 3,
    Float8E4M3FNType: 4,
}
"""Significant binary digits of the floats that are computed in f32."""


def _is_exact(source: Attribute, target: Attribute) -> bool:
    """Whether a cast keeps every value."""
    if isinstance(source, IntegerType):
        return source.width.data <= _DIGITS.get(type(target), 0)
    return type(source) in _DIGITS and source != f32 and target == f32


def _widened(
    op: nn.MatmulOp | nn.AttentionOp, operand: int, value: SSAValue
) -> tuple[SSAValue, nn.ElementwiseOp] | None:
    """(x, the cast) when an operand of `op` is made of x in a wider type, and its kernel reads x."""
    cast = elementwise(value, "cast")
    if cast is None:
        return None
    source = cast.inputs[0]
    narrow = nn.element_of(source)
    if not _is_exact(narrow, nn.element_of(value)):
        return None
    return (source, cast) if demands_of(op).widens(op, operand, narrow) else None


def _only_right_operand(value: SSAValue) -> bool:
    """Whether products read a value as their right operand, and nobody else does."""
    return all(isinstance(use.operation, nn.MatmulOp) and use.index == 1 for use in value.uses)


def _is_float(value: SSAValue) -> bool:
    return isinstance(nn.element_of(value), AnyFloat)


class MatmulOfWidened(RewritePattern):
    """matmul(a, cast(b)) = matmul(a, b) where the cast is exact: sums are in f32 in any case"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.MatmulOp, rewriter: PatternRewriter) -> None:
        found = _widened(op, 1, op.right)
        if found is None or op.left is op.right or not _is_float(op.left):
            return
        source, cast = found
        if not _only_right_operand(op.right) or not may_join(cast, op):
            return
        op.operands[1] = source
        absorb_nodes(op, cast)
        rewriter.notify_op_modified(op)


class MatmulOfScaled(RewritePattern):
    """matmul(a, b·s) = matmul(a, b)·s for a scale of columns, matmul(a·s, b) for one of rows"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.MatmulOp, rewriter: PatternRewriter) -> None:
        weight = op.right
        scaled = elementwise(weight, "mul")
        if scaled is None or op.body or op.transpose_a is not None:
            return
        if not _only_right_operand(weight) or not may_join(scaled, op):
            return
        if {nn.element_of(v) for v in (op.left, weight, op.result[0])} != {f32}:
            return
        for codes, scale in (scaled.inputs, tuple(reversed(scaled.inputs))):
            found = _widened(op, 1, codes)
            # Only small integers: their sums stay in range without the scale, too.
            if found is not None and isinstance(nn.element_of(found[0]), IntegerType):
                if codes.type == weight.type and may_join(found[1], op):
                    self._move(op, scaled, codes, scale, rewriter)
                    return

    @staticmethod
    def _move(
        op: nn.MatmulOp,
        scaled: nn.ElementwiseOp,
        codes: SSAValue,
        scale: SSAValue,
        rewriter: PatternRewriter,
    ) -> None:
        one = Size.of(1)
        dims = nn.dims_of(scale)
        matrix = (*(one,) * max(0, 2 - len(dims)), *dims)
        rows, columns = matrix[-2:] if op.transpose_b is None else matrix[:-3:-1]
        if len(matrix) > 2 or one not in (rows, columns):
            return
        new: list[Operation] = []
        line = scale
        if len(dims) != 1:
            flat = nn.tensor_type(f32, (columns if rows == one else rows,))
            reshape = nn.ReshapeOp([scale], [flat])
            new.append(reshape)
            line = reshape.result[0]
        left, kind = op.left, op.result[0].type
        assert isinstance(kind, TensorType)
        if rows != one:
            made = _times(left, line)
            new.append(made)
            left = made.result[0]
        product = nn.MatmulOp([left, codes], [kind], properties=op.own_properties)
        product.attributes.update(op.attributes)
        absorb_nodes(product, scaled, op)
        new.append(product)
        value = product.result[0]
        if rows == one:
            made = _times(value, line)
            new.append(made)
            value = made.result[0]
        rewriter.replace(op, new, [value])


def _times(value: SSAValue, line: SSAValue) -> nn.ElementwiseOp:
    """A tensor times a line that broadcasts along its last dimension."""
    kind = value.type
    assert isinstance(kind, TensorType)
    return nn.ElementwiseOp([value, line], [kind], properties={"kind": StringAttr("mul")})


def _behind_reshapes(value: SSAValue) -> tuple[SSAValue, list[nn.ReshapeOp]]:
    """What only reshapes make a value of, and these, the last one first."""
    shapes: list[nn.ReshapeOp] = []
    while isinstance(value.owner, nn.ReshapeOp) and value.has_one_use():
        shapes.append(value.owner)
        value = value.owner.inputs[0]
    return value, shapes


class AttentionOfWidened(RewritePattern):
    """attention(q, cast(k), cast(v)) = attention(q, k, v) where a cast is exact"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.AttentionOp, rewriter: PatternRewriter) -> None:
        if nn.element_of(op.inputs[0]) != f32:
            return
        for position in (1, 2):
            value, shapes = _behind_reshapes(op.inputs[position])
            found = _widened(op, position, value)
            if found is None or not value.has_one_use():
                continue
            source, cast = found
            if not may_join(cast, op):
                continue
            new: list[Operation] = []
            for shape in reversed(shapes):
                kind = shape.result[0].type
                assert isinstance(kind, TensorType)
                made = nn.ReshapeOp([source], [nn.with_element(kind, nn.element_of(source))])
                new.append(made)
                source = made.result[0]
            rewriter.insert(new, InsertPoint.before(op))
            op.operands[position] = source
            absorb_nodes(op, cast)
            rewriter.notify_op_modified(op)
            return


class AttentionOfBlocks(RewritePattern):
    """attention(q, dequantize(k), dequantize(v)) = attention(q, k, v) where heads are whole blocks"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.AttentionOp, rewriter: PatternRewriter) -> None:
        if nn.element_of(op.inputs[0]) != f32:
            return
        for position in (1, 2):
            value, shapes = _behind_reshapes(op.inputs[position])
            found = value.owner
            if not isinstance(found, nn.DequantizeBlocksOp) or not value.has_one_use():
                continue
            block = found.format
            sizes = [nn.dims_of(shape.result[0])[-1].constant for shape in shapes]
            whole = all(size and size % block.elements == 0 for size in sizes)
            if not (whole and sizes and op.block in (None, found.block) and may_join(found, op)):
                continue
            if not demands_of(op).reads_blocks(op, block.name):
                continue
            source, new = found.inputs[0], list[Operation]()
            for shape in reversed(shapes):
                *leading, size = nn.dims_of(shape.result[0])
                row = size // block.elements * block.nbytes
                kind = nn.tensor_type(nn.element_of(source), (*leading, row))
                made = nn.ReshapeOp([source], [kind])
                new.append(made)
                source = made.result[0]
            rewriter.insert(new, InsertPoint.before(op))
            op.operands[position] = source
            op.properties["block"] = found.block
            absorb_nodes(op, found)
            rewriter.notify_op_modified(op)
            return
