"""f16 and bf16: stored narrow, computed as f32.

Only AVX-512 FP16 and BF16 machines have arithmetic on these types, and where LLVM lacks an
instruction it calls functions of a compiler's own library, which need not be there. So every
operation is done in f32 here, and the conversions are spelled out: f16 by the F16C instructions
(integer arithmetic where the target is older), bf16 by integer arithmetic always, which rounds
subnormal numbers as it does all others. LLVM is given bf16 as its bits (`llvm_ir/literals.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float64Type,
    IntegerAttr,
    VectorType,
    f32,
    f64,
    i16,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects.extensions.arith import bool_type_like
from openinfer.dialects.extensions.llvm import FCmpOp, SelectOp
from openinfer.lowering.attributes import vector_like
from openinfer.lowering.cpu.to_llvm.converter import Converter

_NO_FLAGS: dict[str, Attribute] = {"fastmathFlags": llvm.FastMathAttr(None)}
_NO_OVERFLOW_FLAGS: dict[str, Attribute] = {"overflowFlags": IntegerAttr(0, 32)}
_PREDICATES = {"ne": 1, "sgt": 4, "ult": 6, "ugt": 8, "uge": 9}
_UNE, _UNO, _OGT = 13, 14, 2


def element_of(type: Attribute) -> Attribute:
    return type.element_type if isinstance(type, VectorType) else type


def like(type: Attribute, element: Attribute) -> Attribute:
    """`element`, or a vector of it with the length of `type`."""
    return vector_like(type, element) if isinstance(type, VectorType) else element


def is_half(type: Attribute) -> bool:
    """Whether a scalar or vector type is of f16 or bf16."""
    return isinstance(element_of(type), Float16Type | BFloat16Type)


def emit_float(
    c: Converter,
    target: type[Operation],
    operands: Sequence[SSAValue],
    properties: Mapping[str, Attribute],
) -> SSAValue:
    """An op on floats whose result has the type of its operands; halves go through f32."""
    type = operands[0].type
    if not is_half(type):
        return c.emit(target, operands, type, properties)
    wide = [widen(c, operand) for operand in operands]
    return narrow(c, c.emit(target, wide, wide[0].type, properties), type)


def widen(c: Converter, value: SSAValue) -> SSAValue:
    """A half-width float as f32; every value is kept."""
    type = value.type
    bits = _Bits(c, like(type, i32))
    if isinstance(element_of(type), BFloat16Type):
        return bits.widen_bf16(value)
    if not c.has_half_conversions:
        return bits.widen_f16(value)
    return c.emit(llvm.FPExtOp, (value,), like(type, f32))


def narrow(c: Converter, value: SSAValue, type: Attribute) -> SSAValue:
    """An f32 or f64 value rounded once to nearest even; `type` is of f16 or bf16."""
    to_f16 = isinstance(element_of(type), Float16Type)
    if isinstance(element_of(value.type), Float64Type):
        rounded = c.emit(llvm.FPTruncOp, (value,), like(type, f32))
        value = _round_to_odd(c, value, rounded)
    bits = _Bits(c, like(type, i32))
    if not to_f16:
        return bits.narrow_bf16(value, type)
    if c.has_half_conversions:
        return c.emit(llvm.FPTruncOp, (value,), type)
    return bits.narrow_f16(value, type)


def _round_to_odd(c: Converter, exact: SSAValue, rounded: SSAValue) -> SSAValue:
    """The f32 from which a second rounding gives what one rounding of the f64 would give.

    An inexact f32 with an even last bit is moved to its odd neighbour on the side of the exact value.
    """
    o = _Bits(c, like(rounded.type, i32))
    truth = bool_type_like(rounded.type)
    back = c.emit(llvm.FPExtOp, (rounded,), like(rounded.type, f64))
    pattern = o.of_float(rounded)
    inexact = c.emit(
        FCmpOp, (back, exact), truth, {"predicate": IntegerAttr(_UNE, 64), **_NO_FLAGS}
    )
    even = o.compare("ne", o.both(pattern, 1), o.number(1))
    wrong = c.emit(llvm.AndOp, (inexact, even), truth)
    sizes = [c.emit(llvm.FAbsOp, (v,), v.type, _NO_FLAGS) for v in (exact, back)]
    grows = c.emit(FCmpOp, sizes, truth, {"predicate": IntegerAttr(_OGT, 64), **_NO_FLAGS})
    step = o.choose(grows, o.number(1), o.number(-1))
    # Infinities stay: they round to infinity again, whatever came before.
    finite = o.compare("ult", o.both(pattern, 0x7FFFFFFF), o.number(0x7F800000))
    moved = o.add(pattern, o.choose(wrong, step, o.number(0)))
    return c.emit(llvm.BitcastOp, (o.choose(finite, moved, pattern),), rounded.type)


class _Bits:
    """Arithmetic on the bit patterns of f32 lanes."""

    def __init__(self, c: Converter, type: Attribute) -> None:
        self.c = c
        self.type = type
        """i32 or a vector of it."""

    def number(self, number: int) -> SSAValue:
        return self.c.splat(number - 2**32 if number >= 2**31 else number, self.type)

    def of_float(self, value: SSAValue) -> SSAValue:
        return self.c.emit(llvm.BitcastOp, (value,), self.type)

    def both(self, a: SSAValue, mask: int) -> SSAValue:
        return self.c.emit(llvm.AndOp, (a, self.number(mask)), self.type)

    def either(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.c.emit(llvm.OrOp, (a, b), self.type)

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.c.emit(llvm.AddOp, (a, b), self.type, _NO_OVERFLOW_FLAGS)

    def left(self, a: SSAValue, count: int) -> SSAValue:
        return self.c.emit(llvm.ShlOp, (a, self.number(count)), self.type, _NO_OVERFLOW_FLAGS)

    def right(self, a: SSAValue, count: int) -> SSAValue:
        return self.c.emit(llvm.LShrOp, (a, self.number(count)), self.type)

    def compare(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        properties: dict[str, Attribute] = {"predicate": IntegerAttr(_PREDICATES[predicate], 64)}
        return self.c.emit(llvm.ICmpOp, (a, b), bool_type_like(self.type), properties)

    def choose(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.c.emit(SelectOp, (condition, a, b), self.type, _NO_FLAGS)

    def _as_half(self, bits: SSAValue, type: Attribute) -> SSAValue:
        short = self.c.emit(llvm.TruncOp, (bits,), like(type, i16))
        return self.c.emit(llvm.BitcastOp, (short,), type)

    def narrow_bf16(self, value: SSAValue, type: Attribute) -> SSAValue:
        bits = self.of_float(value)
        # Half of the last place that stays, less one if that place is even: ties go to even.
        last = self.both(self.right(bits, 16), 1)
        rounded = self.right(self.add(self.add(bits, self.number(0x7FFF)), last), 16)
        # A NaN must not be rounded to an infinity.
        quiet = self.either(self.right(bits, 16), self.number(0x40))
        properties: dict[str, Attribute] = {"predicate": IntegerAttr(_UNO, 64), **_NO_FLAGS}
        is_nan = self.c.emit(FCmpOp, (value, value), bool_type_like(self.type), properties)
        return self._as_half(self.choose(is_nan, quiet, rounded), type)

    def widen_bf16(self, value: SSAValue) -> SSAValue:
        # Not by `fpext`: LLVM would move other operations before it, back into bf16.
        c = self.c
        short = c.emit(llvm.BitcastOp, (value,), like(self.type, i16))
        bits = self.left(c.emit(llvm.ZExtOp, (short,), self.type), 16)
        return c.emit(llvm.BitcastOp, (bits,), like(self.type, f32))

    def widen_f16(self, value: SSAValue) -> SSAValue:
        c = self.c
        floats = like(self.type, f32)
        short = c.emit(llvm.BitcastOp, (value,), like(self.type, i16))
        bits = c.emit(llvm.ZExtOp, (short,), self.type)
        size = self.both(bits, 0x7FFF)
        # Read as f32, the shifted bits are 2**112 too small, for subnormal numbers too.
        moved = c.emit(llvm.BitcastOp, (self.left(size, 13),), floats)
        scaled = c.emit(llvm.FMulOp, (moved, c.splat(2.0**112, floats)), floats, _NO_FLAGS)
        special = self.either(self.left(size, 13), self.number(0x7F800000))
        is_special = self.compare("uge", size, self.number(0x7C00))
        magnitude = self.choose(is_special, special, self.of_float(scaled))
        sign = self.left(self.both(bits, 0x8000), 16)
        return c.emit(llvm.BitcastOp, (self.either(magnitude, sign),), floats)

    def narrow_f16(self, value: SSAValue, type: Attribute) -> SSAValue:
        c = self.c
        floats = like(self.type, f32)
        bits = self.of_float(value)
        size = self.both(bits, 0x7FFFFFFF)
        last = self.both(self.right(size, 13), 1)
        # The exponent's bias changes by 112; then half a place less one, as above.
        rebiased = self.add(size, self.number(0xFFF - (112 << 23) + 2**32))
        normal = self.right(self.add(rebiased, last), 13)
        # Adding 0.5 lets the float addition round a number that becomes subnormal.
        small = c.emit(llvm.BitcastOp, (size,), floats)
        shifted = c.emit(llvm.FAddOp, (small, c.splat(0.5, floats)), floats, _NO_FLAGS)
        subnormal = self.add(self.of_float(shifted), self.number(2**32 - 0x3F000000))
        is_small = self.compare("ult", size, self.number(0x38800000))
        finite = self.choose(is_small, subnormal, normal)
        is_nan = self.compare("ugt", size, self.number(0x7F800000))
        special = self.choose(is_nan, self.number(0x7E00), self.number(0x7C00))
        is_special = self.compare("uge", size, self.number(0x47800000))
        magnitude = self.choose(is_special, special, finite)
        sign = self.both(self.right(bits, 16), 0x8000)
        return self._as_half(self.either(magnitude, sign), type)
