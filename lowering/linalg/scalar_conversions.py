"""Scalar code of `cast`: every pair of dtypes.

What goes to t1 or t2 is always limited to -1..1; of t1, which has no 0, what is not above 0 is -1.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, f32, f64
from xdsl.ir import SSAValue

from openinfer.dialects.extensions import arith as extended
from openinfer.lowering.kernels.numeric import compare_floats, like
from openinfer.lowering.linalg.scalar_emitter import (
    Body,
    Scalar,
    range_of,
    registrar,
    resize_integer,
    wrapped,
)
from openinfer.runtime.dtypes import DTYPES, DType

CONVERSIONS: dict[str, Body] = {}
body = registrar(CONVERSIONS)


@body("cast")
def _cast(s: Scalar, args: list[SSAValue]) -> SSAValue:
    (x,) = args
    source, target = s.dtype, s.target
    if source.name == target.name:
        return x
    x = s.unpacked(x)
    if target.kind == "bool":
        return s.holds(x)
    if source.is_float:
        return x if target.is_float else _float_to_integer(s, x)
    if target.is_float:
        return _integer_to_float(s, x)
    if s.setting("saturate", True) or target.kind == "ternary":
        x = _saturated(s, x)
    return resize_integer(s.b, x, max(8, target.bits), s.signed)


def _integer_to_float(s: Scalar, x: SSAValue) -> SSAValue:
    convert = extended.SIToFPOp if s.signed else extended.UIToFPOp
    if s.target.bits >= 32 or s.dtype.bits <= 16:
        return s.b.insert(convert(x, like(x, f64 if s.target.bits == 64 else f32)))
    # 32 bits do not fit f32, and 64 bits not f64: what is cut off must not be rounded twice.
    if s.dtype.bits == 64:
        x = _to_53_bits(s, x)
    return s.b.insert(convert(x, like(x, f64)))


def _to_53_bits(s: Scalar, x: SSAValue) -> SSAValue:
    """A 64-bit integer whose last 11 bits, where they do not fit f64, became one sticky bit."""
    low = s.f("andi", x, s.constant(0x7FF, x))
    inexact = s.compare("ne", low, s.constant(0, x))
    sticky = s.f("ori", s.f("subi", x, low), s.constant(0x800, x))
    most = s.constant(1 << 53, x)
    large = s.compare("gt", x, most)
    if s.signed:
        large = s.f("ori", large, s.compare("lt", x, s.constant(-(1 << 53), x)))
    return s.select(s.f("andi", large, inexact), sticky, x)


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
    whole = s.f({"nearest": "round", "even": "roundeven"}.get(str(mode), str(mode)), x)
    if s.setting("saturate", True) or s.target.kind == "ternary":
        return _saturating_conversion(s, whole, s.target)
    # The low bits of the 64-bit integer: signed below zero, unsigned above.
    below = _saturating_conversion(s, whole, DTYPES["i64"])
    above = _saturating_conversion(s, whole, DTYPES["u64"])
    negative = s.compare("lt", whole, s.constant(0, whole))
    bits = max(8, s.target.bits)
    return resize_integer(s.b, s.select(negative, below, above), bits, signed=True)


def _saturating_conversion(s: Scalar, x: SSAValue, target: DType) -> SSAValue:
    """A whole float as an integer: the nearest bound when out of range, 0 for NaN."""
    low, high = range_of(target)
    # Vectors of floats become vectors of 32 bits at once.
    bits = 32 if target.packed else target.bits
    kind = like(x, IntegerType(bits))
    # The bounds are small, powers of two or 0, hence exact. NaN is not inside.
    under = compare_floats(s.b, "olt", x, s.b.constant(float(low), x.type))
    over = compare_floats(s.b, "oge", x, s.b.constant(float(high + 1), x.type))
    outside = s.f("ori", s.f("ori", under, over), compare_floats(s.b, "uno", x, x))
    inside = s.select(outside, s.b.constant(0, x.type), x)
    signed = target.kind in ("int", "ternary")
    convert = extended.FPToSIOp if signed else extended.FPToUIOp
    result = s.b.insert(convert(inside, kind))
    result = s.select(over, s.b.constant(wrapped(high, bits), kind), result)
    return s.select(under, s.b.constant(wrapped(low, bits), kind), result)
