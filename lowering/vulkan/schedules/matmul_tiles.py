"""`nn.matmul` in tiles: a workgroup computes a tile of the result, an invocation a smaller one of it.

    for each 16 steps of the sum:
        rows of the left operand and columns of the right one go to shared memory, once for the workgroup
        the next steps are read from memory, each invocation keeps what it read
        for each of the 16 steps: an invocation reads 4 of each, and adds 16 products to its sums
    the epilogue, and a store, for each of the 16 sums

Elements of an invocation lie a stride apart, so that neighbouring invocations read neighbours.
What lies beyond an edge is read as 0, and not stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import FixedBitwidthType
from xdsl.ir import Attribute, SSAValue

from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.epilogue import Epilogue, Place
from openinfer.lowering.vulkan.schedules.grid import product as product_of
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


LARGE = Tile(128, 128, 8, 8, 8)
MEDIUM = Tile(64, 64, 16, 4, 4)
SMALL = Tile(32, 32, 32, 2, 2)
BANKS_APART = 32
TILES = LARGE, MEDIUM, SMALL


def _pad(tile: Tile) -> int:
    """What lies between steps: neighbouring invocations that write different ones meet in no bank of shared
    memory."""
    return max(1, BANKS_APART // tile.depth)


def shared_bytes(tile: Tile, sums: Attribute) -> int:
    """The shared memory of a workgroup."""
    assert isinstance(sums, FixedBitwidthType)
    return tile.depth * (tile.rows + tile.columns + 2 * _pad(tile)) * sums.size


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
    buffer: SSAValue
    lanes: int
    """Neighbours that are read at once."""

    def place(self, b: LoopBuilder, thread: SSAValue, depth: int) -> tuple[SSAValue, SSAValue]:
        """The row or column, and the step, of what an invocation reads."""
        along = self.operand.along
        line = (depth if along else self.count) // self.lanes
        near, far = b.rem(thread, line), b.floordiv(thread, line)
        near = b.mul(near, self.lanes) if self.lanes > 1 else near
        return (far, near) if along else (near, far)


class Tiles:
    """The tiles of a product, built one at a time."""

    def __init__(self, product: Product, epilogue: Epilogue, tile: Tile, group: Workgroup) -> None:
        b = self.b = product.b
        self.product, self.epilogue, self.tile, self.group = product, epilogue, tile, group
        pad = _pad(tile)
        self.shared = [
            shared_buffer(b, product.sums, [tile.depth, count + pad], name)
            for count, name in ((tile.rows, "left"), (tile.columns, "right"))
        ]
        self.down, self.across = tile.rows // tile.each_row, tile.columns // tile.each_column
        self.y, self.x = b.floordiv(group.thread, self.across), b.rem(group.thread, self.across)

    def build(self, batch: Sequence[Index], row: SSAValue, column: SSAValue) -> None:
        """The tile of a number along rows and one along columns."""
        b, tile, product = self.b, self.tile, self.product
        firsts = b.mul(row, tile.rows), b.mul(column, tile.columns)
        sides = [
            _Side(operand, first, count, buffer, self._lanes(operand, count))
            for operand, first, count, buffer in zip(
                product.operands(batch), firsts, (tile.rows, tile.columns), self.shared
            )
        ]
        depth, ahead = product.depth, b.minus(product.depth, tile.depth)
        count = tile.each_row * tile.each_column

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
            return [*b.reduce(0, tile.depth, 1, sums, self._step, hint="d"), *coming]

        self.epilogue.prepare(None)
        start = [*[product.zero()] * count, *self._fetch(sides, b.index(0))]
        sums = b.reduce(0, depth, tile.depth, start, steps, hint="k")
        self._store(sums[:count], batch, firsts)

    def _lanes(self, operand: Operand, count: int) -> int:
        """How many neighbours of an operand an invocation reads at once, so that all of them have some."""
        depth, lanes = self.tile.depth, self.product.lanes_of(operand)
        line = depth if operand.along else count
        while lanes > 1 and (count * depth % (self.group.size * lanes) or line % lanes):
            lanes //= 2
        return lanes if lanes > 1 and is_width(operand.buffer, lanes) else 1

    def _fetch(self, sides: Sequence[_Side], k: SSAValue) -> list[SSAValue]:
        """The steps from `k` on that an invocation reads of both operands."""
        b, depth, size = self.b, self.tile.depth, self.group.size
        found: list[SSAValue] = []
        for side in sides:
            for start in range(0, side.count * depth // side.lanes, size):
                place, step = side.place(b, b.add(self.group.thread, start), depth)
                found += side.operand.load_within(
                    b.add(side.first, place), b.add(k, step), (side.count, depth), side.lanes
                )
        return found

    def _put(self, sides: Sequence[_Side], values: Sequence[SSAValue]) -> None:
        """Writes what was read to shared memory."""
        b, depth, size = self.b, self.tile.depth, self.group.size
        left = iter(values)
        for side in sides:
            for start in range(0, side.count * depth // side.lanes, size):
                place, step = side.place(b, b.add(self.group.thread, start), depth)
                for lane in range(side.lanes):
                    at = [place, b.add(step, lane)]
                    if not side.operand.along:
                        at = [b.add(place, lane), step]
                    b.store(next(left), side.buffer, [at[1], at[0]])

    def _step(self, step: SSAValue, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """One step of the sums of an invocation."""
        b, tile = self.b, self.tile
        left, right = self.shared
        rows = [b.load(left, [step, b.add(self.y, i * self.down)]) for i in range(tile.each_row)]
        columns = [
            b.load(right, [step, b.add(self.x, j * self.across)]) for j in range(tile.each_column)
        ]
        pairs = [(x, y) for x in rows for y in columns]
        return [self.product.more(x, y, total) for (x, y), total in zip(pairs, sums)]

    def _store(
        self,
        sums: Sequence[SSAValue],
        batch: Sequence[Index],
        firsts: tuple[SSAValue, SSAValue],
    ) -> None:
        b, tile, product = self.b, self.tile, self.product
        rows = [b.add(firsts[0], b.add(self.y, i * self.down)) for i in range(tile.each_row)]
        columns = [
            b.add(firsts[1], b.add(self.x, j * self.across)) for j in range(tile.each_column)
        ]
        number = 0
        for row in rows:
            for column in columns:
                self._store_one(sums[number], (*batch, row, column), product)
                number += 1

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
