"""Loops that copy x with its padding to where the windows of a convolution are read."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import DenseArrayBase, VectorType, i64
from xdsl.dialects.vector import ShuffleOp
from xdsl.ir import SSAValue

from openinfer.lowering.cpu.schedules.conv_shape import Planes
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.numeric import element_type

# Vectors of a run that are written out one after the other instead of in a loop.
WRITTEN_OUT = 8


class PlaneCopy:
    """Copies `x[n, c]` for all n and c into a one-dimensional buffer of planes."""

    def __init__(self, build: LoopBuilder, x: SSAValue, buffer: SSAValue, planes: Planes) -> None:
        self.build, self.x, self.buffer, self.planes = build, x, buffer, planes
        self.shape, self.lanes = planes.shape, planes.lanes
        self.kind = element_type(buffer)
        self.zeros = build.constant(0, VectorType(self.kind, [self.lanes]))

    def emit(self) -> None:
        """One loop whose rounds may run on several threads."""
        build, planes = self.build, self.planes
        batch = build.dim(self.x, 0)
        channels = self.shape.groups * self.shape.channels
        if planes.flat:
            split(build, (batch, channels), self._channel)
        elif planes.lines == 1:
            split(build, (batch, channels), lambda n, c: self._one(n, 0, c))
        else:
            split(build, (batch, planes.lines), self._line)

    def _channel(self, n: Index, c: Index) -> None:
        """All lines of one channel."""
        build, planes = self.build, self.planes
        plane = build.plus(build.mul(n, planes.image), build.mul(c, planes.channel))
        stride, top = self.shape.stride[0], self.shape.before[0]
        for phase in range(planes.vertical_phases):
            start = build.add(plane, phase * planes.phases * planes.lines * planes.width)

            def one(k: SSAValue, phase: int = phase, start: SSAValue = start) -> None:
                line = build.plus(build.mul(k, stride), phase - top)
                place = build.add(start, build.mul(k, planes.width))
                self.row((n, c), line, place, planes.lines * planes.width)

            build.loop(0, planes.lines, 1, one, hint="h")

    def _line(self, n: Index, h: Index) -> None:
        """One line of all channels."""
        build = self.build
        channels = self.shape.groups * self.shape.channels
        build.loop(0, channels, 1, lambda c: self._one(n, h, c), hint="c")

    def _one(self, n: Index, h: Index, c: Index) -> None:
        """One line of one channel."""
        build, planes = self.build, self.planes
        channels = self.shape.groups * self.shape.channels
        start = build.plus(build.mul(n, planes.image), build.mul(h, channels * planes.line))
        place = build.add(start, build.mul(c, planes.line))
        self.row((n, c), build.minus(h, self.shape.before[0]), place, planes.width)

    def row(self, outer: tuple[Index, Index], line: Index, place: SSAValue, phase: int) -> None:
        """One line of one channel; its phases lie `phase` elements apart."""

        def copy() -> None:
            for f in range(self.planes.phases):
                self._phase(outer, line, f, self.build.add(place, f * phase))

        def clear() -> None:
            for f in range(self.planes.phases):
                self._clear(self.build.add(place, f * phase), 0, self.planes.width)

        height = self.shape.extent[0]
        last = (self.shape.count[0] - 1) * self.shape.stride[0] + self.shape.reach(0)
        if self.shape.before[0] == 0 and last < height and not self.planes.flat:
            copy()
            return
        # Seen as unsigned a negative line lies behind the end.
        self.build.when(self.build.compare("ult", line, height), copy, clear)

    def _phase(self, outer: tuple[Index, Index], line: Index, f: int, place: SSAValue) -> None:
        """`buffer[place + u] = x[…, u * stride + f - left]`, zeros where x has no such column."""
        stride, width = self.shape.stride[1], self.planes.width
        shift = f - self.shape.before[1]
        first = min(max(0, -(shift // stride)), width)
        behind = min(max(first, -((shift - self.shape.extent[1]) // stride)), width)
        self._clear(place, 0, first)
        if stride == 1:
            self._run(outer, line, first, behind, place, shift)
        elif stride == 2 and self.lanes > 1:
            self._every_other(outer, line, first, behind, place, shift)
        else:
            self._single(outer, line, first, behind, place, shift)
        self._clear(place, behind, width)

    # Runs

    def _at(self, outer: tuple[Index, Index], line: Index, column: Index) -> list[Index]:
        return [*outer, column] if self.shape.is_line else [*outer, line, column]

    def _chunks(self, first: int, behind: int, chunk: Callable[[Index, int], None]) -> None:
        """`chunk(start, lanes)` for all vectors of a run."""
        whole = (behind - first) // self.lanes
        if whole > WRITTEN_OUT:
            stop = first + whole * self.lanes
            self.build.loop(first, stop, self.lanes, lambda u: chunk(u, self.lanes), hint="u")
        else:
            for number in range(whole):
                chunk(first + number * self.lanes, self.lanes)
        rest = (behind - first) % self.lanes
        if rest:
            chunk(behind - rest, rest)

    def _mask(self, count: int) -> SSAValue | None:
        return None if count == self.lanes else self.build.mask(count, self.lanes)

    def _clear(self, place: SSAValue, first: int, behind: int) -> None:
        self._chunks(
            first,
            behind,
            lambda u, count: self.build.vstore(
                self.zeros, self.buffer, [self.build.plus(place, u)], self._mask(count)
            ),
        )

    def _run(
        self,
        outer: tuple[Index, Index],
        line: Index,
        first: int,
        behind: int,
        place: SSAValue,
        shift: int,
    ) -> None:
        build = self.build

        def chunk(u: Index, count: int) -> None:
            mask = self._mask(count)
            there = self._at(outer, line, build.plus(u, shift))
            value = convert(build, build.vload(self.x, there, self.lanes, mask), self.kind)
            build.vstore(value, self.buffer, [build.plus(place, u)], mask)

        self._chunks(first, behind, chunk)

    def _every_other(
        self,
        outer: tuple[Index, Index],
        line: Index,
        first: int,
        behind: int,
        place: SSAValue,
        shift: int,
    ) -> None:
        """Two vectors of x hold one of each phase."""
        build, lanes = self.build, self.lanes
        kind = VectorType(self.kind, [lanes])
        even = DenseArrayBase.from_list(i64, list(range(0, 2 * lanes, 2)))

        def chunk(u: Index, count: int) -> None:
            column = build.plus(build.plus(u, u), shift)
            # The last element that is wanted is the last that is read.
            parts: list[SSAValue] = []
            for part in range(2):
                there = min(max(2 * count - 1 - part * lanes, 0), lanes)
                if not there:
                    parts.append(self.zeros)
                    continue
                place_in_x = self._at(outer, line, build.plus(column, part * lanes))
                value = build.vload(self.x, place_in_x, lanes, self._mask(there))
                parts.append(convert(build, value, self.kind))
            value = build.insert(ShuffleOp(parts[0], parts[1], even, result_type=kind))
            build.vstore(value, self.buffer, [build.plus(place, u)], self._mask(count))

        self._chunks(first, behind, chunk)

    def _single(
        self,
        outer: tuple[Index, Index],
        line: Index,
        first: int,
        behind: int,
        place: SSAValue,
        shift: int,
    ) -> None:
        build, stride = self.build, self.shape.stride[1]

        def one(u: SSAValue) -> None:
            there = self._at(outer, line, build.plus(build.mul(u, stride), shift))
            value = convert(build, build.load(self.x, there), self.kind)
            build.store(value, self.buffer, [build.plus(place, u)])

        if behind > first:
            build.loop(first, behind, 1, one, hint="u")


def split(
    build: LoopBuilder,
    extents: tuple[Index, Index],
    body: Callable[[Index, Index], None],
) -> None:
    """One parallel loop over two extents, the second of which runs faster."""
    first, second = extents
    if first == 1:
        build.loop(0, second, 1, lambda j: body(0, j), parallel=True, hint="i")
        return
    if second == 1:
        build.loop(0, first, 1, lambda i: body(i, 0), parallel=True, hint="i")
        return
    total = build.mul(first, second)

    def one(i: SSAValue) -> None:
        body(build.floordiv(i, second), build.rem(i, second))

    build.loop(0, total, 1, one, parallel=True, hint="i")
