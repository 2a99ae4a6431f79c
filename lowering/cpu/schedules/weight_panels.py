"""Constant matrices, copied once into the panels that the product reads.

Before:
    nn.pack(%w) outs(%p) {layout = #nn.panels<32>} : (memref<784x512xf32>, memref<16x784x32xf32>) -> ()

After:
    scf.for %kb = 0 to 784 step 16 { scf.for %p = 0 to 16 { scf.for %k = … {
      %v = vector.load %w[%k, %p * 32] : memref<784x512xf32>, vector<16xf32>
      vector.store %v, %p[%p, %k, 0] : memref<16x784x32xf32>, vector<16xf32> … }}}

Requires: bufferised; contiguous operands.
"""

from __future__ import annotations

from xdsl.ir import Operation

from openinfer.dialects.nn import BlocksAttr, PackOp, PairsAttr, QuadsAttr, TilesAttr
from openinfer.lowering.cpu.machine import machine_of
from openinfer.lowering.cpu.schedules.block_packing import pack_blocks
from openinfer.lowering.cpu.schedules.packing import Matrix, pack_panels
from openinfer.lowering.cpu.schedules.pairs import pack_pairs
from openinfer.lowering.cpu.schedules.quads import pack_quads
from openinfer.lowering.cpu.schedules.tiles import pack_tiles
from openinfer.lowering.kernels.batches import over_batches
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.rules import Rule


def _pack(b: LoopBuilder, op: Operation) -> bool:
    """`panels[p][k][t] = source[k][p * tile + t]`, 0 where the source has no such column."""
    assert isinstance(op, PackOp)
    source, panels = op.inputs[0], op.outs[0]
    bits = machine_of(op).vector_bits
    transposed = op.transposed is not None
    rank = len(Matrix(source).kind.get_shape())
    depth = b.dim(source, rank - 1 if transposed else rank - 2)
    columns = b.dim(source, rank - 2 if transposed else rank - 1)

    def one(batch: tuple[Index, ...]) -> None:
        layout, whole, target = op.layout, Matrix(source, batch), Matrix(panels, batch)
        if isinstance(layout, BlocksAttr):
            pack_blocks(b, whole, target, columns, layout)
            return
        if isinstance(layout, TilesAttr):
            pack_tiles(b, whole, target, depth, columns, layout.data, transposed=transposed)
            return
        pack = pack_pairs if isinstance(layout, PairsAttr) else pack_panels
        pack = pack_quads if isinstance(layout, QuadsAttr) else pack
        pack(
            b,
            whole,
            target,
            depth,
            columns,
            layout.columns,
            bits,
            transposed=transposed,
        )

    over_batches(b, [b.dim(source, axis) for axis in range(rank - 2)], one)
    return True


RULES: dict[str, Rule] = {PackOp.name: _pack}
