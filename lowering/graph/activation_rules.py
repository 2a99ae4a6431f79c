"""The rule of `prelu`, whose slope is aligned with the channels."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import SSAValue

from openinfer.dialects import nn
from openinfer.dialects.ops.activations import aligned_slope
from openinfer.lowering.graph.op_rules import Call, op_rule
from openinfer.lowering.graph.scalars import computed, dtype_of, number, widened


@op_rule("prelu")
def _prelu(call: Call) -> Sequence[SSAValue]:
    dtype = computed(dtype_of(call.operands[0]))
    x, slope = (widened(call, value, dtype) for value in call.operands)
    kind = x.type
    assert isinstance(kind, TensorType)
    slope = call.reshape(slope, aligned_slope(nn.dims_of(x), nn.dims_of(slope)))
    below = call.elementwise("mul", [x, slope], kind)
    zero = number(call, 0, kind.element_type)
    positive = call.elementwise("gt", [x, zero], nn.with_element(kind, i1))
    return [call.convert(call.elementwise("where", [positive, x, below], kind), call.type)]
