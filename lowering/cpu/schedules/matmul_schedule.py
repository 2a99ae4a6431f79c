"""Schedules of products: register tiles, with what follows them done on the sums.

Before:
    nn.matmul(%x, %w) outs(%y) {layout = #nn.panels<32>} :
        (memref<64x784xf32>, memref<16x784x32xf32>, memref<64x512xf32>) -> ()

After:
    scf.for %p = 0 to 16 { scf.for %i = 0 to 64 step 8 {
      %sums:16 = scf.for %k = 0 to 784 iter_args(…) {
        %b = vector.load %w[%p, %k, 0] : memref<16x784x32xf32>, vector<16xf32>
        %a = memref.load %x[%i, %k] : memref<64x784xf32>
        %s = vector.fma (splat of %a), %b, %sum : vector<16xf32> … }
      vector.store %sums#0, %y[%i, %p * 32] : memref<64x512xf32>, vector<16xf32> … }}

`nn.products` becomes one loop over the panels of all its products.

Requires: bufferised; contiguous operands; a packed operand made by `nn.pack` for the target.
"""

from __future__ import annotations

from xdsl.ir import Operation

from openinfer.dialects.nn import MatmulOp, ProductsOp, dims_of, element_of
from openinfer.lowering.cpu.machine import machine_of
from openinfer.lowering.cpu.schedules.blocked_product import block_scratch
from openinfer.lowering.cpu.schedules.matmul import ROWS_WORTH_PACKING, MatmulLowering
from openinfer.lowering.cpu.schedules.pair_product import pair_scratch
from openinfer.lowering.cpu.schedules.products import emit_products
from openinfer.lowering.cpu.schedules.quad_product import quad_scratch
from openinfer.lowering.cpu.vector_width import bits_of
from openinfer.lowering.demands import Scratch
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.rules import Rule
from openinfer.runtime.sizes import THREADS, Size

# A right operand as it stands is read by rows: quick, until the rows of a tile's columns take more
# places of the near caches and more pages than there are.
PLAIN_ROWS_WORTH_PACKING = 64
PLAIN_BYTES_WORTH_PACKING = 1 << 19


def scratch_types(op: MatmulOp) -> list[Scratch]:
    """The scratch buffers (element type, sizes) that the lowering of `op` wants after its output.

    A transposed right operand is packed first, and so is a large one, into panels
    `[slots, ceil(N / tile), K, tile]` with a slot for each thread where threads work on different
    batches. Then come the two buffers of a product in blocks. The op stays correct without each of
    both. `op` is on tensors.
    """
    if op.in_quads:
        return quad_scratch(op)
    panels = pair_scratch(op) if op.precision is not None else _panel_scratch(op)
    return panels + (block_scratch(op) if panels or op.layout is not None else [])


def _panel_scratch(op: MatmulOp) -> list[Scratch]:
    if op.layout is not None:
        return []
    rows = dims_of(op.output)[-2].constant
    if op.transpose_b is not None:
        *_, columns, depth = dims_of(op.right)
        if rows is not None and rows < ROWS_WORTH_PACKING:
            return []
    else:
        *_, depth, columns = dims_of(op.right)
        known = (columns * depth).constant
        size = bits_of(element_of(op.right)) // 8
        if rows is None or known is None or rows < PLAIN_ROWS_WORTH_PACKING:
            return []
        if known * size < PLAIN_BYTES_WORTH_PACKING:
            return []
    tile = machine_of(op).tile
    count = (columns + (tile - 1)) // tile
    slots = Size.name(THREADS) if len(dims_of(op.output)) > 2 else Size.of(1)
    dims = (slots, count, depth, Size.of(tile))
    return [Scratch("panels", element_of(op.right), dims)]


def rules(rows: int = 0) -> dict[str, Rule]:
    """The rules of products. Register tiles have `rows` rows, 0 for as many as registers hold."""

    def lowering(op: MatmulOp) -> MatmulLowering:
        return MatmulLowering(op, rows)

    def matmul(b: LoopBuilder, op: Operation) -> bool:
        assert isinstance(op, MatmulOp)
        lowering(op).emit()
        return True

    def products(b: LoopBuilder, op: Operation) -> bool:
        assert isinstance(op, ProductsOp)
        emit_products(op, lowering)
        return True

    return {MatmulOp.name: matmul, ProductsOp.name: products}


RULES = rules()
