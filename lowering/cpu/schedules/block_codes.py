"""What the bytes of a panel in `#nn.blocks` mean: codes and scales of its columns, one column in a lane.

A block of a column is elements `scale · (code - offset) - minimum`. The codes of four neighbouring steps are
the bytes of a word, so that a vector of words multiplies with four elements of a row, repeated in all lanes.
A row of blocks is read in slabs, which are what one round of a loop takes apart.

| form | formats |
|---|---|
| bytes with a sign, a scale for 32 | q8_0 |
| 4 bits, a scale for 32, an offset or a minimum | q4_0, q4_1, q4_k |
| 5 bits, in the same way | q5_0, q5_1, q5_k |
| 6 bits, a scale for 16 | q6_k |
| 4 bits that stand for a byte of a table, a scale for 32 | iq4_nl, iq4_xs, mxfp4 |

`runtime/unpacking.py` says the same of a single block in NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32, i16
from xdsl.dialects.memref import AllocaOp
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.arith import ExtSIOp, ExtUIOp
from openinfer.dialects.nn import BlocksAttr
from openinfer.lowering.cpu.schedules.block_words import Words, bitcast
from openinfer.lowering.cpu.schedules.packing import Matrix
from openinfer.lowering.cpu.schedules.product import at_entry
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.runtime.blocks import E2M1, IQ4
from openinfer.runtime.quick_dataclass import dataclass

LOW = 0x0F0F0F0F
"""The low nibbles of the bytes of a word."""
BITS = 0x01010101
"""The lowest bits of its bytes."""


@dataclass(frozen=True)
class Group:
    """Neighbouring steps that share scales, 16 or 32 of them, of all columns of a panel."""

    number: Index
    """Which 32 steps of the block they are, or belong to."""
    scale: SSAValue
    bits: int
    """Of a code: 8 are a byte with a sign, fewer have none."""
    offset: int = 0
    minimum: SSAValue | None = None
    half: Index | None = None
    """Which 16 of the 32 steps they are, 0 or 1; None for all of them."""

    @property
    def signed(self) -> bool:
        return self.bits == 8


Word = tuple[Index, SSAValue]
"""Codes of four neighbouring steps: the first step, counted from that of their group, and the codes."""


class PanelReader:
    """Takes the blocks of one panel apart; one subclass for each form.

    A slab is read piece by piece: `words` has for each group what one round of a loop multiplies.
    """

    slabs: ClassVar[int] = 1
    """In how many slabs a block is read."""
    pieces: ClassVar[int]
    """In how many pieces a slab is."""

    minimum_factor: float = 1.0
    """What minima are multiplied by, a power of two."""

    def __init__(
        self, build: LoopBuilder, layout: BlocksAttr, source: Matrix, panel: Index
    ) -> None:
        self.build = build
        self.layout = layout
        self.source = source
        self.panel = panel
        self.v = Words(build, layout.columns)

    def begin(self, block: SSAValue) -> None:
        """Goes to a block: reads what all of its slabs share."""
        self.block = block

    def groups(self, slab: Index) -> list[Group]:
        """What codes of a slab count with."""
        raise NotImplementedError

    def words(self, slab: Index, piece: Index) -> list[list[Word]]:
        """The codes of a piece, for each group."""
        raise NotImplementedError

    def of_minimum(self, value: SSAValue, sign: int = 1) -> SSAValue:
        """A minimum with its factor."""
        if sign * self.minimum_factor == 1:
            return value
        factor = self.build.constant(sign * self.minimum_factor, self.v.floats)
        return self.build.insert(arith.MulfOp(value, factor))

    def unit(self, part: str, number: Index) -> SSAValue:
        """One unit of a part of the block, of all columns."""
        size = self.layout.format.part(part).unit
        step = self.build.times(number, self.layout.columns * size)
        byte = self.build.plus(step, self.layout.place(part, 0))
        return self.v.load(self.source, [self.panel, self.block, byte], size)


class Bytes(PanelReader):
    """q8_0."""

    pieces: ClassVar[int] = 8

    def groups(self, slab: Index) -> list[Group]:
        return [Group(0, self.unit("d", 0), 8)]

    def words(self, slab: Index, piece: Index) -> list[list[Word]]:
        return [[(self.build.times(piece, 4), self.unit("qs", piece))]]


class Nibbles(PanelReader):
    """q4_0, q4_1, q5_0 and q5_1: low nibbles are the first 16 elements, high ones the others."""

    pieces: ClassVar[int] = 4

    def begin(self, block: SSAValue) -> None:
        super().begin(block)
        self.high = self.unit("qh", 0) if self._five else None

    @property
    def _five(self) -> bool:
        return self.layout.block.data.startswith("q5")

    def groups(self, slab: Index) -> list[Group]:
        scale, bits = self.unit("d", 0), 5 if self._five else 4
        if self.layout.block.data.endswith("_1"):
            minimum = self.of_minimum(self.unit("m", 0), -1)
            return [Group(0, scale, bits, minimum=minimum)]
        return [Group(0, scale, bits, 1 << (bits - 1))]

    def words(self, slab: Index, piece: Index) -> list[list[Word]]:
        v, packed = self.v, self.unit("qs", piece)
        step = self.build.times(piece, 4)
        found: list[Word] = []
        for half in (0, 1):
            here = self.build.plus(step, 16 * half)
            word = v.both(v.shr(packed, 4 * half), LOW)
            if self.high is not None:
                word = v.either(word, self._fifth(self.high, here))
            found.append((here, word))
        return [found]

    def _fifth(self, high: SSAValue, step: Index) -> SSAValue:
        """Four of the 32 bits, from that of a step on, as the fifth bits of the bytes of a word."""
        v = self.v
        four = v.both(v.shr_by(high, step), 15)
        # Bit i goes to bit 8 i: the product has the bits at 0, 8, 16, 24, and others between them.
        return v.shl(v.both(v.times(four, 0x00204081), BITS), 4)


class SuperNibbles(PanelReader):
    """q4_k and q5_k: 256 elements, scales and minima of 6 bits for each 32."""

    slabs: ClassVar[int] = 4
    pieces: ClassVar[int] = 8

    def __init__(
        self, build: LoopBuilder, layout: BlocksAttr, source: Matrix, panel: Index
    ) -> None:
        super().__init__(build, layout, source, panel)
        self.stage = at_entry(build, AllocaOp.get(f32, alignment=64, shape=[16, layout.columns]))

    def begin(self, block: SSAValue) -> None:
        super().begin(block)
        v, build = self.v, self.build
        d, dmin = self.unit("d", 0), self.of_minimum(self.unit("dmin", 0))
        packed = [self.unit("scales", n) for n in range(12)]
        for n in range(8):
            if n < 4:
                scale, minimum = (v.both(packed[n + at], 63) for at in (0, 4))
            else:
                low, high = packed[n + 4], [v.shr(packed[n + at], 6) for at in (-4, 0)]
                scale = v.either(v.both(low, 15), v.shl(high[0], 4))
                minimum = v.either(v.shr(low, 4), v.shl(high[1], 4))
            for row, factor, value in ((n, d, scale), (8 + n, dmin, minimum)):
                product = build.insert(arith.MulfOp(factor, v.float_of(value)))
                build.vstore(product, self.stage, [row, 0])

    @property
    def _five(self) -> bool:
        return self.layout.block.data == "q5_k"

    def _number(self, slab: Index, half: int) -> Index:
        return self.build.plus(self.build.times(slab, 2), half)

    def groups(self, slab: Index) -> list[Group]:
        build, lanes = self.build, self.v.lanes
        found: list[Group] = []
        for half in (0, 1):
            number = self._number(slab, half)
            scale = build.vload(self.stage, [number, 0], lanes)
            minimum = build.vload(self.stage, [build.plus(number, 8), 0], lanes)
            bits = 5 if self._five else 4
            found.append(Group(number, scale, bits, minimum=minimum))
        return found

    def words(self, slab: Index, piece: Index) -> list[list[Word]]:
        v, build = self.v, self.build
        packed = self.unit("qs", build.plus(build.times(slab, 8), piece))
        high = self.unit("qh", piece) if self._five else None
        step = build.times(piece, 4)
        found: list[list[Word]] = []
        for half in (0, 1):
            word = v.both(v.shr(packed, 4 * half), LOW)
            if high is not None:
                bits = v.both(v.shr_by(high, self._number(slab, half)), BITS)
                word = v.either(word, v.shl(bits, 4))
            found.append([(step, word)])
        return found


class SixBits(PanelReader):
    """q6_k: 256 elements, scales of 8 bits for each 16.

    A slab is 16 elements of each quarter of one half of the block, those behind or before its middle.
    """

    slabs: ClassVar[int] = 4
    pieces: ClassVar[int] = 4

    def groups(self, slab: Index) -> list[Group]:
        v, build = self.v, self.build
        half, side = self._halves(slab)
        d = self.unit("d", 0)
        found: list[Group] = []
        for quarter in range(4):
            number = build.plus(build.times(half, 4), quarter)
            scale = self._scale(build.plus(build.times(number, 2), side))
            scale = build.insert(arith.MulfOp(d, v.float_of(scale)))
            found.append(Group(number, scale, 6, 32, half=side))
        return found

    def words(self, slab: Index, piece: Index) -> list[list[Word]]:
        v, build = self.v, self.build
        # Two words of `ql` and one of `qh` follow one another: `BlockFormat.in_panels`.
        number = build.plus(build.times(slab, 4), piece)
        start = build.times(number, 3 * 4 * self.layout.columns)
        start = build.plus(start, self.layout.place("ql", 0))
        first, second, high = (
            v.load(self.source, [self.panel, self.block, build.plus(start, at)], 4)
            for at in range(0, 12 * self.layout.columns, 4 * self.layout.columns)
        )
        found: list[list[Word]] = []
        for quarter in range(4):
            low = (first, second)[quarter % 2]
            nibbles = v.both(v.shr(low, 4 * (quarter // 2)), LOW)
            upper = v.shl(v.both(v.shr(high, 2 * quarter), 3 * BITS), 4)
            found.append([(build.times(piece, 4), v.either(nibbles, upper))])
        return found

    def _halves(self, slab: Index) -> tuple[Index, Index]:
        if isinstance(slab, int):
            return divmod(slab, 2)
        return self.build.floordiv(slab, 2), self.build.rem(slab, 2)

    def _scale(self, number: Index) -> SSAValue:
        """A scale, which has a sign."""
        v = self.v
        step = self.build.times(number, self.layout.columns)
        byte = self.build.plus(step, self.layout.place("scales", 0))
        place = self.source.at(self.panel, self.block, byte)
        return self.build.insert(
            ExtSIOp(self.build.vload(self.source.buffer, place, v.lanes), v.words)
        )


class Tables(PanelReader):
    """iq4_nl and mxfp4: nibbles as in q4_0, which stand for bytes of a table."""

    pieces: ClassVar[int] = 4

    def groups(self, slab: Index) -> list[Group]:
        if self.layout.block.data == "mxfp4":
            return [Group(0, self.v.exponent(self.unit("e", 0)), 8)]
        return [Group(0, self.unit("d", 0), 8)]

    def words(self, slab: Index, piece: Index) -> list[list[Word]]:
        step = self.build.times(piece, 4)
        table = E2M1 if self.layout.block.data == "mxfp4" else IQ4
        return [both_nibbles(self.build, self.v, self.unit("qs", piece), step, table)]


class SuperTables(PanelReader):
    """iq4_xs: 256 elements, scales of 6 bits for each 32; a slab is 32 elements."""

    slabs: ClassVar[int] = 8
    pieces: ClassVar[int] = 4

    def begin(self, block: SSAValue) -> None:
        super().begin(block)
        v, layout = self.v, self.layout
        place = self.source.at(self.panel, block, layout.place("scales_h", 0))
        halves = self.build.vload(self.source.buffer, place, 2 * layout.columns)
        self.high = self.build.insert(ExtUIOp(bitcast(self.build, halves, i16), v.words))

    def groups(self, slab: Index) -> list[Group]:
        v, build = self.v, self.build
        low = self.unit("scales_l", self._half(slab))
        low = v.both(v.shr_by(low, build.times(self._side(slab), 4)), 15)
        high = v.both(v.shr_by(self.high, build.times(slab, 2)), 3)
        code = build.insert(arith.SubiOp(v.either(low, v.shl(high, 4)), v.number(32)))
        scale = build.insert(arith.MulfOp(self.unit("d", 0), v.float_of(code)))
        return [Group(slab, scale, 8)]

    def words(self, slab: Index, piece: Index) -> list[list[Word]]:
        number = self.build.plus(self.build.times(slab, 4), piece)
        step = self.build.times(piece, 4)
        return [both_nibbles(self.build, self.v, self.unit("qs", number), step, IQ4)]

    def _half(self, slab: Index) -> Index:
        return slab // 2 if isinstance(slab, int) else self.build.floordiv(slab, 2)

    def _side(self, slab: Index) -> Index:
        return slab % 2 if isinstance(slab, int) else self.build.rem(slab, 2)


def both_nibbles(
    build: LoopBuilder, v: Words, packed: SSAValue, step: Index, table: Sequence[int]
) -> list[Word]:
    """What low and high nibbles stand for, steps from `step` on and 16 steps behind them."""
    found: list[Word] = []
    for half in (0, 1):
        codes = v.both(v.shr(packed, 4 * half), LOW)
        found.append((build.plus(step, 16 * half), v.looked_up(codes, table)))
    return found


READERS: dict[str, type[PanelReader]] = {
    "q8_0": Bytes,
    "q4_0": Nibbles,
    "q4_1": Nibbles,
    "q5_0": Nibbles,
    "q5_1": Nibbles,
    "q4_k": SuperNibbles,
    "q5_k": SuperNibbles,
    "q6_k": SixBits,
    "iq4_nl": Tables,
    "iq4_xs": SuperTables,
    "mxfp4": Tables,
}
"""The formats that kernels of the CPU read."""
