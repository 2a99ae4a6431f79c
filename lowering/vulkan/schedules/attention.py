"""`nn.attention`: a workgroup computes the results of four queries of one head, in one walk over the keys.

Before:
    nn.attention(%q, %k, %v) outs(%o) {scale = 0.125 : f64, …} : (…) -> ()

After, in rounds of as many keys as the workgroup has invocations:
    %score = …                              // an invocation for each key: scale · q k, masked
    %top = …                                // the largest score of a query so far, of all of them
    memref.store %weight, %weights[…]       // exp(%score - %top), in shared memory
    gpu.barrier
    %sum = …                                // an invocation for each column of v: weights · v
                                            // on what is there so far, times exp(old top - new top)
    …
    memref.store %quotient, %o[…]           // sums, divided by the sum of the weights

One query of each head has a kernel of its own (`attention_one_query.py`), or two (`attention_parts.py`), as
has f16 on a device that multiplies matrices (`attention_matrices.py`), many queries of it on one that gives
them to functions (`attention_flash.py`).

Requires: bufferised; f32 or f16; mathematics are not strict; the op is not rounded to bf16.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.math import ExpOp, FmaOp
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.nn import AttentionOp
from openinfer.lowering.kernels.attention_sight import Heads, Scores
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.numeric import (
    INF,
    compare_floats,
    greater,
    is_float,
    select,
)
from openinfer.lowering.vulkan.schedules.attention_flash import flash
from openinfer.lowering.vulkan.schedules.attention_flash_shape import flash_shape_of
from openinfer.lowering.vulkan.schedules.attention_matrices import by_matrices
from openinfer.lowering.vulkan.schedules.attention_matrices_shape import shape_of
from openinfer.lowering.vulkan.schedules.attention_one_query import fits_one_query, one_query
from openinfer.lowering.vulkan.schedules.attention_operands import Attended
from openinfer.lowering.vulkan.schedules.attention_parts import (
    IN_PARTS,
    in_parts,
    joined,
    stage_of,
)
from openinfer.lowering.vulkan.schedules.grid import (
    Grid,
    HostValue,
    each_group,
    groups_for,
    product,
    split,
)
from openinfer.lowering.vulkan.schedules.wide import load_wide
from openinfer.lowering.vulkan.schedules.workgroup import Workgroup, barrier, shared_buffer

KEYS = 128
"""Keys of a round, and invocations of a workgroup."""
QUERIES = 4
"""Queries that share what is read of keys and values."""


def lower_attention(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of attention."""
    assert isinstance(op, AttentionOp)
    stage = stage_of(op)
    if stage is not None:
        return in_parts(b, op) if stage == IN_PARTS else joined(b, op)
    if fits_one_query(b, op):
        return one_query(b, op)
    held = flash_shape_of(b, op)
    if held is not None:
        return flash(b, op, held)
    shape = shape_of(b, op)
    if shape is not None:
        return by_matrices(b, op, shape)
    attention = _Attention(b, op)
    each_group(b, attention.count(b, op.outs[0]), attention.queries)

    def groups(host: LoopBuilder, value_of: HostValue) -> tuple[Index, Index, Index]:
        return groups_for(host, attention.count(host, value_of(op.outs[0])))

    return Grid(groups, KEYS)


class _Attention(Attended):
    def __init__(self, b: LoopBuilder, op: AttentionOp) -> None:
        super().__init__(b, op)
        self.group = Workgroup(b, KEYS)
        self.together = (
            max(1, min(QUERIES, known)) if isinstance(known := self.query_count, int) else QUERIES
        )
        """Queries of a workgroup. Where there are none, none is started."""
        self.weights = shared_buffer(b, self.kind, [self.together, KEYS], "weights")
        self.sums = shared_buffer(b, self.kind, [KEYS], "sums")
        self.score = Scores(b, op, self.kind)

    def _blocks(self, b: LoopBuilder, out: SSAValue) -> list[Index]:
        """Batches, heads, blocks of queries."""
        batches, heads, queries = self.extents(b, out)
        return [batches, heads, b.ceil_div(queries, self.together)]

    def count(self, b: LoopBuilder, out: SSAValue) -> Index:
        """How many blocks of queries of heads of batches there are."""
        return product(b, self._blocks(b, out))

    def queries(self, number: SSAValue) -> None:
        """The results of a block of queries."""
        b = self.b
        batch, head, block = split(b, number, self._blocks(b, self.out.buffer))
        place = batch, head, self.group_of(head)
        _Block(self, place, b.mul(block, self.together)).emit()


