"""`nn.matmul` in tiles: a workgroup computes a tile of the result, an invocation a smaller one of it.

    for each 16 steps of the sum:
        rows of the left operand and columns of the right one go to shared memory, once for the workgroup
        for each of the 16 steps: an invocation reads 4 of each, and adds 16 products to its sums
    the epilogue, and a store, for each of the 16 sums

Elements of an invocation lie a stride apart, so that neighbouring invocations read neighbours.
What lies beyond an edge is read as 0, and not stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.epilogue import Epilogue, Place
from openinfer.lowering.vulkan.schedules.grid import product as product_of
from openinfer.lowering.vulkan.schedules.matmul_operands import Operand, Product, both
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
SMALL = Tile(32, 32, 16, 2, 2)
BUSY = 128
"""Workgroups that keep a large device busy."""


def tile_for(extents: Sequence[Index]) -> Tile:
    """The largest tile of which a device has enough to do; a medium one where only the step knows."""
    *batches, rows, columns = extents
    if not (isinstance(rows, int) and isinstance(columns, int)):
        return MEDIUM
    many = product_of_known(batches)
    for tile in (LARGE, MEDIUM):
        if many * -(-rows // tile.rows) * -(-columns // tile.columns) >= BUSY:
            return tile
    return SMALL


def product_of_known(extents: Sequence[Index]) -> int:
    """The product of the extents that are numbers."""
    total = 1
    for extent in extents:
        total *= extent if isinstance(extent, int) else 1
    return total


def tile_counts(b: LoopBuilder, extents: Sequence[Index], tile: Tile) -> list[Index]:
    """Batches, and tiles along rows and columns."""
    *batches, rows, columns = extents
    return [
        product_of(b, batches),
        b.ceil_div(rows, tile.rows),
        b.ceil_div(columns, tile.columns),
    ]


class Tiles:
    """The tiles of a product, built one at a time."""

    def __init__(self, product: Product, epilogue: Epilogue, tile: Tile, group: Workgroup) -> None:
        b = self.b = product.b
        self.product, self.epilogue, self.tile, self.group = product, epilogue, tile, group
        self.shared = [
            shared_buffer(b, product.sums, [tile.depth, count], name)
            for count, name in ((tile.rows, "left"), (tile.columns, "right"))
        ]
        self.down, self.across = tile.rows // tile.each_row, tile.columns // tile.each_column
        self.y, self.x = b.floordiv(group.thread, self.across), b.rem(group.thread, self.across)

    def build(self, batch: Sequence[Index], row: SSAValue, column: SSAValue) -> None:
        """The tile of a number along rows and one along columns."""
        b, tile, product = self.b, self.tile, self.product
        firsts = b.mul(row, tile.rows), b.mul(column, tile.columns)
        operands = product.operands(batch)

        def steps(k: SSAValue, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
            # Everybody has read what was here before.
            barrier(b)
            for operand, buffer, first, count in zip(
                operands, self.shared, firsts, (tile.rows, tile.columns)
            ):
                self._fetch(operand, buffer, first, count, k)
            barrier(b)
            return b.reduce(0, tile.depth, 1, sums, self._step, hint="d")

        self.epilogue.prepare(None)
        zeros = [product.zero()] * (tile.each_row * tile.each_column)
        sums = b.reduce(0, product.depth, tile.depth, zeros, steps, hint="k")
        self._store(sums, batch, firsts)

    def _fetch(
        self, operand: Operand, buffer: SSAValue, first: SSAValue, count: int, k: SSAValue
    ) -> None:
        """The next steps of the rows or columns of the tile."""
        b, depth, size = self.b, self.tile.depth, self.group.size
        lanes = self.product.lanes_of(operand)
        if count * depth % (size * lanes) or (depth if operand.along else count) % lanes:
            lanes = 1
        line = (depth if operand.along else count) // lanes
        for start in range(0, count * depth // lanes, size):
            number = b.add(self.group.thread, start)
            along, across = b.rem(number, line), b.floordiv(number, line)
            along = b.mul(along, lanes) if lanes > 1 else along
            place, step = (across, along) if operand.along else (along, across)
            values = operand.load_within(b.add(first, place), b.add(k, step), (count, depth), lanes)
            for lane, value in enumerate(values):
                at = [b.add(step, lane), place] if operand.along else [step, b.add(place, lane)]
                b.store(value, buffer, at)

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
