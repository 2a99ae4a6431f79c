"""Powers of f32 in arithmetic of f32: for machines without a C library, which need not have f64.

x**y is 2**(y * log2 |x|), with the sign that a negative x has for an odd y. An exponent of 128 has 7 bits in
front of the point, which the result is short of: the logarithm is a pair of floats, to 2**-35 of itself. With
|x| = 2**e * m, m between the roots of 1/2 and 2, and s = (m - 1) / (m + 1) it is

    e + 2 / ln 2 * (s + s**3 / 3 + s**5 / 5 + …)
"""

from __future__ import annotations

from math import inf, log, nan

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32, i1, i32
from xdsl.dialects.math import AbsFOp, RoundEvenOp, TruncOp
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.arith import FPToSIOp, SIToFPOp
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.float_pairs import FloatPairs
from openinfer.lowering.kernels.numeric import compare_floats, compare_integers, select

Pair = tuple[SSAValue, SSAValue]

_ROOT_OF_HALF = 0x3F3504F3
"""The bits of sqrt(1/2)."""
_THIRD = (0.3333333432674408, -9.934107758624577e-09)
"""1/3 as the sum of two floats."""
_REST = tuple(1 / n for n in range(5, 15, 2))
"""The series behind s**3 / 3, for s**2 up to 0.0295."""
_TWO_OVER_LN2 = (2.885390043258667, 3.851926067000022e-08)
_EXP2 = tuple(log(2.0) ** n / f for n, f in enumerate((1, 1, 2, 6, 24, 120, 720, 5040)))
"""2**r for |r| <= 1/2, to 2e-9 (Taylor)."""
_MOST = 2.0**32
"""An exponent beyond it makes 0 or infinity of every number but 1."""


