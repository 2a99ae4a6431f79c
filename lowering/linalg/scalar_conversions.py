"""Scalar code of `cast`: every pair of dtypes."""

from __future__ import annotations

from xdsl.dialects.builtin import f32, f64
from xdsl.ir import SSAValue

from openinfer.dialects.extensions import arith as extended
from openinfer.lowering.linalg.scalar_emitter import (
    MEMORY,
    Body,
    Scalar,
    range_of,
    registrar,
    resize_integer,
    wrapped,
)
from openinfer.lowering.loops.numeric import compare_floats, like
from openinfer.runtime.dtypes import DTYPES, DType

CONVERSIONS: dict[str, Body] = {}
body = registrar(CONVERSIONS)


@body("cast")
def _cast(s: Scalar, args: list[SSAValue]) -> SSAValue:
    (x,) = args
    source, target = s.dtype, s.target
    if target.kind == "bool":
        return x if source.kind == "bool" else s.holds(x)
    if source.is_float:
        return x if target.is_float else _float_to_integer(s, x)
    if target.is_float:
        return _integer_to_float(s, x)
    if s.setting("saturate", True):
        x = _saturated(s, x)
    return resize_integer(s.b, x, target.bits, s.signed)


def _integer_to_float(s: Scalar, x: SSAValue) -> SSAValue:
    # 32 bits and more do not fit f32: through f64, so that bf16 and f16 are rounded once.
    wide = f64 if s.target.bits == 64 or (s.target.bits == 16 and s.dtype.bits >= 32) else f32
    convert = extended.SIToFPOp if s.signed else extended.UIToFPOp
    return s.b.insert(convert(x, like(x, wide)))


def _saturated(s: Scalar, x: SSAValue) -> SSAValue:
    """An integer limited to the range of the target."""
    low, high = range_of(s.dtype)
    least, most = range_of(s.target)
    if low < least:
        x = s.f("maxsi", x, s.constant(least, x))
    if high > most:
        x = s.f("minsi" if s.signed else "minui", x, s.constant(most, x))
    return x


def _float_to_integer(s: Scalar, x: SSAValue) -> SSAValue:
    (x,) = s.computed([x])
    mode = s.setting("rounding_mode", "trunc")
    whole = s.f("round" if mode == "nearest" else str(mode), x)
    if s.setting("saturate", True):
        return _saturating_conversion(s, whole, s.target)
    # The low bits of the 64-bit integer: signed below zero, unsigned above.
    below = _saturating_conversion(s, whole, DTYPES["i64"])
    above = _saturating_conversion(s, whole, DTYPES["u64"])
    negative = s.compare("lt", whole, s.constant(0, whole))
    return resize_integer(s.b, s.select(negative, below, above), s.target.bits, signed=True)


def _saturating_conversion(s: Scalar, x: SSAValue, target: DType) -> SSAValue:
    """A whole float as an integer: the nearest bound when out of range, 0 for NaN."""
    low, high = range_of(target)
    kind = like(x, MEMORY[target.name])
    # Both bounds are powers of two or 0, hence exact. NaN is not inside.
    under = compare_floats(s.b, "olt", x, s.b.constant(float(low), x.type))
    over = compare_floats(s.b, "oge", x, s.b.constant(float(high + 1), x.type))
    outside = s.f("ori", s.f("ori", under, over), compare_floats(s.b, "uno", x, x))
    inside = s.select(outside, s.b.constant(0, x.type), x)
    signed = target.kind == "int"
    convert = extended.FPToSIOp if signed else extended.FPToUIOp
    result = s.b.insert(convert(inside, kind))
    bits = target.bits
    result = s.select(over, s.b.constant(wrapped(high, bits), kind), result)
    return s.select(under, s.b.constant(wrapped(low, bits), kind), result)
