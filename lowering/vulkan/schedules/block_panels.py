"""`nn.matmul` and `nn.matvec` of a few rows with a weight in blocks, whose panels are read as they lie.

`#nn.blocks<q8_0, 16>` has the blocks of 16 columns for the same 32 steps of the sum in one line: 16 scales,
then words of four bytes, the same word of each column side by side. An invocation reads 16 bytes, a word of
four columns, twice: the steps of a word, and those 16 steps behind them (of `q4_0` a word has both). 16
invocations read a block of all columns:

    %sums = scf.for %block = … {
      %codes = vector.load %w[%panel, %block, …] : memref<4x2x544xi8>, vector<16xi8>      // twice
      %x = vector.load %x[%row, …] : memref<1x64xf32>, vector<4xf32>                      // twice
      each column: its sum + its scale · (the products of eight codes) }
    sums of eight neighbours are joined, then those of the others, through shared memory
    the epilogue and a store, by one invocation for each column

A workgroup has one panel of each matrix, or two of one where columns half a block apart are stored together
(`halves` of `nn.matvec`). The norm is a factor of the sums, as in `matmul_few_rows.py`.

Where only the step knows the rows, and a bound is known (`forms.py`), rows that are not there repeat the last
one, and are not stored.

Requires: a number of rows that the types say, or a bound of it; sums in f32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, gpu
from xdsl.dialects.builtin import f16, f32, i16, i32
from xdsl.ir import SSAValue

from openinfer.dialects.nn import BlocksAttr, MatmulOp, MatvecOp
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.epilogue import Epilogue, Place
from openinfer.lowering.vulkan.schedules.forms import most_rows
from openinfer.lowering.vulkan.schedules.grid import (
    Grid,
    HostValue,
    each_group,
    groups_for,
    product,
    split,
)
from openinfer.lowering.vulkan.schedules.group_line import rounds
from openinfer.lowering.vulkan.schedules.matmul_few_rows import over_square
from openinfer.lowering.vulkan.schedules.matmul_operands import Operand, Product
from openinfer.lowering.vulkan.schedules.wide import load_wide
from openinfer.lowering.vulkan.schedules.workgroup import Workgroup, barrier, shared_buffer

FORMATS = ("q8_0", "q4_0")
"""What is read so: a scale, and codes of 32 steps, of which four bytes are a word."""
WORDS = 4
"""Pairs of words of a block that are 16 steps apart."""
COLUMNS = 16
"""Of a panel."""
WORD = 4
"""Steps of a word of codes, and columns of an access."""
SIZE = 512
"""Invocations of a workgroup: there are few panels."""
WIDE_ROWS = 4
"""Rows up to which registers do for workgroups of that size, and for two blocks on their way."""
NEIGHBOURS = 8
"""Of them, those that have other steps of the same columns, side by side: four words of two blocks."""
OF_BLOCK = NEIGHBOURS // 2 * (COLUMNS // WORD)
"""Invocations that read a block."""


def panels_of(op: MatmulOp | MatvecOp) -> BlocksAttr | None:
    """The layout of a weight in blocks; None for another one."""
    return op.layout if isinstance(op.layout, BlocksAttr) else None


def takes_halves(half: int, *, interleaved: bool) -> bool:
    """Whether columns of halves of blocks are found in whole panels."""
    return interleaved or half % COLUMNS == 0


def few_rows_of_blocks(found: Product, epilogue: Epilogue) -> Grid:
    """The kernel of such a product."""
    b = found.b
    layout = found.op.layout
    assert isinstance(layout, BlocksAttr)
    assert isinstance(found.depth, int)
    assert isinstance(found.columns, int)
    blocks = found.depth // layout.format.elements
    unit = _unit_of(found.op, found.columns)
    rows = found.rows if isinstance(found.rows, int) else most_rows(found.op)
    assert rows is not None
    group = Workgroup(b, _invocations(found, blocks, rows))
    kernel = _Kernel(found, epilogue, layout, unit, group, blocks, rows)
    known = isinstance(found.rows, int)

    def counts_of(b: LoopBuilder, extents: Sequence[Index]) -> list[Index]:
        """Batches, and panels; of a step without rows, none."""
        there: list[Index] = [] if known else [b.minimum(extents[-2], 1)]
        return [product(b, [*extents[:-2], *there]), unit.count]

    counts = counts_of(b, found.extents)

    def one(number: SSAValue) -> None:
        batches, own = split(b, number, counts)
        kernel.build(split(b, batches, found.extents[:-2]), own)

    # Workgroups of other kernels may stand behind its own (`side_by_side.py`).
    each_group(b, product(b, counts), one, asks=True)

    def groups(host: LoopBuilder, value_of: HostValue) -> tuple[Index, Index, Index]:
        rank, output = len(found.extents), value_of(found.output)
        extents = [host.dim(output, axis) for axis in range(rank)]
        return groups_for(host, product(host, counts_of(host, extents)))

    return Grid(groups, group.size)


def _invocations(found: Product, blocks: int, rows: int) -> int:
    """Of a workgroup: fewer for a short sum, and where memory does not hold its parts. Kernels that are
    started together (`nn.matvec`) have one size, that of two panels with a norm."""
    description = found.b.facts.device_description
    joins = description.subgroup >= NEIGHBOURS
    lines = rows * (2 * COLUMNS + 1 if isinstance(found.op, MatvecOp) else COLUMNS)

    def fits(size: int) -> bool:
        return size <= description.invocations and (
            lines * _entries(size, joins=joins) * 4 <= description.shared_memory
        )

    size = SIZE if rows <= WIDE_ROWS else SIZE // 2
    while not fits(size):
        size //= 2
    while size > max(description.subgroup, 2 * OF_BLOCK) and size // OF_BLOCK > blocks:
        size //= 2
    return size


def _entries(size: int, *, joins: bool) -> int:
    """The parts that a sum has in shared memory."""
    return size // (NEIGHBOURS * COLUMNS // WORD) * (1 if joins else NEIGHBOURS)


@dataclass(frozen=True)
class _Unit:
    """What a workgroup stores of each row: a panel of columns."""

    count: int
    """How many of them there are."""
    matrices: int
    half: int = 0
    """Columns of a half of a block, where two columns are stored together; 0 for single columns."""
    interleaved: bool = False

    @property
    def items(self) -> int:
        """What one invocation stores at once, of a row."""
        return COLUMNS // 2 if self.interleaved else COLUMNS

    def panels(self, b: LoopBuilder, number: SSAValue) -> list[tuple[int, SSAValue]]:
        """The panels that a workgroup reads: of which matrix, and its number."""
        if not self.half or self.interleaved:
            return [(matrix, number) for matrix in range(self.matrices)]
        across = self.half // COLUMNS
        block, own = b.floordiv(number, across), b.rem(number, across)
        first = b.add(b.mul(block, 2 * across), own)
        return [(0, first), (0, b.add(first, across))]

    def sums(self, b: LoopBuilder, item: SSAValue) -> list[tuple[int, SSAValue]]:
        """The sums that an item is made of: in which of the panels, and the column there."""
        if self.interleaved:
            first = b.mul(item, 2)
            return [(0, first), (0, b.add(first, 1))]
        return [(panel, item) for panel in range(2 if self.half else self.matrices)]

    def columns(self, b: LoopBuilder, number: SSAValue, item: SSAValue) -> list[SSAValue]:
        """The columns that an item is stored in."""
        if self.interleaved:
            first = b.add(b.mul(number, COLUMNS), b.mul(item, 2))
            return [first, b.add(first, 1)]
        firsts = [panel for _, panel in self.panels(b, number)]
        firsts = firsts if self.half else firsts[:1]
        return [b.add(b.mul(panel, COLUMNS), item) for panel in firsts]

    def place(self, b: LoopBuilder, column: SSAValue) -> list[SSAValue]:
        """The indices that operands of the epilogue follow, of the first of an item's columns."""
        if not self.half:
            return [column]
        block, place = b.floordiv(column, 2 * self.half), b.rem(column, 2 * self.half)
        return [block, b.floordiv(place, 2) if self.interleaved else place]


