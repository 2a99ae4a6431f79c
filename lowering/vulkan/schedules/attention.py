"""`nn.attention`: a workgroup computes the result of one query of one head, in one walk over the keys.

Before:
    nn.attention(%q, %k, %v) outs(%o) {scale = 0.125 : f64, …} : (…) -> ()

After, in rounds of as many keys as the workgroup has invocations:
    %score = …                              // an invocation for each key: scale · q k, masked
    %top = …                                // the largest score so far, of all of them
    memref.store %weight, %weights[%thread] // exp(%score - %top), in shared memory
    gpu.barrier
    %sum = …                                // an invocation for each column of v: weights · v
                                            // on what is there so far, times exp(old top - new top)
    …
    memref.store %quotient, %o[…]           // sums, divided by the sum of the weights

Requires: bufferised; f32 or f16; mathematics are not strict; the op is not rounded to bf16.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.dialects.math import ExpOp
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.extensions.arith import IndexCastOp
from openinfer.dialects.nn import AttentionOp
from openinfer.lowering.kernels.attention_sight import Heads, Hidden, Mask, Sight
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.numeric import (
    INF,
    compare_floats,
    greater,
    is_float,
    select,
    wide_type,
)
from openinfer.lowering.vulkan.schedules.grid import (
    Grid,
    HostValue,
    each_group,
    groups_for,
    product,
    split,
)
from openinfer.lowering.vulkan.schedules.workgroup import Workgroup, barrier, shared_buffer

KEYS = 128
"""Keys of a round, and invocations of a workgroup."""


def lower_attention(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of attention."""
    assert isinstance(op, AttentionOp)
    attention = _Attention(b, op)
    each_group(b, attention.count(b, op.outs[0]), attention.query)

    def groups(host: LoopBuilder, value_of: HostValue) -> tuple[Index, Index, Index]:
        return groups_for(host, attention.count(host, value_of(op.outs[0])))

    return Grid(groups, KEYS)


class _Attention:
    def __init__(self, b: LoopBuilder, op: AttentionOp) -> None:
        self.b, self.op = b, op
        layouts = [layout.data for layout in op.layouts]
        self.q, self.k, self.v = (Heads(v, n) for v, n in zip(op.inputs[:3], layouts))
        self.out = Heads(op.outs[0], layouts[3])
        assert isinstance(self.out.buffer.type, MemRefType)
        self.stored = self.out.buffer.type.element_type
        self.kind = wide_type(self.stored)
        self.group = Workgroup(b, KEYS)
        self.depth = b.dim(self.q.buffer, 3)
        self.columns = b.dim(self.v.buffer, 3)
        self.mask = Mask(b, op.mask, self.kind) if op.mask is not None else None
        self.sight = Sight(
            b,
            op.causal is not None,
            self._window(),
            b.dim(self.q.buffer, self.q.axis("l")),
            b.dim(self.k.buffer, self.k.axis("l")),
        )
        self.hidden = Hidden(b, self.mask, self.sight)
        self.weights = shared_buffer(b, self.kind, [KEYS], "weights")
        self.sums = shared_buffer(b, self.kind, [KEYS], "sums")

    def _window(self) -> Index | None:
        """How many keys a query sees, when that is limited."""
        if self.op.window is not None:
            return self.op.window.value.data
        if self.op.reach is None:
            return None
        return self.b.insert(IndexCastOp(self.b.load(self.op.reach, []), IndexType()))

    def _extents(self, b: LoopBuilder, out: SSAValue) -> list[Index]:
        """Batches, heads, queries."""
        return [b.dim(out, self.out.axis(name)) for name in "bhl"]

    def count(self, b: LoopBuilder, out: SSAValue) -> Index:
        """How many queries of heads of batches there are."""
        return product(b, self._extents(b, out))

    def query(self, number: SSAValue) -> None:
        """The result of one query."""
        b = self.b
        batch, head, query = split(b, number, self._extents(b, self.out.buffer))
        heads, groups = (b.dim(h.buffer, h.axis("h")) for h in (self.q, self.k))
        group: Index = head
        if not (isinstance(heads, int) and heads == groups):
            group = b.floordiv(head, b.floordiv(heads, groups))
        _Query(self, (batch, head, group, query)).emit()


