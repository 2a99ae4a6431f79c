"""Which of two values stands first in a sorted line."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.numeric import compare_floats, compare_integers, is_float, widen
from openinfer.runtime.quick_dataclass import dataclass


@dataclass(frozen=True)
class Order:
    """Which of two values comes first."""

    descending: bool
    unsigned: bool
    """Whether integers have no sign."""

    def before(self, b: LoopBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
        """Whether x comes strictly before y; a NaN is larger than every number."""
        if not is_float(x):
            relation = ("u" if self.unsigned else "s") + ("gt" if self.descending else "lt")
            return compare_integers(b, relation, x, y)
        x, y = widen(b, x), widen(b, y)
        less = compare_floats(b, "ogt" if self.descending else "olt", x, y)
        larger, smaller = (x, y) if self.descending else (y, x)
        alone = b.insert(
            arith.AndIOp(
                compare_floats(b, "uno", larger, larger), compare_floats(b, "ord", smaller, smaller)
            )
        )
        return b.insert(arith.OrIOp(less, alone))
