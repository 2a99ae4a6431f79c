"""How one product becomes loops: what is folded into rows, packed first, or summed along.

`MatmulLowering` emits a whole product, or one of its panels where several products share a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint

from openinfer.dialects.nn import BlocksAttr, MatmulOp, ThreadOp
from openinfer.lowering.cpu.machine import machine_of
from openinfer.lowering.cpu.schedules.block_product import BlockProduct, ByteProduct
from openinfer.lowering.cpu.schedules.blocked_product import BlockedProduct, Blocks
from openinfer.lowering.cpu.schedules.dot_product import DotProduct
from openinfer.lowering.cpu.schedules.microkernel import Arithmetic
from openinfer.lowering.cpu.schedules.packing import Matrix, pack_panels
from openinfer.lowering.cpu.schedules.pair_product import BlockedPairProduct, PairProduct, in_pairs
from openinfer.lowering.cpu.schedules.pairs import PairArithmetic, pack_pairs
from openinfer.lowering.cpu.schedules.product import Columns, Extents, Product
from openinfer.lowering.cpu.schedules.quad_product import QuadProduct
from openinfer.lowering.cpu.schedules.quads import QuadArithmetic, pack_quads, row_starts
from openinfer.lowering.kernels.batches import broadcast_place, over_batches
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import accumulator_of
from openinfer.lowering.kernels.epilogue import Epilogue, Extra, extras_of
from openinfer.lowering.kernels.numeric import element_type
from openinfer.lowering.kernels.runs import collapse
from openinfer.lowering.kernels.scratch import scratch_of
from openinfer.runtime.errors import CompileError
from openinfer.runtime.quick_dataclass import dataclass

# With fewer rows a transposed right operand is read once where it lies; packing it reads and writes
# it first.
ROWS_WORTH_PACKING = 4


@dataclass(frozen=True)
class _Operands:
    """What an op multiplies, after leading dimensions have been folded into the rows."""

    left: SSAValue
    right: SSAValue
    output: SSAValue
    extras: list[Extra]


class MatmulLowering:
    """The lowering of one op; its tiles have `rows` rows, 0 for as many as registers hold."""

    def __init__(self, op: MatmulOp, rows: int = 0) -> None:
        self.op = op
        self.build = LoopBuilder(InsertPoint.before(op))
        machine = machine_of(op)
        self.machine = replace(machine, most_rows=rows) if rows else machine
        self.scratch = op.room("panels")
        """Where the right operand becomes panels."""
        in_blocks = op.room("copy") is not None
        self.blocks = Blocks(*scratch_of(op, "copy", "sums")) if in_blocks else None
        self.slot: Index = 0
        """The part of the scratch that this thread uses."""
        self.thread: Index = 0
        """The part of the blocks that this thread uses."""
        self.how = self._arithmetic()

    def _arithmetic(self) -> Arithmetic:
        """Sums are in the type of the body's first argument, else in the output's, widened."""
        op = self.op
        if op.body:
            kind = op.body[0].block.args[0].type
        else:
            kind = accumulator_of(element_type(op.outs[0]))
        lanes = gcd(self._width, self.machine.lanes(kind))
        if self._in_blocks:
            return Arithmetic(kind, lanes, self.machine.fused)
        if self._pairs or op.in_quads:
            missing = op.in_quads and op.room("starts") is None
            if missing or (op.layout is None and self.scratch is None):
                said = "i8" if op.in_quads else "bf16"
                raise CompileError(
                    "OI0955",
                    f"nn.matmul of precision {said}: the right operand needs room for its panels",
                    hint="bufferise for the target that the kernels are lowered for",
                )
            made = QuadArithmetic if op.in_quads else PairArithmetic
            return made(kind, lanes, self.machine.fused)
        return Arithmetic(
            kind,
            lanes,
            self.machine.fused,
            op.boolean is not None,
            op.unsigned is not None,
        )

    @property
    def _pairs(self) -> bool:
        return self.op.in_pairs

    @property
    def _packs(self) -> bool:
        """Whether the right operand is always in panels of a form of its own."""
        return self.op.in_pairs or self.op.in_quads

    @property
    def _in_blocks(self) -> bool:
        return isinstance(self.op.layout, BlocksAttr)

    @property
    def _width(self) -> int:
        """Columns that a tile covers: those of a panel."""
        if self.op.layout is not None:
            return self.op.layout.columns
        if self.scratch is None:
            return self.machine.tile
        assert isinstance(self.scratch.type, MemRefType)
        width = self.scratch.type.get_shape()[-1]
        return width // (2 if self._pairs else 4 if self.op.in_quads else 1)

    def emit(self) -> None:
        """All of the product."""
        operands, extents, epilogue = self._parts()
        batches = self._batches(operands)
        if self.blocks is not None:
            self.thread = self.build.insert(ThreadOp())
        shared = all(extent == 1 for extent in batches)
        if not shared and (self.scratch is not None or self.op.in_quads):
            # Threads share the panels of one product, but different ones work on different batches.
            self.slot = self.build.insert(ThreadOp())
        over_batches(
            self.build, batches, lambda batch: self._one(operands, extents, epilogue, batch)
        )

    def panels(self) -> int | None:
        """How many panels a packed right operand has; None if they are not computed one by one.

        Emits what folds the operands, which `emit_panel` does again where it stands.
        """
        operands, extents, _ = self._parts()
        if self._batches(operands) or not isinstance(extents.columns, int):
            return None
        return -(-extents.columns // self._width)

    def emit_panel(
        self, panel: SSAValue, following: tuple[SSAValue, SSAValue] | None = None
    ) -> None:
        """One panel of a product that has a number of them.

        `following` are the packed operand and the number of the panel that is computed next.
        """
        schedule = self._schedule(*self._parts(), ())
        if following is not None:
            schedule.following = (Matrix(following[0]), following[1])
        schedule.panel(panel)

    def _parts(self) -> tuple[_Operands, Extents, Epilogue]:
        op, build = self.op, self.build
        operands = self._folded()
        body = op.body[0].block if op.body else None
        epilogue = Epilogue(build, operands.output, operands.extras, body)
        output = operands.output
        rank = _rank(output)
        extents = Extents(
            build.dim(output, rank - 2), self._depth(operands), build.dim(output, rank - 1)
        )
        if self._has_tiles(extents):
            epilogue.prepare(self.how.lanes)
        if self._has_dots(extents):
            epilogue.prepare(None)
        return operands, extents, epilogue

    def _batches(self, operands: _Operands) -> list[Index]:
        rank = _rank(operands.output)
        return [self.build.dim(operands.output, axis) for axis in range(rank - 2)]

    def _depth(self, operands: _Operands) -> Index:
        """The shared dimension, from whichever operand knows it."""
        left, right = operands.left, operands.right
        if isinstance(self.op.layout, BlocksAttr):
            # Rows of a panel are rows of blocks, and the left operand may be bytes.
            return _shape(right)[-2] * self.op.layout.format.elements
        axis = _rank(left) - (2 if self.op.transpose_a is not None else 1)
        if _shape(left)[axis] != DYNAMIC_INDEX or self._packs:
            return self.build.dim(left, axis)
        transposed = self.op.transpose_b is not None and self.op.layout is None
        return self.build.dim(right, _rank(right) - (1 if transposed else 2))

    def _folded(self) -> _Operands:
        """Leading dimensions become rows where the right operand is the same for all of them."""
        op, build = self.op, self.build
        left, right, output = op.left, op.right, op.outs[0]
        extras = extras_of(op)
        rank = _rank(output)
        plain = _Operands(left, right, output, extras)
        if rank == 2 or _rank(right) != (3 if op.layout is not None else 2):
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
        packed = op.layout is not None
        left, right = self._left(operands, batch), self._right(operands, batch)

        pairs = self._pairs

        def tiles(columns: Columns) -> None:
            self._schedule(operands, extents, epilogue, batch, columns).emit()

        def dots() -> None:
            DotProduct(
                build,
                self.how,
                left,
                op.transpose_a is not None,
                right,
                extents,
                epilogue,
                batch,
            ).emit()

        def through_scratch() -> None:
            assert self.scratch is not None
            panels = Matrix(self.scratch, (self.slot,))
            pack = pack_quads if op.in_quads else pack_pairs if pairs else pack_panels
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

        if op.in_quads:
            assert isinstance(extents.depth, int)
            lanes = self.machine.lanes(self.how.kind)
            row_starts(build, left, self._starts(), extents.rows, extents.depth, lanes)
        if packed or (op.transpose_b is None and self.scratch is None):
            tiles(Columns(right, packed, self._width, op.streamed is not None))
        elif self._packs:
            through_scratch()
        elif not self._has_tiles(extents):
            dots()
        elif not self._has_dots(extents):
            through_scratch()
        else:
            few = build.compare("slt", extents.rows, ROWS_WORTH_PACKING)
            build.when(few, dots, through_scratch)

    def _starts(self) -> Matrix:
        """What the sums of the rows of a product in quads start from."""
        starts = self.op.room("starts")
        assert starts is not None
        return Matrix(starts, (self.slot,))

    def _left(self, operands: _Operands, batch: tuple[Index, ...]) -> Matrix:
        leading = _shape(operands.left)[:-2]
        return Matrix(operands.left, broadcast_place(self.build, leading, batch))

    def _right(self, operands: _Operands, batch: tuple[Index, ...]) -> Matrix:
        leading = _shape(operands.right)[: -3 if self.op.layout is not None else -2]
        return Matrix(operands.right, broadcast_place(self.build, leading, batch))

    def _schedule(
        self,
        operands: _Operands,
        extents: Extents,
        epilogue: Epilogue,
        batch: tuple[Index, ...],
        columns: Columns | None = None,
    ) -> Product:
        """The loops over register tiles; `columns` are the right operand itself by default."""
        build, pairs = self.build, self._pairs
        if columns is None:
            packed, streamed = self.op.layout is not None, self.op.streamed is not None
            columns = Columns(self._right(operands, batch), packed, self._width, streamed)
        steps = in_pairs(build, extents) if pairs else extents
        parts = (
            build,
            self.how,
            self.machine,
            self._left(operands, batch),
            self.op.transpose_a is not None,
            columns,
            steps,
            epilogue,
            batch,
        )
        if isinstance(self.op.layout, BlocksAttr):
            kind = ByteProduct if self.op.in_bytes else BlockProduct
            return kind(*parts, layout=self.op.layout)
        if self.op.in_quads:
            return QuadProduct(*parts, starts=self._starts())
        if self.blocks is None:
            return (PairProduct if pairs else Product)(*parts)
        schedule = BlockedPairProduct if pairs else BlockedProduct
        return schedule(*parts, blocks=self.blocks, thread=self.thread)

    def _few_rows(self, extents: Extents) -> bool | None:
        """Whether there are too few rows to turn the right operand; None when the run knows."""
        return extents.rows < ROWS_WORTH_PACKING if isinstance(extents.rows, int) else None

    def _has_tiles(self, extents: Extents) -> bool:
        """Whether some number of rows is computed with register tiles."""
        if self.op.layout is not None or self.op.transpose_b is None or self._packs:
            return True
        return self.scratch is not None and not self._few_rows(extents)

    def _has_dots(self, extents: Extents) -> bool:
        """Whether some number of rows is computed with sums along the shared dimension."""
        if self.op.layout is not None or self.op.transpose_b is None or self._packs:
            return False
        return self.scratch is None or self._few_rows(extents) is not False


def _shape(buffer: SSAValue) -> Sequence[int]:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type.get_shape()


def _rank(buffer: SSAValue) -> int:
    return len(_shape(buffer))
