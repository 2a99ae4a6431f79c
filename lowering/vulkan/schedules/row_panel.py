"""Rows of the left operand of a product on their way to shared memory, for all of a workgroup.

16 neighbours of a subgroup have a row: each reads every 16th access of 16 bytes of it
rows are normed between, where the product takes in a norm
matrices of 16 x 16 are read from shared memory
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import VectorType, f16
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.gpu import SubgroupMmaLoadMatrixOp
from openinfer.lowering.kernels.builder import Index
from openinfer.lowering.vulkan.schedules.matmul_matrices import LANES, LEFT, SIDE, SUBGROUP
from openinfer.lowering.vulkan.schedules.matmul_operands import Product
from openinfer.lowering.vulkan.schedules.row_tiles import SHARE, STEPS, RowTile, line_of
from openinfer.lowering.vulkan.schedules.wide import common_lanes, load_wide, store_wide
from openinfer.lowering.vulkan.schedules.workgroup import shared_buffer

Pieces = list[list[SSAValue]]
"""Of a row, what an invocation reads of it: accesses of 16 bytes, one by one."""


@dataclass(frozen=True)
class Line:
    """A row that an invocation reads a part of."""

    place: list[Index]
    """Its indices."""
    panel: SSAValue
    """Its number in shared memory."""


class RowPanel:
    """The rows of a tile in shared memory, some steps of the sum at a time."""

    def __init__(
        self, found: Product, tile: RowTile, steps: int, subgroup: SSAValue, lane: SSAValue
    ) -> None:
        b = self.b = found.b
        self.found, self.tile, self.steps = found, tile, steps
        shape = [tile.rows, line_of(steps)]
        self.memory = shared_buffer(b, VectorType(f16, [LANES]), shape, "rows")
        self.share = b.rem(lane, SHARE)
        """The number of the invocation among those that have a row."""
        each = SUBGROUP // SHARE
        self.first = b.add(b.mul(subgroup, each), b.floordiv(lane, SHARE))

    def lines(self, batch: Sequence[Index], rows: SSAValue) -> list[Line]:
        """The rows from `rows` on that an invocation reads a part of; beyond the edge the last one."""
        b, found = self.b, self.found
        assert isinstance(found.rows, int)
        lines: list[Line] = []
        for start in range(0, self.tile.rows, self.tile.size // SHARE):
            panel = b.add(self.first, start)
            place = b.add(rows, panel)
            if found.rows % self.tile.rows:
                place = b.index(b.minimum(place, found.rows - 1))
            lines.append(Line([*found.left_place(batch), place], panel))
        return lines

    def fetch(self, lines: Sequence[Line], turn: int) -> list[Pieces]:
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

    def put(self, lines: Sequence[Line], rows: Sequence[Pieces]) -> None:
        """Writes them to shared memory."""
        b = self.b
        for line, pieces in zip(lines, rows):
            for number, values in enumerate(pieces):
                at = [line.panel, b.add(self.share, number * SHARE)]
                b.store(b.from_elements(values), self.memory, at)

    def load(self, step: SSAValue) -> list[SSAValue]:
        """The matrices of all rows at 16 steps; `step` counts accesses."""
        b, line = self.b, line_of(self.steps)
        places = [[b.index(row), step] for row in range(0, self.tile.rows, SIDE)]
        return [b.insert(SubgroupMmaLoadMatrixOp(self.memory, at, line, LEFT)) for at in places]

    def store(self, lines: Sequence[Line], rows: Sequence[Pieces], target: SSAValue) -> None:
        """Writes rows, for all steps, to a buffer; beyond the edge the last one is written again."""
        b = self.b
        lanes = common_lanes(self.found.op, (target,))
        for line, pieces in zip(lines, rows):
            for number, values in enumerate(pieces):
                place = b.add(b.mul(self.share, LANES), number * STEPS)
                for start in range(0, LANES, lanes):
                    at = [*line.place, b.add(place, start)]
                    store_wide(b, values[start : start + lanes], target, at)
