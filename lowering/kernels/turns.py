"""Sine and cosine of f32 in arithmetic of f32 and of whole numbers: for machines without f64 or a C library.

The argument is counted in quarter turns, x = n * pi/2 + r with |r| <= pi/4. From 1/2 on that takes the
bits of 2/pi that matter for the exponent of x, 96 of them, times the significand: what is left of the
turn has 62 bits, of which no f32 loses more than 31 (Payne and Hanek). r comes as the sum of two floats,
and what rounding takes from its square is not lost either.
"""

from __future__ import annotations

import itertools

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, f32, i32, i64
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.arith import ExtUIOp, SIToFPOp, TruncIOp
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.float_pairs import FloatPairs
from openinfer.lowering.kernels.numeric import compare_integers, count_as, index_to, select

_TWO_OVER_PI = (
    *(0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0),
    *(0xDB629599, 0x3C439041, 0xFE5163AB),
)
"""The first bits behind the point of 2/pi, in words of 32."""
_HALF_PI = (1.57079637050628662109375, -4.37113900018624283e-8)
"""pi/2 as the sum of two floats."""
_SIN = (
    -0.166666666416265235595,
    0.0083333293858894631756,
    -0.000198393348360966317347,
    0.0000027183114939898219064,
)
"""(sin r / r - 1) / r**2 in r**2 for |r| <= pi/4, to 2**-37 of sin r (FreeBSD's `k_sinf`)."""
_COS = (1 / 24, -1 / 720, 1 / 40320, -1 / 3628800)
"""(cos r - 1 + r**2 / 2) / r**4 in r**2, to 2e-10."""


def sine(b: LoopBuilder, x: SSAValue, turn: int) -> SSAValue:
    """sin(x + turn * pi/2) of an f32, for any x; `turn` is 0, or 1 for the cosine."""
    return _Turns(b).value(x, turn)


def part_of_turn(b: LoopBuilder, number: SSAValue, count: Index) -> tuple[SSAValue, SSAValue]:
    """Cosine and sine of `number / count` of a turn; 8 * count is an index, the number is below it."""
    return _Turns(b).of_fraction(number, count)


