"""matmul, softmax, matmul: attention written out becomes one operation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    FloatAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
    f32,
    f64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from openinfer.dialects import nn
from openinfer.lowering.facts import Facts
from openinfer.lowering.locations import absorb_nodes
from openinfer.lowering.nn.matching import elementwise, parts_of, scaled, single_use
from openinfer.lowering.rewriting import rewrite
from openinfer.runtime.sizes import Size


@dataclass(frozen=True)
class RecognizeAttention(ModulePass):
    """Computes softmax(scale · q kᵀ + mask) v without storing the scores.

    Before:
        %s = nn.matmul(%q, %k) {transpose_b} : …
        %c = nn.elementwise(%s, %scale) {kind = "mul"} : …   // filled with 0.25
        %p = nn.softmax(%c) {axis = 3 : i64} : …
        %o = nn.matmul(%p, %v) : …
    After:
        %o = nn.attention(%q, %k, %v) {scale = 0.25 : f64, layouts = …} : …

    Requires: `absorb-transposes`.
    Leaves: products whose scores or probabilities something else reads or are rounded to another
        dtype, whose softmax runs over another axis, where the probabilities are the right operand,
        or with a barrier in between; under `strict_math` everything.
    """

    name: ClassVar[str] = "recognize-attention"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not Facts.of(op).strict_math:
            rewrite(op, [_Attention()], erase_dead=True)


@dataclass
class _Scores:
    """scale · q kᵀ, and a mask that is added to it."""

    product: nn.MatmulOp
    turned: nn.TransposeOp | None
    """What k goes through where the product reads kᵀ as one transpose with that of the heads."""
    scale: float
    mask: SSAValue | None

    @property
    def query(self) -> SSAValue:
        return self.product.left

    @property
    def key(self) -> SSAValue:
        """The tensor that k is, or is a transpose of."""
        return self.product.right if self.turned is None else self.turned.inputs[0]

    @property
    def key_dims(self) -> tuple[Size, ...]:
        """The dimensions of k."""
        dims = nn.dims_of(self.product.right)
        return dims if self.turned is None else (*dims[:-2], dims[-1], dims[-2])

    def key_order(self) -> list[int] | None:
        """The permutation that makes k of `key`; None for none."""
        if self.turned is None:
            return None
        *order, length, size = self.turned.permutation.get_values()
        return [*order, size, length]


class _Attention(RewritePattern):
    """matmul(softmax(matmul(q, kᵀ)·scale + mask), v) = attention(q, k, v, mask)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.MatmulOp, rewriter: PatternRewriter) -> None:
        softmax = op.inputs[0].owner
        if not isinstance(softmax, nn.SoftmaxOp) or softmax.log is not None:
            return
        # The probabilities must be the left operand only, and read by nobody else.
        if op.inputs[1] is op.inputs[0] or not single_use(op.inputs[0]) or len(op.inputs) != 2:
            return
        if op.transpose_a is not None or op.transpose_b is not None:
            return
        rank = len(nn.dims_of(op.inputs[0]))
        if softmax.axis.value.data != rank - 1 or not single_use(softmax.inputs[0]):
            return
        scores = _scores(softmax.inputs[0])
        if scores is None or not _fits(scores, op):
            return
        edges = [scores.query, scores.key, op.inputs[1]]
        parts = parts_of(op, edges if scores.mask is None else [*edges, scores.mask])
        if parts is not None:
            self._replace(op, scores, parts, rewriter)

    @staticmethod
    def _replace(
        op: nn.MatmulOp, scores: _Scores, parts: list[Operation], rewriter: PatternRewriter
    ) -> None:
        result = op.result[0].type
        assert isinstance(result, TensorType)
        batch, heads = _leading(scores.query)
        new: list[Operation] = []
        key = scores.key
        order = scores.key_order()
        if order is not None:
            kind = nn.tensor_type(nn.element_of(key), scores.key_dims)
            turn = nn.TransposeOp([key], [kind], properties={"permutation": nn.ints_setting(order)})
            new.append(turn)
            key = turn.result[0]

        def four(value: SSAValue) -> SSAValue:
            dims = nn.dims_of(value)
            kind = nn.tensor_type(nn.element_of(value), (batch, heads, *dims[-2:]))
            return _reshape(value, kind, new)

        q, k, v = (four(x) for x in (scores.query, key, op.inputs[1]))
        inputs = [q, k, v]
        if scores.mask is not None:
            dims = nn.dims_of(scores.mask)
            lead = (Size.of(1),) * max(0, 4 - len(dims))
            kind = nn.tensor_type(nn.element_of(scores.mask), (*lead, *dims))
            inputs.append(_reshape(scores.mask, kind, new))
        out = nn.tensor_type(
            result.element_type, (batch, heads, nn.dims_of(q)[2], nn.dims_of(v)[3])
        )
        attention = nn.AttentionOp(
            inputs,
            [out],
            properties={
                "scale": FloatAttr(scores.scale, f64),
                "masked": UnitAttr() if scores.mask is not None else None,
                # The softmax of a row of nothing but -inf is NaN.
                "nan_rows": UnitAttr() if scores.mask is not None else None,
                "layouts": ArrayAttr([StringAttr("bhld")] * 4),
            },
        )
        new.append(attention)
        absorb_nodes(attention, *parts)
        value = _reshape(attention.result[0], result, new)
        rewriter.replace(op, new, [value])


