"""What attention reads, and which keys a query may attend to: operands, mask, scores, positions.

Everything here is about one element; how a machine goes over many of them is its schedule's business.
"""

from __future__ import annotations

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects.nn import AttentionOp
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.numeric import INF, compare_integers, is_float, like, select
from openinfer.runtime.quick_dataclass import dataclass


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

    def size(self, build: LoopBuilder) -> Index:
        """Elements of a head."""
        return build.dim(self.buffer, 3)

    def vector(
        self,
        build: LoopBuilder,
        place: tuple[Index, Index, Index, Index],
        lanes: int,
        mask: SSAValue | None = None,
    ) -> SSAValue:
        """Elements from a batch, head, position and column on."""
        return build.vload(self.buffer, self.at(*place), lanes, mask)


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


class Scores:
    """How sums of products become scores: scale · sum, and with a cap c of it c · tanh(scale · sum / c).

    Scores are counted in units of 1 / `unit`: log2(e) where weights are powers of two.
    """

    def __init__(
        self, build: LoopBuilder, op: AttentionOp, kind: Attribute, unit: float = 1.0
    ) -> None:
        self.build = build
        scale = op.scale.value.data
        self.divisor: SSAValue | None = None
        self.limit: SSAValue | None = None
        """What tanh is multiplied by."""
        if op.softcap is not None:
            known = op.softcap.value.data
            self.limit = build.constant(known * unit, kind)
            scale /= known
        elif op.cap is not None:
            self.divisor = convert(build, build.load(op.cap, []), kind)
            self.limit = build.insert(arith.MulfOp(self.divisor, build.constant(unit, kind)))
        self.factor = scale if self.limit is not None else scale * unit
        """What the sum is multiplied by; may be a factor of the query instead."""

    def capped(self, score: SSAValue) -> SSAValue:
        """A score, or a vector of them, of a sum times `factor`."""
        if self.limit is None:
            return score
        build = self.build

        def wide(value: SSAValue) -> SSAValue:
            kind = score.type
            return (
                build.splat(value, kind.get_shape()[0]) if isinstance(kind, VectorType) else value
            )

        part = score
        if self.divisor is not None:
            part = build.insert(arith.DivfOp(score, wide(self.divisor)))
        return build.insert(arith.MulfOp(build.insert(math.TanhOp(part)), wide(self.limit)))

    def of(self, total: SSAValue) -> SSAValue:
        """The score of a sum of products."""
        factor = self.build.constant(self.factor, total.type)
        return self.capped(self.build.insert(arith.MulfOp(total, factor)))


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


@dataclass(frozen=True)
class Hidden:
    """What hides keys from queries: positions, and masks of bools. Masks of floats are added."""

    build: LoopBuilder
    mask: Mask | None
    sight: Sight | None

    @property
    def anything(self) -> bool:
        """Whether some key may be hidden."""
        return self.bools is not None or (self.sight is not None and self.sight.bounded)

    @property
    def bools(self) -> Mask | None:
        """The mask, where it hides."""
        return None if self.mask is None or is_float(self.mask.buffer) else self.mask

    def seen(
        self,
        batch: Index,
        head: Index,
        query: Index,
        key: SSAValue,
        flag: SSAValue | None = None,
    ) -> SSAValue:
        """Whether a query sees a key; `flag`: the element of the mask, if it was read before."""
        build, conditions = self.build, list[SSAValue]()
        if self.bools is not None:
            if flag is None:
                flag = build.load(self.bools.buffer, self.bools.place(batch, head, query, key))
            zero = build.constant(0, flag.type)
            conditions.append(compare_integers(build, "ne", flag, zero))
        sight = self.sight
        if sight is not None and sight.bounded:
            position = sight.position(build.index(query))
            if sight.causal:
                conditions.append(build.compare("sle", key, position))
            if sight.window is not None:
                pairs = [(position, key)] if sight.causal else [(position, key), (key, position)]
                for later, earlier in pairs:
                    distance = build.sub(later, earlier)
                    conditions.append(build.compare("slt", distance, sight.window))
        first, *others = conditions
        for other in others:
            first = build.insert(arith.AndIOp(first, other))
        return first
