"""The norm of rows on their way to shared memory: each row is shared out among neighbours of a subgroup."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import f16, f32
from xdsl.dialects.math import SqrtOp
from xdsl.ir import SSAValue

from openinfer.dialects.nn import RowMatmulOp
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.numeric import count_as
from openinfer.lowering.vulkan.schedules.matmul_matrices import LANES
from openinfer.lowering.vulkan.schedules.row_tiles import SHARE, STEPS
from openinfer.lowering.vulkan.schedules.wide import common_lanes, load_wide
from openinfer.lowering.vulkan.schedules.workgroup import Workgroup


class RowNorm:
    """The norm that a product takes in. Its factors are read once, for all rows of an invocation."""

    def __init__(
        self, b: LoopBuilder, op: RowMatmulOp, share: SSAValue, depth: int, group: Workgroup
    ) -> None:
        """`share`: the number of the invocation among those that have a row of `depth` elements."""
        self.b, self.op, self.group, self.depth, self.share = b, op, group, depth, share
        self.count = count_as(b, depth, f32)

    def of_rows(self, rows: Sequence[list[list[SSAValue]]]) -> list[list[list[SSAValue]]]:
        """What becomes of f16 elements: those of each row, by accesses."""
        weight, bias = self._factors(self.op.weight), self._factors(self.op.bias)
        return [self._row(pieces, weight, bias) for pieces in rows]

    def _factors(self, buffer: SSAValue | None) -> list[SSAValue] | None:
        """The weight, or the bias, of the elements that an invocation has."""
        b = self.b
        if buffer is None:
            return None
        lanes = min(LANES, common_lanes(self.op, (buffer,)))
        found: list[SSAValue] = []
        for step in range(0, self.depth, STEPS):
            first = b.add(b.mul(self.share, LANES), step)
            for start in range(0, LANES, lanes):
                found += load_wide(b, buffer, [b.add(first, start)], lanes)
        return [convert(b, value, f32) for value in found]

    def _row(
        self,
        pieces: list[list[SSAValue]],
        weight: list[SSAValue] | None,
        bias: list[SSAValue] | None,
    ) -> list[list[SSAValue]]:
        b = self.b
        values = [convert(b, value, f32) for piece in pieces for value in piece]
        if self.op.centred is not None:
            mean = self._mean(values)
            values = [b.insert(arith.SubfOp(value, mean)) for value in values]
        square = self._mean([self._mul(value, value) for value in values])
        assert self.op.eps is not None
        eps = b.constant(self.op.eps.value.data, f32)
        root = b.insert(SqrtOp(self._add(square, eps)))
        factor = b.insert(arith.DivfOp(b.constant(1.0, f32), root))
        values = [self._mul(value, factor) for value in values]
        if weight is not None:
            values = list(map(self._mul, values, weight))
        if bias is not None:
            values = list(map(self._add, values, bias))
        stored = [convert(b, value, f16) for value in values]
        return [stored[start : start + LANES] for start in range(0, len(stored), LANES)]

    def _mean(self, values: Sequence[SSAValue]) -> SSAValue:
        """Of all elements of the row; `values` are those of the invocation."""
        total = self.group.join_neighbours(_tree(values, self._add), self._add, SHARE)
        return self.b.insert(arith.DivfOp(total, self.count))

    def _add(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.insert(arith.AddfOp(x, y))

    def _mul(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.insert(arith.MulfOp(x, y))


def _tree(values: Sequence[SSAValue], add: Callable[[SSAValue, SSAValue], SSAValue]) -> SSAValue:
    """The sum of some values, in few steps one after another."""
    rest = list(values)
    while len(rest) > 1:
        half = len(rest) // 2
        rest = [*map(add, rest[:half], rest[half : 2 * half]), *rest[2 * half :]]
    return rest[0]
