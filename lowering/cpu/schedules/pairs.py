"""Pairs of bf16: products that add two at a time, and the panels that they read.

Row 2p and row 2p + 1 of a `[K, N]` matrix lie side by side, column by column, as `nn.dot_pairs`
takes them; a row that does not exist is zero. In the left operand, row by row, pairs are neighbours
already: one of them is read as 32 bits and repeated in all lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import DenseArrayBase, VectorType, bf16, i16, i32, i64
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.arith import ExtUIOp
from openinfer.dialects.nn import DotPairsOp
from openinfer.lowering.cpu.schedules.microkernel import Arithmetic
from openinfer.lowering.cpu.schedules.packing import Matrix, transpose_into
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import element_type, resize_float, select
from openinfer.runtime.quick_dataclass import dataclass


@dataclass(frozen=True)
class PairArithmetic(Arithmetic):
    """Sums in `lanes` f32; operands are pairs of bf16, two for each lane, or 32-bit words of them."""

    def across(self, build: LoopBuilder, value: SSAValue) -> SSAValue:
        return value if element_type(value) == bf16 else as_pairs(build, value)

    def spread(self, build: LoopBuilder, value: SSAValue) -> SSAValue:
        return as_pairs(build, build.splat(value, self.lanes))

    def multiply_add(
        self, build: LoopBuilder, left: SSAValue, right: SSAValue, total: SSAValue
    ) -> SSAValue:
        return build.insert(DotPairsOp(total, left, right))


def as_pairs(build: LoopBuilder, words: SSAValue) -> SSAValue:
    """A vector of 32-bit words as twice as many bf16."""
    assert isinstance(words.type, VectorType)
    kind = VectorType(bf16, [2 * words.type.get_shape()[0]])
    return build.insert(vector.BitcastOp(words, kind))


def as_words(build: LoopBuilder, pairs: SSAValue) -> SSAValue:
    """A vector of pairs of bf16 as half as many 32-bit words."""
    assert isinstance(pairs.type, VectorType)
    kind = VectorType(i32, [pairs.type.get_shape()[0] // 2])
    return build.insert(vector.BitcastOp(pairs, kind))


def load_pair(build: LoopBuilder, source: Matrix, row: Index, pair: Index) -> SSAValue:
    """Elements 2·pair and 2·pair + 1 of a row, rounded to bf16, as one 32-bit word."""
    words = load_pairs(build, source, row, pair, 1)
    place = DenseArrayBase.from_list(i64, [0])
    return build.insert(
        vector.ExtractOp.build(
            operands=[words, []], result_types=[i32], properties={"static_position": place}
        )
    )


def load_pairs(build: LoopBuilder, source: Matrix, row: Index, pair: Index, count: int) -> SSAValue:
    """`count` neighbouring pairs of a row, rounded to bf16, as 32-bit words."""
    first = build.times(pair, 2)
    value = build.vload(source.buffer, source.at(row, first), 2 * count)
    return as_words(build, resize_float(build, value, bf16))


def load_half(build: LoopBuilder, source: Matrix, row: Index, column: Index) -> SSAValue:
    """One element, rounded to bf16, and zero as a pair."""
    value = resize_float(build, build.load(source.buffer, source.at(row, column)), bf16)
    return build.insert(ExtUIOp(build.insert(arith.BitcastOp(value, i16)), i32))


def pack_pairs(
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
    """Rounds `source`, `[depth, columns]` or when `transposed` the reverse, into `panels`."""
    lanes = gcd(tile, max(1, vector_bits // 32))
    pack = _pack_transposed if transposed else _pack_rows
    pack(build, source, panels, depth, columns, tile, lanes)


def over_panels(
    build: LoopBuilder,
    columns: Index,
    tile: int,
    whole: Callable[[Index], None],
    partial: Callable[[Index, Index], None],
) -> None:
    """All panels, in parallel; then (panel, columns that exist) of one that is filled in part."""
    covered = build.round_down(columns, tile)
    count = covered // tile if isinstance(covered, int) else build.floordiv(covered, tile)
    rest = build.minus(columns, covered)
    if count != 0:
        build.loop(0, count, 1, whole, parallel=True, hint="p")
    if isinstance(rest, int):
        if rest:
            partial(count, rest)
    else:
        build.when(build.compare("ne", rest, 0), lambda: partial(count, rest))


def halves(build: LoopBuilder, depth: Index) -> tuple[Index, Index]:
    """How many whole pairs there are, and whether (0 or 1) an element is left."""
    if isinstance(depth, int):
        return divmod(depth, 2)
    return build.floordiv(depth, 2), build.rem(depth, 2)


def when_odd(build: LoopBuilder, odd: Index, body: Callable[[], None]) -> None:
    if not isinstance(odd, int):
        build.when(build.compare("ne", odd, 0), body)
    elif odd:
        body()


def _pack_rows(
    build: LoopBuilder,
    source: Matrix,
    panels: Matrix,
    depth: Index,
    columns: Index,
    tile: int,
    lanes: int,
) -> None:
    pairs, odd = halves(build, depth)
    woven = DenseArrayBase.from_list(i64, [n for i in range(lanes) for n in (i, i + lanes)])
    zero = build.constant(0, VectorType(bf16, [lanes]))
    kind = VectorType(bf16, [2 * lanes])

    def copy(panel: Index, masks: Sequence[SSAValue | None], pair: Index, *, single: bool) -> None:
        first = build.index(build.times(panel, tile))
        row = build.times(pair, 2)
        for number, mask in enumerate(masks):
            column = build.add(first, number * lanes)
            halves: list[SSAValue] = []
            for half in range(1 if single else 2):
                place = source.at(build.plus(row, half), column)
                value = build.vload(source.buffer, place, lanes, mask)
                halves.append(resize_float(build, value, bf16))
            first_half, second = (*halves, zero)[:2]
            both = build.insert(vector.ShuffleOp(first_half, second, woven, result_type=kind))
            build.vstore(both, panels.buffer, panels.at(panel, pair, 2 * number * lanes))

    def fill(panel: Index, masks: Sequence[SSAValue | None]) -> None:
        build.loop(0, pairs, 1, lambda k: copy(panel, masks, k, single=False), hint="k")
        when_odd(build, odd, lambda: copy(panel, masks, pairs, single=True))

    def partial(panel: Index, rest: Index) -> None:
        fill(panel, [build.mask(build.minus(rest, n), lanes) for n in range(0, tile, lanes)])

    over_panels(build, columns, tile, lambda p: fill(p, [None] * (tile // lanes)), partial)


def _pack_transposed(
    build: LoopBuilder,
    source: Matrix,
    panels: Matrix,
    depth: Index,
    columns: Index,
    tile: int,
    lanes: int,
) -> None:
    pairs, odd = halves(build, depth)
    lanes = min(lanes, 16)
    zero = build.constant(0, VectorType(i32, [lanes]))

    def read(row: Index, pair: SSAValue, width: int | None) -> SSAValue:
        if width is None:
            return load_pair(build, source, row, pair)
        return load_pairs(build, source, row, pair, width)

    def fill(panel: Index, rest: Index | None) -> None:
        first = build.times(panel, tile)
        last = build.minus(columns, 1)
        for offset in range(0, tile, lanes):
            rows: list[Index] = [build.plus(first, offset + lane) for lane in range(lanes)]
            mask = None
            if rest is not None:
                # Columns that do not exist repeat the last one and are then set to zero.
                rows = [build.minimum(row, last) for row in rows]
                mask = build.mask(build.minus(rest, offset), lanes)

            def write(
                value: SSAValue, k: Index, mask: SSAValue | None = mask, offset: int = offset
            ) -> None:
                if mask is not None:
                    value = select(build, mask, value, zero)
                place = panels.at(panel, k, 2 * offset)
                build.vstore(as_pairs(build, value), panels.buffer, place)

            def half(rows: Sequence[Index] = rows) -> SSAValue:
                column = build.minus(depth, 1)
                return build.from_elements([load_half(build, source, row, column) for row in rows])

            transpose_into(build, rows, (0, pairs), read, write)
            when_odd(build, odd, lambda half=half, write=write: write(half(), pairs))

    over_panels(build, columns, tile, lambda p: fill(p, None), fill)
