"""The schedule of attention for a single query: one step of a decoder over its cached keys.

The lanes of a vector lie along the head size, where keys and values are read from front to back:

    for each group of heads                                       (parallel)
      for each block of keys, one for each lane
        for each head: scores[head, keys] = sum over d of scale · q[head, d] · k[keys, d], masked
      for each head: scores = exp(scores - top) / their sum
      for some heads: out[heads, d] = sum over keys of scores[heads, key] · v[key, d]

All heads of a group meet a block of keys while it is near. Reading the groups of a position together,
in the order of memory, was measured to gain nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, math
from xdsl.ir import SSAValue

from openinfer.dialects.nn import AttentionOp
from openinfer.lowering.cpu.machine import Machine
from openinfer.lowering.cpu.schedules.attention_hidden import Results, mend
from openinfer.lowering.cpu.schedules.attention_mask import Mask
from openinfer.lowering.cpu.schedules.microkernel import (
    Arithmetic,
    Carried,
    contract,
    over_tiles,
    split_for,
)
from openinfer.lowering.cpu.vector_width import bits_of
from openinfer.lowering.kernels.attention_sight import Heads, Hidden, Scores
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.lane_sums import lane_sums
from openinfer.lowering.kernels.numeric import (
    INF,
    compare_floats,
    element_type,
    greater,
    reduction,
    select,
)
from openinfer.lowering.kernels.runs import collapse

MOST_VECTORS = 16
"""Vectors of a head: with more of them the code of a block of keys, which is not a loop, gets long."""
COLUMNS_AT_ONCE = 4
"""Vectors of a value that are summed together."""


def fits_one_query(q: Heads, k: Heads, v: Heads, build: LoopBuilder, lanes: int) -> bool:
    """Whether heads are short enough for this form, and their numbers are known."""
    counts = [build.dim(x.buffer, x.axis("h")) for x in (q, k)]
    if not all(isinstance(count, int) and count > 0 for count in counts):
        return False
    sizes = [build.dim(x.buffer, 3) for x in (k, v)]
    return all(isinstance(size, int) and 0 < size <= MOST_VECTORS * lanes for size in sizes)


@dataclass(frozen=True)
class _Part:
    """Some heads of one group; each has a row of scores."""

    batch: Index
    group: Index
    """The head of keys and values."""
    head: Index
    """The first head of queries."""
    heads: Index


Row = Callable[[Index, Index], None]
"""Handles one head: (its number, its row of scores)."""


@dataclass
class OneQuery:
    """Emits the loops of an attention whose queries have length 1."""

    build: LoopBuilder
    op: AttentionOp
    machine: Machine
    how: Arithmetic
    operands: tuple[Heads, Heads, Heads, Heads]
    """Queries, keys, values, the result."""
    scratch: SSAValue
    """`[threads, keys, lanes]`, seen as a row of scores for each head of a part."""
    thread: SSAValue
    mask: Mask | None
    keys: tuple[Index, Index]
    """The range of keys that the query sees."""

    def __post_init__(self) -> None:
        build = self.build
        q, k = self.operands[:2]
        self.scores = collapse(build, self.scratch, [[0], [1, 2]])
        self.key_count = build.dim(k.buffer, k.axis("l"))
        heads, groups = build.dim(q.buffer, q.axis("h")), build.dim(k.buffer, k.axis("h"))
        assert isinstance(heads, int)
        assert isinstance(groups, int)
        self.groups, self.each = groups, heads // groups
        self.score = Scores(build, self.op, self.how.kind)

    def emit(self) -> None:
        """All groups of all batches, in one loop that threads share."""
        build, q = self.build, self.operands[0]
        batches = build.dim(q.buffer, q.axis("b"))

        def one(number: SSAValue) -> None:
            if batches == 1:
                self._group(build.index(0), number)
            else:
                groups = self.groups
                self._group(build.floordiv(number, groups), build.rem(number, groups))

        known = isinstance(batches, int)
        count = batches * self.groups if known else build.mul(batches, self.groups)
        build.loop(0, count, 1, one, parallel=True, hint="g")

    def _group(self, batch: Index, group: Index) -> None:
        """As many heads of a group at a time as there is room for scores."""
        build, lanes = self.build, self.how.lanes
        first = group if self.each == 1 else build.mul(group, self.each)
        if self.each <= lanes:
            self._part(_Part(batch, group, first, self.each))
            return

        def some(offset: SSAValue) -> None:
            count = build.minimum(build.minus(self.each, offset), lanes)
            self._part(_Part(batch, group, build.add(first, offset), count))

        build.loop(0, self.each, lanes, some, hint="h")

    def _part(self, part: _Part) -> None:
        build = self.build
        start, stop = self.keys
        many = build.compare("sge", build.minus(stop, start), self.how.lanes)
        build.when(many, lambda: self._score_blocks(part), lambda: self._score(part))
        self._each_head(part, lambda _, row: self._weigh(row))
        self._combine(part)
        self._mend(part)

    def _each_head(self, part: _Part, body: Row) -> None:
        build = self.build
        if part.heads == 1:
            body(part.head, 0)
        else:
            build.loop(
                0, part.heads, 1, lambda row: body(build.plus(part.head, row), row), hint="r"
            )

    def _at(self, row: Index, key: Index) -> list[Index]:
        """Where the score of a row and key lies."""
        build = self.build
        if row == 0:
            return [self.thread, key]
        return [self.thread, build.add(build.mul(row, self.key_count), key)]

    # Scores ----------------------------------------------------------------------------------

    def _query(self, part: _Part, head: Index) -> list[SSAValue]:
        """scale · q of one head."""
        build, how, q = self.build, self.how, self.operands[0]
        scale = build.constant(self.score.factor, how.vector)
        values: list[SSAValue] = []
        for start, mask in self._columns(q):
            place = q.at(part.batch, head, 0, start)
            value = how.widen(build, build.vload(q.buffer, place, how.lanes, mask))
            values.append(build.insert(arith.MulfOp(value, scale)))
        return values

    def _columns(self, heads: Heads) -> list[tuple[int, SSAValue | None]]:
        """The first column of each vector of a head; a mask for the one that is filled in part."""
        build, lanes = self.build, self.how.lanes
        size = build.dim(heads.buffer, 3)
        assert isinstance(size, int)
        return [
            (start, None if size - start >= lanes else build.mask(size - start, lanes))
            for start in range(0, size, lanes)
        ]

    def _products(self, part: _Part, key: SSAValue, query: Sequence[SSAValue]) -> SSAValue:
        """A vector whose lanes add up to the score of one key."""
        build, how, k = self.build, self.how, self.operands[1]
        total: SSAValue | None = None
        for (start, mask), left in zip(self._columns(k), query, strict=True):
            place = k.at(part.batch, part.group, key, start)
            right = how.widen(build, build.vload(k.buffer, place, how.lanes, mask))
            if total is None:
                total = build.insert(arith.MulfOp(left, right))
            elif how.fused:
                total = build.fma(left, right, total)
            else:
                total = build.insert(arith.AddfOp(total, build.insert(arith.MulfOp(left, right))))
        assert total is not None
        return total

    def _score_blocks(self, part: _Part) -> None:
        """As many keys at a time as a vector has lanes; the last block overlaps the one before."""
        build, how, lanes = self.build, self.how, self.how.lanes
        start, stop = self.keys
        last = build.minus(stop, lanes)

        def block(first: SSAValue) -> None:
            first = build.index(build.minimum(first, last))

            def one(head: Index, row: Index) -> None:
                query = self._query(part, head)
                sums = lane_sums(
                    build,
                    lanes,
                    lambda lane: self._products(part, build.add(first, lane), query),
                    bits_of(how.kind),
                )
                sums = self._masked(part, head, sums, first)
                build.vstore(sums, self.scores, self._at(row, first))

            self._each_head(part, one)

        build.loop(start, stop, lanes, block, hint="j")

    def _masked(self, part: _Part, head: Index, score: SSAValue, first: SSAValue) -> SSAValue:
        """The scores of neighbouring keys from their sums, -inf for those that are masked."""
        build, mask, lanes = self.build, self.mask, self.how.lanes
        score = self.score.capped(score)
        if mask is None:
            return score
        if mask.shape[3] == 1:
            bias = build.splat(mask.one(part.batch, head, 0, 0), lanes)
        else:
            place = mask.place(part.batch, head, 0, first)
            bias = mask.bias(build.vload(mask.buffer, place, lanes))
        return mask.apply(score, bias)

    def _score(self, part: _Part) -> None:
        """Key by key, where there are too few for a block."""
        build = self.build

        def one(head: Index, row: Index) -> None:
            query = self._query(part, head)

            def single(key: SSAValue) -> None:
                score = reduction(build, "add", self._products(part, key, query))
                score = self.score.capped(score)
                if self.mask is not None:
                    score = self.mask.apply(score, self.mask.one(part.batch, head, 0, key))
                build.store(score, self.scores, self._at(row, key))

            build.loop(*self.keys, 1, single, hint="j")

        self._each_head(part, one)

    # Weights ---------------------------------------------------------------------------------

    def _weigh(self, row: Index) -> None:
        """scores = exp(scores - top) / sum, along the keys of one head."""
        build, how, lanes = self.build, self.how, self.how.lanes
        start, stop = self.keys
        whole = build.plus(start, build.round_down(build.minus(stop, start), lanes))
        mask = build.mask(build.minus(stop, whole), lanes)
        lowest = build.constant(-INF, how.vector)
        zero = build.constant(0, how.vector)

        def load(key: Index) -> SSAValue:
            return build.vload(self.scores, self._at(row, key), lanes)

        def rest(key: Index, instead: SSAValue) -> SSAValue:
            value = build.vload(self.scores, self._at(row, key), lanes, mask)
            return select(build, mask, value, instead)

        (tops,) = build.reduce(
            start,
            whole,
            lanes,
            [rest(whole, lowest)],
            lambda key, old: [greater(build, load(key), old[0])],
            hint="j",
        )
        top = reduction(build, "maxnumf", tops)
        none = build.constant(0, how.kind)
        if self.op.nan_rows is None:
            # A query that may attend to nothing has only -inf: its weights are 0, not NaN.
            alone = compare_floats(build, "oeq", top, build.constant(-INF, how.kind))
            top = select(build, alone, none, top)
        shift = build.splat(top, lanes)

        def weight(score: SSAValue) -> SSAValue:
            return build.insert(math.ExpOp(build.insert(arith.SubfOp(score, shift))))

        def step(key: SSAValue, old: Sequence[SSAValue]) -> list[SSAValue]:
            value = weight(load(key))
            build.vstore(value, self.scores, self._at(row, key))
            return [build.insert(arith.AddfOp(old[0], value))]

        last = select(build, mask, weight(rest(whole, lowest)), zero)
        build.vstore(last, self.scores, self._at(row, whole), mask)
        (totals,) = build.reduce(start, whole, lanes, [last], step, hint="j")
        total = reduction(build, "add", totals)
        one = build.constant(1, how.kind)
        if self.op.nan_rows is None:
            empty = compare_floats(build, "oeq", total, none)
            total = select(build, empty, one, total)
        shares = build.splat(build.insert(arith.DivfOp(one, total)), lanes)

        def scaled(key: SSAValue) -> None:
            value = build.insert(arith.MulfOp(load(key), shares))
            build.vstore(value, self.scores, self._at(row, key))

        build.loop(start, whole, lanes, scaled, hint="j")
        value = build.insert(arith.MulfOp(last, shares))
        build.vstore(value, self.scores, self._at(row, whole), mask)

    # Values ----------------------------------------------------------------------------------

    def _mend(self, part: _Part) -> None:
        """Values that a query does not see are no part of its result."""
        build, v, out = self.build, *self.operands[2:]
        results = Results(
            part.batch,
            part.group,
            part.heads,
            self.keys,
            lambda row: (build.plus(part.head, row), 0),
            lambda key, row: build.load(self.scores, self._at(row, key)),
        )
        mend(build, self.how, Hidden(build, self.mask, None), v, out, results)

    def _combine(self, part: _Part) -> None:
        columns = self._columns(self.operands[2])
        for first in range(0, len(columns), COLUMNS_AT_ONCE):
            self._combine_columns(part, columns[first : first + COLUMNS_AT_ONCE])

    def _combine_columns(self, part: _Part, columns: Sequence[tuple[int, SSAValue | None]]) -> None:
        build, how = self.build, self.how
        v, out = self.operands[2:]

        def tile(first: Index, rows: int, _: Carried) -> Carried:
            places = [build.plus(first, offset) for offset in range(rows)]

            def weights(key: SSAValue) -> list[SSAValue]:
                return [build.load(self.scores, self._at(row, key)) for row in places]

            def values(key: SSAValue) -> list[SSAValue]:
                return [
                    build.vload(v.buffer, v.at(part.batch, part.group, key, start), how.lanes, mask)
                    for start, mask in columns
                ]

            split = split_for(self.build, self.machine.accumulators, rows, len(columns))
            sums = contract(build, how, rows, len(columns), self.keys, weights, values, split=split)
            for row, line in zip(places, sums):
                for (start, mask), value in zip(columns, line):
                    value = convert(build, value, element_type(out.buffer))
                    place = out.at(part.batch, build.plus(part.head, row), 0, start)
                    build.vstore(value, out.buffer, place, mask)
            return ()

        over_tiles(build, part.heads, self.machine.rows(len(columns)), tile, hint="r")
