"""What numbers are known to divide an index: whether an element of a packed buffer begins a byte."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from xdsl.dialects import llvm
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.extensions.llvm import SelectOp
from openinfer.dialects.extensions.llvm_intrinsics import INTRINSICS

_DEPTH = 16
"""How far back a value is followed."""
_SUMS = (llvm.AddOp, llvm.SubOp)
_ONE_OF = (INTRINSICS["smin"], INTRINSICS["smax"], INTRINSICS["umin"], INTRINSICS["umax"])


class Multiples:
    """Divisors of the integers of one function that is being converted."""

    def __init__(self, known: Mapping[SSAValue, int]) -> None:
        self._known = known
        """Values of constants."""
        self._counters: dict[SSAValue, int] = {}

    def counter(self, counter: SSAValue, lower: int | SSAValue, step: int | SSAValue) -> None:
        """Records a loop's counter."""
        self._counters[counter] = gcd(self.of(lower), self.of(step))

    def of(self, value: int | SSAValue, depth: int = _DEPTH) -> int:
        """A number that divides `value` for sure; 0, which everything divides, for 0 itself."""
        if isinstance(value, int):
            return abs(value)
        if value in self._known:
            return abs(self._known[value])
        if value in self._counters:
            return self._counters[value]
        owner = value.owner
        if not isinstance(owner, Operation) or depth == 0:
            return 1
        return self._of_result(owner, depth - 1)

    def _of_result(self, op: Operation, depth: int) -> int:
        if isinstance(op, llvm.MulOp):
            return self.of(op.lhs, depth) * self.of(op.rhs, depth)
        if isinstance(op, llvm.SubOp):
            rest = op.rhs.owner
            if isinstance(rest, llvm.URemOp | llvm.SRemOp) and rest.lhs is op.lhs:
                return self.of(rest.rhs, depth)  # a - a % b
        if isinstance(op, _SUMS):
            return gcd(self.of(op.lhs, depth), self.of(op.rhs, depth))
        if isinstance(op, _ONE_OF):
            return gcd(*(self.of(operand, depth) for operand in op.operands))
        if isinstance(op, SelectOp):
            return gcd(*(self.of(operand, depth) for operand in op.operands[1:]))
        return 1
