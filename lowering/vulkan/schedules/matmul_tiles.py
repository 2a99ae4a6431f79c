"""`nn.matmul` in tiles: a workgroup computes a tile of the result, an invocation a smaller one of it.

    for each 16 steps of the sum:
        rows of the left operand and columns of the right one go to shared memory, as they lie in memory
        the next steps are read from memory, each invocation keeps what it read
        for each 4 of the 16 steps: an invocation reads its rows and columns, and adds products to its sums
    the epilogue, and a store, for each of its sums

Shared memory is written and read in accesses of 16 bytes: 4 steps of a row or column where steps are
neighbours in memory, else 4 neighbouring rows or columns at a step. Bytes that are added up in 32 bits lie
there as words of 4 steps, which are multiplied at once. What an invocation has lies a stride apart, so that
neighbouring invocations read neighbours. What lies beyond an edge is read as 0, and not stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

from xdsl.dialects import vector
from xdsl.dialects.builtin import FixedBitwidthType, VectorType, i8
from xdsl.ir import SSAValue

from openinfer.dialects.nn.byte_ops import LANES
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.epilogue import Epilogue, Place
from openinfer.lowering.vulkan.schedules.grid import product as product_of
from openinfer.lowering.vulkan.schedules.grid import split
from openinfer.lowering.vulkan.schedules.matmul_operands import Operand, Product, both
from openinfer.lowering.vulkan.schedules.wide import is_width
from openinfer.lowering.vulkan.schedules.workgroup import Workgroup, barrier, shared_buffer


@dataclass(frozen=True)
class Tile:
    """What a workgroup computes at once."""

    rows: int
    columns: int
    depth: int
    """Steps of the sum between two barriers."""
    each_row: int
    each_column: int
    """Rows and columns of an invocation."""

    @property
    def size(self) -> int:
        """Invocations of a workgroup."""
        return self.rows // self.each_row * (self.columns // self.each_column)


LARGE = Tile(128, 128, 16, 16, 8)
SHORT = Tile(128, 128, 8, 8, 8)
"""Where shared memory does not hold the large one."""
MEDIUM = Tile(64, 64, 16, 4, 4)
SMALL = Tile(32, 32, 32, 2, 2)
TILES = LARGE, MEDIUM, SMALL
BUFFERS = 1
WIDEST = 128
"""Bits of an access of shared memory."""
SQUARE = 4
"""Elements of 32 bits of such an access, and the side of a square of them that an invocation turns."""
DOWN, ACROSS = 4, 8
"""Invocations below and beside each other that are neighbours: what 32 of them read at one time are 4 and 8
accesses of shared memory, which meet in no bank."""


def shared_bytes(tile: Tile, bits: int) -> int:
    """The most shared memory of a workgroup, for sums of some bits, however the operands lie."""
    return sum(
        max(
            prod(_shape(tile.depth, count, _wide(tile.depth, each, bits, along=along), along=along))
            * _wide(tile.depth, each, bits, along=along)
            * bits
            // 8
            for along in (True, False)
        )
        for count, each in ((tile.rows, tile.each_row), (tile.columns, tile.each_column))
    )


def _wide(depth: int, each: int, bits: int, *, along: bool) -> int:
    """How many elements are one access of shared memory: steps, or rows or columns of an invocation."""
    if bits not in (32, 64):
        return 1
    return gcd(WIDEST // bits, depth if along else each)


def _shape(depth: int, count: int, wide: int, *, along: bool) -> tuple[int, int]:
    """Lines of shared memory, and accesses of a line: one more than there are elements for, so that lines do
    not meet in a bank."""
    lines, elements = (count, depth) if along else (depth, count)
    return lines, elements // wide + 1


def tile_counts(
    b: LoopBuilder, extents: Sequence[Index], tile_rows: int, tile_columns: int
) -> list[Index]:
    """Batches, and tiles along rows and columns."""
    *batches, rows, columns = extents
    return [
        product_of(b, batches),
        b.ceil_div(rows, tile_rows),
        b.ceil_div(columns, tile_columns),
    ]


@dataclass(frozen=True)
class _Side:
    """One operand of a tile: its rows or columns, and where they go in shared memory."""

    operand: Operand
    first: SSAValue
    """The first of the rows or columns."""
    count: int
    depth: int
    each: int
    """Rows or columns of an invocation."""
    own: SSAValue
    """The number of the invocation among those that have other rows or columns."""
    buffer: SSAValue
    wide: int
    """Elements of an access of shared memory."""
    lanes: int
    """Neighbours that are read from memory at once."""
    dots: bool
    """Whether four steps are multiplied at once."""
    turned: bool
    """Whether steps are neighbours in memory, and rows or columns are in shared memory."""

    @property
    def along(self) -> bool:
        """Whether neighbours in shared memory are steps of the sum."""
        return self.operand.along and not self.turned

    @property
    def piece(self) -> int:
        """Elements that an invocation takes at once."""
        return SQUARE * SQUARE if self.turned else max(self.wide, self.lanes)

    def pieces(self, size: int) -> range:
        """What an invocation reads: the numbers of pieces, without that of the invocation."""
        return range(0, self.count * self.depth // self.piece, size)

    def split(self, b: LoopBuilder, number: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The line of a piece, and where it begins in the line."""
        line = (self.depth if self.operand.along else self.count) // self.piece
        near = b.rem(number, line)
        return b.floordiv(number, line), b.mul(near, self.piece) if self.piece > 1 else near

    def fetch(self, b: LoopBuilder, number: SSAValue, k: SSAValue) -> list[SSAValue]:
        """A piece of the steps from `k` on."""
        if self.turned:
            return self._fetch_square(b, number, k)
        far, near = self.split(b, number)
        block = (self.count, self.depth)
        found: list[SSAValue] = []
        for start in range(0, self.piece, self.lanes):
            at = b.add(near, start) if start else near
            place, step = (far, at) if self.operand.along else (at, far)
            places = b.add(self.first, place), b.add(k, step)
            found += self.operand.load_within(*places, block, self.lanes)
        return found

    def _square(self, b: LoopBuilder, number: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The number of a square along rows or columns, and along steps. Two invocations have the same rows:
        what they read are 32 bytes, and what eight of them write meets in no bank."""
        across = self.count // SQUARE
        pair = b.floordiv(number, 2)
        step = b.add(b.mul(b.floordiv(pair, across), 2), b.rem(number, 2))
        return b.rem(pair, across), step

    def _fetch_square(self, b: LoopBuilder, number: SSAValue, k: SSAValue) -> list[SSAValue]:
        place, step = (b.mul(at, SQUARE) for at in self._square(b, number))
        block = (self.count, self.depth)
        first, k = b.add(self.first, place), b.add(k, step)
        return [
            value
            for line in range(SQUARE)
            for start in range(0, SQUARE, self.lanes)
            for value in self.operand.load_within(
                b.add(first, line), b.add(k, start) if start else k, block, self.lanes
            )
        ]

    def put(self, b: LoopBuilder, number: SSAValue, values: Sequence[SSAValue]) -> None:
        """Writes a piece to shared memory."""
        if self.turned:
            place, step = self._square(b, number)
            for n in range(SQUARE):
                at = b.add(b.mul(step, SQUARE), n)
                b.store(b.from_elements(values[n::SQUARE]), self.buffer, [at, place])
            return
        line, near = self.split(b, number)
        for start in range(0, self.piece, self.wide):
            some = values[start : start + self.wide]
            value = some[0] if self.wide == 1 else b.from_elements(some)
            at = b.add(near, start) if start else near
            b.store(value, self.buffer, [line, b.floordiv(at, self.wide)])

    def at(self, b: LoopBuilder, number: int) -> SSAValue:
        """The row or column of the tile that an invocation has by this number. Neighbours of an access are
        neighbours there, too."""
        together = 1 if self.along else self.wide
        others = self.count // self.each
        place = b.add(self.own, number // together * others)
        return b.add(b.mul(place, together), number % together) if together > 1 else place

    def load(self, b: LoopBuilder, step: SSAValue, count: int) -> list[list[SSAValue]]:
        """Of each of some steps, the elements of the rows or columns of an invocation. Steps that are
        multiplied at once are one vector."""
        if self.along:
            lines = [
                [
                    element
                    for start in range(0, count, self.wide)
                    for element in self._elements(b, self.at(b, n), b.add(step, start))
                ]
                for n in range(self.each)
            ]
            return [list(step) for step in zip(*lines)]
        return [
            [
                element
                for n in range(0, self.each, self.wide)
                for element in self._elements(b, b.add(step, k), self.at(b, n))
            ]
            for k in range(count)
        ]

    def _elements(self, b: LoopBuilder, line: SSAValue, near: SSAValue) -> list[SSAValue]:
        """What an access reads."""
        found = b.load(self.buffer, [line, b.floordiv(near, self.wide)])
        if self.wide == 1 or self.dots:
            return [found]
        return [b.insert(vector.ExtractOp(found, [n], self.operand.sums)) for n in range(self.wide)]


class Tiles:
    """The tiles of a product, built one at a time."""

    def __init__(self, product: Product, epilogue: Epilogue, tile: Tile, group: Workgroup) -> None:
        b = self.b = product.b
        self.product, self.epilogue, self.tile, self.group = product, epilogue, tile, group
        product.use_dots()
        self.shared = [
            self._shared(tile.rows, tile.each_row, product.left_along, "left"),
            self._shared(tile.columns, tile.each_column, product.right_along, "right"),
        ]
        self.own = self._own()

    def _own(self) -> tuple[SSAValue, SSAValue]:
        """The number of an invocation along rows and along columns."""
        b, tile, thread = self.b, self.tile, self.group.thread
        down, across = tile.rows // tile.each_row, tile.columns // tile.each_column
        if down % DOWN or across % ACROSS:
            return b.floordiv(thread, across), b.rem(thread, across)
        far, lower, right, near = split(
            b, thread, (down // DOWN, across // ACROSS, DOWN, ACROSS)
        )
        return b.add(b.mul(far, DOWN), right), b.add(b.mul(lower, ACROSS), near)

    def _turned(self, count: int, *, along: bool) -> bool:
        """Whether an operand with neighbouring steps is turned on its way to shared memory."""
        sums = self.product.sums
        assert isinstance(sums, FixedBitwidthType)
        square = SQUARE * SQUARE * self.group.size
        return (
            along
            and not self.product.dots
            and sums.bitwidth * SQUARE == WIDEST
            and self.tile.depth % (2 * SQUARE) == 0
            and count * self.tile.depth % square == 0
        )

    def _shared(self, count: int, each: int, along: bool, name: str) -> SSAValue:
        along = along and not self._turned(count, along=along)
        wide = self._wide(each, along=along)
        kept = i8 if self.product.dots else self.product.sums
        kind = kept if wide == 1 else VectorType(kept, [wide])
        shape = _shape(self.tile.depth, count, wide, along=along)
        return shared_buffer(self.b, kind, shape, name)

    def _wide(self, each: int, *, along: bool) -> int:
        sums = self.product.sums
        assert isinstance(sums, FixedBitwidthType)
        return (
            LANES if self.product.dots else _wide(self.tile.depth, each, sums.bitwidth, along=along)
        )

    def build(self, batch: Sequence[Index], row: SSAValue, column: SSAValue) -> None:
        """The tile of a number along rows and one along columns."""
        b, tile, product = self.b, self.tile, self.product
        firsts = b.mul(row, tile.rows), b.mul(column, tile.columns)
        left, right = product.operands(batch)
        sides = (
            self._side(left, firsts[0], tile.rows, tile.each_row, 0),
            self._side(right, firsts[1], tile.columns, tile.each_column, 1),
        )
        depth, ahead = product.depth, b.minus(product.depth, tile.depth)
        count = tile.each_row * tile.each_column
        together = max((side.wide for side in sides if side.along), default=1)

        def some(
            k: SSAValue, carried: Sequence[SSAValue], sides: tuple[_Side, _Side]
        ) -> Sequence[SSAValue]:
            def products(step: SSAValue, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
                rows, columns = (side.load(b, step, together) for side in sides)
                for xs, ys in zip(rows, columns):
                    pairs = [(x, y) for x in xs for y in ys]
                    sums = [product.more(x, y, total) for (x, y), total in zip(pairs, sums)]
                return sums

            sums, values = carried[:count], carried[count:]
            if turns == 1:
                # Everybody has read what was here before.
                barrier(b)
            self._put(sides, values)
            barrier(b)
            # On the way while the sums grow; behind the last steps the last ones come again.
            following = b.add(k, tile.depth)
            if isinstance(depth, int) and depth % tile.depth == 0:
                following = b.index(b.minimum(following, ahead))
            coming = self._fetch(sides, following)
            return [*b.reduce(0, tile.depth, together, sums, products, hint="d"), *coming]

        even = isinstance(depth, int) and depth % (2 * tile.depth) == 0
        turns = 2 if even and BUFFERS == 2 else 1
        others = tuple(
            replace(side, buffer=self._shared(c, e, side.operand.along, n))
            for side, c, e, n in zip(sides, (tile.rows, tile.columns), (tile.each_row, tile.each_column), ("l2", "r2"))
        ) if turns == 2 else ()

        def steps(k: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            carried = some(k, carried, sides)
            if turns == 2:
                carried = some(b.add(k, tile.depth), carried, others)
            return carried

        self.epilogue.prepare(None)
        start = [*[product.zero()] * count, *self._fetch(sides, b.index(0))]
        sums = b.reduce(0, depth, tile.depth * turns, start, steps, hint="k")
        self._store(sums[:count], batch, sides)

    def _side(self, operand: Operand, first: SSAValue, count: int, each: int, number: int) -> _Side:
        depth, own, shared = self.tile.depth, self.own[number], self.shared[number]
        turned, dots = self._turned(count, along=operand.along), self.product.dots
        wide = self._wide(each, along=operand.along and not turned)
        side = _Side(operand, first, count, depth, each, own, shared, wide, 1, dots, turned)
        return replace(side, lanes=self._lanes(side))

    def _lanes(self, side: _Side) -> int:
        """How many neighbours of an operand an invocation reads at once, so that all of them have some."""
        operand, lanes = side.operand, self.product.lanes_of(side.operand)
        if side.turned:
            return gcd(SQUARE, lanes) if is_width(operand.buffer, gcd(SQUARE, lanes)) else 1
        line = side.depth if operand.along else side.count
        while lanes > 1 and (
            side.count * side.depth % (self.group.size * max(lanes, side.wide)) or line % lanes
        ):
            lanes //= 2
        return lanes if lanes > 1 and is_width(operand.buffer, lanes) else 1

    def _fetch(self, sides: Sequence[_Side], k: SSAValue) -> list[SSAValue]:
        """The steps from `k` on that an invocation reads of both operands."""
        b, group = self.b, self.group
        return [
            value
            for side in sides
            for start in side.pieces(group.size)
            for value in side.fetch(b, b.add(group.thread, start), k)
        ]

    def _put(self, sides: Sequence[_Side], values: Sequence[SSAValue]) -> None:
        """Writes what was read to shared memory."""
        b, group, place = self.b, self.group, 0
        for side in sides:
            for start in side.pieces(group.size):
                side.put(b, b.add(group.thread, start), values[place : place + side.piece])
                place += side.piece

    def _store(
        self, sums: Sequence[SSAValue], batch: Sequence[Index], sides: Sequence[_Side]
    ) -> None:
        b = self.b
        rows, columns = (
            [b.add(side.first, side.at(b, n)) for n in range(side.each)] for side in sides
        )
        places = [(row, column) for row in rows for column in columns]
        for total, (row, column) in zip(sums, places):
            self._store_one(total, (*batch, row, column), self.product)

    def _store_one(self, total: SSAValue, place: tuple[Index, ...], product: Product) -> None:
        b, tile = self.b, self.tile
        limits = [
            b.compare("ult", at, extent)
            for at, extent, together in zip(
                place[-2:], (product.rows, product.columns), (tile.rows, tile.columns)
            )
            if not isinstance(extent, int) or extent % together
        ]
        if not limits:
            self.epilogue.store(total, Place(place, None))
            return
        b.when(both(b, limits), lambda: self.epilogue.store(total, Place(place, None)))
