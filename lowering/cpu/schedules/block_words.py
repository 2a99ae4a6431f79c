"""Vectors of integers and floats that blocks of weights are taken apart with."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import (
    DenseArrayBase,
    FixedBitwidthType,
    VectorType,
    f16,
    f32,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects.extensions.arith import ExtUIOp, SIToFPOp
from openinfer.dialects.nn import LookUpBytesOp
from openinfer.lowering.attributes import vector_of
from openinfer.lowering.cpu.schedules.packing import Matrix
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import compare_integers, element_type, resize_float, select


class Words:
    """Builds arithmetic on vectors of `lanes` words of 32 bits."""

    def __init__(self, build: LoopBuilder, lanes: int) -> None:
        self.build = build
        self.lanes = lanes
        self.words = VectorType(i32, [lanes])
        self.floats = VectorType(f32, [lanes])

    def number(self, value: int) -> SSAValue:
        return self.build.constant(value, self.words)

    def _with(self, kind: type[Operation], a: SSAValue, number: int) -> SSAValue:
        made = kind.create(operands=(a, self.number(number)), result_types=(a.type,))
        return self.build.insert(made)

    def shl(self, a: SSAValue, bits: int) -> SSAValue:
        return self.build.insert(arith.ShLIOp(a, self.number(bits))) if bits else a

    def shr(self, a: SSAValue, bits: int) -> SSAValue:
        return self.build.insert(arith.ShRUIOp(a, self.number(bits))) if bits else a

    def shr_by(self, a: SSAValue, bits: Index) -> SSAValue:
        """Shifted by a number of bits that may be known to the loop alone."""
        if isinstance(bits, int):
            return self.shr(a, bits)
        count = self.build.insert(arith.IndexCastOp(bits, i32))
        return self.build.insert(arith.ShRUIOp(a, self.build.splat(count, self.lanes)))

    def shr_signed(self, a: SSAValue, bits: int) -> SSAValue:
        return self.build.insert(arith.ShRSIOp(a, self.number(bits))) if bits else a

    def both(self, a: SSAValue, mask: int) -> SSAValue:
        return self.build.made(arith.AndIOp, (a, self.number(mask)), a.type)

    def either(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.build.made(arith.OrIOp, (a, b), a.type)

    def flipped(self, a: SSAValue, mask: int) -> SSAValue:
        return self.build.made(arith.XOrIOp, (a, self.number(mask)), a.type)

    def times(self, a: SSAValue, number: int) -> SSAValue:
        return self.build.made(arith.MuliOp, (a, self.number(number)), a.type)

    def float_of(self, a: SSAValue) -> SSAValue:
        """Integers with a sign as f32."""
        return self.build.insert(SIToFPOp(a, self.floats))

    def byte_of(self, word: SSAValue, byte: int, *, signed: bool) -> SSAValue:
        """One of the four bytes of each word."""
        if signed:
            return self.shr_signed(self.shl(word, 24 - 8 * byte), 24)
        moved = self.shr(word, 8 * byte)
        return moved if byte == 3 else self.both(moved, 255)

    def alone(self, word: SSAValue, byte: int, *, on_top: bool) -> SSAValue:
        """One of the four bytes of each word and zeros: as the highest one, or as the lowest.

        One instruction that moves bytes. On top a byte with a sign counts 2^24 times.
        """
        octets = bitcast(self.build, word, i8)
        assert isinstance(octets.type, VectorType)
        nothing = 4 * self.lanes
        order = [nothing] * (4 * self.lanes)
        for lane in range(self.lanes):
            order[4 * lane + (3 if on_top else 0)] = 4 * lane + byte
        mask = DenseArrayBase.from_list(i64, order)
        zeros = self.build.constant(0, octets.type)
        moved = vector.ShuffleOp(octets, zeros, mask, result_type=octets.type)
        return bitcast(self.build, self.build.insert(moved), i32)

    def less(self, word: SSAValue, number: int) -> SSAValue:
        """The bytes of words less a number, modulo 256."""
        octets = bitcast(self.build, word, i8)
        numbers = self.build.constant(number, octets.type)
        return bitcast(self.build, self.build.insert(arith.SubiOp(octets, numbers)), i32)

    def looked_up(self, words: SSAValue, table: Sequence[int]) -> SSAValue:
        """The bytes of a table for bytes below 16."""
        return self.build.insert(LookUpBytesOp(words, table))

    def exponent(self, byte: SSAValue) -> SSAValue:
        """2^(byte - 128) as f32, of words below 256: no normal number below 2."""
        build = self.build
        small = self.shl(self.both(byte, 1), 21)
        small = build.insert(arith.AddiOp(small, self.number(0x200000)))
        less = build.insert(arith.SubiOp(byte, self.number(1)))
        few = compare_integers(build, "ult", byte, self.number(2))
        return build.insert(
            arith.BitcastOp(select(build, few, small, self.shl(less, 23)), self.floats)
        )

    def load(self, source: Matrix, place: list[Index], unit: int) -> SSAValue:
        """Neighbouring units of 1 (without a sign), 2 (f16) or 4 bytes: as i32, f32 or words."""
        data = self.build.vload(source.buffer, source.at(*place), unit * self.lanes)
        if unit == 1:
            return self.build.insert(ExtUIOp(data, self.words))
        if unit == 2:
            return resize_float(self.build, bitcast(self.build, data, f16), f32)
        return bitcast(self.build, data, i32)


def bitcast(build: LoopBuilder, value: SSAValue, element: Attribute) -> SSAValue:
    """A vector of bytes as one of elements of 1, 2 or 4 bytes, or the other way round."""
    assert isinstance(value.type, VectorType)
    source = element_type(value)
    assert isinstance(source, FixedBitwidthType)
    assert isinstance(element, FixedBitwidthType)
    count = value.type.get_shape()[0] * source.bitwidth // element.bitwidth
    return build.made(vector.BitcastOp, (value,), vector_of(element, count))


def scalar_of(build: LoopBuilder, source: Matrix, place: list[Index], kind: Attribute) -> SSAValue:
    """A scalar of two or four bytes out of a buffer of bytes."""
    size = 2 if kind == f16 else 4
    data = build.vload(source.buffer, source.at(*place), size)
    return extract(build, bitcast(build, data, kind), 0)


def extract(build: LoopBuilder, value: SSAValue, lane: int) -> SSAValue:
    """One element of a vector."""
    return build.insert(
        vector.ExtractOp.build(
            operands=[value, []],
            result_types=[element_type(value)],
            properties={"static_position": DenseArrayBase.from_list(i64, [lane])},
        )
    )
