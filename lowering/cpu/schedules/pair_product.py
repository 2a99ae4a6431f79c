"""The schedules of products whose operands are bf16: the same loops, over pairs of the contraction."""

from __future__ import annotations

import itertools
from typing import ClassVar

from xdsl.dialects.builtin import bf16
from xdsl.ir import SSAValue

from openinfer.dialects.nn import MatmulOp, dims_of
from openinfer.lowering.cpu.machine import machine_of
from openinfer.lowering.cpu.schedules.blocked_product import BlockedProduct
from openinfer.lowering.cpu.schedules.microkernel import Tile, contract, split_for
from openinfer.lowering.cpu.schedules.pairs import load_half, load_pair
from openinfer.lowering.cpu.schedules.product import Extents, Part, Product, Strip
from openinfer.lowering.cpu.schedules.streaming import prefetch_panel, steps_per_line
from openinfer.lowering.demands import Scratch
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.runtime.sizes import THREADS, Size

PREFETCH_ROWS = 4
"""From so many rows on, panels are prefetched.

Measured on whole models (Zen 5, 32 MiB of L3 cache) against the same code without. Weights of 21 to 25
MB: 16 rows 0.69 to 0.78 of the time, 32 rows 0.89 to 0.92, 128 rows 0.94 to 0.98; weights of 1.3 MB, 64
rows: 1.00 to 1.01. For a single row it costs: 1.07 to 1.22 of the time.
"""


def pair_scratch(op: MatmulOp) -> list[Scratch]:
    """Room for the panels of a right operand that is no constant: `op` is on tensors.

    `[slots, ceil(N / tile), ceil(K / 2), 2 * tile]` of bf16, a slot for each thread where threads
    work on different batches.
    """
    if op.layout is not None:
        return []
    columns = dims_of(op.output)[-1]
    depth = dims_of(op.left)[-1]
    tile = machine_of(op).tile
    slots = Size.name(THREADS) if len(dims_of(op.output)) > 2 else Size.of(1)
    panels = (columns + (tile - 1)) // tile
    return [Scratch("panels", bf16, (slots, panels, (depth + 1) // 2, Size.of(2 * tile)))]


def in_pairs(build: LoopBuilder, extents: Extents) -> Extents:
    """The same product, its contraction counted in pairs."""
    depth = extents.depth
    if isinstance(depth, int):
        return Extents(extents.rows, -(-depth // 2), extents.columns)
    return Extents(extents.rows, build.floordiv(build.add(depth, 1), 2), extents.columns)


class _Pairs(Product):
    """Tiles of a product whose right operand is panels of pairs; `extents` count pairs."""

    in_groups: ClassVar[bool] = False

    def _tile(self, strip: Strip, row: Index, rows: int, part: Part | None = None) -> Tile:
        build, right = self.build, self.right.matrix
        left = self.left if part is None else part.left
        lanes = self.how.lanes
        places = [build.index(build.plus(row, offset)) for offset in range(rows)]
        offsets = [build.index(2 * vector * lanes) for vector in range(strip.vectors)]

        def scalars(k: SSAValue) -> list[SSAValue]:
            return [load_pair(build, left, place, k) for place in places]

        calls = itertools.count()

        def columns(k: SSAValue) -> list[SSAValue]:
            there = k
            if part is not None:
                part.ask(k)
                there = build.add(part.start, k)
            elif rows >= PREFETCH_ROWS and next(calls) % steps_per_line(right) == 0:
                prefetch_panel(build, right, strip.panel, k, self.machine.measured)
            return [
                build.vload(right.buffer, right.at(strip.panel, there, offset), 2 * lanes)
                for offset in offsets
            ]

        elements = build.dim(left.buffer, len(left.kind.get_shape()) - 1)
        stop = self.extents.depth if part is None else part.length
        even = isinstance(elements, int) and elements % 2 == 0
        whole: Index = stop
        if isinstance(elements, int):
            whole = stop if even else build.minimum(stop, elements // 2)
        else:
            whole = build.minimum(stop, build.floordiv(elements, 2))
        split = split_for(self.build, self.machine.accumulators, rows, strip.vectors)
        sums = contract(
            build,
            self.how,
            rows,
            strip.vectors,
            (0, whole),
            scalars,
            columns,
            split=split,
            before=None if part is None else part.before,
            most=None if part is None else part.most,
            long=part is not None and part.long,
        )
        if even or whole is stop:
            return sums
        flat: list[SSAValue] = [value for line in sums for value in line]

        def last() -> list[SSAValue]:
            """The element that has no other, with zero."""
            halves = [load_half(build, left, p, build.minus(elements, 1)) for p in places]
            others = columns(build.index(whole))
            total = iter(flat)
            return [
                self.how.multiply_add(build, pair, other, next(total))
                for pair in (self.how.spread(build, half) for half in halves)
                for other in others
            ]

        if isinstance(stop, int) and isinstance(whole, int):
            flat = last() if stop > whole else flat
        else:
            there = build.compare("sgt", stop, whole)
            flat = [*build.when(there, last, lambda: flat, [value.type for value in flat])]
        return [flat[r * strip.vectors : (r + 1) * strip.vectors] for r in range(rows)]


class PairProduct(_Pairs):
    """Emits the loops of one product of pairs."""


class BlockedPairProduct(_Pairs, BlockedProduct):
    """Emits the loops of one large product of pairs."""

    @property
    def _pairs(self) -> bool:
        return True
