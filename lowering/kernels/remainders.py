"""The remainder of floats, exact, in arithmetic of whole numbers: for machines without a C library.

x and y are whole numbers times powers of two. The one of x is reduced by the one of y, then shifted left by
as many bits as its power is the larger one, as many at a time as 64 bits have room for, and reduced again
behind each shift. No division of floats can do this: 2**90 rem 7 has no bit of 2**90 / 7 that matters in f32.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float64Type, IndexType, IntegerType, i64
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.arith import ExtUIOp, IndexCastOp, SIToFPOp, TruncIOp
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.numeric import compare_integers, index_to, select


def remainder(b: LoopBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x - y * n, with n the whole number next to x / y on the side of 0; NaN where x is infinite or y is 0.

    Both are f32, or both f64; so is the result, which is exact and has the sign of x (`fmod` of C)."""
    return _Remainder(b, x, y).value()


class _Remainder:
    def __init__(self, b: LoopBuilder, x: SSAValue, y: SSAValue) -> None:
        self.b, self.x, self.y, self.kind = b, x, y, x.type
        self.bits, self.fraction, self.bias = 32, 23, 127
        if isinstance(x.type, Float64Type):
            self.bits, self.fraction, self.bias = 64, 52, 1023
        self.word = IntegerType(self.bits)
        self.infinity = (2 * self.bias + 1) << self.fraction

    # Whole numbers of the width of a float

    def whole(self, value: int) -> SSAValue:
        """A constant, given by its bits."""
        top = 1 << self.bits - 1
        return self.b.constant(value - 2 * top if value >= top else value, self.word)

    def both(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.insert(arith.AndIOp(x, y))

    def wide(self, value: SSAValue) -> SSAValue:
        """In 64 bits."""
        return value if self.bits == 64 else self.b.insert(ExtUIOp(value, i64))

    def narrow(self, value: SSAValue) -> SSAValue:
        """Of 64 bits, which hold no more than a float's."""
        return value if self.bits == 64 else self.b.insert(TruncIOp(value, self.word))

    def rest(self, value: SSAValue, divisor: SSAValue) -> SSAValue:
        return self.b.insert(arith.RemUIOp(value, divisor))

    # Parts of a float

    def size(self, bits: SSAValue) -> SSAValue:
        """All but the sign."""
        return self.both(bits, self.whole((1 << self.bits - 1) - 1))

    def exponent(self, size: SSAValue) -> SSAValue:
        """The power of the last bit of the significand, from 1 on: subnormal numbers have that of the least
        normal ones."""
        b = self.b
        found = b.insert(arith.ShRUIOp(size, self.whole(self.fraction)))
        return b.insert(arith.MaxSIOp(found, self.whole(1)))

    def significand(self, size: SSAValue) -> SSAValue:
        b, hidden = self.b, 1 << self.fraction
        normal = compare_integers(b, "uge", size, self.whole(hidden))
        fraction = self.both(size, self.whole(hidden - 1))
        leading = select(b, normal, self.whole(hidden), self.whole(0))
        return b.insert(arith.OrIOp(fraction, leading))

    def value(self) -> SSAValue:
        b = self.b
        bits = [b.insert(arith.BitcastOp(one, self.word)) for one in (self.x, self.y)]
        x, y = (self.size(one) for one in bits)
        power = self.exponent(y)
        left = self.reduced(x, y, b.insert(arith.SubiOp(self.exponent(x), power)))
        sign = self.both(bits[0], self.whole(1 << self.bits - 1))
        signed = b.insert(arith.OrIOp(self.joined(left, power), sign))
        found = b.insert(arith.BitcastOp(signed, self.kind))
        found = select(b, compare_integers(b, "ult", x, y), self.x, found)
        wrong = [
            compare_integers(b, "uge", x, self.whole(self.infinity)),
            compare_integers(b, "ugt", y, self.whole(self.infinity)),
            compare_integers(b, "eq", y, self.whole(0)),
        ]
        for condition in wrong:
            found = select(b, condition, b.constant(nan, self.kind), found)
        return found

    def reduced(self, x: SSAValue, y: SSAValue, distance: SSAValue) -> SSAValue:
        """The significand of x times 2**distance, less multiples of that of y; anything where y is larger."""
        b, room = self.b, 63 - self.fraction
        divisor = self.significand(y)
        zero = compare_integers(b, "eq", divisor, self.whole(0))
        divisor = self.wide(select(b, zero, self.whole(1), divisor))
        left = b.insert(IndexCastOp(distance, IndexType()))
        rounds = b.ceil_div(b.maximum(left, 0), room)

        def step(n: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
            count = b.minimum(b.sub(left, b.mul(n, room)), room)
            shifted = b.insert(arith.ShLIOp(old[0], index_to(b, b.index(count), i64)))
            return [self.rest(shifted, divisor)]

        first = self.rest(self.wide(self.significand(x)), divisor)
        (found,) = b.reduce(0, rounds, 1, [first], step, hint="n")
        return self.narrow(found)

    def joined(self, left: SSAValue, power: SSAValue) -> SSAValue:
        """The bits of a significand, which may begin with zeros, times a power of two."""
        b = self.b
        bits = b.insert(arith.BitcastOp(b.insert(SIToFPOp(left, self.kind)), self.word))
        own = b.insert(arith.ShRUIOp(bits, self.whole(self.fraction)))
        moved = b.insert(arith.SubiOp(power, self.whole(self.bias + self.fraction)))
        exponent = b.insert(arith.AddiOp(own, moved))
        normal = b.insert(
            arith.AndIOp(
                compare_integers(b, "ne", left, self.whole(0)),
                compare_integers(b, "sgt", exponent, self.whole(0)),
            )
        )
        moved = b.insert(arith.ShLIOp(moved, self.whole(self.fraction)))
        # Of a subnormal result the significand is all bits; the shift is no longer than that.
        steps = b.insert(arith.SubiOp(power, self.whole(1)))
        steps = b.insert(arith.MinSIOp(steps, self.whole(self.fraction)))
        small = b.insert(arith.ShLIOp(left, steps))
        return select(b, normal, b.insert(arith.AddiOp(bits, moved)), small)
