"""`nn.matmul` of f16 by matrices of 16 x 16 that subgroups multiply.

A workgroup computes a tile of the result, each of its subgroups a smaller one, as matrices of sums in f32:

    for each 32 steps of the sum:
        rows of the left operand and columns of the right one go to shared memory, as they lie in memory
        the next steps are read from memory, each invocation keeps what it read
        for each 16 of the 32 steps: a subgroup loads matrices of its rows and columns, and multiplies them
    the epilogue, and stores, of some matrices at a time (`matmul_finish.py`)

Where there are few tiles, several subgroups have the same rows and columns and a part of the steps each, and
what they have found is added up at the end.

What lies beyond an edge is read as 0, and not stored. One buffer of shared memory and one set of loads under
way are what the compiler of the driver does best with.

Requires: a device with such matrices; both operands in accesses of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.dialects import gpu
from xdsl.dialects.builtin import MemRefType, VectorType, f16, f32
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.gpu import (
    MMAMatrixType,
    SubgroupMmaComputeOp,
    SubgroupMmaConstantMatrixOp,
    SubgroupMmaLoadMatrixOp,
)
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.epilogue import Epilogue
from openinfer.lowering.vulkan.schedules.matmul_finish import (
    Finish,
    Part,
    Where,
    widest_and_most,
)
from openinfer.lowering.vulkan.schedules.matmul_operands import Operand, Product
from openinfer.lowering.vulkan.schedules.matmul_sizes import (
    busy_tile,
    groups_across,
    product_of_known,
)
from openinfer.lowering.vulkan.schedules.wide import BYTES
from openinfer.lowering.vulkan.schedules.workgroup import (
    Workgroup,
    barrier,
    shared_buffer,
)

SIDE = 16
"""Rows and columns of a matrix, and steps of a product of two."""
LANES = 8
"""Elements of f16 that are read at once."""
SUBGROUP = 32
"""Invocations of a subgroup, where these forms were measured."""
LEFT, RIGHT, SUMS = (
    MMAMatrixType.of(SIDE, SIDE, element, name)
    for element, name in ((f16, "AOp"), (f16, "BOp"), (f32, "COp"))
)


@dataclass(frozen=True)
class MatrixTile:
    """What a workgroup computes at once."""

    rows: int
    columns: int
    depth: int
    """Steps of the sum between two barriers."""
    each_row: int
    each_column: int
    """Rows and columns of a subgroup."""
    along: int = 1
    """Subgroups that share rows and columns: each has a part of the steps."""

    @property
    def subgroups(self) -> int:
        return self.rows // self.each_row * (self.columns // self.each_column) * self.along

    @property
    def size(self) -> int:
        """Invocations of a workgroup."""
        return self.subgroups * SUBGROUP


LARGE = MatrixTile(128, 128, 32, 64, 64)
BROAD = MatrixTile(128, 64, 64, 32, 32)
MEDIUM = MatrixTile(64, 64, 32, 32, 32)
SMALL = MatrixTile(32, 32, 64, 16, 16)
SHARED = MatrixTile(16, 32, 128, 16, 16, along=4)
"""For few rows and columns, and many steps."""
FEW_TILES = 256
"""Small tiles that leave a part of a device idle."""


def matrix_tile(found: Product, rows: int | None) -> MatrixTile:
    """The tile of a product; `rows` as `busy_tile` has them."""
    tile = busy_tile((LARGE, BROAD, MEDIUM, SMALL), found.extents, rows)
    *batches, _, columns = found.extents
    if tile is not SMALL or rows is None or not isinstance(columns, int):
        return tile
    tiles = groups_across(rows, SMALL.rows) * groups_across(columns, SMALL.columns)
    is_deep = isinstance(found.depth, int) and found.depth >= 2 * SHARED.depth
    return SHARED if is_deep and product_of_known(batches) * tiles <= FEW_TILES else tile


def fits_matrices(found: Product) -> bool:
    """Whether a product can be computed by matrices."""
    b = found.b
    description = b.facts.device_description
    if not description.matrices or description.subgroup != SUBGROUP or b.facts.strict_math:
        return False
    if found.sums != f32 or not found.left_along or not found.is_of(f16):
        return False
    if any(isinstance(n, int) and n < SIDE for n in (found.rows, found.columns, found.depth)):
        return False
    left, right = found.operands([b.index(0)] * (len(found.extents) - 2))
    return found.lanes_of(left) == LANES and found.lanes_of(right) == LANES


@dataclass(frozen=True)
class _Side:
    """One operand of a tile: its rows or columns, and where they go in shared memory."""

    operand: Operand
    first: SSAValue
    """The first of the rows or columns."""
    count: int
    depth: int
    buffer: SSAValue

    @property
    def line(self) -> int:
        """Accesses of 16 bytes in a line of memory."""
        return (self.depth if self.operand.along else self.count) // LANES

    def pieces(self, size: int) -> range:
        """What an invocation reads: the numbers of accesses, without that of the invocation."""
        return range(0, self.count * self.depth // LANES, size)

    def split(self, b: LoopBuilder, number: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The line of an access, and its place in the line."""
        return b.floordiv(number, self.line), b.rem(number, self.line)

    def fetch(self, b: LoopBuilder, number: SSAValue, k: SSAValue) -> list[SSAValue]:
        """Neighbours in memory at the steps from `k` on."""
        far, near = self.split(b, number)
        near = b.mul(near, LANES)
        place, step = (far, near) if self.operand.along else (near, far)
        block = (self.count, self.depth)
        return self.operand.load_within(b.add(self.first, place), b.add(k, step), block, LANES)

    def put(self, b: LoopBuilder, number: SSAValue, values: Sequence[SSAValue]) -> None:
        b.store(b.from_elements(values), self.buffer, list(self.split(b, number)))

    def load(
        self, b: LoopBuilder, place: SSAValue, step: SSAValue, kind: MMAMatrixType
    ) -> SSAValue:
        """The matrix of some rows or columns, which begin at `place` of the tile, and steps."""
        along = self.operand.along
        at = (place, b.floordiv(step, LANES)) if along else (step, b.floordiv(place, LANES))
        # The right operand has a column for each row of memory where neighbours are steps.
        turned = along == (kind is RIGHT)
        lead = self.line + 1
        return b.insert(SubgroupMmaLoadMatrixOp(self.buffer, at, lead, kind, transpose=turned))


