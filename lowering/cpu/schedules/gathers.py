"""Rows of a table by index, every index checked."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType, i64
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.arith import IndexCastOp, IndexCastUIOp
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.copies import copy_run
from openinfer.lowering.kernels.numeric import compare_integers, index_to, select
from openinfer.lowering.kernels.runs import Extent, collapse, each, extent_of, view_around
from openinfer.runtime.devices.failures import PLACE
from openinfer.runtime.quick_dataclass import dataclass


@dataclass(frozen=True)
class Report:
    """Builds what notes a wrong index: its value, the bound, and which one of the indices it is."""

    b: LoopBuilder
    errors: SSAValue
    node: int

    def __call__(self, index: SSAValue, bound: Index, j: SSAValue) -> None:
        b = self.b

        def record() -> None:
            b.store(index_to(b, index, i64), self.errors, [1])
            b.store(index_to(b, b.index(bound), i64), self.errors, [2])
            b.store(index_to(b, b.mul(b.add(j, 1), PLACE), i64), self.errors, [3])
            b.store(b.constant(1 + self.node, i64), self.errors, [0])

        self.unless_noted(record)

    def unless_noted(self, build: Callable[[], None]) -> None:
        """What is done where there is no error yet."""
        b = self.b
        first = b.load(self.errors, [0])
        b.when(compare_integers(b, "eq", first, b.constant(0, i64)), build)


Run = tuple[SSAValue, Callable[[Index], list[Index]]]
"""A buffer, and the indices of an element of a run in it."""
Move = Callable[[Run, Run], None]
"""Writes a run of the result from one of the table."""


def gather(
    b: LoopBuilder,
    table: SSAValue,
    indices: SSAValue,
    target: SSAValue,
    axis: int,
    lanes: int,
    report: Report | None,
    *,
    unsigned: bool = False,
    move: Move | None = None,
) -> None:
    """`target[outer, j…, inner] = table[outer, indices[j…], inner]`, what `move` makes of it.

    An index outside of the table reads row 0, and the first such index is reported. `unsigned` says that
    the indices have no sign.
    """
    assert isinstance(table.type, MemRefType)
    assert isinstance(indices.type, MemRefType)
    rank, index_rank = table.type.get_num_dims(), indices.type.get_num_dims()
    axis %= rank
    rows = view_around(b, table, axis)
    result = view_around(b, target, axis, index_rank)
    flat = collapse(b, indices, [list(range(index_rank))]) if index_rank > 1 else indices
    count = extent_of(b, indices, range(index_rank))
    bound = rows.count.value(b)

    together = rows.outer.static == 1
    """Whether threads share the indices."""

    def tell_of_the_first(_index: SSAValue, bound: Index, _j: SSAValue) -> None:
        # Threads come to wrong indices in any order: each looks for the first one, and notes the same.
        tell = report
        assert tell is not None
        tell.unless_noted(lambda: check_indices(b, flat, bound, tell, unsigned=unsigned))

    def element(outer: SSAValue, j: SSAValue) -> None:
        index = as_index(b, b.load(flat, [j] if index_rank else []), unsigned)
        shared = tell_of_the_first if together and index_rank and report is not None else report
        row = _checked(b, index, bound, j, shared)
        here: Run = (rows.buffer, lambda i: rows.at(outer, row, i))
        there: Run = (result.buffer, lambda i: result.at(outer, j, i))
        if move is not None:
            move(here, there)
        else:
            copy_run(b, rows.inner, lanes, here, there)

    def all_elements() -> None:
        each(
            b,
            rows.outer,
            lambda outer: each(b, count, lambda j: element(outer, j), parallel=together),
            parallel=True,
        )
        check_of_none(b, rows.outer, flat, bound, report, unsigned=unsigned)

    def report_first() -> None:
        """Any index into an empty table is wrong: the first one is reported."""
        tell = report
        assert tell is not None

        def first() -> None:
            tell(as_index(b, b.load(flat, [0] if index_rank else []), unsigned), bound, b.index(0))

        b.when(b.compare("ne", count.value(b), 0), first)

    if isinstance(bound, int):
        if bound > 0:
            all_elements()
        elif report is not None:
            report_first()
        return
    # An empty table has no row 0 to read.
    b.when(
        b.compare("ne", bound, 0),
        lambda: all_elements(),
        lambda: report_first() if report else None,
    )


def check_indices(
    b: LoopBuilder, indices: SSAValue, bound: Index, report: Report, *, unsigned: bool
) -> None:
    """`report` for the indices outside of `0..bound`, in their order."""
    assert isinstance(indices.type, MemRefType)
    rank = indices.type.get_num_dims()
    flat = collapse(b, indices, [list(range(rank))]) if rank > 1 else indices

    def one(j: SSAValue) -> None:
        _checked(b, as_index(b, b.load(flat, [j] if rank else []), unsigned), bound, j, report)

    each(b, extent_of(b, indices, range(rank)), one)


def check_of_none(
    b: LoopBuilder,
    outer: Extent,
    flat: SSAValue,
    bound: Index,
    report: Report | None,
    *,
    unsigned: bool,
) -> None:
    """Indices that select from nothing, since nothing stands around them, are looked at all the same."""
    times = outer.value(b)
    if report is None or (isinstance(times, int) and times):
        return

    def check() -> None:
        check_indices(b, flat, bound, report, unsigned=unsigned)

    if isinstance(times, int):
        check()
    else:
        b.when(b.compare("eq", times, 0), check)


def _checked(
    b: LoopBuilder,
    index: SSAValue,
    bound: Index,
    j: SSAValue,
    report: Callable[[SSAValue, Index, SSAValue], None] | None,
) -> SSAValue:
    """The index if it lies in the table, else 0 and a report (unsigned: below 0 is too large)."""
    outside = b.compare("uge", index, bound)
    if report is not None:
        b.when(outside, lambda: report(index, bound, j))
    return select(b, outside, b.index(0), index)


def as_index(b: LoopBuilder, raw: SSAValue, unsigned: bool) -> SSAValue:
    """An integer with or without a sign as an index."""
    assert isinstance(raw.type, IntegerType)
    return b.insert((IndexCastUIOp if unsigned else IndexCastOp)(raw, IndexType()))


def report_into(b: LoopBuilder, errors: SSAValue, node: int) -> Report:
    """Records a wrong index as `[1 + node, index, bound, PLACE * (1 + j)]`, unless there is an error
    already."""
    return Report(b, errors, node)
