"""Arithmetic of f32 with what its roundings take away: for machines that need not have f64.

A pair is a float and a much smaller one, which together have some 48 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from openinfer.lowering.kernels.builder import LoopBuilder

_SPLITTER = 4097.0


class FloatPairs:
    """Builds sums and products of f32, each rounded as it is written."""

    def __init__(self, b: LoopBuilder) -> None:
        self.b = b

    def add(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.insert(arith.AddfOp(x, y))

    def sub(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.insert(arith.SubfOp(x, y))

    def mul(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.insert(arith.MulfOp(x, y))

    def number(self, value: float) -> SSAValue:
        return self.b.constant(value, f32)

    def polynomial(self, x: SSAValue, coefficients: Sequence[float]) -> SSAValue:
        found = self.number(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            found = self.add(self.mul(found, x), self.number(coefficient))
        return found

    def halves(self, x: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Two numbers of 12 bits whose sum is x (Veltkamp)."""
        large = self.mul(x, self.number(_SPLITTER))
        high = self.sub(large, self.sub(large, x))
        return high, self.sub(x, high)

    def product(self, x: SSAValue, y: SSAValue) -> tuple[SSAValue, SSAValue]:
        """x * y, and what its rounding takes away (Dekker)."""
        found = self.mul(x, y)
        (x1, x2), (y1, y2) = self.halves(x), self.halves(y)
        lost = self.sub(self.mul(x1, y1), found)
        for one, other in ((x1, y2), (x2, y1), (x2, y2)):
            lost = self.add(lost, self.mul(one, other))
        return found, lost

    def join(self, large: SSAValue, small: SSAValue) -> tuple[SSAValue, SSAValue]:
        """large + small, and what its rounding takes away."""
        found = self.add(large, small)
        return found, self.sub(small, self.sub(found, large))
