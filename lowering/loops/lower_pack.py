"""The pass `lower-pack`: constant matrices copied once into the panels that the product reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from openinfer.dialects.nn import PackOp
from openinfer.lowering.loops.batches import over_batches
from openinfer.lowering.loops.builder import Index, LoopBuilder
from openinfer.lowering.loops.inserted import keep_location
from openinfer.lowering.loops.machine import machine_of
from openinfer.lowering.loops.packing import Matrix, pack_panels
from openinfer.lowering.loops.pairs import pack_pairs
from openinfer.lowering.rewriting import rewrite


@dataclass(frozen=True)
class _PackToLoops(RewritePattern):
    """`panels[p][k][t] = source[k][p * tile + t]`, 0 where the source has no such column."""

    vector_bits: int

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: PackOp, rewriter: PatternRewriter) -> None:
        if not op.on_buffers:
            return
        with keep_location(op):
            self.lower(op)
        rewriter.erase(op)

    def lower(self, op: PackOp) -> None:
        build = LoopBuilder(InsertPoint.before(op))
        source, panels = op.inputs[0], op.outs[0]
        bits = self.vector_bits or machine_of(op).vector_bits
        transposed = op.transposed is not None
        rank = len(Matrix(source).kind.get_shape())
        depth = build.dim(source, rank - 1 if transposed else rank - 2)
        columns = build.dim(source, rank - 2 if transposed else rank - 1)

        def one(batch: tuple[Index, ...]) -> None:
            pack = pack_pairs if op.pairs is not None else pack_panels
            pack(
                build,
                Matrix(source, batch),
                Matrix(panels, batch),
                depth,
                columns,
                op.tile.value.data,
                bits,
                transposed=transposed,
            )

        over_batches(build, [build.dim(source, axis) for axis in range(rank - 2)], one)


@dataclass(frozen=True)
class LowerPack(ModulePass):
    """
    Turn `nn.pack` on buffers into vector loops; square blocks are transposed in registers.

    Before:
        nn.pack(%w) outs(%p) {tile = 32 : i64} : (memref<784x512xf32>, memref<16x784x32xf32>) -> ()

    After:
        scf.for %kb = 0 to 784 step 16 { scf.for %p = 0 to 16 { scf.for %k = … {
          %v = vector.load %w[%k, %p * 32] : memref<784x512xf32>, vector<16xf32>
          vector.store %v, %p[%p, %k, 0] : memref<16x784x32xf32>, vector<16xf32> … }}}

    Requires: bufferised; contiguous operands.
    Leaves: `nn.pack` on tensors.
    """

    name: ClassVar[str] = "lower-pack"

    vector_bits: int = 0
    """Width of the vectors; 0 takes that of the module's target."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, _PackToLoops(self.vector_bits), recursive=False, only=(PackOp.name,))
