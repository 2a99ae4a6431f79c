"""The product of rows with rows, without copying either: sums run along the shared dimension.

Taken where the right operand is transposed and there is no scratch to pack it in, or where so few
rows meet it that packing would cost more than the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from openinfer.lowering.cpu.schedules.microkernel import Arithmetic, Carried, over_tiles
from openinfer.lowering.cpu.schedules.packing import Matrix
from openinfer.lowering.cpu.schedules.product import Extents
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import multiply_add
from openinfer.lowering.kernels.epilogue import Epilogue, Place
from openinfer.lowering.kernels.numeric import reduction
from openinfer.runtime.quick_dataclass import dataclass

# Columns that share each vector of the left operand; as many sums are in flight.
COLUMNS_AT_ONCE = 4


@dataclass
class DotProduct:
    """Emits the loops of `[rows, depth] x [columns, depth]ᵀ`."""

    build: LoopBuilder
    how: Arithmetic
    left: Matrix
    left_transposed: bool
    right: Matrix
    extents: Extents
    epilogue: Epilogue
    batch: tuple[Index, ...]

    def __post_init__(self) -> None:
        if self.left_transposed or self.build.facts.strict_math:
            # Neighbours along the shared dimension are not neighbours in memory; or sums go in order.
            self.how = replace(self.how, lanes=1)

    def emit(self) -> None:
        def columns(first: Index, count: int, _: Carried) -> Carried:
            places = [self.build.index(self.build.plus(first, i)) for i in range(count)]
            self.build.loop(
                0, self.extents.rows, 1, lambda row: self._elements(row, places), hint="i"
            )
            return ()

        over_tiles(
            self.build, self.extents.columns, COLUMNS_AT_ONCE, columns, parallel=True, hint="j"
        )

    def _elements(self, row: SSAValue, columns: Sequence[SSAValue]) -> None:
        """One element of the result for each of some columns."""
        build, how = self.build, self.how
        zero = build.constant(0, how.vector)
        depth = self.extents.depth

        def step(k: SSAValue, sums: Sequence[SSAValue], mask: SSAValue | None) -> list[SSAValue]:
            place = self.left.at(k, row) if self.left_transposed else self.left.at(row, k)
            left = how.widen(build, build.vload(self.left.buffer, place, how.lanes, mask))
            following: list[SSAValue] = []
            for column, total in zip(columns, sums):
                there = self.right.at(column, k)
                right = build.vload(self.right.buffer, there, how.lanes, mask)
                following.append(
                    multiply_add(
                        build,
                        left,
                        how.widen(build, right),
                        total,
                        fused=how.fused,
                        boolean=how.boolean,
                    )
                )
            return following

        whole = build.round_down(depth, how.lanes)
        sums = build.reduce(
            0,
            whole,
            how.lanes,
            [zero] * len(columns),
            lambda k, values: step(k, values, None),
            hint="k",
            sums="products",
            beside=how.lanes,
        )
        if how.lanes > 1 and whole != depth:
            # The masked rest; where there is none it adds zeros.
            sums = step(build.index(whole), sums, build.mask(build.minus(depth, whole), how.lanes))
        for column, total in zip(columns, sums):
            value = reduction(build, "or" if how.boolean else "add", total)
            self.epilogue.store(value, Place((*self.batch, row, column), None))
