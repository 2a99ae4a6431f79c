"""`nn.matmul` of a few rows, of which only the step knows how many: a bound is known (`forms.py`).

A workgroup computes four columns of all rows, so that the right operand is read once, and an element of the
left one for four columns:

    %parts = scf.for %k = … { 16 bytes of each column, times those of each row }      // rows · 4 sums
    %mine = …                       // of a subgroup: each invocation gets the sums of all for one of them
    memref.store %mine, %joined     // to shared memory
    gpu.barrier
    %sum = …                        // of all subgroups, by an invocation for each row and column
    the epilogue, and a store, where there is such a row

Rows that are not there repeat the last one.

Requires: subgroups; a right operand whose neighbours are steps of the sum; sums of 32 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import FixedBitwidthType
from xdsl.ir import SSAValue

from openinfer.dialects.nn.byte_ops import LANES
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.epilogue import Epilogue, Place
from openinfer.lowering.vulkan.schedules.forms import BOUNDS, most_rows
from openinfer.lowering.vulkan.schedules.grid import (
    Grid,
    HostValue,
    each_group,
    groups_for,
    product,
    split,
)
from openinfer.lowering.vulkan.schedules.group_line import rounds
from openinfer.lowering.vulkan.schedules.matmul_few_rows import invocations_for_column
from openinfer.lowering.vulkan.schedules.matmul_operands import Product, both
from openinfer.lowering.vulkan.schedules.wide import BYTES, width
from openinfer.lowering.vulkan.schedules.workgroup import Workgroup

COLUMNS = 4
"""Of a workgroup."""
BITS = 32
"""Of a sum."""


def bound_of(found: Product) -> int | None:
    """The bound of the rows of a product that this is made for; None for other products."""
    most = most_rows(found.op)
    assert isinstance(found.sums, FixedBitwidthType)
    if most not in BOUNDS or not found.right_along or found.sums.bitwidth != BITS or found.boolean:
        return None
    return most if found.b.facts.device_description.subgroup > 1 else None


def bounded_rows(found: Product, epilogue: Epilogue, most: int) -> Grid:
    """The kernel of a product of up to `most` rows."""
    b = found.b
    lanes = found.lanes_along()
    if lanes % LANES == 0:
        found.use_dots()
    widest = max(map(width, found.op.inputs[:2]))
    group = Workgroup(b, invocations_for_column(b, found.depth, BYTES * 8 // widest))
    counts = _counts(b, found.extents)
    rows = [b.index(b.minimum(row, b.minus(found.rows, 1))) for row in range(most)]

    def one(number: SSAValue) -> None:
        *batch_and_row, own = split(b, number, counts)
        batch = batch_and_row[:-1]
        first = b.mul(own, COLUMNS)
        left, right = found.operands(batch)
        columns = [_inside(b, b.add(first, n), found.columns) for n in range(COLUMNS)]

        def step(k: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
            # All loads before the first product that waits for one.
            theirs = [right.load_steps(column, k, lanes) for column in columns]
            sums = list(old)
            for number, row in enumerate(rows):
                ours = left.load_steps(row, k, lanes)
                for at, other in enumerate(theirs, number * COLUMNS):
                    sums[at] = found.more_steps(ours, other, sums[at])
            return sums

        epilogue.prepare(None)
        reach, start = group.size * lanes, group.thread
        sums = b.reduce(
            b.mul(start, lanes) if lanes > 1 else start,
            found.depth,
            reach,
            [found.zero()] * (most * COLUMNS),
            step,
            hint="k",
            rounds=rounds(found.depth, reach),
            beside=group.size,
        )
        # What the epilogue reads is on its way while sums are joined.
        mine = b.minimum(group.thread, most * COLUMNS - 1)
        row, column = b.floordiv(mine, COLUMNS), b.add(first, b.rem(mine, COLUMNS))
        last = b.index(b.minimum(row, b.minus(found.rows, 1)))
        place = Place((*batch, last, _inside(b, column, found.columns)), None)
        known = epilogue.hoisted(place, moving=())
        total = group.joined_apart(sums, found.join)
        there = [
            b.compare("ult", group.thread, most * COLUMNS),
            b.compare("ult", row, found.rows),
            b.compare("ult", column, found.columns),
        ]
        b.when(both(b, there), lambda: epilogue.store(total(b.index(mine)), place, known))

    each_group(b, product(b, counts), one)

    def groups(host: LoopBuilder, value_of: HostValue) -> tuple[Index, Index, Index]:
        output = value_of(found.output)
        extents = [host.dim(output, axis) for axis in range(len(found.extents))]
        return groups_for(host, product(host, _counts(host, extents)))

    return Grid(groups, group.size)


def _counts(b: LoopBuilder, extents: Sequence[Index]) -> list[Index]:
    """Batches, whether there are rows, and groups of columns."""
    *batches, rows, columns = extents
    return [*batches, b.minimum(rows, 1), b.ceil_div(columns, COLUMNS)]


def _inside(b: LoopBuilder, place: SSAValue, count: Index) -> SSAValue:
    """A column; beyond the edge the last one."""
    if isinstance(count, int) and count % COLUMNS == 0:
        return place
    return b.index(b.minimum(place, b.minus(count, 1)))
