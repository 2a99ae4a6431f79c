"""What `argmax` and `argmin` look for: the extreme of some values, and its first or last place."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.numeric import (
    INF,
    compare_floats,
    compare_integers,
    is_float,
)
from openinfer.runtime.quick_dataclass import dataclass


@dataclass(frozen=True)
class Extreme:
    """What is looked for: the extreme of a type, its first or its last place."""

    largest: bool
    last: bool
    unsigned: bool

    def worst(self, element: Attribute) -> float | int:
        """The value that no element is worse than."""
        if isinstance(element, AnyFloat):
            return -INF if self.largest else INF
        assert isinstance(element, IntegerType)
        bits = element.bitwidth
        if self.unsigned:
            return 0 if self.largest else -1
        return -(1 << (bits - 1)) if self.largest else (1 << (bits - 1)) - 1

    @property
    def float_kind(self) -> str:
        return "maximumf" if self.largest else "minimumf"

    @property
    def integer_kind(self) -> str:
        return ("max" if self.largest else "min") + ("ui" if self.unsigned else "si")

    def join(self, b: LoopBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
        """The better of two values; NaN is better than all."""
        if is_float(x):
            return b.insert((arith.MaximumfOp if self.largest else arith.MinimumfOp)(x, y))
        return b.insert(_EXTREMES[self.integer_kind](x, y))

    def better(self, b: LoopBuilder, x: SSAValue, old: SSAValue) -> SSAValue:
        """Whether x takes the place of what was found before it."""
        relation = ("g" if self.largest else "l") + ("e" if self.last else "t")
        if not is_float(x):
            return compare_integers(b, ("u" if self.unsigned else "s") + relation, x, old)
        is_nan = compare_floats(b, "uno", x, x)
        if not self.last:
            # A NaN is beaten by nothing, not even by another NaN.
            was_number = compare_floats(b, "ord", old, old)
            is_nan = b.insert(arith.AndIOp(is_nan, was_number))
        return b.insert(arith.OrIOp(compare_floats(b, f"o{relation}", x, old), is_nan))


_EXTREMES: dict[str, Callable[[SSAValue, SSAValue], Operation]] = {
    "maxsi": arith.MaxSIOp,
    "minsi": arith.MinSIOp,
    "maxui": arith.MaxUIOp,
    "minui": arith.MinUIOp,
}
