"""How attention becomes one `nn` op: heads, masks and windows where its kernel wants them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    FloatAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    f64,
)
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.ops.attention import attention_split, head_counts
from openinfer.dialects.ops.base import product
from openinfer.dialects.opset import TensorSpec
from openinfer.lowering.graph.op_rules import (
    Call,
    op_rule,
)
from openinfer.lowering.graph.scalars import computed, dtype_of
from openinfer.runtime.sizes import Size


@op_rule("attention", scalars=("scale", "window", "softcap"))
def _attention(call: Call) -> Sequence[SSAValue]:
    from openinfer.lowering.graph.scalar_rules import known_scale

    if call.settings["heads"] is not None:
        return _merged_attention(call)
    call = known_scale(call)
    q, k, v, *rest = call.operands
    specs = [TensorSpec("f32", nn.dims_of(x)) for x in (q, k)]
    if attention_split(specs[0], specs[1]):
        return _split_attention(call)
    dims = nn.dims_of(q)
    batch = Size.of(1)
    for size in dims[:-3]:
        batch = batch * size

    def four(value: SSAValue) -> SSAValue:
        own = list(nn.dims_of(value))
        heads = own[-3] if len(own) > 2 else Size.of(1)
        return call.reshape(value, (batch, heads, *own[-2:]))

    inputs = [four(q), four(k), four(v)]
    heads = nn.dims_of(inputs[0])[1]
    if rest:
        inputs.append(_mask(call, rest[0], dims, batch, heads))
    size = nn.dims_of(v)[-1]
    kind = nn.tensor_type(call.type.element_type, (batch, heads, dims[-2], size))
    value = _attend(call, inputs, kind, ["bhld"] * 4)
    return [call.reshape(value, call.results[0].dims)]


def _merged_attention(call: Call) -> Sequence[SSAValue]:
    """Heads that are parts of the last axis are read, and written, where they lie."""
    from openinfer.lowering.graph.scalar_rules import known_scale

    q, k, v, *rest = call.operands
    dims = nn.dims_of(q)
    specs = [TensorSpec("f32", nn.dims_of(x)) for x in (q, k)]
    heads, groups = head_counts(specs[0], specs[1], call.settings)
    *lead, length, width = dims
    batch = product(lead)

    def four(value: SSAValue, count: int) -> SSAValue:
        own = nn.dims_of(value)
        behind = own[len(lead) :]
        if len(own) == len(dims):
            behind = (own[-2], Size.of(count), own[-1] // count)
            call.require(own[-1], behind[-1] * count)
        return call.checked_reshape(value, (batch, *behind))

    parts = [four(q, heads), four(k, groups), four(v, groups)]
    call = known_scale(call.replaced([*parts, *rest]))
    inputs = [*call.operands[:3]]
    if rest:
        scores = (*lead, Size.of(heads), length, width)
        inputs.append(_mask(call, rest[0], scores, batch, Size.of(heads)))
    size = nn.dims_of(parts[2])[-1]
    kind = nn.tensor_type(call.type.element_type, (batch, length, Size.of(heads), size))
    value = _attend(call, inputs, kind, ["blhd"] * 4)
    return [call.checked_reshape(value, call.results[0].dims)]


def _mask(call: Call, mask: SSAValue, dims: tuple[Size, ...], batch: Size, heads: Size) -> SSAValue:
    """The mask with four dimensions; leading ones are joined as those of q are."""
    own = nn.dims_of(mask)
    own = (*(Size.of(1) for _ in range(max(0, 4 - len(own)))), *own)
    lead = own[:-3]
    if len(own) == 4:
        return call.reshape(mask, own)
    joined = Size.of(1)
    for size in lead:
        joined = joined * size
    if joined != batch and joined != Size.of(1):
        full = (*dims[:-3], *own[-3:])
        mask = call.add(nn.BroadcastOp, [mask], nn.tensor_type(nn.element_of(mask), full))
        joined = batch
    return call.reshape(mask, (joined, *own[-3:]))


def _attend(
    call: Call,
    inputs: Sequence[SSAValue],
    kind: TensorType[Attribute],
    layouts: Sequence[str],
) -> SSAValue:
    from openinfer.lowering.graph.scalar_rules import FARTHEST, cap_operand, window_operand

    scale = call.settings["scale"]
    assert isinstance(scale, float)
    window = call.settings["window"]
    masked = UnitAttr() if len(inputs) > 3 else None
    softcap = call.settings["softcap"]
    known_by_step = [window_operand(call), cap_operand(call, computed(dtype_of(inputs[0])))]
    reach, cap = known_by_step
    return call.add(
        nn.AttentionOp,
        [*inputs, *(value for value in known_by_step if value is not None)],
        kind,
        scale=FloatAttr(scale, f64),
        causal=UnitAttr() if call.settings["causal"] else None,
        window=nn.int_setting(min(window, FARTHEST)) if isinstance(window, int) else None,
        windowed=None if reach is None else UnitAttr(),
        masked=masked,
        softcap=FloatAttr(softcap, f64) if isinstance(softcap, float) else None,
        softcapped=None if cap is None else UnitAttr(),
        layouts=ArrayAttr([StringAttr(layout) for layout in layouts]),
    )


def _split_attention(call: Call) -> Sequence[SSAValue]:
    """q `[B, D]` against k, v `[T, H, Dh]` or `[H, Dh]`: heads are cut from the last dimension."""
    q, k, v, *rest = call.operands
    rows, width = nn.dims_of(q)
    heads, size = nn.dims_of(k)[-2:]
    length = nn.dims_of(k)[0] if len(nn.dims_of(k)) == 3 else Size.of(1)
    one = Size.of(1)
    inputs = [
        call.reshape(q, (one, rows, heads, size)),
        call.reshape(k, (one, length, heads, size)),
        call.reshape(v, (one, length, heads, size)),
    ]
    kind = nn.tensor_type(call.type.element_type, (one, rows, heads, size))
    value = call.reshape(_attend(call, inputs, kind, ["blhd"] * 4), (rows, width))
    if rest:
        value = call.add(nn.MatmulOp, [value, rest[0]], call.type)
    return [value]
