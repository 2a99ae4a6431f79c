"""Which keys a query may attend to: the mask operand, and causal and windowed attention.

Lanes of a vector are neighbouring queries, as everywhere in `attention`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, MemRefType, VectorType, i32
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects.extensions.arith import IndexCastOp
from openinfer.lowering.cpu.schedules.packing import Write, transpose_into
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.numeric import (
    INF,
    compare_floats,
    compare_integers,
    is_float,
    like,
    select,
)


@dataclass(frozen=True)
class Mask:
    """A mask that broadcasts to `[batch, heads, queries, keys]`: bools (i8) attend, floats add."""

    build: LoopBuilder
    buffer: SSAValue
    kind: Attribute
    """The type of scores."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes along batch, heads, queries and keys, 1 for an axis that is not there."""
        assert isinstance(self.buffer.type, MemRefType)
        own = self.buffer.type.get_shape()
        return (*(1,) * (4 - len(own)), *own)

    @property
    def varies_by_query(self) -> bool:
        return self.shape[2] != 1

    def place(self, *at: Index) -> list[Index]:
        """The index of the element for a batch, head, query and key."""
        assert isinstance(self.buffer.type, MemRefType)
        rank = self.buffer.type.get_num_dims()
        places = [0 if size == 1 else i for size, i in zip(self.shape, at, strict=True)]
        return places[4 - rank :]

    def bias(self, value: SSAValue) -> SSAValue:
        """What elements of the mask (one, or a vector) add to scores: 0 or -inf for bools."""
        build = self.build
        if is_float(value):
            return convert(build, value, self.kind)
        attends = compare_integers(build, "ne", value, build.constant(0, value.type))
        wide = like(value, self.kind)
        return select(build, attends, build.constant(0, wide), build.constant(-INF, wide))

    def one(self, batch: Index, head: Index, query: Index, key: Index) -> SSAValue:
        """The bias of one query and key."""
        place = self.place(batch, head, query, key)
        return self.bias(self.build.load(self.buffer, place))

    def transposed(
        self,
        batch: Index,
        head: Index,
        queries: Sequence[Index],
        keys: tuple[Index, Index],
        write: Write,
    ) -> None:
        """Hands the biases of each key on as a vector over `queries`."""

        def read(query: Index, key: SSAValue, width: int | None) -> SSAValue:
            if width is None:
                return self.one(batch, head, query, key)
            if self.shape[3] == 1:
                return self.build.splat(self.one(batch, head, query, key), width)
            place = self.place(batch, head, query, key)
            return self.bias(self.build.vload(self.buffer, place, width))

        transpose_into(self.build, queries, keys, read, write)

    def apply(self, score: SSAValue, bias: SSAValue, unit: float | None = None) -> SSAValue:
        """A vector of scores with a vector of biases, which are multiplied by `unit`."""
        build = self.build
        if is_float(self.buffer):
            if unit is not None:
                bias = build.insert(arith.MulfOp(bias, build.constant(unit, bias.type)))
            return build.insert(arith.AddfOp(score, bias))
        # Not added: a score that is not finite is hidden as well.
        hidden = compare_floats(build, "olt", bias, build.constant(0, bias.type))
        return select(build, hidden, build.constant(-INF, score.type), score)


@dataclass(frozen=True)
class Sight:
    """Causal and windowed attention; queries are the last positions of the keys.

    A causal query sees no key behind its own position, a windowed one only keys nearer than
    `window` to it.
    """

    build: LoopBuilder
    causal: bool
    window: Index | None
    """A number, or an index value of the step."""
    query_count: Index
    key_count: Index
    lanes: int

    @property
    def bounded(self) -> bool:
        return self.causal or self.window is not None

    def position(self, first: SSAValue) -> SSAValue:
        """The position among the keys of query `first`."""
        build = self.build
        return build.index(build.plus(first, build.minus(self.key_count, self.query_count)))

    def keys(self, position: SSAValue, count: Index) -> tuple[Index, Index]:
        """The range of keys that any of `count` queries from `position` on sees."""
        build = self.build
        start: Index = 0
        reach: Index = 1 if self.causal or self.window is None else self.window
        stop = build.plus(build.plus(position, count), build.minus(reach, 1))
        stop = build.maximum(build.minimum(stop, self.key_count), 0)
        if self.window is not None:
            start = build.maximum(build.minus(position, build.minus(self.window, 1)), 0)
            start = build.minimum(start, stop)
        return start, stop

    def positions(self, position: SSAValue) -> SSAValue:
        """The positions of a vector of queries, as i32."""
        build, kind = self.build, VectorType(i32, [self.lanes])
        steps = DenseIntOrFPElementsAttr.from_list(kind, list(range(self.lanes)))
        first = build.splat(build.insert(IndexCastOp(position, i32)), self.lanes)
        return build.insert(arith.AddiOp(first, build.insert(arith.ConstantOp(steps, kind))))

    def apply(self, score: SSAValue, key: SSAValue, positions: SSAValue) -> SSAValue:
        """The scores of one key, -inf for the queries that do not see it."""
        build = self.build
        there = build.splat(build.insert(IndexCastOp(key, i32)), self.lanes)
        lowest = build.constant(-INF, score.type)
        if self.causal:
            seen = compare_integers(build, "sle", there, positions)
            score = select(build, seen, score, lowest)
        if self.window is None:
            return score
        if isinstance(self.window, int):
            reach = build.constant(self.window, there.type)
        else:
            reach = build.splat(build.insert(IndexCastOp(self.window, i32)), self.lanes)
        pairs = [(positions, there)] if self.causal else [(positions, there), (there, positions)]
        for later, earlier in pairs:
            distance = build.insert(arith.SubiOp(later, earlier))
            near = compare_integers(build, "slt", distance, reach)
            score = select(build, near, score, lowest)
        return score
