"""Rules of `quantize` and `dequantize`, chains of elementwise functions, and of their forms for blocks."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import element_type
from openinfer.dialects.ops.base import normal_axis
from openinfer.lowering.graph.op_rules import Call, op_rule
from openinfer.lowering.graph.scalars import (
    Scalar,
    dtype_of,
    number,
    widened,
)
from openinfer.lowering.graph.scope import Problem
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size


def _like(call: Call, value: SSAValue, dtype: str) -> TensorType[Attribute]:
    """The type with the shape of x and another dtype."""
    kind = value.type
    assert isinstance(kind, TensorType)
    return nn.with_element(kind, element_type(dtype))


def _along(call: Call, parameter: SSAValue) -> SSAValue:
    """A scale or zero point so that it broadcasts to x."""
    dims = nn.dims_of(parameter)
    if all(d.constant == 1 for d in dims):
        return call.reshape(parameter, ())
    rank = len(nn.dims_of(call.operands[0]))
    axis = normal_axis(call.settings["axis"], rank)
    return call.reshape(parameter, (*dims, *(Size.of(1) for _ in range(rank - axis - 1))))


def _scale(call: Call, dtype: str) -> SSAValue:
    if len(call.operands) > 1:
        return widened(call, _along(call, call.operands[1]), dtype)
    return number(call, call.settings["scale"], element_type(dtype))


def _zero_point(call: Call, codes: str, dtype: str) -> SSAValue | None:
    """The zero point, brought into the range of the codes, as `dtype`; None when it is 0."""
    if len(call.operands) > 2:
        inside = widened(call, _along(call, call.operands[2]), codes)
        return widened(call, inside, dtype)
    given = call.settings["zero_point"]
    if isinstance(given, Scalar):
        return widened(call, number(call, given, element_type(codes)), dtype)
    return number(call, given, element_type(dtype)) if given else None


def _integer(codes: str) -> str:
    """An integer that holds codes and sums of codes."""
    return "i32" if DTYPES[codes].bits <= 16 else "i64"


@op_rule("quantize", scalars=("scale", "zero_point"))
def _quantize(call: Call) -> Sequence[SSAValue]:
    x = call.operands[0]
    codes = call.results[0].dtype
    wide = "f64" if "f64" in [dtype_of(v) for v in call.operands[:2]] else "f32"
    x = widened(call, x, wide)
    kind = _like(call, x, wide)
    quotient = call.elementwise("div", [x, _scale(call, wide)], kind)
    whole = _integer(codes)
    value = call.elementwise("cast", [quotient], _like(call, x, whole), rounding_mode="even")
    zero = _zero_point(call, codes, whole)
    if zero is not None:
        # Far beyond every range of codes, so that the sum is exact.
        limit = 2**20 if whole == "i32" else 2**40
        value = call.elementwise("clamp", [value], _like(call, x, whole), min=-limit, max=limit)
        value = call.elementwise("add", [value, zero], _like(call, x, whole))
    return [call.convert(value, call.type)]


@op_rule("dequantize", scalars=("scale", "zero_point"))
def _dequantize(call: Call) -> Sequence[SSAValue]:
    x = call.operands[0]
    codes = dtype_of(x)
    double = "f64" in (*(dtype_of(v) for v in call.operands[1:2]), call.results[0].dtype)
    wide = "f64" if double else "f32"
    whole = _integer(codes)
    zero = _zero_point(call, codes, whole)
    if zero is not None:
        x = widened(call, x, whole)
        x = call.elementwise("sub", [x, zero], _like(call, x, whole))
    x = widened(call, x, wide)
    value = call.elementwise("mul", [x, _scale(call, wide)], _like(call, x, wide))
    return [call.convert(value, call.type)]


@op_rule("quantize_blocks")
def _quantize_blocks(call: Call) -> Sequence[SSAValue]:
    return [_blocks(call, nn.QuantizeBlocksOp)]


@op_rule("dequantize_blocks")
def _dequantize_blocks(call: Call) -> Sequence[SSAValue]:
    return [_blocks(call, nn.DequantizeBlocksOp)]


def _blocks(call: Call, op: type[nn.NNOp]) -> SSAValue:
    if nn.dims_of(call.operands[0])[-1].constant is None:
        raise Problem(
            "OI0712",
            "how long the rows are is known to the step alone, and blocks need to know it before",
            "give the last axis a size that the model or the program knows, or use the simulator",
        )
    x, kind = call.operands[0], call.type
    block = StringAttr(str(call.settings["format"]))
    dims, one = nn.dims_of(x), Size.of(1)
    if len(dims) > 1:
        return call.add(op, [x], kind, block=block)
    row = nn.tensor_type(kind.element_type, (one, *nn.dims_of(kind)))
    made = call.add(op, [call.reshape(x, (one, *dims))], row, block=block)
    return call.reshape(made, nn.dims_of(kind))
