"""`nn.attention` of one query for each head: a workgroup walks the keys, each of them in a few invocations.

    %score = …                      // of a key: the invocations beside each other have a part of it
    %top, %total, %result = …       // of the keys that an invocation has seen, relative to the largest
    …                               // at the end: joined in the subgroup, then in the workgroup

An invocation holds neighbouring columns of q, k and v, as many as are one access, and the same ones of the
result. Nobody waits for anybody before the end.

Requires: subgroups; as many columns of v as of k, of a number that the types say, and a power of two of
accesses.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, gpu
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, f16, i32
from xdsl.dialects.math import FmaOp
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.gpu import ShuffleOp
from openinfer.dialects.nn import AttentionOp
from openinfer.lowering.kernels.attention_sight import Heads
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.numeric import INF, greater, is_float, select
from openinfer.lowering.vulkan.schedules.attention_operands import Attended
from openinfer.lowering.vulkan.schedules.attention_weights import Weights
from openinfer.lowering.vulkan.schedules.forms import rows_of
from openinfer.lowering.vulkan.schedules.grid import (
    Grid,
    HostValue,
    each_group,
    groups_for,
    product,
    split,
)
from openinfer.lowering.vulkan.schedules.wide import common_lanes, load_wide
from openinfer.lowering.vulkan.schedules.workgroup import Workgroup, barrier, shared_buffer

SIZE = 512
"""Invocations of a workgroup, where the device has as many."""
ROUND = 8
"""Keys that an invocation reads, with their values, before it waits for the first of them; half of that where
it asks whether they are there."""


def fits_one_query(b: LoopBuilder, op: AttentionOp) -> bool:
    """Whether an attention has one query, and the device and its shapes are made for this."""
    shapes: list[tuple[int, ...]] = []
    for value in op.inputs[:3]:
        assert isinstance(value.type, MemRefType)
        shapes.append(value.type.get_shape())
    depth, columns = shapes[1][3], shapes[2][3]
    queries = shapes[0][op.layouts.data[0].data.index("l")]
    if rows_of(op, queries) != 1 or depth == DYNAMIC_INDEX or columns != depth:
        return False
    beside = depth // _lanes(op)
    is_power = beside & (beside - 1) == 0
    return is_power and 1 <= beside <= b.facts.device_description.subgroup > 1


def _size(b: LoopBuilder) -> int:
    return min(SIZE, b.facts.device_description.invocations)


def _lanes(op: AttentionOp) -> int:
    """Neighbouring columns of q, k and v that are one access."""
    return common_lanes(op, op.inputs[:3])


def one_query(b: LoopBuilder, op: AttentionOp) -> Grid:
    """The kernel of such an attention."""
    of = Attended(b, op)

    def count(host: LoopBuilder, out: SSAValue) -> Index:
        return product(host, of.extents(host, out)[:2])

    def one(number: SSAValue) -> None:
        batch, head = split(b, number, of.extents(b, of.out.buffer)[:2])
        _Query(of, batch, head).emit()

    each_group(b, count(b, of.out.buffer), one)

    def groups(host: LoopBuilder, value_of: HostValue) -> tuple[Index, Index, Index]:
        return groups_for(host, count(host, value_of(of.out.buffer)))

    return Grid(groups, _size(b))


class _Query:
    """The query of a head."""

    def __init__(self, of: Attended, batch: SSAValue, head: SSAValue) -> None:
        self.of, self.batch, self.head = of, batch, head
        self.key_head = of.group_of(head)
        b = self.b = of.b
        self.weights = Weights(b, of.kind, of_two=of.stored == f16)
        assert isinstance(of.depth, int)
        self.lanes = _lanes(of.op)
        self.beside = of.depth // self.lanes
        """Invocations that share a key."""
        self.size = _size(b)
        self.group = Workgroup(b, self.size)
        self.width = b.constant(self.group.subgroup, i32)
        self.column = b.mul(b.rem(self.group.thread, self.beside), self.lanes)
        self.first = b.floordiv(self.group.thread, self.beside)

    def emit(self) -> None:
        b, of = self.b, self.of
        keys: tuple[Index, Index] = (0, of.sight.key_count)
        if of.sight.bounded:
            keys = of.sight.keys(of.sight.position(b.index(0)), 1)
        query = [self._wide(value) for value in self._read(of.q, self.head, 0)]
        found: Sequence[SSAValue] = self.weights.start(self.lanes)
        begin, at_once, most = keys[0], self.size // self.beside, self._most()
        if keys[0] == 0:
            # Of the first ones nobody asks whether they are there.
            begin = b.round_down(keys[1], at_once * most)
            if begin != 0:
                found = self._walk(query, (0, begin), most, found, whole=True)
        if begin != keys[1]:
            rest = b.minus(keys[1], begin)
            few = -(-rest // at_once) if isinstance(rest, int) else ROUND
            found = self._walk(query, (begin, keys[1]), min(few, ROUND // 2), found, whole=False)
        self._finish(self._of_subgroup(found))

    def _most(self) -> int:
        """Keys of an invocation between two waits, where all of them are there."""
        known = self.of.sight.key_count
        each = ROUND if not isinstance(known, int) else known * self.beside // self.size
        return max(1, min(ROUND, each))

    def _walk(
        self,
        query: Sequence[SSAValue],
        keys: tuple[Index, Index],
        together: int,
        old: Sequence[SSAValue],
        *,
        whole: bool,
    ) -> Sequence[SSAValue]:
        """What is found of some keys, behind others. `whole`: whether all keys of a round are there."""
        b, of = self.b, self.of
        at_once = self.size // self.beside
        scale = b.constant(self.weights.scale(of.op.scale.value.data), of.kind)

        def one_round(at: SSAValue, so_far: Sequence[SSAValue]) -> Sequence[SSAValue]:
            places = [b.add(b.add(at, n * at_once), self.first) for n in range(together)]
            read = places
            if not whole:
                last = b.maximum(b.minus(of.sight.key_count, 1), 0)
                read = [b.index(b.minimum(place, last)) for place in places]
            theirs = [self._read(of.k, self.key_head, place) for place in read]
            values = [self._read(of.v, self.key_head, place) for place in read]
            scores: list[SSAValue] = []
            seen: list[SSAValue | None] = []
            for place, there, key in zip(places, read, theirs):
                score = b.insert(arith.MulfOp(self._product(query, key), scale))
                found = self._seen(score, place, there, None if whole else keys[1])
                scores.append(found[0])
                seen.append(found[1])
            return self.weights.weigh(scores, seen, values, so_far)

        return b.reduce(keys[0], keys[1], at_once * together, old, one_round, hint="at")

    def _of_subgroup(self, found: Sequence[SSAValue]) -> list[SSAValue]:
        """What the invocations of a subgroup have found, each of its columns."""
        b, own = self.b, found[0]
        offsets = [self.beside << n for n in range(self.group.subgroup.bit_length())]
        offsets = [offset for offset in offsets if offset < self.group.subgroup]
        top = own
        for offset in offsets:
            top = greater(b, self._other(top, offset), top)
        factor = self.weights.weight(own, self.weights.base(top))
        joined: list[SSAValue] = []
        for value in found[1:]:
            total = b.insert(arith.MulfOp(value, factor))
            for offset in offsets:
                total = self._add(total, self._other(total, offset))
            joined.append(total)
        return [top, *joined]

    def _read(self, heads: Heads, head: Index, position: Index) -> list[SSAValue]:
        """The columns of this invocation, as they are stored: what waits for its turn takes less room."""
        place = heads.at(self.batch, head, position, self.column)
        return load_wide(self.b, heads.buffer, place, self.lanes)

    def _wide(self, value: SSAValue) -> SSAValue:
        return convert(self.b, value, self.of.kind)

    def _product(self, query: Sequence[SSAValue], key: Sequence[SSAValue]) -> SSAValue:
        b = self.b
        total = b.constant(0, self.of.kind)
        for x, y in zip(query, key):
            total = b.insert(FmaOp(x, self._wide(y), total))
        offset = self.beside // 2
        while offset:
            total = self._add(total, self._other(total, offset))
            offset //= 2
        return total

    def _seen(
        self, score: SSAValue, place: SSAValue, there: SSAValue, stop: Index | None
    ) -> tuple[SSAValue, SSAValue | None]:
        """The score of a key, -inf where it is not seen, and whether it is; None where all are."""
        b, of = self.b, self.of
        if of.mask is not None and is_float(of.mask.buffer):
            bias = of.mask.one(self.batch, self.head, 0, there)
            factor = b.constant(self.weights.scale(1), of.kind)
            score = b.insert(FmaOp(bias, factor, score))
        seen = None if stop is None else b.compare("ult", place, stop)
        if of.hidden.anything:
            sees = of.hidden.seen(self.batch, self.head, b.index(0), there)
            seen = sees if seen is None else b.insert(arith.AndIOp(seen, sees))
        if seen is None:
            return score, None
        return select(b, seen, score, b.constant(-INF, of.kind)), seen

    def _finish(self, found: Sequence[SSAValue]) -> None:
        """Joins what the subgroups have found, and stores the result: an invocation for each column."""
        b, of = self.b, self.of
        assert isinstance(of.depth, int)
        groups = self.size // self.group.subgroup
        heads = shared_buffer(b, of.kind, [2, groups], "heads")
        parts = shared_buffer(b, of.kind, [groups, of.depth], "parts")
        subgroup, lane = b.insert(gpu.SubgroupIdOp()), b.insert(gpu.LaneIdOp())

        def write() -> None:
            for number, value in enumerate(found[2:]):
                b.store(value, parts, [subgroup, b.add(self.column, number)])

        def write_heads() -> None:
            for number, value in enumerate(found[:2]):
                b.store(value, heads, [number, subgroup])

        b.when(b.compare("ult", lane, self.beside), write)
        b.when(b.compare("eq", lane, 0), write_heads)
        barrier(b)

        def store(column: SSAValue) -> None:
            tops = [b.load(heads, [0, group]) for group in range(groups)]
            total = result = b.constant(0, of.kind)
            for group, factor in enumerate(self.weights.factors(tops)):
                total = b.insert(FmaOp(factor, b.load(heads, [1, group]), total))
                result = b.insert(FmaOp(factor, b.load(parts, [group, column]), result))
            total = self.weights.divisor(total, nan_rows=of.op.nan_rows is not None)
            value = b.insert(arith.DivfOp(result, total))
            place = of.out.at(self.batch, self.head, 0, column)
            b.store(convert(b, value, of.stored), of.out.buffer, place)

        b.loop(self.group.thread, of.depth, self.size, store)

    def _add(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.insert(arith.AddfOp(x, y))

    def _other(self, value: SSAValue, offset: int) -> SSAValue:
        """The value of the invocation whose number differs in one bit."""
        shuffle = ShuffleOp("xor", value, self.b.constant(offset, i32), self.width)
        self.b.do(shuffle)
        return shuffle.shuffled
