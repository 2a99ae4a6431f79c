"""Sine and cosine of f32, computed in f64 lanes; the C library for arguments beyond 2**20.

The argument is counted in quarter turns: x = n * pi/2 + r with n whole and |r| <= pi/4. In f64
that takes pi/2 in three parts, of which the first two have so few bits that their products with n
are exact. Two polynomials in r**2 follow; which of them, and with which sign, n says. What is left
is the one rounding to f32.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import scf
from xdsl.dialects.builtin import VectorType, f32, f64
from xdsl.dialects.math import AbsFOp, CosOp, SinOp
from xdsl.ir import Block, Operation, Region, SSAValue

from openinfer.dialects.extensions.arith import CmpfOp, ExtFOp, TruncFOp
from openinfer.dialects.extensions.vector import ReductionOp
from openinfer.lowering.kernels.lanes import Constants, Lanes

LARGEST = float(1 << 20)
"""Up to here n has 20 bits, and its products with 33 bits of pi/2 are exact."""
# pi/2 = the sum of these to 2**-120.
_HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
_TWO_OVER_PI = 0.6366197723675814
# Adding 1.5 * 2**52 to an f64 rounds it to a whole number, which then stands in the low bits.
_ROUNDER = 6755399441055744.0
_SIN = (
    -0.16666666666663885,
    0.008333333331078158,
    -0.00019841266915944587,
    2.755599058145926e-06,
    -2.4805600859954364e-08,
)
"""(sin r / r - 1) / r**2 in r**2 for |r| <= pi/4, to 2e-14 of sin r."""
_COS = (
    -0.49999999999963907,
    0.04166666663739112,
    -0.0013888885090596978,
    2.47998618806587e-05,
    -2.7237107181761175e-07,
)
"""(cos r - 1) / r**2 in r**2 for |r| <= pi/4, to 3e-13."""


def _of_quarter(o: Lanes, x: SSAValue, turn: int) -> SSAValue:
    """sin(x + turn * pi/2) of f64 lanes."""
    shifted = o.multiply_add(x, o.number(_TWO_OVER_PI), o.number(_ROUNDER))
    n = o.subtract(shifted, o.number(_ROUNDER))
    r = x
    for part in _HALF_PI:
        r = o.multiply_add(n, o.number(-part), r)
    square = o.multiply(r, r)
    one = o.number(1.0)
    sine = o.multiply_add(o.multiply(r, square), o.polynomial(square, _SIN), r)
    cosine = o.multiply_add(square, o.polynomial(square, _COS), one)
    quarter = o.add_bits(o.to_bits(shifted), o.integer(turn))
    value = o.select(o.has_bit(quarter, 0), cosine, sine)
    # The second bit of the quarter is the sign.
    sign = o.shift_left(o.and_bits(quarter, o.integer(2)), 62)
    return o.from_bits(o.xor_bits(o.to_bits(value), sign))


def _expand(op: Operation, home: Block, constants: Constants, turn: int) -> SSAValue:
    """Replaces nothing: gives the value of the op for any argument, built before it."""
    x = op.operands[0]
    type = x.type
    block = op.parent
    assert block is not None

    def insert(new: Operation) -> SSAValue:
        new.location = op.location
        block.insert_op_before(new, op)
        return new.results[0]

    wide = VectorType(f64, type.shape) if isinstance(type, VectorType) else f64
    lanes = Lanes(op, wide, home, constants)
    near = insert(TruncFOp(_of_quarter(lanes, insert(ExtFOp(x, wide)), turn), type))
    if turn == 0:
        # A zero is its own sine, of either sign.
        narrow = Lanes(op, type, home, constants)
        near = narrow.select(narrow.compare("oeq", x, narrow.number(0.0)), x, near)
    size = insert(AbsFOp(x))
    if isinstance(type, VectorType):
        size = insert(ReductionOp(size, "maxnumf"))
    limit = Lanes(op, f32, home, constants).number(LARGEST)
    far = insert(CmpfOp(size, limit, "ogt"))
    library = (SinOp if turn == 0 else CosOp)(x)
    choice = scf.IfOp(
        far,
        [type],
        Region(Block([library, scf.YieldOp(library.result)])),
        Region(Block([scf.YieldOp(near)])),
    )
    return insert(choice)


Circular = Callable[[Operation, Block, Constants], SSAValue]


def _rule(turn: int) -> Circular:
    return lambda op, home, constants: _expand(op, home, constants, turn)


CIRCULAR: dict[str, Circular] = {"math.cos": _rule(1), "math.sin": _rule(0)}
"""Which `math` ops of f32 have such an expansion."""
