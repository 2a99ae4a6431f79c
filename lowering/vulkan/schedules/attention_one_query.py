"""`nn.attention` of one query for each head: a workgroup walks the keys, each of them in a few invocations.

    %score = …                      // of a key: the invocations beside each other have a part of it
    %top, %total, %result = …       // of the keys that an invocation has seen, relative to the largest
    …                               // at the end: joined in the subgroup, then in the workgroup

An invocation holds neighbouring columns of q, k and v, as many as are one access, and the same ones of the
result. Nobody waits for anybody before the end.

Many keys are divided among workgroups (`attention_parts.py`): each walks a part of them, for several heads
that share them, and leaves `[top, total, *result]` in the scratch buffer.

Requires: subgroups; as many columns of v as of k, of a number that the types say, and a power of two of
accesses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, gpu
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, f16, i32
from xdsl.dialects.math import FmaOp
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.gpu import ShuffleOp
from openinfer.dialects.nn import AttentionOp
from openinfer.lowering.kernels.attention_sight import Heads, Scores
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
from openinfer.runtime.devices.description import DeviceDescription

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
    beside = depth // lanes_of(op)
    is_power = beside & (beside - 1) == 0
    return is_power and 1 <= beside <= b.facts.device_description.subgroup > 1


def size_of(b: LoopBuilder) -> int:
    """Invocations of a workgroup."""
    return min(SIZE, b.facts.device_description.invocations)


def keys_at_once(described: DeviceDescription, depth: int, lanes: int) -> int:
    """Keys that a workgroup reads before it waits for the first of them, where there are many; `lanes`
    elements of a key are one access."""
    return min(SIZE, described.invocations) // (depth // lanes) * ROUND


def lanes_of(op: AttentionOp) -> int:
    """Neighbouring columns of q, k and v that are one access."""
    return common_lanes(op, op.inputs[:3])


@dataclass(frozen=True)
class Part:
    """What a workgroup does of the keys, and where it leaves what it has found."""

    number: Index
    length: Index
    """Keys of a part; the last one has fewer."""
    scratch: SSAValue
    """[batches, heads, parts, 2 + columns]"""


def one_query(b: LoopBuilder, op: AttentionOp) -> Grid:
    """The kernel of such an attention."""
    of = Attended(b, op)

    def count(host: LoopBuilder, out: SSAValue) -> Index:
        return product(host, of.extents(host, out)[:2])

    def one(number: SSAValue) -> None:
        batch, head = split(b, number, of.extents(b, of.out.buffer)[:2])
        Query(of, batch, [head]).emit()

    each_group(b, count(b, of.out.buffer), one)

    def groups(host: LoopBuilder, value_of: HostValue) -> tuple[Index, Index, Index]:
        return groups_for(host, count(host, value_of(of.out.buffer)))

    return Grid(groups, size_of(b))


class Query:
    """The query of some heads, one behind the other, that use the same head of keys."""

    def __init__(
        self, of: Attended, batch: SSAValue, heads: Sequence[SSAValue], part: Part | None = None
    ) -> None:
        self.of, self.batch, self.heads, self.part = of, batch, heads, part
        self.key_head = of.group_of(heads[0])
        b = self.b = of.b
        self.weights = Weights(b, of.kind, of_two=of.stored == f16)
        assert isinstance(of.depth, int)
        self.lanes = lanes_of(of.op)
        self.beside = of.depth // self.lanes
        """Invocations that share a key."""
        self.size = size_of(b)
        self.group = Workgroup(b, self.size)
        self.width = b.constant(self.group.subgroup, i32)
        self.column = b.mul(b.rem(self.group.thread, self.beside), self.lanes)
        self.first = b.floordiv(self.group.thread, self.beside)

    def emit(self) -> None:
        b = self.b
        queries = [self._query(head) for head in self.heads]
        found: Sequence[SSAValue] = [
            value for _ in self.heads for value in self.weights.start(self.lanes)
        ]
        start, count = self._keys()
        begin, at_once, most = start, self.size // self.beside, self._most()
        if start == 0 or self.part is not None:
            # Of the first ones nobody asks whether they are there.
            whole = b.round_down(count, at_once * most)
            if whole != 0:
                begin = b.plus(start, whole)
                found = self._walk(queries, (start, begin), most, found, whole=True)
            count = b.minus(count, whole)
        if count != 0:
            few = -(-count // at_once) if isinstance(count, int) else ROUND
            keys = begin, b.plus(begin, count)
            found = self._walk(queries, keys, min(few, ROUND // 2), found, whole=False)
        self._finish([self._of_subgroup(own) for own in self._by_head(found)])

    def _keys(self) -> tuple[Index, Index]:
        """The first key that this workgroup walks, and how many."""
        b, sight, part = self.b, self.of.sight, self.part
        keys: tuple[Index, Index] = (0, sight.key_count)
        if sight.bounded:
            keys = sight.keys(sight.position(b.index(0)), 1)
        if part is None:
            return keys[0], b.minus(keys[1], keys[0])
        start = b.plus(keys[0], product(b, [part.number, part.length]))
        if isinstance(keys[1], int) and isinstance(part.length, int) and keys[1] % part.length == 0:
            return start, part.length
        return start, b.maximum(b.minimum(b.minus(keys[1], start), part.length), 0)

    def _by_head(self, found: Sequence[SSAValue]) -> list[Sequence[SSAValue]]:
        """What is found of all heads, as that of each."""
        each = len(found) // len(self.heads)
        return [found[first : first + each] for first in range(0, len(found), each)]

    def _query(self, head: SSAValue) -> list[SSAValue]:
        return [self._wide(value) for value in self._read(self.of.q, head, 0)]

    def _most(self) -> int:
        """Keys of an invocation between two waits, where all of them are there."""
        known = self.of.sight.key_count
        each = ROUND if not isinstance(known, int) else known * self.beside // self.size
        return max(1, min(ROUND, each))

    def _walk(
        self,
        queries: Sequence[Sequence[SSAValue]],
        keys: tuple[Index, Index],
        together: int,
        old: Sequence[SSAValue],
        *,
        whole: bool,
    ) -> Sequence[SSAValue]:
        """What is found of some keys, behind others. `whole`: whether all keys of a round are there."""
        b, of = self.b, self.of
        at_once = self.size // self.beside
        bounded = Scores(b, of.op, of.kind, self.weights.scale(1))

        def one_round(at: SSAValue, so_far: Sequence[SSAValue]) -> Sequence[SSAValue]:
            places = [b.add(b.add(at, n * at_once), self.first) for n in range(together)]
            read = places
            if not whole:
                last = b.maximum(b.minus(of.sight.key_count, 1), 0)
                read = [b.index(b.minimum(place, last)) for place in places]
            theirs = [self._read(of.k, self.key_head, place) for place in read]
            values = [self._read(of.v, self.key_head, place) for place in read]
            stop = None if whole else keys[1]
            new: list[SSAValue] = []
            for head, query, old in zip(self.heads, queries, self._by_head(so_far)):
                scores: list[SSAValue] = []
                seen: list[SSAValue | None] = []
                for place, there, key in zip(places, read, theirs):
                    score = bounded.of(self._product(query, key))
                    found = self._seen(score, head, place, there, stop)
                    scores.append(found[0])
                    seen.append(found[1])
                new += self.weights.weigh(scores, seen, values, old)
            return new

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
        self, score: SSAValue, head: SSAValue, place: SSAValue, there: SSAValue, stop: Index | None
    ) -> tuple[SSAValue, SSAValue | None]:
        """The score of a key, -inf where it is not seen, and whether it is; None where all are."""
        b, of = self.b, self.of
        if of.mask is not None and is_float(of.mask.buffer):
            bias = of.mask.one(self.batch, head, 0, there)
            factor = b.constant(self.weights.scale(1), of.kind)
            score = b.insert(FmaOp(bias, factor, score))
        seen = None if stop is None else b.compare("ult", place, stop)
        if of.hidden.anything:
            sees = of.hidden.seen(self.batch, head, b.index(0), there)
            seen = sees if seen is None else b.insert(arith.AndIOp(seen, sees))
        if seen is None:
            return score, None
        return select(b, seen, score, b.constant(-INF, of.kind)), seen

    def _finish(self, found: Sequence[Sequence[SSAValue]]) -> None:
        """Joins what the subgroups have found of each head, and stores the result: an invocation for each
        column."""
        b, of = self.b, self.of
        assert isinstance(of.depth, int)
        groups, depth = self.size // self.group.subgroup, of.depth
        heads = shared_buffer(b, of.kind, [len(found), 2, groups], "heads")
        parts = shared_buffer(b, of.kind, [len(found), groups, depth], "parts")
        subgroup, lane = b.insert(gpu.SubgroupIdOp()), b.insert(gpu.LaneIdOp())

        def write() -> None:
            for head, own in enumerate(found):
                for number, value in enumerate(own[2:]):
                    b.store(value, parts, [head, subgroup, b.add(self.column, number)])

        def write_heads() -> None:
            for head, own in enumerate(found):
                for number, value in enumerate(own[:2]):
                    b.store(value, heads, [head, number, subgroup])

        b.when(b.compare("ult", lane, self.beside), write)
        b.when(b.compare("eq", lane, 0), write_heads)
        barrier(b)

        def store(place: SSAValue) -> None:
            head: Index = 0
            column = place
            if len(found) > 1:
                head, column = b.floordiv(place, depth), b.rem(place, depth)
            tops = [b.load(heads, [head, 0, group]) for group in range(groups)]
            top = self.weights.largest(tops)
            total = result = b.constant(0, of.kind)
            for group, factor in enumerate(self.weights.factors(tops, top)):
                total = b.insert(FmaOp(factor, b.load(heads, [head, 1, group]), total))
                result = b.insert(FmaOp(factor, b.load(parts, [head, group, column]), result))
            self._store(b.add(self.heads[0], head), column, [top, total, result])

        b.loop(self.group.thread, len(found) * depth, self.size, store)

    def _store(self, head: SSAValue, column: SSAValue, found: Sequence[SSAValue]) -> None:
        """A column of the result, or of a part of it, relative to the largest score of that."""
        b, of = self.b, self.of
        top, total, result = found
        if self.part is None:
            total = self.weights.divisor(total, nan_rows=of.op.nan_rows is not None)
            value = b.insert(arith.DivfOp(result, total))
            place = of.out.at(self.batch, head, 0, column)
            b.store(convert(b, value, of.stored), of.out.buffer, place)
            return
        part, own = self.part, [self.batch, head, self.part.number]

        def store_head() -> None:
            b.store(top, part.scratch, [*own, 0])
            b.store(total, part.scratch, [*own, 1])

        b.store(result, part.scratch, [*own, b.add(column, 2)])
        b.when(b.compare("eq", column, 0), store_head)

    def _add(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.insert(arith.AddfOp(x, y))

    def _other(self, value: SSAValue, offset: int) -> SSAValue:
        """The value of the invocation whose number differs in one bit."""
        shuffle = ShuffleOp("xor", value, self.b.constant(offset, i32), self.width)
        self.b.do(shuffle)
        return shuffle.shuffled
