"""`nn.unpack_blocks`: the values of a weight in blocks, for products of many rows.

An invocation has a pair of words of four neighbouring columns (`block_panels.py` says how they lie), and
stores four neighbours twice of each of four rows of the result.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.nn import BlocksAttr, UnpackBlocksOp
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.vulkan.schedules.block_panels import (
    COLUMNS,
    WORD,
    WORDS,
    codes_of,
    scales_of,
)
from openinfer.lowering.vulkan.schedules.grid import Grid, HostValue, grid_for, numbered, split
from openinfer.lowering.vulkan.schedules.wide import common_lanes, store_wide


def lower_unpack_blocks(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of an op that unpacks a weight."""
    assert isinstance(op, UnpackBlocksOp)
    layout, source, output = op.layout, op.inputs[0], op.output
    assert isinstance(layout, BlocksAttr)
    assert isinstance(source.type, MemRefType)
    assert isinstance(output.type, MemRefType)
    panels, blocks, _ = source.type.get_shape()
    columns, element = output.type.get_shape()[0], output.type.element_type
    lanes = common_lanes(op, (output,))
    half = layout.format.elements // 2

    def one(number: SSAValue) -> None:
        panel, block, word, four = split(b, number, [panels, blocks, WORDS, COLUMNS // WORD])
        scales = scales_of(b, layout, source, (panel, block), four)
        codes = codes_of(b, layout, source, (panel, block), word, four)
        step = b.add(b.mul(block, layout.format.elements), b.mul(word, WORD))
        first = b.add(b.mul(panel, COLUMNS), b.mul(four, WORD))
        for n, (scale, own) in enumerate(zip(scales, codes)):
            values = [convert(b, b.insert(arith.MulfOp(code, scale)), element) for code in own]
            column = b.add(first, n) if n else first

            def store(column: SSAValue = column, values: list[SSAValue] = values) -> None:
                for part in range(2):
                    at = b.add(step, part * half) if part else step
                    _store(b, output, column, at, values[part * WORD : (part + 1) * WORD], lanes)

            if columns % COLUMNS:
                b.when(b.compare("ult", column, columns), store)
            else:
                store()

    count = panels * blocks * WORDS * (COLUMNS // WORD)
    numbered(b, count, one)

    def groups(host: LoopBuilder, value_of: HostValue) -> tuple[Index, Index, Index]:
        return grid_for(host, count)

    return Grid(groups)


def _store(
    b: LoopBuilder,
    output: SSAValue,
    column: SSAValue,
    step: SSAValue,
    values: list[SSAValue],
    lanes: int,
) -> None:
    """Neighbours of a row of the result, in one access where it has `lanes` of them."""
    if lanes >= WORD:
        store_wide(b, values, output, [column, step])
        return
    for n, value in enumerate(values):
        b.store(value, output, [column, b.add(step, n) if n else step])
