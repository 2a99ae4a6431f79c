"""The schedule of attention in bf16, for one block of queries of one head at a time.

As in `attention.py` the lanes of a vector are neighbouring queries and the rows are keys, two vectors
of queries side by side. What is multiplied lies in pairs:

    values[key pair, d]    = v, two keys side by side                        once for all heads
    queries[d pair, lane]  = q, transposed                                   once for the block
    scores[key, lane]      = scale · sum over d pairs of k · queries, masked; top = max over keys
    weights[key pair, lane] = exp(scores - top), rounded;  total = sum over keys before rounding
    out[query, d]          = sum over key pairs of weights · values / total[query]

Weights take the place of the scores that they are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, math, vector
from xdsl.dialects.builtin import Float32Type, MemRefType, VectorType, f32, i32
from xdsl.ir import SSAValue

from openinfer.dialects.nn import AttentionOp, RoundPairsOp, ThreadOp
from openinfer.lowering.cpu.machine import Machine
from openinfer.lowering.cpu.schedules.attention_hidden import Hidden, Results, mend
from openinfer.lowering.cpu.schedules.attention_mask import Mask
from openinfer.lowering.cpu.schedules.attention_operands import Heads
from openinfer.lowering.cpu.schedules.microkernel import (
    Arithmetic,
    Carried,
    contract,
    over_tiles,
    split_for,
)
from openinfer.lowering.cpu.schedules.packing import Matrix, transpose_into
from openinfer.lowering.cpu.schedules.pair_heads import VECTORS, HeadRows
from openinfer.lowering.cpu.schedules.pairs import (
    PairArithmetic,
    as_pairs,
    load_pair,
    load_pairs,
    pack_pairs,
)
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.numeric import (
    INF,
    compare_floats,
    element_type,
    greater,
    select,
)
from openinfer.lowering.kernels.scratch import scratch_of


@dataclass(frozen=True)
class _Block:
    """Some queries of one head: `vectors` vectors of them, of which `count` exist."""

    batch: Index
    head: Index
    keys: Matrix
    values: Matrix
    first: SSAValue
    count: Index
    vectors: int


class PairAttention:
    """Emits the loops of one `nn.attention` with `precision` on buffers."""

    def __init__(self, build: LoopBuilder, op: AttentionOp, machine: Machine) -> None:
        self.build = build
        self.op = op
        self.machine = machine
        layouts = [layout.data for layout in op.layouts]
        self.q, self.k, self.v = (Heads(b, n) for b, n in zip(op.inputs[:3], layouts))
        self.out = Heads(op.outs[0], layouts[3])
        self.queries, self.scores, self.values = scratch_of(op, *op.SCRATCH)
        self.how = PairArithmetic(f32, machine.lanes(f32), machine.fused)
        self.zero = build.index(0)
        self.lowest = build.constant(-INF, self.how.vector)
        self.scale = build.constant(op.scale.value.data, self.how.vector)
        self.mask = Mask(build, op.mask, f32) if op.mask is not None else None
        self.query_count = build.dim(self.q.buffer, self.q.axis("l"))
        self.key_count = build.dim(self.k.buffer, self.k.axis("l"))
        self.depth = build.dim(self.q.buffer, 3)
        self.size = build.dim(self.v.buffer, 3)

    @property
    def key_pairs(self) -> tuple[Index, Index]:
        """How many pairs of keys there are, and whether (0 or 1) one is left."""
        if isinstance(self.key_count, int):
            return divmod(self.key_count, 2)
        return self.build.floordiv(self.key_count, 2), self.build.rem(self.key_count, 2)

    def emit(self) -> None:
        """Values become pairs first; then all blocks of all heads, in one loop for the threads."""
        build = self.build
        batches = build.dim(self.q.buffer, self.q.axis("b"))
        heads = build.dim(self.q.buffer, self.q.axis("h"))
        groups = build.dim(self.k.buffer, self.k.axis("h"))
        self._pack_values(batches, groups)
        self.thread = build.insert(ThreadOp())
        shared: Index = 1
        if not (isinstance(heads, int) and heads == groups):
            shared = build.floordiv(heads, groups)
        width = VECTORS * self.how.lanes
        blocks = build.ceil_div(self.query_count, width)

        def task(number: SSAValue) -> None:
            block = build.rem(number, blocks) if blocks != 1 else self.zero
            place = build.floordiv(number, blocks) if blocks != 1 else number
            batch: Index = build.floordiv(place, heads) if batches != 1 else self.zero
            head: Index = build.rem(place, heads) if batches != 1 else place
            group: Index = head if shared == 1 else build.floordiv(head, shared)
            first = build.mul(block, width)
            count = build.minimum(build.minus(self.query_count, first), width)
            keys = HeadRows(self.k.buffer, (batch, group), self.k)
            number_of = build.add(build.mul(batch, groups), group)
            values = Matrix(self.values, (number_of,))

            def with_vectors(vectors: int) -> None:
                self._block(_Block(batch, head, keys, values, first, count, vectors))

            lanes = self.how.lanes
            known = self.query_count
            if isinstance(known, int) and known <= lanes:
                with_vectors(1)
            elif isinstance(known, int) and (known % width == 0 or known % width > lanes):
                with_vectors(VECTORS)
            else:
                many = build.compare("sgt", count, lanes)
                build.when(many, lambda: with_vectors(VECTORS), lambda: with_vectors(1))

        tasks = _product(build, _product(build, batches, heads), blocks)
        build.loop(0, tasks, 1, task, parallel=True, hint="task")

    def _pack_values(self, batches: Index, groups: Index) -> None:
        build, v = self.build, self.v
        assert isinstance(self.values.type, MemRefType)
        tile = self.values.type.get_shape()[-1] // 2

        def one(number: SSAValue) -> None:
            batch: Index = build.floordiv(number, groups) if batches != 1 else self.zero
            group: Index = build.rem(number, groups) if batches != 1 else number
            source = HeadRows(v.buffer, (batch, group), v)
            panels = Matrix(self.values, (number,))
            bits = self.machine.vector_bits
            pack_pairs(
                build, source, panels, self.key_count, self.size, tile, bits, transposed=False
            )

        build.loop(0, _product(build, batches, groups), 1, one, parallel=True, hint="bh")

    # One block -----------------------------------------------------------------------------------

    def _block(self, block: _Block) -> None:
        build = self.build
        self._load_queries(block)
        tops = self._score(block)
        zero, one = build.constant(0, self.how.vector), build.constant(1, self.how.vector)
        if self.op.nan_rows is None:
            # A query that may attend to nothing has only -inf: its weights are 0, not NaN.
            tops = [
                select(build, compare_floats(build, "oeq", top, self.lowest), zero, top)
                for top in tops
            ]
        totals = self._weigh(block, tops)
        if self.op.nan_rows is None:
            totals = [
                select(build, compare_floats(build, "oeq", total, zero), one, total)
                for total in totals
            ]
        # Behind the weights, where scores are not needed any more.
        for number, total in enumerate(totals):
            share = build.insert(arith.DivfOp(one, total))
            build.vstore(share, self.scores, self._at(self._weight_rows, number * self.how.lanes))
        self._combine(block)
        self._mend(block)

    @property
    def _weight_rows(self) -> Index:
        pairs, odd = self.key_pairs
        return self.build.plus(pairs, odd)

    def _at(self, row: Index, lane: Index) -> list[Index]:
        return [self.thread, row, lane]

    def _load_queries(self, block: _Block) -> None:
        """queries[d pair, lane], lanes beyond the last query repeat it."""
        build, lanes = self.build, self.how.lanes
        source = HeadRows(self.q.buffer, (block.batch, block.head), self.q)
        last = build.minus(self.query_count, 1)
        assert isinstance(self.depth, int)

        def read(row: Index, pair: SSAValue, width: int | None) -> SSAValue:
            if width is None:
                return load_pair(build, source, row, pair)
            return load_pairs(build, source, row, pair, width)

        for number in range(block.vectors):
            rows = [
                build.minimum(build.add(block.first, number * lanes + lane), last)
                for lane in range(lanes)
            ]

            def write(value: SSAValue, pair: SSAValue, number: int = number) -> None:
                place = [self.thread, pair, 2 * number * lanes]
                build.vstore(as_pairs(build, value), self.queries, place)

            transpose_into(build, rows, (0, self.depth // 2), read, write)

    def _score(self, block: _Block) -> Sequence[SSAValue]:
        """Scores against all keys; the largest one of each query."""
        build, lanes, vectors = self.build, self.how.lanes, block.vectors
        assert isinstance(self.depth, int)
        pairs = self.depth // 2

        def tile(first: Index, count: int, tops: Carried) -> Carried:
            keys = [build.index(build.plus(first, offset)) for offset in range(count)]
            sums = contract(
                build,
                self.how,
                count,
                vectors,
                (0, pairs),
                lambda d: [load_pair(build, block.keys, key, d) for key in keys],
                lambda d: [
                    build.vload(self.queries, [self.thread, d, 2 * n * lanes], 2 * lanes)
                    for n in range(vectors)
                ],
                split=split_for(self.build, self.machine.accumulators, count, vectors),
            )
            tops = list(tops)
            for key, row in zip(keys, sums):
                bias = None
                if self.mask is not None:
                    bias = build.splat(self.mask.one(block.batch, block.head, 0, key), lanes)
                for number, value in enumerate(row):
                    score = build.insert(arith.MulfOp(value, self.scale))
                    if self.mask is not None and bias is not None:
                        score = self.mask.apply(score, bias)
                    tops[number] = greater(build, score, tops[number])
                    build.vstore(score, self.scores, self._at(key, number * lanes))
            return tops

        rows = self.machine.rows(vectors)
        return over_tiles(build, self.key_count, rows, tile, [self.lowest] * vectors, hint="j")

    def _weigh(self, block: _Block, tops: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """Weights in place of scores; the sum of them for each query, before they are rounded."""
        build, lanes, vectors = self.build, self.how.lanes, block.vectors
        zero = build.constant(0, self.how.vector)
        words = VectorType(Float32Type(), [lanes])

        def weight(key: Index, number: int) -> SSAValue:
            score = build.vload(self.scores, self._at(key, number * lanes), lanes)
            return build.insert(math.ExpOp(build.insert(arith.SubfOp(score, tops[number]))))

        def put(pair: Index, number: int, first: SSAValue, second: SSAValue) -> None:
            both = build.insert(RoundPairsOp(first, second))
            value = build.insert(vector.BitcastOp(both, words))
            build.vstore(value, self.scores, self._at(pair, number * lanes))

        def two(pair: SSAValue, totals: Sequence[SSAValue]) -> list[SSAValue]:
            key = build.mul(pair, 2)
            made: list[SSAValue] = []
            for number in range(vectors):
                first, second = weight(key, number), weight(build.add(key, 1), number)
                put(pair, number, first, second)
                here = build.insert(arith.AddfOp(first, second))
                made.append(build.insert(arith.AddfOp(totals[number], here)))
            return made

        pairs, odd = self.key_pairs
        totals = build.reduce(0, pairs, 1, [zero] * vectors, two, hint="j")

        def last() -> list[SSAValue]:
            made: list[SSAValue] = []
            for number in range(vectors):
                only = weight(build.mul(pairs, 2), number)
                put(pairs, number, only, zero)
                made.append(build.insert(arith.AddfOp(totals[number], only)))
            return made

        if isinstance(odd, int):
            return last() if odd else totals
        there = build.compare("ne", odd, 0)
        return build.when(there, last, lambda: totals, [value.type for value in totals])

    def _mend(self, block: _Block) -> None:
        """Values that a query does not see are no part of its result."""
        build, keys = self.build, block.keys
        assert isinstance(keys, HeadRows)
        group = keys.leading[1]

        def weight(key: SSAValue, row: Index) -> SSAValue:
            """One half of a pair: bf16 are the upper bits of f32."""
            word = build.load(self.scores, self._at(build.floordiv(key, 2), row))
            bits = build.insert(arith.BitcastOp(word, i32))
            upper = build.insert(arith.AndIOp(bits, build.constant(-(1 << 16), i32)))
            lower = build.insert(arith.ShLIOp(bits, build.constant(16, i32)))
            odd = build.compare("ne", build.rem(key, 2), 0)
            half = build.insert(arith.SelectOp(odd, upper, lower))
            return build.insert(arith.BitcastOp(half, f32))

        results = Results(
            block.batch,
            group,
            block.count,
            (0, self.key_count),
            lambda row: (block.head, build.add(block.first, row)),
            weight,
            lambda row: build.load(self.scores, self._at(self._weight_rows, row)),
        )
        sums = Arithmetic(f32, self.how.lanes, self.how.fused)
        mend(build, sums, Hidden(build, self.mask, None), self.v, self.out, results)

    def _combine(self, block: _Block) -> None:
        """out[query, d] = sum of weights · values over pairs of keys, times the share."""
        build, lanes = self.build, self.how.lanes
        assert isinstance(self.size, int)
        assert isinstance(self.values.type, MemRefType)
        tile = self.values.type.get_shape()[-1] // 2
        for panel, first in enumerate(range(0, self.size, tile)):
            masks = [
                None if self.size - start >= lanes else build.mask(self.size - start, lanes)
                for start in range(first, min(first + tile, self.size), lanes)
            ]
            self._combine_columns(block, panel, first, masks)

    def _combine_columns(
        self, block: _Block, panel: int, column: int, masks: Sequence[SSAValue | None]
    ) -> None:
        build, lanes = self.build, self.how.lanes
        vectors = len(masks)
        kind = element_type(self.out.buffer)
        values = block.values

        def tile(first: Index, count: int, _: Carried) -> Carried:
            queries = [build.index(build.plus(first, offset)) for offset in range(count)]
            sums = contract(
                build,
                self.how,
                count,
                vectors,
                (0, self._weight_rows),
                lambda k: [build.load(self.scores, self._at(k, query)) for query in queries],
                lambda k: [
                    build.vload(values.buffer, values.at(panel, k, 2 * n * lanes), 2 * lanes)
                    for n in range(vectors)
                ],
                split=split_for(self.build, self.machine.accumulators, count, vectors),
            )
            for query, row in zip(queries, sums):
                share = build.load(self.scores, self._at(self._weight_rows, query))
                shares = build.splat(share, lanes)
                target = build.add(block.first, query)
                for number, (mask, total) in enumerate(zip(masks, row)):
                    value = convert(build, build.insert(arith.MulfOp(total, shares)), kind)
                    place = self.out.at(block.batch, block.head, target, column + number * lanes)
                    build.vstore(value, self.out.buffer, place, mask)
            return ()

        over_tiles(build, block.count, self.machine.rows(vectors), tile, hint="r")


def _product(build: LoopBuilder, a: Index, b: Index) -> Index:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if isinstance(a, int) and a == 1:
        return b
    return a if isinstance(b, int) and b == 1 else build.mul(a, b)
