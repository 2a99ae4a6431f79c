"""`nn.attention` of f16 whose scores and weights stay in the registers of subgroups, as in FlashAttention-2.

A workgroup computes the results of some queries of one head. A subgroup has 16 of them, as matrices of
16 x 16:

    for the keys of a round:
        keys and values go to shared memory; those of the next round are read from memory
        scores: matrices of queries times matrices of keys
        the largest of each row so far; weights relative to it, and their sums, element by element
        results so far, times what the base has changed by, and weights times matrices of values on top
    sums of rows, once; results are divided by them, and stored

What is done to rows and elements is done by functions that matrices are given to, so that nothing but keys
and values goes through shared memory. Sums of weights are joined along rows behind the last round.

A product of matrices multiplies hidden values by a weight of 0, which gives NaN where they are not finite.
Where a result is not finite, all 16 rows of the subgroup are computed once more, key by key.

Requires: a device whose matrices are given to functions, and become operands; q, k, v and the result in
accesses of 16 bytes; sizes of heads up to 128, multiples of 16. A mask asks for known queries and keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from xdsl.dialects import arith, gpu
from xdsl.dialects.builtin import IndexType, MemRefType, VectorType, f16, f32
from xdsl.dialects.math import AbsFOp, FmaOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from openinfer.dialects.extensions.gpu import (
    SubgroupMmaComputeOp,
    SubgroupMmaConstantMatrixOp,
    SubgroupMmaElementwiseOp,
    SubgroupMmaLoadMatrixOp,
    SubgroupMmaStoreMatrixOp,
)
from openinfer.dialects.extensions.gpu_matrix_type import MMAMatrixType
from openinfer.dialects.extensions.gpu_tensors import (
    MatrixConvertOp,
    MatrixElementOp,
    MatrixMapOp,
    MatrixReduceOp,
    MatrixYieldOp,
    TensorLoadOp,
    TensorStoreOp,
    element_of,
)
from openinfer.dialects.nn import AttentionOp
from openinfer.lowering.kernels.attention_sight import Heads, Mask
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.numeric import (
    INF,
    compare_floats,
    compare_integers,
    greater,
    is_float,
    select,
)
from openinfer.lowering.vulkan.schedules.attention_flash_shape import FlashShape
from openinfer.lowering.vulkan.schedules.attention_keys import key_by_key
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
from openinfer.lowering.vulkan.schedules.wide import load_wide, store_wide
from openinfer.lowering.vulkan.schedules.workgroup import barrier, shared_buffer

EIGHT = VectorType(f16, [LANES])
HALVES = MMAMatrixType.of(SIDE, SIDE, f16, "COp")
_X = gpu.DimensionAttr(gpu.DimensionEnum.X)


def flash(b: LoopBuilder, op: AttentionOp, shape: FlashShape) -> Grid:
    """The kernel of such an attention."""
    of = Attended(b, op)
    return of.each_block(
        shape.queries,
        shape.threads,
        lambda place, first: _Block(of, shape, place, first).emit(),
    )


Body = Callable[[LoopBuilder, Sequence[SSAValue]], SSAValue]
"""Builds a function of what a region is given."""


@dataclass(frozen=True)
class _State:
    """What is known behind some keys."""

    top: SSAValue
    """The largest score of each row, in every column."""
    total: SSAValue
    """Sums of weights, which are still apart by columns."""
    results: Sequence[SSAValue]

    @property
    def values(self) -> list[SSAValue]:
        return [self.top, self.total, *self.results]


class _Block:
    """Neighbouring queries of a head. Those beyond the last one are 0, and not stored."""

    def __init__(
        self,
        of: Attended,
        shape: FlashShape,
        place: tuple[SSAValue, SSAValue],
        first: SSAValue,
    ) -> None:
        """`place`: the batch and the head; `first`: the query."""
        b = self.b = of.b
        self.of, self.shape, self.block_first = of, shape, first
        self.batch, self.head = place
        self.key_head = of.group_of(self.head)
        self.thread = b.insert(gpu.ThreadIdOp(_X))
        self.subgroup = b.insert(gpu.SubgroupIdOp())
        self.first = b.add(first, b.mul(self.subgroup, SIDE))
        """The query of the subgroup."""
        queries, keys = of.query_count, of.sight.key_count
        self.query_count, self.key_count = queries, keys
        self.bounded = not isinstance(queries, int) or queries % shape.queries != 0
        self.whole = isinstance(keys, int) and keys % shape.keys == 0
        """Whether no round goes beyond the last key."""
        self.cut = not self.whole and not of.sight.causal
        """Whether keys beyond the last one are to be hidden: no causal query sees one."""
        sees_first = isinstance(queries, int) and isinstance(keys, int) and queries <= keys
        self.hides = of.mask is not None or (of.sight.causal and not sees_first)
        """Whether a row may see no key of a round in front of one that it sees."""
        self.scale = Weights(b, f32, of_two=True).scale(of.op.scale.value.data)
        mask = of.mask
        by_query = mask is not None and mask.varies_by_query
        self.factor = self.scale
        """What scores become exponents by; 1 where they are."""
        if mask is not None and by_query and is_float(mask.buffer):
            self.factor = 1.0
        self.keys = shared_buffer(b, EIGHT, [shape.keys, shape.line], "keys")
        self.values = shared_buffer(b, EIGHT, [shape.keys, shape.line], "values")
        self.biases = None
        """What a mask that is the same for all queries adds to products."""
        if mask is not None and not by_query:
            self.biases = shared_buffer(b, f32, [shape.keys], "biases")

    @property
    def tiles(self) -> range:
        """The columns of the matrices of a head."""
        return range(0, self.shape.size, SIDE)

    @property
    def key_tiles(self) -> range:
        """The keys of the matrices of a round."""
        return range(0, self.shape.keys, SIDE)

    def emit(self) -> None:
        """The results, and where they go."""
        b, of, shape = self.b, self.of, self.shape
        stop: tuple[Index, Index] = (0, self.key_count)
        if of.sight.bounded:
            stop = of.sight.keys(of.sight.position(self.block_first), shape.queries)
        queries = [self._query(d) for d in self.tiles]
        if isinstance(self.key_count, int) and self.key_count <= shape.keys:
            self._put(self._fetch(b.index(0)), b.index(0))
            barrier(b)
            self._finish(self._round(b.index(0), queries, None), stop)
            return
        low, zero = (self._constant(value) for value in (-INF, 0.0))
        begin = _State(low, zero, [zero] * len(self.tiles))
        count = len(begin.values)

        def one_round(at: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            # Everybody has read what was here before.
            barrier(b)
            self._put(carried[count:], at)
            barrier(b)
            # On the way while this round is computed; behind the last one nobody needs them.
            coming = self._fetch(b.add(at, shape.keys))
            old = _State(carried[0], carried[1], carried[2:count])
            return [*self._round(at, queries, old).values, *coming]

        start = [*begin.values, *self._fetch(b.index(0))]
        found = b.reduce(0, stop[1], shape.keys, start, one_round, hint="at")
        self._finish(_State(found[0], found[1], found[2:count]), stop)

    # Queries, and keys and values on their way to shared memory

    def _query(self, column: int) -> SSAValue:
        b, heads = self.b, self.of.q
        at = [b.index(one) for one in heads.at(self.batch, self.head, self.first, column)]
        if self.bounded:
            rows = heads.axis("l")
            return b.insert(TensorLoadOp(heads.buffer, at, LEFT, bounded=True, rows=rows))
        return b.insert(SubgroupMmaLoadMatrixOp(heads.buffer, at, _lead(heads), LEFT))

    def _pieces(self) -> Iterator[tuple[SSAValue, SSAValue]]:
        """The accesses of an invocation: the key of the round, and the place in its line."""
        b, shape = self.b, self.shape
        each = shape.size // LANES
        for start in range(0, shape.keys * each, shape.threads):
            number = b.add(self.thread, start)
            yield b.floordiv(number, each), b.rem(number, each)

    def _fetch(self, at: SSAValue) -> list[SSAValue]:
        """Keys and values of a round; beyond the last key it comes again, and 0 for its values."""
        b, of = self.b, self.of
        found: list[SSAValue] = []
        for heads in (of.k, of.v):
            for line, chunk in self._pieces():
                key = b.add(at, line)
                known = self._known_key(key)
                place = heads.at(self.batch, self.key_head, known, b.mul(chunk, LANES))
                values = load_wide(b, heads.buffer, place, LANES)
                if not self.whole and heads is of.v:
                    inside, zero = b.compare("ult", key, self.key_count), b.constant(0, f16)
                    values = [select(b, inside, value, zero) for value in values]
                found.append(b.from_elements(values))
        return found

    def _known_key(self, key: SSAValue) -> SSAValue:
        """A key, the last one where there is none."""
        b = self.b
        return b.index(b.maximum(b.minimum(key, b.minus(self.key_count, 1)), 0))

    def _put(self, values: Sequence[SSAValue], at: SSAValue) -> None:
        """What was read goes to shared memory, with the biases of the round."""
        b, half = self.b, len(values) // 2
        for buffer, some in ((self.keys, values[:half]), (self.values, values[half:])):
            for (line, chunk), value in zip(self._pieces(), some, strict=True):
                b.store(value, buffer, [line, chunk])
        if self.biases is not None:
            self._put_biases(self.biases, at)

    def _put_biases(self, biases: SSAValue, at: SSAValue) -> None:
        """What is added to the products of each key of the round, before they are scaled."""
        b, mask = self.b, self.of.mask
        assert mask is not None
        scale = self.of.op.scale.value.data

        def put(number: SSAValue) -> None:
            key = b.add(at, number)
            known = self._known_key(key)
            bias = mask.one(self.batch, self.head, 0, known)
            if is_float(mask.buffer):
                bias = b.insert(arith.MulfOp(bias, b.constant(1 / scale, f32)))
            b.store(bias, biases, [number])

        b.loop(self.thread, self.shape.keys, self.shape.threads, put)

    def _shared(
        self, buffer: SSAValue, row: int, column: int, kind: MMAMatrixType, *, turned: bool = False
    ) -> SSAValue:
        at = [self.b.index(row), self.b.index(column // LANES)]
        load = SubgroupMmaLoadMatrixOp(buffer, at, self.shape.line, kind, transpose=turned)
        return self.b.insert(load)

    # A round

    def _round(self, at: SSAValue, queries: Sequence[SSAValue], old: _State | None) -> _State:
        """What is known behind the keys from `at` on; `old`: in front of them, if there are others."""
        b = self.b
        scores = [self._scores(key, queries) for key in self.key_tiles]
        scores = self._masked(scores, at)

        def largest(b: LoopBuilder, given: Sequence[SSAValue]) -> SSAValue:
            top, *others = given[2:]
            for one in others:
                top = greater(b, one, top)
            return top

        tops = [] if old is None else [old.top]
        top = self._reduce(self._map([*tops, *scores], largest), _larger)
        base = self._map([top], self._base) if self.hides or self.cut else top
        weights = [self._map([score, base], self._weight) for score in scores]
        if old is None:
            total, *more = weights
            results = [self._constant(0.0)] * len(self.tiles)
        else:
            change = self._map([old.top, base], self._weight)
            total, more = self._joined("mulf", old.total, change), weights
            results = [self._joined("mulf", result, change) for result in old.results]
        for one in more:
            total = self._joined("addf", total, one)
        for key, weight in zip(self.key_tiles, weights):
            share = b.insert(MatrixConvertOp(weight, LEFT))
            for number, d in enumerate(self.tiles):
                values = self._shared(self.values, key, d, RIGHT)
                results[number] = b.insert(SubgroupMmaComputeOp(share, values, results[number]))
        return _State(top, total, results)

    def _scores(self, key: int, queries: Sequence[SSAValue]) -> SSAValue:
        """Products of queries and 16 keys, on top of what the mask adds for all queries."""
        b = self.b
        total = self._constant(0.0)
        if self.biases is not None:
            load = SubgroupMmaLoadMatrixOp(self.biases, [b.index(key)], 0, SUMS)
            total = b.insert(load)
        for query, d in zip(queries, self.tiles):
            # A key is a row of memory, and a column of the matrix.
            keys = self._shared(self.keys, key, d, RIGHT, turned=True)
            total = b.insert(SubgroupMmaComputeOp(query, keys, total))
        return total

    def _masked(self, scores: Sequence[SSAValue], at: SSAValue) -> list[SSAValue]:
        """Scores with the mask, -inf where a query does not see a key."""
        b, of = self.b, self.of
        places = [b.add(at, key) for key in self.key_tiles]
        mask = of.mask
        if mask is not None and self.biases is None:
            masked = self._biased if is_float(mask.buffer) else self._attended
            scores = [masked(*pair, mask) for pair in zip(scores, places)]
        if not of.sight.causal and not self.cut:
            return list(scores)
        position = of.sight.position(self.first)
        last = position if of.sight.causal else b.index(b.minus(self.key_count, 1))

        def hidden() -> list[SSAValue]:
            return [self._seen(*pair, last) for pair in zip(scores, places)]

        # Rounds that all queries of the subgroup see need not ask.
        some = b.compare("sgt", b.add(at, self.shape.keys - 1), last)
        return list(b.when(some, hidden, lambda: scores, [SUMS] * len(scores)))

    def _seen(self, score: SSAValue, key: SSAValue, last: SSAValue) -> SSAValue:
        """-inf where a key is behind the last one that a query sees, which is `last` for the first query."""
        follows = self.of.sight.causal

        def seen(b: LoopBuilder, given: Sequence[SSAValue]) -> SSAValue:
            row, column, score, distance = given
            most = b.add(row, distance) if follows else distance
            return select(b, b.compare("sle", column, most), score, b.constant(-INF, f32))

        return self._map([score, self.b.sub(last, key)], seen)

    def _biased(self, score: SSAValue, key: SSAValue, mask: Mask) -> SSAValue:
        """A score as an exponent, with a mask of numbers that differs between queries."""
        b = self.b
        assert isinstance(mask.buffer.type, MemRefType)
        at = [b.index(one) for one in mask.place(self.batch, self.head, self.first, key)]
        kind = SUMS.with_element(mask.buffer.type.element_type)
        bounded = not self.whole or self.bounded
        load = TensorLoadOp(mask.buffer, at, kind, bounded=bounded)
        bias = self._converted(b.insert(load), SUMS)
        log2, scale = Weights(b, f32, of_two=True).scale(1), self.scale

        def added(b: LoopBuilder, given: Sequence[SSAValue]) -> SSAValue:
            *_, score, bias = given
            score = b.insert(arith.MulfOp(score, b.constant(scale, f32)))
            return b.insert(FmaOp(bias, b.constant(log2, f32), score))

        return self._map([score, bias], added)

    def _attended(self, score: SSAValue, key: SSAValue, mask: Mask) -> SSAValue:
        """A score, -inf where a mask of bools says that a key is not attended to."""
        b = self.b
        # Rows behind the last query are not stored, keys behind the last one are hidden.
        last_query, last_key = (b.minus(n, 1) for n in (self.query_count, self.key_count))
        assert isinstance(last_query, int)
        assert isinstance(last_key, int)

        def attended(b: LoopBuilder, given: Sequence[SSAValue]) -> SSAValue:
            row, column, score, buffer, batch, head, first, key = given
            query = b.minimum(b.add(first, row), last_query)
            column = b.minimum(b.add(key, column), last_key)
            flag = b.load(buffer, mask.place(batch, head, query, column))
            attends = compare_integers(b, "ne", flag, b.constant(0, flag.type))
            return select(b, attends, score, b.constant(-INF, f32))

        place = [b.index(one) for one in (self.batch, self.head)]
        return self._map([score, mask.buffer, *place, self.first, key], attended)

    def _weight(self, b: LoopBuilder, given: Sequence[SSAValue]) -> SSAValue:
        """The power of two of what a score is below the base of its row, times a factor."""
        *_, score, base = given
        weights = Weights(b, f32, of_two=True)
        if self.factor == 1.0:
            return weights.weight(score, base)
        below = b.insert(arith.SubfOp(score, base))
        below = b.insert(arith.MulfOp(below, b.constant(self.factor, f32)))
        return weights.power(below)

    def _base(self, b: LoopBuilder, given: Sequence[SSAValue]) -> SSAValue:
        return Weights(b, f32, of_two=True).base(given[2])

    # Results

    def _finish(self, found: _State, keys: tuple[Index, Index]) -> None:
        """Quotients, and where they go. `keys`: the range that the queries of the workgroup see."""
        b, nan_rows = self.b, self.of.op.nan_rows is not None

        def inverse(b: LoopBuilder, given: Sequence[SSAValue]) -> SSAValue:
            total = Weights(b, f32).divisor(given[2], nan_rows=nan_rows)
            return b.insert(arith.DivfOp(b.constant(1, f32), total))

        # A division takes several instructions, and every result of a row has the same divisor.
        factor = self._map([self._reduce(found.total, _sum)], inverse)
        results = [self._joined("mulf", result, factor) for result in found.results]
        fine = self._all_finite(results)
        b.when(fine, lambda: self._store(results), lambda: self._key_by_key(keys))

    def _all_finite(self, results: Sequence[SSAValue]) -> SSAValue:
        """Whether no result of the subgroup is infinite or NaN."""
        b = self.b

        def wrong(b: LoopBuilder, given: Sequence[SSAValue]) -> SSAValue:
            sizes = [b.insert(AbsFOp(one)) for one in given[2:]]
            fine = [compare_floats(b, "olt", one, b.constant(INF, f32)) for one in sizes]
            for one, other in pairwise(range(len(fine))):
                fine[other] = b.insert(arith.AndIOp(fine[one], fine[other]))
            return select(b, fine[-1], b.constant(0, f32), b.constant(1, f32))

        marks = self._reduce(self._map(results, wrong), _larger, whole=True)
        found = b.insert(MatrixElementOp(marks))
        return compare_floats(b, "oeq", found, b.constant(0, f32))

    def _store(self, results: Sequence[SSAValue]) -> None:
        b, out = self.b, self.of.out
        for result, d in zip(results, self.tiles):
            narrow = self._converted(result, HALVES)
            at = [b.index(one) for one in out.at(self.batch, self.head, self.first, d)]
            if self.bounded:
                b.do(TensorStoreOp(narrow, out.buffer, at, bounded=True, rows=out.axis("l")))
            else:
                b.do(SubgroupMmaStoreMatrixOp(narrow, out.buffer, at, _lead(out)))

    def _key_by_key(self, keys: tuple[Index, Index]) -> None:
        """The rows of the subgroup once more, four neighbours at a time for an invocation."""
        b, of, each = self.b, self.of, self.shape.size // 4
        place = self.batch, self.head, self.key_head

        def one(number: SSAValue) -> None:
            query = b.add(self.first, b.floordiv(number, each))
            column = b.mul(b.rem(number, each), 4)

            def store() -> None:
                weights = Weights(b, f32, of_two=True)
                values = key_by_key(of, weights, place, (query, column), 4, keys)
                there = of.out.at(self.batch, self.head, query, column)
                store_wide(b, [convert(b, one, f16) for one in values], of.out.buffer, there)

            b.when(b.compare("ult", query, self.query_count), store)

        b.loop(b.insert(gpu.LaneIdOp()), SIDE * each, SUBGROUP, one)

    # Matrices

    def _constant(self, value: float) -> SSAValue:
        b = self.b
        return b.insert(SubgroupMmaConstantMatrixOp(b.constant(value, f32), SUMS))

    def _joined(self, kind: str, left: SSAValue, right: SSAValue) -> SSAValue:
        return self.b.insert(SubgroupMmaElementwiseOp(kind, left, right))

    def _converted(self, value: SSAValue, kind: MMAMatrixType) -> SSAValue:
        return value if value.type == kind else self.b.insert(MatrixConvertOp(value, kind))

    def _map(self, values: Sequence[SSAValue], body: Body) -> SSAValue:
        """A function of row, column and elements."""
        types = [IndexType(), IndexType(), *(element_of(one.type) for one in values)]
        return self.b.insert(MatrixMapOp(values, _region(types, body)))

    def _reduce(self, value: SSAValue, body: Body, *, whole: bool = False) -> SSAValue:
        """The elements of rows joined, or of the whole matrix."""
        return self.b.insert(MatrixReduceOp(value, SUMS, _region([f32, f32], body), whole=whole))


def _region(types: Sequence[Attribute], body: Body) -> Region:
    block = Block(arg_types=types)
    b = LoopBuilder(InsertPoint.at_end(block))
    b.do(MatrixYieldOp(body(b, block.args)))
    return Region(block)


def _lead(heads: Heads) -> int:
    """What lies from one position to the next."""
    assert isinstance(heads.buffer.type, MemRefType)
    shape, found = heads.buffer.type.get_shape(), 1
    for extent in shape[heads.axis("l") + 1 :]:
        found *= extent
    return found


def _larger(b: LoopBuilder, given: Sequence[SSAValue]) -> SSAValue:
    return greater(b, given[0], given[1])


def _sum(b: LoopBuilder, given: Sequence[SSAValue]) -> SSAValue:
    return b.insert(arith.AddfOp(given[0], given[1]))
