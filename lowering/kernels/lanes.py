"""A builder for arithmetic on float lanes: one f32 (or f64) or a vector of them, the same code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith, math
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    VectorType,
)
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Block, Operation, SSAValue

from openinfer.dialects.extensions.arith import CmpfOp, CmpiOp, SelectOp, SIToFPOp

Constants = dict[tuple[Attribute, str], SSAValue]
"""The constants of a function by type and number."""
_CONTRACT = FastMathFlagsAttr((FastMathFlag.ALLOW_CONTRACT,))
_APPROXIMATE = FastMathFlagsAttr((FastMathFlag.APPROX_FUNC,))


class Lanes:
    """Builds ops in front of `anchor`; constants go to the start of `home`, once each."""

    def __init__(
        self,
        anchor: Operation,
        type: Attribute,
        home: Block,
        constants: Constants,
    ) -> None:
        self._anchor = anchor
        self._block = cast(Block, anchor.parent)
        self._home = home
        self._constants = constants
        self.floats = type
        """f32 or f64, or a vector type of one of them."""
        element = type.element_type if isinstance(type, VectorType) else type
        self.bits = 64 if isinstance(element, Float64Type) else 32
        bits = IntegerType(self.bits)
        self.integers: Attribute = (
            VectorType(bits, type.shape) if isinstance(type, VectorType) else bits
        )

    def _insert(self, op: Operation) -> SSAValue:
        op.location = self._anchor.location
        self._block.insert_op_before(op, self._anchor)
        return op.results[0]

    def _constant(self, number: float, type: Attribute) -> SSAValue:
        key = (type, repr(number))
        known = self._constants.get(key)
        if known is not None:
            return known
        element = type.element_type if isinstance(type, VectorType) else type
        if isinstance(type, VectorType):
            value: Attribute = DenseIntOrFPElementsAttr.from_list(type, [number])  # pyright: ignore
        elif isinstance(element, IntegerType):
            value = IntegerAttr(int(number), element)
        else:
            assert isinstance(element, AnyFloat)
            value = FloatAttr(number, element)
        op = arith.ConstantOp(value, type)  # pyright: ignore[reportArgumentType]
        first = self._home.first_op
        assert first is not None
        self._home.insert_op_before(op, first)
        self._constants[key] = op.result
        return op.result

    def number(self, number: float) -> SSAValue:
        """A constant in all lanes."""
        return self._constant(float(number), self.floats)

    def integer(self, number: int) -> SSAValue:
        """An integer constant in all lanes; bit patterns are given unsigned."""
        high = 1 << self.bits - 1
        return self._constant(number - 2 * high if number >= high else number, self.integers)

    # Floats -------------------------------------------------------------------------------------

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._insert(arith.AddfOp(a, b))

    def subtract(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._insert(arith.SubfOp(a, b))

    def multiply(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._insert(arith.MulfOp(a, b))

    def divide(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._insert(arith.DivfOp(a, b))

    def multiply_add(self, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
        """a * b + c, in one instruction where the machine has one."""
        return self._insert(arith.AddfOp(self._insert(arith.MulfOp(a, b, _CONTRACT)), c, _CONTRACT))

    def polynomial(self, x: SSAValue, coefficients: Sequence[float]) -> SSAValue:
        """sum of coefficients[i] * x**i, by Horner's rule."""
        result = self.number(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = self.multiply_add(result, x, self.number(coefficient))
        return result

    def power_of_two(self, exponent: SSAValue) -> SSAValue:
        """2**exponent by the instruction of a device, to a few units in the last place."""
        return self._insert(math.Exp2Op(exponent, _APPROXIMATE))

    def absolute(self, a: SSAValue) -> SSAValue:
        return self._insert(math.AbsFOp(a))

    def with_sign_of(self, magnitude: SSAValue, sign: SSAValue) -> SSAValue:
        return self._insert(math.CopySignOp(magnitude, sign))

    def at_most(self, a: SSAValue, limit: float) -> SSAValue:
        """min(a, limit), but NaN stays NaN: one instruction on x86."""
        bound = self.number(limit)
        return self.select(self.compare("olt", bound, a), bound, a)

    def at_least(self, a: SSAValue, limit: float) -> SSAValue:
        """max(a, limit), but NaN stays NaN."""
        bound = self.number(limit)
        return self.select(self.compare("ogt", bound, a), bound, a)

    def compare(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._insert(CmpfOp(a, b, predicate))

    def select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._insert(SelectOp(condition, a, b))

    # Bits ---------------------------------------------------------------------------------------

    def to_bits(self, a: SSAValue) -> SSAValue:
        return self._insert(arith.BitcastOp(a, self.integers))

    def from_bits(self, a: SSAValue) -> SSAValue:
        return self._insert(arith.BitcastOp(a, self.floats))

    def shift_left(self, a: SSAValue, count: int) -> SSAValue:
        return self._insert(arith.ShLIOp(a, self.integer(count)))

    def shift_right(self, a: SSAValue, count: int) -> SSAValue:
        """With the sign coming in from the left."""
        return self._insert(arith.ShRSIOp(a, self.integer(count)))

    def add_bits(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._insert(arith.AddiOp(a, b))

    def subtract_bits(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._insert(arith.SubiOp(a, b))

    def and_bits(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._insert(arith.AndIOp(a, b))

    def xor_bits(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._insert(arith.XOrIOp(a, b))

    def has_bit(self, a: SSAValue, bit: int) -> SSAValue:
        """Whether a bit is set."""
        found = self.and_bits(a, self.integer(1 << bit))
        return self._insert(CmpiOp(found, self.integer(0), "ne"))

    def to_floats(self, a: SSAValue) -> SSAValue:
        """Integers as floats."""
        return self._insert(SIToFPOp(a, self.floats))
