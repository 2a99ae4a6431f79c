"""Copies of runs and of cut-out blocks, and joins along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.ir import SSAValue

from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.runs import (
    Extent,
    collapse,
    each,
    extent_of,
    fitting_lanes,
    vector_run,
    view_around,
)
from openinfer.runtime.quick_dataclass import dataclass

Place = Callable[[SSAValue], Sequence[Index]]
"""The indices of the i-th element of a run."""


def copy_run(
    b: LoopBuilder,
    extent: Extent,
    lanes: int,
    source: tuple[SSAValue, Place],
    target: tuple[SSAValue, Place],
    *,
    parallel: bool = False,
) -> None:
    """Copies neighbours to neighbours; a few of them one by one."""
    lanes = fitting_lanes(extent, lanes)
    if extent.static is not None and extent.static < max(2, lanes // 4):
        for i in range(extent.static):
            place = b.index(i)
            b.store(b.load(source[0], source[1](place)), target[0], target[1](place))
        return

    def chunk(i: SSAValue, mask: SSAValue | None) -> None:
        value = b.vload(source[0], source[1](i), lanes, mask)
        b.vstore(value, target[0], target[1](i), mask)

    vector_run(b, extent, lanes, chunk, parallel=parallel, hint="j")


def concatenate(
    b: LoopBuilder, sources: Sequence[SSAValue], target: SSAValue, axis: int, lanes: int
) -> None:
    """The sources one after the other along an axis: one copy of a run for each source and row."""
    rank = _rank(target)
    axis %= rank
    # [outer, axis * inner]
    views = [view_around(b, buffer, axis, rank - axis) for buffer in (*sources, target)]
    whole = views.pop()

    def row(outer: SSAValue) -> None:
        start: Index = 0
        for view in views:
            place = start
            copy_run(
                b,
                view.count,
                lanes,
                (view.buffer, lambda i, view=view: view.at(outer, i, 0)),
                (whole.buffer, lambda i, place=place: whole.at(outer, b.add(i, place), 0)),
                parallel=whole.outer.static == 1,
            )
            count = view.count.value(b)
            both = isinstance(start, int) and isinstance(count, int)
            start = start + count if both else b.add(b.index(count), start)  # pyright: ignore[reportOperatorIssue]

    each(b, whole.outer, row, parallel=True)


@dataclass(frozen=True)
class Cut:
    """What a slice takes of one axis: `start + i * step`."""

    start: Index
    step: int


def cut_out(
    b: LoopBuilder, source: SSAValue, target: SSAValue, cuts: Sequence[Cut], lanes: int
) -> None:
    """`target[i…] = source[start + i * step…]`; axes taken whole are walked with the one before."""
    groups, cuts = _joined(b, source, target, cuts)
    extents = [extent_of(b, target, group) for group in groups]
    source, target = collapse(b, source, groups), collapse(b, target, groups)

    def places(indices: Sequence[SSAValue]) -> list[Index]:
        return [
            b.add(i if cut.step == 1 else b.mul(i, cut.step), cut.start)
            for i, cut in zip(indices, cuts)
        ]

    def row(outer: list[SSAValue]) -> None:
        if not cuts:
            b.store(b.load(source, ()), target, ())
        elif cuts[-1].step == 1:
            copy_run(
                b,
                extents[-1],
                lanes,
                (source, lambda i: places([*outer, i])),
                (target, lambda i: [*outer, i]),
                parallel=len(cuts) == 1,
            )
        else:
            each(
                b,
                extents[-1],
                lambda i: b.store(b.load(source, places([*outer, i])), target, [*outer, i]),
                parallel=len(cuts) == 1,
            )

    def over(outer: list[SSAValue]) -> None:
        if len(outer) >= len(cuts) - 1:
            row(outer)
            return
        each(b, extents[len(outer)], lambda i: over([*outer, i]), parallel=not outer)

    over([])


def _joined(
    b: LoopBuilder, source: SSAValue, target: SSAValue, cuts: Sequence[Cut]
) -> tuple[list[list[int]], list[Cut]]:
    """Groups of axes that are walked as one, each with its cut."""
    assert isinstance(source.type, MemRefType)
    assert isinstance(target.type, MemRefType)
    have, want = source.type.get_shape(), target.type.get_shape()
    groups: list[list[int]] = []
    joined: list[Cut] = []
    for axis in reversed(range(len(cuts))):
        inner = groups[0] if groups else []
        whole = all(have[a] == want[a] != DYNAMIC_INDEX and cuts[a] == Cut(0, 1) for a in inner)
        if not (inner and whole and cuts[axis].step == 1):
            groups.insert(0, [axis])
            joined.insert(0, cuts[axis])
            continue
        size = extent_of(b, source, inner).value(b)
        start = cuts[axis].start
        if isinstance(start, int) and isinstance(size, int):
            start = start * size
        else:
            start = b.mul(start, size)
        groups[0] = [axis, *inner]
        joined[0] = Cut(start, 1)
    return groups, joined


def _rank(buffer: SSAValue) -> int:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type.get_num_dims()