class _Block:
    """Neighbouring queries of a head. Those beyond the last one repeat it, and are not stored."""

    def __init__(self, of: _Attention, place: tuple[Index, Index, Index], first: SSAValue) -> None:
        """`place`: the batch, the head, the head of keys and values."""
        self.of, self.b, self.first = of, of.b, first
        self.batch, self.head, self.group = place
        self.thread = of.group.thread
        last = of.b.minus(of.query_count, 1)
        self.numbers: list[Index] = [
            of.b.minimum(of.b.add(first, n), last) for n in range(of.together)
        ]

    def emit(self) -> None:
        b, of = self.b, self.of
        keys: tuple[Index, Index] = (0, of.sight.key_count)
        if of.sight.bounded:
            keys = of.sight.keys(of.sight.position(self.first), of.together)
        # A part of the columns for each invocation: with fewer of them than invocations several share one.
        parts = self._parts()
        if parts > 1 or (isinstance(of.columns, int) and of.columns <= KEYS):
            self._columns(keys, parts, 0)
        else:
            # More columns than invocations: the weights are computed again for the next ones.
            b.loop(0, of.columns, KEYS, lambda d: self._columns(keys, parts, d), hint="d")

    def _parts(self) -> int:
        """How many invocations share a column."""
        columns = self.of.columns
        if not isinstance(columns, int):
            return 1
        parts = 1
        while parts * 2 * columns <= KEYS:
            parts *= 2
        return parts

    def _columns(self, keys: tuple[Index, Index], parts: int, start: Index) -> None:
        """The columns from `start` on, as many as there are invocations or parts of them."""
        b, of = self.b, self.of
        width = of.columns if parts > 1 else KEYS
        part: Index = 0
        column = b.add(self.thread, start)
        if parts > 1:
            part, column = b.floordiv(self.thread, width), b.rem(self.thread, width)
        low, zero = b.constant(-INF, of.kind), b.constant(0, of.kind)
        count = of.together

        def one_round(at: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
            tops, totals, results = old[:count], old[count : 2 * count], old[2 * count :]
            there = b.minimum(b.minus(keys[1], at), KEYS)
            scores = self._scores(b.add(at, self.thread), there)
            largest = of.group.all_reduce_each([score for score, _ in scores], self._larger)
            tops, totals, results = self._weigh(scores, largest, tops, totals, results)
            barrier(b)
            results = b.reduce(
                part, there, parts, results, lambda j, r: self._step(at, j, column, r), hint="j"
            )
            # Nobody writes other weights before everybody has read these.
            barrier(b)
            return [*tops, *totals, *results]

        start_values = [low] * count + [zero] * (2 * count)
        found = b.reduce(keys[0], keys[1], KEYS, start_values, one_round, hint="at")
        totals = of.group.all_reduce_each(found[count : 2 * count], self._add)
        for number in range(count):
            total = totals[number]
            if of.op.nan_rows is None:
                none = compare_floats(b, "oeq", total, zero)
                total = select(b, none, b.constant(1, of.kind), total)
            self._finish(number, found[2 * count + number], total, parts, width, column)

    def _weigh(
        self,
        scores: Sequence[tuple[SSAValue, SSAValue]],
        largest: Sequence[SSAValue],
        tops: Sequence[SSAValue],
        totals: Sequence[SSAValue],
        results: Sequence[SSAValue],
    ) -> tuple[list[SSAValue], list[SSAValue], list[SSAValue]]:
        """Stores the weights of a round; new tops, totals and results for each query."""
        b, of = self.b, self.of
        low, zero = b.constant(-INF, of.kind), b.constant(0, of.kind)
        found: tuple[list[SSAValue], list[SSAValue], list[SSAValue]] = ([], [], [])
        for number, (score, seen) in enumerate(scores):
            top = greater(b, largest[number], tops[number])
            # Where nothing is seen yet, -inf would make NaN of all that follows.
            base = select(b, compare_floats(b, "oeq", top, low), zero, top)
            weight = b.insert(ExpOp(b.insert(arith.SubfOp(score, base))))
            weight = select(b, seen, weight, zero)
            scale = b.insert(ExpOp(b.insert(arith.SubfOp(tops[number], base))))
            found[0].append(top)
            found[1].append(self._add(b.insert(arith.MulfOp(totals[number], scale)), weight))
            found[2].append(b.insert(arith.MulfOp(results[number], scale)))
            # A weight below nothing stands for a key that is not seen.
            marked = select(b, seen, weight, b.constant(-1, of.kind))
            b.store(marked, of.weights, [number, self.thread])
        return found

    def _scores(self, key: SSAValue, count: Index) -> list[tuple[SSAValue, SSAValue]]:
        """The scores of a key, -inf where it is not seen, and whether it is, for each query."""
        b, of = self.b, self.of
        low = b.constant(-INF, of.kind)
        inside = b.compare("ult", self.thread, count)
        zeros = [b.constant(0, of.kind)] * of.together
        products = b.when(
            inside, lambda: self._products(key), lambda: zeros, [of.kind] * of.together
        )
        # What is beyond the last key reads the mask at the last.
        there = b.index(b.minimum(key, b.maximum(b.minus(of.sight.key_count, 1), 0)))
        found: list[tuple[SSAValue, SSAValue]] = []
        for number, score in zip(self.numbers, products):
            if of.mask is not None and is_float(of.mask.buffer):
                score = self._add(score, of.mask.one(self.batch, self.head, number, there))
            seen = inside
            if of.hidden.anything:
                sees = of.hidden.seen(self.batch, self.head, number, there)
                seen = b.insert(arith.AndIOp(inside, sees))
            found.append((select(b, seen, score, low), seen))
        return found

    def _products(self, key: SSAValue) -> list[SSAValue]:
        """The score of each query, before what the mask adds."""
        b, of = self.b, self.of
        k = of.k.at(self.batch, self.group, key, 0)[:3]
        queries = [of.q.at(self.batch, self.head, number, 0)[:3] for number in self.numbers]

        def read(heads: Heads, place: Sequence[Index], d: SSAValue) -> list[SSAValue]:
            found = load_wide(b, heads.buffer, [*place, d], of.lanes)
            return [convert(b, value, of.kind) for value in found]

        def step(d: SSAValue, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
            theirs = read(of.k, k, d)
            new: list[SSAValue] = []
            for total, query in zip(sums, queries):
                for x, y in zip(read(of.q, query, d), theirs):
                    total = b.insert(FmaOp(x, y, total))
                new.append(total)
            return new

        zeros = [b.constant(0, of.kind)] * of.together
        sums = b.reduce(0, of.depth, of.lanes, zeros, step, hint="d")
        return [of.score.of(total) for total in sums]

    def _step(
        self, at: SSAValue, j: SSAValue, column: SSAValue, old: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        """What the j-th key of a round gives to a column of each query."""
        b, of = self.b, self.of
        # All invocations read; those beyond the last column read the last.
        there = b.minimum(column, b.minus(of.columns, 1))
        place = of.v.at(self.batch, self.group, b.add(at, j), there)
        value = convert(b, b.load(of.v.buffer, place), of.kind)
        new: list[SSAValue] = []
        for number, total in enumerate(old):
            weight = b.load(of.weights, [number, j])
            more = b.insert(FmaOp(weight, value, total))
            if of.hidden.anything:
                # Hidden values are no part of the result, whatever they are. Weights that are NaN are seen.
                hidden = compare_floats(b, "olt", weight, b.constant(0, of.kind))
                more = select(b, hidden, total, more)
            new.append(more)
        return new

    def _finish(
        self,
        number: int,
        result: SSAValue,
        total: SSAValue,
        parts: int,
        width: Index,
        column: SSAValue,
    ) -> None:
        """Joins the parts of each column of a query, and stores them."""
        b, of = self.b, self.of
        if parts > 1:
            barrier(b)
            b.store(result, of.sums, [self.thread])
            barrier(b)

        def store() -> None:
            value = result
            for part in range(1, parts):
                there = b.add(self.thread, b.mul(part, width))
                value = self._add(value, b.load(of.sums, [there]))
            value = b.insert(arith.DivfOp(value, total))
            place = of.out.at(self.batch, self.head, b.add(self.first, number), column)
            b.store(convert(b, value, of.stored), of.out.buffer, place)

        inside = b.compare("ult", column, of.columns)
        if parts > 1:
            inside = b.compare("ult", self.thread, width)
        if number:
            is_query = b.compare("ult", b.add(self.first, number), of.query_count)
            inside = b.insert(arith.AndIOp(inside, is_query))
        b.when(inside, store)

    def _add(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.insert(arith.AddfOp(x, y))

    def _larger(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return greater(self.b, x, y)
