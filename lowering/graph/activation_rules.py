"""Rules of `prelu`, whose slope is aligned with the channels, and of an `alpha` that only the step knows."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.ops.activations import aligned_slope
from openinfer.lowering.graph.op_rules import Call, elementwise_rule, op_rule
from openinfer.lowering.graph.scalars import (
    Scalar,
    computed,
    dtype_of,
    number,
    scalar_type,
    widened,
)


@op_rule("elu", "celu", scalars=("alpha",))
def _elu(call: Call) -> Sequence[SSAValue]:
    given = call.settings["alpha"]
    if not isinstance(given, Scalar):
        return elementwise_rule(call)
    x = widened(call, call.operands[0], computed(dtype_of(call.operands[0])))
    kind = _kind(x)
    alpha, inner = number(call, given, kind.element_type), x
    if call.spec.name == "celu":
        zero = number(call, 0, kind.element_type)
        call.step.elements.require(call.elementwise("ne", [alpha, zero], scalar_type(i1)), "alpha")
        inner = call.elementwise("div", [x, alpha], kind)
    below = call.elementwise("mul", [alpha, call.elementwise("expm1", [inner], kind)], kind)
    return [_from_zero_on(call, x, below)]


@op_rule("prelu")
def _prelu(call: Call) -> Sequence[SSAValue]:
    dtype = computed(dtype_of(call.operands[0]))
    x, slope = (widened(call, value, dtype) for value in call.operands)
    slope = call.reshape(slope, aligned_slope(nn.dims_of(x), nn.dims_of(slope)))
    return [_from_zero_on(call, x, call.elementwise("mul", [x, slope], _kind(x)))]


def _kind(value: SSAValue) -> TensorType[Attribute]:
    kind = value.type
    assert isinstance(kind, TensorType)
    return kind


def _from_zero_on(call: Call, x: SSAValue, below: SSAValue) -> SSAValue:
    """x where it is positive, else `below`, in the declared dtype."""
    kind = _kind(x)
    zero = number(call, 0, kind.element_type)
    positive = call.elementwise("gt", [x, zero], nn.with_element(kind, i1))
    return call.convert(call.elementwise("where", [positive, x, below], kind), call.type)
