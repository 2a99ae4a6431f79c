"""Masks, and causal and windowed attention, on vectors of scores.

Lanes of a vector are neighbouring queries, as everywhere in `attention`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, VectorType, i32
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.arith import IndexCastOp
from openinfer.lowering.cpu.schedules.packing import Write, transpose_into
from openinfer.lowering.kernels import attention_sight
from openinfer.lowering.kernels.builder import Index
from openinfer.lowering.kernels.numeric import (
    INF,
    compare_floats,
    compare_integers,
    is_float,
    select,
)
from openinfer.runtime.quick_dataclass import dataclass


@dataclass(frozen=True)
class Mask(attention_sight.Mask):
    """A mask whose elements for neighbouring queries are read together."""

    def transposed(
        self,
        batch: Index,
        head: Index,
        queries: Sequence[Index],
        keys: tuple[Index, Index],
        write: Write,
    ) -> None:
        """Hands the biases of each key on as a vector over `queries`."""

        def read(query: Index, key: SSAValue, width: int | None) -> SSAValue:
            if width is None:
                return self.one(batch, head, query, key)
            if self.shape[3] == 1:
                return self.build.splat(self.one(batch, head, query, key), width)
            place = self.place(batch, head, query, key)
            return self.bias(self.build.vload(self.buffer, place, width))

        transpose_into(self.build, queries, keys, read, write)

    def apply(self, score: SSAValue, bias: SSAValue, unit: float | None = None) -> SSAValue:
        """A vector of scores with a vector of biases, which are multiplied by `unit`."""
        build = self.build
        if is_float(self.buffer):
            if unit is not None:
                bias = build.insert(arith.MulfOp(bias, build.constant(unit, bias.type)))
            return build.insert(arith.AddfOp(score, bias))
        # Not added: a score that is not finite is hidden as well.
        hidden = compare_floats(build, "olt", bias, build.constant(0, bias.type))
        return select(build, hidden, build.constant(-INF, score.type), score)


@dataclass(frozen=True)
class Sight(attention_sight.Sight):
    """What neighbouring queries see."""

    lanes: int

    def positions(self, position: SSAValue) -> SSAValue:
        """The positions of a vector of queries, as i32."""
        build, kind = self.build, VectorType(i32, [self.lanes])
        steps = DenseIntOrFPElementsAttr.from_list(kind, list(range(self.lanes)))
        first = build.splat(build.insert(IndexCastOp(position, i32)), self.lanes)
        return build.insert(arith.AddiOp(first, build.insert(arith.ConstantOp(steps, kind))))

    def apply(self, score: SSAValue, key: SSAValue, positions: SSAValue) -> SSAValue:
        """The scores of one key, -inf for the queries that do not see it."""
        build = self.build
        there = build.splat(build.insert(IndexCastOp(key, i32)), self.lanes)
        lowest = build.constant(-INF, score.type)
        if self.causal:
            seen = compare_integers(build, "sle", there, positions)
            score = select(build, seen, score, lowest)
        if self.window is None:
            return score
        if isinstance(self.window, int):
            reach = build.constant(self.window, there.type)
        else:
            reach = build.splat(build.insert(IndexCastOp(self.window, i32)), self.lanes)
        pairs = [(positions, there)] if self.causal else [(positions, there), (there, positions)]
        for later, earlier in pairs:
            distance = build.insert(arith.SubiOp(later, earlier))
            near = compare_integers(build, "slt", distance, reach)
            score = select(build, near, score, lowest)
        return score
