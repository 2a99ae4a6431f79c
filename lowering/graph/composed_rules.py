"""Rules of ops that are made of other `nn` ops: norms by channel, rotary embedding."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, TensorType, UnitAttr, f64, i1
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.graph import SizeAttr
from openinfer.dialects.nn.elements import dtype_name, element_type
from openinfer.dialects.ops.base import product, promote_floats
from openinfer.dialects.ops.rotary import rope_form, rotated_dims
from openinfer.dialects.opset import TensorSpec
from openinfer.lowering.graph.op_rules import Call, op_rule
from openinfer.lowering.graph.scalar_rules import eps_of, normalised
from openinfer.lowering.graph.scalars import computed, number, scalar_type, widened
from openinfer.runtime.sizes import Size

_ONE = Size.of(1)


def _wide(call: Call) -> str:
    """The dtype that the op computes in: once rounded, at its end. Positions have no say."""
    return computed(promote_floats([dtype_name(nn.element_of(v)) for v in _floats(call)]))


def _floats(call: Call) -> list[SSAValue]:
    return (
        call.operands[:1] if call.spec.name == "rope" and len(call.operands) < 3 else call.operands
    )


def _like(value: SSAValue) -> TensorType[Attribute]:
    kind = value.type
    assert isinstance(kind, TensorType)
    return kind


@op_rule("batch_norm", scalars=("eps",))
def _batch_norm(call: Call) -> Sequence[SSAValue]:
    """(x - mean) * (weight / sqrt(variance + eps)) + bias: the factor is made once by channel."""
    dtype = _wide(call)
    rank = len(nn.dims_of(call.operands[0]))
    axis = call.settings["axis"]
    assert isinstance(axis, int)
    x, mean, variance, *affine = (widened(call, value, dtype) for value in call.operands)
    element = element_type(dtype)
    eps = eps_of(call, element)
    shifted = call.elementwise("add", [variance, eps], _like(variance))
    factor = call.elementwise("sqrt", [shifted], _like(variance))
    above = affine[0] if affine else number(call, 1.0, element)
    factor = call.elementwise("div", [above, factor], _like(variance))

    def aligned(value: SSAValue) -> SSAValue:
        return call.reshape(value, (*nn.dims_of(value), *[_ONE] * (rank - axis % rank - 1)))

    y = call.elementwise("sub", [x, aligned(mean)], _like(x))
    y = call.elementwise("mul", [y, aligned(factor)], _like(x))
    if len(affine) > 1:
        y = call.elementwise("add", [y, aligned(affine[1])], _like(x))
    return [call.convert(y, call.type)]


@op_rule("group_norm", scalars=("eps",))
def _group_norm(call: Call) -> Sequence[SSAValue]:
    dims, groups = nn.dims_of(call.operands[0]), call.settings["groups"]
    assert isinstance(groups, int)
    return _by_groups(call, Size.of(groups), dims[1] // groups)


@op_rule("instance_norm", scalars=("eps",))
def _instance_norm(call: Call) -> Sequence[SSAValue]:
    return _by_groups(call, nn.dims_of(call.operands[0])[1], _ONE)


def _by_groups(call: Call, groups: Size, channels: Size) -> Sequence[SSAValue]:
    """Layer norm over each group of so many channels, together with the axes behind them."""
    dtype = _wide(call)
    x, *affine = call.operands
    dims = nn.dims_of(x)
    inner = channels * product(dims[2:])
    rows = call.reshape(x, (dims[0], groups, inner))
    # Rounded here already where nothing follows.
    element = element_type(dtype) if affine else call.type.element_type
    kind = nn.with_element(_like(rows), element)
    given = call.settings["eps"]
    if isinstance(given, float):
        y = call.add(nn.LayerNormOp, [rows], kind, eps=FloatAttr(given, f64))
    else:
        y = normalised(call, widened(call, rows, dtype), 2, eps_of(call, element_type(dtype)))
        y = call.convert(y, kind)
    y = call.reshape(y, dims)
    for name, value in zip(("mul", "add"), affine):
        value = call.reshape(value, (*nn.dims_of(value), *[_ONE] * (len(dims) - 2)))
        y = call.elementwise(name, [y, widened(call, value, dtype)], _like(y))
    return [call.convert(y, call.type)]


# Rotary embedding ---------------------------------------------------------------------------------


@op_rule("rope", scalars=("base",))
def _rope(call: Call) -> Sequence[SSAValue]:
    x = call.operands[0]
    form, settings = rope_form(TensorSpec(call.results[0].dtype, nn.dims_of(x)), call.settings)
    if settings is not call.settings:
        apart = call.reshape(x, form.dims)
        (y,) = _rope(call.replaced([apart, *call.operands[1:]], settings, form))
        return [call.reshape(y, nn.dims_of(x))]
    dims = nn.dims_of(x)
    tables = call.operands[1:] if len(call.operands) > 2 else []
    specs = [TensorSpec("f32", nn.dims_of(value)) for value in (x, *tables[:1])]
    rotated = rotated_dims(specs[0], call.settings, *specs[1:])
    if rotated == 0:
        return [call.convert(x, call.type)]
    dtype = _wide(call)
    if tables:
        cosine, sine = (widened(call, _along_heads(call, table), dtype) for table in tables)
    else:
        cosine, sine = _phases(call, rotated // 2, dtype)
    declared = call.results[0].dtype
    turned = _part(call, x, 0, rotated)
    kind = nn.with_element(_like(turned), element_type(declared))
    interleaved = UnitAttr() if call.settings["interleaved"] else None
    parts = [call.add(nn.RotaryOp, [turned, cosine, sine], kind, interleaved=interleaved)]
    size = dims[-1].constant
    assert size is not None
    if size > rotated:
        parts.append(widened(call, _part(call, x, rotated, size - rotated), declared))
    return [parts[0] if len(parts) == 1 else _joined(call, parts, dims)]


def _phases(call: Call, pairs: int, dtype: str) -> tuple[SSAValue, SSAValue]:
    """Cosine and sine of position times frequency, `[…, L, pairs]`, aligned with the halves of x.

    Angles are made in f64: a large position times a frequency rounded to f32 is no angle any more.
    """
    heads_inside = call.settings["layout"] == "blhd"
    double = element_type("f64")
    dims = nn.dims_of(call.operands[0])
    if len(call.operands) > 1:
        positions = call.operands[1]
    else:
        length = dims[-3] if heads_inside else dims[-2]
        kind = nn.tensor_type(element_type("i64"), (length,))
        positions = call.add(nn.IotaOp, [], kind, axis=nn.int_setting(0))
    column = call.reshape(widened(call, positions, "f64"), (*nn.dims_of(positions), _ONE))
    angles = _along_heads(call, column)
    numbers = nn.tensor_type(element_type("i64"), (Size.of(pairs),))
    exponents = widened(
        call, call.add(nn.IotaOp, [], numbers, axis=nn.int_setting(0)), "f64"
    )  # (pairs)
    slope = _slope(call, pairs)
    frequency = call.elementwise(
        "exp", [call.elementwise("mul", [exponents, slope], _like(exponents))], _like(exponents)
    )
    kind = nn.tensor_type(double, (*nn.dims_of(angles)[:-1], Size.of(pairs)))
    angles = call.elementwise("mul", [angles, frequency], kind)
    cosine, sine = (call.elementwise(name, [angles], kind) for name in ("cos", "sin"))
    return widened(call, cosine, dtype), widened(call, sine, dtype)


def _along_heads(call: Call, value: SSAValue) -> SSAValue:
    """Numbers of positions, `[…, L, n]`, with an axis for the heads of x; `[n]` is that of all positions."""
    if len(nn.dims_of(value)) < 2:
        return value
    *lead, length, count = nn.dims_of(value)
    if call.settings["layout"] == "blhd":
        return call.reshape(value, (*lead, length, _ONE, count))
    return call.reshape(value, (*lead, _ONE, length, count)) if lead else value


def _slope(call: Call, pairs: int) -> SSAValue:
    """What an angle's logarithm falls by from one pair to the next, as f64."""
    base, double = call.settings["base"], element_type("f64")
    if isinstance(base, int | float):
        return number(call, -math.log(base) / pairs, double)
    scalar, flag = scalar_type(double), scalar_type(i1)
    value = number(call, base, double)
    positive = call.elementwise("gt", [value, number(call, 0.0, double)], flag)
    finite = call.elementwise("lt", [value, number(call, math.inf, double)], flag)
    call.step.elements.require(call.elementwise("and", [positive, finite], flag), "base")
    logarithm = call.elementwise("log", [value], scalar)
    return call.elementwise("div", [logarithm, number(call, float(-pairs), double)], scalar)


def _part(call: Call, value: SSAValue, start: int, count: int) -> SSAValue:
    """Elements of the last axis."""
    dims = nn.dims_of(value)
    if dims[-1].constant == count:
        return value
    starts = [*(Size.of(0) for _ in dims[:-1]), Size.of(start)]
    return call.add(
        nn.SliceOp,
        [value],
        nn.tensor_type(nn.element_of(value), (*dims[:-1], Size.of(count))),
        starts=ArrayAttr([SizeAttr(s) for s in starts]),
        steps=nn.ints_setting([1] * len(dims)),
    )


def _joined(call: Call, parts: Sequence[SSAValue], dims: Sequence[Size]) -> SSAValue:
    """Parts one after the other along the last axis."""
    kind = nn.tensor_type(nn.element_of(parts[0]), dims)
    return call.add(nn.ConcatOp, parts, kind, axis=nn.int_setting(len(dims) - 1))
