"""Rules of `pad` and `flip`: slices, also backwards ones, fills and joins."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import SSAValue

from openinfer.dialects import nn
from openinfer.dialects.graph import SizeAttr
from openinfer.dialects.ops.borders import flipped_axes, pad_widths
from openinfer.dialects.opset import TensorSpec
from openinfer.lowering.graph.op_rules import Call, op_rule
from openinfer.lowering.graph.scalars import dtype_of, number
from openinfer.runtime.sizes import Size


def cut(
    call: Call, value: SSAValue, axis: int, start: Size, count: Size, step: int = 1
) -> SSAValue:
    """`count` slices of an axis from `start` on."""
    dims = nn.dims_of(value)
    starts = [start if d == axis else Size.of(0) for d in range(len(dims))]
    steps = [step if d == axis else 1 for d in range(len(dims))]
    kind = nn.tensor_type(nn.element_of(value), (*dims[:axis], count, *dims[axis + 1 :]))
    return call.add(
        nn.SliceOp,
        [value],
        kind,
        starts=ArrayAttr([SizeAttr(s) for s in starts]),
        steps=nn.ints_setting(steps),
    )


@op_rule("flip")
def _flip(call: Call) -> Sequence[SSAValue]:
    value = call.operands[0]
    dims = nn.dims_of(value)
    for axis in flipped_axes(len(dims), call.settings):
        if dims[axis].constant not in (0, 1):
            value = cut(call, value, axis, dims[axis] - 1, dims[axis], -1)
    return [call.convert(value, call.type)]


@op_rule("pad", scalars=("value",))
def _pad(call: Call) -> Sequence[SSAValue]:
    value = call.operands[0]
    spec = TensorSpec(dtype_of(value), nn.dims_of(value))
    mode = call.settings["mode"]
    for axis, (before, behind) in enumerate(pad_widths(spec, call.settings)):
        parts = [
            _border(call, value, axis, before, str(mode), front=True),
            value,
            _border(call, value, axis, behind, str(mode), front=False),
        ]
        found = [part for part in parts if part is not None]
        if len(found) == 1:
            continue
        dims = list(nn.dims_of(value))
        dims[axis] = before + dims[axis] + behind
        kind = nn.tensor_type(nn.element_of(value), dims)
        value = call.add(nn.ConcatOp, found, kind, axis=nn.int_setting(axis))
    return [call.convert(value, call.type)]


def _border(
    call: Call, value: SSAValue, axis: int, count: Size, mode: str, *, front: bool
) -> SSAValue | None:
    """What stands before or behind the value along an axis; None when that is nothing."""
    if count.constant == 0:
        return None
    call.require(Size.of(0), count)
    dims = nn.dims_of(value)
    size = dims[axis]
    kind = nn.tensor_type(nn.element_of(value), (*dims[:axis], count, *dims[axis + 1 :]))
    if mode == "constant":
        return call.add(
            nn.BroadcastOp, [number(call, call.settings["value"], kind.element_type)], kind
        )
    # An empty border needs no elements, so both sides are multiplied by its size.
    factor = Size.of(1) if count.constant is not None else count
    needed = Size.of(1) if mode == "edge" else count + 1
    call.require(factor * needed, factor * size)
    if mode == "edge":
        start = Size.of(0) if front else size - 1
        return call.add(nn.BroadcastOp, [cut(call, value, axis, start, Size.of(1))], kind)
    start = count if front else size - 2
    return cut(call, value, axis, start, count, -1)
