"""How many floats may be added one after another, and how sums are joined without error."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.runtime.quick_dataclass import dataclass


@dataclass(frozen=True)
class Lengths:
    """How many additions may follow one another."""

    most: int
    """So many do without blocks."""
    block: int
    """In a block, where there are more."""


ANY = Lengths(64, 56)
"""64 additions of equal signs are off by 1e-6 of an f32 sum at most (0.1: 6e-7; drawn numbers: 1e-7); what
joins the blocks takes a little of that."""
PRODUCTS = Lengths(8192, 128)
"""Products add to many sums at a time, of which each block puts all away: that takes 0.05 of the time,
so that only long ones go in blocks. Parts side by side count together."""
LONG_PRODUCTS = Lengths(128, 128)
"""A part of a long one."""


def two_sum(b: LoopBuilder, x: SSAValue, y: SSAValue) -> tuple[SSAValue, SSAValue]:
    """x + y, rounded, and what rounding took from it, which is a float again (Knuth)."""

    def minus(p: SSAValue, q: SSAValue) -> SSAValue:
        return b.insert(arith.SubfOp(p, q))

    total = b.insert(arith.AddfOp(x, y))
    of_y = minus(total, x)
    error = b.insert(arith.AddfOp(minus(x, minus(total, of_y)), minus(y, of_y)))
    return total, error