class _Turns(FloatPairs):
    # Whole numbers

    def whole(self, value: int, bits: int) -> SSAValue:
        """A constant, given by its bits."""
        signed = value - (1 << bits) if value >> bits - 1 else value
        return self.b.constant(signed, IntegerType(bits))

    def wide(self, word: SSAValue) -> SSAValue:
        """A word of 32 bits as a number of 64."""
        return self.b.insert(ExtUIOp(word, i64))

    def left(self, value: SSAValue, count: int) -> SSAValue:
        return self.b.insert(arith.ShLIOp(value, self.whole(count, 64)))

    def right(self, value: SSAValue, count: int) -> SSAValue:
        return self.b.insert(arith.ShRUIOp(value, self.whole(count, 64)))

    def low(self, value: SSAValue, bits: int) -> SSAValue:
        return self.b.insert(arith.AndIOp(value, self.whole((1 << bits) - 1, 64)))

    def window(self, shift: SSAValue) -> list[SSAValue]:
        """The words of 2/pi * 2**shift in front of the point (one) and behind it (two), in 64 bits."""
        b = self.b
        table = [self.whole(word, 32) for word in (0, *_TWO_OVER_PI)]
        number = b.insert(arith.ShRUIOp(shift, self.whole(5, 32)))
        words = table[:4]
        for start in range(1, len(table) - 3):
            here = compare_integers(b, "eq", number, self.whole(start, 32))
            words = [select(b, here, w, old) for w, old in zip(table[start:], words)]
        rest = self.wide(b.insert(arith.AndIOp(shift, self.whole(31, 32))))
        found: list[SSAValue] = []
        for high, low in itertools.pairwise(words):
            both = b.insert(arith.OrIOp(self.left(self.wide(high), 32), self.wide(low)))
            found.append(self.right(b.insert(arith.ShLIOp(both, rest)), 32))
        return found

    def turned(self, significand: SSAValue, shift: SSAValue) -> SSAValue:
        """The quarter turns in a number from 1/2 on: two bits in front of the point, 62 behind it.

        The number is significand * 2**(shift - 32), and the significand has 32 bits.
        """
        b, factor = self.b, self.wide(significand)
        first, second, third = self.window(shift)

        def times(word: SSAValue) -> SSAValue:
            return b.insert(arith.MuliOp(factor, word))

        middle = b.insert(arith.AddiOp(times(second), self.right(times(third), 32)))
        top = b.insert(arith.AddiOp(times(first), self.right(middle, 32)))
        return b.insert(arith.OrIOp(self.left(top, 30), self.right(self.low(middle, 32), 2)))

    def angle(self, turns: SSAValue) -> tuple[SSAValue, SSAValue]:
        """What is left of the nearest quarter turn, as an angle: the sum of two floats."""
        b = self.b
        part = self.left(turns, 2)
        below = compare_integers(b, "slt", part, self.whole(0, 64))
        size = select(b, below, b.insert(arith.SubiOp(self.whole(0, 64), part)), part)
        # Three floats hold its 64 bits.
        pieces = [self.right(size, 40), self.low(self.right(size, 16), 24), self.low(size, 16)]
        sign = select(b, below, self.number(-1.0), self.number(1.0))
        floats = [
            self.mul(
                self.mul(b.insert(SIToFPOp(b.insert(TruncIOp(piece, i32)), f32)), sign),
                self.number(2.0**weight),
            )
            for piece, weight in zip(pieces, (-24, -48, -64))
        ]
        middle, last = self.join(floats[1], floats[2])
        high, low = self.join(floats[0], middle)
        low = self.add(low, last)
        found, lost = self.product(high, self.number(_HALF_PI[0]))
        lost = self.add(lost, self.mul(high, self.number(_HALF_PI[1])))
        return self.join(found, self.add(lost, self.mul(low, self.number(_HALF_PI[0]))))

    # The functions of an angle up to pi/4

    def sine_of(self, r: SSAValue, rest: SSAValue) -> SSAValue:
        square = self.mul(r, r)
        cubic = self.mul(self.mul(r, square), self.polynomial(square, _SIN))
        slope = self.sub(self.number(1.0), self.mul(self.number(0.5), square))
        return self.add(r, self.add(cubic, self.mul(rest, slope)))

    def cosine_of(self, r: SSAValue, rest: SSAValue) -> SSAValue:
        one, half = self.number(1.0), self.number(0.5)
        square, lost = self.product(r, r)
        less = self.mul(half, square)
        near = self.sub(one, less)
        tail = self.mul(self.mul(square, square), self.polynomial(square, _COS))
        tail = self.sub(self.sub(tail, self.mul(half, lost)), self.mul(r, rest))
        return self.add(near, self.add(self.sub(self.sub(one, near), less), tail))

    def of_fraction(self, number: SSAValue, count: Index) -> tuple[SSAValue, SSAValue]:
        b = self.b
        quarters = b.mul(number, 4)
        quarter = b.floordiv(b.add(b.mul(quarters, 2), b.index(count)), b.mul(b.index(count), 2))
        left = index_to(b, b.sub(quarters, b.mul(quarter, count)), f32)
        share = b.insert(arith.DivfOp(left, count_as(b, count, f32)))
        angle, rest = self.product(share, self.number(_HALF_PI[0]))
        sine, cosine = self.sine_of(angle, rest), self.cosine_of(angle, rest)
        odd = b.compare("eq", b.rem(quarter, 2), 1)
        found: list[SSAValue] = []
        # A quarter turn further on the cosine is that sine with a minus, and the sine the cosine.
        for even_one, odd_one, turn in ((cosine, sine, 1), (sine, cosine, 0)):
            value = select(b, odd, odd_one, even_one)
            below = b.compare("uge", b.rem(b.add(quarter, turn), 4), 2)
            found.append(select(b, below, b.insert(arith.NegfOp(value)), value))
        return found[0], found[1]

    def value(self, x: SSAValue, turn: int) -> SSAValue:
        b = self.b
        bits = b.insert(arith.BitcastOp(x, i32))
        size = b.insert(arith.AndIOp(bits, self.whole(0x7FFFFFFF, 32)))
        exponent = b.insert(arith.ShRUIOp(size, self.whole(23, 32)))
        significand = b.insert(
            arith.OrIOp(b.insert(arith.ShLIOp(size, self.whole(8, 32))), self.whole(0x80000000, 32))
        )
        shift = b.insert(arith.SubiOp(exponent, self.whole(126, 32)))
        turns = self.turned(significand, b.insert(arith.MaxSIOp(shift, self.whole(0, 32))))
        angle, rest = self.angle(turns)
        small = compare_integers(b, "slt", shift, self.whole(0, 32))
        angle = select(b, small, b.insert(arith.BitcastOp(size, f32)), angle)
        rest = select(b, small, self.number(0.0), rest)
        nearest = self.right(b.insert(arith.AddiOp(turns, self.whole(1 << 61, 64))), 62)
        quarter = select(b, small, self.whole(0, 32), b.insert(TruncIOp(nearest, i32)))
        quarter = b.insert(arith.AddiOp(quarter, self.whole(turn, 32)))
        odd = compare_integers(
            b, "ne", b.insert(arith.AndIOp(quarter, self.whole(1, 32))), self.whole(0, 32)
        )
        found = select(b, odd, self.cosine_of(angle, rest), self.sine_of(angle, rest))
        # The second bit of the quarter is the sign, and so is that of x, of the sine.
        sign = b.insert(
            arith.ShLIOp(b.insert(arith.AndIOp(quarter, self.whole(2, 32))), self.whole(30, 32))
        )
        if turn == 0:
            own = b.insert(arith.AndIOp(bits, self.whole(0x80000000, 32)))
            sign = b.insert(arith.XOrIOp(sign, own))
        signed = b.insert(arith.XOrIOp(b.insert(arith.BitcastOp(found, i32)), sign))
        found = b.insert(arith.BitcastOp(signed, f32))
        # Of what is not finite there is none.
        finite = compare_integers(b, "ne", exponent, self.whole(255, 32))
        return select(b, finite, found, self.sub(x, x))
