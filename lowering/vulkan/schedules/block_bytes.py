"""`nn.quantize_blocks` and `nn.dequantize_blocks`: rows of a program as bytes of `q8_0`, and back.

Before:
    nn.quantize_blocks(%x) outs(%y) {block = "q8_0"} : (memref<?x64xf32>, memref<?x68xi8>) -> ()

After:
    scf.if %inside {                     // %row and %block
      %most = scf.for %k = …             // the largest size of 32 elements
      …                                  // %d = %most / 127 as two bytes
      scf.for %k = … { memref.store %code, %y[%row, %place] } }

An invocation writes the 34 bytes of a block, or reads one element. Operations and their order are those of
the CPU, so that bytes are equal.

Requires: bufferised; the format `q8_0`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, MemRefType, f16, f32, i8, i32
from xdsl.dialects.math import RoundEvenOp
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.extensions.arith import ExtSIOp, ExtUIOp, FPToSIOp, SIToFPOp, TruncIOp
from openinfer.dialects.nn import DequantizeBlocksOp, QuantizeBlocksOp
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import (
    INF,
    absolute,
    compare_floats,
    greater,
    resize_float,
    select,
)
from openinfer.lowering.vulkan.schedules.grid import (
    Grid,
    each_element,
    grid_for,
    numbered,
    product,
    split,
)

ROW_FORMAT = "q8_0"
"""What these kernels write and read; `VulkanDemands` refuses ops of all others."""
LEAST = 2.0**-100
"""A smaller size has no inverse; d is 0 as f16 long before."""
NAN_BITS = 0x7E00
"""NaN as f16, as the simulator writes it."""
_I16 = IntegerType(16)


def lower_quantize_blocks(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of rows as blocks of bytes."""
    assert isinstance(op, QuantizeBlocksOp)
    source, target, block = op.inputs[0], op.output, op.format
    assert block.name == ROW_FORMAT

    def extents(builder: LoopBuilder, buffer: SSAValue) -> list[Index]:
        assert isinstance(buffer.type, MemRefType)
        found = [builder.dim(buffer, axis) for axis in range(buffer.type.get_num_dims())]
        # How long a row is the program knows.
        assert isinstance(found[-1], int)
        found[-1] //= block.elements
        return found

    def one(number: SSAValue) -> None:
        *row, place = split(b, number, extents(b, source))
        first = b.mul(place, block.elements)
        start = b.mul(place, block.nbytes)

        def element(k: Index) -> SSAValue:
            return resize_float(b, b.load(source, [*row, b.add(first, k)]), f32)

        def larger(k: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
            most, mark = old
            size = absolute(b, element(k))
            finite = compare_floats(b, "olt", size, b.constant(INF, f32))
            return [greater(b, size, most), select(b, finite, mark, b.constant(nan, f32))]

        zero = b.constant(0, f32)
        most, mark = b.reduce(0, block.elements, 1, [zero, zero], larger, hint="k")
        d = b.insert(arith.DivfOp(most, b.constant(127, f32)))
        finite = compare_floats(b, "oeq", mark, zero)
        large = compare_floats(b, "ogt", most, b.constant(LEAST, f32))
        counts = b.insert(arith.AndIOp(finite, large))
        scale = resize_float(b, d, f16)
        word = b.insert(ExtUIOp(b.insert(arith.BitcastOp(scale, _I16)), i32))
        # Devices differ in the bits of a NaN.
        word = select(b, finite, word, b.constant(NAN_BITS, i32))
        for n in range(2):
            part = b.insert(arith.ShRUIOp(word, b.constant(8 * n, i32))) if n else word
            b.store(b.insert(TruncIOp(part, i8)), target, [*row, b.add(start, n)])
        divisor = select(b, counts, d, b.constant(1, f32))
        inverse = b.insert(arith.DivfOp(b.constant(1, f32), divisor))

        def code(k: SSAValue) -> None:
            value = b.insert(RoundEvenOp(b.insert(arith.MulfOp(element(k), inverse))))
            value = select(b, counts, value, zero)
            found = b.insert(TruncIOp(b.insert(FPToSIOp(value, i32)), i8))
            b.store(found, target, [*row, b.add(b.add(start, 2), k)])

        b.loop(0, block.elements, 1, code, hint="k")

    numbered(b, product(b, extents(b, source)), one)
    return Grid(
        lambda host, value_of: grid_for(host, product(host, extents(host, value_of(source))))
    )


def lower_dequantize_blocks(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of the values of such rows."""
    assert isinstance(op, DequantizeBlocksOp)
    source, block = op.inputs[0], op.format
    assert block.name == ROW_FORMAT

    def element(place: list[SSAValue]) -> None:
        *row, k = place
        start = b.mul(b.floordiv(k, block.elements), block.nbytes)
        low, high = (
            b.insert(ExtUIOp(b.load(source, [*row, b.add(start, n)]), i32)) for n in range(2)
        )
        moved = b.insert(arith.ShLIOp(high, b.constant(8, i32)))
        word = b.insert(TruncIOp(b.insert(arith.OrIOp(low, moved)), _I16))
        d = resize_float(b, b.insert(arith.BitcastOp(word, f16)), f32)
        at = b.add(b.add(start, 2), b.rem(k, block.elements))
        code = b.insert(ExtSIOp(b.load(source, [*row, at]), i32))
        value = b.insert(arith.MulfOp(d, b.insert(SIToFPOp(code, f32))))
        b.store(value, op.output, place)

    return each_element(b, op.output, element)