def power(b: LoopBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x**y of f32, to 1.5 units in the last place; what C says of zeros, infinities and NaN."""
    return _Power(b).value(x, y)


class _Power(FloatPairs):
    def whole(self, value: int) -> SSAValue:
        return self.b.constant(value, i32)

    def bits(self, x: SSAValue) -> SSAValue:
        return self.b.insert(arith.BitcastOp(x, i32))

    def of_bits(self, x: SSAValue) -> SSAValue:
        return self.b.insert(arith.BitcastOp(x, f32))

    def is_(self, predicate: str, x: SSAValue, y: SSAValue | float) -> SSAValue:
        other = y if isinstance(y, SSAValue) else self.number(y)
        return compare_floats(self.b, predicate, x, other)

    def both(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.insert(arith.AndIOp(x, y))

    def either(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.insert(arith.OrIOp(x, y))

    def times(self, x: Pair, y: Pair) -> Pair:
        """The product of two pairs."""
        high, low = self.product(x[0], y[0])
        cross = self.add(self.mul(x[0], y[1]), self.mul(x[1], y[0]))
        return self.join(high, self.add(low, cross))

    def constant(self, pair: tuple[float, float]) -> Pair:
        return self.number(pair[0]), self.number(pair[1])

    def split(self, bits: SSAValue) -> Pair:
        """The whole exponent of a positive number, as a float, and its factor."""
        b = self.b
        # A subnormal number is a whole number of the least one.
        subnormal = compare_integers(b, "ult", bits, self.whole(1 << 23))
        scaled = self.bits(b.insert(SIToFPOp(bits, f32)))
        bits = select(b, subnormal, scaled, bits)
        above = b.insert(arith.SubiOp(bits, self.whole(_ROOT_OF_HALF)))
        exponent = b.insert(arith.ShRSIOp(above, self.whole(23)))
        moved = b.insert(arith.ShLIOp(exponent, self.whole(23)))
        factor = self.of_bits(b.insert(arith.SubiOp(bits, moved)))
        offset = select(b, subnormal, self.whole(-149), self.whole(0))
        exponent = b.insert(arith.AddiOp(exponent, offset))
        return b.insert(SIToFPOp(exponent, f32)), factor

    def logarithm(self, bits: SSAValue) -> Pair:
        """log2 of a positive number, by its bits."""
        b, one = self.b, self.number(1.0)
        exponent, m = self.split(bits)
        above = self.sub(m, one)
        below = self.add(m, one)
        lost = self.sub(m, self.sub(below, one))
        s = b.insert(arith.DivfOp(above, below))
        found, error = self.product(s, below)
        left = self.sub(self.sub(self.sub(above, found), error), self.mul(s, lost))
        ratio = s, b.insert(arith.DivfOp(left, below))
        square = self.times(ratio, ratio)
        third, small = self.constant(_THIRD)
        rest = self.mul(square[0], self.polynomial(square[0], _REST))
        series = self.join(third, self.add(small, rest))
        cubic = self.times(ratio, self.times(square, series))
        high, low = self.join(ratio[0], cubic[0])
        total = self.join(high, self.add(low, self.add(ratio[1], cubic[1])))
        turned = self.times(total, self.constant(_TWO_OVER_LN2))
        high, low = self.join(exponent, turned[0])
        return self.join(high, self.add(low, turned[1]))

    def exponential(self, exponent: Pair) -> SSAValue:
        """2**exponent; 0 or infinity beyond the range."""
        b = self.b
        least, most = self.number(-160.0), self.number(140.0)
        high = select(b, self.is_("olt", exponent[0], least), least, exponent[0])
        high = select(b, self.is_("ogt", high, most), most, high)
        beyond = self.is_("one", high, exponent[0])
        low = select(b, beyond, self.number(0.0), exponent[1])
        whole = b.insert(RoundEvenOp(high))
        r = self.add(self.sub(high, whole), low)
        found = self.polynomial(r, _EXP2)
        n = b.insert(FPToSIOp(whole, i32))
        # No float is the power itself where the result is subnormal, or just below infinity.
        half = b.insert(arith.ShRSIOp(n, self.whole(1)))
        for part in (half, b.insert(arith.SubiOp(n, half))):
            biased = b.insert(arith.AddiOp(part, self.whole(127)))
            factor = self.of_bits(b.insert(arith.ShLIOp(biased, self.whole(23))))
            found = self.mul(found, factor)
        return found

    def is_broken(self, y: SSAValue) -> SSAValue:
        """Whether a float is no whole number."""
        return self.is_("one", self.b.insert(TruncOp(y)), y)

    def is_odd(self, y: SSAValue) -> SSAValue:
        """Whether a float is an odd number; all from 2**24 on are even."""
        b, half = self.b, self.is_broken(self.mul(y, self.number(0.5)))
        return select(b, self.is_broken(y), b.constant(0, i1), half)

    def value(self, x: SSAValue, y: SSAValue) -> SSAValue:
        b = self.b
        size = b.insert(AbsFOp(x))
        bounded = select(b, self.is_("ogt", y, _MOST), self.number(_MOST), y)
        bounded = select(b, self.is_("olt", y, -_MOST), self.number(-_MOST), bounded)
        high, low = self.logarithm(self.bits(size))
        found, lost = self.product(bounded, high)
        exponent = found, self.add(lost, self.mul(bounded, low))
        found = self.exponential(exponent)
        zero, one, infinite = (self.number(value) for value in (0.0, 1.0, inf))
        # 0 and infinity have no logarithm.
        nothing, endless = self.is_("oeq", size, 0.0), self.is_("oeq", size, inf)
        falls = self.is_("olt", y, 0.0)
        found = select(b, nothing, select(b, falls, infinite, zero), found)
        found = select(b, endless, select(b, falls, zero, infinite), found)
        negative = compare_integers(b, "slt", self.bits(x), self.whole(0))
        turned = b.insert(arith.NegfOp(found))
        found = select(b, self.both(negative, self.is_odd(y)), turned, found)
        broken = self.both(self.is_("olt", x, 0.0), self.is_broken(y))
        found = select(b, self.both(broken, self.is_("one", x, -inf)), self.number(nan), found)
        found = select(b, self.is_("uno", x, y), self.number(nan), found)
        return select(b, self.either(self.is_("oeq", x, 1.0), self.is_("oeq", y, 0.0)), one, found)
