"""8-bit floats to f32 and back, in integer arithmetic on scalars and vectors alike.

f8E5M2 is the upper half of an f16, so that the machine's conversion of f16 widens it. Everything
else is spelled out: a format has `m` bits of mantissa, its exponents are biased by `bias`.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float8E4M3FNType, Float8E5M2Type, f16, f32, i8, i16, i32
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects.extensions.arith import ExtFOp, ExtUIOp, SIToFPOp, TruncIOp
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.numeric import compare_integers, element_type, like, select
from openinfer.runtime.quick_dataclass import dataclass

_SIGN = 0x80000000
_INFINITY = 0x7F800000


@dataclass(frozen=True)
class _Format:
    mantissa: int
    bias: int
    overflow: int
    """The code of what is too large: of infinity, or of NaN where there is none."""
    nan: int


_FORMATS: dict[type[Attribute], _Format] = {
    Float8E5M2Type: _Format(2, 15, 0x7C, 0x7E),
    Float8E4M3FNType: _Format(3, 7, 0x7F, 0x7F),
}


def widen(b: LoopBuilder, value: SSAValue) -> SSAValue:
    """An 8-bit float as f32; every value is kept."""
    element = element_type(value)
    bits = b.insert(arith.BitcastOp(value, like(value, i8)))
    if isinstance(element, Float8E5M2Type):
        short = b.insert(ExtUIOp(bits, like(value, i16)))
        upper = b.insert(arith.ShLIOp(short, b.constant(8, short.type)))
        half = b.insert(arith.BitcastOp(upper, like(value, f16)))
        return b.insert(ExtFOp(half, like(value, f32)))
    form = _FORMATS[type(element)]
    wide = b.insert(ExtUIOp(bits, like(value, i32)))
    size = _both(b, wide, 0x7F)
    # Read as f32, the shifted bits are too small by the difference of the biases, for subnormal
    # numbers too.
    moved = b.insert(arith.BitcastOp(_left(b, size, 23 - form.mantissa), like(value, f32)))
    scaled = b.insert(arith.MulfOp(moved, b.constant(2.0 ** (127 - form.bias), moved.type)))
    magnitude = b.insert(arith.BitcastOp(scaled, wide.type))
    is_nan = compare_integers(b, "eq", size, b.constant(form.nan, wide.type))
    magnitude = select(b, is_nan, b.constant(0x7FC00000, wide.type), magnitude)
    sign = _left(b, _both(b, wide, 0x80), 24)
    return b.insert(arith.BitcastOp(b.insert(arith.OrIOp(magnitude, sign)), moved.type))


def widen_exactly(b: LoopBuilder, value: SSAValue) -> SSAValue:
    """The same where subnormal numbers of f32 and f16 may be taken for zeros: none comes up on the way."""
    element = element_type(value)
    form = _FORMATS[type(element)]
    wide = b.insert(ExtUIOp(b.insert(arith.BitcastOp(value, like(value, i8))), like(value, i32)))
    size = _both(b, wide, 0x7F)
    normal = _plus(b, _left(b, size, 23 - form.mantissa), (127 - form.bias) << 23)
    # A whole number of the smallest steps.
    count = b.insert(SIToFPOp(size, like(value, f32)))
    step = b.constant(2.0 ** (1 - form.bias - form.mantissa), count.type)
    subnormal = b.insert(arith.BitcastOp(b.insert(arith.MulfOp(count, step)), wide.type))
    is_small = compare_integers(b, "ult", size, b.constant(1 << form.mantissa, wide.type))
    magnitude = select(b, is_small, subnormal, normal)
    # Infinity, or NaN where there is none, and what lies behind it.
    special = _left(b, size, 23 - form.mantissa)
    special = b.insert(arith.OrIOp(special, _number(b, _INFINITY, wide.type)))
    is_special = compare_integers(b, "uge", size, b.constant(form.overflow, wide.type))
    magnitude = select(b, is_special, special, magnitude)
    sign = _left(b, _both(b, wide, 0x80), 24)
    return b.insert(arith.BitcastOp(b.insert(arith.OrIOp(magnitude, sign)), count.type))


def narrow(b: LoopBuilder, value: SSAValue, element: Attribute) -> SSAValue:
    """An f32 as the 8-bit float `element`, rounded to nearest even."""
    form = _FORMATS[type(element)]
    cut = 23 - form.mantissa
    bits = b.insert(arith.BitcastOp(value, like(value, i32)))
    size = _both(b, bits, 0x7FFFFFFF)
    # Half of the last place that stays, less one if that place is even: ties go to even. The
    # exponent's bias changes with it.
    last = _both(b, _right(b, size, cut), 1)
    half = (1 << (cut - 1)) - 1 - ((127 - form.bias) << 23)
    normal = _right(b, _plus(b, _plus(b, size, half), last), cut)
    # Beside a number whose last place is the smallest step, the addition itself rounds to steps.
    beside = 2.0 ** (24 - form.bias - form.mantissa)
    small = b.insert(arith.BitcastOp(size, value.type))
    steps = b.insert(arith.AddfOp(small, b.constant(beside, value.type)))
    pattern = (127 + 24 - form.bias - form.mantissa) << 23
    subnormal = _plus(b, b.insert(arith.BitcastOp(steps, bits.type)), -pattern)
    is_small = compare_integers(b, "ult", size, _number(b, (128 - form.bias) << 23, bits.type))
    code = select(b, is_small, subnormal, normal)
    code = b.insert(arith.MinUIOp(code, _number(b, form.overflow, bits.type)))
    if form.nan != form.overflow:
        is_nan = compare_integers(b, "ugt", size, _number(b, _INFINITY, bits.type))
        code = select(b, is_nan, _number(b, form.nan, bits.type), code)
    sign = _right(b, _both(b, bits, _SIGN), 24)
    byte = b.insert(TruncIOp(b.insert(arith.OrIOp(code, sign)), like(value, i8)))
    return b.insert(arith.BitcastOp(byte, like(value, element)))


def _number(b: LoopBuilder, number: int, kind: Attribute) -> SSAValue:
    number %= 1 << 32
    return b.constant(number - (1 << 32) if number >> 31 else number, kind)


def _both(b: LoopBuilder, value: SSAValue, mask: int) -> SSAValue:
    return b.insert(arith.AndIOp(value, _number(b, mask, value.type)))


def _plus(b: LoopBuilder, value: SSAValue, number: int | SSAValue) -> SSAValue:
    other = number if isinstance(number, SSAValue) else _number(b, number, value.type)
    return b.insert(arith.AddiOp(value, other))


def _left(b: LoopBuilder, value: SSAValue, count: int) -> SSAValue:
    return b.insert(arith.ShLIOp(value, b.constant(count, value.type)))


def _right(b: LoopBuilder, value: SSAValue, count: int) -> SSAValue:
    return b.insert(arith.ShRUIOp(value, b.constant(count, value.type)))
