"""Size expressions over values that only the step knows, as arithmetic on indices.

Every number of an expression, and what is computed on the way to its value, lies within `MAX_NUMBER`; the
step checks it where types do not say so, and fails (OI0611) like the simulator. So a result is exact, and
neither it nor what is added to it later wraps around to an index that looks right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import Block, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.extensions.arith import IndexCastUIOp
from openinfer.lowering.graph.step_builder import StepBuilder
from openinfer.runtime.sizes import MAX_NUMBER, MAX_SIZE, Atom, Size

LARGEST_WORD: Final = (1 << 63) - 1
"""What an unsigned word that is no index is taken for: it is beyond `MAX_NUMBER`."""
_CHECKED_BITS: Final = MAX_NUMBER.bit_length()
"""The magnitude of a number that was checked is below 2 to the power of it."""
_SAFE_BITS: Final = _CHECKED_BITS - 1
"""Results of at most so many bits need no check."""
_WORD_BITS: Final = 63
_SIZE_BITS: Final = MAX_SIZE.bit_length() - 1


class IndexArithmetic:
    """Emits the operations that compute a size expression; `named` gives the value of a name."""

    def __init__(
        self, builder: StepBuilder, named: Callable[[str], SSAValue], failure: str = "number"
    ) -> None:
        """`failure` is what a number that is too large means, a row of the failures."""
        self.builder = builder
        self.named = named
        self.failure = failure
        self.names: dict[str, SSAValue] = {}
        self.checked: set[SSAValue] = set()
        self.bits: dict[SSAValue, int] = {}
        """n, where the magnitude of a value is known to be at most 2**n."""

    def value(self, size: Size) -> SSAValue:
        """The expression as an index; divisions check their divisors."""
        total: SSAValue | None = None
        for monomial, coefficient in size.terms:
            product: SSAValue | None = None
            for atom in monomial:
                factor = self._atom(atom)
                product = factor if product is None else self._product(product, factor)
            if product is None:
                product = self.within(self.constant(coefficient))
            elif coefficient != 1:
                product = self._product(product, self.within(self.constant(coefficient)))
            total = product if total is None else self._plus(total, product)
        return total if total is not None else self.constant(0)

    def within(self, value: SSAValue) -> SSAValue:
        """The value; the step fails where it is beyond `MAX_NUMBER`."""
        if self._bits(value) > _SAFE_BITS and value not in self.checked:
            self._require(self._inside(value), value)
            self.checked.add(value)
            self._note(value, _CHECKED_BITS)
        return value

    def constant(self, value: int) -> SSAValue:
        """A number as an index; one that no word holds is as far beyond as the largest word."""
        word = max(-LARGEST_WORD, min(value, LARGEST_WORD))
        return self._note(self.builder.constant(word), abs(word).bit_length())

    def _inside(self, value: SSAValue) -> SSAValue:
        above = self.builder.compare(value, "sge", self.constant(-MAX_NUMBER))
        below = self.builder.compare(value, "sle", self.constant(MAX_NUMBER))
        return self.builder.add(arith.AndIOp(above, below))

    def _require(self, holds: SSAValue, value: SSAValue) -> None:
        self.builder.fail_unless(holds, self.failure, value, value)

    def _plus(self, a: SSAValue, b: SSAValue) -> SSAValue:
        bits = max(self._bits(a), self._bits(b)) + 1
        return self.within(self._note(self.builder.add(arith.AddiOp(a, b)), bits))

    def _product(self, a: SSAValue, b: SSAValue) -> SSAValue:
        bits = self._bits(a) + self._bits(b)
        if bits <= _WORD_BITS:
            return self.within(self._note(self.builder.add(arith.MuliOp(a, b)), bits))
        both = arith.MulSIExtendedOp(a, b)
        self.builder.insert(both)
        low, high = both.results
        sign = self.builder.add(arith.ShRSIOp(low, self.constant(63)))
        fits = self.builder.compare(high, "eq", sign)
        self._require(self.builder.add(arith.AndIOp(fits, self._inside(low))), low)
        self.checked.add(low)
        return self._note(low, _CHECKED_BITS)

    def _atom(self, atom: Atom) -> SSAValue:
        kind = atom[0]
        if kind == "name":
            name = str(atom[1])
            if name not in self.names:
                self.names[name] = self.within(self.named(name))
            return self.names[name]
        operands = [operand for operand in atom[1:] if isinstance(operand, Size)]
        if kind == "floordiv":
            return self._quotient(operands[0], operands[1])
        choose = arith.MaxSIOp if kind == "max" else arith.MinSIOp
        first, *others = [self.value(operand) for operand in operands]
        for other in others:
            bits = max(self._bits(first), self._bits(other))
            first = self._note(self.builder.add(choose(first, other)), bits)
        return first

    def _quotient(self, dividend: Size, divisor: Size) -> SSAValue:
        a, b = self.value(dividend), self.value(divisor)
        bits = self._bits(a)
        if divisor.constant is not None:
            return self._note(self.builder.add(arith.FloorDivSIOp(a, b)), bits)
        zero, one = self.constant(0), self.constant(1)
        nonzero = self.builder.compare(b, "ne", zero)
        self.builder.fail_unless(nonzero, "division", a, b)
        # Passes may move the division to where nothing was checked: by 0 it would end the process.
        safe = self.builder.add(arith.SelectOp(nonzero, b, one))
        return self._note(self.builder.add(arith.FloorDivSIOp(a, safe)), bits)

    def _bits(self, value: SSAValue) -> int:
        if value in self.bits:
            return self.bits[value]
        owner = value.owner
        if isinstance(owner, Block):
            loop = owner.parent_op()
            assert isinstance(loop, scf.ForOp)
            # Bounds were checked, so every index between them is one that was.
            self.checked.add(value)
            return min(_CHECKED_BITS, max(self._bits(bound) for bound in (loop.lb, loop.ub)))
        if isinstance(owner, nn.SizeOp | nn.ExtentOp):
            return _SIZE_BITS
        if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
            return abs(owner.value.value.data).bit_length()
        if isinstance(owner, arith.SubiOp):
            return max(self._bits(operand) for operand in owner.operands) + 1
        if isinstance(owner, arith.IndexCastOp | IndexCastUIOp):
            kind = owner.input.type
            if isinstance(kind, IntegerType) and kind.width.data < 64:
                return kind.width.data - isinstance(owner, arith.IndexCastOp)
        return _WORD_BITS

    def _note(self, value: SSAValue, bits: int) -> SSAValue:
        self.bits[value] = bits
        return value


def constant_number(value: SSAValue) -> int | None:
    """The integer that a tensor is made of as a constant, if it is."""
    owner = value.owner
    if not isinstance(owner, nn.FillOp):
        return None
    number = owner.properties["value"]
    return number.value.data if isinstance(number, IntegerAttr) else None


def constant_index(value: SSAValue) -> int | None:
    """The number that an index is, where it is a constant."""
    owner = value.owner
    number = owner.value if isinstance(owner, arith.ConstantOp) else None
    return number.value.data if isinstance(number, IntegerAttr) else None


def never_negative(value: SSAValue) -> bool:
    """Whether an index is known to be 0 or more: a constant, a size, the index of a loop."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp):
        number = constant_index(value)
        return number is not None and number >= 0
    if isinstance(owner, arith.AddiOp | arith.MuliOp):
        return all(never_negative(operand) for operand in owner.operands)
    if isinstance(owner, Block):
        loop = owner.parent_op()
        return isinstance(loop, scf.ForOp) and never_negative(loop.lb)
    if isinstance(owner, nn.SizeOp):
        return all(coefficient >= 0 for _, coefficient in owner.size.data.terms)
    return isinstance(owner, nn.ExtentOp)