class _Query:
    """One query: its batch, its head, the head of keys and values, its number."""

    def __init__(self, of: _Attention, place: tuple[Index, Index, Index, Index]) -> None:
        self.of, self.b = of, of.b
        self.batch, self.head, self.group, self.number = place
        self.thread = of.group.thread

    def emit(self) -> None:
        b, of = self.b, self.of
        first, last = 0, of.sight.key_count
        if of.sight.bounded:
            first, last = of.sight.keys(of.sight.position(b.index(self.number)), 1)
        # A part of the columns for each invocation: with fewer of them than invocations several share one.
        parts = self._parts()
        rounds = 1 if parts > 1 else b.ceil_div(of.columns, KEYS)

        def chunk(start: Index) -> None:
            self._columns((first, last), parts, start)

        if rounds == 1:
            chunk(0)
        else:
            # More columns than invocations: the weights are computed again for the next ones.
            b.loop(0, of.columns, KEYS, chunk, hint="d")

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
        kind = of.kind
        width = of.columns if parts > 1 else KEYS
        part: Index = 0
        column = b.add(self.thread, start)
        if parts > 1:
            part, column = b.floordiv(self.thread, width), b.rem(self.thread, width)
        low, zero = b.constant(-INF, kind), b.constant(0, kind)

        def one_round(at: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
            top, total, result = old
            count = b.minimum(b.minus(keys[1], at), KEYS)
            score, seen = self._score(b.add(at, self.thread), count)
            new = greater(b, of.group.all_reduce(score, self._larger), top)
            # Where nothing is seen yet, -inf would make NaN of all that follows.
            base = select(b, compare_floats(b, "oeq", new, low), zero, new)
            weight = b.insert(ExpOp(b.insert(arith.SubfOp(score, base))))
            weight = select(b, seen, weight, zero)
            scale = b.insert(ExpOp(b.insert(arith.SubfOp(top, base))))
            total = self._add(b.insert(arith.MulfOp(total, scale)), weight)
            result = b.insert(arith.MulfOp(result, scale))
            # A weight below nothing stands for a key that is not seen.
            b.store(select(b, seen, weight, b.constant(-1, kind)), of.weights, [self.thread])
            barrier(b)
            (result,) = b.reduce(
                part, count, parts, [result], lambda j, r: self._step(at, j, column, r), hint="j"
            )
            barrier(b)
            return [new, total, result]

        start_values = [low, zero, zero]
        _, total, result = b.reduce(keys[0], keys[1], KEYS, start_values, one_round, hint="at")
        total = of.group.all_reduce(total, self._add)
        if of.op.nan_rows is None:
            none = compare_floats(b, "oeq", total, zero)
            total = select(b, none, b.constant(1, kind), total)
        self._finish(result, total, parts, width, column)

    def _score(self, key: SSAValue, count: Index) -> tuple[SSAValue, SSAValue]:
        """The score of a key, -inf where it is not seen, and whether it is."""
        b, of = self.b, self.of
        low = b.constant(-INF, of.kind)
        no = b.insert(arith.ConstantOp.from_int_and_width(0, 1))

        def there() -> Sequence[SSAValue]:
            if not of.hidden.anything:
                return [self._product(key), b.insert(arith.ConstantOp.from_int_and_width(1, 1))]
            seen = of.hidden.seen(self.batch, self.head, self.number, key)
            (score,) = b.when(seen, lambda: [self._product(key)], lambda: [low], [of.kind])
            return [score, seen]

        inside = b.compare("ult", self.thread, count)
        score, seen = b.when(inside, there, lambda: [low, no], [of.kind, no.type])
        return score, seen

    def _product(self, key: SSAValue) -> SSAValue:
        """scale · q k, and what a mask of floats adds."""
        b, of = self.b, self.of
        q = of.q.at(self.batch, self.head, self.number, 0)[:3]
        k = of.k.at(self.batch, self.group, key, 0)[:3]

        def step(d: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
            x, y = (
                convert(b, b.load(heads.buffer, [*place, d]), of.kind)
                for heads, place in ((of.q, q), (of.k, k))
            )
            return [self._add(old[0], b.insert(arith.MulfOp(x, y)))]

        (total,) = b.reduce(0, of.depth, 1, [b.constant(0, of.kind)], step, hint="d")
        score = b.insert(arith.MulfOp(total, b.constant(of.op.scale.value.data, of.kind)))
        if of.mask is not None and is_float(of.mask.buffer):
            bias = of.mask.one(self.batch, self.head, self.number, key)
            score = self._add(score, bias)
        return score

    def _step(
        self, at: SSAValue, j: SSAValue, column: SSAValue, old: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        """What the j-th key of a round gives to a column."""
        b, of = self.b, self.of
        weight = b.load(of.weights, [j])
        # All invocations read; those beyond the last column read the last.
        there = b.minimum(column, b.minus(of.columns, 1))
        place = of.v.at(self.batch, self.group, b.add(at, j), there)
        value = convert(b, b.load(of.v.buffer, place), of.kind)
        more = self._add(old[0], b.insert(arith.MulfOp(weight, value)))
        if not of.hidden.anything:
            return [more]
        seen = compare_floats(b, "oge", weight, b.constant(0, of.kind))
        # Weights that are NaN are seen.
        unordered = compare_floats(b, "uno", weight, weight)
        return [select(b, b.insert(arith.OrIOp(seen, unordered)), more, old[0])]

    def _finish(
        self, result: SSAValue, total: SSAValue, parts: int, width: Index, column: SSAValue
    ) -> None:
        """Joins the parts of each column, and stores them."""
        b, of = self.b, self.of
        if parts > 1:
            barrier(b)
            b.store(result, of.sums, [self.thread])
            barrier(b)

        def store() -> None:
            value = result
            for part in range(1, parts):
                value = self._add(value, b.load(of.sums, [b.add(self.thread, b.mul(part, width))]))
            value = b.insert(arith.DivfOp(value, total))
            place = of.out.at(self.batch, self.head, self.number, column)
            b.store(convert(b, value, of.stored), of.out.buffer, place)

        inside = b.compare("ult", column, of.columns)
        if parts > 1:
            inside = b.compare("ult", self.thread, width)
        b.when(inside, store)
        if parts == 1:
            barrier(b)

    def _add(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.insert(arith.AddfOp(x, y))

    def _larger(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return greater(self.b, x, y)
