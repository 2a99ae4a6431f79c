"""Rows of a table by index, every index checked."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType, i64
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.arith import IndexCastOp
from openinfer.lowering.loops.builder import Index, LoopBuilder
from openinfer.lowering.loops.copies import copy_run
from openinfer.lowering.loops.numeric import compare_integers, index_to, select
from openinfer.lowering.loops.runs import Extent, collapse, each, extent_of, view_around


def gather(
    b: LoopBuilder,
    table: SSAValue,
    indices: SSAValue,
    target: SSAValue,
    axis: int,
    lanes: int,
    report: Callable[[SSAValue, Index], None] | None,
) -> None:
    """`target[outer, j…, inner] = table[outer, indices[j…], inner]`.

    An index outside of the table reads row 0, and `report(index, bound)` is built for it.
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

    def element(outer: SSAValue, j: SSAValue) -> None:
        raw = b.load(flat, [j] if index_rank else [])
        row = _checked(b, raw, bound, report)
        copy_run(
            b,
            rows.inner,
            lanes,
            (rows.buffer, lambda i: rows.at(outer, row, i)),
            (result.buffer, lambda i: result.at(outer, j, i)),
        )

    def all_elements() -> None:
        many = rows.outer.static != 1
        each(
            b,
            rows.outer,
            lambda outer: each(b, count, lambda j: element(outer, j), parallel=not many),
            parallel=True,
        )

    if isinstance(bound, int):
        if bound > 0:
            all_elements()
        elif report is not None:
            _report_first(b, flat, count, bound, report, index_rank)
        return
    # An empty table has no row 0 to read.
    b.when(
        b.compare("ne", bound, 0),
        lambda: all_elements(),
        lambda: _report_first(b, flat, count, bound, report, index_rank) if report else None,
    )


def _checked(
    b: LoopBuilder, raw: SSAValue, bound: Index, report: Callable[[SSAValue, Index], None] | None
) -> SSAValue:
    """The index if it lies in the table, else 0 and a report (unsigned: below 0 is too large)."""
    index = _as_index(b, raw)
    outside = b.compare("uge", index, bound)
    if report is not None:
        b.when(outside, lambda: report(index, bound))
    return select(b, outside, b.index(0), index)


def _as_index(b: LoopBuilder, raw: SSAValue) -> SSAValue:
    assert isinstance(raw.type, IntegerType)
    return b.insert(IndexCastOp(raw, IndexType()))


def _report_first(
    b: LoopBuilder,
    flat: SSAValue,
    count: Extent,
    bound: Index,
    report: Callable[[SSAValue, Index], None],
    index_rank: int,
) -> None:
    """Any index into an empty table is wrong: the first one is reported."""

    def first() -> None:
        report(_as_index(b, b.load(flat, [0] if index_rank else [])), bound)

    b.when(b.compare("ne", count.value(b), 0), first)


def report_into(b: LoopBuilder, errors: SSAValue, node: int) -> Callable[[SSAValue, Index], None]:
    """Records a wrong index as `[1 + node, index, bound, 0]`, unless there is an error already."""

    def report(index: SSAValue, bound: Index) -> None:
        def record() -> None:
            b.store(index_to(b, index, i64), errors, [1])
            b.store(index_to(b, b.index(bound), i64), errors, [2])
            b.store(b.constant(0, i64), errors, [3])
            b.store(b.constant(1 + node, i64), errors, [0])

        first = b.load(errors, [0])
        b.when(compare_integers(b, "eq", first, b.constant(0, i64)), record)

    return report
