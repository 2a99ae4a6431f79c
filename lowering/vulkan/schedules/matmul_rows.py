"""`nn.matmul` and `nn.row_matmul` of not too many rows with a weight that lies as matrices of 16 x 16.

A workgroup computes a tile of the result. All of its subgroups have the same rows, some of the columns each,
and a part of the steps of the sum:

    matrices of the weight are read where they lie, for all steps, or as many as registers hold
    the rows go to shared memory, for all steps, or as many as fit; a norm of them on the way
    a subgroup multiplies matrices of its steps
    what subgroups have found is added up (`matmul_finish.py`)

Such a product is as long as what it waits for, so that all that a subgroup reads is on its way together.
Rows of a norm that somebody else reads are written by workgroups of their own, one for each tile of rows.

Requires: a weight in `#nn.tiles<16>`, and what `fits_rows` asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as pairs_of

from xdsl.dialects import gpu
from xdsl.dialects.builtin import IntegerAttr, f32, i64
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.gpu import (
    TOGETHER,
    MMAMatrixType,
    SubgroupMmaComputeOp,
    SubgroupMmaConstantMatrixOp,
    SubgroupMmaLoadMatrixOp,
)
from openinfer.dialects.nn import RowMatmulOp
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.epilogue import Epilogue
from openinfer.lowering.vulkan.schedules.grid import (
    Grid,
    HostValue,
    each_group,
    groups_for,
    product,
    split,
)
from openinfer.lowering.vulkan.schedules.matmul_finish import Finish, Where
from openinfer.lowering.vulkan.schedules.matmul_matrices import (
    LANES,
    LEFT,
    RIGHT,
    SIDE,
    SUMS,
)
from openinfer.lowering.vulkan.schedules.matmul_operands import Product
from openinfer.lowering.vulkan.schedules.matmul_sizes import groups_across, product_of_known
from openinfer.lowering.vulkan.schedules.row_norm import RowNorm
from openinfer.lowering.vulkan.schedules.row_panel import RowPanel
from openinfer.lowering.vulkan.schedules.row_tiles import (
    OF_MATRIX,
    REGISTERS,
    row_tile,
)
from openinfer.lowering.vulkan.schedules.wide import common_lanes
from openinfer.lowering.vulkan.schedules.workgroup import Workgroup, barrier


def lower_rows(found: Product, epilogue: Epilogue) -> Grid:
    """The kernel of such a product."""
    b = found.b
    kernel = _Rows(found, epilogue)
    tile = kernel.tile
    *batches, rows, columns = (_known(extent) for extent in found.extents)
    down, across = groups_across(rows, tile.rows), groups_across(columns, tile.columns)
    counts = [kernel.parts, *batches, down, across + (kernel.normed is not None)]

    def one(number: SSAValue) -> None:
        part, *batch, row, column = split(b, number, counts)
        if kernel.normed is None:
            kernel.build(part, batch, row, column)
            return
        b.when(
            b.compare("ult", column, across),
            lambda: kernel.build(part, batch, row, column),
            lambda: kernel.write_rows(part, batch, row),
        )

    each_group(b, product(b, counts), one)

    def groups(host: LoopBuilder, value_of: HostValue) -> tuple[Index, Index, Index]:
        return groups_for(host, product(host, counts))

    return Grid(groups, tile.size)


class _Rows:
    """The tiles of a product, built one at a time."""

    def __init__(self, found: Product, epilogue: Epilogue) -> None:
        b = self.b = found.b
        self.found, self.epilogue, op = found, epilogue, found.op
        *batches, rows, columns = (_known(extent) for extent in found.extents)
        self.depth = _known(found.depth)
        self.parts = op.count if isinstance(op, RowMatmulOp) else 1
        many = self.parts * product_of_known(batches)
        self.tile = row_tile(many, rows, columns, self.depth)
        shared = b.facts.device_description.shared_memory
        self.steps, part = self.tile.plan(self.depth, shared)
        assert self.steps, "what `fits_rows` refuses has no such weight"
        outputs = op.products if isinstance(op, RowMatmulOp) else ()
        in_squares = isinstance(op, RowMatmulOp) and op.tiled_result is not None
        self.finish = Finish(b, op, epilogue, part, outputs, in_squares=in_squares)
        self.subgroup, self.lane = b.insert(gpu.SubgroupIdOp()), b.insert(gpu.LaneIdOp())
        self.number = b.rem(self.subgroup, self.tile.along)
        """Which part of the steps the subgroup has."""
        across = b.floordiv(self.subgroup, self.tile.along)
        self.x = b.mul(across, self.tile.each[1] * SIDE)
        self.panel: RowPanel | None = None
        """Rows of the left operand, unless matrices of it are read where they lie."""
        if not found.tiled_left:
            self.panel = RowPanel(found, self.tile, self.steps, self.subgroup, self.lane)
        self.norm: RowNorm | None = None
        self.normed: SSAValue | None = None
        """Where rows of the norm go, if anywhere."""
        if isinstance(op, RowMatmulOp) and op.eps is not None:
            assert self.panel is not None
            group = Workgroup(b, self.tile.size)
            self.norm = RowNorm(b, op, self.panel.share, self.depth, group)
            self.normed = op.rows

    def build(
        self, part: SSAValue, batch: Sequence[Index], row: SSAValue, column: SSAValue
    ) -> None:
        """The tile of a number along rows and one along columns, of one of several products."""
        b, tile, found = self.b, self.tile, self.found
        rows, columns = b.mul(row, tile.rows), b.mul(column, tile.columns)
        self.epilogue.prepare(None)
        several = self.parts > 1
        matrix: list[Index] = [part] if several else []
        count = tile.each[0] * tile.each[1]
        sums = [b.insert(SubgroupMmaConstantMatrixOp(b.constant(0, f32), SUMS))] * count
        if self.panel is None:
            sums = self._from_squares(matrix, batch, rows, columns, sums)
        else:
            sums = self._through_shared(self.panel, matrix, batch, rows, columns, sums)
        self.finish.build(
            sums,
            Where(
                [*matrix, *batch],
                rows,
                b.add(columns, self.x),
                self.subgroup,
                self.number,
                self.lane,
                found.rows,
                found.columns,
                (self._is_whole(0), self._is_whole(1)),
                part if several else None,
            ),
        )

    def _through_shared(
        self,
        panel: RowPanel,
        matrix: Sequence[Index],
        batch: Sequence[Index],
        rows: SSAValue,
        columns: SSAValue,
        sums: list[SSAValue],
    ) -> list[SSAValue]:
        b, turns = self.b, self.depth // self.steps
        own = self.steps // SIDE // self.tile.along
        ahead = min(self.tile.ahead(self.steps), turns)

        def matrices(turn: int) -> list[list[SSAValue]]:
            first = b.add(b.mul(self.number, own), turn * (self.steps // SIDE))
            return [self._right(matrix, columns, b.add(first, step)) for step in range(own)]

        right = [matrices(turn) for turn in range(ahead)]
        lines = panel.lines(batch, rows)
        left = [panel.fetch(lines, turn) for turn in range(ahead)]
        if self.norm is not None:
            left = [self.norm.of_rows(left[0])]
        for turn in range(turns):
            if turn:
                # Everybody has multiplied what was here before.
                barrier(b)
            panel.put(lines, left[turn])
            if turn + ahead < turns:
                right.append(matrices(turn + ahead))
                left.append(panel.fetch(lines, turn + ahead))
            barrier(b)
            begin = b.mul(self.number, own * SIDE // LANES)
            for step, found in enumerate(right[turn]):
                sums = self._add(panel.load(b.add(begin, step * SIDE // LANES)), found, sums)
        return sums

    def _from_squares(
        self,
        matrix: Sequence[Index],
        batch: Sequence[Index],
        rows: SSAValue,
        columns: SSAValue,
        sums: list[SSAValue],
    ) -> list[SSAValue]:
        b, (down, across) = self.b, self.tile.each
        own = self.depth // SIDE // self.tile.along
        ahead = min(own, REGISTERS // ((down + across) * OF_MATRIX))
        leading = self.found.left_place(batch)
        most = _known(self.found.rows) // SIDE

        def read(step: int) -> tuple[list[SSAValue], list[SSAValue]]:
            at = b.add(b.mul(self.number, own), step)
            right = self._right(matrix, columns, at)
            first = b.floordiv(rows, SIDE)
            places = self._places(first, down, most, is_whole=self._is_whole(0))
            return [self._square(self.found.left, (*leading, n, at), LEFT) for n in places], right

        coming = [read(step) for step in range(ahead)]
        for step in range(own):
            if step + ahead < own:
                coming.append(read(step + ahead))
            sums = self._add(*coming[step], sums)
        return sums

    def write_rows(self, part: SSAValue, batch: Sequence[Index], row: SSAValue) -> None:
        """The rows of a norm, those of the tile of a number, for the first of several products."""
        if self.parts == 1:
            self._write(batch, row)
            return
        self.b.when(self.b.compare("eq", part, 0), lambda: self._write(batch, row))

    def _write(self, batch: Sequence[Index], row: SSAValue) -> None:
        assert self.panel is not None
        assert self.norm is not None
        assert self.normed is not None
        lines = self.panel.lines(batch, self.b.mul(row, self.tile.rows))
        rows = self.norm.of_rows(self.panel.fetch(lines, 0))
        self.panel.store(lines, rows, self.normed)

    def _is_whole(self, axis: int) -> bool:
        """Whether tiles divide the result along rows, or along columns."""
        extent = self.found.extents[axis - 2]
        return _known(extent) % (self.tile.rows, self.tile.columns)[axis] == 0

    def _right(self, matrix: Sequence[Index], columns: SSAValue, step: SSAValue) -> list[SSAValue]:
        """The matrices of the weight that a subgroup multiplies at 16 steps."""
        b, found = self.b, self.found
        first, most = b.floordiv(b.add(columns, self.x), SIDE), _known(found.columns) // SIDE
        places = self._places(first, self.tile.each[1], most, is_whole=self._is_whole(1))
        return [self._square(found.right, (*matrix, n, step), RIGHT) for n in places]

    def _places(self, first: SSAValue, count: int, most: int, *, is_whole: bool) -> list[SSAValue]:
        """The numbers of neighbouring squares; beyond the edge the last one is read again."""
        b = self.b
        places = [b.add(first, number) for number in range(count)]
        return places if is_whole else [b.index(b.minimum(place, most - 1)) for place in places]

    def _square(self, buffer: SSAValue, place: Sequence[Index], kind: MMAMatrixType) -> SSAValue:
        """A matrix that lies in one piece: the left operand row by row, the right one column by column."""
        b = self.b
        at = [*map(b.index, place), b.index(0)]
        load = SubgroupMmaLoadMatrixOp(buffer, at, SIDE, kind, transpose=kind is RIGHT)
        if common_lanes(self.found.op, (buffer,)) == LANES:
            load.attributes[TOGETHER] = IntegerAttr(LANES, i64)
        return b.insert(load)

    def _add(
        self, left: Sequence[SSAValue], right: Sequence[SSAValue], sums: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """Adds the products of some matrices to their sums."""
        b = self.b
        pairs = zip(pairs_of(left, right), sums)
        return [b.insert(SubgroupMmaComputeOp(x, y, total)) for (x, y), total in pairs]


def _known(extent: Index) -> int:
    assert isinstance(extent, int), "such products have known sizes"
    return extent
