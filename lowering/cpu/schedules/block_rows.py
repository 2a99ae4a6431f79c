"""Rows of blocks as a package has them, unpacked to f32: what a gather reads.

The operations and their order are those of `runtime/unpacking.py`, so that the values are equal bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, f16, f32, i32
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.arith import ExtSIOp, ExtUIOp, SIToFPOp
from openinfer.lowering.cpu.schedules.block_words import Words, bitcast, extract
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import resize_float
from openinfer.runtime.blocks import E2M1, IQ4, BlockFormat
from openinfer.runtime.quick_dataclass import dataclass

LANES = 16
"""Elements that are unpacked together: all formats have them in groups of so many."""
Place = Callable[[Index], list[Index]]
"""The indices of an element of a row."""


def unpack_row(
    build: LoopBuilder,
    block: BlockFormat,
    nbytes: int,
    source: tuple[SSAValue, Place],
    target: tuple[SSAValue, Place],
) -> None:
    """Writes the elements of a row of `nbytes` bytes."""

    def one(number: SSAValue) -> None:
        row = _Row(build, block, source, build.mul(number, block.nbytes))
        first = build.mul(number, block.elements)
        for step, values in ROW_READERS[block.name](row):
            build.vstore(values, target[0], target[1](build.add(first, step)))

    build.loop(0, nbytes // block.nbytes, 1, one, hint="block")


@dataclass
class _Row:
    """One block of a row; vectors have `LANES` lanes, numbers stand in all of them."""

    build: LoopBuilder
    block: BlockFormat
    source: tuple[SSAValue, Place]
    start: SSAValue

    def __post_init__(self) -> None:
        self.v = Words(self.build, LANES)

    def data(self, part: str, byte: int, count: int) -> SSAValue:
        """Some bytes of a part."""
        offset = self.block.part(part).offset + byte
        buffer, place = self.source
        return self.build.vload(buffer, place(self.build.add(self.start, offset)), count)

    def codes(self, part: str, byte: int, *, signed: bool = False) -> SSAValue:
        """Bytes as words."""
        data = self.data(part, byte, LANES)
        return self.build.insert((ExtSIOp if signed else ExtUIOp)(data, self.v.words))

    def half(self, part: str) -> SSAValue:
        """An f16 as f32."""
        value = extract(self.build, bitcast(self.build, self.data(part, 0, 2), f16), 0)
        return self.build.splat(resize_float(self.build, value, f32), LANES)

    def word(self, part: str) -> SSAValue:
        value = extract(self.build, bitcast(self.build, self.data(part, 0, 4), i32), 0)
        return self.build.splat(value, LANES)

    def byte(self, part: str, byte: int, *, signed: bool = False) -> SSAValue:
        value = extract(self.build, self.data(part, byte, 1), 0)
        return self.build.splat(
            self.build.insert((ExtSIOp if signed else ExtUIOp)(value, i32)), LANES
        )

    def bits_from(self, word: SSAValue, first: int) -> SSAValue:
        """Bit `first + lane` of a word."""
        numbers = list(range(first, first + LANES))
        kind = self.v.words
        shifts = arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(kind, numbers), kind)
        moved = self.build.insert(arith.ShRUIOp(word, self.build.insert(shifts)))
        return self.v.both(moved, 1)

    def number(self, words: SSAValue, offset: int = 0) -> SSAValue:
        """Words less an offset, as f32."""
        if offset:
            words = self.build.insert(arith.SubiOp(words, self.v.number(offset)))
        return self.build.insert(SIToFPOp(words, self.v.floats))

    def times(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.build.insert(arith.MulfOp(a, b))

    def plus(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.build.insert(arith.AddfOp(a, b))

    def minus(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.build.insert(arith.SubfOp(a, b))

    def of_table(self, codes: SSAValue, table: Sequence[int]) -> SSAValue:
        """What codes stand for, as f32."""
        return self.number(self.v.byte_of(self.v.looked_up(codes, table), 0, signed=True))

    def nibbles(self, packed: SSAValue, high: int) -> SSAValue:
        """The low nibbles of bytes, or with 1 the high ones."""
        return self.v.shr(packed, 4) if high else self.v.both(packed, 15)


Steps = Iterator[tuple[int, SSAValue]]
"""Elements: the first one, the values."""


def _bytes(row: _Row) -> Steps:
    d = row.half("d")
    for at in (0, LANES):
        yield at, row.times(d, row.number(row.codes("qs", at, signed=True)))


def _nibbles(row: _Row) -> Steps:
    name = row.block.name
    d, packed = row.half("d"), row.codes("qs", 0)
    m = row.half("m") if name.endswith("_1") else None
    high = row.word("qh") if name.startswith("q5") else None
    for half in (0, 1):
        codes = row.nibbles(packed, half)
        if high is not None:
            codes = row.v.either(codes, row.v.shl(row.bits_from(high, LANES * half), 4))
        if m is not None:
            yield LANES * half, row.plus(row.times(d, row.number(codes)), m)
        else:
            yield LANES * half, row.times(d, row.number(codes, 16 if high is not None else 8))


def _super_nibbles(row: _Row) -> Steps:
    v = row.v
    d, dmin = row.half("d"), row.half("dmin")
    packed = [row.byte("scales", n) for n in range(12)]
    for sub in range(8):
        if sub < 4:
            scale, minimum = (v.both(packed[sub + at], 63) for at in (0, 4))
        else:
            low, tops = packed[sub + 4], [v.shr(packed[sub + at], 6) for at in (-4, 0)]
            scale = v.either(v.both(low, 15), v.shl(tops[0], 4))
            minimum = v.either(v.shr(low, 4), v.shl(tops[1], 4))
        factor = row.times(d, row.number(scale))
        less = row.times(dmin, row.number(minimum))
        for at in (0, LANES):
            codes = row.nibbles(row.codes("qs", 32 * (sub // 2) + at), sub % 2)
            if row.block.name == "q5_k":
                bit = v.both(v.shr(row.codes("qh", at), sub), 1)
                codes = v.either(codes, v.shl(bit, 4))
            yield 32 * sub + at, row.minus(row.times(factor, row.number(codes)), less)


def _six_bits(row: _Row) -> Steps:
    v, d = row.v, row.half("d")
    for number in range(16):
        half, rest = divmod(LANES * number, 128)
        quarter = rest // 32
        low = row.nibbles(row.codes("ql", 64 * half + rest % 64), rest // 64)
        high = v.both(v.shr(row.codes("qh", 32 * half + rest % 32), 2 * quarter), 3)
        scale = row.times(d, row.number(row.byte("scales", number, signed=True)))
        yield LANES * number, row.times(scale, row.number(v.either(low, v.shl(high, 4)), 32))


def _tables(row: _Row) -> Steps:
    v, packed = row.v, row.codes("qs", 0)
    if row.block.name == "mxfp4":
        scale, table = v.exponent(row.byte("e", 0)), E2M1
    else:
        scale, table = row.half("d"), IQ4
    for half in (0, 1):
        yield LANES * half, row.times(scale, row.of_table(row.nibbles(packed, half), table))


def _super_tables(row: _Row) -> Steps:
    v, d = row.v, row.half("d")
    low = [row.byte("scales_l", n) for n in range(4)]
    upper = [row.byte("scales_h", n) for n in range(2)]
    high = v.either(upper[0], v.shl(upper[1], 8))
    for sub in range(8):
        code = v.either(
            v.both(v.shr(low[sub // 2], 4 * (sub % 2)), 15),
            v.shl(v.both(v.shr(high, 2 * sub), 3), 4),
        )
        scale = row.times(d, row.number(code, 32))
        packed = row.codes("qs", 16 * sub)
        for half in (0, 1):
            codes = row.of_table(row.nibbles(packed, half), IQ4)
            yield 32 * sub + LANES * half, row.times(scale, codes)


ROW_READERS: dict[str, Callable[[_Row], Steps]] = {
    "q8_0": _bytes,
    "q4_0": _nibbles,
    "q4_1": _nibbles,
    "q5_0": _nibbles,
    "q5_1": _nibbles,
    "q4_k": _super_nibbles,
    "q5_k": _super_nibbles,
    "q6_k": _six_bits,
    "iq4_nl": _tables,
    "iq4_xs": _super_tables,
    "mxfp4": _tables,
}
"""The formats whose rows kernels of the CPU unpack."""
