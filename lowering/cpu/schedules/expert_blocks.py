"""Products of the rows that chose an expert with its matrix in blocks: those of `block_product.py`, with rows
that lie where pairs of a position and a choice say.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from openinfer.lowering.cpu.schedules.block_product import BlockProduct, ByteProduct
from openinfer.lowering.cpu.schedules.product import Strip
from openinfer.lowering.kernels.builder import Index
from openinfer.lowering.kernels.epilogue import Place
from openinfer.runtime.quick_dataclass import dataclass


@dataclass(kw_only=True)
class ChosenBlocks(BlockProduct):
    """Row i of the product is that of the i-th pair that chose the expert."""

    pair_at: Callable[[Index], SSAValue]
    """The number of a pair, which is the row of the result."""
    line_of: Callable[[SSAValue], SSAValue]
    """The row of the left operand that a pair reads."""

    def _line(self, row: Index) -> SSAValue:
        return self.line_of(self.pair_at(row))

    def _place(self, strip: Strip, vector: int, row: Index) -> Place:
        place = super()._place(strip, vector, row)
        *leading, _, column = place.indices
        return Place((*leading, self.pair_at(row), column), place.lanes, place.mask, place.last)


@dataclass(kw_only=True)
class ChosenBytes(ChosenBlocks, ByteProduct):
    """The same, of rows of `nn.quantize_rows`."""
