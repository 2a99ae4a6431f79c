"""How products of not too many rows are cut, whose weight lies as matrices of 16 x 16 (`matmul_rows.py`)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.dialects.builtin import Float16Type, f32

from openinfer.dialects import nn
from openinfer.lowering.facts import Facts
from openinfer.lowering.vulkan.schedules.matmul_few_rows import MOST_ROWS
from openinfer.lowering.vulkan.schedules.matmul_finish import MOST, WORDS, Part
from openinfer.lowering.vulkan.schedules.matmul_matrices import LANES, SIDE, SUBGROUP
from openinfer.lowering.vulkan.schedules.matmul_sizes import groups_across, product_of_known
from openinfer.lowering.vulkan.schedules.wide import BYTES

SHARE = 16
"""Invocations that read a row together."""
STEPS = SHARE * LANES
"""Steps of the sum that they read at once; sums are a multiple of that long."""
SHORT = 512
"""Steps of a sum whose rows lie in shared memory all at once."""
REGISTERS = 144
"""Of an invocation, for what is on its way."""
OF_MATRIX = SIDE * SIDE // SUBGROUP // 2
"""Of an invocation, for its part of a matrix of f16."""
ENOUGH, MOST_GROUPS = 64, 264
"""Workgroups that keep a large device busy, and those beyond which larger tiles are read less often."""


@dataclass(frozen=True)
class RowTile:
    """What a workgroup computes at once."""

    rows: int
    columns: int
    across: int
    """Subgroups that have columns of their own."""
    along: int
    """Subgroups that have the same columns, and a part of the steps each."""

    @property
    def subgroups(self) -> int:
        return self.across * self.along

    @property
    def size(self) -> int:
        """Invocations of a workgroup."""
        return self.subgroups * SUBGROUP

    @property
    def each(self) -> tuple[int, int]:
        """Matrices of sums of a subgroup: below each other, and in a row."""
        return self.rows // SIDE, self.columns // self.across // SIDE

    def groups(self, rows: int, columns: int) -> int:
        """Tiles that cover a matrix."""
        return groups_across(rows, self.rows) * groups_across(columns, self.columns)

    def ends(self) -> list[Part]:
        """How sums may be finished, the quickest way first."""
        down, across = self.each
        part = Part(SIDE, down, across, self.along, self.subgroups, SUBGROUP, WORDS, MOST, across)
        return [replace(part, tall=down), part]

    def plan(self, depth: int, shared: int) -> tuple[int, Part]:
        """Steps whose rows lie in shared memory together, and how sums are finished, in some bytes of it."""
        ends = self.ends()
        for part in ends:
            if self.panel_bytes(depth) + part.bytes <= shared:
                return depth, part
        fitting = [
            steps
            for steps in range(STEPS, depth, STEPS)
            if depth % steps == 0 and self.panel_bytes(steps) + ends[0].bytes <= shared
        ]
        return max(fitting, default=0), ends[0]

    def panel_bytes(self, steps: int) -> int:
        """Shared memory for the rows of some steps."""
        return self.rows * line_of(steps) * BYTES

    def ahead(self, steps: int) -> int:
        """How many times `steps` may be on their way."""
        across = self.each[1]
        left = self.rows * steps // self.size // 2
        right = steps // SIDE // self.along * across * OF_MATRIX
        return max(1, REGISTERS // (left + right))


def line_of(steps: int) -> int:
    """Accesses of a row in shared memory: one more than there are, so that rows do not meet in a bank."""
    return steps // LANES + 1


WIDE, NARROW = RowTile(32, 64, 4, 2), RowTile(16, 32, 2, 4)
"""For short sums."""
DEEP, LOW = RowTile(32, 16, 1, 8), RowTile(16, 16, 1, 8)
"""For long ones, and for few rows."""


def row_tile(many: int, rows: int, columns: int, depth: int) -> RowTile:
    """The tile of a product; `many`: batches of `rows` that are multiplied side by side."""
    if depth > SHORT:
        return LOW if rows <= SIDE else DEEP
    fitting = (NARROW, LOW) if rows <= SIDE else (WIDE, NARROW)
    for tile in fitting:
        if many * tile.groups(rows, columns) >= ENOUGH:
            return tile
    return fitting[-1]


def fits_rows(op: nn.MatmulOp) -> bool:
    """Whether this is the schedule of a product, on tensors, whose right operand is a weight."""
    facts = Facts.of(op)
    device = facts.device_description
    if not device.matrices or device.subgroup != SUBGROUP or facts.strict_math:
        return False
    if op.transpose_a is not None or op.precision is not None:
        return False
    if not all(isinstance(nn.element_of(value), Float16Type) for value in op.inputs):
        return False
    if (op.body and op.body[0].block.args[0].type != f32) or len(nn.dims_of(op.right)) != 2:
        return False
    extents = _extents(op)
    if extents is None:
        return False
    if extents[-2] % SIDE or extents[-1] % STEPS or extents[-3] <= MOST_ROWS:
        return False
    return _plan(op, extents)[0] > 0 and fits_together(op, 1)


def fits_together(op: nn.MatmulOp, count: int) -> bool:
    """Whether a device computes the tiles of `count` such products at once."""
    extents = _extents(op)
    if extents is None:
        return False
    *batches, rows, columns, depth = extents
    many = count * product_of_known(batches)
    return many * row_tile(many, rows, columns, depth).groups(rows, columns) <= MOST_GROUPS


def takes_norm(op: nn.MatmulOp | nn.RowMatmulOp) -> bool:
    """Whether the workgroups of such a product hold whole rows."""
    extents = _extents(op)
    return extents is not None and _plan(op, extents)[0] == extents[-1]


def reads_squares(op: nn.MatmulOp | nn.RowMatmulOp) -> bool:
    """Whether the rows of such a product do not fit shared memory, so that matrices of them are better read
    where they lie."""
    extents = _extents(op)
    return extents is not None and extents[-1] > SHORT and extents[-3] % SIDE == 0


def _plan(op: nn.MatmulOp | nn.RowMatmulOp, extents: list[int]) -> tuple[int, Part]:
    *batches, rows, columns, depth = extents
    many = product_of_known(batches) * (op.count if isinstance(op, nn.RowMatmulOp) else 1)
    tile = row_tile(many, rows, columns, depth)
    return tile.plan(depth, Facts.of(op).device_description.shared_memory)


def _extents(op: nn.MatmulOp | nn.RowMatmulOp) -> list[int] | None:
    """The extents of the result, and the steps of the sum; None where only the step knows one."""
    known = [dim.constant for dim in (*nn.dims_of(op.output), nn.dims_of(op.left)[-1])]
    extents = [extent for extent in known if extent]
    return extents if len(extents) == len(known) else None
