"""Fours of bytes: products of i8 that add four at a time, and the panels that they read.

Rows 4q to 4q + 3 of a `[K, N]` matrix lie side by side, column by column, as `nn.dot_words` takes them. Their
sign bits are flipped, so that a byte is the element plus 128, without a sign; what does not exist is 0 or
128 there, and meets zeros. In the left operand, row by row, fours are neighbours already: one of them is
read as a word of 32 bits and repeated in all lanes. So a sum is too large by 128 times the sum of its row,
which is what it starts from (`row_starts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import DenseArrayBase, VectorType, i8, i16, i32, i64
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.arith import ExtUIOp
from openinfer.dialects.nn import DotWordsOp
from openinfer.lowering.cpu.schedules.block_words import bitcast, extract
from openinfer.lowering.cpu.schedules.microkernel import Arithmetic
from openinfer.lowering.cpu.schedules.packing import Matrix, transpose_into
from openinfer.lowering.cpu.schedules.pairs import over_panels
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import element_type, reduction
from openinfer.runtime.quick_dataclass import dataclass

FOUR = 4
SIGNS = -0x7F7F7F80
"""The sign bits of the bytes of a word."""
ONES = 0x01010101


@dataclass(frozen=True)
class QuadArithmetic(Arithmetic):
    """Sums in `lanes` i32; operands are words of four bytes, or the bytes of a panel."""

    def across(self, build: LoopBuilder, value: SSAValue) -> SSAValue:
        return bitcast(build, value, i32) if element_type(value) == i8 else value

    def spread(self, build: LoopBuilder, value: SSAValue) -> SSAValue:
        return build.splat(value, self.lanes)

    def multiply_add(
        self, build: LoopBuilder, left: SSAValue, right: SSAValue, total: SSAValue
    ) -> SSAValue:
        return build.insert(DotWordsOp(total, right, left, unsigned=True))


# Reading words ------------------------------------------------------------------------------------


def load_words(build: LoopBuilder, source: Matrix, row: Index, four: Index, count: int) -> SSAValue:
    """`count` neighbouring words of a row."""
    first = build.times(four, FOUR)
    return bitcast(build, build.vload(source.buffer, source.at(row, first), FOUR * count), i32)


def load_word(
    build: LoopBuilder, source: Matrix, row: Index, four: Index, rest: int = 0
) -> SSAValue:
    """Elements 4·four to 4·four + 3 of a row as a word; zeros behind the first `rest`, if it is not 0."""
    if not rest:
        return extract(build, load_words(build, source, row, four, 1), 0)
    first = build.times(four, FOUR)
    found: SSAValue | None = None
    for place in range(rest):
        value = build.load(source.buffer, source.at(row, build.plus(first, place)))
        wide = build.insert(ExtUIOp(value, i32))
        if place:
            wide = build.insert(arith.ShLIOp(wide, build.constant(8 * place, i32)))
        found = wide if found is None else build.insert(arith.OrIOp(found, wide))
    assert found is not None
    return found


# What sums start from -----------------------------------------------------------------------------


def row_starts(
    build: LoopBuilder,
    source: Matrix,
    starts: Matrix,
    rows: Index,
    depth: int,
    lanes: int,
) -> None:
    """`starts[row] = -128 · (the sum of the row)`."""
    bytes_ = FOUR * lanes
    kind = VectorType(i32, [lanes])
    ones, zero = build.constant(ONES, kind), build.constant(0, kind)
    whole = depth // bytes_ * bytes_

    def one(row: SSAValue) -> None:
        def step(k: Index, total: SSAValue, mask: SSAValue | None = None) -> SSAValue:
            data = build.vload(source.buffer, source.at(row, k), bytes_, mask)
            return build.insert(DotWordsOp(total, ones, bitcast(build, data, i32), unsigned=True))

        total = zero
        if whole:
            (total,) = build.reduce(
                0, whole, bytes_, [zero], lambda k, old: [step(k, old[0])], hint="k"
            )
        if whole < depth:
            total = step(build.index(whole), total, build.mask(depth - whole, bytes_))
        found = reduction(build, "add", total)
        found = build.insert(arith.MuliOp(found, build.constant(-128, i32)))
        build.store(found, starts.buffer, starts.at(row))

    build.loop(0, rows, 1, one, parallel=True, hint="r")


# Packing ------------------------------------------------------------------------------------------


def pack_quads(
    build: LoopBuilder,
    source: Matrix,
    panels: Matrix,
    depth: Index,
    columns: Index,
    tile: int,
    vector_bits: int,
    *,
    transposed: bool,
) -> None:
    """Copies `source`, `[depth, columns]` or when `transposed` the reverse, into `panels`."""
    assert isinstance(depth, int)
    lanes = gcd(tile, max(1, vector_bits // 32))
    pack = _pack_transposed if transposed else _pack_rows
    pack(build, source, panels, depth, columns, tile, lanes)


def _flipped(build: LoopBuilder, words: SSAValue) -> SSAValue:
    return build.insert(arith.XOrIOp(words, build.constant(SIGNS, words.type)))


def _pack_rows(
    build: LoopBuilder,
    source: Matrix,
    panels: Matrix,
    depth: int,
    columns: Index,
    tile: int,
    lanes: int,
) -> None:
    fours, rest = divmod(depth, FOUR)
    zero = build.constant(0, VectorType(i8, [lanes]))

    def copy(panel: Index, masks: Sequence[SSAValue | None], four: Index, count: int) -> None:
        first = build.index(build.times(panel, tile))
        row = build.times(four, FOUR)
        for number, mask in enumerate(masks):
            column = build.add(first, number * lanes)
            rows = [
                build.vload(source.buffer, source.at(build.plus(row, n), column), lanes, mask)
                for n in range(count)
            ]
            rows += [zero] * (FOUR - count)
            low, high = (_woven(build, rows[n], rows[n + 1]) for n in (0, 2))
            both = _woven(build, bitcast(build, low, i16), bitcast(build, high, i16))
            words = _flipped(build, bitcast(build, both, i32))
            place = panels.at(panel, four, FOUR * number * lanes)
            build.vstore(bitcast(build, words, i8), panels.buffer, place)

    def fill(panel: Index, masks: Sequence[SSAValue | None]) -> None:
        build.loop(0, fours, 1, lambda k: copy(panel, masks, k, FOUR), hint="k")
        if rest:
            copy(panel, masks, fours, rest)

    def partial(panel: Index, columns: Index) -> None:
        fill(panel, [build.mask(build.minus(columns, n), lanes) for n in range(0, tile, lanes)])

    over_panels(build, columns, tile, lambda p: fill(p, [None] * (tile // lanes)), partial)


def _woven(build: LoopBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
    """The elements of two vectors in turns."""
    kind = a.type
    assert isinstance(kind, VectorType)
    lanes = kind.get_shape()[0]
    order = DenseArrayBase.from_list(i64, [n for i in range(lanes) for n in (i, i + lanes)])
    result = VectorType(kind.element_type, [2 * lanes])
    return build.insert(vector.ShuffleOp(a, b, order, result_type=result))


def _pack_transposed(
    build: LoopBuilder,
    source: Matrix,
    panels: Matrix,
    depth: int,
    columns: Index,
    tile: int,
    lanes: int,
) -> None:
    fours, rest = divmod(depth, FOUR)
    lanes = min(lanes, 16)

    def read(row: Index, four: SSAValue, width: int | None) -> SSAValue:
        if width is None:
            return load_word(build, source, row, four)
        return load_words(build, source, row, four, width)

    def fill(panel: Index, existing: Index | None) -> None:
        first = build.times(panel, tile)
        last = build.minus(columns, 1)
        for offset in range(0, tile, lanes):
            rows: list[Index] = [build.plus(first, offset + lane) for lane in range(lanes)]
            if existing is not None:
                # Columns that do not exist repeat the last one: nobody stores what they give.
                rows = [build.minimum(row, last) for row in rows]

            def write(value: SSAValue, k: Index, offset: int = offset) -> None:
                place = panels.at(panel, k, FOUR * offset)
                build.vstore(bitcast(build, _flipped(build, value), i8), panels.buffer, place)

            transpose_into(build, rows, (0, fours), read, write)
            if rest:
                words = [load_word(build, source, row, fours, rest) for row in rows]
                write(build.from_elements(words), build.index(fours))

    over_panels(build, columns, tile, lambda p: fill(p, None), fill)
