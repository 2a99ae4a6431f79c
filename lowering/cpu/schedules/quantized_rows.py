"""Rows of floats rounded to blocks of bytes (`nn.quantize_rows`).

Before:
    nn.quantize_rows(%x) outs(%y) : (memref<?x64xf32>, memref<?x96xi8>) -> ()

After:
    scf.for %row = %c0 to %rows step %c1 { scf.for %block = %c0 to %c2 step %c1 {
      … %largest, %d = %largest / 127, the bytes, their sums … } } {openinfer.parallel}
"""

from __future__ import annotations

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import DenseArrayBase, MemRefType, VectorType, f32, i8, i64
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.extensions.arith import TruncIOp
from openinfer.dialects.nn import QuantizeRowsOp
from openinfer.dialects.nn.row_ops import (
    ROW_BYTES,
    ROW_ELEMENTS,
    ROW_SCALE,
    ROW_SUM,
    ROW_SUMS,
)
from openinfer.lowering.cpu.schedules.block_words import Words, bitcast, extract
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.numeric import (
    INF,
    absolute,
    compare_floats,
    largest,
    resize_float,
    select,
)
from openinfer.lowering.kernels.rules import Rule
from openinfer.lowering.kernels.runs import collapse

HALF = ROW_ELEMENTS // 2
ROUNDING = 12582912.0
"""1.5 · 2^23: what is added to it loses its fraction, rounded to the nearest even, and the integer is in its
lowest bits."""
ROUNDING_BITS = 0x4B400000


def _quantize(build: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, QuantizeRowsOp)
    source, target = op.inputs[0], op.output
    kind = source.type
    assert isinstance(kind, MemRefType)
    rank = kind.get_num_dims()
    if rank > 2:
        groups = [list(range(rank - 1)), [rank - 1]]
        source, target = (collapse(build, value, groups) for value in (source, target))
    blocks = kind.get_shape()[-1] // ROW_ELEMENTS

    def row(number: SSAValue) -> None:
        build.loop(
            0, blocks, 1, lambda block: _block(build, source, target, number, block), hint="block"
        )

    build.loop(0, build.dim(source, 0), 1, row, parallel=True, hint="row")
    return True


def _block(
    build: LoopBuilder, source: SSAValue, target: SSAValue, row: SSAValue, block: SSAValue
) -> None:
    """One block of one row."""
    v = Words(build, HALF)
    first, place = build.mul(block, ROW_ELEMENTS), build.mul(block, ROW_BYTES)
    halves = [
        resize_float(build, build.vload(source, [row, build.add(first, at)], HALF), f32)
        for at in (0, HALF)
    ]
    scale, codes = rounded_block(build, halves, 2.0**-120)
    sums: list[SSAValue] = []
    for at, code in zip((0, HALF), codes, strict=True):
        build.vstore(octets(build, code), target, [row, build.add(place, at)])
        for distance in (8, 4, 2, 1):
            code = build.insert(arith.AddiOp(code, _turned(build, code, distance)))
        sums.append(v.times(code, -128))
    for byte, value in (
        (ROW_SCALE, scale),
        (ROW_SUMS, sums[0]),
        (ROW_SUMS + 4, sums[1]),
        (ROW_SUM, build.insert(arith.AddiOp(sums[0], sums[1]))),
    ):
        one = build.splat(extract(build, value, 0), 1)
        build.vstore(bitcast(build, one, i8), target, [row, build.add(place, byte)])


def rounded_block(
    build: LoopBuilder, halves: list[SSAValue], least: float, *, by_scale: bool = False
) -> tuple[SSAValue, list[SSAValue]]:
    """d = max |x| / 127 of 32 elements, in all lanes, and x / d rounded to the nearest even, as words.

    Elements are multiplied by 127 / max |x|, or `by_scale` by 1 / d. Where max |x| is no more than `least`,
    d and codes are 0; an element that is not finite makes d NaN and codes 0.
    """
    v = Words(build, HALF)
    most = largest(build, *(absolute(build, half) for half in halves))
    for distance in (8, 4, 2, 1):
        most = largest(build, most, _turned(build, most, distance))
    zero, factor = build.constant(0, v.floats), build.constant(127, v.floats)
    finite = compare_floats(build, "olt", most, build.constant(INF, v.floats))
    enough = compare_floats(build, "ogt", most, build.constant(least, v.floats))
    some = build.insert(arith.AndIOp(finite, enough))
    scale = build.insert(arith.DivfOp(most, factor))
    if by_scale:
        inverse = build.insert(arith.DivfOp(build.constant(1, v.floats), scale))
    else:
        inverse = build.insert(arith.DivfOp(factor, most))
    inverse = select(build, some, inverse, zero)
    nothing = build.constant(float("nan"), v.floats)
    scale = select(build, some, scale, select(build, finite, zero, nothing))
    magic, bits = build.constant(ROUNDING, v.floats), v.number(ROUNDING_BITS)
    codes: list[SSAValue] = []
    for half in halves:
        scaled = select(build, some, build.insert(arith.MulfOp(half, inverse)), zero)
        rounded = build.insert(arith.AddfOp(scaled, magic))
        codes.append(
            build.insert(arith.SubiOp(build.insert(arith.BitcastOp(rounded, v.words)), bits))
        )
    return scale, codes


def octets(build: LoopBuilder, code: SSAValue) -> SSAValue:
    """Words as bytes, modulo 256."""
    return build.insert(TruncIOp(code, VectorType(i8, [HALF])))


def _turned(build: LoopBuilder, value: SSAValue, distance: int) -> SSAValue:
    """The lanes so many places further on, in a circle."""
    order = DenseArrayBase.from_list(i64, [(lane + distance) % HALF for lane in range(HALF)])
    kind = value.type
    assert isinstance(kind, VectorType)
    return build.insert(vector.ShuffleOp(value, value, order, result_type=kind))


RULES: dict[str, Rule] = {QuantizeRowsOp.name: _quantize}
