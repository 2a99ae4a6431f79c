"""Operations of `nn` that have hand-scheduled lowerings: products, reductions, norms, attention."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
)
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.nn.base import NNOp
from openinfer.dialects.nn.tensor_ops import I64Array, dims_of_shape

REDUCTIONS = ("sum", "mean", "prod", "max", "min", "argmax", "argmin")


@irdl_op_definition
class MatmulOp(NNOp):
    """`[…, M, K] x […, K, N] -> […, M, N]`; leading dimensions broadcast.

    Inputs: `a`, `b`, then the extra operands of the epilogue. The product is scaled by `alpha`. The
    body, when there is one, maps one element of the product (first argument, in the accumulator's
    type) and one element of each extra operand to the element that is stored; `maps` gives for each
    extra operand the affine map from the indices of the result. With `packed`, `b` holds panels
    `[…, ceil(N / tile), K, tile]` as `nn.pack` makes them.
    """

    name = "nn.matmul"
    transpose_a = opt_prop_def(UnitAttr)
    transpose_b = opt_prop_def(UnitAttr)
    packed = opt_prop_def(UnitAttr)
    alpha = opt_prop_def(FloatAttr)
    maps = opt_prop_def(ArrayAttr[AffineMapAttr])
    ARITY: ClassVar[tuple[int, int | None]] = (2, None)

    def check(self) -> None:
        a, b = dims_of_shape(self.inputs[0]), dims_of_shape(self.inputs[1])
        if len(a) < 2 or len(b) < 2 + (self.packed is not None):
            raise VerifyException("nn.matmul: operands have at least two dimensions")
        if len(self.inputs) - 2 != len(self.maps or ()):
            raise VerifyException("nn.matmul: one map for each extra operand")
        k_a = a[-2] if self.transpose_a is not None else a[-1]
        k_b = b[-1] if self.transpose_b is not None else b[-2]
        if -1 not in (k_a, k_b) and k_a != k_b:
            raise VerifyException(f"nn.matmul: inner sizes differ, {k_a} and {k_b}")


@irdl_op_definition
class ReduceOp(NNOp):
    """`kind` over `axes`: sum mean prod max min argmax argmin; the axes are kept with size 1 or dropped."""

    name = "nn.reduce"
    kind = prop_def(StringAttr)
    axes = prop_def(I64Array)
    keepdims = opt_prop_def(UnitAttr)
    select_last = opt_prop_def(UnitAttr)
    ARITY: ClassVar[tuple[int, int | None]] = (1, 1)

    def check(self) -> None:
        if self.kind.data not in REDUCTIONS:
            raise VerifyException(f"nn.reduce: unknown kind {self.kind.data!r}")


@irdl_op_definition
class SoftmaxOp(NNOp):
    """exp(x - max) / sum(exp(x - max)) along `axis`; with `log` its logarithm."""

    name = "nn.softmax"
    axis = prop_def(IntegerAttr)
    log = opt_prop_def(UnitAttr)


@irdl_op_definition
class LayerNormOp(NNOp):
    """(x - mean) / sqrt(var + eps) over the last axis, times weight, plus bias (each optional).

    Inputs: x, then weight and bias as far as the flags say.
    """

    name = "nn.layer_norm"
    eps = prop_def(FloatAttr)
    has_weight = opt_prop_def(UnitAttr)
    has_bias = opt_prop_def(UnitAttr)
    ARITY: ClassVar[tuple[int, int | None]] = (1, 3)


@irdl_op_definition
class RmsNormOp(NNOp):
    """x / sqrt(mean(x²) + eps) over the last axis, times weight when there is one."""

    name = "nn.rms_norm"
    eps = prop_def(FloatAttr)
    ARITY: ClassVar[tuple[int, int | None]] = (1, 2)


@irdl_op_definition
class AttentionOp(NNOp):
    """softmax(scale · q kᵀ + mask) v, heads grouped when q has a multiple of k's heads.

    Inputs: q, k, v and, with `masked`, a mask (bool: true attends; float: added) that broadcasts to
    `[batch, heads, q length, k length]`. `layouts` says for q, k, v and the result whether it is
    `bhld` (batch, heads, length, head size) or `blhd`. `window`: a query attends to that many keys up
    to its own position. A query that may attend to nothing gives 0, or with `nan_rows` NaN, as a
    softmax of nothing but -inf does. On buffers `outs` holds the result, then scratch.
    """

    name = "nn.attention"
    scale = prop_def(FloatAttr)
    causal = opt_prop_def(UnitAttr)
    window = opt_prop_def(IntegerAttr)
    masked = opt_prop_def(UnitAttr)
    nan_rows = opt_prop_def(UnitAttr)
    layouts = prop_def(ArrayAttr[StringAttr])
    ARITY: ClassVar[tuple[int, int | None]] = (3, 4)

    def check(self) -> None:
        names = [layout.data for layout in self.layouts]
        if len(names) != 4 or not set(names) <= {"bhld", "blhd"}:
            raise VerifyException("nn.attention: layouts are four of bhld, blhd")
        for value in self.inputs[:3]:
            if len(dims_of_shape(value)) != 4:
                raise VerifyException("nn.attention: q, k and v have four dimensions")
