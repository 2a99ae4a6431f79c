"""Loops that pool planes `[N * C, H, W]`: vectors of neighbouring windows, single ones at the border.

Windows whose columns all lie in the plane are computed side by side: element (i, j) of `lanes`
windows is a vector, of every other column for a stride of two. Which rows of a window lie in the
plane is a range, the same for a whole line of the result.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, DenseArrayBase, VectorType, i64
from xdsl.dialects.vector import ShuffleOp
from xdsl.ir import SSAValue

from openinfer.dialects.nn import PoolOp
from openinfer.dialects.nn.elements import is_packed
from openinfer.lowering.cpu.vector_width import lanes_of
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import (
    element_type,
    resize_float,
    wide_type,
)
from openinfer.lowering.kernels.pool_windows import Reach, combination, divisor_of, reach
from openinfer.lowering.kernels.runs import Extent, each, extent_of, fitting_lanes, vector_run
from openinfer.lowering.kernels.window_axes import axes_of, numbers_of, planes
from openinfer.runtime.quick_dataclass import dataclass

# Columns of a window that are written out for vectors of windows.
MOST_COLUMNS = 16


@dataclass(frozen=True)
class _Line:
    """How windows lie along the last axis, known when compiling."""

    stride: int
    before: int
    dilation: int
    columns: int


def pool(b: LoopBuilder, op: PoolOp) -> None:
    """All windows of all planes; planes, or the lines of a single one, may run in parallel."""
    _Pooling(b, op).emit()


class _Pooling:
    def __init__(self, b: LoopBuilder, op: PoolOp) -> None:
        self.b, self.op = b, op
        self.source, self.target = planes(b, op.inputs[0]), planes(b, op.output)
        self.axes, self.kernel = axes_of(b, op), numbers_of(b, op.kernel, 1)
        self.extents = (b.dim(self.source, 1), b.dim(self.source, 2))
        self.element = element_type(self.source)
        self.computed = self.element
        if isinstance(self.element, AnyFloat):
            self.computed = wide_type(self.element)
        self.combine, self.start = combination(op, self.computed)
        self.lanes = 1 if is_packed(self.element) else lanes_of(op, self.computed)

    def emit(self) -> None:
        b, target = self.b, self.target

        def plane(outer: SSAValue) -> None:
            alone = extent_of(b, target, [0]).static == 1

            def row(h: SSAValue) -> None:
                self._row(outer, h)

            each(b, extent_of(b, target, [1]), row, parallel=alone, hint="h")

        each(b, extent_of(b, target, [0]), plane, parallel=True)

    def _row(self, outer: SSAValue, h: SSAValue) -> None:
        """One line of the result: single windows, vectors of windows, single windows."""
        b = self.b
        rows = self._reach(0, h)
        count = b.dim(self.target, 2)

        def single(w: SSAValue) -> None:
            self._window(outer, h, w, rows)

        line = self._known_line()
        if line is None:
            each(b, Extent((count,)), single, hint="w")
            return
        first, behind = self._inside(line, count)
        if first != 0:
            b.loop(0, first, 1, single, hint="w")
        whole = b.minus(behind, first)
        self.lanes = fitting_lanes(Extent((whole,)), self.lanes)
        if whole != 0:
            vector_run(
                b,
                Extent((whole,)),
                self.lanes,
                lambda i, mask: self._vector(
                    line, (outer, h, b.plus(i, first)), rows, whole, i, mask
                ),
                hint="w",
            )
        if behind != count:
            b.loop(behind, count, 1, single, hint="w")

    def _known_line(self) -> _Line | None:
        """How windows lie side by side, where vectors of them can be computed."""
        way, columns = self.axes[1], self.kernel[1]
        numbers = (way.stride, way.before, way.dilation, columns)
        known = [number for number in numbers if isinstance(number, int)]
        if self.lanes == 1 or len(known) < len(numbers):
            return None
        line = _Line(*known)
        return line if line.stride <= 2 and line.columns <= MOST_COLUMNS else None

    def _inside(self, way: _Line, count: Index) -> tuple[Index, Index]:
        """The range of windows all of whose columns lie in the plane."""
        b, reach = self.b, (way.columns - 1) * way.dilation
        first = b.minimum(-(-way.before // way.stride), count)
        room = b.maximum(b.plus(self.extents[1], way.before - reach + way.stride - 1), 0)
        if isinstance(room, int):
            behind: Index = room // way.stride
        else:
            behind = room if way.stride == 1 else b.floordiv(room, way.stride)
        return first, b.maximum(b.minimum(behind, count), first)

    def _reach(self, axis: int, number: Index) -> Reach:
        return reach(
            self.b, self.op, self.axes[axis], number, self.extents[axis], self.kernel[axis]
        )

    def _widened(self, value: SSAValue) -> SSAValue:
        return resize_float(self.b, value, self.computed) if self.is_float else value

    @property
    def is_float(self) -> bool:
        return isinstance(self.element, AnyFloat)

    def _finished(self, total: SSAValue, rows: Reach, columns: Reach) -> SSAValue:
        """The mean of a sum, in the type of the result."""
        b = self.b
        if self.op.kind.data == "average":
            divisor = divisor_of(b, self.op, rows, columns, self.computed)
            if isinstance(total.type, VectorType):
                divisor = b.splat(divisor, self.lanes)
            total = b.insert(arith.DivfOp(total, divisor))
        if self.is_float:
            total = resize_float(b, total, element_type(self.target))
        return total

    # A single window

    def _window(self, outer: SSAValue, h: SSAValue, w: SSAValue, rows: Reach) -> None:
        """A loop over the elements of one window that lie in the plane."""
        b, axes = self.b, self.axes
        columns = self._reach(1, w)

        def add_element(i: SSAValue, j: SSAValue, old: SSAValue) -> SSAValue:
            line = b.plus(b.times(i, axes[0].dilation), rows.first)
            place = b.plus(b.times(j, axes[1].dilation), columns.first)
            value = self._widened(b.load(self.source, [outer, line, place]))
            return self.combine(b, old, value)

        def add_row(i: SSAValue, old: SSAValue) -> SSAValue:
            (row,) = b.reduce(
                columns.start,
                columns.stop,
                1,
                [old],
                lambda j, values: [add_element(i, j, values[0])],
                hint="j",
                rounds=_number(self.kernel[1]),
            )
            return row

        (total,) = b.reduce(
            rows.start,
            rows.stop,
            1,
            [b.constant(self.start, self.computed)],
            lambda i, values: [add_row(i, values[0])],
            hint="i",
            rounds=_number(self.kernel[0]),
        )
        b.store(self._finished(total, rows, columns), self.target, [outer, h, w])

    # Windows side by side

    def _vector(
        self,
        way: _Line,
        place: tuple[Index, Index, Index],
        rows: Reach,
        whole: Index,
        i: SSAValue,
        mask: SSAValue | None,
    ) -> None:
        """The windows from a place `outer, h, w` on; of the `whole` run `i` are done."""
        b, lanes = self.b, self.lanes
        outer, _, w = place
        left = None if mask is None else b.minus(whole, i)
        first = b.minus(b.times(w, way.stride), way.before)

        def add_row(row: SSAValue, old: SSAValue) -> SSAValue:
            line = b.plus(b.times(row, self.axes[0].dilation), rows.first)
            for value in self._columns(way, [outer, line], first, left, mask):
                old = self.combine(b, old, self._widened(value))
            return old

        start = b.constant(self.start, VectorType(self.computed, [lanes]))
        (total,) = b.reduce(
            rows.start,
            rows.stop,
            1,
            [start],
            lambda row, values: [add_row(row, values[0])],
            hint="i",
            rounds=_number(self.kernel[0]),
        )
        columns = Reach(first, 0, way.columns, way.columns)
        value = self._finished(total, rows, columns)
        b.vstore(value, self.target, place, mask)

    def _columns(
        self,
        way: _Line,
        line: Sequence[Index],
        first: Index,
        left: Index | None,
        mask: SSAValue | None,
    ) -> list[SSAValue]:
        """Element j of each window, for all j."""
        b, lanes = self.b, self.lanes
        offsets = [j * way.dilation for j in range(way.columns)]
        if way.stride == 1:
            return [b.vload(self.source, [*line, b.plus(first, o)], lanes, mask) for o in offsets]
        pairs: dict[int, list[SSAValue]] = {}
        for offset in offsets:
            start = offset - offset % 2
            if start not in pairs:
                both = start + 1 in offsets
                pairs[start] = self._pair([*line], b.plus(first, start), left, both=both)
        return [
            _every_other(b, pairs[offset - offset % 2], offset % 2, lanes) for offset in offsets
        ]

    def _pair(
        self, line: list[Index], column: Index, left: Index | None, *, both: bool
    ) -> list[SSAValue]:
        """Two vectors of neighbours; what no window asks for may lie outside of the plane."""
        b, lanes = self.b, self.lanes
        wanted: Index = 2 * lanes if left is None else b.plus(left, left)
        if not both:
            wanted = b.minus(wanted, 1)
        values: list[SSAValue] = []
        for part in range(2):
            there = b.minimum(b.maximum(b.minus(wanted, part * lanes), 0), lanes)
            mask = None if there == lanes else b.mask(there, lanes)
            place = [*line, b.plus(column, part * lanes)]
            values.append(b.vload(self.source, place, lanes, mask))
        return values


def _number(size: Index) -> int | None:
    """A size that is known."""
    return size if isinstance(size, int) else None


def _every_other(b: LoopBuilder, pair: Sequence[SSAValue], first: int, lanes: int) -> SSAValue:
    kind = pair[0].type
    assert isinstance(kind, VectorType)
    places = DenseArrayBase.from_list(i64, list(range(first, 2 * lanes, 2)))
    return b.insert(ShuffleOp(pair[0], pair[1], places, result_type=kind))
