"""The pass `lower-matmul`: products as register tiles, with what follows them done on the sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from openinfer.dialects.nn import MatmulOp, ProductsOp, dims_of, element_of
from openinfer.lowering.loops.blocked_product import block_scratch
from openinfer.lowering.loops.inserted import keep_location
from openinfer.lowering.loops.machine import machine_of
from openinfer.lowering.loops.matmul import ROWS_WORTH_PACKING, MatmulLowering
from openinfer.lowering.loops.pair_product import pair_scratch
from openinfer.lowering.loops.products import emit_products
from openinfer.lowering.loops.target import bits_of
from openinfer.lowering.rewriting import rewrite
from openinfer.runtime.sizes import THREADS, Size

# A right operand as it stands is read by rows: quick, until the rows of a tile's columns take more
# places of the near caches and more pages than there are.
PLAIN_ROWS_WORTH_PACKING = 64
PLAIN_BYTES_WORTH_PACKING = 1 << 19


def scratch_types(op: MatmulOp) -> list[tuple[Attribute, tuple[Size, ...]]]:
    """The scratch buffers (element type, sizes) that the lowering of `op` wants after its output.

    A transposed right operand is packed first, and so is a large one, into panels
    `[slots, ceil(N / tile), K, tile]` with a slot for each thread where threads work on different
    batches. Then come the two buffers of a product in blocks. The op stays correct without each of
    both. `op` is on tensors.
    """
    panels = pair_scratch(op) if op.precision is not None else _panel_scratch(op)
    return panels + (block_scratch(op) if panels or op.packed is not None else [])


def _panel_scratch(op: MatmulOp) -> list[tuple[Attribute, tuple[Size, ...]]]:
    if op.packed is not None:
        return []
    rows = dims_of(op.output)[-2].constant
    if op.transpose_b is not None:
        *_, columns, depth = dims_of(op.inputs[1])
        if rows is not None and rows < ROWS_WORTH_PACKING:
            return []
    else:
        *_, depth, columns = dims_of(op.inputs[1])
        known = (columns * depth).constant
        size = bits_of(element_of(op.inputs[1])) // 8
        if rows is None or known is None or rows < PLAIN_ROWS_WORTH_PACKING:
            return []
        if known * size < PLAIN_BYTES_WORTH_PACKING:
            return []
    tile = machine_of(op).tile
    count = (columns + (tile - 1)) // tile
    slots = Size.name(THREADS) if len(dims_of(op.output)) > 2 else Size.of(1)
    return [(element_of(op.inputs[1]), (slots, count, depth, Size.of(tile)))]


@dataclass(frozen=True)
class _MatmulToLoops(RewritePattern):
    options: LowerMatmul

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MatmulOp, rewriter: PatternRewriter) -> None:
        if not op.on_buffers:
            return
        with keep_location(op):
            self.options.lowering(op).emit()
        rewriter.erase(op)


@dataclass(frozen=True)
class _ProductsToLoops(RewritePattern):
    options: LowerMatmul

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ProductsOp, rewriter: PatternRewriter) -> None:
        if not op.on_buffers:
            return
        with keep_location(op):
            emit_products(op, self.options.lowering)
        rewriter.erase(op)


@dataclass(frozen=True)
class LowerMatmul(ModulePass):
    """
    Turn `nn.matmul` on buffers into register tiles of `vector.fma`, the body on the accumulators.

    Before:
        nn.matmul(%x, %w) outs(%y) {packed} :
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
    Leaves: `nn.matmul` and `nn.products` on tensors.
    """

    name: ClassVar[str] = "lower-matmul"

    rows: int = 0
    """Rows of a register tile; 0 takes as many as the target's registers hold."""
    vector_bits: int = 0
    """Width of the vectors; 0 takes that of the module's target."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        patterns = [_MatmulToLoops(self), _ProductsToLoops(self)]
        rewrite(op, patterns, recursive=False, only=(MatmulOp.name, ProductsOp.name))

    def lowering(self, op: MatmulOp) -> MatmulLowering:
        """The lowering of a product with these options."""
        return MatmulLowering(op, self.rows, self.vector_bits)
