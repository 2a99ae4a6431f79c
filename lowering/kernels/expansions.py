"""Elementary functions of f32 as polynomials.

Every function is straight-line code: no branch, no table, no call, so that it works on a vector as
on a number. Coefficients are minimax fits (weighted least squares, weights moved towards the
largest errors until all peaks were equal), rounded to f32 one by one with the rest fitted again.
The errors stated are measured over all of f32's range against float64
(`tests/unit/test_cpu_expand_math.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from xdsl.ir import SSAValue

from openinfer.lowering.kernels.arctangents import atan, atan2
from openinfer.lowering.kernels.lanes import Lanes

Expansion = Callable[..., SSAValue]
"""Of the lanes and the operands."""

_LOG2_E = 1.0 / math.log(2.0)
# ln 2 in two parts: the first has so few bits that its product with a whole number is exact.
_LN2_HIGH = 0.693359375
_LN2_LOW = math.log(2.0) - _LN2_HIGH
# Adding 1.5 * 2**23 to a float rounds it to a whole number, which then stands in the low bits.
_ROUNDER = 12582912.0

_EXP = (
    0.4999999403953552,
    0.1666652113199234,
    0.04166826605796814,
    0.008368677459657192,
    0.001382073387503624,
)
"""(e**r - 1 - r) / r**2 for |r| <= ln(2)/2, to 3e-9 of e**r."""

_EXPM1 = (
    0.4999999701976776,
    0.1666654646396637,
    0.04166743531823158,
    0.00836626160889864,
    0.0013870657421648502,
)
"""The same, to 1.4e-8 of e**r - 1."""

_EXP2 = (
    1.0,
    0.6931471824645996,
    0.24022647738456726,
    0.05550359562039375,
    0.009618503041565418,
    0.0013390997191891074,
    0.00015327802975662053,
)
"""2**r for |r| <= 1/2, to 3e-9."""

_LEAST_EXPONENT = -126.49
"""From here on down 2**x comes as 0."""

_LOG = (
    0.3333333134651184,
    -0.2500081956386566,
    0.2000124156475067,
    -0.166234090924263,
    0.14201579988002777,
    -0.13159610331058502,
    0.12762217223644257,
    -0.07636439055204391,
)
"""(log(1 + f) - f + f**2 / 2) / f**3 for sqrt(1/2) <= 1 + f <= sqrt(2), to 6e-9 of log(1 + f)."""

_ERF_SPLIT = 0.8
_ERF_INNER = (
    0.12837916612625122,
    -0.37612611055374146,
    0.11283208429813385,
    -0.02682449482381344,
    0.00509121036157012,
    -0.000657118100207299,
)
"""erf(x) / x - 1 in x**2 for |x| <= 0.8, to 4e-9."""
_ERF_OUTER = (
    6.598271284019575e-05,
    1.1282289028167725,
    0.6362219452857971,
    0.10479874163866043,
    -0.022656215354800224,
    0.0031536235474050045,
    -0.0002074556250590831,
)
"""-log(1 - erf(x)) in x for 0.8 <= x <= 4, to 3e-9 of erf."""
_ERFC = (
    1.6279085874557495,
    0.9184163808822632,
    0.14848162233829498,
    -0.02825368382036686,
    0.0007746327319182456,
    0.0014894397463649511,
    -0.00044550708844326437,
    4.535853076959029e-05,
)
"""-log2(erfc(x)) / x for x >= 0, to 2e-8 of erfc up to 4.2; beyond it grows on, so that erfc is 0."""
_ERFC_OF_HALF = (
    1.6279149055480957,
    0.9179866313934326,
    0.15053851902484894,
    -0.03207836300134659,
    0.004325481131672859,
    -0.0002697984455153346,
)
"""The same, to 1e-5 of erfc up to 3, and to 2e-9 everywhere beyond."""


def _split_exponent(o: Lanes, x: SSAValue, bias: int) -> tuple[SSAValue, SSAValue, SSAValue]:
    """x = n * ln 2 + r with n whole and |r| <= ln(2)/2: n, r and the float 2**(n + bias - 127)."""
    # The rounder carries the bias of the exponent field, so that a shift alone makes the power.
    rounder = o.number(_ROUNDER + bias)
    shifted = o.multiply_add(x, o.number(_LOG2_E), rounder)
    n = o.subtract(shifted, rounder)
    r = o.multiply_add(n, o.number(-_LN2_HIGH), x)
    r = o.multiply_add(n, o.number(-_LN2_LOW), r)
    return n, r, o.from_bits(o.shift_left(o.to_bits(shifted), 23))


def _doubled(coefficients: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(2 * c for c in coefficients)


def exp(o: Lanes, x: SSAValue) -> SSAValue:
    """e**x to 1e-7 relative; 0 below 2**-125.5, infinite above the largest float, NaN for NaN."""
    # Beyond the first limit the result overflows by itself; at the second the power becomes 0.
    x = o.at_least(o.at_most(x, 89.0), -87.68)
    # 2 * e**r times 2**(n-1): the power 2**128 itself is no float.
    _, r, power = _split_exponent(o, x, 126)
    return o.multiply(o.polynomial(r, (2.0, 2.0, *_doubled(_EXP))), power)


def exp2(o: Lanes, x: SSAValue) -> SSAValue:
    """2**x to 1e-7 relative; limits as `exp`."""
    return _exp2(o, o.at_least(o.at_most(x, 129.0), _LEAST_EXPONENT))


def _exp2(o: Lanes, x: SSAValue) -> SSAValue:
    """2**x between the limits; 0 at the lower one."""
    rounder = o.number(_ROUNDER + 126)
    shifted = o.add(x, rounder)
    r = o.subtract(x, o.subtract(shifted, rounder))
    power = o.from_bits(o.shift_left(o.to_bits(shifted), 23))
    return o.multiply(o.polynomial(r, _doubled(_EXP2)), power)


def _expm1_parts(o: Lanes, x: SSAValue) -> SSAValue:
    """e**x - 1 for x between -80 and 80: 2**n * (e**r - 1) + (2**n - 1)."""
    _, r, power = _split_exponent(o, x, 127)
    q = o.multiply_add(o.multiply(r, r), o.polynomial(r, _EXPM1), r)
    return o.multiply_add(q, power, o.subtract(power, o.number(1.0)))


def expm1(o: Lanes, x: SSAValue) -> SSAValue:
    """e**x - 1 to 3e-7 relative, also near 0; -1 below -80, `exp` above 80."""
    near = _expm1_parts(o, o.at_least(o.at_most(x, 80.0), -80.0))
    # -0.0 must stay -0.0, and a tiny x is its own result.
    tiny = o.compare("olt", o.absolute(x), o.number(1e-8))
    near = o.select(tiny, x, near)
    return o.select(o.compare("ogt", x, o.number(80.0)), exp(o, x), near)


def tanh(o: Lanes, x: SSAValue) -> SSAValue:
    """tanh x = (e**2x - 1) / (e**2x + 1), to 3e-7 relative; NaN for NaN."""
    # From 9.02 on the result is 1 in f32.
    size = o.at_most(o.absolute(x), 9.5)
    e = _expm1_parts(o, o.add(size, size))
    return o.with_sign_of(o.divide(e, o.add(e, o.number(2.0))), x)


def erf(o: Lanes, x: SSAValue) -> SSAValue:
    """erf x to 1.2e-7 absolute and relative; two polynomials, one chosen per lane."""
    size = o.absolute(x)
    square = o.multiply(x, x)
    inner = o.multiply_add(x, o.polynomial(square, _ERF_INNER), x)
    # From 4 on the result is 1 in f32.
    outside = o.at_most(size, 4.0)
    exponent = o.polynomial(outside, tuple(-c for c in _ERF_OUTER))
    _, r, power = _split_exponent(o, exponent, 127)
    rest = o.multiply(o.polynomial(r, (1.0, 1.0, *_EXP)), power)
    outer = o.with_sign_of(o.subtract(o.number(1.0), rest), x)
    return o.select(o.compare("olt", size, o.number(_ERF_SPLIT)), inner, outer)


def erfc(o: Lanes, x: SSAValue) -> SSAValue:
    """1 - erf x, to 1.5e-7 absolute; a polynomial inside one power of two. NaN for NaN."""
    size = o.absolute(x)
    exponent = o.multiply(o.polynomial(size, tuple(-c for c in _ERFC)), size)
    tail = _exp2(o, o.at_least(exponent, _LEAST_EXPONENT))
    return o.select(o.compare("olt", x, o.number(0.0)), o.subtract(o.number(2.0), tail), tail)


def erfc_of_half(o: Lanes, x: SSAValue) -> SSAValue:
    """`erfc` on a device where it becomes a half-width float, to 3e-6."""
    size = o.absolute(x)
    # The polynomial is for numbers up to there; what follows falls on.
    found = o.polynomial(o.at_most(size, 4.3), tuple(-c for c in _ERFC_OF_HALF))
    tail = o.power_of_two(o.multiply(found, size))
    return o.select(o.compare("olt", x, o.number(0.0)), o.subtract(o.number(2.0), tail), tail)


def _log_parts(o: Lanes, x: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """x = 2**e * (1 + f) for a positive finite x, and log(1 + f) - f: e, f and that."""
    # A subnormal number is made a normal one first.
    small = o.compare("olt", x, o.number(2.0**-126))
    scaled = o.select(small, o.multiply(x, o.number(2.0**25)), x)
    # Counted from sqrt(1/2), so that 1 + f lies around 1.
    root_bits = o.integer(0x3F3504F3)
    moved = o.subtract_bits(o.to_bits(scaled), root_bits)
    exponent = o.to_floats(o.shift_right(moved, 23))
    exponent = o.select(small, o.subtract(exponent, o.number(25.0)), exponent)
    fraction_bits = o.add_bits(o.and_bits(moved, o.integer(0x007FFFFF)), root_bits)
    f = o.subtract(o.from_bits(fraction_bits), o.number(1.0))
    square = o.multiply(f, f)
    tail = o.multiply(o.multiply(square, f), o.polynomial(f, _LOG))
    return exponent, f, o.multiply_add(square, o.number(-0.5), tail)


def with_log_limits(o: Lanes, x: SSAValue, result: SSAValue) -> SSAValue:
    """The logarithm of 0 is -infinity, of infinity infinity, of a negative number or NaN NaN."""
    infinity = o.number(math.inf)
    result = o.select(o.compare("oeq", x, infinity), infinity, result)
    result = o.select(o.compare("oeq", x, o.number(0.0)), o.number(-math.inf), result)
    # Unordered or less: true for NaN too.
    return o.select(o.compare("ult", x, o.number(0.0)), o.number(math.nan), result)


def log(o: Lanes, x: SSAValue) -> SSAValue:
    """The natural logarithm, to 1.2e-7 relative."""
    exponent, f, rest = _log_parts(o, x)
    low = o.multiply_add(exponent, o.number(_LN2_LOW), rest)
    return with_log_limits(o, x, o.multiply_add(exponent, o.number(_LN2_HIGH), o.add(f, low)))


def log2(o: Lanes, x: SSAValue) -> SSAValue:
    """The logarithm to base 2, to 3e-7 relative."""
    exponent, f, rest = _log_parts(o, x)
    fraction = o.multiply(o.add(f, rest), o.number(_LOG2_E))
    return with_log_limits(o, x, o.add(exponent, fraction))


def log1p(o: Lanes, x: SSAValue) -> SSAValue:
    """log(1 + x), also near 0: the rounding error of the sum is brought back. To 3e-7 relative."""
    one = o.number(1.0)
    total = o.add(x, one)
    lost = o.subtract(x, o.subtract(total, one))
    result = log(o, total)
    corrected = o.add(result, o.divide(lost, total))
    # Where 1 + x has no end, 0 or NaN the correction is meaningless; a tiny x is its own result.
    usable = o.compare("olt", o.absolute(total), o.number(1e30))
    usable_result = o.select(usable, corrected, result)
    zero = o.compare("oeq", total, o.number(0.0))
    usable_result = o.select(zero, result, usable_result)
    tiny = o.compare("olt", o.absolute(x), o.number(1e-8))
    return o.select(tiny, x, usable_result)


EXPANSIONS: dict[str, Expansion] = {
    "math.atan": atan,
    "math.atan2": atan2,
    "math.erf": erf,
    "math.erfc": erfc,
    "math.exp": exp,
    "math.exp2": exp2,
    "math.expm1": expm1,
    "math.log": log,
    "math.log1p": log1p,
    "math.log2": log2,
    "math.tanh": tanh,
}
"""Which `math` ops have an expansion."""

OF_HALF: dict[str, Expansion] = {"math.erfc": erfc_of_half}
"""Those that are shorter where only a half-width float is made of the result."""
