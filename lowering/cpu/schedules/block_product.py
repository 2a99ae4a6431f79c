"""Products with weights in blocks: the same loops over panels and rows, and their own way along a row.

    for each panel of columns                                      (parallel)
      for each tile of rows
        for each row of blocks: take codes and scales apart, then
          exact   elements of the weight in f32, multiplied with one element of every row and added up;
                  for few rows codes instead, whose sums then count with the scale of their group
          q8      words of codes, multiplied with a word of every row and added up in 32 bits; the sums of a
                  block count with its scale and with that of the row's block

Rows of blocks are read in the order in which they lie, which the processor fetches ahead by itself. Asking
for lines 4 or 10 KB ahead was slower with few rows: 1.02 to 1.12 of the time for blocks of 32, 1.2 to 1.4
for q4_k and q5_k, 1.7 for q6_k (Zen 4, one thread, 150 MB of weights).

Each row of a tile is computed alike however many rows it has, so that a result does not depend on how many
rows a step brings; of the exact way only the order of a sum differs, and what is rounded on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from openinfer.dialects.nn import BlocksAttr, DotWordsOp
from openinfer.dialects.nn.row_ops import ROW_BYTES, ROW_ELEMENTS, ROW_SCALE, ROW_SUM, ROW_SUMS
from openinfer.lowering.cpu.schedules.block_codes import READERS, Group, PanelReader
from openinfer.lowering.cpu.schedules.block_words import Words, scalar_of
from openinfer.lowering.cpu.schedules.microkernel import Tile, split_for
from openinfer.lowering.cpu.schedules.product import Part, Product, Strip
from openinfer.lowering.cpu.schedules.streaming import FEW_ROWS
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import add
from openinfer.lowering.kernels.numeric import reduction
from openinfer.runtime.quick_dataclass import dataclass

Sums = Sequence[SSAValue]
SUMS_AT_ONCE = 8
"""Sums of few rows that are added to beside each other: as many as additions are on their way."""
ALL_SIGNS = -0x7F7F7F80
"""The sign bits of the bytes of a word: a byte with a sign is then itself plus 128, without one."""


@dataclass(kw_only=True)
class BlockProduct(Product):
    """Emits the loops of a product whose right operand is panels in `#nn.blocks`."""

    in_groups: ClassVar[bool] = False
    minimum_factor: ClassVar[float] = 1.0
    layout: BlocksAttr

    def _tile(self, strip: Strip, row: Index, rows: int, part: Part | None = None) -> Tile:
        assert part is None
        build, depth = self.build, self.extents.depth
        assert isinstance(depth, int)
        assert strip.vectors == 1
        places = [self._line(build.plus(row, number)) for number in range(rows)]
        source = self.right.matrix
        reader = READERS[self.layout.block.data](build, self.layout, source, strip.panel)
        reader.minimum_factor = self.minimum_factor
        beside = self._beside(rows)
        zero = build.constant(0, self.how.vector)
        blocks = depth // self.layout.format.elements

        def block(number: SSAValue, sums: Sums) -> Sums:
            reader.begin(number)
            if reader.slabs == 1:
                return self._slab(reader, number, 0, places, sums)
            return build.reduce(
                0,
                reader.slabs,
                1,
                sums,
                lambda slab, old: self._slab(reader, number, slab, places, old),
                hint="s",
                sums="products",
            )

        found = build.reduce(
            0, blocks, 1, [zero] * (rows * beside), block, hint="b", sums="products", beside=beside
        )
        parts = [list(found[n * beside : (n + 1) * beside]) for n in range(rows)]
        return [[_added(build, one)] for one in parts]

    def _line(self, row: Index) -> SSAValue:
        """The row of the left operand that a row of the product reads."""
        return self.build.index(row)

    def _beside(self, rows: int) -> int:
        """In how many parts the sum of a row is added up."""
        if rows <= FEW_ROWS:
            return 1
        return split_for(self.build, self.machine.accumulators, rows, 1)

    def _slab(
        self,
        reader: PanelReader,
        block: SSAValue,
        slab: Index,
        rows: Sequence[SSAValue],
        sums: Sums,
    ) -> Sums:
        """Goes on with the sums of all rows by one slab of a row of blocks."""
        if len(rows) <= FEW_ROWS:
            return self._scaled_slab(reader, block, slab, rows, sums)
        build, v = self.build, reader.v
        groups = reader.groups(slab)
        less = [self._subtracted(group) for group in groups]
        first = build.mul(block, self.layout.format.elements)
        starts = [self._step(first, group) for group in groups]
        beside = len(sums) // len(rows)

        def piece(number: SSAValue, old: Sums) -> Sums:
            found = list(old)
            for group, start, minus, words in zip(
                groups, starts, less, reader.words(slab, number), strict=True
            ):
                for step, word in words:
                    for byte in range(4):
                        code = v.float_of(v.byte_of(word, byte, signed=group.signed))
                        if minus is None:
                            weight = build.insert(arith.MulfOp(code, group.scale))
                        else:
                            weight = self.how.multiply_add(build, code, group.scale, minus)
                        k = build.add(build.add(start, step), byte)
                        for at, row in enumerate(rows):
                            element = build.load(self.left.buffer, self.left.at(row, k))
                            place = at * beside + byte % beside
                            left = self.how.spread(build, element)
                            found[place] = self.how.multiply_add(build, left, weight, found[place])
            return found

        return build.reduce(
            0, reader.pieces, 1, sums, piece, hint="w", sums="products", beside=beside
        )

    def _scaled_slab(
        self,
        reader: PanelReader,
        block: SSAValue,
        slab: Index,
        rows: Sequence[SSAValue],
        sums: Sums,
    ) -> Sums:
        """The same for few rows: products with codes are added up, and each group counts with its scale."""
        build, v, how = self.build, reader.v, self.how
        groups = reader.groups(slab)
        first = build.mul(block, self.layout.format.elements)
        starts = [self._step(first, group) for group in groups]
        beside = max(1, SUMS_AT_ONCE // (len(rows) * len(groups)))
        zero = build.constant(0, how.vector)
        parts = [[[zero] * beside for _ in rows] for _ in groups]
        for number in range(reader.pieces):
            pieces = reader.words(slab, number)
            for group, start, sides, words in zip(groups, starts, parts, pieces, strict=True):
                on_top = group.signed or group.offset != 0
                for word_number, (step, word) in enumerate(words, number * len(words)):
                    codes = v.less(word, group.offset) if group.offset else word
                    for byte in range(4):
                        code = v.float_of(v.alone(codes, byte, on_top=on_top))
                        k = build.add(build.add(start, step), byte)
                        for row, side in zip(rows, sides, strict=True):
                            element = build.load(self.left.buffer, self.left.at(row, k))
                            left = how.spread(build, element)
                            at = (word_number * 4 + byte) % beside
                            side[at] = how.multiply_add(build, left, code, side[at])
        found = list(sums)
        for group, start, sides in zip(groups, starts, parts, strict=True):
            on_top = group.signed or group.offset != 0
            for number, (row, side) in enumerate(zip(rows, sides, strict=True)):
                total = _added(build, side)
                if on_top:
                    total = build.insert(arith.MulfOp(total, build.constant(2.0**-24, how.vector)))
                if group.minimum is not None:
                    less = build.insert(arith.NegfOp(group.minimum))
                    elements = self._elements(row, start)
                    found[number] = how.multiply_add(build, elements, less, found[number])
                found[number] = how.multiply_add(build, total, group.scale, found[number])
        return found

    def _elements(self, row: SSAValue, start: SSAValue) -> SSAValue:
        """The sum of the elements of a row that a group of 32 meets, in all lanes."""
        build, half = self.build, ROW_ELEMENTS // 2
        halves = [
            self.how.widen(
                build, build.vload(self.left.buffer, self.left.at(row, build.add(start, at)), half)
            )
            for at in (0, half)
        ]
        return build.splat(reduction(build, "add", add(build, *halves)), self.how.lanes)

    def _step(self, first: SSAValue, group: Group) -> SSAValue:
        """The first step of a group, in a block whose first one is given."""
        build = self.build
        step = build.times(group.number, ROW_ELEMENTS)
        if group.half is not None:
            step = build.plus(step, build.times(group.half, ROW_ELEMENTS // 2))
        return build.add(first, step)

    def _subtracted(self, group: Group) -> SSAValue | None:
        """What is added to code times scale."""
        build = self.build
        if group.minimum is not None:
            return build.insert(arith.NegfOp(group.minimum))
        if not group.offset:
            return None
        factor = build.constant(-group.offset, self.how.vector)
        return build.insert(arith.MulfOp(group.scale, factor))


@dataclass(kw_only=True)
class ByteProduct(BlockProduct):
    """The same, of rows of `nn.quantize_rows`, which have -128 times the sums that meet minima."""

    minimum_factor: ClassVar[float] = 1 / 128

    def _beside(self, rows: int) -> int:
        return 1

    def _slab(
        self,
        reader: PanelReader,
        block: SSAValue,
        slab: Index,
        rows: Sequence[SSAValue],
        sums: Sums,
    ) -> Sums:
        build, v = self.build, reader.v
        groups = reader.groups(slab)
        places = [self._in_row(block, group) for group in groups]
        flips = groups[0].signed and build.facts.target.byte_dot
        starts = [
            self._start(v, row, place[0], group, 128 if flips else group.offset)
            for group, place in zip(groups, places, strict=True)
            for row in rows
        ]

        def piece(number: Index, old: Sums) -> Sums:
            totals = list(old)
            pieces = reader.words(slab, number)
            for at, (group, place, words) in enumerate(zip(groups, places, pieces, strict=True)):
                for step, code in words:
                    word = v.flipped(code, ALL_SIGNS) if flips else code
                    byte = build.add(build.add(place[0], place[1]), step)
                    for number_of_row, row in enumerate(rows):
                        one = at * len(rows) + number_of_row
                        others = scalar_of(build, self.left, [row, byte], i32)
                        totals[one] = build.insert(
                            DotWordsOp(
                                totals[one],
                                word,
                                build.splat(others, v.lanes),
                                unsigned=flips or not group.signed,
                                small=not group.signed,
                            )
                        )
            return totals

        totals: Sums = starts
        if len(rows) <= FEW_ROWS:
            for number in range(reader.pieces):
                totals = piece(number, totals)
        else:
            totals = build.reduce(0, reader.pieces, 1, starts, piece, hint="w")
        found = list(sums)
        for at, (group, place) in enumerate(zip(groups, places, strict=True)):
            here = totals[at * len(rows) : (at + 1) * len(rows)]
            for number, (row, total) in enumerate(zip(rows, here, strict=True)):
                value = build.insert(arith.MulfOp(v.float_of(total), group.scale))
                if group.minimum is not None:
                    sum = v.float_of(build.splat(self._sum(row, place[0], group), v.lanes))
                    value = self.how.multiply_add(build, sum, group.minimum, value)
                scale = scalar_of(build, self.left, [row, build.add(place[0], ROW_SCALE)], f32)
                left = build.splat(scale, v.lanes)
                found[number] = self.how.multiply_add(build, left, value, found[number])
        return found

    def _in_row(self, block: SSAValue, group: Group) -> tuple[SSAValue, Index]:
        """Where the row's block of a group begins, and where the group's bytes begin in it."""
        build = self.build
        each = self.layout.format.elements // ROW_ELEMENTS
        number = build.add(build.mul(block, each), group.number)
        half = 0 if group.half is None else build.times(group.half, ROW_ELEMENTS // 2)
        return build.mul(number, ROW_BYTES), half

    def _sum(self, row: SSAValue, place: SSAValue, group: Group) -> SSAValue:
        """-128 times the sum of the row's bytes that meet a group."""
        build = self.build
        byte: Index = ROW_SUM
        if group.half is not None:
            byte = build.plus(build.times(group.half, 4), ROW_SUMS)
        return scalar_of(build, self.left, [row, build.add(place, byte)], i32)

    def _start(
        self,
        v: Words,
        row: SSAValue,
        place: SSAValue,
        group: Group,
        offset: int,
    ) -> SSAValue:
        """What a sum of products with codes starts from: less the offset times the sum of the row's bytes."""
        if not offset:
            return v.number(0)
        sum = self.build.splat(self._sum(row, place, group), v.lanes)
        return v.shr_signed(sum, 7 - (offset.bit_length() - 1))


def _added(build: LoopBuilder, parts: list[SSAValue]) -> SSAValue:
    """The sum of some vectors, in pairs."""
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [add(build, a, b) for a, b in zip(parts[:half], parts[half:], strict=True)]
    return parts[0]
