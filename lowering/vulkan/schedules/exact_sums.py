"""Sums of floats with what their roundings take away: as good as in twice the digits.

    sums = ExactSum(b, f32)
    high, low = sums.first()
    high, low = sums.more(x, high, low)      # for each x
    total = sums.total(high, low)

Devices need not compute in f64. What a rounding takes away is found without branches (TwoSum of Knuth).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import Attribute, SSAValue

from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.numeric import compare_floats, select


class ExactSum:
    """Builds a sum of floats of one type."""

    def __init__(self, b: LoopBuilder, kind: Attribute) -> None:
        self.b, self.kind = b, kind

    def _add(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.insert(arith.AddfOp(x, y))

    def _sub(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.insert(arith.SubfOp(x, y))

    def first(self, value: float = 0.0) -> list[SSAValue]:
        """The sum of nothing: `value`, a zero of either sign, and what it lacks."""
        return [self.b.constant(value, self.kind), self.b.constant(0.0, self.kind)]

    def more(self, x: SSAValue, high: SSAValue, low: SSAValue) -> Sequence[SSAValue]:
        """The sum with one more term."""
        total = self._add(high, x)
        other = self._sub(total, high)
        lost = self._add(self._sub(high, self._sub(total, other)), self._sub(x, other))
        # So that what it lacks stays small, too.
        return self._joined(total, self._add(low, lost))

    def total(self, high: SSAValue, low: SSAValue) -> SSAValue:
        """The rounded sum."""
        return self._joined(high, low)[0]

    def _joined(self, high: SSAValue, low: SSAValue) -> list[SSAValue]:
        """A sum and what it lacks, rounded. What infinite terms lack is NaN, a zero keeps its sign: `high`
        stays as it is."""
        b, nothing = self.b, self.b.constant(0.0, self.kind)
        some = compare_floats(b, "one", low, nothing)
        whole = self._add(high, low)
        left = self._sub(low, self._sub(whole, high))
        return [select(b, some, whole, high), select(b, some, left, nothing)]
