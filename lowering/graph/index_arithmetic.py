"""Size expressions over values that only the step knows, as arithmetic on indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Operation, SSAValue

from openinfer.dialects import nn
from openinfer.runtime.sizes import Atom, Size


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

    def value(self, size: Size) -> SSAValue:
        """The expression as an index; a division checks its divisor first."""
        total: SSAValue | None = None
        for monomial, coefficient in size.terms:
            product: SSAValue | None = None
            for atom in monomial:
                factor = self._atom(atom)
                product = factor if product is None else self._add(arith.MuliOp(product, factor))
            if product is None:
                product = self.constant(coefficient)
            elif coefficient != 1:
                product = self._add(arith.MuliOp(product, self.constant(coefficient)))
            total = product if total is None else self._add(arith.AddiOp(total, product))
        return total if total is not None else self.constant(0)

    def constant(self, value: int) -> SSAValue:
        """A number as an index."""
        return self._add(arith.ConstantOp(IntegerAttr(value, IndexType())))

    def _atom(self, atom: Atom) -> SSAValue:
        kind = atom[0]
        if kind == "name":
            return self.named(str(atom[1]))
        operands = [operand for operand in atom[1:] if isinstance(operand, Size)]
        if kind == "floordiv":
            return self._quotient(operands[0], operands[1])
        choose = arith.MaxSIOp if kind == "max" else arith.MinSIOp
        first, *others = [self.value(operand) for operand in operands]
        for other in others:
            first = self._add(choose(first, other))
        return first

    def _quotient(self, dividend: Size, divisor: Size) -> SSAValue:
        a, b = self.value(dividend), self.value(divisor)
        if divisor.constant is not None:
            return self._add(arith.FloorDivSIOp(a, b))
        zero, one, minus = (self.constant(number) for number in (0, 1, -1))
        nonzero = self._add(arith.CmpiOp(b, zero, "ne"))
        self.into.insert(nn.RequireOp(nonzero, "division", a, b, self.into.node))
        # The division stands alone in what passes may move: by 0 it would end the process, wherever
        # it is moved to, and so would the smallest integer by -1.
        negate = self._add(arith.CmpiOp(b, minus, "eq"))
        unsafe = self._add(arith.OrIOp(negate, self._add(arith.CmpiOp(b, zero, "eq"))))
        safe = self._add(arith.SelectOp(unsafe, one, b))
        quotient = self._add(arith.FloorDivSIOp(a, safe))
        return self._add(arith.SelectOp(negate, self._add(arith.SubiOp(zero, a)), quotient))

    def _add(self, op: Operation) -> SSAValue:
        self.into.insert(op)
        return op.results[0]
