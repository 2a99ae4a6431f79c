"""The pass `lower-matmul`: products as register tiles, with what follows them done on the sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, ModuleOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from openinfer.dialects.nn import MatmulOp, ThreadOp, dims_of, element_of
from openinfer.lowering.loops.batches import broadcast_place, over_batches
from openinfer.lowering.loops.blocked_product import BlockedProduct, wants_blocks
from openinfer.lowering.loops.builder import Index, LoopBuilder
from openinfer.lowering.loops.dot_product import DotProduct
from openinfer.lowering.loops.elements import accumulator_of
from openinfer.lowering.loops.epilogue import Epilogue, Extra, extras_of
from openinfer.lowering.loops.inserted import keep_location
from openinfer.lowering.loops.machine import Machine, machine_of
from openinfer.lowering.loops.microkernel import Arithmetic
from openinfer.lowering.loops.numeric import element_type, is_float
from openinfer.lowering.loops.packing import Matrix, pack_panels
from openinfer.lowering.loops.pair_product import (
    BlockedPairProduct,
    PairProduct,
    in_pairs,
    pair_scratch,
)
from openinfer.lowering.loops.pairs import PairArithmetic, pack_pairs
from openinfer.lowering.loops.product import Columns, Extents, Product
from openinfer.lowering.loops.runs import collapse
from openinfer.lowering.loops.target import bits_of
from openinfer.lowering.rewriting import rewrite
from openinfer.runtime.errors import CompileError
from openinfer.runtime.sizes import THREADS, Size

BOOLEAN_ATTRIBUTE = "openinfer.bool"
UNSIGNED_ATTRIBUTE = "openinfer.unsigned"

# With fewer rows a transposed right operand is read once where it lies; packing it reads and writes
# it first.
ROWS_WORTH_PACKING = 4
# A right operand as it stands is read by rows: quick, until the rows of a tile's columns take more
# places of the near caches and more pages than there are.
PLAIN_ROWS_WORTH_PACKING = 64
PLAIN_BYTES_WORTH_PACKING = 1 << 19


def scratch_types(op: MatmulOp) -> list[tuple[Attribute, tuple[Size, ...]]]:
    """The scratch buffers (element type, sizes) that the lowering of `op` wants after its output.

    A transposed right operand is packed first, and so is a large one, into panels
    `[slots, ceil(N / tile), K, tile]` with a slot for each thread where threads work on different
    batches. The op stays correct without the buffer. `op` is on tensors.
    """
    if op.precision is not None:
        return pair_scratch(op)
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
class _Operands:
    """What an op multiplies, after leading dimensions have been folded into the rows."""

    left: SSAValue
    right: SSAValue
    output: SSAValue
    extras: list[Extra]


@dataclass(frozen=True)
class _MatmulToLoops(RewritePattern):
    options: LowerMatmul

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MatmulOp, rewriter: PatternRewriter) -> None:
        if not op.on_buffers:
            return
        with keep_location(op):
            _Lowering(op, self.options).emit()
        rewriter.erase(op)


class _Lowering:
    """The lowering of one op."""

    def __init__(self, op: MatmulOp, options: LowerMatmul) -> None:
        self.op = op
        self.build = LoopBuilder(InsertPoint.before(op))
        self.machine = self._machine(options)
        self.scratch = op.outs[1] if len(op.outs) > 1 else None
        self.slot: Index = 0
        """The part of the scratch that this thread uses."""
        self.how = self._arithmetic()

    def _machine(self, options: LowerMatmul) -> Machine:
        machine = machine_of(self.op)
        if options.vector_bits:
            machine = replace(machine, vector_bits=options.vector_bits)
        return replace(machine, most_rows=options.rows) if options.rows else machine

    def _arithmetic(self) -> Arithmetic:
        """Sums are in the type of the body's first argument, else in the output's, widened."""
        op = self.op
        if op.body:
            kind = op.body[0].block.args[0].type
        else:
            kind = accumulator_of(element_type(op.outs[0]))
        lanes = gcd(self._width, self.machine.lanes(kind))
        if self._pairs:
            if op.packed is None and self.scratch is None:
                raise CompileError(
                    "OI0955",
                    "nn.matmul of precision bf16: the right operand needs room for its panels",
                    hint="bufferise with scratch_types",
                )
            return PairArithmetic(kind, lanes, self.machine.fused)
        return Arithmetic(
            kind,
            lanes,
            self.machine.fused,
            BOOLEAN_ATTRIBUTE in op.attributes,
            UNSIGNED_ATTRIBUTE in op.attributes,
        )

    @property
    def _pairs(self) -> bool:
        return self.op.precision is not None

    @property
    def _width(self) -> int:
        """Columns that a tile covers: those of a panel."""
        source = self.op.inputs[1] if self.op.packed is not None else self.scratch
        if source is None:
            return self.machine.tile
        assert isinstance(source.type, MemRefType)
        width = source.type.get_shape()[-1]
        return width // 2 if self._pairs else width

    def emit(self) -> None:
        op, build = self.op, self.build
        operands = self._folded()
        alpha = op.alpha.value.data if op.alpha is not None else None
        if alpha is not None and not is_float(self.how.kind) and alpha != int(alpha):
            raise CompileError("OI0954", f"nn.matmul: alpha {alpha} cannot scale {self.how.kind}")
        body = op.body[0].block if op.body else None
        epilogue = Epilogue(build, operands.output, operands.extras, body, alpha, self.how.kind)
        output = operands.output
        rank = _rank(output)
        extents = Extents(
            build.dim(output, rank - 2), self._depth(operands), build.dim(output, rank - 1)
        )
        if self._has_tiles(extents):
            epilogue.prepare(self.how.lanes)
        if self._has_dots(extents):
            epilogue.prepare(None)
        batches = [build.dim(output, axis) for axis in range(rank - 2)]
        if batches and self.scratch is not None:
            # Threads share the panels of one product, but different ones work on different batches.
            self.slot = build.insert(ThreadOp())
        over_batches(build, batches, lambda batch: self._one(operands, extents, epilogue, batch))

    def _depth(self, operands: _Operands) -> Index:
        """The shared dimension, from whichever operand knows it."""
        left, right = operands.left, operands.right
        axis = _rank(left) - (2 if self.op.transpose_a is not None else 1)
        if _shape(left)[axis] != DYNAMIC_INDEX or self._pairs:
            return self.build.dim(left, axis)
        transposed = self.op.transpose_b is not None and self.op.packed is None
        return self.build.dim(right, _rank(right) - (1 if transposed else 2))

    def _folded(self) -> _Operands:
        """Leading dimensions become rows where the right operand is the same for all of them."""
        op, build = self.op, self.build
        left, right, output = op.inputs[0], op.inputs[1], op.outs[0]
        extras = extras_of(op)
        rank = _rank(output)
        plain = _Operands(left, right, output, extras)
        if rank == 2 or _rank(right) != (3 if op.packed is not None else 2):
            return plain
        if op.transpose_a is not None or _rank(left) != rank:
            return plain
        if any(a == 1 != c for a, c in zip(_shape(left)[:-2], _shape(output)[:-2], strict=True)):
            return plain
        column = rank - 1
        if not all(
            e.is_identity(rank) or not any(e.follows(d) for d in range(column)) for e in extras
        ):
            return plain
        groups = [list(range(column)), [column]]
        dims = {column: 1} | {d: 0 for d in range(column)}
        folded = [
            e.renumbered(
                dims, collapse(build, e.buffer, groups) if e.is_identity(rank) else e.buffer
            )
            for e in extras
        ]
        return _Operands(
            collapse(build, left, groups), right, collapse(build, output, groups), folded
        )

    def _one(
        self,
        operands: _Operands,
        extents: Extents,
        epilogue: Epilogue,
        batch: tuple[Index, ...],
    ) -> None:
        """The product at one index of the leading dimensions."""
        op, build = self.op, self.build
        packed = op.packed is not None
        left = Matrix(operands.left, broadcast_place(build, _shape(operands.left)[:-2], batch))
        leading = _shape(operands.right)[: -3 if packed else -2]
        right = Matrix(operands.right, broadcast_place(build, leading, batch))
        transposed_left = op.transpose_a is not None

        pairs = self._pairs
        steps = in_pairs(build, extents) if pairs else extents

        def tiles(columns: Columns) -> None:
            blocked = wants_blocks(steps, bits_of(self.how.kind) // 8, self.machine.depth)
            schedule = BlockedProduct if blocked else Product
            if pairs:
                schedule = BlockedPairProduct if blocked else PairProduct
            schedule(
                build,
                self.how,
                self.machine,
                left,
                transposed_left,
                columns,
                steps,
                epilogue,
                batch,
            ).emit()

        def dots() -> None:
            DotProduct(
                build, self.how, left, transposed_left, right, extents, epilogue, batch
            ).emit()

        def through_scratch() -> None:
            assert self.scratch is not None
            panels = Matrix(self.scratch, (self.slot,))
            pack = pack_pairs if pairs else pack_panels
            pack(
                build,
                right,
                panels,
                extents.depth,
                extents.columns,
                self._width,
                self.machine.vector_bits,
                transposed=op.transpose_b is not None,
            )
            tiles(Columns(panels, True, self._width))

        if packed or (op.transpose_b is None and self.scratch is None):
            tiles(Columns(right, packed, self._width))
        elif pairs:
            through_scratch()
        elif not self._has_tiles(extents):
            dots()
        elif not self._has_dots(extents):
            through_scratch()
        else:
            few = build.compare("slt", extents.rows, ROWS_WORTH_PACKING)
            build.when(few, dots, through_scratch)

    def _few_rows(self, extents: Extents) -> bool | None:
        """Whether there are too few rows to turn the right operand; None when the run knows."""
        return extents.rows < ROWS_WORTH_PACKING if isinstance(extents.rows, int) else None

    def _has_tiles(self, extents: Extents) -> bool:
        """Whether some number of rows is computed with register tiles."""
        if self.op.packed is not None or self.op.transpose_b is None or self._pairs:
            return True
        return self.scratch is not None and not self._few_rows(extents)

    def _has_dots(self, extents: Extents) -> bool:
        """Whether some number of rows is computed with sums along the shared dimension."""
        if self.op.packed is not None or self.op.transpose_b is None or self._pairs:
            return False
        return self.scratch is None or self._few_rows(extents) is not False


def _shape(buffer: SSAValue) -> Sequence[int]:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type.get_shape()


def _rank(buffer: SSAValue) -> int:
    return len(_shape(buffer))


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

    Requires: bufferised; contiguous operands; a packed operand made by `nn.pack` for the target.
    Leaves: `nn.matmul` on tensors.
    """

    name: ClassVar[str] = "lower-matmul"

    rows: int = 0
    """Rows of a register tile; 0 takes as many as the target's registers hold."""
    vector_bits: int = 0
    """Width of the vectors; 0 takes that of the module's target."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, _MatmulToLoops(self), recursive=False, only=(MatmulOp.name,))
