"""Operations of `nn` that combine the elements along axes: reductions, softmax, norms."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def

from openinfer.dialects.nn.base import NNOp
from openinfer.dialects.nn.checks import (
    Dims,
    element,
    expect_axis,
    expect_element,
    expect_floats,
    expect_plain_integers,
    expect_shape,
    refuse,
    shape_of,
)
from openinfer.dialects.nn.tensor_ops import I64Array

REDUCTIONS = ("sum", "mean", "prod", "max", "min", "argmax", "argmin")
_POSITIONS = ("argmax", "argmin")


@irdl_op_definition
class ReduceOp(NNOp):
    """`kind` over `axes`: sum mean prod max min argmax argmin; the axes are kept with size 1 or dropped.

    argmax and argmin take one axis and give i64, of equal values the first or with `select_last`
    the last place. Their integers are signed, unless there is `unsigned`.
    """

    name = "nn.reduce"
    kind = prop_def(StringAttr)
    axes = prop_def(I64Array)
    keepdims = opt_prop_def(UnitAttr)
    select_last = opt_prop_def(UnitAttr)
    unsigned = opt_prop_def(UnitAttr)
    ARITY: ClassVar[tuple[int, int | None]] = (1, 1)

    def check(self) -> None:
        kind = self.kind.data
        if kind not in REDUCTIONS:
            refuse(self, f"unknown kind {kind!r}, expected one of {', '.join(REDUCTIONS)}")
        source, axes = shape_of(self.inputs[0]), self.axes.get_values()
        for axis in axes:
            expect_axis(self, axis, len(source))
        if len(set(axes)) != len(axes):
            refuse(self, f"an axis occurs twice in {list(axes)}")
        if kind in _POSITIONS and len(axes) != 1:
            refuse(self, f"{kind} takes one axis, found {len(axes)}")
        if self.select_last is not None and kind not in _POSITIONS:
            refuse(self, f"select_last belongs to argmax and argmin, not to {kind}")
        if self.unsigned is not None:
            if kind not in _POSITIONS:
                refuse(self, f"unsigned belongs to argmax and argmin, not to {kind}")
            expect_plain_integers(self, "unsigned", self.inputs)
        if self.keepdims is not None:
            expected: Dims = tuple(1 if d in axes else s for d, s in enumerate(source))
        else:
            expected = tuple(s for d, s in enumerate(source) if d not in axes)
        expect_shape(self, "the result", shape_of(self.output), expected)
        self._check_elements(kind)

    def _check_elements(self, kind: str) -> None:
        source, result = element(self.inputs[0]), element(self.output)
        if kind in _POSITIONS:
            expect_element(self, "the result", result, i64)
            return
        floats = isinstance(source, AnyFloat)
        # Only a mean of integers may be stored as a float.
        if floats is not isinstance(result, AnyFloat) and (floats or kind != "mean"):
            refuse(
                self,
                f"{kind} of {source} gives {'a float' if floats else 'an integer'}, "
                f"but the result has elements {result}",
            )


@irdl_op_definition
class SoftmaxOp(NNOp):
    """exp(x - max) / sum(exp(x - max)) along `axis` (-1: the last); with `log` its logarithm."""

    name = "nn.softmax"
    axis = prop_def(IntegerAttr)
    log = opt_prop_def(UnitAttr)

    def check(self) -> None:
        source = shape_of(self.inputs[0])
        expect_axis(self, self.axis.value.data, len(source), from_end=True)
        expect_shape(self, "the result", shape_of(self.output), source)
        expect_floats(self, (*self.inputs, self.output))


def _check_norm(op: NNOp, names: tuple[str, ...]) -> None:
    """The result is like x; each of the other inputs has the size of the last axis."""
    if len(op.inputs) != 1 + len(names):
        listed = ", ".join(("x", *names))
        refuse(op, f"the inputs are {listed} by the flags, found {len(op.inputs)}")
    source = shape_of(op.inputs[0])
    if not source:
        refuse(op, "x is a scalar, expected a last axis")
    for name, value in zip(names, op.inputs[1:]):
        expect_shape(op, name, shape_of(value), source[-1:])
    expect_shape(op, "the result", shape_of(op.output), source)
    expect_floats(op, (*op.inputs, op.output))


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

    def check(self) -> None:
        flags = (("weight", self.has_weight), ("bias", self.has_bias))
        _check_norm(self, tuple(name for name, flag in flags if flag is not None))


@irdl_op_definition
class RmsNormOp(NNOp):
    """x / sqrt(mean(x²) + eps) over the last axis, times weight when there is one."""

    name = "nn.rms_norm"
    eps = prop_def(FloatAttr)
    ARITY: ClassVar[tuple[int, int | None]] = (1, 2)

    def check(self) -> None:
        _check_norm(self, ("weight",)[: len(self.inputs) - 1])
