"""The schedule of a convolution of each channel by itself: x is read where it lies, its border as masks.

    for each image, for each channel                         (parallel)
      for each tile of lines, for each vector of a line:
        for each line that the windows cover: load its vectors, multiply them with the weights of all
          lines of the result that see them
        apply the body, store

Where registers have room for it, there is a vector of every weight in them. Of larger kernels, and with 16
registers, there is one column of weights at a time:

        for each column of the kernel: load its weights
          for each line that the windows cover: load one vector, multiply it with the weights of …

Lines above and below the image are zeros that nothing is read for, columns beside it are lanes that a mask
reads as zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseArrayBase, VectorType, i64
from xdsl.dialects.vector import ShuffleOp
from xdsl.ir import SSAValue

from openinfer.lowering.cpu.machine import Machine
from openinfer.lowering.cpu.schedules.conv_planes import split
from openinfer.lowering.cpu.schedules.conv_shape import ConvShape
from openinfer.lowering.cpu.schedules.conv_tile import Weights
from openinfer.lowering.cpu.schedules.microkernel import Arithmetic
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import multiply_add
from openinfer.lowering.kernels.epilogue import Epilogue, Place

# Weights that stay in registers, where there are 32 of these.
MOST_TAPS = 9
# Lines of a tile: more of them share the lines that they read.
FEW_LINES, MOST_LINES = 4, 7
# Columns of the kernel that are written out one after the other instead of in a loop.
WRITTEN_OUT = 3


def is_depthwise(shape: ConvShape, machine: Machine) -> bool:
    """Whether the schedule takes a convolution whose x and sums have one type."""
    alone = shape.channels == shape.outputs == shape.pool == 1
    near = shape.stride[1] <= 2 and (shape.stride[1] == 1 or shape.dilation[1] == 1)
    return alone and near and machine.has_masks and most_lines(shape, machine) >= FEW_LINES


def keeps_weights(shape: ConvShape, machine: Machine) -> bool:
    """Whether all weights of a channel stay in registers."""
    return shape.taps <= MOST_TAPS and machine.registers >= 32


def most_lines(shape: ConvShape, machine: Machine) -> int:
    """Lines of a tile at most; 0 where there is no room for any, or sums have to go in order."""
    if keeps_weights(shape, machine):
        return MOST_LINES
    if not machine.fused:
        return 0
    # What is read, a mask, and the weights of one column, or of two that one pair of vectors has.
    others = 2 * shape.stride[1] + shape.stride[1] * shape.kernel[0]
    return max(0, min(MOST_LINES, machine.registers - others))


def lines_of(count: int, most: int = MOST_LINES) -> int:
    """Lines of a tile, of so many: a number that divides them, if that is not small."""
    for lines in range(min(count, most), 2, -1):
        if count % lines == 0:
            return lines
    return min(count, FEW_LINES)


@dataclass
class Depthwise:
    """Emits the loops of one convolution; x and the result are `[N, C, H, W]`."""

    how: Arithmetic
    shape: ConvShape
    machine: Machine
    x: SSAValue
    weights: Weights
    epilogue: Epilogue

    def __post_init__(self) -> None:
        self.build: LoopBuilder = self.epilogue.build
        self.lines = lines_of(self.shape.count[0], most_lines(self.shape, self.machine))
        self.by_columns = not keeps_weights(self.shape, self.machine)
        self._masks: dict[tuple[int, int], SSAValue] = {}

    def emit(self) -> None:
        """All channels of all images; what masks there are stands in front of the loops."""
        build = self.build
        for column in self._columns():
            if isinstance(column, int):
                self._mask(0, self.shape.count[1] - column)
                for offset in self._offsets():
                    self._mask(*self._inside(column, offset))
        split(build, (build.dim(self.x, 0), self.shape.groups), self._channel)

    # Columns

    def _columns(self) -> list[int | tuple[int, int]]:
        """First columns of vectors, or (first, stop) of some that need no mask and are in a loop."""
        lanes, count = self.how.lanes, self.shape.count[1]
        starts = list(range(0, count, lanes))
        free = [c for c in starts if c + lanes <= count and self._is_inner(c)]
        # Loops over columns of the kernel are more code than sums that are written out.
        if len(free) < (2 if self.by_columns else 3):
            return list(starts)
        inner = (free[0], free[-1] + lanes)
        before = [c for c in starts if c < free[0]]
        return [*before, inner, *(c for c in starts if c > free[-1])]

    def _is_inner(self, column: int) -> bool:
        """Whether no window of the vector from a column on reaches beyond the image."""
        first = column * self.shape.stride[1] - self.shape.before[1]
        behind = first + max(self._offsets()) + self.how.lanes
        return first >= 0 and behind <= self.shape.extent[1]

    def _offsets(self) -> list[int]:
        """Where the vectors of a line begin that are read for one of its vectors of sums."""
        taps = [j * self.shape.dilation[1] for j in range(self.shape.kernel[1])]
        if self.shape.stride[1] == 1:
            return taps
        return [start - start % 2 + part for start in taps for part in (0, self.how.lanes)]

    def _inside(self, column: int, offset: int) -> tuple[int, int]:
        """The lanes of a vector of x, from the first window's column + `offset` on, that are pixels."""
        first = column * self.shape.stride[1] - self.shape.before[1] + offset
        return max(0, -first), self.shape.extent[1] - first

    def _mask(self, first: int, behind: int) -> SSAValue | None:
        """True in the lanes from `first` to `behind`; None for all."""
        lanes = self.how.lanes
        key = min(max(first, 0), lanes), min(max(behind, 0), lanes)
        if key == (0, lanes):
            return None
        if key not in self._masks:
            start, stop = key
            found = self.build.mask(max(stop, start), lanes)
            if start:
                below = self.build.mask(start, lanes)
                found = self.build.insert(arith.XOrIOp(found, below))
            self._masks[key] = found
        return self._masks[key]

    # One channel

    def _channel(self, n: Index, g: Index) -> None:
        build, shape = self.build, self.shape
        weights: list[list[SSAValue]] = []
        if not self.by_columns:
            across = range(shape.kernel[1])
            weights = [[self._weight(g, i, j) for j in across] for i in range(shape.kernel[0])]
        place = Place((n, g, 0, 0), self.how.lanes)
        known = self.epilogue.hoisted(place, (2, 3))

        def tile(line: Index, lines: int) -> None:
            for column in self._columns():
                if isinstance(column, int):
                    self._tile((n, g), line, lines, column, weights, known)
                    continue
                build.loop(
                    *column,
                    self.how.lanes,
                    lambda c: self._tile((n, g), line, lines, c, weights, known),
                    hint="w",
                )

        count, lines = shape.count[0], self.lines
        whole = count // lines * lines
        free = [h for h in range(0, whole, lines) if self._sees_all(h)]
        if len(free) < 2:
            free = []
        for line in range(0, whole, lines):
            if line not in free:
                tile(line, lines)
            elif line == free[0]:
                stop = free[-1] + lines
                build.loop(line, stop, lines, lambda h: tile(h, lines), hint="h")
        if count > whole:
            tile(whole, count - whole)

    def _weight(self, g: Index, i: int, j: Index) -> SSAValue:
        """One weight, in all lanes."""
        build, place = self.build, [g, 0, i, j]
        if self.weights.packed:
            place = [g, 0, build.plus(j, i * self.shape.kernel[1]), 0]
        value = build.load(self.weights.buffer, place)
        return build.splat(self.how.widen(build, value), self.how.lanes)

    def _sees_all(self, line: int) -> bool:
        """Whether all lines that a tile reads are in the image."""
        first = line * self.shape.stride[0] - self.shape.before[0]
        last = first + (self.lines - 1) * self.shape.stride[0] + self.shape.reach(0)
        return first >= 0 and last < self.shape.extent[0]

    def _tile(
        self,
        outer: tuple[Index, Index],
        line: Index,
        lines: int,
        column: Index,
        weights: list[list[SSAValue]],
        known: list[SSAValue | None],
    ) -> None:
        """The sums of one vector of some lines, and what becomes of them."""
        build, shape, lanes = self.build, self.shape, self.how.lanes
        if self.by_columns:
            sums = self._column_sums(outer, line, lines, column)
        else:
            sums = self._line_sums(outer, line, lines, column, weights)
        rest = shape.count[1] - column if isinstance(column, int) else lanes
        mask = self._mask(0, rest)
        last = None if mask is None else shape.count[1] - 1
        for row, value in enumerate(sums):
            place = Place((*outer, build.plus(line, row), column), lanes, mask, last)
            self.epilogue.store(value, place, known)

    def _read(self, line: Index, lines: int) -> list[tuple[Index, list[tuple[int, int]]]]:
        """The lines that windows cover, each with who sees it: (line of the tile, line of the kernel)."""
        build, shape = self.build, self.shape
        top = build.minus(build.times(line, shape.stride[0]), shape.before[0])
        found: list[tuple[Index, list[tuple[int, int]]]] = []
        for down in range((lines - 1) * shape.stride[0] + shape.reach(0) + 1):
            seen = [
                (row, i)
                for row in range(lines)
                for i in range(shape.kernel[0])
                if row * shape.stride[0] + i * shape.dilation[0] == down
            ]
            if seen:
                found.append((build.plus(top, down), seen))
        return found

    def _beyond(self, line: Index) -> bool:
        """Whether a line is known to be above or below the image."""
        return isinstance(line, int) and not 0 <= line < self.shape.extent[0]

    def _line_sums(
        self,
        outer: tuple[Index, Index],
        line: Index,
        lines: int,
        column: Index,
        weights: list[list[SSAValue]],
    ) -> list[SSAValue]:
        """The sums of a tile whose weights are in registers."""
        build, shape = self.build, self.shape
        zero = build.constant(0, self.how.vector)
        sums = [zero] * lines
        for here, seen in self._read(line, lines):
            pixels: dict[int, SSAValue] = {}
            for j in range(shape.kernel[1]):
                value = zero
                if not self._beyond(here):
                    value = self._pixels([*outer, here], column, j * shape.dilation[1], pixels)
                for row, i in seen:
                    sums[row] = multiply_add(
                        build, weights[i][j], value, sums[row], fused=self.how.fused
                    )
        return sums

    def _column_sums(
        self, outer: tuple[Index, Index], line: Index, lines: int, column: Index
    ) -> list[SSAValue]:
        """The sums of a tile, a column of the kernel after the other; two at once with a stride."""
        build, shape = self.build, self.shape
        zero = build.constant(0, self.how.vector)
        at_once, read = shape.stride[1], self._read(line, lines)

        def step(j: Index, count: int, old: Sequence[SSAValue]) -> list[SSAValue]:
            weights = [
                [self._weight(outer[1], i, build.plus(j, t)) for i in range(shape.kernel[0])]
                for t in range(count)
            ]
            offset = build.times(j, shape.dilation[1])
            parts = [build.plus(offset, part * self.how.lanes) for part in range(at_once)]
            masks = [self._edge(column, part) for part in parts]
            sums = list(old)
            for here, seen in read:
                values = [zero] * count
                if not self._beyond(here):
                    place = [*outer, here]
                    vectors = [self._vector(place, column, p, m) for p, m in zip(parts, masks)]
                    values = vectors
                    if at_once == 2:
                        low, high = vectors
                        values = [self._every_other(low, high, t) for t in range(count)]
                for value, own in zip(values, weights):
                    for row, i in seen:
                        sums[row] = multiply_add(
                            build, own[i], value, sums[row], fused=self.how.fused
                        )
            return sums

        whole, rest = divmod(shape.kernel[1], at_once)
        sums: Sequence[SSAValue] = [zero] * lines
        if shape.kernel[1] > WRITTEN_OUT:
            sums = build.reduce(
                0,
                whole * at_once,
                at_once,
                sums,
                lambda j, old: step(j, at_once, old),
                hint="j",
                sums="products",
            )
        else:
            for j in range(0, whole * at_once, at_once):
                sums = step(j, at_once, sums)
        return list(step(whole * at_once, rest, sums) if rest else sums)

    def _edge(self, column: Index, offset: Index) -> SSAValue | None:
        """The lanes of a vector of x, from the first window's column + `offset` on, that are pixels."""
        if not isinstance(column, int):
            return None
        if isinstance(offset, int):
            return self._mask(*self._inside(column, offset))
        build, width, lanes = self.build, self.shape.extent[1], self.how.lanes
        first = column * self.shape.stride[1] - self.shape.before[1]
        behind = first + max(self._offsets()) + lanes
        start = build.minus(-first, offset)
        stop = build.minus(width - first, offset)
        # One of both begins, where there is something to the left; the other one ends.
        if first >= 0:
            return None if behind <= width else build.mask(stop, lanes)
        inside = build.mask(lanes if behind <= width else stop, lanes)
        return build.insert(arith.XOrIOp(inside, build.mask(start, lanes)))

    def _vector(
        self, line: list[Index], column: Index, offset: Index, mask: SSAValue | None
    ) -> SSAValue:
        """A vector of a line, from the first window's column + `offset` on."""
        build = self.build
        first = build.minus(build.times(column, self.shape.stride[1]), self.shape.before[1])
        return build.vload(self.x, [*line, build.plus(first, offset)], self.how.lanes, mask)

    def _every_other(self, low: SSAValue, high: SSAValue, first: int) -> SSAValue:
        """Every other element of two vectors, from the one numbered `first` on."""
        places = DenseArrayBase.from_list(i64, list(range(first, 2 * self.how.lanes, 2)))
        kind = VectorType(self.how.kind, [self.how.lanes])
        return self.build.insert(ShuffleOp(low, high, places, result_type=kind))

    def _pixels(
        self, line: list[Index], column: Index, offset: int, known: dict[int, SSAValue]
    ) -> SSAValue:
        """What the windows of a vector have at `offset`: neighbours, or every other element."""

        def read(offset: int) -> SSAValue:
            if offset not in known:
                known[offset] = self._vector(line, column, offset, self._edge(column, offset))
            return known[offset]

        if self.shape.stride[1] == 1:
            return read(offset)
        even = offset - offset % 2
        return self._every_other(read(even), read(even + self.how.lanes), offset % 2)
