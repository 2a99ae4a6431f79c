"""Slices written at indices, every index checked."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from openinfer.lowering.cpu.schedules.gathers import Report, as_index, check_of_none
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.copies import copy_run
from openinfer.lowering.kernels.joins import joined
from openinfer.lowering.kernels.runs import (
    collapse,
    each,
    extent_of,
    fitting_lanes,
    vector_run,
    view_around,
)


def scatter(
    b: LoopBuilder,
    inputs: tuple[SSAValue, SSAValue, SSAValue],
    target: SSAValue,
    axis: int,
    mode: str,
    lanes: int,
    report: Report | None,
    *,
    unsigned: bool,
    unsigned_indices: bool = False,
) -> None:
    """`target = x`, then `target[outer, indices[j…], inner]` joined with `updates[outer, j…, inner]`.

    Indices come one after the other, so that equal ones have a fixed order; slices of different
    `outer` go in parallel. For an index outside of x nothing is written, and `report(index, bound, j)`
    is built.
    """
    x, indices, updates = inputs
    assert isinstance(target.type, MemRefType)
    assert isinstance(indices.type, MemRefType)
    axis %= target.type.get_num_dims()
    index_rank = indices.type.get_num_dims()
    copy_all(b, x, target, lanes)
    result = view_around(b, target, axis)
    new = view_around(b, updates, axis, index_rank)
    flat = collapse(b, indices, [list(range(index_rank))]) if index_rank > 1 else indices
    count = extent_of(b, indices, range(index_rank))
    bound = result.count.value(b)

    def join(outer: SSAValue, j: SSAValue, row: SSAValue) -> None:
        if mode == "set":
            copy_run(
                b,
                result.inner,
                lanes,
                (new.buffer, lambda i: new.at(outer, j, i)),
                (result.buffer, lambda i: result.at(outer, row, i)),
            )
            return
        if not result.parts[2]:
            _join_one(result.at(outer, row, 0), new.at(outer, j, 0))
            return
        width = fitting_lanes(result.inner, lanes)

        def chunk(i: SSAValue, mask: SSAValue | None) -> None:
            places = result.at(outer, row, i)
            old = b.vload(result.buffer, places, width, mask)
            update = b.vload(new.buffer, new.at(outer, j, i), width, mask)
            b.vstore(combine(old, update), result.buffer, places, mask)

        vector_run(b, result.inner, width, chunk, hint="j")

    def _join_one(place: list[Index], source: list[Index]) -> None:
        old, update = b.load(result.buffer, place), b.load(new.buffer, source)
        b.store(combine(old, update), result.buffer, place)

    def combine(old: SSAValue, update: SSAValue) -> SSAValue:
        return joined(b, mode, old, update, unsigned=unsigned)

    def element(outer: SSAValue, j: SSAValue) -> None:
        index = as_index(b, b.load(flat, [j] if index_rank else []), unsigned_indices)
        # Unsigned: what is below 0 is too large.
        inside = b.compare("ult", index, bound)
        tell = report
        if tell is None:
            b.when(inside, lambda: join(outer, j, index))
        else:
            b.when(inside, lambda: join(outer, j, index), lambda: tell(index, bound, j))

    # Not `each` around the indices: a loop is one share of the step's work, single ops are many.
    b.loop(
        0,
        result.outer.value(b),
        1,
        lambda outer: each(b, count, lambda j: element(outer, j)),
        parallel=result.outer.static != 1,
    )
    check_of_none(b, result.outer, flat, bound, report, unsigned=unsigned_indices)


def copy_all(b: LoopBuilder, source: SSAValue, target: SSAValue, lanes: int) -> None:
    """The elements of a buffer into another one of its shape."""
    assert isinstance(target.type, MemRefType)
    axes = range(target.type.get_num_dims())
    extent = extent_of(b, target, axes)
    flat = [collapse(b, value, [list(axes)]) for value in (source, target)]
    copy_run(b, extent, lanes, (flat[0], lambda i: [i]), (flat[1], lambda i: [i]), parallel=True)
