"""Loops over the windows of planes `[N * C, H, W]`: unfolding and folding.

Which elements of a window lie in the plane is decided once for each row and column of the result, as
a range of places, so that no element is tested by itself.
"""

from __future__ import annotations

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.ir import SSAValue

from openinfer.dialects.nn import FoldOp, UnfoldOp
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.copies import copy_run
from openinfer.lowering.kernels.elements import add
from openinfer.lowering.kernels.numeric import element_type
from openinfer.lowering.kernels.runs import Extent, each, extent_of, fitting_lanes, vector_run
from openinfer.lowering.kernels.squares import interleave
from openinfer.lowering.kernels.window_axes import Axis, axes_of, planes, reached

MOST_WOVEN = 4
"""Columns of a kernel whose vectors are woven in registers; of other kernels elements are moved singly."""


def _span(b: LoopBuilder, first: Index, behind: Index) -> Extent:
    return Extent((b.minus(behind, first),))


# Unfolding ----------------------------------------------------------------------------------------


def unfold(b: LoopBuilder, op: UnfoldOp, lanes: int) -> None:
    """A row of the result is a row of the plane, shifted, between zeros."""
    source, target = planes(b, op.inputs[0]), planes(b, op.output)
    vertical, horizontal = axes_of(b, op)
    height, width = b.dim(source, 1), b.dim(source, 2)
    columns = b.dim(target, 4)
    zero = b.constant(0, element_type(source))

    def fill(plane: list[Index], first: Index, behind: Index) -> None:
        extent = _span(b, first, behind)
        if extent.static == 0:
            return
        zeros = b.splat(zero, lanes)

        def chunk(i: SSAValue, mask: SSAValue | None) -> None:
            b.vstore(zeros, target, [*plane, b.plus(i, first)], mask)

        vector_run(b, extent, lanes, chunk, hint="j")

    def element(outer: SSAValue, i: SSAValue, j: SSAValue) -> None:
        shift = horizontal.offset(b, j)
        first, behind = (
            (0, columns)
            if horizontal.inside
            else reached(b, shift, horizontal.stride, width, columns)
        )

        def row(h: SSAValue) -> None:
            plane: list[Index] = [outer, i, j, h]
            line = b.plus(b.times(h, vertical.stride), vertical.offset(b, i))

            def copy() -> None:
                fill(plane, 0, first)
                _copy_columns(
                    b,
                    (source, [outer, line], shift, horizontal.stride),
                    (target, plane),
                    (first, behind),
                    lanes,
                )
                fill(plane, behind, columns)

            if vertical.inside:
                copy()
                return
            # Seen as unsigned a negative line lies behind the end.
            b.when(b.compare("ult", line, height), copy, lambda: fill(plane, 0, columns))

        each(b, extent_of(b, target, [3]), row, hint="h")

    def plane(outer: SSAValue) -> None:
        kernel = [extent_of(b, target, [axis]) for axis in (1, 2)]
        alone = extent_of(b, target, [0]).static == 1
        each(
            b,
            kernel[0],
            lambda i: each(b, kernel[1], lambda j: element(outer, i, j)),
            parallel=alone,
        )

    each(b, extent_of(b, target, [0]), plane, parallel=True)


def _copy_columns(
    b: LoopBuilder,
    source: tuple[SSAValue, list[Index], Index, Index],
    target: tuple[SSAValue, list[Index]],
    places: tuple[Index, Index],
    lanes: int,
) -> None:
    """`target[…, w] = source[…, w * stride + shift]` for a range of w."""
    buffer, line, shift, stride = source
    result, plane = target
    first, behind = places
    if stride == 1:
        start = b.plus(first, shift)
        copy_run(
            b,
            _span(b, first, behind),
            lanes,
            (buffer, lambda i: [*line, b.plus(i, start)]),
            (result, lambda i: [*plane, b.plus(i, first)]),
        )
        return

    def one(w: SSAValue) -> None:
        value = b.load(buffer, [*line, b.plus(b.times(w, stride), shift)])
        b.store(value, result, [*plane, w])

    b.loop(first, behind, 1, one, hint="w")


# Folding ------------------------------------------------------------------------------------------