class MatrixTiles:
    """The tiles of a product, built one at a time."""

    def __init__(
        self, product: Product, epilogue: Epilogue, tile: MatrixTile, group: Workgroup
    ) -> None:
        b = self.b = product.b
        self.product, self.epilogue, self.tile, self.group = product, epilogue, tile, group
        kind = VectorType(f16, [LANES])
        right = (tile.columns, tile.depth) if product.right_along else (tile.depth, tile.columns)
        # A line more than there is, so that the rows of a matrix meet in no bank.
        self.shared = [
            shared_buffer(b, kind, [lines, elements // LANES + 1], name)
            for (lines, elements), name in (((tile.rows, tile.depth), "left"), (right, "right"))
        ]
        own = tile.each_row // SIDE, tile.each_column // SIDE
        free = b.facts.device_description.shared_memory - sum(map(_bytes_of, self.shared))
        ends = widest_and_most(product.depth)
        part = Part(SIDE, *own, tile.along, tile.subgroups, SUBGROUP, *ends).within(free)
        self.finish = Finish(b, product.op, epilogue, part)
        self.subgroup = b.insert(gpu.SubgroupIdOp())
        self.lane = b.insert(gpu.LaneIdOp())
        across = tile.columns // tile.each_column
        number = b.floordiv(self.subgroup, tile.along)
        self.part = b.rem(self.subgroup, tile.along)
        """Which part of the steps the subgroup has."""
        self.y = b.mul(b.floordiv(number, across), tile.each_row)
        self.x = b.mul(b.rem(number, across), tile.each_column)

    def build(self, batch: Sequence[Index], row: SSAValue, column: SSAValue) -> None:
        """The tile of a number along rows and one along columns."""
        b, tile, product = self.b, self.tile, self.product
        firsts = b.mul(row, tile.rows), b.mul(column, tile.columns)
        sides = [
            _Side(replace(operand, sums=f16), first, count, tile.depth, buffer)
            for operand, first, count, buffer in zip(
                product.operands(batch), firsts, (tile.rows, tile.columns), self.shared
            )
        ]
        depth, ahead = product.depth, b.minus(product.depth, tile.depth)
        count = tile.each_row // SIDE * (tile.each_column // SIDE)

        def steps(k: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            # Everybody has read what was here before.
            barrier(b)
            self._put(sides, carried[count:])
            barrier(b)
            # On the way while the sums grow; behind the last steps the last ones come again.
            following = b.add(k, tile.depth)
            if isinstance(depth, int) and depth % tile.depth == 0:
                following = b.index(b.minimum(following, ahead))
            coming = self._fetch(sides, following)
            sums = carried[:count]
            own = tile.depth // tile.along
            for step in range(0, own, SIDE):
                sums = self._multiply(sides, b.add(b.mul(self.part, own), step), sums)
            return [*sums, *coming]

        self.epilogue.prepare(None)
        zero = b.insert(SubgroupMmaConstantMatrixOp(b.constant(0, f32), SUMS))
        start = [*[zero] * count, *self._fetch(sides, b.index(0))]
        sums = b.reduce(0, depth, tile.depth, start, steps, hint="k")
        self._finish(sums[:count], batch, firsts)

    def _finish(
        self, sums: Sequence[SSAValue], batch: Sequence[Index], firsts: tuple[SSAValue, SSAValue]
    ) -> None:
        b, tile, product = self.b, self.tile, self.product
        whole = [
            isinstance(extent, int) and extent % together == 0
            for extent, together in ((product.rows, tile.rows), (product.columns, tile.columns))
        ]
        where = Where(
            batch,
            b.add(firsts[0], self.y),
            b.add(firsts[1], self.x),
            self.subgroup,
            self.part,
            self.lane,
            product.rows,
            product.columns,
            (whole[0], whole[1]),
        )
        self.finish.build(sums, where)

    def _fetch(self, sides: Sequence[_Side], k: SSAValue) -> list[SSAValue]:
        b, group = self.b, self.group
        return [
            value
            for side in sides
            for start in side.pieces(group.size)
            for value in side.fetch(b, b.add(group.thread, start), k)
        ]

    def _put(self, sides: Sequence[_Side], values: Sequence[SSAValue]) -> None:
        b, group, place = self.b, self.group, 0
        for side in sides:
            for start in side.pieces(group.size):
                side.put(b, b.add(group.thread, start), values[place : place + LANES])
                place += LANES

    def _multiply(
        self, sides: Sequence[_Side], step: SSAValue, sums: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """16 steps of the sums of a subgroup."""
        b, tile = self.b, self.tile
        left, right = sides
        rows = [left.load(b, b.add(self.y, i), step, LEFT) for i in range(0, tile.each_row, SIDE)]
        columns = [
            right.load(b, b.add(self.x, j), step, RIGHT) for j in range(0, tile.each_column, SIDE)
        ]
        pairs = [(x, y) for x in rows for y in columns]
        return [b.insert(SubgroupMmaComputeOp(x, y, total)) for (x, y), total in zip(pairs, sums)]


def _bytes_of(shared: SSAValue) -> int:
    """The bytes of shared memory that is read in accesses of `BYTES`."""
    assert isinstance(shared.type, MemRefType)
    return prod(shared.type.get_shape()) * BYTES
