"""The arctangent of one f32 and of two: the angle of a quotient, and that of a point.

In the first quadrant the angle of a / b is 0, 45 or 90 degrees and the angle of another quotient, of at most
tan(pi/8), of which a polynomial makes the angle: (a - b) / (a + b) around 45 degrees, -b / a around 90.
"""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from openinfer.lowering.kernels.lanes import Lanes

_ATAN = (
    -0.33333316445350647,
    0.19998528063297272,
    -0.1424439251422882,
    0.1059919148683548,
    -0.06090138852596283,
)
"""(atan r / r - 1) / r**2 in r**2 for |r| <= tan(pi/8), to 7e-10 of atan r."""
_EIGHTH, _THREE_EIGHTHS = math.tan(math.pi / 8), math.tan(3 * math.pi / 8)
# Angles as the sum of two floats.
_QUARTER_TURN = (1.57079637050628662109375, -4.37113900018624283e-8)
_HALF_TURN = (3.1415927410125732421875, -8.74227800037248566e-8)
_SCALE = 2.0**64


def _angle(o: Lanes, a: SSAValue, b: SSAValue) -> SSAValue:
    """atan(a / b) for a and b from 0 on whose sum is finite; NaN where both are 0 or infinite."""
    high = o.compare("ogt", a, o.multiply(b, o.number(_THREE_EIGHTHS)))
    middle = o.compare("ogt", a, o.multiply(b, o.number(_EIGHTH)))
    above = o.select(middle, o.subtract(a, b), a)
    above = o.select(high, o.subtract(o.number(-0.0), b), above)
    below = o.select(high, a, o.select(middle, o.add(a, b), b))
    r = o.divide(above, below)
    zero = o.number(0.0)
    start, rest = (
        o.select(high, o.number(part), o.select(middle, o.number(part / 2), zero))
        for part in _QUARTER_TURN
    )
    square = o.multiply(r, r)
    tail = o.multiply_add(o.multiply(r, square), o.polynomial(square, _ATAN), rest)
    return o.add(start, o.add(r, tail))


def atan(o: Lanes, x: SSAValue) -> SSAValue:
    """atan x to 1.5e-7 relative; NaN for NaN."""
    return o.with_sign_of(_angle(o, o.absolute(x), o.number(1.0)), x)


def atan2(o: Lanes, y: SSAValue, x: SSAValue) -> SSAValue:
    """The angle of the point (x, y) in -pi..pi, to 2e-7 relative; signs of zeros count, NaN for NaN."""
    a, b = o.absolute(y), o.absolute(x)
    # Neither the sum nor a product of a and b may overflow, and their quotient keeps its digits.
    larger = o.select(o.compare("ogt", a, b), a, b)
    huge = o.compare("ogt", larger, o.number(_SCALE))
    small = o.compare("olt", larger, o.number(1 / _SCALE))
    scale = o.select(small, o.number(_SCALE), o.number(1.0))
    scale = o.select(huge, o.number(1 / _SCALE), scale)
    angle = _angle(o, o.multiply(a, scale), o.multiply(b, scale))
    # Also two zeros and two infinite numbers: 0 / 0 is no number.
    zero = o.number(0.0)
    same = o.select(o.compare("oeq", a, zero), zero, o.number(math.pi / 4))
    angle = o.select(o.compare("oeq", a, b), same, angle)
    left = o.compare("olt", o.with_sign_of(o.number(1.0), x), zero)
    half, rest = (o.number(part) for part in _HALF_TURN)
    opposite = o.subtract(half, o.subtract(angle, rest))
    return o.with_sign_of(o.select(left, opposite, angle), y)
