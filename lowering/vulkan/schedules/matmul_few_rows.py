"""`nn.matmul` and `nn.matvec` of a few rows: the right operand is read once, at the speed of memory.

Where neighbours of the right operand are steps of the sum (`transpose_b`), a workgroup computes a column:

    %part = scf.for %k = … { products of 16 bytes of the column with each row }
    %sum = …                                    // of all invocations
    the epilogue, and a store, by one invocation

Where they are columns, a workgroup computes those of 32 to 128 bytes, and shares out the steps of the sum:

    %parts = scf.for %k = %part to … { rows of the right operand, times an element of each left row }
    memref.store …                              // parts, to shared memory
    gpu.barrier
    …                                           // half of the parts are added to the other half, and so on
    the epilogue and a store, by one invocation for each column

The norm that `nn.matvec` takes in is a factor of the sums of a row: squares are added up beside them. The
element of a second matrix is another sum.

Requires: a number of rows that the types say.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.dialects import arith
from xdsl.dialects.math import SqrtOp
from xdsl.ir import SSAValue

from openinfer.dialects.nn import MatvecOp
from openinfer.dialects.nn.byte_ops import LANES
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.epilogue import Epilogue, Place
from openinfer.lowering.kernels.numeric import count_as
from openinfer.lowering.vulkan.schedules.grid import (
    Grid,
    HostValue,
    each_group,
    groups_for,
    product,
    split,
)
from openinfer.lowering.vulkan.schedules.group_line import rounds
from openinfer.lowering.vulkan.schedules.matmul_operands import Operand, Product
from openinfer.lowering.vulkan.schedules.wide import BYTES, load_wide, width
from openinfer.lowering.vulkan.schedules.workgroup import Workgroup, barrier, shared_buffer

MOST_ROWS = 8
"""Rows that share what is read of the right operand."""
LEAST_DEPTH = 64
"""Steps of a sum that several invocations share."""
COLUMN = 128
"""Invocations that share a column."""
SIZE = 256
"""Invocations of a workgroup, where neighbours are columns."""
MOST_NEIGHBOURS, FEWEST_NEIGHBOURS = 8, 2
"""Of them, those that are side by side; the others share a sum. Fewer for more workgroups, down to what is
read of memory at once (32 bytes)."""
GROUPS = 256
"""Workgroups that keep a large device waiting for nothing but memory."""


def fits_few_rows(found: Product) -> bool:
    """Whether a product has few rows, and sums that are worth sharing."""
    return isinstance(found.rows, int) and has_few_rows(found.rows, found.depth)


def has_few_rows(rows: int, depth: Index) -> bool:
    """The same of a number of rows and a length of sums."""
    return 0 < rows <= MOST_ROWS and (not isinstance(depth, int) or depth >= LEAST_DEPTH)


def few_rows(found: Product, epilogue: Epilogue) -> Grid:
    """The kernel of such a product."""
    return (_by_column if found.right_along else _by_neighbours)(found, epilogue)


def _count(host: LoopBuilder, output: SSAValue, rank: int, columns: int) -> list[Index]:
    """Batches, and groups of columns."""
    extents = [host.dim(output, axis) for axis in range(rank)]
    return [product(host, extents[:-2]), host.ceil_div(extents[-1], columns)]


def _by_column(found: Product, epilogue: Epilogue) -> Grid:
    b = found.b
    lanes = found.lanes_along()
    if lanes % LANES == 0:
        found.use_dots()
    widest = max(map(width, found.op.inputs[:2]))
    group = Workgroup(b, invocations_for_column(b, found.depth, BYTES * 8 // widest))
    beside = _beside(found.depth, group.size * lanes)
    reach = beside * group.size * lanes
    normed = found.op.weight if isinstance(found.op, MatvecOp) else None
    unit = _Unit(found)
    counts = [product(b, found.extents[:-2]), unit.count]
    rows = range(_known(found.rows))
    sums = len(rows) * unit.sums

    def one(number: SSAValue) -> None:
        batches, own = split(b, number, counts)
        batch = split(b, batches, found.extents[:-2])
        left = found.operands(batch)[0]
        wanted = unit.columns(found.matrices(batch), own)

        def step(k: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
            places = [b.add(k, number * group.size * lanes) for number in range(beside)]
            # All loads before the first product that waits for one.
            theirs = [[m.load_steps(c, place, lanes) for m, c in wanted] for place in places]
            so_far = list(old)
            for place, elements in zip(places, theirs):
                weight = _weight(found, normed, place, lanes)
                for row in rows:
                    ours = left.load_steps(row, place, lanes)
                    if weight is not None:
                        square = sums + row
                        so_far[square] = found.more_steps(ours, ours, so_far[square])
                        ours = [b.insert(arith.MulfOp(x, w)) for x, w in zip(ours, weight)]
                    for at, right in enumerate(elements, row * len(elements)):
                        so_far[at] = found.more_steps(ours, right, so_far[at])
            return so_far

        epilogue.prepare(None)
        first = b.mul(group.thread, lanes) if lanes > 1 else group.thread
        zeros = [found.zero()] * (sums + (len(rows) if normed is not None else 0))
        most = rounds(found.depth, reach)
        parts = b.reduce(
            first, found.depth, reach, zeros, step, hint="k", rounds=most, beside=group.size
        )
        # An invocation for each row. What the epilogue reads is on its way while sums are joined.
        row = b.index(b.minimum(group.thread, len(rows) - 1))
        known = epilogue.hoisted(unit.place([*batch, row], own), moving=())
        total = group.joined_each(parts, found.join)

        def store() -> None:
            first_sum = b.mul(row, unit.sums)
            values = [total(b.add(first_sum, n)) for n in range(unit.sums)]
            if normed is not None:
                factor = over_square(found, total(b.add(row, sums)))
                values = [b.insert(arith.MulfOp(value, factor)) for value in values]
            unit.store(epilogue, values, [*batch, row], own, known)

        b.when(b.compare("ult", group.thread, len(rows)), store)

    # Workgroups of other kernels may stand behind its own (`side_by_side.py`).
    each_group(b, product(b, counts), one, asks=True)

    def groups(host: LoopBuilder, value_of: HostValue) -> tuple[Index, Index, Index]:
        pieces = _count(host, value_of(found.output), len(found.extents), unit.width)
        return groups_for(host, product(host, pieces))

    return Grid(groups, group.size)


class _Unit:
    """What a workgroup stores of each row: a column, or one in each half of a block."""

    def __init__(self, found: Product) -> None:
        self.b = found.b
        op = found.op if isinstance(found.op, MatvecOp) else None
        self.half = op.halves.value.data if op is not None and op.halves is not None else 0
        turned = op is not None and op.interleaved is not None
        self.apart, self.step = (1, 2) if turned else (self.half, 1)
        """From a column to the other one, and from a place in a half to the next one."""
        self.width = 2 if self.half else 1
        """Columns of each."""
        self.sums = self.width * len(found.rights)
        self.count: Index = _known(found.columns) // 2 if self.half else found.columns

    def _column(self, number: SSAValue) -> SSAValue:
        """The column of one, the first of both."""
        if not self.half:
            return number
        b = self.b
        block, place = b.floordiv(number, self.half), b.rem(number, self.half)
        return b.add(b.mul(block, 2 * self.half), b.mul(place, self.step))

    def columns(
        self, matrices: Sequence[Operand], number: SSAValue
    ) -> list[tuple[Operand, SSAValue]]:
        """The columns that the sums of one are those of."""
        b, column = self.b, self._column(number)
        sides = [b.index(b.add(column, side * self.apart)) for side in range(self.width)]
        return [(matrix, side) for side in sides for matrix in matrices]

    def place(self, row: list[SSAValue], number: SSAValue) -> Place:
        """The indices that operands of the epilogue follow."""
        if not self.half:
            return Place((*row, number), None)
        b = self.b
        return Place((*row, b.floordiv(number, self.half), b.rem(number, self.half)), None)

    def store(
        self,
        epilogue: Epilogue,
        sums: Sequence[SSAValue],
        row: list[SSAValue],
        number: SSAValue,
        known: Sequence[SSAValue | None],
    ) -> None:
        """The epilogue of one, and its store; `known`: what the epilogue reads."""
        b, column = self.b, self._column(number)
        for side, value in enumerate(epilogue.finish_all(sums, self.place(row, number), known)):
            b.store(value, epilogue.output, [*row, b.add(column, side * self.apart)])


def _weight(
    found: Product, buffer: SSAValue | None, place: SSAValue, lanes: int
) -> list[SSAValue] | None:
    """The weight of a norm at some steps of the sum."""
    if buffer is None:
        return None
    b = found.b
    return [convert(b, value, found.sums) for value in load_wide(b, buffer, [place], lanes)]


def over_square(found: Product, squares: SSAValue) -> SSAValue:
    """1 / sqrt(mean + eps) of the squares of a row."""
    b, op = found.b, found.op
    assert isinstance(op, MatvecOp)
    assert op.eps is not None
    mean = b.insert(arith.DivfOp(squares, count_as(b, found.depth, found.sums)))
    eps = b.constant(op.eps.value.data, found.sums)
    root = b.insert(SqrtOp(b.insert(arith.AddfOp(mean, eps))))
    return b.insert(arith.DivfOp(b.constant(1.0, found.sums), root))


def invocations_for_column(b: LoopBuilder, depth: Index, lanes: int) -> int:
    """How many share a column: fewer for a short sum; `lanes` elements are the widest access that there is,
    also where operands do not begin at a multiple of it, so that kernels of one type have one size."""
    size = COLUMN
    least = max(b.facts.device_description.subgroup, 32)
    while isinstance(depth, int) and size > least and size * lanes > depth:
        size //= 2
    return size


def _beside(depth: Index, reach: int) -> int:
    """How many loads an invocation has under way: `reach` steps of the sum are read by all at once."""
    return 2 if isinstance(depth, int) and depth % (2 * reach) == 0 else 1


def _by_neighbours(found: Product, epilogue: Epilogue) -> Grid:
    b = found.b
    lanes = found.lanes_across()
    neighbours = _side_by_side(found.columns, lanes)
    shares = SIZE // neighbours
    group = Workgroup(b, SIZE)
    columns = neighbours * lanes
    rows = range(_known(found.rows))
    counts = [product(b, found.extents[:-2]), b.ceil_div(found.columns, columns)]
    beside, part = b.rem(group.thread, neighbours), b.floordiv(group.thread, neighbours)
    parts = shared_buffer(b, found.sums, [shares, columns], "parts")
    at_once = _loads(found.depth, shares)

    def one(number: SSAValue) -> None:
        batches, piece = split(b, number, counts)
        batch = split(b, batches, found.extents[:-2])
        left, right = found.operands(batch)
        first = b.mul(piece, columns)
        mine = b.add(first, b.mul(beside, lanes))

        def step(k: SSAValue, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
            places = [b.add(k, number * shares) for number in range(at_once)]
            # All loads before the first product that waits for one.
            theirs = [_neighbours(found, right, mine, place, lanes) for place in places]
            for place, their in zip(places, theirs):
                ours = [left.load(row, place) for row in rows]
                pairs = ((x, y) for x in ours for y in their)
                sums = [found.more(x, y, total) for (x, y), total in zip(pairs, sums)]
            return sums

        epilogue.prepare(None)
        zeros = [found.zero()] * (len(rows) * lanes)
        reach = shares * at_once
        most = rounds(found.depth, reach)
        sums = b.reduce(part, found.depth, reach, zeros, step, hint="k", rounds=most, beside=shares)
        for row in rows:
            # Everybody has read what the row before has left.
            barrier(b)
            for lane in range(lanes):
                b.store(sums[row * lanes + lane], parts, [part, b.add(b.mul(beside, lanes), lane)])
            _fold(found, parts, group.thread, shares, columns)
            column = b.add(first, group.thread)

            def store(row: int = row, column: SSAValue = column) -> None:
                total = b.load(parts, [0, group.thread])
                epilogue.store(total, Place((*batch, row, column), None))

            ours = b.compare("ult", group.thread, columns)
            inside = b.compare("ult", column, found.columns)
            b.when(ours, lambda i=inside, s=store: (b.when(i, lambda: s()), ())[1])

    each_group(b, product(b, counts), one)

    def groups(host: LoopBuilder, value_of: HostValue) -> tuple[Index, Index, Index]:
        pieces = _count(host, value_of(found.output), len(found.extents), columns)
        return groups_for(host, product(host, pieces))

    return Grid(groups, group.size)


def _side_by_side(columns: Index, lanes: int) -> int:
    """Invocations side by side: as many as leave enough workgroups."""
    neighbours = MOST_NEIGHBOURS
    while (
        neighbours > FEWEST_NEIGHBOURS
        and isinstance(columns, int)
        and columns < GROUPS * neighbours * lanes
    ):
        neighbours //= 2
    return neighbours


def _loads(depth: Index, shares: int) -> int:
    """How many loads an invocation has under way."""
    for count in (4, 2):
        if isinstance(depth, int) and depth % (count * shares) == 0:
            return count
    return 1


def _fold(found: Product, parts: SSAValue, thread: SSAValue, shares: int, columns: int) -> None:
    """Joins the parts of each column, by all invocations, into the first of them."""
    b = found.b
    place, column = b.floordiv(thread, columns), b.rem(thread, columns)

    def join(half: int, reach: int) -> None:
        for start in range(0, half, reach):
            mine = b.add(place, start)
            other = b.load(parts, [b.add(mine, half), column])
            b.store(found.join(b.load(parts, [mine, column]), other), parts, [mine, column])

    half = shares // 2
    while half:
        barrier(b)
        reach = min(half, SIZE // columns)
        b.when(b.compare("ult", thread, reach * columns), partial(join, half, reach))
        half //= 2
    barrier(b)


def _neighbours(
    found: Product, right: Operand, first: SSAValue, k: SSAValue, lanes: int
) -> list[SSAValue]:
    """Neighbouring columns of a row of the right operand; beyond the last one it repeats."""
    b = found.b
    # Their number is a multiple: they are all there, or the last ones are read once more.
    return right.load_places(b.minimum(first, b.minus(found.columns, lanes)), k, lanes)


def _known(extent: Index) -> int:
    assert isinstance(extent, int)
    return extent
