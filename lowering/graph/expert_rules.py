"""How a layer of experts becomes one `nn` op, with indices that were checked."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from openinfer.dialects import nn, opset
from openinfer.dialects.nn.elements import dtype_name, element_type
from openinfer.dialects.ops.base import product
from openinfer.dialects.ops.experts import shares_rows
from openinfer.lowering.graph.op_rules import Call, op_rule
from openinfer.lowering.graph.scalars import computed
from openinfer.runtime.sizes import Size


@op_rule("expert_linear")
def _expert_linear(call: Call) -> Sequence[SSAValue]:
    """Positions become one axis. The gather of 0, 1, … checks the indices, which it does not change."""
    x, w, experts = call.operands
    chosen = nn.dims_of(experts)
    shared = shares_rows(len(nn.dims_of(x)), len(chosen))
    count, features = nn.dims_of(w)[0], nn.dims_of(x)[-1]
    lead, each = product(chosen[:-1]), chosen[-1]
    if count.constant is None:
        call.require(Size.of(1), count)
    numbers = call.add(nn.IotaOp, [], nn.tensor_type(i32, (count,)), axis=nn.int_setting(0))
    checked = call.add(
        nn.GatherOp,
        [numbers, experts],
        nn.tensor_type(i32, chosen),
        axis=nn.int_setting(0),
        node=nn.int_setting(call.step.builder.node),
    )
    rows = call.reshape(x, (lead, Size.of(1) if shared else each, features))
    floats = [dtype_name(nn.element_of(value)) for value in (x, w)]
    summed = element_type(computed(opset.promote_floats(floats)))
    kind = nn.tensor_type(summed, (lead, each, nn.dims_of(w)[1]))
    y = call.add(nn.ExpertMatmulOp, [rows, w, call.reshape(checked, (lead, each))], kind)
    return [call.convert(call.reshape(y, call.results[0].dims), call.type)]
