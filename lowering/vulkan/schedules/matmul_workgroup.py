"""`nn.matmul` of f16 by matrices that a whole workgroup holds.

A workgroup computes a tile of the result as one matrix of sums in f32:

    the sums begin as what the epilogue adds to them (`matmul_starts.py`)
    for each 64 steps of the sum:
        the left operand's rows and the right one's columns are matrices, taken from memory, and multiplied
    a function of each element; the result is stored

What lies in registers, in shared memory and on the way is the driver's business: it makes the same of it as
of `matmul_matrices.py`, and hides more. It does so best where many steps follow each other in the code, and
where no access asks whether it is inside: tiles at an edge have code of their own, with bounded matrices.

Workgroups go through blocks of 16 rows of tiles, column by column, so that those that run at one time read
the same operands.

Requires: a device with such matrices; both operands in accesses of 16 bytes; an epilogue of both parts alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType, f16, f32
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects.extensions.gpu import (
    SubgroupMmaComputeOp,
    SubgroupMmaConstantMatrixOp,
    SubgroupMmaElementwiseOp,
)
from openinfer.dialects.extensions.gpu_matrix_type import WORKGROUP, MMAMatrixType
from openinfer.dialects.extensions.gpu_tensors import (
    MatrixConvertOp,
    MatrixMapOp,
    TensorLoadOp,
    TensorStoreOp,
)
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.epilogue import Epilogue, Extra
from openinfer.lowering.vulkan.schedules.forms import most_rows
from openinfer.lowering.vulkan.schedules.grid import (
    Grid,
    HostValue,
    each_group,
    groups_for,
    product,
    split,
)
from openinfer.lowering.vulkan.schedules.matmul_joined import Problem
from openinfer.lowering.vulkan.schedules.matmul_matrices import LANES
from openinfer.lowering.vulkan.schedules.matmul_operands import Operand, Product, both
from openinfer.lowering.vulkan.schedules.matmul_sizes import groups_across, product_of_known
from openinfer.lowering.vulkan.schedules.matmul_starts import Ends, ends_of, is_row, place_of
from openinfer.lowering.vulkan.schedules.matmul_tiles import tile_counts

SIDE, SIDES = 16, 32
"""What the steps of a matrix are a multiple of, and its rows and columns beside them."""
MOST_OF_MATRIX = 256
SIZES = (128, 256)
"""Invocations of a workgroup."""
STEPS = 1024
"""Steps of a sum that follow each other in the code, about: a driver hides loads behind products there, and
takes longer for more."""
BLOCK = 16
"""Rows of tiles that workgroups go through column by column."""
PROCESSORS = 132
"""Workgroups that run at one time where these tiles were measured."""


@dataclass(frozen=True)
class WorkgroupTile:
    """What a workgroup computes at once."""

    rows: int
    columns: int
    depth: int
    """Steps of the sum of one pair of matrices."""
    size: int
    """Invocations of a workgroup."""

    @property
    def most(self) -> int:
        """Pairs of matrices that follow each other in the code, of a sum that is not very long."""
        return max(1, STEPS // self.depth)


TILES = {
    WorkgroupTile(128, 192, 64, 256): 1.0,
    WorkgroupTile(128, 256, 64, 256): 0.93,
    WorkgroupTile(128, 128, 64, 256): 0.75,
    WorkgroupTile(128, 64, 64, 128): 0.53,
    WorkgroupTile(64, 64, 64, 128): 0.45,
}
"""Each with its speed where a device is full of it and nothing is left over, compared with the best (NVIDIA
H200, driver 580.159.04: 4096 and 6144 cubed, 1024 cubed for those of 128 invocations)."""
CUT = 0.84
"""How fast a tile is where extents leave a part of one, compared with where they do not: a kernel with code
for both is slower everywhere (the same H200, 8192 cubed: 273 TFLOP/s with 192 columns, 319 with 256)."""
LEAST_SPEED = 0.3
"""Of a tile and its share of the device: below it other forms are quicker."""


def workgroup_tile(problem: Problem, rows: int | None) -> WorkgroupTile | None:
    """The tile that promises most; None where all of them leave too much of a device idle. `rows`: of a
    batch, as `busy_tile` has them."""
    found = problem.product
    *batches, own, columns = problem.extents
    if not isinstance(found.rows, int) and most_rows(found.op) is not None:
        # Kernels for steps of few rows.
        return None
    if isinstance(own, int):
        rows = own
    if rows is None or not isinstance(columns, int):
        return None
    many = product_of_known(batches)

    def promise(tile: WorkgroupTile) -> float:
        tiles = many * groups_across(rows, tile.rows) * groups_across(columns, tile.columns)
        turns = groups_across(tiles, PROCESSORS)
        computed = tiles * tile.rows * tile.columns
        useful = many * rows * columns / computed
        # Of rows that only the step knows, every tile may be cut.
        cut = columns % tile.columns or (isinstance(own, int) and own % tile.rows)
        speed = TILES[tile] * (CUT if cut else 1.0)
        return speed * useful * tiles / (turns * PROCESSORS)

    best = max(TILES, key=promise)
    return best if promise(best) >= LEAST_SPEED else None


def fits_workgroup(found: Product, epilogue: Epilogue) -> Ends | None:
    """The ends of a product that can be computed by matrices of a workgroup; None for another one."""
    b = found.b
    if not b.facts.device_description.workgroup_matrices or b.facts.strict_math:
        return None
    if found.sums != f32 or not found.left_along or not found.is_of(f16):
        return None
    if not isinstance(found.depth, int) or found.depth < SIDE:
        return None
    assert isinstance(found.output.type, MemRefType)
    if found.output.type.element_type not in (f16, f32):
        return None
    left, right = found.operands([b.index(0)] * (len(found.extents) - 2))
    if found.lanes_of(left) != LANES or found.lanes_of(right) != LANES:
        return None
    return ends_of(epilogue)


def by_workgroup(problem: Problem, ends: Ends, tile: WorkgroupTile) -> Grid:
    """The kernel of a product."""
    b, found = problem.product.b, problem.product
    counts = tile_counts(b, problem.extents, tile.rows, tile.columns)
    tiles = WorkgroupTiles(problem, ends, tile)

    def one(number: SSAValue) -> None:
        batches, row, column = split(b, number, counts)
        tiles.build(split(b, batches, problem.extents[:-2]), row, column)

    each_group(b, product(b, counts), one)

    def groups(host: LoopBuilder, value_of: HostValue) -> tuple[Index, Index, Index]:
        output = value_of(found.output)
        extents: list[Index] = [host.dim(output, n) for n in range(len(found.extents))]
        if problem.joined:
            extents = [product(host, extents[:-1]), extents[-1]]
        return groups_for(host, product(host, tile_counts(host, extents, tile.rows, tile.columns)))

    return Grid(groups, tile.size)


class WorkgroupTiles:
    """The tiles of a product, built one at a time."""

    def __init__(self, problem: Problem, ends: Ends, tile: WorkgroupTile) -> None:
        self.b, self.problem, self.ends, self.tile = problem.product.b, problem, ends, tile
        self.rank = len(problem.extents)
        self.rows, self.columns = problem.extents[-2:]

    def build(self, batch: Sequence[SSAValue], row: SSAValue, column: SSAValue) -> None:
        """The tile that has a number along rows and one along columns, if they were gone through by rows."""
        b, tile = self.b, self.tile
        row, column = self._in_blocks(row, column)
        firsts = b.mul(row, tile.rows), b.mul(column, tile.columns)
        limits = [
            b.compare("ule", b.add(first, together), extent)
            for first, together, extent in zip(
                firsts, (tile.rows, tile.columns), (self.rows, self.columns)
            )
            if not isinstance(extent, int) or extent % together
        ]
        parts = [_Part(self, batch, firsts, bounded) for bounded in (False, True)]
        if not limits:
            parts[0].build()
            return
        b.when(both(b, limits), parts[0].build, parts[1].build)

    def _in_blocks(self, row: SSAValue, column: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The place of a tile in the order of blocks, by its place in the order of rows."""
        b, tile = self.b, self.tile
        rows = b.ceil_div(self.rows, tile.rows)
        columns = b.ceil_div(self.columns, tile.columns)
        if columns == 1:
            return row, column
        number = b.add(b.mul(row, columns), column)
        whole = b.times(columns, BLOCK)
        block = b.floordiv(number, whole)
        first = b.mul(block, BLOCK)
        rest = b.rem(number, whole)
        side = b.minimum(b.sub(b.index(rows), first), BLOCK)
        return b.add(first, b.rem(rest, side)), b.floordiv(rest, side)


