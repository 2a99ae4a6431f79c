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

`pair_attention.py` is the same flow for pairs of bf16.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from math import log
from typing import ClassVar

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.arith import IndexCastOp
from openinfer.dialects.nn import AttentionOp, ThreadOp
from openinfer.lowering.cpu.machine import Machine
from openinfer.lowering.cpu.schedules.attention_hidden import Results, mend
from openinfer.lowering.cpu.schedules.attention_mask import Mask, Sight
from openinfer.lowering.cpu.schedules.attention_operands import (
    HeadsInBlocks,
    UnpackedHead,
    unpacked,
)
from openinfer.lowering.cpu.schedules.attention_step import OneQuery, fits_one_query
from openinfer.lowering.cpu.schedules.microkernel import (
    Arithmetic,
    Carried,
    Operand,
    contract,
    over_tiles,
    split_for,
)
from openinfer.lowering.cpu.schedules.packing import transpose_into
from openinfer.lowering.kernels.attention_sight import Heads, Hidden, Scores
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import accumulator_of, convert
from openinfer.lowering.kernels.numeric import (
    INF,
    compare_floats,
    element_type,
    greater,
    select,
)
from openinfer.lowering.kernels.runs import Extent
from openinfer.lowering.kernels.scratch import scratch_of
from openinfer.runtime.quick_dataclass import dataclass


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

    arithmetic: ClassVar[type[Arithmetic]] = Arithmetic
    shares_blocks: ClassVar[bool] = False
    """Whether threads share the blocks of a head, instead of heads."""

    def __init__(self, build: LoopBuilder, op: AttentionOp, machine: Machine) -> None:
        self.build = build
        self.op = op
        self.machine = machine
        layouts = [layout.data for layout in op.layouts]
        self.q, self.k, self.v = (_heads(op, number) for number in range(3))
        self.out = Heads(op.outs[0], layouts[3])
        self.queries, self.scores = scratch_of(op, "queries", "scores")
        kind = accumulator_of(element_type(op.inputs[0]))
        assert isinstance(self.scores.type, MemRefType)
        width = self.scores.type.get_shape()[-1]
        lanes = min(width, machine.lanes(kind))
        self.how = self.arithmetic(kind, lanes, machine.fused)
        self.width, self.vectors = width, width // lanes
        """Queries, and vectors of them, that a block has at most."""
        self.zero = build.index(0)
        self.thread = build.insert(ThreadOp())
        self.lowest = build.constant(-INF, self.how.vector)
        # Scores are counted in units of log 2 where weights may be powers of two: they are quicker.
        self.unit = None if build.facts.strict_math else 1 / log(2)
        self.score = Scores(build, op, kind, self.unit or 1)
        self.scale = build.constant(self.score.factor, self.how.vector)
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
            self.queries,
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
        blocks = build.ceil_div(self.query_count, self.width) if self.shares_blocks else 1

        def task(number: SSAValue) -> None:
            first = None
            if blocks != 1:
                first = build.mul(build.rem(number, blocks), self.width)
                number = build.floordiv(number, blocks)
            batch, head = self.zero, number
            if batches != 1:
                batch, head = build.floordiv(number, heads), build.rem(number, heads)
            group: Index = head
            if not (isinstance(heads, int) and heads == groups):
                shared = build.insert(arith.DivUIOp(build.index(heads), build.index(groups)))
                group = build.floordiv(head, shared)
            with self._unpacked(batch, group):
                self._head(batch, head, group, first)

        tasks = Extent((batches, heads, blocks)).value(build)
        build.loop(0, tasks, 1, task, parallel=True, hint="h" if batches == 1 else "bh")

    @contextmanager
    def _unpacked(self, batch: Index, group: Index) -> Generator[None]:
        """Keys and values in blocks are unpacked once for all queries of a head."""
        build, heads = self.build, (self.k, self.v)
        if self.op.block is None:
            yield
            return
        keys: tuple[Index, Index] = (0, self.key_count)
        if self.sight.bounded:
            keys = self.sight.keys(self.sight.position(self.zero), self.query_count)
        rows = [
            unpacked(
                build,
                one,
                (batch, group),
                keys,
                UnpackedHead(scratch_of(self.op, name)[0], one.layout, self.thread),
                self.how.lanes,
            )
            if isinstance(one, HeadsInBlocks)
            else one
            for one, name in zip(heads, ("unpacked_keys", "unpacked_values"), strict=True)
        ]
        self.k, self.v = rows
        yield
        self.k, self.v = heads

    def _head(self, batch: Index, head: Index, group: Index, only: SSAValue | None) -> None:
        """Blocks of as many vectors as there may be, and a last one of fewer where that is enough.

        With `only` the block that begins there.
        """
        build, lanes, known = self.build, self.how.lanes, self.query_count
        width = self.width

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

        if only is not None:
            next_block(only)
        elif isinstance(known, int) and 0 < known <= width:
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

    @property
    def _depth(self) -> Index:
        """Steps of the sum that a score is."""
        return self.k.size(self.build)

    def _key(self, block: Block, key: SSAValue, d: SSAValue) -> SSAValue:
        """What step `d` of a score multiplies queries by."""
        k = self.k
        return self.build.load(k.buffer, k.at(block.batch, block.group, key, d))

    def _score(self, block: Block) -> Sequence[SSAValue]:
        """Scores against all keys of the block; the largest one of each query."""
        build, lanes, vectors = self.build, self.how.lanes, block.vectors
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
                (0, self._depth),
                lambda d: [self._key(block, key, d) for key in keys],
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
        """The scores of one key from its sums, -inf where it is out of sight."""
        score = self.score.capped(score)
        if self.mask is not None:
            if bias is None:
                bias = self.build.vload(self.scores, self._at(key, number), self.how.lanes)
            score = self.mask.apply(score, bias, self.unit)
        return score if positions is None else self.sight.apply(score, key, positions)

    def _weigh(self, block: Block, tops: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """scores = exp(scores - top); the sum of them for each query."""
        start, stop = block.keys
        zero = self.build.constant(0, self.how.vector)
        return self.build.reduce(
            start,
            stop,
            1,
            [zero] * len(tops),
            lambda key, totals: self._weigh_keys(key, [key], tops, totals),
            hint="j",
        )

    def _weigh_keys(
        self,
        row: SSAValue,
        keys: Sequence[SSAValue],
        tops: Sequence[SSAValue],
        totals: Sequence[SSAValue],
    ) -> list[SSAValue]:
        """Makes `row` of the weights from the scores of `keys`, and adds them to the totals."""
        build = self.build
        power = math.ExpOp if self.unit is None else math.Exp2Op
        sums: list[SSAValue] = []
        for number, (top, total) in enumerate(zip(tops, totals, strict=True)):
            weights: list[SSAValue] = []
            for key in keys:
                score = build.vload(self.scores, self._at(key, number), self.how.lanes)
                weights.append(build.insert(power(build.insert(arith.SubfOp(score, top)))))
            self._put(number, self._as_stored(weights), row)
            here = reduce(lambda a, b: build.insert(arith.AddfOp(a, b)), weights)
            sums.append(build.insert(arith.AddfOp(total, here)))
        return sums

    def _as_stored(self, weights: Sequence[SSAValue]) -> SSAValue:
        """The weights of a row, as they are multiplied."""
        (weight,) = weights
        return weight

    def _weight(self, key: SSAValue, query: Index) -> SSAValue:
        """One weight."""
        return self.build.load(self.scores, [self.thread, key, query])

    def _weight_rows(self, block: Block) -> tuple[Index, Index]:
        return block.keys

    def _values(
        self, block: Block, starts: Sequence[SSAValue], masks: Sequence[SSAValue | None]
    ) -> Operand:
        """The columns of values that a row of the weights meets."""
        build, v = self.build, self.v
        return lambda key: [
            build.vload(v.buffer, v.at(block.batch, block.group, key, start), self.how.lanes, mask)
            for start, mask in zip(starts, masks)
        ]

    def _combine(self, block: Block) -> None:
        """out[query, d] = sum of scores[key, query] · v[key, d] over keys, times the share."""
        build, lanes = self.build, self.how.lanes
        size = self.v.size(build)
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
            self._weight,
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
        build, lanes = self.build, self.how.lanes
        starts = [build.add(column, n * lanes) for n in range(len(masks))]

        def tile(first: Index, count: int, _: Carried) -> Carried:
            queries = [build.index(build.plus(first, offset)) for offset in range(count)]

            sums = contract(
                build,
                self.how,
                count,
                len(masks),
                self._weight_rows(block),
                lambda row: [
                    build.load(self.scores, [self.thread, row, query]) for query in queries
                ],
                self._values(block, starts, masks),
                split=split_for(build, self.machine.accumulators, count, len(masks)),
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


def _heads(op: AttentionOp, number: int) -> Heads:
    """An operand of attention."""
    buffer, layout, block = op.inputs[number], op.layouts.data[number].data, op.blocks_of(number)
    return Heads(buffer, layout) if block is None else HeadsInBlocks(buffer, layout, block)
