"""The weights of attention as they are found key by key: relative to the largest score so far.

Scores are exponents of e, or of 2: devices have an instruction for powers of two, whose accuracy is enough
for weights of values in f16.

What is carried is `[top, total, *result]`: the largest score, the sum of the weights, and the weighted
values, both relative to the top.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import e, log2

from xdsl.dialects import arith
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.math import Exp2Op, ExpOp, FmaOp
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.ir import Attribute, SSAValue

from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.numeric import INF, compare_floats, greater, select

_FAST = FastMathFlagsAttr([FastMathFlag.APPROX_FUNC])


class Weights:
    """Builds what a walk over keys carries, in numbers of one type."""

    def __init__(self, b: LoopBuilder, kind: Attribute, *, of_two: bool = False) -> None:
        """`of_two`: whether scores are exponents of 2."""
        self.b, self.kind = b, kind
        self.of_two = of_two

    def scale(self, scale: float) -> float:
        """What products of queries and keys, or what is added to them, are multiplied with."""
        return scale * log2(e) if self.of_two else scale

    def start(self, columns: int) -> list[SSAValue]:
        """What is carried before the first key."""
        b = self.b
        zero = b.constant(0, self.kind)
        return [b.constant(-INF, self.kind), zero, *[zero] * columns]

    def weigh(
        self,
        scores: Sequence[SSAValue],
        seen: Sequence[SSAValue | None],
        values: Sequence[Sequence[SSAValue]],
        old: Sequence[SSAValue],
    ) -> list[SSAValue]:
        """What is carried behind some more keys. Scores of keys that are not seen are -inf; `seen` is None
        where a key is, whatever the step brings."""
        b = self.b
        top = old[0]
        for score in scores:
            top = greater(b, score, top)
        base = self.base(top)
        scale = self.weight(old[0], base)
        total, *result = [b.insert(arith.MulfOp(value, scale)) for value in old[1:]]
        for score, sees, value in zip(scores, seen, values):
            weight = self.weight(score, base)
            if sees is not None:
                weight = select(b, sees, weight, b.constant(0, self.kind))
            total = b.insert(arith.AddfOp(total, weight))
            for lane, x in enumerate(value):
                more = b.insert(FmaOp(weight, convert(b, x, self.kind), result[lane]))
                # Hidden values are no part of the result, whatever they are.
                result[lane] = more if sees is None else select(b, sees, more, result[lane])
        return [top, total, *result]

    def largest(self, tops: Sequence[SSAValue]) -> SSAValue:
        """The largest of the scores `tops`."""
        top = tops[0]
        for other in tops[1:]:
            top = greater(self.b, other, top)
        return top

    def factors(self, tops: Sequence[SSAValue], top: SSAValue) -> list[SSAValue]:
        """What several walks over different keys have found is multiplied with before it is added up, where
        `tops` are the largest scores of each, and `top` that of all."""
        base = self.base(top)
        return [self.weight(own, base) for own in tops]

    def divisor(self, total: SSAValue, *, nan_rows: bool) -> SSAValue:
        """What the weighted values are divided by: 1 where no key is seen, so that the result is 0."""
        if nan_rows:
            return total
        b = self.b
        none = compare_floats(b, "oeq", total, b.constant(0, self.kind))
        return select(b, none, b.constant(1, self.kind), total)

    def base(self, top: SSAValue) -> SSAValue:
        """What scores are relative to: where nothing is seen yet, -inf would make NaN of all that follows."""
        b = self.b
        none = compare_floats(b, "oeq", top, b.constant(-INF, self.kind))
        return select(b, none, b.constant(0, self.kind), top)

    def weight(self, score: SSAValue, base: SSAValue) -> SSAValue:
        return self.power(self.b.insert(arith.SubfOp(score, base)))

    def power(self, exponent: SSAValue) -> SSAValue:
        """Of 2 or e."""
        return self.b.insert(Exp2Op(exponent, _FAST) if self.of_two else ExpOp(exponent))
