"""The heads of attention as micro-kernels read them: as matrices, and out of blocks of bytes."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import VectorType, f16, f32
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.arith import SIToFPOp
from openinfer.lowering.cpu.schedules.block_words import bitcast, extract
from openinfer.lowering.cpu.schedules.packing import Matrix
from openinfer.lowering.kernels.attention_sight import Heads
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import resize_float
from openinfer.runtime.blocks import BlockFormat
from openinfer.runtime.quick_dataclass import dataclass


@dataclass(frozen=True)
class HeadRows(Matrix):
    """The matrix of one head; `leading` are its batch and its number."""

    layout: str = "bhld"

    def at(self, *place: Index) -> list[Index]:
        batch, head = self.leading
        row, column = place
        return Heads(self.buffer, self.layout).at(batch, head, row, column)


def rows_of(heads: Heads, batch: Index, head: Index) -> HeadRows:
    """The `[length, size]` matrix of one head."""
    return HeadRows(heads.buffer, (batch, head), heads.layout)


@dataclass(frozen=True)
class HeadsInBlocks(Heads):
    """An operand whose heads are whole blocks of `q8_0`; its last axis counts bytes."""

    block: BlockFormat

    def size(self, build: LoopBuilder) -> Index:
        nbytes = build.dim(self.buffer, 3)
        assert isinstance(nbytes, int)
        return nbytes // self.block.nbytes * self.block.elements

    def vector(
        self,
        build: LoopBuilder,
        place: tuple[Index, Index, Index, Index],
        lanes: int,
        mask: SSAValue | None = None,
    ) -> SSAValue:
        """Elements of one block, as f32."""
        assert mask is None
        *before, column = place
        each, nbytes = self.block.elements, self.block.nbytes
        if isinstance(column, int):
            start: Index = column // each * nbytes
            code: Index = start + 2 + column % each
        else:
            start = build.mul(build.floordiv(column, each), nbytes)
            code = build.add(build.add(start, 2), build.rem(column, each))

        def at(byte: Index) -> list[Index]:
            batch, head, position = before
            return self.at(batch, head, position, byte)

        scale = extract(build, bitcast(build, build.vload(self.buffer, at(start), 2), f16), 0)
        scales = build.splat(resize_float(build, scale, f32), lanes)
        codes = build.vload(self.buffer, at(code), lanes)
        values = build.insert(SIToFPOp(codes, VectorType(f32, [lanes])))
        return build.insert(arith.MulfOp(scales, values))


@dataclass(frozen=True)
class UnpackedHead(Heads):
    """One head of an operand in blocks, unpacked to a thread's part of a buffer `[threads, length, size]`."""

    thread: Index

    def at(self, batch: Index, head: Index, position: Index, column: Index) -> list[Index]:
        return [self.thread, position, column]

    def size(self, build: LoopBuilder) -> Index:
        return build.dim(self.buffer, 2)


def unpacked(
    build: LoopBuilder,
    heads: HeadsInBlocks,
    place: tuple[Index, Index],
    keys: tuple[Index, Index],
    target: UnpackedHead,
    lanes: int,
) -> UnpackedHead:
    """Writes the elements of one head of a batch, for a range of positions."""
    size = heads.size(build)
    assert isinstance(size, int)
    batch, head = place

    def one(position: SSAValue) -> None:
        for column in range(0, size, lanes):
            value = heads.vector(build, (batch, head, position, column), lanes)
            build.vstore(value, target.buffer, target.at(batch, head, position, column))

    build.loop(*keys, 1, one, hint="j")
    return target