def _unit_of(op: object, columns: int) -> _Unit:
    panels = -(-columns // COLUMNS)
    if not isinstance(op, MatvecOp) or op.halves is None:
        matrices = len(op.rights) if isinstance(op, MatvecOp) else 1
        return _Unit(panels, matrices)
    half = op.halves.value.data
    if op.interleaved is not None:
        return _Unit(panels, 1, half, interleaved=True)
    return _Unit(columns // (2 * COLUMNS), 1, half)


class _Kernel:
    def __init__(
        self,
        found: Product,
        epilogue: Epilogue,
        layout: BlocksAttr,
        unit: _Unit,
        group: Workgroup,
        blocks: int,
        rows: int,
    ) -> None:
        b = self.b = found.b
        self.found, self.epilogue, self.layout, self.unit = found, epilogue, layout, unit
        self.group, self.blocks = group, blocks
        self.rows = rows
        self.last: SSAValue | None = None
        """The last row, where there may be fewer."""
        if not isinstance(found.rows, int):
            self.last = b.index(b.minus(found.rows, 1))
        self.norm = found.op.weight if isinstance(found.op, MatvecOp) else None
        # Which four columns an invocation has, of which block of its turn, and which words of it.
        joins = group.subgroup >= NEIGHBOURS
        thread = group.thread
        if joins:
            # Those that are joined are neighbours in a subgroup.
            subgroup = b.mul(b.insert(gpu.SubgroupIdOp()), group.subgroup)
            thread = b.add(subgroup, b.insert(gpu.LaneIdOp()))
        slot = b.rem(thread, NEIGHBOURS)
        self.four = b.rem(b.floordiv(thread, NEIGHBOURS), COLUMNS // WORD)
        self.turn = b.floordiv(thread, NEIGHBOURS * COLUMNS // WORD)
        self.word = b.rem(slot, WORDS)
        self.first = b.add(b.mul(self.turn, 2), b.floordiv(slot, WORDS))
        self.writes = b.compare("eq", slot, 0) if joins else None
        """Whether an invocation writes sums; None for all of them."""
        self.entry = self.turn if joins else b.add(b.mul(self.turn, NEIGHBOURS), slot)
        self.entries = _entries(group.size, joins=joins)
        self.panels = 2 if unit.half and not unit.interleaved else unit.matrices
        lines = self.rows * (self.panels * COLUMNS + (self.norm is not None))
        self.parts = shared_buffer(b, f32, [lines, self.entries], "parts")

    def build(self, batch: Sequence[SSAValue], number: SSAValue) -> None:
        self.epilogue.prepare(None)
        left = self.found.left_operand(batch)
        sums = self._sums(left, self.unit.panels(self.b, number))
        # What the epilogue reads is on its way while sums are joined.
        count = self.rows * self.unit.items
        starts = range(0, count, self.group.size)
        stores = [self._item(batch, number, start, count) for start in starts]
        self._share(sums)
        for store in stores:
            store()

    def _item(
        self, batch: Sequence[SSAValue], number: SSAValue, start: int, count: int
    ) -> Callable[[], None]:
        """Reads what the epilogue takes for an item of each invocation, and gives what stores it."""
        b, unit, columns_ = self.b, self.unit, self.found.columns
        assert isinstance(columns_, int)
        given = b.add(self.group.thread, start) if start else self.group.thread
        own = b.index(b.minimum(given, count - 1))
        row, item = b.floordiv(own, unit.items), b.rem(own, unit.items)
        columns = unit.columns(b, number, item)
        inside = b.compare("ult", given, count)
        if columns_ % COLUMNS:
            there = b.compare("ult", columns[-1], columns_)
            inside = b.insert(arith.AndIOp(inside, there))
            columns = [b.index(b.minimum(column, columns_ - 1)) for column in columns]
        if self.last is not None:
            inside = b.insert(arith.AndIOp(inside, b.compare("ule", row, self.last)))
        place = Place((*batch, self._there(row), *unit.place(b, columns[0])), None)
        known = self.epilogue.hoisted(place, moving=())

        def store() -> None:
            line = b.mul(row, self.panels * COLUMNS)
            values = [
                self._total(b.add(b.add(line, panel * COLUMNS), column))
                for panel, column in unit.sums(b, item)
            ]
            if self.norm is not None:
                square = self._total(b.add(row, self.rows * self.panels * COLUMNS))
                factor = over_square(self.found, square)
                values = [b.insert(arith.MulfOp(value, factor)) for value in values]
            ends = self.epilogue.finish_all(values, place, known)
            for value, column in zip(ends, columns):
                b.store(value, self.epilogue.output, [*batch, row, column])

        def where_inside() -> None:
            b.when(inside, store)

        return where_inside

    def _there(self, row: Index) -> SSAValue:
        """A row; beyond the last one that."""
        b = self.b
        return b.index(row if self.last is None else b.minimum(row, self.last))

    def _sums(self, left: Operand, panels: Sequence[tuple[int, SSAValue]]) -> list[SSAValue]:
        """What an invocation adds up: of each row, four columns of each panel; then the squares of rows."""
        b, found, reach = self.b, self.found, self.group.size // OF_BLOCK
        most = self.rows * len(panels) * WORD
        beside = 2 if self.rows <= WIDE_ROWS and self.blocks % (2 * reach) == 0 else 1
        rows = [self._there(row) for row in range(self.rows)]

        def step(block: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
            places = [b.add(block, n * reach) if n else block for n in range(beside)]
            # All loads before the first product that waits for one.
            read = [[self._read(matrix, panel, at) for matrix, panel in panels] for at in places]
            totals = list(old)
            for at, theirs in zip(places, read):
                norm = self._norm(at)
                for row, place in enumerate(rows):
                    ours = [value for k in self._steps(at) for value in self._left(left, place, k)]
                    if norm is not None:
                        square = most + row
                        totals[square] = found.more_steps(ours, ours, totals[square])
                        ours = [b.insert(arith.MulfOp(x, w)) for x, w in zip(ours, norm)]
                    for number, (scales, codes) in enumerate(theirs):
                        for column in range(WORD):
                            dot = found.more_steps(ours, codes[column], found.zero())
                            own = (row * len(panels) + number) * WORD + column
                            totals[own] = found.more(dot, scales[column], totals[own])
            return totals

        count = most + (self.rows if self.norm is not None else 0)
        turns = reach * beside
        return list(
            b.reduce(
                self.first,
                self.blocks,
                turns,
                [found.zero()] * count,
                step,
                hint="block",
                rounds=rounds(self.blocks, turns),
                beside=self.group.size,
            )
        )

    def _steps(self, block: SSAValue) -> list[SSAValue]:
        """The first steps of the words that an invocation has of a block."""
        b, half = self.b, self.layout.format.elements // 2
        first = b.add(b.mul(block, 2 * half), b.mul(self.word, WORD))
        return [first, b.add(first, half)]

    def _left(self, left: Operand, row: Index, k: SSAValue) -> list[SSAValue]:
        if self.found.lanes_of(left) >= WORD:
            return left.load_steps(row, k, WORD)
        return [left.load(row, self.b.add(k, n) if n else k) for n in range(WORD)]

    def _norm(self, block: SSAValue) -> list[SSAValue] | None:
        """The weight of the norm at the steps of an invocation."""
        if self.norm is None:
            return None
        b = self.b
        return [
            convert(b, value, f32)
            for k in self._steps(block)
            for value in load_wide(b, self.norm, [k], WORD)
        ]

    def _read(
        self, matrix: int, panel: SSAValue, block: SSAValue
    ) -> tuple[list[SSAValue], list[list[SSAValue]]]:
        """The scales of four columns, and of each the codes of both words."""
        b, buffer, layout = self.b, self.found.rights[matrix], self.layout
        scales = scales_of(b, layout, buffer, (panel, block), self.four)
        codes = codes_of(b, layout, buffer, (panel, block), self.word, self.four)
        return scales, codes

    def _share(self, sums: Sequence[SSAValue]) -> None:
        """Hands sums to those who store them."""
        b, found = self.b, self.found
        if self.writes is not None:
            sums = [self.group.join_neighbours(value, found.join, NEIGHBOURS) for value in sums]
        most = self.rows * self.panels * WORD

        def write() -> None:
            for number, value in enumerate(sums[:most]):
                line = b.add(b.mul(self.four, WORD), number // WORD * COLUMNS + number % WORD)
                b.store(value, self.parts, [line, self.entry])
            for row, value in enumerate(sums[most:]):
                # All columns have the same squares.
                line = b.index(self.rows * self.panels * COLUMNS + row)
                b.store(value, self.parts, [line, self.entry])

        if self.writes is None:
            write()
        else:
            b.when(self.writes, write)
        barrier(b)

    def _total(self, line: SSAValue) -> SSAValue:
        b, found = self.b, self.found
        if self.entries <= NEIGHBOURS * 2:
            whole = b.load(self.parts, [line, 0])
            for entry in range(1, self.entries):
                whole = found.join(whole, b.load(self.parts, [line, entry]))
            return whole

        def step(entry: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
            return [found.join(old[0], b.load(self.parts, [line, entry]))]

        (whole,) = b.reduce(0, self.entries, 1, [found.zero()], step, hint="entry")
        return whole


def scales_of(
    b: LoopBuilder,
    layout: BlocksAttr,
    buffer: SSAValue,
    place: tuple[SSAValue, SSAValue],
    four: SSAValue,
) -> list[SSAValue]:
    """The scales of four columns of a block; `place`: its panel, and its number there."""
    first = b.add(b.mul(four, 2 * WORD), layout.place("d", 0))
    found = load_wide(b, buffer, [*place, first], 2 * WORD)
    return [_half(b, low, high) for low, high in zip(found[::2], found[1::2])]


def codes_of(
    b: LoopBuilder,
    layout: BlocksAttr,
    buffer: SSAValue,
    place: tuple[SSAValue, SSAValue],
    word: SSAValue,
    four: SSAValue,
) -> list[list[SSAValue]]:
    """Of four columns of a block the codes at four steps, those of a word, and at the four that are 16 steps
    behind them, as f32."""
    words = layout.format.part("qs").count
    apart = layout.place("qs", 1) - layout.place("qs", 0)
    own = b.add(b.mul(word, apart), b.mul(four, WORD * WORD))

    def read(first: int) -> list[SSAValue]:
        at = b.add(own, layout.place("qs", first))
        return load_wide(b, buffer, [*place, at], WORD * WORD)

    if layout.format.name == "q8_0":
        halves = [read(0), read(words // 2)]
    else:
        both = [convert(b, value, i32, unsigned=True) for value in read(0)]
        eight = b.constant(8, i32)
        low = [b.insert(arith.AndIOp(value, b.constant(15, i32))) for value in both]
        high = [b.insert(arith.ShRUIOp(value, b.constant(4, i32))) for value in both]
        halves = [[b.insert(arith.SubiOp(v, eight)) for v in some] for some in (low, high)]
    return [
        [convert(b, code, f32) for some in halves for code in some[n * WORD : (n + 1) * WORD]]
        for n in range(WORD)
    ]


def _half(b: LoopBuilder, low: SSAValue, high: SSAValue) -> SSAValue:
    """The f32 of a number of f16 that lies in two bytes."""
    wide = [convert(b, value, i32, unsigned=True) for value in (low, high)]
    shifted = b.insert(arith.ShLIOp(wide[1], b.constant(8, i32)))
    bits = convert(b, b.insert(arith.OrIOp(shifted, wide[0])), i16)
    return convert(b, b.insert(arith.BitcastOp(bits, f16)), f32)