class _Part:
    """One tile, where it lies inside, or at an edge."""

    def __init__(
        self,
        tiles: WorkgroupTiles,
        batch: Sequence[SSAValue],
        firsts: tuple[SSAValue, SSAValue],
        bounded: bool,
    ) -> None:
        self.b, self.problem, self.ends = tiles.b, tiles.problem, tiles.ends
        self.tile, self.rank = tiles.tile, tiles.rank
        self.batch, self.firsts, self.bounded = batch, firsts, bounded

    def kind(self, element: Attribute, operand: str) -> MMAMatrixType:
        """The type of the tile, or of an operand's part for it."""
        rows, columns = {
            "AOp": (self.tile.rows, self.tile.depth),
            "BOp": (self.tile.depth, self.tile.columns),
            "COp": (self.tile.rows, self.tile.columns),
        }[operand]
        return MMAMatrixType.of(rows, columns, element, operand, WORKGROUP)

    def build(self) -> None:
        """The sums, and what becomes of them."""
        b, tile, depth = self.b, self.tile, self.problem.product.depth
        assert isinstance(depth, int)
        whole, left = divmod(depth, tile.depth)
        together = turn_of(whole, tile.most)
        last = whole // together * together
        sums = self._start()

        def turn(k: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            return [self._steps(k, together, carried[0])]

        if last > together:
            (sums,) = b.reduce(0, last * tile.depth, together * tile.depth, [sums], turn, hint="k")
        elif last:
            sums = self._steps(b.index(0), together, sums)
        if last < whole:
            sums = self._steps(b.index(last * tile.depth), whole - last, sums)
        if left:
            sums = self._multiply(b.index(whole * tile.depth), sums, bounded=True)
        self._finish(sums)

    def _start(self) -> SSAValue:
        """What the sums begin with."""
        b = self.b
        total: SSAValue | None = None
        for extra in self.problem.starts:
            more = self._extra(extra)
            if total is not None:
                more = b.insert(SubgroupMmaElementwiseOp("addf", total, more))
            total = more
        if total is None:
            zero = b.constant(0, f32)
            total = b.insert(SubgroupMmaConstantMatrixOp(zero, self.kind(f32, "COp")))
        return total

    def _extra(self, extra: Extra) -> SSAValue:
        b = self.b
        assert isinstance(extra.buffer.type, MemRefType)
        at = [b.index(place) for place in place_of(extra, self.batch, *self.firsts)]
        kind = self.kind(extra.buffer.type.element_type, "COp")
        repeated = is_row(extra, self.rank)
        load = TensorLoadOp(extra.buffer, at, kind, repeated=repeated, bounded=self.bounded)
        return self._converted(b.insert(load), f32)

    def _converted(self, value: SSAValue, element: Attribute) -> SSAValue:
        assert isinstance(value.type, MMAMatrixType)
        kind = value.type.with_element(element)
        return value if kind == value.type else self.b.insert(MatrixConvertOp(value, kind))

    def _steps(self, first: SSAValue, count: int, sums: SSAValue) -> SSAValue:
        """Some pairs of matrices, one behind the other."""
        for number in range(count):
            k = self.b.add(first, number * self.tile.depth)
            sums = self._multiply(k, sums, bounded=self.bounded)
        return sums

    def _multiply(self, k: SSAValue, sums: SSAValue, *, bounded: bool) -> SSAValue:
        b = self.b
        left, right = self.problem.operands(self.batch)
        row, column = self.firsts
        pair = [
            b.insert(
                TensorLoadOp(
                    operand.buffer,
                    _place(b, operand, place, k),
                    self.kind(f16, name),
                    # Rows of the left operand lie as rows of the matrix, columns of the right one do not.
                    transpose=operand.along == (name == "BOp"),
                    bounded=bounded,
                )
            )
            for operand, place, name in ((left, row, "AOp"), (right, column, "BOp"))
        ]
        return b.insert(SubgroupMmaComputeOp(pair[0], pair[1], sums))

    def _finish(self, sums: SSAValue) -> None:
        b, output = self.b, self.problem.output
        assert isinstance(output.type, MemRefType)
        if self.ends.last is not None:
            sums = b.insert(MatrixMapOp([sums], self.ends.function()))
        value = self._converted(sums, output.type.element_type)
        b.do(TensorStoreOp(value, output, [*self.batch, *self.firsts], bounded=self.bounded))


def turn_of(whole: int, most: int) -> int:
    """How many of some steps stand in one turn of a loop: all of few, else a power of two, one that leaves
    none if that is not small; twice as many of very many."""
    if whole <= most // 2:
        return max(1, whole)
    together = most if whole < 4 * most else 2 * most
    least = max(2, together // 4)
    while whole % together and together > least:
        together //= 2
    return together if whole % together == 0 else most // 2


def _place(b: LoopBuilder, operand: Operand, place: SSAValue, k: SSAValue) -> list[SSAValue]:
    near: tuple[Index, Index] = (place, k) if operand.along else (k, place)
    return [b.index(one) for one in (*operand.leading, *near)]
