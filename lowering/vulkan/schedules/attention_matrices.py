"""`nn.attention` of f16 by matrices of 16 x 16 that subgroups multiply.

A workgroup computes the results of some queries of one head. A subgroup has 16 of them, as matrices:

    for the keys of a round:
        keys and values go to shared memory; those of the next round are read from memory
        scores: matrices of queries times matrices of keys, which go to shared memory
        each invocation weighs half of a row of scores, relative to the largest score so far
        results so far, times what the base has changed by, and weights times matrices of values on top
    each invocation divides half of a row by the sum of its weights, and stores it

Where there are few blocks of queries, the subgroups of a workgroup have the same queries and other keys, and
their results are joined at the end.

A product of matrices multiplies hidden values by a weight of 0, which gives NaN where they are not finite.
A row with a result that is not finite is therefore computed once more, key by key.

Requires: a device with such matrices; q, k, v and the result in accesses of 16 bytes; sizes of heads that the
types say, multiples of 16.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects import arith, gpu
from xdsl.dialects.builtin import MemRefType, VectorType, f16, f32, i32
from xdsl.dialects.math import AbsFOp, FmaOp
from xdsl.dialects.vector import ExtractOp
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.gpu import (
    MMAMatrixType,
    ShuffleOp,
    SubgroupMmaComputeOp,
    SubgroupMmaConstantMatrixOp,
    SubgroupMmaElementwiseOp,
    SubgroupMmaLoadMatrixOp,
    SubgroupMmaStoreMatrixOp,
)
from openinfer.dialects.nn import AttentionOp
from openinfer.lowering.kernels.attention_sight import Heads, Scores
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.numeric import INF, compare_floats, greater, is_float, select
from openinfer.lowering.vulkan.schedules.attention_keys import key_by_key
from openinfer.lowering.vulkan.schedules.attention_matrices_shape import Shape
from openinfer.lowering.vulkan.schedules.attention_operands import Attended
from openinfer.lowering.vulkan.schedules.attention_weights import Weights
from openinfer.lowering.vulkan.schedules.grid import Grid
from openinfer.lowering.vulkan.schedules.matmul_matrices import (
    LANES,
    LEFT,
    RIGHT,
    SIDE,
    SUBGROUP,
    SUMS,
)
from openinfer.lowering.vulkan.schedules.wide import common_lanes, load_wide, store_wide
from openinfer.lowering.vulkan.schedules.workgroup import (
    barrier,
    shared_buffer,
    subgroup_barrier,
)

FOUR = VectorType(f32, [4])
EIGHT = VectorType(f16, [LANES])
_X = gpu.DimensionAttr(gpu.DimensionEnum.X)


def by_matrices(b: LoopBuilder, op: AttentionOp, shape: Shape) -> Grid:
    """The kernel of such an attention."""
    of = Attended(b, op)
    return of.each_block(
        shape.queries,
        shape.threads,
        lambda place, first: _Block(of, shape, place, first).emit(),
    )


class _Block:
    """Neighbouring queries of a head. Those beyond the last one are 0, and not stored."""

    def __init__(
        self, of: Attended, shape: Shape, place: tuple[SSAValue, SSAValue], first: SSAValue
    ) -> None:
        """`place`: the batch and the head."""
        b = self.b = of.b
        self.of, self.shape, self.first = of, shape, first
        self.batch, self.head = place
        self.key_head = of.group_of(self.head)
        self.weights = Weights(b, f32, of_two=True)
        self.scored = Scores(b, of.op, f32, self.weights.scale(1))
        self.thread = b.insert(gpu.ThreadIdOp(_X))
        self.lane = b.insert(gpu.LaneIdOp())
        self.subgroup = b.insert(gpu.SubgroupIdOp())
        self.y = b.mul(b.floordiv(self.subgroup, shape.along), SIDE)
        self.x = b.mul(b.rem(self.subgroup, shape.along), shape.keys)
        # An invocation has half of a row: neighbours have other rows, which meet in no bank.
        self.row = b.rem(self.lane, SIDE)
        self.half = b.floordiv(self.lane, SIDE)
        self.query = b.add(self.first, b.add(self.y, self.row))
        self.is_query = b.compare("ult", self.query, of.query_count)
        self.known = b.index(b.minimum(self.query, b.minus(of.query_count, 1)))
        """The query, the last one where there is none."""
        # A line more than there is, so that rows meet in no bank.
        line, rows = shape.size // LANES + 1, shape.subgroups * SIDE
        self.keys = shared_buffer(b, EIGHT, [shape.lines, line], "keys")
        self.values = shared_buffer(b, EIGHT, [shape.round, line], "values")
        self.scores = shared_buffer(b, FOUR, [rows, shape.width // 4 + 1], "scores")
        self.shares = shared_buffer(b, EIGHT, [rows, shape.keys // LANES + 1], "shares")
        self.own = b.mul(self.subgroup, SIDE)
        """The first row of the subgroup in what it shares with nobody."""
        self.own_row = b.add(self.own, self.row)

    @property
    def tiles(self) -> range:
        """The columns of the matrices of a head."""
        return range(0, self.shape.size, SIDE)

    @property
    def half_keys(self) -> int:
        return self.shape.keys // 2

    def emit(self) -> None:
        b, of, shape = self.b, self.of, self.shape
        stop: tuple[Index, Index] = (0, of.sight.key_count)
        if of.sight.bounded:
            stop = of.sight.keys(of.sight.position(self.first), shape.queries)
        queries = self._queries()
        count = len(self.tiles)
        once = stop[0] == 0 and isinstance(stop[1], int) and stop[1] <= shape.round

        def one_round(at: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            results, (top, total), coming = (
                carried[:count],
                carried[count : count + 2],
                carried[count + 2 :],
            )
            # Everybody has read what was here before.
            barrier(b)
            half = len(coming) // 2
            self._put(self.keys, coming[:half])
            self._put(self.values, coming[half:])
            barrier(b)
            # On the way while this round is computed; behind the last one nobody needs them.
            coming = [] if once else self._fetch(b.add(at, shape.round))
            place = b.add(b.add(at, self.x), b.mul(self.half, self.half_keys))
            masks = self._mask(place)
            self._score(queries)
            top, total, change = self._weigh((place, masks), stop[1], top, total, once=once)
            results = self._add(results, change)
            return [*results, top, total, *coming]

        zero = b.insert(SubgroupMmaConstantMatrixOp(b.constant(0, f32), SUMS))
        begin = [*[zero] * count, *self.weights.start(0), *self._fetch(b.index(stop[0]))]
        if once:
            found = one_round(b.index(0), begin)
        else:
            found = b.reduce(stop[0], stop[1], shape.round, begin, one_round, hint="at")
        if shape.along == 1:
            self._finish(found[:count], found[count + 1], stop)
        else:
            self._join(found[:count], found[count : count + 2], stop)

    # Keys, values and queries on their way to shared memory

    def _pieces(self, lines: int) -> Iterator[tuple[SSAValue, SSAValue, SSAValue | None]]:
        """The accesses of an invocation: the line, the place in it, and whether there is one."""
        b, shape = self.b, self.shape
        each = shape.size // LANES
        count = lines * each
        for start in range(0, count, shape.threads):
            number = b.add(self.thread, start)
            inside = None
            if start + shape.threads > count:
                inside = b.compare("ult", number, count)
            yield b.floordiv(number, each), b.rem(number, each), inside

    def _fetch(self, at: SSAValue) -> list[SSAValue]:
        """Keys and values of a round, 0 beyond the last one."""
        of = self.of
        return [
            value
            for heads in (of.k, of.v)
            for line, chunk, _ in self._pieces(self.shape.round)
            for value in self._read(heads, self.key_head, (at, line), chunk, of.sight.key_count)
        ]

    def _read(
        self,
        heads: Heads,
        head: Index,
        position: tuple[SSAValue, SSAValue],
        chunk: SSAValue,
        count: Index,
    ) -> list[SSAValue]:
        b = self.b
        at = b.add(*position)
        inside = b.compare("ult", at, count)
        there = b.maximum(b.minimum(at, b.minus(count, 1)), 0)
        place = heads.at(self.batch, head, there, b.mul(chunk, LANES))
        values = load_wide(b, heads.buffer, place, LANES)
        zero = b.constant(0, f16)
        return [select(b, inside, value, zero) for value in values]

    def _put(self, buffer: SSAValue, values: Sequence[SSAValue], lines: int | None = None) -> None:
        b = self.b
        for number, (line, chunk, inside) in enumerate(self._pieces(lines or self.shape.round)):
            mine = values[number * LANES : (number + 1) * LANES]

            def store(
                mine: Sequence[SSAValue] = mine, line: SSAValue = line, chunk: SSAValue = chunk
            ) -> None:
                b.store(b.from_elements(mine), buffer, [line, chunk])

            if inside is None:
                store()
            else:
                b.when(inside, store)

    def _queries(self) -> list[SSAValue]:
        """The matrices of the queries of a subgroup, which come through the memory of keys."""
        b, of = self.b, self.of
        values = [
            value
            for line, chunk, _ in self._pieces(self.shape.queries)
            for value in self._read(of.q, self.head, (self.first, line), chunk, of.query_count)
        ]
        self._put(self.keys, values, self.shape.queries)
        barrier(b)
        return [self._matrix(self.keys, [self.y, b.index(d // LANES)], LEFT) for d in self.tiles]

    def _matrix(
        self,
        buffer: SSAValue,
        at: Sequence[SSAValue],
        kind: MMAMatrixType,
        *,
        turned: bool = False,
    ) -> SSAValue:
        assert isinstance(buffer.type, MemRefType)
        lead = buffer.type.get_shape()[1]
        return self.b.insert(SubgroupMmaLoadMatrixOp(buffer, at, lead, kind, transpose=turned))

    # A round

    def _score(self, queries: Sequence[SSAValue]) -> None:
        """Scores of the keys of a subgroup, as they come from the product, go to its shared memory."""
        b = self.b
        zero = b.insert(SubgroupMmaConstantMatrixOp(b.constant(0, f32), SUMS))
        for key in range(0, self.shape.keys, SIDE):
            total = zero
            for query, d in zip(queries, self.tiles):
                # A key is a row of memory, and a column of the matrix.
                place = [b.add(self.x, key), b.index(d // LANES)]
                keys = self._matrix(self.keys, place, RIGHT, turned=True)
                total = b.insert(SubgroupMmaComputeOp(query, keys, total))
            self._store_matrix(total, key)

    def _store_matrix(self, value: SSAValue, column: int) -> None:
        b = self.b
        lead = self.shape.width // 4 + 1
        b.do(SubgroupMmaStoreMatrixOp(value, self.scores, [self.own, b.index(column // 4)], lead))

    def _row_part(self, first: SSAValue, count: int) -> list[SSAValue]:
        """Neighbours of the row of an invocation; `first` counts fours."""
        b = self.b
        found: list[SSAValue] = []
        for number in range(count // 4):
            four = b.load(self.scores, [self.own_row, b.add(first, number)])
            found += [b.insert(ExtractOp(four, [lane], f32)) for lane in range(4)]
        return found

    def _weigh(
        self,
        keys: tuple[SSAValue, Sequence[SSAValue | None]],
        stop: Index,
        top: SSAValue,
        total: SSAValue,
        *,
        once: bool,
    ) -> tuple[SSAValue, SSAValue, SSAValue | None]:
        """Weights of a round, the only one where `once`, go to shared memory. The new top and total, and the
        matrix that results so far are multiplied with, if there are any. `keys`: the first key of an
        invocation, and what the mask says of its keys."""
        b = self.b
        subgroup_barrier(b)
        column = b.mul(self.half, self.half_keys)
        raw = self._row_part(b.floordiv(column, 4), self.half_keys)
        first, masks = keys
        scores = [
            self._seen(score, b.add(first, number), stop, mask)
            for number, (score, mask) in enumerate(zip(raw, masks))
        ]
        new = scores[0]
        for score in scores[1:]:
            new = greater(b, score, new)
        new = greater(b, self._other(new), new)
        new = new if once else greater(b, new, top)
        base = self.weights.base(new)
        weights = [self.weights.weight(score, base) for score in scores]
        sums = list(weights)
        while len(sums) > 1:
            sums = [b.insert(arith.AddfOp(x, y)) for x, y in zip(sums[::2], sums[1::2])]
        if once:
            total = sums[0]
        else:
            change = self.weights.weight(top, base)
            total = b.insert(FmaOp(total, change, sums[0]))
            # Everybody has read the scores: what changes the results takes their place.
            subgroup_barrier(b)
            four = b.from_elements([change] * 4)
            for number in range(SIDE // 8):
                place = b.add(b.mul(self.half, SIDE // 8), number)
                b.store(four, self.scores, [self.own_row, place])
        for number in range(0, self.half_keys, LANES):
            eight = [convert(b, w, f16) for w in weights[number : number + LANES]]
            place = b.floordiv(b.add(column, number), LANES)
            b.store(b.from_elements(eight), self.shares, [self.own_row, place])
        subgroup_barrier(b)
        if once:
            return new, total, None
        return new, total, self._matrix(self.scores, [self.own, b.index(0)], SUMS)

    def _whole_rounds(self) -> bool:
        """Whether no round goes beyond the last key."""
        count = self.of.sight.key_count
        return isinstance(count, int) and count % self.shape.round == 0

    def _mask(self, first: SSAValue) -> Sequence[SSAValue | None]:
        """Elements of the mask for half a row of scores, where several are read at once."""
        b, of, count = self.b, self.of, self.half_keys
        if of.mask is None or of.mask.shape[3] == 1 or not self._whole_rounds():
            return [None] * count
        lanes = min(common_lanes(of.op, (of.mask.buffer,)), count)
        if lanes == 1:
            return [None] * count
        return [
            value
            for start in range(0, count, lanes)
            for value in load_wide(
                b,
                of.mask.buffer,
                of.mask.place(self.batch, self.head, self.known, b.add(first, start)),
                lanes,
            )
        ]

    def _seen(
        self, score: SSAValue, place: SSAValue, stop: Index, mask: SSAValue | None
    ) -> SSAValue:
        """A score, as weights are made of it, -inf for a key that is not seen."""
        b, of = self.b, self.of
        score = self.scored.of(score)
        there: Index = place
        if not self._whole_rounds():
            there = b.minimum(place, b.maximum(b.minus(of.sight.key_count, 1), 0))
        there = b.index(there)
        if of.mask is not None and is_float(of.mask.buffer):
            if mask is not None:
                bias = of.mask.bias(mask)
            else:
                bias = of.mask.one(self.batch, self.head, self.known, there)
            score = b.insert(FmaOp(bias, self._constant(1), score))
        conditions: list[SSAValue] = []
        if not isinstance(stop, int) or stop % self.shape.round:
            conditions.append(b.compare("ult", place, stop))
        if of.hidden.anything:
            conditions.append(of.hidden.seen(self.batch, self.head, self.known, there, mask))
        low = b.constant(-INF, f32)
        for condition in conditions:
            score = select(b, condition, score, low)
        return score

    def _constant(self, scale: float) -> SSAValue:
        """A factor of scores."""
        return self.b.constant(self.weights.scale(scale), f32)

    def _other(self, value: SSAValue) -> SSAValue:
        """What the invocation with the other half of a row has."""
        b = self.b
        shuffle = ShuffleOp("xor", value, b.constant(SIDE, i32), b.constant(SUBGROUP, i32))
        b.do(shuffle)
        return shuffle.shuffled

    def _add(self, results: Sequence[SSAValue], change: SSAValue | None) -> list[SSAValue]:
        """Results so far with the keys of a round; without `change` they are those of no key."""
        b = self.b
        shares = [
            self._matrix(self.shares, [self.own, b.index(key // LANES)], LEFT)
            for key in range(0, self.shape.keys, SIDE)
        ]
        found: list[SSAValue] = []
        for result, d in zip(results, self.tiles):
            total = result
            if change is not None:
                total = b.insert(SubgroupMmaElementwiseOp("mulf", result, change))
            for number, share in enumerate(shares):
                place = [b.add(self.x, number * SIDE), b.index(d // LANES)]
                values = self._matrix(self.values, place, RIGHT)
                total = b.insert(SubgroupMmaComputeOp(share, values, total))
            found.append(total)
        return found

    # The end

    def _finish(
        self, results: Sequence[SSAValue], total: SSAValue, keys: tuple[Index, Index]
    ) -> None:
        """Stores the rows of a subgroup, as many columns at a time as there is room for."""
        b, shape = self.b, self.shape
        total = b.insert(arith.AddfOp(total, self._other(total)))
        factor = self._reciprocal(total)
        for start in range(0, shape.size, shape.width):
            together = min(shape.width, shape.size - start)
            subgroup_barrier(b)
            for column in range(0, together, SIDE):
                self._store_matrix(results[(start + column) // SIDE], column)
            subgroup_barrier(b)
            half = together // 2
            first = b.mul(self.half, half)
            values = self._row_part(b.floordiv(first, 4), half)
            values = [b.insert(arith.MulfOp(value, factor)) for value in values]
            self._store(self.known, self.is_query, b.add(first, start), values, keys)

    def _reciprocal(self, total: SSAValue) -> SSAValue:
        b = self.b
        total = self.weights.divisor(total, nan_rows=self.of.op.nan_rows is not None)
        return b.insert(arith.DivfOp(b.constant(1, f32), total))

    def _join(
        self,
        results: Sequence[SSAValue],
        state: Sequence[SSAValue],
        keys: tuple[Index, Index],
    ) -> None:
        """Joins what the subgroups have found of other keys, and stores it: four columns at a time."""
        b, shape = self.b, self.shape
        heads = shared_buffer(b, f32, [2, shape.subgroups * SIDE], "heads")
        subgroup_barrier(b)
        for result, column in zip(results, self.tiles):
            self._store_matrix(result, column)
        top, total = state[0], b.insert(arith.AddfOp(state[1], self._other(state[1])))

        def write() -> None:
            for number, value in enumerate((top, total)):
                b.store(value, heads, [number, self.own_row])

        b.when(b.compare("eq", self.half, 0), write)
        barrier(b)
        each = shape.size // 4

        def store(number: SSAValue) -> None:
            row, four = b.floordiv(number, each), b.rem(number, each)
            # Rows of a block of queries lie apart, one for each part of the keys.
            block, inner = b.floordiv(row, SIDE), b.rem(row, SIDE)
            first = b.add(b.mul(block, SIDE * shape.along), inner)
            rows = [b.add(first, SIDE * part) for part in range(shape.along)]
            tops = [b.load(heads, [0, one]) for one in rows]
            whole = tops[0]
            for one in tops[1:]:
                whole = greater(b, one, whole)
            base = self.weights.base(whole)
            sums = [b.constant(0, f32)] * 5
            for one, own in zip(rows, tops):
                share = self.weights.weight(own, base)
                vector = b.load(self.scores, [one, four])
                parts = [b.insert(ExtractOp(vector, [lane], f32)) for lane in range(4)]
                parts.append(b.load(heads, [1, one]))
                sums = [b.insert(FmaOp(share, x, total)) for x, total in zip(parts, sums)]
            factor = self._reciprocal(sums[4])
            values = [b.insert(arith.MulfOp(value, factor)) for value in sums[:4]]
            query = b.add(self.first, row)
            known = b.index(b.minimum(query, b.minus(self.of.query_count, 1)))
            inside = b.compare("ult", query, self.of.query_count)
            self._store(known, inside, b.mul(four, 4), values, keys)

        b.loop(self.thread, shape.queries * each, shape.threads, store)

    def _store(
        self,
        query: SSAValue,
        inside: SSAValue,
        column: SSAValue,
        values: Sequence[SSAValue],
        keys: tuple[Index, Index],
    ) -> None:
        """Neighbouring results of a query."""
        b, of = self.b, self.of
        place = self.batch, self.head, self.key_head
        finite = [
            compare_floats(b, "olt", b.insert(AbsFOp(value)), b.constant(INF, f32))
            for value in values
        ]
        fine = finite[0]
        for one in finite[1:]:
            fine = b.insert(arith.AndIOp(fine, one))
        types = [f32] * len(values)
        values = b.when(
            fine,
            lambda: values,
            lambda: key_by_key(of, self.weights, place, (query, column), len(values), keys),
            types,
        )

        def store() -> None:
            narrow = [convert(b, value, f16) for value in values]
            each = min(LANES, len(values))
            for start in range(0, len(values), each):
                at = b.add(column, start)
                there = of.out.at(self.batch, self.head, query, at)
                store_wide(b, narrow[start : start + each], of.out.buffer, there)

        b.when(inside, store)
