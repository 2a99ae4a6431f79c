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
from dataclasses import dataclass
from itertools import product as pairs_of

from xdsl.dialects import gpu
from xdsl.dialects.builtin import IntegerAttr, VectorType, f16, f32, i64
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.gpu import (
    TOGETHER,
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
    SUBGROUP,
    SUMS,
)
from openinfer.lowering.vulkan.schedules.matmul_operands import Product
from openinfer.lowering.vulkan.schedules.matmul_sizes import groups_across, product_of_known
from openinfer.lowering.vulkan.schedules.row_norm import RowNorm
from openinfer.lowering.vulkan.schedules.row_tiles import SHARE, STEPS, line_of, row_tile
from openinfer.lowering.vulkan.schedules.wide import common_lanes, load_wide, store_wide
from openinfer.lowering.vulkan.schedules.workgroup import Workgroup, barrier, shared_buffer

Pieces = list[list[SSAValue]]
"""Of a row, what an invocation reads of it: accesses of 16 bytes, one by one."""


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


@dataclass(frozen=True)
class _Row:
    """A row that an invocation reads a part of."""

    place: list[Index]
    """Its indices."""
    panel: SSAValue
    """Its number in shared memory."""


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
        line = line_of(self.steps)
        self.panel = shared_buffer(b, VectorType(f16, [LANES]), [self.tile.rows, line], "rows")
        outputs = op.products if isinstance(op, RowMatmulOp) else ()
        self.finish = Finish(b, op, epilogue, part, outputs)
        self.subgroup, self.lane = b.insert(gpu.SubgroupIdOp()), b.insert(gpu.LaneIdOp())
        self.number = b.rem(self.subgroup, self.tile.along)
        """Which part of the steps the subgroup has."""
        across = b.floordiv(self.subgroup, self.tile.along)
        self.x = b.mul(across, self.tile.each[1] * SIDE)
        self.share = b.rem(self.lane, SHARE)
        each = SUBGROUP // SHARE
        self.first = b.add(b.mul(self.subgroup, each), b.floordiv(self.lane, SHARE))
        self.apart = self.tile.size // SHARE
        """Rows that all invocations read at once."""
        self.norm: RowNorm | None = None
        self.normed: SSAValue | None = None
        """Where rows of the norm go, if anywhere."""
        if isinstance(op, RowMatmulOp) and op.eps is not None:
            group = Workgroup(b, self.tile.size)
            self.norm = RowNorm(b, op, self.share, self.depth, group)
            self.normed = op.rows

    def build(
        self, part: SSAValue, batch: Sequence[Index], row: SSAValue, column: SSAValue
    ) -> None:
        """The tile of a number along rows and one along columns, of one of several products."""
        b, tile, found = self.b, self.tile, self.found
        rows, columns = b.mul(row, tile.rows), b.mul(column, tile.columns)
        self.epilogue.prepare(None)
        turns = self.depth // self.steps
        ahead = min(tile.ahead(self.steps), turns)
        several = self.parts > 1
        matrix: list[Index] = [part] if several else []
        right = [self._matrices(matrix, columns, turn) for turn in range(ahead)]
        lines = self._lines(batch, rows)
        left = [self._fetch(lines, turn) for turn in range(ahead)]
        if self.norm is not None:
            left = [self.norm.of_rows(left[0])]
        zero = b.insert(SubgroupMmaConstantMatrixOp(b.constant(0, f32), SUMS))
        sums = [zero] * (tile.each[0] * tile.each[1])
        for turn in range(turns):
            if turn:
                # Everybody has multiplied what was here before.
                barrier(b)
            for line, pieces in zip(lines, left[turn]):
                self._put(line, pieces)
            if turn + ahead < turns:
                right.append(self._matrices(matrix, columns, turn + ahead))
                left.append(self._fetch(lines, turn + ahead))
            barrier(b)
            sums = self._multiply(right[turn], sums)
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

    def write_rows(self, part: SSAValue, batch: Sequence[Index], row: SSAValue) -> None:
        """The rows of a norm, those of the tile of a number, for the first of several products."""
        if self.parts == 1:
            self._write(batch, row)
            return
        self.b.when(self.b.compare("eq", part, 0), lambda: self._write(batch, row))

    def _write(self, batch: Sequence[Index], row: SSAValue) -> None:
        b, target = self.b, self.normed
        assert self.norm is not None
        assert target is not None
        lines = self._lines(batch, b.mul(row, self.tile.rows))
        # Beyond the edge the last row is written again.
        for line, pieces in zip(lines, self.norm.of_rows(self._fetch(lines, 0))):
            for number, values in enumerate(pieces):
                place = b.add(b.mul(self.share, LANES), number * STEPS)
                lanes = common_lanes(self.found.op, (target,))
                for start in range(0, LANES, lanes):
                    at = [*line.place, b.add(place, start)]
                    store_wide(b, values[start : start + lanes], target, at)

    def _is_whole(self, axis: int) -> bool:
        """Whether tiles divide the result along rows, or along columns."""
        extent = self.found.extents[axis - 2]
        return _known(extent) % (self.tile.rows, self.tile.columns)[axis] == 0

    def _lines(self, batch: Sequence[Index], rows: SSAValue) -> list[_Row]:
        """The rows that an invocation reads a part of."""
        b, found = self.b, self.found
        lines: list[_Row] = []
        for start in range(0, self.tile.rows, self.apart):
            panel = b.add(self.first, start)
            place = b.add(rows, panel)
            if not self._is_whole(0):
                place = b.index(b.minimum(place, b.minus(found.rows, 1)))
            lines.append(_Row([*found.left_place(batch), place], panel))
        return lines

    def _fetch(self, lines: Sequence[_Row], turn: int) -> list[Pieces]:
        """What an invocation reads of its rows at the steps of a turn."""
        b, found = self.b, self.found
        lanes = common_lanes(found.op, (found.left,))
        read: list[Pieces] = []
        for line in lines:
            pieces: Pieces = []
            for step in range(0, self.steps, STEPS):
                first = b.add(b.mul(self.share, LANES), turn * self.steps + step)
                values: list[SSAValue] = []
                for start in range(0, LANES, lanes):
                    at = [*line.place, b.add(first, start)]
                    values += load_wide(b, found.left, at, lanes)
                pieces.append(values)
            read.append(pieces)
        return read

    def _put(self, line: _Row, pieces: Pieces) -> None:
        b = self.b
        for number, values in enumerate(pieces):
            at = [line.panel, b.add(self.share, number * SHARE)]
            b.store(b.from_elements(values), self.panel, at)

    def _matrices(
        self, matrix: Sequence[Index], columns: SSAValue, turn: int
    ) -> list[list[SSAValue]]:
        """The matrices of the weight that a subgroup multiplies in a turn: those of each 16 steps."""
        b, right = self.b, self.found.right
        wide = common_lanes(self.found.op, (right,)) == LANES
        own = self.steps // SIDE // self.tile.along
        first = b.add(b.mul(self.number, own), turn * (self.steps // SIDE))
        across = b.floordiv(b.add(columns, self.x), SIDE)
        last = _known(self.found.columns) // SIDE - 1
        places: list[SSAValue] = []
        for number in range(self.tile.each[1]):
            place = b.add(across, number)
            places.append(place if self._is_whole(1) else b.index(b.minimum(place, last)))
        found: list[list[SSAValue]] = []
        for step in range(own):
            matrices: list[SSAValue] = []
            for place in places:
                at = [*map(b.index, matrix), place, b.add(first, step), b.index(0)]
                load = SubgroupMmaLoadMatrixOp(right, at, SIDE, RIGHT, transpose=True)
                if wide:
                    load.attributes[TOGETHER] = IntegerAttr(LANES, i64)
                matrices.append(b.insert(load))
            found.append(matrices)
        return found

    def _multiply(
        self, right: Sequence[Sequence[SSAValue]], sums: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """The steps of a turn."""
        b, (down, _) = self.b, self.tile.each
        line = line_of(self.steps)
        first = b.mul(self.number, len(right) * SIDE // LANES)
        sums = list(sums)
        for step, matrices in enumerate(right):
            at = b.add(first, step * SIDE // LANES)
            left = [
                b.insert(SubgroupMmaLoadMatrixOp(self.panel, [b.index(i * SIDE), at], line, LEFT))
                for i in range(down)
            ]
            pairs = pairs_of(left, matrices)
            sums = [
                b.insert(SubgroupMmaComputeOp(x, y, total)) for (x, y), total in zip(pairs, sums)
            ]
        return sums


def _known(extent: Index) -> int:
    assert isinstance(extent, int), "such products have known sizes"
    return extent
