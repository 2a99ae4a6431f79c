"""The schedule of a product whose operands do not fit in the caches: blocks of all three sizes.

    for each task: a block of rows, and some panels of columns      (parallel)
      for each panel
        for each block of the contraction
          for each tile of rows: add the tile's sums to those of the panel
        scale, apply the body, store

The block of rows stays in the caches while panels go by, and so does the part of the panel that one
block of the contraction needs. Sums of a panel wait in a small buffer of their own, so that
the result is written once, and may lie where an operand of the body lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from openinfer.lowering.loops.builder import Index, LoopBuilder
from openinfer.lowering.loops.elements import add
from openinfer.lowering.loops.microkernel import Carried, over_tiles
from openinfer.lowering.loops.product import Extents, Product, Strip
from openinfer.lowering.options import strict_math

DEPTH = 512
"""Steps of the contraction that are done at once: 32 columns of f32 are 64 KiB then."""
LEFT_BYTES = 2 << 20
"""What a block of rows may take of the caches: it is read once for each panel."""
MOST_ROWS = 256
NEAR_BYTES = 8 << 20
"""A left operand of this size is quick to read for every panel: whole rows please the prefetcher."""
TASKS = 16
"""Tasks that are wanted at least: what a loop is cut into for threads."""


def wants_blocks(extents: Extents, kind_bytes: int, measured: int | None = None) -> bool:
    """Whether blocks pay: measured at 2048 x 2048 x 2048, 91 % of the peak instead of 87 %.

    Below that they cost: 88 % instead of 97 % at 1024 x 1024 x 1024. `measured` are the steps that
    `openinfer tune` found best for this product.
    """
    rows, depth = extents.rows, extents.depth
    if not isinstance(depth, int) or not isinstance(rows, int) or strict_math():
        return False
    if measured is not None:
        return 0 < measured < depth
    return depth >= 2 * DEPTH and rows * depth * kind_bytes > NEAR_BYTES


@dataclass
class BlockedProduct(Product):
    """Emits the loops of one large product."""

    def emit(self) -> None:
        build, width, lanes = self.build, self.right.width, self.how.lanes
        assert isinstance(self.extents.depth, int)
        size = self._row_block(self.extents.depth)
        whole = build.round_down(self.extents.columns, width)
        rest = build.minus(self.extents.columns, whole)
        panels = whole // width if isinstance(whole, int) else build.floordiv(whole, width)
        row_blocks = _quotient_up(build, self.extents.rows, size)
        none: list[SSAValue | None] = [None] * (width // lanes)
        if panels != 0:
            groups = self._groups(row_blocks, panels)
            each = _quotient_up(build, panels, groups)

            def task(number: SSAValue) -> None:
                block = build.floordiv(number, groups)
                first = build.mul(build.rem(number, groups), each)
                last = build.minimum(build.add(first, each), panels)
                row = build.mul(block, size)
                build.loop(first, last, 1, lambda p: self._block(p, none, row, size), hint="p")

            if isinstance(row_blocks, int):
                count: Index = row_blocks * groups
            else:
                count = build.mul(row_blocks, groups)
            build.loop(0, count, 1, task, parallel=True, hint="task")
        if rest == 0:
            return

        def partial() -> None:
            masks = [
                build.mask(build.minus(rest, first), lanes) for first in range(0, width, lanes)
            ]
            build.loop(
                0,
                self.extents.rows,
                size,
                lambda row: self._block(panels, masks, row, size),
                parallel=True,
                hint="ib",
            )

        if isinstance(rest, int):
            partial()
        else:
            build.when(build.compare("ne", rest, 0), partial)

    def _row_block(self, depth: int) -> int:
        """Rows of a block: whole tiles, as many as the second cache holds, all about equal."""
        tile = self.machine.rows(self.right.width // self.how.lanes)
        most = max(tile, min(LEFT_BYTES // (depth * 4), MOST_ROWS) // tile * tile)
        rows = self.extents.rows
        if not isinstance(rows, int):
            return most
        blocks = -(-rows // most)
        return -(-rows // (blocks * tile)) * tile

    def _groups(self, row_blocks: Index, panels: Index) -> int:
        """How many groups the panels are cut into, so that threads find enough tasks."""
        blocks = row_blocks if isinstance(row_blocks, int) else 1
        most = panels if isinstance(panels, int) else TASKS
        return max(1, min(most, -(-TASKS // max(blocks, 1))))

    def _block(
        self, panel: Index, masks: Sequence[SSAValue | None], row: SSAValue, size: int
    ) -> None:
        """One panel of one block of rows."""
        build, lanes, depth = self.build, self.how.lanes, self.extents.depth
        assert isinstance(depth, int)
        strip = self._strip_of(panel, masks)
        finish = self._finish(strip)
        rows = self.extents.rows
        even = isinstance(rows, int) and rows % size == 0
        here = size if even else build.minimum(build.minus(rows, row), size)
        stage = self._stage(size, strip.vectors * lanes)
        offsets = [build.index(vector * lanes) for vector in range(strip.vectors)]
        zero = build.constant(0, self.how.vector)

        def clear(offset: SSAValue) -> None:
            for place in offsets:
                build.vstore(zero, stage, [offset, place])

        build.loop(0, here, 1, clear, hint="r")
        # Blocks of about equal length: a short last one would hardly pay for its sums.
        count = -(-depth // (self.machine.depth or DEPTH))
        length = -(-depth // count)
        build.loop(
            0, depth, length, lambda k: self._add(strip, stage, offsets, row, here, k, length)
        )

        def one(offset: SSAValue) -> None:
            sums = [build.vload(stage, [offset, place], lanes) for place in offsets]
            finish(sums, build.plus(row, offset))

        build.loop(0, here, 1, one, hint="r")

    def _add(
        self,
        strip: Strip,
        stage: SSAValue,
        offsets: Sequence[SSAValue],
        row: SSAValue,
        here: Index,
        k: SSAValue,
        length: int,
    ) -> None:
        """Adds what one block of the contraction gives to the sums of a panel."""
        build, lanes = self.build, self.how.lanes
        depth = self.extents.depth
        assert isinstance(depth, int)
        stop = (
            build.add(k, length)
            if depth % length == 0
            else build.minimum(build.add(k, length), depth)
        )

        def tile(offset: Index, rows: int, _: Carried) -> Carried:
            sums = self._tile(strip, build.plus(row, offset), rows, (k, stop))
            for number, values in enumerate(sums):
                at = build.plus(offset, number)
                for place, value in zip(offsets, values):
                    before = build.vload(stage, [at, place], lanes)
                    total = add(build, before, value, boolean=self.how.boolean)
                    build.vstore(total, stage, [at, place])
            return ()

        over_tiles(build, here, self.machine.rows(strip.vectors), tile)


def _quotient_up(build: LoopBuilder, value: Index, by: int) -> Index:
    if isinstance(value, int):
        return -(-value // by)
    return build.floordiv(build.add(value, by - 1), by)
