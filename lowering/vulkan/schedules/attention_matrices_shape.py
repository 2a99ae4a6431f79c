"""What a workgroup computes of an attention by matrices of 16 x 16 at once, and whether it can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, f16

from openinfer.dialects.nn import AttentionOp
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.vulkan.schedules.forms import rows_of
from openinfer.lowering.vulkan.schedules.matmul_matrices import LANES, SIDE, SUBGROUP
from openinfer.lowering.vulkan.schedules.wide import common_lanes

BUSY = 100
"""Workgroups that keep a device busy."""
ONE_ROUND = 128
"""Keys that eight subgroups with 16 keys each, or four with 32, have all at once."""


@dataclass(frozen=True)
class Shape:
    """What a workgroup computes at once."""

    across: int
    """Subgroups with other queries."""
    along: int
    """Subgroups with other keys."""
    keys: int
    """Keys of a subgroup in a round."""
    size: int
    """Of a head."""

    @property
    def subgroups(self) -> int:
        return self.across * self.along

    @property
    def threads(self) -> int:
        return self.subgroups * SUBGROUP

    @property
    def queries(self) -> int:
        return self.across * SIDE

    @property
    def round(self) -> int:
        """Keys of a round."""
        return self.along * self.keys

    @property
    def width(self) -> int:
        """Of a row of scores, or of results that are joined."""
        return max(self.keys, self.size) if self.along > 1 else self.keys

    @property
    def lines(self) -> int:
        """Rows of shared memory for keys, and for queries before them."""
        return max(self.queries, self.round)

    @property
    def bytes(self) -> int:
        """Of shared memory."""
        of_line = 2 * (self.size + LANES)
        of_row = 4 * (self.width + 4) + 2 * (self.keys + LANES)
        return (
            (self.lines + self.round) * of_line
            + self.subgroups * SIDE * of_row
            + 8 * self.along * self.queries
        )


def shape_of(b: LoopBuilder, op: AttentionOp) -> Shape | None:
    """What the workgroups of an attention compute, if the device and its shapes are made for this."""
    description = b.facts.device_description
    if not description.matrices or description.subgroup != SUBGROUP or b.facts.strict_math:
        return None
    shapes: list[tuple[int, ...]] = []
    for value in op.inputs[:3]:
        assert isinstance(value.type, MemRefType)
        if value.type.element_type != f16:
            return None
        shapes.append(value.type.get_shape())
    size, columns = shapes[1][3], shapes[2][3]
    if (
        size != columns
        or size == DYNAMIC_INDEX
        or size % SIDE
        or common_lanes(op, [*op.inputs[:3], op.outs[0]]) != LANES
    ):
        return None
    queries, keys, heads = _extents(op, shapes)
    blocks = BUSY
    if queries != DYNAMIC_INDEX and DYNAMIC_INDEX not in heads:
        blocks = heads[0] * heads[1] * -(-queries // (4 * SIDE))
    if blocks >= BUSY:
        found = [Shape(4, 1, count, size) for count in (64, 32, 16)]
    else:
        found = [Shape(1, 8, 16, size)]
        if 0 < keys <= ONE_ROUND:
            # Fewer subgroups join fewer results: 3.42 us instead of 3.47 for 12 heads of 128 keys.
            found.insert(0, Shape(1, 4, 32, size))
        found += [Shape(1, along, count, size) for along in (4, 2) for count in (32, 16)]
        # Each subgroup is to have keys.
        found = [s for s in found if keys == DYNAMIC_INDEX or s.round - s.keys < keys]
    fitting = (shape for shape in found if shape.bytes <= description.shared_memory)
    return next(fitting, None)


def _extents(op: AttentionOp, shapes: Sequence[Sequence[int]]) -> tuple[int, int, list[int]]:
    """How many queries, keys, and batches and heads an attention has."""
    layouts = [layout.data for layout in op.layouts]
    queries, keys = (shape[layout.index("l")] for shape, layout in zip(shapes[:2], layouts))
    heads = [shapes[0][layouts[0].index(name)] for name in "bh"]
    known = rows_of(op, queries)
    assert isinstance(known, int)
    return known, keys, heads
