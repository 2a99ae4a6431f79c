"""`nn.attention` of f16 by matrices that a whole workgroup holds.

A workgroup computes the results of 64 or 128 queries of one head. Scores, weights and results are one matrix
each; what is done to rows and elements is done by functions that the matrices are given to:

    scores of all keys; the largest of each row; weights; their sum; weights times values

A product of matrices multiplies hidden values by a weight of 0, which gives NaN where they are not finite.
Where a result is not finite, all results of the workgroup are computed once more, key by key.

Requires: a device with such matrices; q, k, v and the result in accesses of 16 bytes; heads of 32 or 64; up
to 128 keys, a multiple of 32, as the types say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, gpu
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, MemRefType, f16, f32, i8
from xdsl.dialects.math import AbsFOp, FmaOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from openinfer.dialects.extensions.gpu import (
    SubgroupMmaComputeOp,
    SubgroupMmaConstantMatrixOp,
)
from openinfer.dialects.extensions.gpu_matrix_type import WORKGROUP, MMAMatrixType
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
from openinfer.lowering.vulkan.schedules.attention_keys import key_by_key
from openinfer.lowering.vulkan.schedules.attention_operands import Attended
from openinfer.lowering.vulkan.schedules.attention_weights import Weights
from openinfer.lowering.vulkan.schedules.grid import (
    Grid,
    HostValue,
    each_group,
    groups_for,
    product,
    split,
)
from openinfer.lowering.vulkan.schedules.matmul_matrices import LANES
from openinfer.lowering.vulkan.schedules.wide import common_lanes, store_wide
from openinfer.lowering.vulkan.schedules.workgroup import barrier, shared_buffer

THREADS = 128
"""Invocations of a workgroup."""
BUSY = 100
"""Workgroups that keep a device busy."""
MOST_KEYS = 128
"""Keys whose scores are one matrix. (In steps of 64 keys, as in `attention_matrices.py`, causal attention of
512 tokens, 32/8 heads of 64, took 25.3 us on an H200, where subgroups take 19.3.)"""
UNIT = 32
"""What rows and columns of matrices are multiples of."""
_X = gpu.DimensionAttr(gpu.DimensionEnum.X)


@dataclass(frozen=True)
class WorkgroupShape:
    """What a workgroup computes at once."""

    queries: int
    keys: int
    size: int
    """Of a head."""


def workgroup_shape_of(b: LoopBuilder, op: AttentionOp) -> WorkgroupShape | None:
    """What the workgroups of an attention compute, if the device and its shapes are made for this."""
    if not b.facts.device_description.workgroup_matrices or b.facts.strict_math:
        return None
    if op.window is not None or op.reach is not None or op.scale.value.data <= 0:
        return None
    if op.softcap is not None or op.cap is not None:
        return None
    shapes: list[tuple[int, ...]] = []
    for value in (*op.inputs[:3], op.outs[0]):
        assert isinstance(value.type, MemRefType)
        if value.type.element_type != f16 or DYNAMIC_INDEX in value.type.get_shape():
            return None
        shapes.append(value.type.get_shape())
    layouts = [layout.data for layout in op.layouts]
    size, columns = shapes[1][3], shapes[2][3]
    queries, keys = (shape[layout.index("l")] for shape, layout in zip(shapes[:2], layouts))
    heads = shapes[0][layouts[0].index("b")] * shapes[0][layouts[0].index("h")]
    if size != columns or common_lanes(op, [*op.inputs[:3], op.outs[0]]) != LANES:
        return None
    if size not in (UNIT, 2 * UNIT) or keys > MOST_KEYS or keys % UNIT:
        return None
    rows = 64 if heads * -(-queries // 128) < 2 * BUSY or queries <= 64 else 128
    if not _masks(op, queries, keys) or heads * -(-queries // rows) < BUSY:
        return None
    return WorkgroupShape(rows, keys, size)


def _masks(op: AttentionOp, queries: int, keys: int) -> bool:
    """Whether there is no mask, one of bools, or one that is a matrix, or a row of one, which is added to
    scores."""
    if op.mask is None:
        return True
    assert isinstance(op.mask.type, MemRefType)
    shape = (1, *op.mask.type.get_shape())
    if op.mask.type.element_type == i8:
        return DYNAMIC_INDEX not in shape
    is_number = op.mask.type.element_type in (f16, f32)
    return is_number and shape[-1] == keys and shape[-2] in (1, queries)


def by_workgroups(b: LoopBuilder, op: AttentionOp, shape: WorkgroupShape) -> Grid:
    """The kernel of such an attention."""
    of = Attended(b, op)

    def blocks(host: LoopBuilder, out: SSAValue) -> list[Index]:
        """Blocks of queries, batches, heads."""
        batches, heads, queries = of.extents(host, out)
        return [host.ceil_div(queries, shape.queries), batches, heads]

    def one(number: SSAValue) -> None:
        extents = blocks(b, of.out.buffer)
        block, batch, head = split(b, number, extents)
        # The last queries see most of the keys, and begin first.
        block = b.sub(b.index(b.minus(extents[0], 1)), block)
        _Block(of, shape, (batch, head), b.mul(block, shape.queries)).emit()

    each_group(b, product(b, blocks(b, of.out.buffer)), one)

    def groups(host: LoopBuilder, value_of: HostValue) -> tuple[Index, Index, Index]:
        return groups_for(host, product(host, blocks(host, value_of(of.out.buffer))))

    return Grid(groups, THREADS)


Body = Callable[[LoopBuilder, Sequence[SSAValue]], SSAValue]
"""Builds a function of what a region is given."""


class _Block:
    """Neighbouring queries of a head. Those beyond the last one are 0, and not stored."""

    def __init__(
        self,
        of: Attended,
        shape: WorkgroupShape,
        place: tuple[SSAValue, SSAValue],
        first: SSAValue,
    ) -> None:
        """`place`: the batch and the head."""
        self.b, self.of, self.shape, self.first = of.b, of, shape, first
        self.batch, self.head = place
        self.key_head = of.group_of(self.head)
        self.scale = Weights(of.b, f32, of_two=True).scale(of.op.scale.value.data)
        queries = of.query_count
        self.bounded = not isinstance(queries, int) or queries % shape.queries != 0

    def emit(self) -> None:
        """The results, and where they go."""
        b, of, shape = self.b, self.of, self.shape
        queries = self._load(of.q, self.head, self.first, self._kind(shape.size, f16, "AOp"))
        stop: tuple[Index, Index] = (0, of.sight.key_count)
        if of.sight.bounded:
            stop = of.sight.keys(of.sight.position(self.first), shape.queries)
        results, total = self._weighted(queries)

        def divided(b: LoopBuilder, given: Sequence[SSAValue]) -> SSAValue:
            *_, value, sums = given
            sums = Weights(b, f32).divisor(sums, nan_rows=of.op.nan_rows is not None)
            return b.insert(arith.DivfOp(value, sums))

        results = self._map([results, total], divided)
        fine = self._all_finite(results)
        b.when(fine, lambda: self._store(results), lambda: self._key_by_key(stop))

    # Scores and weights

    def _weighted(self, queries: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Weighted values, and the sum of the weights of each row."""
        b, of, shape = self.b, self.of, self.shape
        scores, scale = self._scores(queries), self.scale
        mask = self._bias()
        if mask is not None:
            log2 = Weights(b, f32, of_two=True).scale(1)

            def added(b: LoopBuilder, given: Sequence[SSAValue]) -> SSAValue:
                *_, score, bias = given
                score = b.insert(arith.MulfOp(score, b.constant(self.scale, f32)))
                return b.insert(FmaOp(bias, b.constant(log2, f32), score))

            scores, scale = self._map([scores, mask], added), 1.0
        if of.hidden.bools is not None:
            scores = self._attended(scores, of.hidden.bools)
        if of.sight.causal:
            scores = self._seen(scores)
        tops = self._reduce(scores, self._kind(shape.keys, f32), _larger)
        weights = self._weights(scores, tops, scale)
        total = self._reduce(weights, self._kind(shape.size, f32), _sum)
        return self._weigh(weights), total

    def _scores(self, queries: SSAValue) -> SSAValue:
        b, shape = self.b, self.shape
        kind = MMAMatrixType.of(shape.size, shape.keys, f16, "BOp", WORKGROUP)
        keys = self._load(self.of.k, self.key_head, b.index(0), kind, transpose=True)
        zero = b.constant(0, f32)
        start = b.insert(SubgroupMmaConstantMatrixOp(zero, self._kind(shape.keys, f32)))
        return b.insert(SubgroupMmaComputeOp(queries, keys, start))

    def _bias(self) -> SSAValue | None:
        """The mask of all keys, if it is one of numbers, which are added."""
        b, mask = self.b, self.of.mask
        if mask is None or not is_float(mask.buffer):
            return None
        assert isinstance(mask.buffer.type, MemRefType)
        at = [b.index(one) for one in mask.place(self.batch, self.head, self.first, 0)]
        kind = self._kind(self.shape.keys, mask.buffer.type.element_type)
        repeated = not mask.varies_by_query
        bounded = self.bounded and not repeated
        load = TensorLoadOp(mask.buffer, at, kind, repeated=repeated, bounded=bounded)
        return self._converted(b.insert(load), self._kind(self.shape.keys, f32))

    def _attended(self, scores: SSAValue, mask: Mask) -> SSAValue:
        """Scores, -inf where a mask of bools says that a key is not attended to."""
        if not mask.varies_by_query:
            return self._attended_keys(scores, mask)
        last = self.b.minus(self.of.query_count, 1)

        def attended(b: LoopBuilder, given: Sequence[SSAValue]) -> SSAValue:
            row, column, score, buffer, batch, head, first = given
            # Rows behind the last query are not stored.
            query = b.minimum(b.add(first, row), last)
            flag = b.load(buffer, mask.place(batch, head, query, column))
            attends = compare_integers(b, "ne", flag, b.constant(0, flag.type))
            return select(b, attends, score, b.constant(-INF, f32))

        place = [self.b.index(one) for one in (self.batch, self.head)]
        return self._map([scores, mask.buffer, *place, self.first], attended)

    def _attended_keys(self, scores: SSAValue, mask: Mask) -> SSAValue:
        """The same of a mask that is one for all queries: it goes to shared memory first, where functions of
        elements find it sooner."""
        b, keys = self.b, self.shape.keys
        biases = shared_buffer(b, f32, [keys], "biases")

        def put(key: SSAValue) -> None:
            b.store(mask.one(self.batch, self.head, 0, key), biases, [key])

        b.loop(b.insert(gpu.ThreadIdOp(_X)), keys, THREADS, put)
        barrier(b)

        def attended(b: LoopBuilder, given: Sequence[SSAValue]) -> SSAValue:
            _, column, score, buffer = given
            bias = b.load(buffer, [column])
            attends = compare_floats(b, "oeq", bias, b.constant(0, f32))
            return select(b, attends, score, bias)

        return self._map([scores, biases], attended)

    def _seen(self, scores: SSAValue) -> SSAValue:
        """Scores, -inf where a key is behind the position of its query."""
        position = self.of.sight.position(self.first)

        def seen(b: LoopBuilder, given: Sequence[SSAValue]) -> SSAValue:
            row, column, score, position = given
            sees = b.compare("sle", column, b.add(row, position))
            return select(b, sees, score, b.constant(-INF, f32))

        return self._map([scores, position], seen)

    def _weights(self, scores: SSAValue, tops: SSAValue, scale: float) -> SSAValue:
        """Powers of two of what scores are below the top of their row, times a factor."""

        def weight(b: LoopBuilder, given: Sequence[SSAValue]) -> SSAValue:
            *_, score, top = given
            weights = Weights(b, f32, of_two=True)
            base = weights.base(top)
            if scale == 1.0:
                return weights.weight(score, base)
            below = b.insert(arith.SubfOp(score, base))
            below = b.insert(arith.MulfOp(below, b.constant(scale, f32)))
            return weights.weight(below, b.constant(0, f32))

        return self._map([scores, tops], weight)

    def _weigh(self, weights: SSAValue) -> SSAValue:
        """Values times their weights."""
        b, shape = self.b, self.shape
        kind = MMAMatrixType.of(shape.keys, shape.size, f16, "BOp", WORKGROUP)
        values = self._load(self.of.v, self.key_head, b.index(0), kind)
        shares = self._converted(weights, self._kind(shape.keys, f16, "AOp"))
        zero = b.constant(0, f32)
        start = b.insert(SubgroupMmaConstantMatrixOp(zero, self._kind(shape.size, f32)))
        return b.insert(SubgroupMmaComputeOp(shares, values, start))

    # Results

    def _all_finite(self, results: SSAValue) -> SSAValue:
        """Whether no result is infinite or NaN."""
        b = self.b

        def wrong(b: LoopBuilder, given: Sequence[SSAValue]) -> SSAValue:
            size = b.insert(AbsFOp(given[2]))
            fine = compare_floats(b, "olt", size, b.constant(INF, f32))
            return select(b, fine, b.constant(0, f32), b.constant(1, f32))

        marks = self._map([results], wrong)
        kind = MMAMatrixType.of(UNIT, UNIT, f32, "COp", WORKGROUP)
        joined = self._reduce(marks, kind, _larger, whole=True)
        found = b.insert(MatrixElementOp(joined))
        return compare_floats(b, "oeq", found, b.constant(0, f32))

    def _store(self, results: SSAValue) -> None:
        b, out = self.b, self.of.out
        narrow = self._converted(results, self._kind(self.shape.size, f16))
        at = [b.index(one) for one in out.at(self.batch, self.head, self.first, 0)]
        rows = out.axis("l")
        b.do(TensorStoreOp(narrow, out.buffer, at, bounded=self.bounded, rows=rows))

    def _key_by_key(self, keys: tuple[Index, Index]) -> None:
        """All results once more, four neighbours at a time for an invocation."""
        b, of, shape = self.b, self.of, self.shape
        each = shape.size // 4
        place = self.batch, self.head, self.key_head

        def one(number: SSAValue) -> None:
            query = b.add(self.first, b.floordiv(number, each))
            column = b.mul(b.rem(number, each), 4)

            def store() -> None:
                weights = Weights(b, f32, of_two=True)
                values = key_by_key(of, weights, place, (query, column), 4, keys)
                there = of.out.at(self.batch, self.head, query, column)
                store_wide(b, [convert(b, one, f16) for one in values], of.out.buffer, there)

            b.when(b.compare("ult", query, of.query_count), store)

        thread = b.insert(gpu.ThreadIdOp(_X))
        b.loop(thread, shape.queries * each, THREADS, one)

    # Matrices

    def _kind(self, columns: int, element: Attribute, operand: str = "COp") -> MMAMatrixType:
        """A matrix with a row for each query."""
        return MMAMatrixType.of(self.shape.queries, columns, element, operand, WORKGROUP)

    def _load(
        self,
        heads: Heads,
        head: Index,
        position: SSAValue,
        kind: MMAMatrixType,
        *,
        transpose: bool = False,
    ) -> SSAValue:
        b = self.b
        at = [b.index(one) for one in heads.at(self.batch, head, position, 0)]
        bounded = self.bounded and heads is self.of.q
        rows = heads.axis("l")
        return b.insert(
            TensorLoadOp(heads.buffer, at, kind, transpose=transpose, bounded=bounded, rows=rows)
        )

    def _converted(self, value: SSAValue, kind: MMAMatrixType) -> SSAValue:
        return value if value.type == kind else self.b.insert(MatrixConvertOp(value, kind))

    def _map(self, values: Sequence[SSAValue], body: Body) -> SSAValue:
        """A function of row, column and elements."""
        types = [IndexType(), IndexType(), *(element_of(one.type) for one in values)]
        return self.b.insert(MatrixMapOp(values, _region(types, body)))

    def _reduce(
        self, value: SSAValue, kind: MMAMatrixType, body: Body, *, whole: bool = False
    ) -> SSAValue:
        """The elements of rows joined."""
        region = _region([f32, f32], body)
        return self.b.insert(MatrixReduceOp(value, kind, region, whole=whole))


def _region(types: Sequence[Attribute], body: Body) -> Region:
    block = Block(arg_types=types)
    b = LoopBuilder(InsertPoint.at_end(block))
    b.do(MatrixYieldOp(body(b, block.args)))
    return Region(block)


def _larger(b: LoopBuilder, given: Sequence[SSAValue]) -> SSAValue:
    return greater(b, given[0], given[1])


def _sum(b: LoopBuilder, given: Sequence[SSAValue]) -> SSAValue:
    return b.insert(arith.AddfOp(given[0], given[1]))