def _reshape(
    value: SSAValue,
    kind: TensorType[Attribute],
    new: list[Operation],
) -> SSAValue:
    if value.type == kind:
        return value
    op = nn.ReshapeOp([value], [kind])
    new.append(op)
    return op.result[0]


def _leading(value: SSAValue) -> tuple[Size, Size]:
    dims = nn.dims_of(value)
    one = Size.of(1)
    return {2: (one, one), 3: (one, dims[0])}.get(len(dims), (dims[0], dims[1]))


def _scores(value: SSAValue) -> _Scores | None:
    """The parts of scale·(q kᵀ) + mask."""
    mask: SSAValue | None = None
    added = elementwise(value, "add")
    if added is not None:
        for x, y in (added.inputs, tuple(reversed(added.inputs))):
            if x.type == value.type and _product(x) is not None:
                value, mask = x, y
                break
        else:
            return None
        if not single_use(value):
            return None
    found = _product(value)
    if found is None:
        return None
    product, turned, scale = found
    return _Scores(product, turned, scale, mask)


def _product(value: SSAValue) -> tuple[nn.MatmulOp, nn.TransposeOp | None, float] | None:
    """(the product, the transpose that makes kᵀ where no flag does, the scale) of scale·(q kᵀ)."""
    scale = 1.0
    factor = scaled(value)
    if factor is not None:
        value, scale = factor
        if not single_use(value):
            return None
    owner = value.owner
    if not isinstance(owner, nn.MatmulOp) or owner.body:
        return None
    if owner.transpose_a is not None:
        return None
    turned = None
    if owner.transpose_b is None:
        turned = owner.right.owner
        if not isinstance(turned, nn.TransposeOp) or not _ends_turned(turned):
            return None
    return owner, turned, scale


def _ends_turned(op: nn.TransposeOp) -> bool:
    """Whether rows and columns of the result lie in the operand as columns before rows.

    Exported models make kᵀ of [batch, length, heads, size] with one transpose of all four.
    """
    order = list(op.permutation.get_values())
    return len(order) >= 2 and order[-2] > order[-1]


def _fits(scores: _Scores, op: nn.MatmulOp) -> bool:
    """Equal leading dimensions of rank 2 to 4, a static head size, float scores not rounded."""
    q, k = nn.dims_of(scores.query), scores.key_dims
    v = nn.dims_of(op.inputs[1])
    if not 2 <= len(q) <= 4 or len(k) != len(q) or len(v) != len(q):
        return False
    if q[:-2] != k[:-2] or q[:-2] != v[:-2]:
        return False
    if q[-1].constant is None or v[-1].constant is None:
        return False
    elements = {nn.element_of(x) for x in (*scores.product.inputs[:2], op.inputs[1])}
    elements |= {nn.element_of(x) for x in (op.result[0], op.inputs[0], scores.product.result[0])}
    # Scores that the program rounds to a narrow float must stay rounded.
    if elements not in ({f32}, {f64}):
        return False
    if scores.mask is None:
        return True
    mask = nn.dims_of(scores.mask)
    return len(mask) <= 4 and nn.element_of(scores.mask) in elements
