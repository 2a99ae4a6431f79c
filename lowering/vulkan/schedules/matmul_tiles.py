"""`nn.matmul` in tiles: a workgroup computes a tile of the result, an invocation a smaller one of it.

    for each 8 to 32 steps of the sum:
        rows of the left operand and columns of the right one go to shared memory (`matmul_shared.py`)
        the next steps are read from memory, each invocation keeps what it read
        for each of these steps: an invocation reads its rows and columns, and adds products to its sums
    the epilogue, and a store, for each of its sums

What an invocation has lies a stride apart, so that neighbouring invocations read neighbours. What lies beyond
an edge is read as 0, and not stored. Columns that are neighbours are stored by one access of 16 bytes, where
no tile has an edge among them.

Workgroups of large products go through blocks of some rows of tiles, column by column, so that those that
run at one time read the same operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

from xdsl.dialects.builtin import FixedBitwidthType, VectorType, i8
from xdsl.ir import SSAValue

from openinfer.dialects.nn.byte_ops import LANES
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.epilogue import Epilogue, Place
from openinfer.lowering.vulkan.schedules.grid import product as product_of
from openinfer.lowering.vulkan.schedules.grid import split
from openinfer.lowering.vulkan.schedules.matmul_operands import Operand, Product, both
from openinfer.lowering.vulkan.schedules.matmul_shared import (
    BLOCK_ROWS,
    BLOCK_STEPS,
    WIDEST,
    Side,
    shape_of,
    wide_of,
)
from openinfer.lowering.vulkan.schedules.wide import common_lanes, is_width, store_wide
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

    def turns(self, bits: int) -> bool:
        """Whether invocations turn blocks of operands whose steps are neighbours, for sums of some bits."""
        block = BLOCK_ROWS * BLOCK_STEPS * self.size
        sides = self.rows * self.depth, self.columns * self.depth
        each = self.each_row % BLOCK_ROWS or self.each_column % BLOCK_ROWS
        return bits * BLOCK_ROWS == WIDEST and not each and not any(side % block for side in sides)


LARGE = Tile(128, 128, 16, 8, 8)
SHORT = Tile(128, 128, 8, 8, 8)
"""Where shared memory does not hold the large one."""
FLOATS = Tile(128, 128, 8, 16, 8)
"""In place of the large one, for sums of f32: 45.6 TFLOP/s on an NVIDIA H200 (driver 580.159.04, 4096 cubed),
where that has 43.0. Two buffers (44.7) or 16 steps (43.3) take registers that are missed elsewhere."""
MEDIUM = Tile(64, 64, 16, 4, 4)
SMALL = Tile(32, 32, 32, 2, 2)
TILES = LARGE, MEDIUM, SMALL
DOWN, ACROSS = 4, 8
"""Invocations below and beside each other that are neighbours: what 32 of them read at one time are 4 and 8
accesses of shared memory, which meet in no bank."""


BLOCK = 8
"""Rows of tiles that workgroups go through column by column."""


def in_blocks(
    b: LoopBuilder, place: tuple[SSAValue, SSAValue], counts: tuple[Index, Index], most: int
) -> tuple[SSAValue, SSAValue]:
    """The row and column of a tile in the order of blocks of up to `most` rows, by those in the order of
    rows; `counts`: rows and columns of tiles."""
    rows, columns = counts
    row, column = place
    if columns == 1:
        return row, column
    number = b.add(b.mul(row, columns), column)
    whole = columns * most if isinstance(columns, int) else b.mul(columns, most)
    block = b.floordiv(number, whole)
    first = b.mul(block, most)
    rest = b.rem(number, whole)
    side = b.minimum(b.sub(b.index(rows), first), most)
    return b.add(first, b.rem(rest, side)), b.floordiv(rest, side)


def shared_bytes(tile: Tile, bits: int) -> int:
    """The most shared memory of a workgroup, for sums of some bits, however the operands lie."""

    def one(count: int, each: int, along: bool) -> int:
        wide = wide_of(tile.depth, each, bits, along=along)
        return prod(shape_of(tile.depth, count, wide, along=along)) * wide * bits // 8

    sides = (tile.rows, tile.each_row), (tile.columns, tile.each_column)
    return sum(max(one(*side, along) for along in (True, False)) for side in sides)


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


class Tiles:
    """The tiles of a product, built one at a time."""

    def __init__(self, product: Product, epilogue: Epilogue, tile: Tile, group: Workgroup) -> None:
        self.b = product.b
        self.product, self.epilogue, self.tile, self.group = product, epilogue, tile, group
        product.use_dots()
        assert isinstance(product.sums, FixedBitwidthType)
        self.bits = product.sums.bitwidth
        self.shared = [
            self._shared(tile.rows, tile.each_row, product.left_along, "left"),
            self._shared(tile.columns, tile.each_column, product.right_along, "right"),
        ]
        self.own = self._own()

    def _own(self) -> tuple[SSAValue, SSAValue]:
        """The number of the invocation along rows, and along columns."""
        b, tile, thread = self.b, self.tile, self.group.thread
        down, across = tile.rows // tile.each_row, tile.columns // tile.each_column
        if down % DOWN or across % ACROSS:
            return b.floordiv(thread, across), b.rem(thread, across)
        counts = (down // DOWN, across // ACROSS, DOWN, ACROSS)
        row, column, below, beside = split(b, thread, counts)
        return b.add(b.mul(row, DOWN), below), b.add(b.mul(column, ACROSS), beside)

    def _turned(self, along: bool) -> bool:
        return along and not self.product.dots and self.tile.turns(self.bits)

    def _shared(self, count: int, each: int, along: bool, name: str) -> SSAValue:
        along = along and not self._turned(along)
        wide = self._wide(each, along=along)
        kept = i8 if self.product.dots else self.product.sums
        kind = kept if wide == 1 else VectorType(kept, [wide])
        shape = shape_of(self.tile.depth, count, wide, along=along)
        return shared_buffer(self.b, kind, shape, name)

    def _wide(self, each: int, *, along: bool) -> int:
        if self.product.dots:
            return LANES
        return wide_of(self.tile.depth, each, self.bits, along=along)

    def build(self, batch: Sequence[Index], row: SSAValue, column: SSAValue) -> None:
        """The tile of a number along rows and one along columns."""
        b, tile, product = self.b, self.tile, self.product
        row, column = self._in_blocks(row, column)
        left, right = product.operands(batch)
        sides = (
            self._side(left, b.mul(row, tile.rows), 0),
            self._side(right, b.mul(column, tile.columns), 1),
        )
        depth, ahead = product.depth, b.minus(product.depth, tile.depth)
        count = tile.each_row * tile.each_column
        together = max((side.wide for side in sides if side.along), default=1)

        def products(step: SSAValue, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
            rows, columns = (side.load(b, step, together) for side in sides)
            for xs, ys in zip(rows, columns):
                pairs = [(x, y) for x in xs for y in ys]
                sums = [product.more(x, y, total) for (x, y), total in zip(pairs, sums)]
            return sums

        def steps(k: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            sums, values = carried[:count], carried[count:]
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

        self.epilogue.prepare(None)
        start = [*[product.zero()] * count, *self._fetch(sides, b.index(0))]
        sums = b.reduce(0, depth, tile.depth, start, steps, hint="k")
        self._store(sums[:count], batch, sides)

    def _in_blocks(self, row: SSAValue, column: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The place of a tile in the order of blocks; that of rows, where only the step knows how many there
        are, or few."""
        rows, columns = self.product.rows, self.product.columns
        if not isinstance(rows, int) or not isinstance(columns, int):
            return row, column
        counts = -(-rows // self.tile.rows), -(-columns // self.tile.columns)
        if counts[0] < 2 * BLOCK:
            return row, column
        return in_blocks(self.b, (row, column), counts, BLOCK)

    def _side(self, operand: Operand, first: SSAValue, number: int) -> Side:
        """The left operand, number 0, or the right one."""
        tile, count = self.tile, (self.tile.rows, self.tile.columns)[number]
        each = (tile.each_row, tile.each_column)[number]
        turned, dots = self._turned(operand.along), self.product.dots
        wide = self._wide(each, along=operand.along and not turned)
        side = Side(
            operand=operand,
            first=first,
            count=count,
            depth=tile.depth,
            each=each,
            own=self.own[number],
            buffer=self.shared[number],
            wide=wide,
            lanes=1,
            dots=dots,
            turned=turned,
        )
        return replace(side, lanes=self._lanes(side))

    def _lanes(self, side: Side) -> int:
        """How many neighbours of an operand an invocation reads at once, so that all of them have some."""
        operand, lanes = side.operand, self.product.lanes_of(side.operand)
        if side.turned:
            lanes = gcd(lanes, BLOCK_STEPS)
            return lanes if lanes > 1 and is_width(operand.buffer, lanes) else 1
        line = side.depth if operand.along else side.count
        while lanes > 1 and (
            side.count * side.depth % (self.group.size * max(lanes, side.wide)) or line % lanes
        ):
            lanes //= 2
        return lanes if lanes > 1 and is_width(operand.buffer, lanes) else 1

    def _fetch(self, sides: tuple[Side, Side], k: SSAValue) -> list[SSAValue]:
        """The steps from `k` on that an invocation reads of both operands."""
        b, group = self.b, self.group
        return [
            value
            for side in sides
            for start in side.pieces(group.size)
            for value in side.fetch(b, b.add(group.thread, start), k)
        ]

    def _put(self, sides: tuple[Side, Side], values: Sequence[SSAValue]) -> None:
        """Writes what was read to shared memory."""
        b, group, place = self.b, self.group, 0
        for side in sides:
            for start in side.pieces(group.size):
                side.put(b, b.add(group.thread, start), values[place : place + side.piece])
                place += side.piece

    def _store(
        self, sums: Sequence[SSAValue], batch: Sequence[Index], sides: Sequence[Side]
    ) -> None:
        b = self.b
        rows, columns = (
            [b.add(side.first, side.at(b, n)) for n in range(side.each)] for side in sides
        )
        together = self._stored_together(sides[1])
        places = [(row, column) for row in rows for column in columns]
        for start in range(0, len(places), together):
            place = *batch, *places[start]
            self._store_some(sums[start : start + together], place, self.product)

    def _stored_together(self, columns: Side) -> int:
        """How many neighbours of a row an invocation stores at once."""
        product, wide = self.product, 1 if columns.along else columns.wide
        if not isinstance(product.columns, int) or product.columns % self.tile.columns:
            return 1
        return gcd(wide, common_lanes(product.op, [product.output]))

    def _store_some(
        self, sums: Sequence[SSAValue], place: tuple[Index, ...], product: Product
    ) -> None:
        """Stores neighbours of a row, the first of which has that place."""
        b, tile, epilogue = self.b, self.tile, self.epilogue

        def store() -> None:
            *row, first = place
            values = [
                epilogue.finish(total, Place((*row, b.add(first, n) if n else first), None))
                for n, total in enumerate(sums)
            ]
            store_wide(b, values, product.output, place)

        limits = [
            b.compare("ult", at, extent)
            for at, extent, together in zip(
                place[-2:], (product.rows, product.columns), (tile.rows, tile.columns)
            )
            if not isinstance(extent, int) or extent % together
        ]
        if not limits:
            store()
            return
        b.when(both(b, limits), store)
