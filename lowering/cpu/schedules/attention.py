"""The schedule of attention, for one block of queries of one head at a time.

The lanes of every vector are neighbouring queries, two vectors of them side by side where there are
so many, the rows are keys:

    queries[d, lane]  = scale · q[lane, d]                      transposed once for the block
    scores[key, lane] = sum over d of k[key, d] · queries[d, lane], masked;  top = max over keys
    scores[key, lane] = exp(scores[key, lane] - top[lane]);     total = sum over keys
                        (a power of two of scores that are so scaled, unless mathematics are strict)
    out[query, d]     = sum over keys of scores[key, query] · v[key, d] / total[query]

So keys and values are read where they lie, maximum and sum run along rows without crossing lanes,
and a number of keys that fits no vector needs no mask. Lanes beyond the last query repeat it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import log

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.arith import IndexCastOp
from openinfer.dialects.nn import AttentionOp, ThreadOp
from openinfer.lowering.cpu.machine import Machine
from openinfer.lowering.cpu.schedules.attention_hidden import Hidden, Results, mend
from openinfer.lowering.cpu.schedules.attention_mask import Mask, Sight
from openinfer.lowering.cpu.schedules.attention_operands import Heads
from openinfer.lowering.cpu.schedules.attention_step import OneQuery, fits_one_query
from openinfer.lowering.cpu.schedules.microkernel import (
    Arithmetic,
    Carried,
    contract,
    over_tiles,
    split_for,
)
from openinfer.lowering.cpu.schedules.packing import transpose_into
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import accumulator_of, convert
from openinfer.lowering.kernels.numeric import (
    INF,
    compare_floats,
    element_type,
    greater,
    select,
)
from openinfer.lowering.kernels.scratch import scratch_of


@dataclass(frozen=True)
class Block:
    """A block of queries of one head: where it is, and which keys it may attend to."""

    batch: Index
    head: Index
    group: Index
    """The head of keys and values."""
    first: SSAValue
    count: Index
    """Queries that exist; the vectors may hold more."""
    vectors: int
    keys: tuple[Index, Index]
    position: SSAValue | None
    """The position of the first query among the keys, for causal and windowed attention."""


class Attention:
    """Emits the loops of one `nn.attention` on buffers."""

    def __init__(self, build: LoopBuilder, op: AttentionOp, machine: Machine) -> None:
        self.build = build
        self.op = op
        self.machine = machine
        layouts = [layout.data for layout in op.layouts]
        self.q, self.k, self.v = (Heads(b, n) for b, n in zip(op.inputs[:3], layouts))
        self.out = Heads(op.outs[0], layouts[3])
        self.queries, self.scores = scratch_of(op, "queries", "scores")
        kind = accumulator_of(element_type(op.inputs[0]))
        assert isinstance(self.scores.type, MemRefType)
        width = self.scores.type.get_shape()[-1]
        lanes = min(width, machine.lanes(kind))
        self.how = Arithmetic(kind, lanes, machine.fused)
        self.vectors = width // lanes
        """Vectors of queries that a block has at most."""
        self.zero = build.index(0)
        self.thread = build.insert(ThreadOp())
        self.lowest = build.constant(-INF, self.how.vector)
        # Scores are counted in units of log 2 where weights may be powers of two: they are quicker.
        self.unit = None if build.facts.strict_math else 1 / log(2)
        self.scale = build.constant(op.scale.value.data * (self.unit or 1), self.how.vector)
        self.query_count = build.dim(self.q.buffer, self.q.axis("l"))
        self.key_count = build.dim(self.k.buffer, self.k.axis("l"))
        self.mask = Mask(build, op.mask, kind) if op.mask is not None else None
        self.sight = Sight(
            build,
            op.causal is not None,
            self._window(),
            self.query_count,
            self.key_count,
            self.how.lanes,
        )

    def _window(self) -> Index | None:
        """How many keys a query sees, when that is limited."""
        if self.op.window is not None:
            return self.op.window.value.data
        if self.op.reach is None:
            return None
        return self.build.insert(IndexCastOp(self.build.load(self.op.reach, []), IndexType()))

    def emit(self) -> None:
        """One query has a form of its own; the run decides where it alone knows their number."""
        if not self._may_be_one():
            self._blocks()
        elif self.query_count == 1:
            self._one_query()
        else:
            one = self.build.compare("eq", self.query_count, 1)
            self.build.when(one, self._one_query, self._blocks)

    def _may_be_one(self) -> bool:
        # The form for one query adds up along the lanes, and from several of them.
        if self.build.facts.strict_math or (
            isinstance(self.query_count, int) and self.query_count != 1
        ):
            return False
        return fits_one_query(self.q, self.k, self.v, self.build, self.how.lanes)

    def _one_query(self) -> None:
        keys: tuple[Index, Index] = (0, self.key_count)
        if self.sight.bounded:
            keys = self.sight.keys(self.sight.position(self.zero), 1)
        OneQuery(
            self.build,
            self.op,
            self.machine,
            self.how,
            (self.q, self.k, self.v, self.out),
            self.scores,
            self.thread,
            self.mask,
            keys,
        ).emit()

    def _blocks(self) -> None:
        """All heads of all batches, in one loop that threads share; each has scratch of its own."""
        build = self.build
        batches = build.dim(self.q.buffer, self.q.axis("b"))
        heads = build.dim(self.q.buffer, self.q.axis("h"))
        groups = build.dim(self.k.buffer, self.k.axis("h"))

        def head(batch: SSAValue, index: SSAValue) -> None:
            group: Index = index
            if not (isinstance(heads, int) and heads == groups):
                shared = build.insert(arith.DivUIOp(build.index(heads), build.index(groups)))
                group = build.floordiv(index, shared)
            self._head(batch, index, group)

        def place(number: SSAValue) -> None:
            head(build.floordiv(number, heads), build.rem(number, heads))

        if batches == 1:
            build.loop(0, heads, 1, lambda h: head(self.zero, h), parallel=True, hint="h")
        else:
            build.loop(0, build.mul(batches, heads), 1, place, parallel=True, hint="bh")

    def _head(self, batch: Index, head: Index, group: Index) -> None:
        """Blocks of as many vectors as there may be, and a last one of fewer where that is enough."""
        build, lanes, known = self.build, self.how.lanes, self.query_count
        width = self.vectors * lanes

        def block(first: SSAValue, count: Index, vectors: int) -> None:
            position = self.sight.position(first) if self.sight.bounded else None
            keys = (0, self.key_count) if position is None else self.sight.keys(position, count)
            self._block(Block(batch, head, group, first, count, vectors, keys, position))

        def next_block(first: SSAValue) -> None:
            count = build.minimum(build.minus(self.query_count, first), width)
            rest = known % width if isinstance(known, int) else 1
            if self.vectors == 1 or not 0 < rest <= lanes:
                block(first, count, self.vectors)
                return
            many = build.compare("sgt", count, lanes)
            build.when(
                many,
                lambda: block(first, count, self.vectors),
                lambda: block(first, build.minimum(count, lanes), 1),
            )

        if isinstance(known, int) and 0 < known <= width:
            block(self.zero, known, -(-known // lanes))
        else:
            build.loop(0, self.query_count, width, next_block, hint="i")

    # One block -----------------------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        build = self.build
        for number in range(block.vectors):
            rows = self._clamped_queries(block, number)
            self._load_queries(block, number, rows)
            if self.mask is not None and self.mask.varies_by_query:
                # The scores are added to what the mask adds to them.
                self.mask.transposed(
                    block.batch, block.head, rows, block.keys, partial(self._put, number)
                )
        tops = self._score(block)
        zero, one = build.constant(0, self.how.vector), build.constant(1, self.how.vector)
        if self.op.nan_rows is None:
            # A query that may attend to nothing has only -inf: its weights are 0, not NaN.
            tops = [
                select(build, compare_floats(build, "oeq", top, self.lowest), zero, top)
                for top in tops
            ]
        for number, total in enumerate(self._weigh(block, tops)):
            if self.op.nan_rows is None:
                total = select(build, compare_floats(build, "oeq", total, zero), one, total)
            # The queries themselves are not needed any more: their first row takes the shares.
            share = build.insert(arith.DivfOp(one, total))
            build.vstore(share, self.queries, self._at(self.zero, number))
        self._combine(block)
        self._mend(block)

    def _at(self, row: SSAValue, number: int) -> list[Index]:
        """The place of vector `number` in a row of a scratch buffer."""
        return [self.thread, row, number * self.how.lanes]

    def _clamped_queries(self, block: Block, number: int) -> list[Index]:
        """The query of each lane of a vector; lanes beyond the last one repeat it."""
        build, lanes = self.build, self.how.lanes
        last = build.minus(self.query_count, 1)
        places = [build.add(block.first, number * lanes + lane) for lane in range(lanes)]
        return [build.minimum(place, last) for place in places]

    def _put(self, number: int, value: SSAValue, key: SSAValue) -> None:
        """Stores the scores or weights of one key."""
        self.build.vstore(value, self.scores, self._at(key, number))

    def _load_queries(self, block: Block, number: int, rows: Sequence[Index]) -> None:
        """queries[d, lane] = scale · q[lane, d], for one vector of queries."""
        build, q = self.build, self.q

        def read(row: Index, column: SSAValue, width: int | None) -> SSAValue:
            place = q.at(block.batch, block.head, row, column)
            if width is None:
                return convert(build, build.load(q.buffer, place), self.how.kind)
            return convert(build, build.vload(q.buffer, place, width), self.how.kind)

        def write(value: SSAValue, column: SSAValue) -> None:
            scaled = build.insert(arith.MulfOp(value, self.scale))
            build.vstore(scaled, self.queries, self._at(column, number))

        transpose_into(build, rows, (0, build.dim(q.buffer, 3)), read, write)

    def _score(self, block: Block) -> Sequence[SSAValue]:
        """Scores against all keys of the block; the largest one of each query."""
        build, k, lanes, vectors = self.build, self.k, self.how.lanes, block.vectors
        positions = [
            None
            if block.position is None
            else self.sight.positions(build.add(block.position, number * lanes))
            for number in range(vectors)
        ]

        def tile(first: Index, count: int, tops: Carried) -> Carried:
            keys = [build.index(build.plus(first, offset)) for offset in range(count)]
            sums = contract(
                build,
                self.how,
                count,
                vectors,
                (0, build.dim(k.buffer, 3)),
                lambda d: [
                    build.load(k.buffer, k.at(block.batch, block.group, key, d)) for key in keys
                ],
                lambda d: [
                    build.vload(self.queries, self._at(d, number), lanes)
                    for number in range(vectors)
                ],
                split=split_for(self.build, self.machine.accumulators, count, vectors),
            )
            tops = list(tops)
            for key, scores in zip(keys, sums):
                bias = self._bias(block, key)
                for number, score in enumerate(scores):
                    score = self._masked(number, key, score, bias, positions[number])
                    tops[number] = greater(build, score, tops[number])
                    self._put(number, score, key)
            return tops

        start, stop = block.keys
        extent = build.minus(stop, start)
        rows, lowest = self.machine.rows(vectors), [self.lowest] * vectors
        return over_tiles(build, extent, rows, tile, lowest, start=start, hint="j")

    def _bias(self, block: Block, key: SSAValue) -> SSAValue | None:
        """What the mask says of a key, where it says the same for all queries."""
        if self.mask is None or self.mask.varies_by_query:
            return None
        bias = self.mask.one(block.batch, block.head, 0, key)
        return self.build.splat(bias, self.how.lanes)

    def _masked(
        self,
        number: int,
        key: SSAValue,
        score: SSAValue,
        bias: SSAValue | None,
        positions: SSAValue | None,
    ) -> SSAValue:
        """The scores of one key, -inf where it is out of sight."""
        if self.mask is not None:
            if bias is None:
                bias = self.build.vload(self.scores, self._at(key, number), self.how.lanes)
            score = self.mask.apply(score, bias, self.unit)
        return score if positions is None else self.sight.apply(score, key, positions)

    def _weigh(self, block: Block, tops: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """scores = exp(scores - top); the sum of them for each query."""
        build = self.build
        power = math.ExpOp if self.unit is None else math.Exp2Op

        def row(key: SSAValue, totals: Sequence[SSAValue]) -> list[SSAValue]:
            sums: list[SSAValue] = []
            for number, (top, total) in enumerate(zip(tops, totals, strict=True)):
                score = build.vload(self.scores, self._at(key, number), self.how.lanes)
                weight = build.insert(power(build.insert(arith.SubfOp(score, top))))
                self._put(number, weight, key)
                sums.append(build.insert(arith.AddfOp(total, weight)))
            return sums

        start, stop = block.keys
        zero = build.constant(0, self.how.vector)
        return build.reduce(start, stop, 1, [zero] * len(tops), row, hint="j")

    def _combine(self, block: Block) -> None:
        """out[query, d] = sum of scores[key, query] · v[key, d] over keys, times the share."""
        build, v, lanes = self.build, self.v, self.how.lanes
        size = build.dim(v.buffer, 3)
        width = 2 * lanes
        if not isinstance(size, int):
            self._combine_any(block, size, width)
            return
        whole = size // width * width
        rest = size - whole
        none: list[SSAValue | None] = [None] * (width // lanes)

        if whole == width:
            self._combine_columns(block, self.zero, none)
        elif whole:
            build.loop(0, whole, width, lambda d: self._combine_columns(block, d, none), hint="d")
        if rest:
            masks = [
                None if rest - first >= lanes else build.mask(rest - first, lanes)
                for first in range(0, rest, lanes)
            ]
            self._combine_columns(block, build.index(whole), masks)

    def _mend(self, block: Block) -> None:
        """Values that a query does not see are no part of its result."""
        build, zero = self.build, self.zero
        results = Results(
            block.batch,
            block.group,
            block.count,
            block.keys,
            lambda row: (block.head, build.add(block.first, row)),
            lambda key, row: build.load(self.scores, [self.thread, key, row]),
            lambda row: build.load(self.queries, [self.thread, zero, row]),
        )
        hidden = Hidden(build, self.mask, self.sight)
        mend(build, self.how, hidden, self.v, self.out, results)

    def _combine_any(self, block: Block, size: SSAValue, width: int) -> None:
        """The same for a head size that only the step knows."""
        build, lanes = self.build, self.how.lanes
        none: list[SSAValue | None] = [None] * (width // lanes)
        whole = build.sub(size, build.rem(size, width))
        build.loop(0, whole, width, lambda d: self._combine_columns(block, d, none), hint="d")
        rest = build.sub(size, whole)
        masks: list[SSAValue | None] = [
            build.mask(build.minimum(build.maximum(build.minus(rest, first), 0), lanes), lanes)
            for first in range(0, width, lanes)
        ]
        self._combine_columns(block, whole, masks)

    def _combine_columns(
        self, block: Block, column: SSAValue, masks: Sequence[SSAValue | None]
    ) -> None:
        build, v, lanes = self.build, self.v, self.how.lanes
        starts = [build.add(column, n * lanes) for n in range(len(masks))]

        def tile(first: Index, count: int, _: Carried) -> Carried:
            queries = [build.index(build.plus(first, offset)) for offset in range(count)]

            def elements(key: SSAValue) -> list[SSAValue]:
                return [build.load(self.scores, [self.thread, key, query]) for query in queries]

            def columns(key: SSAValue) -> list[SSAValue]:
                return [
                    build.vload(v.buffer, v.at(block.batch, block.group, key, start), lanes, mask)
                    for start, mask in zip(starts, masks)
                ]

            split = split_for(self.build, self.machine.accumulators, count, len(masks))
            sums = contract(
                build, self.how, count, len(masks), block.keys, elements, columns, split=split
            )
            for query, row in zip(queries, sums):
                share = build.load(self.queries, [self.thread, self.zero, query])
                shares = build.splat(share, lanes)
                target = build.add(block.first, query)
                for start, mask, total in zip(starts, masks, row):
                    value = build.insert(arith.MulfOp(total, shares))
                    value = convert(build, value, element_type(self.out.buffer))
                    place = self.out.at(block.batch, block.head, target, start)
                    build.vstore(value, self.out.buffer, place, mask)
            return ()

        over_tiles(build, block.count, self.machine.rows(len(masks)), tile, hint="r")
