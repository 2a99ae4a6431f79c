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

from collections.abc import Callable, Sequence
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
    """Queries that exist; the vectors hold more."""
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
        self.mask = op.inputs[3] if op.masked is not None else None
        self.queries, self.scores = op.outs[1], op.outs[2]
        kind = accumulator_of(element_type(op.inputs[0]))
        self.how = Arithmetic(kind, machine.lanes(kind), machine.fused)
        assert isinstance(self.scores.type, MemRefType)
        self.width = self.scores.type.get_shape()[-1]
        self.zero = build.index(0)
        self.lanes = [build.index(v * self.how.lanes) for v in range(self.width // self.how.lanes)]
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
        build, width, lanes = self.build, self.width, self.how.lanes

        def block(first: SSAValue) -> None:
            count = build.minimum(build.minus(self.query_count, first), width)

            def with_vectors(vectors: int) -> None:
                position, keys = self._keys_of(first, count)
                self._block(
                    Block(batch, head, group, first, count, vectors, keys, position)
                )

            vectors = width // lanes
            if vectors == 1 or (isinstance(self.query_count, int) and not self.query_count % width):
                with_vectors(vectors)
                return
            # The last block may fill one vector only: half the work then.
            narrow = build.compare("sle", count, lanes)
            build.when(narrow, lambda: with_vectors(1), lambda: with_vectors(vectors))

        if isinstance(self.query_count, int) and self.query_count <= lanes:
            count = self.query_count
            if count:
                position, keys = self._keys_of(self.zero, count)
                self._block(Block(batch, head, group, self.zero, count, 1, keys, position))
            return
        build.loop(0, self.query_count, width, block, hint="i")

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
        rows = self._clamped_queries(block)
        self._load_queries(block, rows)
        if self.mask is not None and self._mask_size(2) != 1:
            self._load_mask(block, rows)
        top = self._score(block)
        # A query that may attend to nothing has only -inf: its weights are 0, not NaN.
        zero = self.build.constant(0, self.how.vector)
        none = [compare_floats(self.build, "oeq", t, self.lowest) for t in top]
        top = [select(self.build, n, zero, t) for n, t in zip(none, top)]
        totals = self._weigh(block, top)
        one = self.build.constant(1, self.how.vector)
        for vector, total in enumerate(totals):
            empty = compare_floats(self.build, "oeq", total, zero)
            safe = select(self.build, empty, one, total)
            share = self.build.insert(arith.DivfOp(one, safe))
            # The queries themselves are not needed any more.
            self.build.vstore(share, self.queries, [self.zero, self.zero, self.lanes[vector]])
        self._combine(block)

    def _clamped_queries(self, block: Block) -> list[Index]:
        """The query of each lane; lanes beyond the last one repeat it."""
        build = self.build
        last = build.minus(self.query_count, 1)
        places = [build.add(block.first, n) for n in range(block.vectors * self.how.lanes)]
        return [build.minimum(place, last) for place in places]

    def _load_queries(self, block: Block, rows: Sequence[Index]) -> None:
        """queries[d, lane] = scale · q[lane, d]."""
        build, q = self.build, self.q

        def read(row: Index, column: SSAValue, width: int | None) -> SSAValue:
            place = q.at(block.batch, block.head, row, column)
            if width is None:
                return convert(build, build.load(q.buffer, place), self.how.kind)
            return convert(build, build.vload(q.buffer, place, width), self.how.kind)

        def put(vector: int) -> Callable[[SSAValue, SSAValue], None]:
            def write(value: SSAValue, column: SSAValue) -> None:
                scaled = build.insert(arith.MulfOp(value, self.scale))
                build.vstore(scaled, self.queries, [self.zero, column, self.lanes[vector]])

            return write

        size = build.dim(q.buffer, 3)
        for vector in range(block.vectors):
            part = rows[vector * self.how.lanes : (vector + 1) * self.how.lanes]
            transpose_into(build, part, (0, size), read, put(vector))

    def _score(self, block: Block) -> list[SSAValue]:
        """Scores against all keys of the block, and the largest one of each query."""
        build, k = self.build, self.k
        size = build.dim(k.buffer, 3)
        bounds = self._bounds(block)

        def tile(first: Index, count: int, tops: Carried) -> Carried:
            keys = [build.index(build.plus(first, offset)) for offset in range(count)]

            def elements(d: SSAValue) -> list[SSAValue]:
                places = [k.at(block.batch, block.group, key, d) for key in keys]
                return [build.load(k.buffer, place) for place in places]

            def columns(d: SSAValue) -> list[SSAValue]:
                return [
                    build.vload(self.queries, [self.zero, d, lane], self.how.lanes)
                    for lane in self.lanes[: block.vectors]
                ]

            split = split_for(self.machine.accumulators, count, block.vectors)
            sums = contract(
                build,
                self.how,
                count,
                block.vectors,
                (0, size),
                elements,
                columns,
                split=split,
            )
            following = list(tops)
            for key, row in zip(keys, sums):
                for vector, score in enumerate(self._masked(block, key, row, bounds)):
                    following[vector] = greater(build, score, following[vector])
                    place = [self.zero, key, self.lanes[vector]]
                    build.vstore(score, self.scores, place)
            return following

        start, stop = block.keys
        rows = self.machine.rows(block.vectors)
        tops = [self.lowest] * block.vectors
        extent = build.minus(stop, start)
        return list(over_tiles(build, extent, rows, tile, tops, start=start, hint="j"))

    def _weigh(self, block: Block, top: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """scores = exp(scores - top), and the sum of them for each query."""
        build = self.build
        zero = build.constant(0, self.how.vector)

        def row(key: SSAValue, totals: Sequence[SSAValue]) -> list[SSAValue]:
            following: list[SSAValue] = []
            for vector, total in enumerate(totals):
                place = [self.zero, key, self.lanes[vector]]
                score = build.vload(self.scores, place, self.how.lanes)
                weight = build.insert(math.ExpOp(build.insert(arith.SubfOp(score, top[vector]))))
                build.vstore(weight, self.scores, place)
                following.append(build.insert(arith.AddfOp(total, weight)))
            return following

        start, stop = block.keys
        return build.reduce(start, stop, 1, [zero] * block.vectors, row, hint="j")

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
                    build.vload(
                        v.buffer, v.at(block.batch, block.group, key, start), lanes, mask
                    )
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
        assert self.mask is not None and isinstance(self.mask.type, MemRefType)
        shape = self.mask.type.get_shape()
        own = axis - (4 - len(shape))
        return shape[own] if own >= 0 else 1

    def _mask_place(self, block: Block, query: Index, key: Index) -> list[Index]:
        assert self.mask is not None and isinstance(self.mask.type, MemRefType)
        rank = self.mask.type.get_num_dims()
        place: list[Index] = [block.batch, block.head, query, key]
        return [
            self.zero if self._mask_size(axis) == 1 else place[axis] for axis in range(4 - rank, 4)
        ]

    def _bias(self, value: SSAValue) -> SSAValue:
        """What an element of the mask (or a vector of them) adds to a score: 0 or -inf for bools."""
        build = self.build
        if is_float(value):
            return convert(build, value, self.how.kind)
        none = build.constant(0, value.type)
        attends = compare_integers(build, "ne", value, none)
        kind = value.type
        wide = VectorType(self.how.kind, kind.shape) if isinstance(kind, VectorType) else self.how.kind
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

        def put(vector: int) -> Callable[[SSAValue, SSAValue], None]:
            return lambda value, key: build.vstore(
                value, self.scores, [self.zero, key, self.lanes[vector]]
            )

        for vector in range(block.vectors):
            part = rows[vector * self.how.lanes : (vector + 1) * self.how.lanes]
            transpose_into(build, part, block.keys, read, put(vector))

    def _bounds(self, block: Block) -> list[SSAValue]:
        """The positions of the block's queries as vectors of i32, when some keys are out of sight."""
        if block.position is None:
            return []
        build, lanes = self.build, self.how.lanes
        kind = VectorType(i32, [lanes])
        steps = DenseIntOrFPElementsAttr.from_list(kind, list(range(lanes)))
        count = build.insert(arith.ConstantOp(steps, kind))
        positions: list[SSAValue] = []
        for vector in range(block.vectors):
            first = build.insert(IndexCastOp(build.add(block.position, vector * lanes), i32))
            positions.append(build.insert(arith.AddiOp(build.splat(first, lanes), count)))
        return positions

    def _masked(
        self, block: Block, key: SSAValue, row: Sequence[SSAValue], bounds: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """The scores of one key with the mask applied."""
        build, lanes = self.build, self.how.lanes
        scores = list(row)
        if self.mask is not None and self._mask_size(2) != 1:
            scores = [
                self._with_bias(
                    build.vload(self.scores, [self.zero, key, self.lanes[vector]], lanes), score
                )
                for vector, score in enumerate(scores)
            ]
        elif self.mask is not None:
            bias = self._bias(build.load(self.mask, self._mask_place(block, self.zero, key)))
            biases = build.splat(bias, lanes)
            scores = [self._with_bias(biases, score) for score in scores]
        if not bounds:
            return scores
        there = build.splat(build.insert(IndexCastOp(key, i32)), lanes)
        return [self._in_sight(there, at, score) for at, score in zip(bounds, scores)]

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
