"""Size expressions over values that only the step knows, as arithmetic on indices.

The language counts with whole numbers of any size. Here a number that 64 bits do not hold becomes
`LIMIT` with its sign, so that nothing wraps around to an index that looks right; the result is cut
to `LARGEST_INDEX`, with which later arithmetic cannot overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType
from xdsl.ir import Block, Operation, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.extensions.arith import IndexCastUIOp
from openinfer.runtime.sizes import Atom, Size

LARGEST_INDEX: Final = 1 << 40
"""Results beyond it are taken for it: no dimension in memory is as large."""
LIMIT: Final = (1 << 63) - 1
"""Intermediate numbers beyond it are taken for it."""
_SAFE_BITS = 62
"""Results of at most so many bits do not overflow."""
_SIZE_BITS = 48


class Inserter(Protocol):
    """What puts operations into the step."""

    @property
    def node(self) -> int:
        """The running index of the node that is being translated."""
        ...

    def insert(self, op: Operation) -> Operation:
        """Inserts an operation."""
        ...


class IndexArithmetic:
    """Emits the operations that compute a size expression; `named` gives the value of a name."""

    def __init__(self, into: Inserter, named: Callable[[str], SSAValue]) -> None:
        self.into = into
        self.named = named
        self.bits: dict[SSAValue, int] = {}
        """n, where the magnitude of a value is known to be at most 2**n."""

    def value(self, size: Size) -> SSAValue:
        """The expression as an index, at most `LARGEST_INDEX`; divisions check their divisors."""
        return self.cut(self._sum(size), LARGEST_INDEX)

    def cut(self, value: SSAValue, limit: int) -> SSAValue:
        """The value, or the limit with its sign where it is beyond."""
        if 1 << self._bits(value) <= limit:
            return value
        low = self._add(arith.MaxSIOp(value, self.constant(-limit)))
        high = self._add(arith.MinSIOp(low, self.constant(limit)))
        return self._note(high, (limit - 1).bit_length())

    def constant(self, value: int) -> SSAValue:
        """A number as an index."""
        number = self._add(arith.ConstantOp(IntegerAttr(value, IndexType())))
        return self._note(number, abs(value).bit_length())

    def _sum(self, size: Size) -> SSAValue:
        total: SSAValue | None = None
        for monomial, coefficient in size.terms:
            product: SSAValue | None = None
            for atom in monomial:
                factor = self._atom(atom)
                product = factor if product is None else self._product(product, factor)
            if product is None:
                product = self.constant(coefficient)
            elif coefficient != 1:
                product = self._product(product, self.constant(coefficient))
            total = product if total is None else self._plus(total, product)
        return total if total is not None else self.constant(0)

    def _plus(self, a: SSAValue, b: SSAValue) -> SSAValue:
        bits = max(self._bits(a), self._bits(b)) + 1
        if bits <= _SAFE_BITS:
            return self._note(self._add(arith.AddiOp(a, b)), bits)
        # What b leaves room for is all that a may be.
        zero, most, least = self.constant(0), self.constant(LIMIT), self.constant(-LIMIT)
        high = self._add(arith.SubiOp(most, self._add(arith.MaxSIOp(b, zero))))
        low = self._add(arith.SubiOp(least, self._add(arith.MinSIOp(b, zero))))
        fitting = self._add(arith.MinSIOp(self._add(arith.MaxSIOp(a, low)), high))
        return self._note(self._add(arith.AddiOp(fitting, b)), 63)

    def _product(self, a: SSAValue, b: SSAValue) -> SSAValue:
        bits = self._bits(a) + self._bits(b)
        if bits <= _SAFE_BITS:
            return self._note(self._add(arith.MuliOp(a, b)), bits)
        both = arith.MulSIExtendedOp(a, b)
        self.into.insert(both)
        low, high = both.results
        sign = self._add(arith.ShRSIOp(low, self.constant(63)))
        fits = self._add(arith.CmpiOp(high, sign, "eq"))
        negative = self._add(arith.CmpiOp(high, self.constant(0), "slt"))
        beyond = self._add(arith.SelectOp(negative, self.constant(-LIMIT), self.constant(LIMIT)))
        return self._note(self._add(arith.SelectOp(fits, low, beyond)), 64)

    def _atom(self, atom: Atom) -> SSAValue:
        kind = atom[0]
        if kind == "name":
            return self.named(str(atom[1]))
        operands = [operand for operand in atom[1:] if isinstance(operand, Size)]
        if kind == "floordiv":
            return self._quotient(operands[0], operands[1])
        choose = arith.MaxSIOp if kind == "max" else arith.MinSIOp
        first, *others = [self._sum(operand) for operand in operands]
        for other in others:
            bits = max(self._bits(first), self._bits(other))
            first = self._note(self._add(choose(first, other)), bits)
        return first

    def _quotient(self, dividend: Size, divisor: Size) -> SSAValue:
        # The smallest number by -1 would overflow; it is beyond the limit.
        a, b = self.cut(self._sum(dividend), LIMIT), self._sum(divisor)
        bits = self._bits(a)
        if divisor.constant is not None:
            return self._note(self._add(arith.FloorDivSIOp(a, b)), bits)
        zero, one = self.constant(0), self.constant(1)
        nonzero = self._add(arith.CmpiOp(b, zero, "ne"))
        self.into.insert(nn.RequireOp(nonzero, "division", a, b, self.into.node))
        # Passes may move the division to where nothing was checked: by 0 it would end the process.
        safe = self._add(arith.SelectOp(nonzero, b, one))
        return self._note(self._add(arith.FloorDivSIOp(a, safe)), bits)

    def _bits(self, value: SSAValue) -> int:
        if value in self.bits:
            return self.bits[value]
        owner = value.owner
        if isinstance(owner, Block):
            return LARGEST_INDEX.bit_length() - 1  # the index of a loop, whose bounds are cut
        if isinstance(owner, nn.SizeOp | nn.ExtentOp):
            return _SIZE_BITS
        if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
            return abs(owner.value.value.data).bit_length()
        if isinstance(owner, arith.SubiOp):
            return max(self._bits(operand) for operand in owner.operands) + 1
        if isinstance(owner, arith.IndexCastOp | IndexCastUIOp):
            kind = owner.input.type
            return kind.width.data if isinstance(kind, IntegerType) else 64
        return 64

    def _note(self, value: SSAValue, bits: int) -> SSAValue:
        self.bits[value] = bits
        return value

    def _add(self, op: Operation) -> SSAValue:
        self.into.insert(op)
        return op.results[0]
