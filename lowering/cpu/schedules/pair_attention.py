"""Attention in bf16: the flow of `attention.py`, where what is multiplied lies in pairs.

    values[key pair, d]     = v, two keys side by side                        once for all heads
    queries[d pair, lane]   = q, transposed
    scores[key, lane]       = scale · sum over d pairs of k · queries
    weights[key pair, lane] = exp(scores - top), rounded, in place of the scores; total before that
    out[query, d]           = sum over key pairs of weights · values / total[query]

A pair of queries or of weights is one 32-bit word of its buffer.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import MemRefType, f32, i32
from xdsl.ir import SSAValue

from openinfer.dialects.nn import AttentionOp, RoundPairsOp
from openinfer.lowering.cpu.machine import Machine
from openinfer.lowering.cpu.schedules.attention import Attention, Block
from openinfer.lowering.cpu.schedules.attention_operands import rows_of
from openinfer.lowering.cpu.schedules.microkernel import Operand
from openinfer.lowering.cpu.schedules.packing import Matrix, transpose_into
from openinfer.lowering.cpu.schedules.pairs import (
    PairArithmetic,
    halves,
    load_pair,
    load_pairs,
    pack_pairs,
)
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.runs import Extent
from openinfer.lowering.kernels.scratch import scratch_of


class PairAttention(Attention):
    """Emits the loops of one `nn.attention` with `precision` on buffers."""

    arithmetic = PairArithmetic
    shares_blocks = True

    def __init__(self, build: LoopBuilder, op: AttentionOp, machine: Machine) -> None:
        super().__init__(build, op, machine)
        (self.panels,) = scratch_of(op, "values")
        assert isinstance(self.panels.type, MemRefType)
        self.tile = self.panels.type.get_shape()[-1] // 2
        self.groups = build.dim(self.k.buffer, self.k.axis("h"))
        self.pairs, self.odd = halves(build, self.key_count)

    def emit(self) -> None:
        """Values become pairs first."""
        self._pack_values()
        self._blocks()

    def _pack_values(self) -> None:
        build, v, groups = self.build, self.v, self.groups
        batches = build.dim(v.buffer, v.axis("b"))
        size = build.dim(v.buffer, 3)

        def one(number: SSAValue) -> None:
            source = rows_of(v, build.floordiv(number, groups), build.rem(number, groups))
            panels = Matrix(self.panels, (number,))
            bits = self.machine.vector_bits
            pack_pairs(
                build, source, panels, self.key_count, size, self.tile, bits, transposed=False
            )

        count = Extent((batches, groups)).value(build)
        build.loop(0, count, 1, one, parallel=True, hint="bh")

    def _load_queries(self, block: Block, number: int, rows: Sequence[Index]) -> None:
        build, source = self.build, rows_of(self.q, block.batch, block.head)

        def read(row: Index, pair: SSAValue, width: int | None) -> SSAValue:
            if width is None:
                return load_pair(build, source, row, pair)
            return load_pairs(build, source, row, pair, width)

        def write(words: SSAValue, pair: SSAValue) -> None:
            words = build.insert(vector.BitcastOp(words, self.how.vector))
            build.vstore(words, self.queries, self._at(pair, number))

        transpose_into(build, rows, (0, self._depth), read, write)

    @property
    def _depth(self) -> Index:
        depth = self.build.dim(self.q.buffer, 3)
        assert isinstance(depth, int)
        return depth // 2

    def _key(self, block: Block, key: SSAValue, d: SSAValue) -> SSAValue:
        return load_pair(self.build, rows_of(self.k, block.batch, block.group), key, d)

    def _masked(
        self,
        number: int,
        key: SSAValue,
        score: SSAValue,
        bias: SSAValue | None,
        positions: SSAValue | None,
    ) -> SSAValue:
        # Not a factor of the queries: those are bf16.
        score = self.build.insert(arith.MulfOp(score, self.scale))
        return super()._masked(number, key, score, bias, positions)

    def _weigh(self, block: Block, tops: Sequence[SSAValue]) -> Sequence[SSAValue]:
        build = self.build

        def two(pair: SSAValue, totals: Sequence[SSAValue]) -> list[SSAValue]:
            key = build.mul(pair, 2)
            return self._weigh_keys(pair, [key, build.add(key, 1)], tops, totals)

        zero = build.constant(0, self.how.vector)
        totals = build.reduce(0, self.pairs, 1, [zero] * len(tops), two, hint="j")

        def last() -> list[SSAValue]:
            pair = build.index(self.pairs)
            return self._weigh_keys(pair, [build.mul(pair, 2)], tops, totals)

        if isinstance(self.odd, int):
            return last() if self.odd else totals
        there = build.compare("ne", self.odd, 0)
        return build.when(there, last, lambda: totals, [total.type for total in totals])

    def _as_stored(self, weights: Sequence[SSAValue]) -> SSAValue:
        zero = self.build.constant(0, self.how.vector)
        first, second = (*weights, zero)[:2]
        both = self.build.insert(RoundPairsOp(first, second))
        return self.build.insert(vector.BitcastOp(both, self.how.vector))

    def _weight(self, key: SSAValue, query: Index) -> SSAValue:
        """One half of a pair: bf16 are the upper bits of f32."""
        build = self.build
        word = super()._weight(build.floordiv(key, 2), query)
        bits = build.insert(arith.BitcastOp(word, i32))
        upper = build.insert(arith.AndIOp(bits, build.constant(-(1 << 16), i32)))
        lower = build.insert(arith.ShLIOp(bits, build.constant(16, i32)))
        odd = build.compare("ne", build.rem(key, 2), 0)
        half = build.insert(arith.SelectOp(odd, upper, lower))
        return build.insert(arith.BitcastOp(half, f32))

    def _weight_rows(self, block: Block) -> tuple[Index, Index]:
        return 0, self.build.plus(self.pairs, self.odd)

    def _values(
        self, block: Block, starts: Sequence[SSAValue], masks: Sequence[SSAValue | None]
    ) -> Operand:
        """From the panels, which are filled up with zeros."""
        build, width = self.build, 2 * self.how.lanes
        number = build.add(build.mul(block.batch, self.groups), block.group)
        panels = Matrix(self.panels, (number, build.floordiv(starts[0], self.tile)))
        return lambda pair: [
            build.vload(panels.buffer, panels.at(pair, n * width), width)
            for n in range(len(starts))
        ]
