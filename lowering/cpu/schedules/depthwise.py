"""The schedule of a convolution of each channel by itself: x is read where it lies, its border as masks.

    for each image, for each channel                         (parallel)
      for each tile of lines, for each vector of a line:
        for each line that the windows cover: load its vectors, multiply them with the weights of all
          lines of the result that see them
        apply the body, store

There is a vector of every weight in registers. Lines above and below the image are zeros that nothing is read
for, columns beside it are lanes that a mask reads as zeros.
"""

from __future__ import annotations

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

# Weights that stay in registers.
MOST_TAPS = 9
# Lines of a tile: more of them share the lines that they read.
FEW_LINES, MOST_LINES = 4, 7


def is_depthwise(shape: ConvShape, machine: Machine) -> bool:
    """Whether the schedule takes a convolution whose x and sums have one type."""
    alone = shape.channels == shape.outputs == shape.pool == 1
    near = shape.taps <= MOST_TAPS and shape.stride[1] <= 2
    even = shape.stride[1] == 1 or shape.dilation[1] == 1
    return alone and near and even and machine.has_masks and machine.registers >= 32


def lines_of(count: int) -> int:
    """Lines of a tile, of so many: a number that divides them, if that is not small."""
    for lines in range(min(count, MOST_LINES), 2, -1):
        if count % lines == 0:
            return lines
    return min(count, FEW_LINES)


@dataclass
class Depthwise:
    """Emits the loops of one convolution; x and the result are `[N, C, H, W]`."""

    how: Arithmetic
    shape: ConvShape
    x: SSAValue
    weights: Weights
    epilogue: Epilogue

    def __post_init__(self) -> None:
        self.build: LoopBuilder = self.epilogue.build
        self.lines = lines_of(self.shape.count[0])
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
        if len(free) < 3:
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
        weights = [
            [
                build.splat(self.how.widen(build, self._weight(g, i, j)), self.how.lanes)
                for j in taps
            ]
            for i, taps in enumerate([range(shape.kernel[1])] * shape.kernel[0])
        ]
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

    def _weight(self, g: Index, i: int, j: int) -> SSAValue:
        if self.weights.packed:
            return self.build.load(self.weights.buffer, [g, 0, i * self.shape.kernel[1] + j, 0])
        return self.build.load(self.weights.buffer, [g, 0, i, j])

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
        top = build.minus(build.times(line, shape.stride[0]), shape.before[0])
        zero = build.constant(0, self.how.vector)
        sums = [zero] * lines
        for down in range((lines - 1) * shape.stride[0] + shape.reach(0) + 1):
            here = build.plus(top, down)
            beyond = isinstance(here, int) and not 0 <= here < shape.extent[0]
            seen = [
                (row, i)
                for row in range(lines)
                for i in range(shape.kernel[0])
                if row * shape.stride[0] + i * shape.dilation[0] == down
            ]
            if not seen:
                continue
            pixels: dict[int, SSAValue] = {}
            for j in range(shape.kernel[1]):
                value = zero
                if not beyond:
                    value = self._pixels([*outer, here], column, j * shape.dilation[1], pixels)
                for row, i in seen:
                    sums[row] = multiply_add(
                        build, weights[i][j], value, sums[row], fused=self.how.fused
                    )
        rest = shape.count[1] - column if isinstance(column, int) else lanes
        mask = self._mask(0, rest)
        last = None if mask is None else shape.count[1] - 1
        for row, value in enumerate(sums):
            place = Place((*outer, build.plus(line, row), column), lanes, mask, last)
            self.epilogue.store(value, place, known)

    def _pixels(
        self, line: list[Index], column: Index, offset: int, known: dict[int, SSAValue]
    ) -> SSAValue:
        """What the windows of a vector have at `offset`: neighbours, or every other element."""
        build, lanes = self.build, self.how.lanes
        first = build.minus(build.times(column, self.shape.stride[1]), self.shape.before[1])

        def read(offset: int) -> SSAValue:
            if offset not in known:
                mask = None
                if isinstance(column, int):
                    mask = self._mask(*self._inside(column, offset))
                place = [*line, build.plus(first, offset)]
                known[offset] = build.vload(self.x, place, lanes, mask)
            return known[offset]

        if self.shape.stride[1] == 1:
            return read(offset)
        even = offset - offset % 2
        places = list(range(offset % 2, 2 * lanes, 2))
        kind = VectorType(self.how.kind, [lanes])
        return build.insert(
            ShuffleOp(
                read(even),
                read(even + lanes),
                DenseArrayBase.from_list(i64, places),
                result_type=kind,
            )
        )
