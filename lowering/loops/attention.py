"""The schedule of attention, for one block of queries of one head at a time.

The lanes of every vector are neighbouring queries, the rows are keys:

    queries[d, lane]  = scale · q[lane, d]                      transposed once for the block
    scores[key, lane] = sum over d of k[key, d] · queries[d, lane], masked;  top = max over keys
    scores[key, lane] = exp(scores[key, lane] - top[lane]);     total = sum over keys
    out[query, d]     = sum over keys of scores[key, query] · v[key, d] / total[query]

So keys and values are read where they lie, maximum and sum run along rows without crossing lanes,
and a number of keys that fits no vector needs no mask. Lanes beyond the last query repeat it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    MemRefType,
    VectorType,
    i32,
)
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.arith import IndexCastOp
from openinfer.dialects.nn import AttentionOp
from openinfer.lowering.loops.builder import Index, LoopBuilder
from openinfer.lowering.loops.elements import accumulator_of, convert
from openinfer.lowering.loops.machine import Machine
from openinfer.lowering.loops.microkernel import (
    Arithmetic,
    Carried,
    contract,
    over_tiles,
    split_for,
)
from openinfer.lowering.loops.numeric import (
    INF,
    compare_floats,
    compare_integers,
    element_type,
    greater,
    is_float,
    select,
)
from openinfer.lowering.loops.packing import transpose_into


@dataclass(frozen=True)
class Heads:
    """A `[batch, heads, length, size]` operand in one of its two layouts."""

    buffer: SSAValue
    layout: str

    def axis(self, name: str) -> int:
        """The axis of `b`atch, `h`eads, `l`ength or `d` (head size)."""
        return self.layout.index(name)

    def at(self, batch: Index, head: Index, position: Index, column: Index) -> list[Index]:
        if self.layout == "bhld":
            return [batch, head, position, column]
        return [batch, position, head, column]


@dataclass(frozen=True)
class Block:
    """A block of queries of one head: where it is, and which keys it may attend to."""

    batch: Index
    head: Index
    group: Index
    """The head of keys and values."""
    first: SSAValue
    count: Index
    """Queries that exist; a vector may hold more."""
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
        self.mask = op.inputs[3] if op.masked is not None else None
        self.queries, self.scores = op.outs[1], op.outs[2]
        kind = accumulator_of(element_type(op.inputs[0]))
        assert isinstance(self.scores.type, MemRefType)
        self.how = Arithmetic(kind, self.scores.type.get_shape()[-1], machine.fused)
        self.zero = build.index(0)
        self.lowest = build.constant(-INF, self.how.vector)
        self.scale = build.constant(op.scale.value.data, self.how.vector)
        self.query_count = build.dim(self.q.buffer, self.q.axis("l"))
        self.key_count = build.dim(self.k.buffer, self.k.axis("l"))

    @property
    def _bounded(self) -> bool:
        return self.op.causal is not None or self.op.window is not None

    def emit(self) -> None:
        """All heads. A version for several threads gives each its own part of the scratch."""
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

        build.loop(
            0,
            batches,
            1,
            lambda b: build.loop(0, heads, 1, lambda h: head(b, h), parallel=True, hint="h"),
            parallel=True,
            hint="b",
        )

    def _head(self, batch: Index, head: Index, group: Index) -> None:
        def block(first: SSAValue) -> None:
            count = self.build.minimum(self.build.minus(self.query_count, first), self.how.lanes)
            position, keys = self._keys_of(first, count)
            self._block(Block(batch, head, group, first, count, keys, position))

        if isinstance(self.query_count, int) and 0 < self.query_count <= self.how.lanes:
            count = self.query_count
            position, keys = self._keys_of(self.zero, count)
            self._block(Block(batch, head, group, self.zero, count, keys, position))
        else:
            self.build.loop(0, self.query_count, self.how.lanes, block, hint="i")

    def _keys_of(
        self, first: SSAValue, count: Index
    ) -> tuple[SSAValue | None, tuple[Index, Index]]:
        """The position of a block's first query, and the keys that any of its queries may see."""
        if not self._bounded:
            return None, (0, self.key_count)
        build = self.build
        offset = build.minus(self.key_count, self.query_count)
        position = build.index(build.plus(first, offset))
        window = self.op.window.value.data if self.op.window is not None else None
        start: Index = 0
        if window is not None:
            start = build.maximum(build.sub(position, window - 1), 0)
        reach = 1 if self.op.causal is not None or window is None else window
        stop = build.plus(build.add(position, count), reach - 1)
        stop = build.maximum(build.minimum(stop, self.key_count), 0)
        if window is not None:
            start = build.minimum(start, stop)
        return position, (start, stop)

    # One block -----------------------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        build = self.build
        rows = self._clamped_queries(block)
        self._load_queries(block, rows)
        if self.mask is not None and self._mask_size(2) != 1:
            self._load_mask(block, rows)
        top = self._score(block)
        # A query that may attend to nothing has only -inf: its weights are 0, not NaN.
        zero, one = build.constant(0, self.how.vector), build.constant(1, self.how.vector)
        top = select(build, compare_floats(build, "oeq", top, self.lowest), zero, top)
        total = self._weigh(block, top)
        total = select(build, compare_floats(build, "oeq", total, zero), one, total)
        # The queries themselves are not needed any more: their first row takes the shares.
        share = build.insert(arith.DivfOp(one, total))
        build.vstore(share, self.queries, [self.zero, self.zero, self.zero])
        self._combine(block)

    def _clamped_queries(self, block: Block) -> list[Index]:
        """The query of each lane; lanes beyond the last one repeat it."""
        build = self.build
        last = build.minus(self.query_count, 1)
        places = [build.add(block.first, lane) for lane in range(self.how.lanes)]
        return [build.minimum(place, last) for place in places]

    def _load_queries(self, block: Block, rows: Sequence[Index]) -> None:
        """queries[d, lane] = scale · q[lane, d]."""
        build, q = self.build, self.q

        def read(row: Index, column: SSAValue, width: int | None) -> SSAValue:
            place = q.at(block.batch, block.head, row, column)
            if width is None:
                return convert(build, build.load(q.buffer, place), self.how.kind)
            return convert(build, build.vload(q.buffer, place, width), self.how.kind)

        def write(value: SSAValue, column: SSAValue) -> None:
            scaled = build.insert(arith.MulfOp(value, self.scale))
            build.vstore(scaled, self.queries, [self.zero, column, self.zero])

        transpose_into(build, rows, (0, build.dim(q.buffer, 3)), read, write)

    def _score(self, block: Block) -> SSAValue:
        """Scores against all keys of the block; the largest one of each query."""
        build, k, lanes = self.build, self.k, self.how.lanes
        positions = self._positions(block)

        def tile(first: Index, count: int, tops: Carried) -> Carried:
            keys = [build.index(build.plus(first, offset)) for offset in range(count)]
            sums = contract(
                build,
                self.how,
                count,
                1,
                (0, build.dim(k.buffer, 3)),
                lambda d: [
                    build.load(k.buffer, k.at(block.batch, block.group, key, d)) for key in keys
                ],
                lambda d: [build.vload(self.queries, [self.zero, d, self.zero], lanes)],
                split=split_for(self.machine.accumulators, count, 1),
            )
            (top,) = tops
            for key, (score,) in zip(keys, sums):
                score = self._masked(block, key, score, positions)
                top = greater(build, score, top)
                build.vstore(score, self.scores, [self.zero, key, self.zero])
            return [top]

        start, stop = block.keys
        extent = build.minus(stop, start)
        rows = self.machine.rows(1)
        return over_tiles(build, extent, rows, tile, [self.lowest], start=start, hint="j")[0]

    def _weigh(self, block: Block, top: SSAValue) -> SSAValue:
        """scores = exp(scores - top); the sum of them for each query."""
        build = self.build

        def row(key: SSAValue, totals: Sequence[SSAValue]) -> list[SSAValue]:
            place = [self.zero, key, self.zero]
            score = build.vload(self.scores, place, self.how.lanes)
            weight = build.insert(math.ExpOp(build.insert(arith.SubfOp(score, top))))
            build.vstore(weight, self.scores, place)
            return [build.insert(arith.AddfOp(totals[0], weight))]

        start, stop = block.keys
        return build.reduce(start, stop, 1, [build.constant(0, self.how.vector)], row, hint="j")[0]

    def _combine(self, block: Block) -> None:
        """out[query, d] = sum of scores[key, query] · v[key, d] over keys, times the share."""
        build, v, lanes = self.build, self.v, self.how.lanes
        size = build.dim(v.buffer, 3)
        assert isinstance(size, int)
        width = 2 * lanes
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

    def _combine_columns(
        self, block: Block, column: SSAValue, masks: Sequence[SSAValue | None]
    ) -> None:
        build, v, lanes = self.build, self.v, self.how.lanes
        starts = [build.add(column, n * lanes) for n in range(len(masks))]

        def tile(first: Index, count: int, _: Carried) -> Carried:
            queries = [build.index(build.plus(first, offset)) for offset in range(count)]

            def elements(key: SSAValue) -> list[SSAValue]:
                return [build.load(self.scores, [self.zero, key, query]) for query in queries]

            def columns(key: SSAValue) -> list[SSAValue]:
                return [
                    build.vload(v.buffer, v.at(block.batch, block.group, key, start), lanes, mask)
                    for start, mask in zip(starts, masks)
                ]

            split = split_for(self.machine.accumulators, count, len(masks))
            sums = contract(
                build, self.how, count, len(masks), block.keys, elements, columns, split=split
            )
            for query, row in zip(queries, sums):
                share = build.load(self.queries, [self.zero, self.zero, query])
                shares = build.splat(share, lanes)
                target = build.add(block.first, query)
                for start, mask, total in zip(starts, masks, row):
                    value = build.insert(arith.MulfOp(total, shares))
                    value = convert(build, value, element_type(self.out.buffer))
                    place = self.out.at(block.batch, block.head, target, start)
                    build.vstore(value, self.out.buffer, place, mask)
            return ()

        over_tiles(build, block.count, self.machine.rows(len(masks)), tile, hint="r")

    # Masks ---------------------------------------------------------------------------------------

    def _mask_size(self, axis: int) -> int:
        """The size of the mask along batch, heads, queries or keys; 1 where it has no such axis."""
        assert self.mask is not None
        assert isinstance(self.mask.type, MemRefType)
        shape = self.mask.type.get_shape()
        own = axis - (4 - len(shape))
        return shape[own] if own >= 0 else 1

    def _mask_place(self, block: Block, query: Index, key: Index) -> list[Index]:
        assert self.mask is not None
        assert isinstance(self.mask.type, MemRefType)
        rank = self.mask.type.get_num_dims()
        place: list[Index] = [block.batch, block.head, query, key]
        return [
            self.zero if self._mask_size(axis) == 1 else place[axis] for axis in range(4 - rank, 4)
        ]

    def _bias(self, value: SSAValue) -> SSAValue:
        """What elements of the mask (one, or a vector) add to a score: 0 or -inf for bools."""
        build = self.build
        if is_float(value):
            return convert(build, value, self.how.kind)
        none = build.constant(0, value.type)
        attends = compare_integers(build, "ne", value, none)
        kind = value.type
        wide = (
            VectorType(self.how.kind, kind.shape) if isinstance(kind, VectorType) else self.how.kind
        )
        return select(build, attends, build.constant(0, wide), build.constant(-INF, wide))

    def _load_mask(self, block: Block, rows: Sequence[Index]) -> None:
        """scores[key, lane] = what the mask adds; the scores are added to it later."""
        build, mask = self.build, self.mask
        assert mask is not None

        def read(row: Index, key: SSAValue, width: int | None) -> SSAValue:
            place = self._mask_place(block, row, key)
            if self._mask_size(3) == 1 or width is None:
                value = self._bias(build.load(mask, place))
                return value if width is None else build.splat(value, width)
            return self._bias(build.vload(mask, place, width))

        def write(value: SSAValue, key: SSAValue) -> None:
            build.vstore(value, self.scores, [self.zero, key, self.zero])

        transpose_into(build, rows, block.keys, read, write)

    def _positions(self, block: Block) -> SSAValue | None:
        """The positions of the block's queries as i32, when they bound the keys that they see."""
        if block.position is None:
            return None
        build, lanes = self.build, self.how.lanes
        kind = VectorType(i32, [lanes])
        steps = DenseIntOrFPElementsAttr.from_list(kind, list(range(lanes)))
        first = build.splat(build.insert(IndexCastOp(block.position, i32)), lanes)
        return build.insert(arith.AddiOp(first, build.insert(arith.ConstantOp(steps, kind))))

    def _masked(
        self, block: Block, key: SSAValue, score: SSAValue, positions: SSAValue | None
    ) -> SSAValue:
        """The scores of one key with the mask applied."""
        build, lanes = self.build, self.how.lanes
        if self.mask is not None:
            if self._mask_size(2) != 1:
                bias = build.vload(self.scores, [self.zero, key, self.zero], lanes)
            else:
                place = self._mask_place(block, self.zero, key)
                bias = build.splat(self._bias(build.load(self.mask, place)), lanes)
            score = self._with_bias(bias, score)
        if positions is None:
            return score
        there = build.splat(build.insert(IndexCastOp(key, i32)), lanes)
        return self._in_sight(there, positions, score)

    def _with_bias(self, bias: SSAValue, score: SSAValue) -> SSAValue:
        assert self.mask is not None
        if is_float(self.mask):
            return self.build.insert(arith.AddfOp(score, bias))
        # Not added: a score that is not finite is hidden as well.
        hidden = compare_floats(self.build, "olt", bias, self.build.constant(0, bias.type))
        return select(self.build, hidden, self.lowest, score)

    def _in_sight(self, key: SSAValue, query: SSAValue, score: SSAValue) -> SSAValue:
        """`score` where the query at `query` may see the key at `key`, else -inf."""
        build = self.build
        window = self.op.window.value.data if self.op.window is not None else None
        if self.op.causal is not None:
            seen = compare_integers(build, "sle", key, query)
            score = select(build, seen, score, self.lowest)
        if window is not None:
            reach = build.constant(window, key.type)
            near = compare_integers(build, "slt", self._distance(query, key), reach)
            score = select(build, near, score, self.lowest)
            if self.op.causal is None:
                near = compare_integers(build, "slt", self._distance(key, query), reach)
                score = select(build, near, score, self.lowest)
        return score

    def _distance(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.build.insert(arith.SubiOp(a, b))
