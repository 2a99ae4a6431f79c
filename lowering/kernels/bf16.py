"""bf16 to f32 and back, in integer arithmetic: it is the upper half of an f32."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32, i16, i32
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects.extensions.arith import ExtUIOp, TruncIOp
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.numeric import compare_integers, like, select

_INFINITY = 0x7F800000
_QUIET = 0x40
"""The bit that makes a NaN of what is left of one."""


def widen(b: LoopBuilder, value: SSAValue) -> SSAValue:
    """A bf16 as f32; every value is kept."""
    bits = b.insert(arith.BitcastOp(value, like(value, i16)))
    wide = b.insert(ExtUIOp(bits, like(value, i32)))
    upper = b.insert(arith.ShLIOp(wide, b.constant(16, wide.type)))
    return b.insert(arith.BitcastOp(upper, like(value, f32)))


def narrow(b: LoopBuilder, value: SSAValue, element: Attribute) -> SSAValue:
    """An f32 as bf16, rounded to nearest even."""
    bits = b.insert(arith.BitcastOp(value, like(value, i32)))

    def number(known: int) -> SSAValue:
        return b.constant(known, bits.type)

    upper = b.insert(arith.ShRUIOp(bits, number(16)))
    # Half of the last place that stays, less one if that place is even.
    last = b.insert(arith.AndIOp(upper, number(1)))
    half = b.insert(arith.AddiOp(last, number(0x7FFF)))
    rounded = b.insert(arith.ShRUIOp(b.insert(arith.AddiOp(bits, half)), number(16)))
    size = b.insert(arith.AndIOp(bits, number(0x7FFFFFFF)))
    is_nan = compare_integers(b, "ugt", size, number(_INFINITY))
    quiet = b.insert(arith.OrIOp(upper, number(_QUIET)))
    code = select(b, is_nan, quiet, rounded)
    short = b.insert(TruncIOp(code, like(value, i16)))
    return b.insert(arith.BitcastOp(short, like(value, element)))
