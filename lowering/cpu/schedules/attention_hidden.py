"""Values of keys that a query does not see: they are not part of its result, whatever they are.

Kernels multiply them with a weight of 0, which is the same unless they are infinite or NaN. That
shows: the result has a NaN then. So results are looked at, and where there is one they are added up
once more, by key, without what is hidden.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from openinfer.lowering.cpu.schedules.microkernel import Arithmetic
from openinfer.lowering.kernels.attention_sight import Heads, Hidden
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.numeric import (
    compare_floats,
    element_type,
    reduction,
)
from openinfer.lowering.kernels.runs import Extent, vector_run
from openinfer.runtime.quick_dataclass import dataclass


@dataclass(frozen=True)
class Results:
    """Some results of one head of values: rows of queries, or of heads that share the values."""

    batch: Index
    group: Index
    rows: Index
    keys: tuple[Index, Index]
    place: Callable[[Index], tuple[Index, Index]]
    """The head and the query of a row."""
    weight: Callable[[SSAValue, Index], SSAValue]
    """The weight of a key in a row, one number as sums are kept."""
    share: Callable[[Index], SSAValue] | None = None
    """What the sum of a row is multiplied by."""


def mend(
    build: LoopBuilder, how: Arithmetic, hidden: Hidden, v: Heads, out: Heads, results: Results
) -> None:
    """Adds up once more what has become NaN; nothing is emitted where no key can be hidden."""
    if not hidden.anything:
        return
    size = Extent((build.dim(out.buffer, 3),))

    def at(row: Index, column: SSAValue) -> list[Index]:
        head, query = results.place(row)
        return out.at(results.batch, head, query, column)

    def load(row: Index, column: SSAValue, mask: SSAValue | None) -> SSAValue:
        return how.widen(build, build.vload(out.buffer, at(row, column), how.lanes, mask))

    def is_nan(value: SSAValue) -> SSAValue:
        """Whether a lane is NaN, or two are infinities that are not equal."""
        total = reduction(build, "add", value)
        return compare_floats(build, "uno", total, total)

    def columns(row: SSAValue) -> None:
        def some(column: SSAValue, mask: SSAValue | None) -> None:
            wrong = is_nan(load(row, column, mask))
            build.when(wrong, lambda: _again(row, column, mask))

        vector_run(build, size, how.lanes, some, hint="d")

    def _again(row: SSAValue, column: SSAValue, mask: SSAValue | None) -> None:
        head, query = results.place(row)

        def one(key: SSAValue, totals: list[SSAValue]) -> list[SSAValue]:
            place = (results.batch, results.group, key, column)
            value = how.widen(build, v.vector(build, place, how.lanes, mask))
            weight = build.splat(results.weight(key, row), how.lanes)
            product = build.insert(arith.MulfOp(weight, value))
            return [build.insert(arith.AddfOp(totals[0], product))]

        (total,) = build.reduce(
            *results.keys,
            1,
            [build.constant(0, how.vector)],
            lambda key, totals: build.when(
                hidden.seen(results.batch, head, query, key),
                lambda: one(key, list(totals)),
                lambda: list(totals),
                [how.vector],
            ),
            hint="j",
            sums="products",
        )
        if results.share is not None:
            share = build.splat(results.share(row), how.lanes)
            total = build.insert(arith.MulfOp(total, share))
        value = convert(build, total, element_type(out.buffer))
        build.vstore(value, out.buffer, at(row, column), mask)

    def sum_of_row(row: SSAValue, old: SSAValue) -> SSAValue:
        return _added(build, how, size, lambda column, mask: load(row, column, mask), old)

    zero = build.constant(0, how.vector)
    (total,) = build.reduce(
        0,
        results.rows,
        1,
        [zero],
        lambda row, old: [sum_of_row(row, old[0])],
        hint="r",
        sums="marks",
    )
    build.when(is_nan(total), lambda: build.loop(0, results.rows, 1, columns, hint="r"))


def _added(
    build: LoopBuilder,
    how: Arithmetic,
    size: Extent,
    load: Callable[[SSAValue, SSAValue | None], SSAValue],
    old: SSAValue,
) -> SSAValue:
    """The vectors of a row on top of a sum."""
    count = size.value(build)
    whole = build.round_down(count, how.lanes)
    (total,) = build.reduce(
        0,
        whole,
        how.lanes,
        [old],
        lambda column, sums: [build.insert(arith.AddfOp(sums[0], load(column, None)))],
        hint="d",
        sums="marks",
    )
    rest = build.minus(count, whole)
    if rest == 0:
        return total
    mask = build.mask(rest, how.lanes)
    return build.insert(arith.AddfOp(total, load(build.index(whole), mask)))
