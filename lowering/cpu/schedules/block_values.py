"""Rows of floats as blocks of bytes, and back (`nn.quantize_blocks`, `nn.dequantize_blocks`).

Before:
    nn.quantize_blocks(%x) outs(%y) {block = "q8_0"} : (memref<?x64xf32>, memref<?x68xi8>) -> ()

After:
    scf.for %row = %c0 to %rows step %c1 { scf.for %block = %c0 to %c2 step %c1 {
      … %largest, %d = %largest / 127, the bytes … } } {openinfer.parallel}

The operations and their order are those of the NumPy twin, so that bytes and values are equal.
"""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType, f16, f32, i8
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.nn import DequantizeBlocksOp, QuantizeBlocksOp
from openinfer.lowering.cpu.schedules.block_rows import unpack_row
from openinfer.lowering.cpu.schedules.block_words import bitcast, extract
from openinfer.lowering.cpu.schedules.quantized_rows import HALF, octets, rounded_block
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.numeric import resize_float
from openinfer.lowering.kernels.rules import Rule
from openinfer.lowering.kernels.runs import collapse
from openinfer.runtime.blocks import BLOCKS

ROW_FORMAT = "q8_0"
"""What rows are written in; `CpuDemands` refuses all others. More are read."""
_LEAST = 2.0**-100
"""The scale of a smaller block is 0 as f16; codes are 0, too."""


def _rows(build: LoopBuilder, value: SSAValue) -> SSAValue:
    """A buffer as rows along its last axis."""
    assert isinstance(value.type, MemRefType)
    rank = value.type.get_num_dims()
    return collapse(build, value, [list(range(rank - 1)), [rank - 1]])


def _quantize(build: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, QuantizeBlocksOp)
    source, target = (_rows(build, value) for value in (op.inputs[0], op.output))
    block = op.format
    assert block.name == ROW_FORMAT
    count = build.dim(source, 1)
    assert isinstance(count, int)

    def one(row: SSAValue, number: SSAValue) -> None:
        first, place = build.mul(number, block.elements), build.mul(number, block.nbytes)
        halves = [
            resize_float(build, build.vload(source, [row, build.add(first, at)], HALF), f32)
            for at in (0, HALF)
        ]
        scale, codes = rounded_block(build, halves, _LEAST, by_scale=True)
        narrow = resize_float(build, build.splat(extract(build, scale, 0), 1), f16)
        build.vstore(bitcast(build, narrow, i8), target, [row, place])
        for at, code in zip((2, 2 + HALF), codes, strict=True):
            build.vstore(octets(build, code), target, [row, build.add(place, at)])

    def line(row: SSAValue) -> None:
        build.loop(0, count // block.elements, 1, lambda n: one(row, n), hint="block")

    build.loop(0, build.dim(source, 0), 1, line, parallel=True, hint="row")
    return True


def _dequantize(build: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, DequantizeBlocksOp)
    source, target = (_rows(build, value) for value in (op.inputs[0], op.output))
    nbytes = build.dim(source, 1)
    assert isinstance(nbytes, int)

    def line(row: SSAValue) -> None:
        unpack_row(
            build,
            BLOCKS[op.block.data],
            nbytes,
            (source, lambda at: [row, at]),
            (target, lambda at: [row, at]),
        )

    build.loop(0, build.dim(source, 0), 1, line, parallel=True, hint="row")
    return True


RULES: dict[str, Rule] = {QuantizeBlocksOp.name: _quantize, DequantizeBlocksOp.name: _dequantize}
