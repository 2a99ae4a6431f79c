"""The schedule of products of i8 with sums in i32: the same loops, over fours of the contraction."""

from __future__ import annotations

import itertools
from functools import reduce
from typing import ClassVar

from xdsl.dialects.builtin import i8, i32
from xdsl.ir import SSAValue

from openinfer.dialects.nn import MatmulOp, dims_of
from openinfer.lowering.cpu.machine import machine_of
from openinfer.lowering.cpu.schedules.microkernel import Tile, contract, split_for
from openinfer.lowering.cpu.schedules.packing import Matrix
from openinfer.lowering.cpu.schedules.product import Part, Product, Strip
from openinfer.lowering.cpu.schedules.quads import FOUR, load_word
from openinfer.lowering.cpu.schedules.streaming import prefetch_panel, steps_per_line
from openinfer.lowering.demands import Scratch
from openinfer.lowering.kernels.builder import Index
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import THREADS, Size

PREFETCH_ROWS = 4
"""From so many rows on, panels are prefetched, as those of pairs are."""


def quad_scratch(op: MatmulOp) -> list[Scratch]:
    """What the sums of each row start from, and room for the panels of a right operand that is no constant:
    `[slots, ceil(N / tile), ceil(K / 4), 4 * tile]` bytes. `op` is on tensors."""
    *leading, columns = dims_of(op.output)
    depth = dims_of(op.left)[-1]
    slots = Size.name(THREADS) if len(leading) > 1 else Size.of(1)
    rows = reduce(lambda a, b: a * b, leading)
    starts = Scratch("starts", i32, (slots, rows))
    if op.layout is not None:
        return [starts]
    tile = machine_of(op).tile
    panels = (columns + (tile - 1)) // tile
    dims = (slots, panels, (depth + (FOUR - 1)) // FOUR, Size.of(FOUR * tile))
    return [Scratch("panels", i8, dims), starts]


@dataclass(kw_only=True)
class QuadProduct(Product):
    """Emits the loops of one product of fours; `extents.depth` counts elements."""

    in_groups: ClassVar[bool] = False
    starts: Matrix
    """What the sums of a row start from."""

    def _tile(self, strip: Strip, row: Index, rows: int, part: Part | None = None) -> Tile:
        assert part is None
        build, right, left = self.build, self.right.matrix, self.left
        lanes, depth = self.how.lanes, self.extents.depth
        assert isinstance(depth, int)
        places = [build.index(build.plus(row, offset)) for offset in range(rows)]
        offsets = [build.index(FOUR * vector * lanes) for vector in range(strip.vectors)]
        calls = itertools.count()

        def scalars(k: SSAValue) -> list[SSAValue]:
            return [load_word(build, left, place, k) for place in places]

        def columns(k: SSAValue) -> list[SSAValue]:
            if rows >= PREFETCH_ROWS and next(calls) % steps_per_line(right) == 0:
                prefetch_panel(build, right, strip.panel, k, self.machine.measured)
            return [
                build.vload(right.buffer, right.at(strip.panel, k, offset), FOUR * lanes)
                for offset in offsets
            ]

        fours, rest = divmod(depth, FOUR)
        first = [
            build.splat(build.load(self.starts.buffer, self.starts.at(place)), lanes)
            for place in places
        ]
        sums = contract(
            build,
            self.how,
            rows,
            strip.vectors,
            (0, fours),
            scalars,
            columns,
            split=split_for(build, self.machine.accumulators, rows, strip.vectors),
            before=[one for one in first for _ in range(strip.vectors)],
        )
        if not rest:
            return sums
        # The elements that are no four, with zeros.
        end = build.index(fours)
        others = [self.how.across(build, value) for value in columns(end)]
        words = [
            self.how.spread(build, load_word(build, left, place, fours, rest)) for place in places
        ]
        return [
            [
                self.how.multiply_add(build, word, other, total)
                for other, total in zip(others, line, strict=True)
            ]
            for word, line in zip(words, sums, strict=True)
        ]
