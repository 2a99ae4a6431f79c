"""What a recurrent layer makes of its gates: the next states of one unit, or of a vector of them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.math import ExpOp, TanhOp
from xdsl.ir import SSAValue

from openinfer.dialects.nn import GruOp, LstmOp
from openinfer.lowering.kernels.builder import LoopBuilder


def next_states(
    b: LoopBuilder,
    op: LstmOp | GruOp,
    fed: Sequence[SSAValue],
    parts: Sequence[SSAValue],
    old: Sequence[SSAValue],
) -> list[SSAValue]:
    """The states of the next step, the hidden one first.

    `fed` are the input's parts of the gates, `parts` those of the hidden state, `old` the states.
    """
    cell = _Cell(b)
    return (cell.lstm if isinstance(op, LstmOp) else cell.gru)(fed, parts, old)


class _Cell:
    def __init__(self, b: LoopBuilder) -> None:
        self.b = b

    def lstm(
        self, fed: Sequence[SSAValue], parts: Sequence[SSAValue], old: Sequence[SSAValue]
    ) -> list[SSAValue]:
        sums = [self._add(x, y) for x, y in zip(fed, parts)]
        i, f, o = (self._sigmoid(sums[gate]) for gate in (0, 1, 3))
        g = self.b.insert(TanhOp(sums[2]))
        cell = self._add(self._mul(f, old[1]), self._mul(i, g))
        return [self._mul(o, self.b.insert(TanhOp(cell))), cell]

    def gru(
        self, fed: Sequence[SSAValue], parts: Sequence[SSAValue], old: Sequence[SSAValue]
    ) -> list[SSAValue]:
        r, z = (self._sigmoid(self._add(fed[gate], parts[gate])) for gate in (0, 1))
        n = self.b.insert(TanhOp(self._add(fed[2], self._mul(r, parts[2]))))
        one = self.b.constant(1, z.type)
        rest = self.b.insert(arith.SubfOp(one, z))
        return [self._add(self._mul(rest, n), self._mul(z, old[0]))]

    def _add(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.insert(arith.AddfOp(x, y))

    def _mul(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.insert(arith.MulfOp(x, y))

    def _sigmoid(self, x: SSAValue) -> SSAValue:
        """1 / (1 + exp(-x)): where the exponential is infinite the result is 0 as it should be."""
        one = self.b.constant(1, x.type)
        power = self.b.insert(ExpOp(self.b.insert(arith.NegfOp(x))))
        return self.b.insert(arith.DivfOp(one, self._add(one, power)))
