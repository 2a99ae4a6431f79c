"""Rules of the ops with an index for each element."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import SSAValue

from openinfer.dialects import nn
from openinfer.dialects.ops.base import normal_axis
from openinfer.lowering.graph.op_rules import Call, op_rule
from openinfer.lowering.graph.scalars import computed, dtype_of, narrowed, stored, widened


def _axis(call: Call) -> int:
    """The axis, once it is sure that there are no more lines of indices than of x."""
    dims, indices = (nn.dims_of(value) for value in call.operands[:2])
    axis = normal_axis(call.settings["axis"], len(dims))
    for place, (found, most) in enumerate(zip(indices, dims)):
        if place != axis:
            call.require(found, most)
    return axis


def _indices(call: Call) -> SSAValue:
    indices = call.operands[1]
    return widened(call, indices, stored(dtype_of(indices)))


@op_rule("gather_elements")
def _gather_elements(call: Call) -> Sequence[SSAValue]:
    axis = _axis(call)
    x = call.operands[0]
    x = widened(call, x, stored(dtype_of(x)))
    value = call.add(
        nn.GatherElementsOp,
        [x, _indices(call)],
        nn.tensor_type(nn.element_of(x), call.results[0].dims),
        axis=nn.int_setting(axis),
        node=nn.int_setting(call.step.builder.node),
    )
    return [narrowed(call, value, call.type)]


@op_rule("scatter_elements")
def _scatter_elements(call: Call) -> Sequence[SSAValue]:
    axis = _axis(call)
    x, _, updates = call.operands
    how = str(call.settings["reduction"])
    dtype = dtype_of(x)
    inner = stored(dtype) if how == "none" else computed(dtype)
    x, updates = widened(call, x, inner), widened(call, updates, inner)
    kind = x.type
    assert isinstance(kind, TensorType)
    value = call.add(
        nn.ScatterElementsOp,
        [x, _indices(call), updates],
        kind,
        axis=nn.int_setting(axis),
        mode=StringAttr("set" if how == "none" else how),
        node=nn.int_setting(call.step.builder.node),
    )
    return [narrowed(call, value, call.type)]