def fold(b: LoopBuilder, op: FoldOp, lanes: int) -> None:
    """The plane is cleared, then each element of the kernel adds its rows where they fall.

    Where windows lie side by side each element of the plane is one of a window: nothing is added.
    """
    source, target = planes(b, op.inputs[0]), planes(b, op.output)
    vertical, horizontal = axes_of(b, op)
    if _side_by_side(vertical, horizontal, source, target):
        _weave(b, source, target, lanes)
        return
    height, width = b.dim(target, 1), b.dim(target, 2)
    rows, columns = b.dim(source, 3), b.dim(source, 4)
    zeros = b.splat(b.constant(0, element_type(target)), lanes)

    def clear(outer: SSAValue, h: SSAValue) -> None:
        vector_run(
            b,
            Extent((width,)),
            lanes,
            lambda i, mask: b.vstore(zeros, target, [outer, h, i], mask),
            hint="w",
        )

    def element(outer: SSAValue, i: SSAValue, j: SSAValue) -> None:
        down, right = vertical.offset(b, i), horizontal.offset(b, j)
        lines = reached(b, down, vertical.stride, height, rows)
        places = reached(b, right, horizontal.stride, width, columns)

        def line(h: SSAValue) -> None:
            there: list[Index] = [outer, b.plus(b.times(h, vertical.stride), down)]
            here: list[Index] = [outer, i, j, h]
            _add_columns(
                b, (source, here), (target, there, right, horizontal.stride), places, lanes
            )

        b.loop(*lines, 1, line, hint="h")

    def plane(outer: SSAValue) -> None:
        each(b, Extent((height,)), lambda h: clear(outer, h), hint="h")
        kernel = [extent_of(b, source, [axis]) for axis in (1, 2)]
        each(b, kernel[0], lambda i: each(b, kernel[1], lambda j: element(outer, i, j)))

    each(b, extent_of(b, target, [0]), plane, parallel=True)


def _add_columns(
    b: LoopBuilder,
    source: tuple[SSAValue, list[Index]],
    target: tuple[SSAValue, list[Index], Index, Index],
    places: tuple[Index, Index],
    lanes: int,
) -> None:
    """`target[…, w * stride + shift] += source[…, w]` for a range of w."""
    buffer, here = source
    result, there, shift, stride = target
    first, behind = places
    if stride != 1:

        def one(w: SSAValue) -> None:
            place = [*there, b.plus(b.times(w, stride), shift)]
            b.store(add(b, b.load(result, place), b.load(buffer, [*here, w])), result, place)

        b.loop(first, behind, 1, one, hint="w")
        return

    def chunk(i: SSAValue, mask: SSAValue | None) -> None:
        w = b.plus(i, first)
        place = [*there, b.plus(w, shift)]
        value = b.vload(buffer, [*here, w], lanes, mask)
        b.vstore(add(b, b.vload(result, place, lanes, mask), value), result, place, mask)

    vector_run(b, _span(b, first, behind), lanes, chunk, hint="w")


def _side_by_side(vertical: Axis, horizontal: Axis, source: SSAValue, target: SSAValue) -> bool:
    """Whether windows of known sizes cover the plane, and each element of it once."""
    assert isinstance(source.type, MemRefType)
    assert isinstance(target.type, MemRefType)
    have, want = source.type.get_shape(), target.type.get_shape()
    if DYNAMIC_INDEX in (*have[1:], *want[1:]):
        return False
    return all(
        way.inside and way.stride == have[1 + axis] and (way.dilation == 1 or way.stride == 1)
        for axis, way in enumerate((vertical, horizontal))
    ) and tuple(want[1:]) == (have[1] * have[3], have[2] * have[4])


def _weave(b: LoopBuilder, source: SSAValue, target: SSAValue, lanes: int) -> None:
    """A line of the result has an element of each column of the kernel in turn."""
    assert isinstance(source.type, MemRefType)
    _, rows, columns, height, width = source.type.get_shape()
    lanes = fitting_lanes(Extent((width,)), lanes)
    woven = columns <= MOST_WOVEN and columns & (columns - 1) == 0 and lanes > 1

    def mask(count: int) -> SSAValue | None:
        return None if count >= lanes else b.mask(count, lanes)

    def run(here: list[Index], there: list[Index]) -> None:
        def chunk(w: Index, count: int) -> None:
            parts = [
                b.vload(source, [here[0], here[1], j, here[2], w], lanes, mask(count))
                for j in range(columns)
            ]
            first = b.times(w, columns)
            for number, value in enumerate(interleave(b, parts)):
                rest = count * columns - number * lanes
                if rest > 0:
                    b.vstore(value, target, [*there, b.plus(first, number * lanes)], mask(rest))

        whole = width // lanes * lanes
        if whole == lanes:
            chunk(0, lanes)
        elif whole:
            b.loop(0, whole, lanes, lambda w: chunk(w, lanes), hint="w")
        if width > whole:
            chunk(whole, width - whole)

    def single(here: list[Index], there: list[Index]) -> None:
        def column(j: SSAValue) -> None:
            def one(w: SSAValue) -> None:
                value = b.load(source, [here[0], here[1], j, here[2], w])
                b.store(value, target, [*there, b.add(b.mul(w, columns), j)])

            b.loop(0, width, 1, one, hint="w")

        each(b, Extent((columns,)), column, hint="j")

    def plane(outer: SSAValue) -> None:
        def line(h: SSAValue) -> None:
            def row(i: SSAValue) -> None:
                (run if woven else single)([outer, i, h], [outer, b.add(b.times(h, rows), i)])

            each(b, Extent((rows,)), row, hint="i")

        each(b, Extent((height,)), line, hint="h")

    each(b, extent_of(b, target, [0]), plane, parallel=True)
