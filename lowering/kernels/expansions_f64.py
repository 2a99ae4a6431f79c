"""Elementary functions of f64 as polynomials, for devices that compute in f64 and have no function of it.

Straight-line code as in `expansions.py`. The polynomials are Taylor's, long enough for the intervals that
remain. The errors stated are measured by the tests of functions of f64.
"""

from __future__ import annotations

import math
from fractions import Fraction

from xdsl.ir import SSAValue

from openinfer.lowering.kernels.expansions import Expansion, with_log_limits
from openinfer.lowering.kernels.lanes import Lanes

_LN2 = Fraction("0.6931471805599453094172321214581765680755")
_LN2_HIGH = math.floor(_LN2 * 2**32) / 2**32
"""So few bits that its product with an exponent is exact."""
_LN2_LOW = float(_LN2 - Fraction(_LN2_HIGH))
_LOG2_E = float(1 / _LN2)
_ROUNDER, _ROUNDER_BITS = 1.5 * 2.0**52, 0x4338000000000000
"""Adding it to a float rounds that to a whole number, which then stands in the low bits."""
_BIAS, _FRACTION = 1023, 52
_EXP = tuple(1 / math.factorial(n) for n in range(15))
"""e**r for |r| <= ln(2)/2, to 1e-18."""
_EXPM1 = _EXP[2:]
"""(e**r - 1 - r) / r**2"""
_LOG = tuple(2 / (2 * n + 3) for n in range(11))
"""(log((1 + s) / (1 - s)) - 2 * s) / s**3 in s**2, for |s| <= 0.172."""
_ROOT_OF_HALF = 0x3FE6A09E667F3BCD


def _power(o: Lanes, exponent: SSAValue) -> SSAValue:
    """2**exponent, of whole numbers that a normal result has."""
    return o.from_bits(o.shift_left(o.add_bits(exponent, o.integer(_BIAS)), _FRACTION))


def _split(o: Lanes, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """x = n * ln 2 + r with n whole and |r| <= ln(2)/2: n as an integer, and r."""
    rounder = o.number(_ROUNDER)
    shifted = o.multiply_add(x, o.number(_LOG2_E), rounder)
    n = o.subtract(shifted, rounder)
    r = o.multiply_add(n, o.number(-_LN2_HIGH), x)
    r = o.multiply_add(n, o.number(-_LN2_LOW), r)
    return o.subtract_bits(o.to_bits(shifted), o.integer(_ROUNDER_BITS)), r


def _scaled(o: Lanes, value: SSAValue, exponent: SSAValue) -> SSAValue:
    """value * 2**exponent, in two steps: subnormal results are rounded once, and 2**1024 is no float."""
    half = o.shift_right(exponent, 1)
    first = o.multiply(value, _power(o, half))
    return o.multiply(first, _power(o, o.subtract_bits(exponent, half)))


def exp(o: Lanes, x: SSAValue) -> SSAValue:
    """e**x within 1.5 units of the last place; NaN for NaN."""
    n, r = _split(o, o.at_least(o.at_most(x, 710.0), -746.0))
    return _scaled(o, o.polynomial(r, _EXP), n)


def _expm1_parts(o: Lanes, x: SSAValue) -> SSAValue:
    """e**x - 1 for x between -40 and 40: 2**n * (e**r - 1) + (2**n - 1)."""
    n, r = _split(o, x)
    power = _power(o, n)
    q = o.multiply_add(o.multiply(r, r), o.polynomial(r, _EXPM1), r)
    return o.multiply_add(q, power, o.subtract(power, o.number(1.0)))


def expm1(o: Lanes, x: SSAValue) -> SSAValue:
    """e**x - 1 within 3 units of the last place, also near 0; -1 below -40, `exp` above 40."""
    near = _expm1_parts(o, o.at_least(o.at_most(x, 40.0), -40.0))
    # -0.0 must stay -0.0, and a tiny x is its own result.
    tiny = o.compare("olt", o.absolute(x), o.number(1e-17))
    near = o.select(tiny, x, near)
    return o.select(o.compare("ogt", x, o.number(40.0)), exp(o, x), near)


def tanh(o: Lanes, x: SSAValue) -> SSAValue:
    """tanh x = (e**2x - 1) / (e**2x + 1) within 4 units of the last place; NaN for NaN."""
    # From 19.1 on the result is 1.
    size = o.at_most(o.absolute(x), 20.0)
    e = _expm1_parts(o, o.add(size, size))
    found = o.with_sign_of(o.divide(e, o.add(e, o.number(2.0))), x)
    return o.select(o.compare("olt", size, o.number(1e-9)), x, found)


def _log_parts(o: Lanes, x: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue, SSAValue]:
    """x = 2**e * (1 + f) for a positive finite x: e, f, f**2 / 2, and log(1 + f) - f + f**2 / 2."""
    # A subnormal number is made a normal one first.
    small = o.compare("olt", x, o.number(2.0**-1022))
    scaled = o.select(small, o.multiply(x, o.number(2.0**54)), x)
    # Counted from sqrt(1/2), so that 1 + f lies around 1.
    root_bits = o.integer(_ROOT_OF_HALF)
    moved = o.subtract_bits(o.to_bits(scaled), root_bits)
    exponent = o.to_floats(o.shift_right(moved, _FRACTION))
    exponent = o.select(small, o.subtract(exponent, o.number(54.0)), exponent)
    fraction = o.add_bits(o.and_bits(moved, o.integer((1 << _FRACTION) - 1)), root_bits)
    f = o.subtract(o.from_bits(fraction), o.number(1.0))
    s = o.divide(f, o.add(f, o.number(2.0)))
    half = o.multiply(o.multiply(f, f), o.number(0.5))
    square = o.multiply(s, s)
    rest = o.multiply(square, o.polynomial(square, _LOG))
    return exponent, f, half, o.multiply(s, o.add(half, rest))


def log(o: Lanes, x: SSAValue) -> SSAValue:
    """The natural logarithm within 1.5 units of the last place."""
    exponent, f, half, rest = _log_parts(o, x)
    low = o.multiply_add(exponent, o.number(_LN2_LOW), rest)
    high = o.multiply(exponent, o.number(_LN2_HIGH))
    found = o.subtract(high, o.subtract(o.subtract(half, low), f))
    return with_log_limits(o, x, found)


def log1p(o: Lanes, x: SSAValue) -> SSAValue:
    """log(1 + x) within 3 units of the last place, also near 0: what the sum loses is brought back."""
    one = o.number(1.0)
    total = o.add(x, one)
    # The larger one of both tells exactly what was lost.
    of_one = o.subtract(x, o.subtract(total, one))
    of_x = o.subtract(one, o.subtract(total, x))
    lost = o.select(o.compare("olt", o.absolute(x), one), of_one, of_x)
    result = log(o, total)
    corrected = o.add(result, o.divide(lost, total))
    # Where 1 + x has no end, 0 or NaN the correction is meaningless; a tiny x is its own result.
    usable = o.compare("olt", o.absolute(total), o.number(1e300))
    found = o.select(usable, corrected, result)
    found = o.select(o.compare("oeq", total, o.number(0.0)), result, found)
    tiny = o.compare("olt", o.absolute(x), o.number(1e-17))
    return o.select(tiny, x, found)


OF_F64: dict[str, Expansion] = {
    "math.exp": exp,
    "math.expm1": expm1,
    "math.log": log,
    "math.log1p": log1p,
    "math.tanh": tanh,
}
"""Which `math` ops of f64 have an expansion."""
