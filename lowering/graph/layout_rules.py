"""How ops that move, cut or convert elements become `nn`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    TensorType,
)
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects import nn, opset
from openinfer.dialects.graph import SizeAttr
from openinfer.dialects.ops.layout import permutation, slice_bounds
from openinfer.dialects.opset import TensorSpec
from openinfer.lowering.graph.op_rules import (
    Call,
    Settings,
    axis_of,
    op_rule,
)
from openinfer.lowering.graph.requirements import Requirements
from openinfer.runtime.sizes import Size


@op_rule("cast", scalars=("saturate",))
def _cast(call: Call) -> Sequence[SSAValue]:
    settings = {k: v for k, v in call.settings.items() if k in ("rounding_mode", "saturate")}
    if call.operands[0].type == call.type:
        return [call.operands[0]]
    if isinstance(settings["saturate"], opset.NameRef):
        from openinfer.lowering.graph.scalar_rules import either_way

        return either_way(call, "saturate")
    return [call.elementwise("cast", call.operands, call.type, **settings)]


def _check_reshape(requirements: Requirements, _: Sequence[TensorSpec], settings: Settings) -> None:
    """What a dimension that is left open follows from is divided by the others."""
    shape = settings.get("shape")
    dims = [Size.of(dim) for dim in shape] if isinstance(shape, tuple) else []
    if any(dim.constant == -1 for dim in dims):
        for dim in dims:
            if requirements.sizes.is_dynamic(dim):
                requirements.at_most(Size.of(1), dim)


def _check_squeeze(
    requirements: Requirements, operands: Sequence[TensorSpec], settings: Settings
) -> None:
    """Without `axes` every axis of extent 1 goes, so one that stays is not 1 in any step."""
    if settings.get("axes") is None:
        for dim in operands[0].dims:
            if dim.constant is None:
                requirements.at_most(Size.of(1), (dim - 1) * (dim - 1), "squeezed")


@op_rule("squeeze", check=_check_squeeze)
@op_rule("reshape", "unsqueeze", check=_check_reshape)
def _reshape(call: Call) -> Sequence[SSAValue]:
    value = call.checked_reshape(call.operands[0], call.results[0].dims)
    return [call.convert(value, call.type)]


@op_rule("transpose", "permute")
def _transpose(call: Call) -> Sequence[SSAValue]:
    order = permutation(len(nn.dims_of(call.operands[0])), call.settings)
    return [call.convert(call.transpose(call.operands[0], order), call.type)]


@op_rule("expand")
def _expand(call: Call) -> Sequence[SSAValue]:
    value = call.add(nn.BroadcastOp, call.operands, call.own_type)
    return [call.convert(value, call.type)]


@op_rule("concat")
def _concat(call: Call) -> Sequence[SSAValue]:
    axis = nn.int_setting(axis_of(call.settings["axis"], call.results[0].rank))
    return [call.convert(call.add(nn.ConcatOp, call.operands, call.own_type, axis=axis), call.type)]


@op_rule("slice")
def _slice(call: Call) -> Sequence[SSAValue]:
    spec = TensorSpec("f32", nn.dims_of(call.operands[0]))
    bounds = slice_bounds(spec, call.settings)
    for extent, (low, high, _) in zip(spec.dims, bounds):
        for left, right in ((Size.of(0), low), (low, high), (high, extent)):
            call.require(left, right)
    starts, steps = [b[0] for b in bounds], [b[2] for b in bounds]
    return [call.convert(_cut(call, starts, steps, call.own_type), call.type)]


@op_rule("split")
def _split(call: Call) -> Sequence[SSAValue]:
    rank = len(nn.dims_of(call.operands[0]))
    axis = axis_of(call.settings["axis"], rank)
    found: list[SSAValue] = []
    start = Size.of(0)
    for part, declared in zip(call.inferred, call.results):
        starts = [start if d == axis else Size.of(0) for d in range(rank)]
        piece = _cut(call, starts, [1] * rank, call.kind(part))
        found.append(call.convert(piece, call.kind(declared)))
        start = start + part.dims[axis]
    # Parts of one size leave a rest where the axis does not divide.
    call.require(nn.dims_of(call.operands[0])[axis], start, "parts")
    return found


def _cut(
    call: Call, starts: Sequence[Size], steps: Sequence[int], kind: TensorType[Attribute]
) -> SSAValue:
    return call.add(
        nn.SliceOp,
        call.operands[:1],
        kind,
        starts=ArrayAttr([SizeAttr(s) for s in starts]),
        steps=nn.ints_setting(steps),
    )
