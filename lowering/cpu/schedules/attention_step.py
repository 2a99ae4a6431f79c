"""The schedule of attention for a single query: one step of a decoder over its cached keys.

The lanes of a vector lie along the head size, where keys and values are read from front to back:

    for each bundle of groups of heads                            (parallel)
      for each block of keys, one for each lane
        for some heads: scores[heads, keys] = sum over d of scale · q[heads, d] · k[keys, d], masked
      for each head: scores = exp(scores - top) / their sum
      for each block of keys
        for some heads: out[heads, d] += sum over keys of scores[heads, key] · v[key, d]

A bundle is as many neighbouring groups as each thread has: what they read of a position lies together, and
a page of memory is visited once. As many heads as fill half of the registers meet a key while it is in
others: it is read, and widened, once for them. No processor foresees this order, so it is prefetched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.memref import PrefetchOp
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
from openinfer.lowering.cpu.schedules.streaming import LINE
from openinfer.lowering.cpu.vector_width import bits_of
from openinfer.lowering.kernels.attention_sight import Heads, Hidden, Scores
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.lane_sums import lane_sums, lanes_apart
from openinfer.lowering.kernels.numeric import (
    INF,
    compare_floats,
    element_type,
    greater,
    reduction,
    select,
)
from openinfer.lowering.kernels.runs import collapse
from openinfer.runtime.quick_dataclass import dataclass

MOST_VECTORS = 16
"""Vectors of a head: with more of them the code of a block of keys, which is not a loop, gets long."""
COLUMNS_AT_ONCE = 4
"""Vectors of a value that are summed together."""
BLOCK = 32
"""Keys whose values the groups of a bundle meet one after the other, for up to `LONG` keys; of more keys so
many times more, so that neither the sums of a block nor their sum are long."""
LONG = 4096
AHEAD = 32
"""How many positions before it is read a key or a value is prefetched."""
SECOND_CACHE = 2
"""Locality of a prefetch. In the first cache lines of a block would push each other out: rows that are a
power of two apart share its sets. Measured (Zen 4, one thread, 4096 positions of 8 heads of 64 from memory,
f32): 0.52 of the time of prefetches into the first one, which gained nothing."""


def fits_one_query(q: Heads, k: Heads, v: Heads, build: LoopBuilder, lanes: int) -> bool:
    """Whether heads are short enough for this form, and their numbers are known."""
    counts = [build.dim(x.buffer, x.axis("h")) for x in (q, k)]
    if not all(isinstance(count, int) and count > 0 for count in counts):
        return False
    sizes = [x.size(build) for x in (k, v)]
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
    row: Index
    """Of the scores of its first head."""


@dataclass(frozen=True)
class _Bundle:
    """Neighbouring groups, which meet the keys together: what they read of a position lies together."""

    batch: Index
    first: Index
    stop: Index


Parts = Callable[[Callable[["_Part"], None]], None]
"""Handles each part of a bundle."""
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
    """`[threads, keys, heads]`, seen as a row of scores for each head."""
    spare: SSAValue
    """`[threads, head size, heads]`, seen as a row of sums of values for each head."""
    thread: SSAValue
    mask: Mask | None
    keys: tuple[Index, Index]
    """The range of keys that the query sees."""

    def __post_init__(self) -> None:
        build = self.build
        q, k = self.operands[:2]
        self.scores = collapse(build, self.scratch, [[0], [1, 2]])
        self.sums = collapse(build, self.spare, [[0], [1, 2]])
        assert isinstance(self.scratch.type, MemRefType)
        self.room = self.scratch.type.get_shape()[-1]
        """Heads that there is room for."""
        self.key_count = build.dim(k.buffer, k.axis("l"))
        heads, groups = build.dim(q.buffer, q.axis("h")), build.dim(k.buffer, k.axis("h"))
        assert isinstance(heads, int)
        assert isinstance(groups, int)
        self.groups, self.each = groups, heads // groups
        self.score = Scores(build, self.op, self.how.kind)

    def emit(self) -> None:
        """All groups of all batches, in one loop that threads share.

        Each takes as many neighbouring groups as there are for it, whose scores have room.
        """
        build, q = self.build, self.operands[0]
        batches, groups = build.dim(q.buffer, q.axis("b")), self.groups
        most = max(1, self.room // self.each)
        share = build.floordiv(build.mul(batches, groups), build.dim(self.scratch, 0))
        some = build.minimum(build.maximum(share, 1), min(most, groups))
        bundles = build.ceil_div(groups, some)

        def one(number: SSAValue) -> None:
            batch = build.floordiv(number, bundles)
            first = build.mul(build.rem(number, bundles), some)
            stop = build.minimum(build.add(first, some), groups)
            if self.each > self.room:
                self._long_group(batch, first)
            else:
                self._bundle(_Bundle(batch, first, stop))

        build.loop(0, build.mul(batches, bundles), 1, one, parallel=True, hint="g")

    def _long_group(self, batch: Index, group: Index) -> None:
        """As many heads of a group at a time as there is room for scores."""
        build = self.build
        first = build.mul(group, self.each)

        def some(offset: SSAValue) -> None:
            count = build.minimum(build.minus(self.each, offset), self.room)
            whole = _Bundle(batch, group, build.plus(group, 1))
            self._bundle(whole, _Part(batch, group, build.add(first, offset), count, 0))

        build.loop(0, self.each, self.room, some, hint="h")

    def _bundle(self, bundle: _Bundle, only: _Part | None = None) -> None:
        """The groups of a bundle; `only`: some heads of its one group."""
        build = self.build
        start, stop = self.keys

        def parts(body: Callable[[_Part], None]) -> None:
            if only is not None:
                body(only)
                return

            def one(group: SSAValue) -> None:
                row = build.mul(build.minus(group, bundle.first), self.each)
                body(_Part(bundle.batch, group, build.mul(group, self.each), self.each, row))

            build.loop(bundle.first, bundle.stop, 1, one, hint="g")

        many = build.compare("sge", build.minus(stop, start), self.how.lanes)
        build.when(many, lambda: self._score_blocks(parts), lambda: parts(self._score))
        parts(lambda part: self._each_head(part, lambda _, row: self._weigh(row)))
        self._combine(parts)
        parts(self._mend)

    def _each_head(self, part: _Part, body: Row, step: int = 1) -> None:
        """Every head of a part, or the first of every `step` of them."""
        build = self.build

        def one(number: SSAValue) -> None:
            body(build.plus(part.head, number), build.plus(part.row, number))

        if part.heads == step:
            body(part.head, part.row)
        else:
            build.loop(0, part.heads, step, one, hint="r")

    def _prefetch(self, heads: Heads, part: _Part, position: Index) -> None:
        """What the part reads of a position, where other heads lie between it and the next one."""
        build = self.build
        if heads.layout == "bhld" or self.groups == 1:
            return
        size = build.dim(heads.buffer, 3)
        assert isinstance(size, int)
        for column in range(0, size, LINE * 8 // bits_of(element_type(heads.buffer))):
            place = heads.at(part.batch, part.group, position, column)
            indices = [build.index(i) for i in place]
            build.do(PrefetchOp(heads.buffer, indices, locality=SECOND_CACHE))

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
        size = heads.size(build)
        assert isinstance(size, int)
        return [
            (start, None if size - start >= lanes else build.mask(size - start, lanes))
            for start in range(0, size, lanes)
        ]

    def _key(self, part: _Part, key: SSAValue) -> list[SSAValue]:
        """The vectors of one key."""
        build, how, k = self.build, self.how, self.operands[1]
        return [
            how.widen(build, k.vector(build, (part.batch, part.group, key, start), how.lanes, mask))
            for start, mask in self._columns(k)
        ]

    def _products(self, key: Sequence[SSAValue], query: Sequence[SSAValue]) -> SSAValue:
        """A vector whose lanes add up to the score of one key."""
        build, how = self.build, self.how
        total: SSAValue | None = None
        for right, left in zip(key, query, strict=True):
            if total is None:
                total = build.insert(arith.MulfOp(left, right))
            elif how.fused:
                total = build.fma(left, right, total)
            else:
                total = build.insert(arith.AddfOp(total, build.insert(arith.MulfOp(left, right))))
        assert total is not None
        return total

    def _score_blocks(self, parts: Parts) -> None:
        """As many keys at a time as a vector has lanes; the last block overlaps the one before."""
        build, how, lanes = self.build, self.how, self.how.lanes
        start, stop = self.keys
        last, together = build.minus(stop, lanes), self._heads_together()

        def block(first: SSAValue) -> None:
            first = build.index(build.minimum(first, last))
            parts(lambda part: of_part(part, first))

        def of_part(part: _Part, first: SSAValue) -> None:
            def some(head: Index, row: Index) -> None:
                queries = [self._query(part, build.plus(head, n)) for n in range(together)]

                def sums(number: int) -> SSAValue:
                    """Of `lanes / together` keys with each head, heads beside each other."""
                    key: list[SSAValue] = []

                    def one(lane: int) -> SSAValue:
                        nonlocal key
                        place, number_of_head = divmod(lane, together)
                        if number_of_head == 0:
                            offset = number * (lanes // together) + place
                            self._prefetch(self.operands[1], part, build.add(first, offset + AHEAD))
                            key = self._key(part, build.add(first, offset))
                        return self._products(key, queries[number_of_head])

                    return lane_sums(build, lanes, one, bits_of(how.kind))

                found = lanes_apart(build, [sums(number) for number in range(together)])
                for number, scores in enumerate(found):
                    scores = self._masked(part, build.plus(head, number), scores, first)
                    build.vstore(scores, self.scores, self._at(build.plus(row, number), first))

            self._each_head(part, some, together)

        build.loop(start, stop, lanes, block, hint="j")

    def _heads_together(self) -> int:
        """How many heads meet a key that was read: a power of two, half of the registers at most."""
        together, vectors = 1, len(self._columns(self.operands[0]))
        most = min(self.how.lanes, self.machine.registers // (2 * vectors))
        while self.each % (2 * together) == 0 and 2 * together <= most:
            together *= 2
        return together

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
                score = reduction(build, "add", self._products(self._key(part, key), query))
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
            lambda key, row: build.load(self.scores, self._at(build.plus(part.row, row), key)),
        )
        mend(build, self.how, Hidden(build, self.mask, None), v, out, results)

    def _combine(self, parts: Parts) -> None:
        """out[heads, d] = sum over keys of scores[heads, key] · v[key, d], block by block of keys."""
        build, (k, v) = self.build, self.operands[1:3]
        start, stop = self.keys
        sizes = [heads.size(build) for heads in (v, k)]
        assert isinstance(sizes[0], int)
        assert isinstance(sizes[1], int)
        if sizes[0] > sizes[1]:
            # There is no room for the sums of a block.
            parts(lambda part: self._weighted(part, self.keys, first=True, last=True))
            return
        count = build.minus(stop, start)
        block = build.mul(build.maximum(build.ceil_div(count, LONG), 1), BLOCK)
        ends = build.minimum(build.plus(start, block), stop)
        only = build.compare("eq", ends, stop)

        def blocks() -> None:
            parts(lambda part: self._weighted(part, (start, ends), first=True, last=False))
            # The last one has what is left, a key or more.
            begun = build.floordiv(build.minus(count, 1), block)
            begun = build.plus(start, build.mul(begun, block))
            build.loop(ends, begun, block, middle, hint="j")
            parts(lambda part: self._weighted(part, (begun, stop), first=False, last=True))

        def middle(key: SSAValue) -> None:
            keys = (key, build.plus(key, block))
            parts(lambda part: self._weighted(part, keys, first=False, last=False))

        def alone() -> None:
            parts(lambda part: self._weighted(part, self.keys, first=True, last=True))

        build.when(only, alone, blocks)

    def _weighted(self, part: _Part, keys: tuple[Index, Index], *, first: bool, last: bool) -> None:
        columns = self._columns(self.operands[2])
        for start in range(0, len(columns), COLUMNS_AT_ONCE):
            some = columns[start : start + COLUMNS_AT_ONCE]
            self._weighted_columns(part, keys, some, first=first, last=last)

    def _weighted_columns(
        self,
        part: _Part,
        keys: tuple[Index, Index],
        columns: Sequence[tuple[int, SSAValue | None]],
        *,
        first: bool,
        last: bool,
    ) -> None:
        """Adds some keys to some columns of a part. The `first` start from nothing; with the `last` of them
        the sums are the result."""
        build, how = self.build, self.how
        v, out = self.operands[2:]
        size = v.size(build)

        def sums_at(row: Index, start: int) -> list[Index]:
            return [self.thread, build.plus(build.mul(row, size), start)]

        def tile(at: Index, rows: int, _: Carried) -> Carried:
            numbers = [build.plus(at, offset) for offset in range(rows)]
            places = [build.plus(part.row, number) for number in numbers]

            def weights(key: SSAValue) -> list[SSAValue]:
                return [build.load(self.scores, self._at(row, key)) for row in places]

            def values(key: SSAValue) -> list[SSAValue]:
                self._prefetch(v, part, build.add(key, AHEAD))
                return [
                    v.vector(build, (part.batch, part.group, key, start), how.lanes, mask)
                    for start, mask in columns
                ]

            split = split_for(build, self.machine.accumulators, rows, len(columns))
            sums = contract(
                build, how, rows, len(columns), keys, weights, values, split=split, long=True
            )
            for number, row, line in zip(numbers, places, sums):
                for (start, mask), value in zip(columns, line):
                    if not first:
                        # Blocks are added up by themselves: fewer additions follow one another.
                        sofar = build.vload(self.sums, sums_at(row, start), how.lanes, mask)
                        value = build.insert(arith.AddfOp(sofar, value))
                    if not last:
                        build.vstore(value, self.sums, sums_at(row, start), mask)
                        continue
                    value = convert(build, value, element_type(out.buffer))
                    place = out.at(part.batch, build.plus(part.head, number), 0, start)
                    build.vstore(value, out.buffer, place, mask)
            return ()

        over_tiles(build, part.heads, self.machine.rows(len(columns)), tile, hint="r")
