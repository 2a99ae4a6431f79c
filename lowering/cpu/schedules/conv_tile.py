"""The sums of one tile of a convolution: products of weights with vectors of neighbouring pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from openinfer.lowering.cpu.schedules.conv_shape import ConvShape, Planes, Tile
from openinfer.lowering.cpu.schedules.microkernel import Arithmetic
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import multiply_add
from openinfer.runtime.quick_dataclass import dataclass

# Multiplications of vectors that one round of a loop over channels holds at most; more of them are
# in a loop over the lines of the kernel.
WRITTEN_OUT = 300


@dataclass(frozen=True)
class Weights:
    """The kernels: panels `[groups, panel, depth, row]`, or `[O, C, KH, KW]` where they lie."""

    buffer: SSAValue
    packed: bool


@dataclass(frozen=True)
class Part:
    """The pixels of one tile: its vectors' places, from its first line and column."""

    lines: int
    vectors: int
    masks: tuple[SSAValue | None, ...]
    """Of the vectors of one line."""
    columns: int
    """Columns of the result that one line has."""


@dataclass(frozen=True)
class Cell:
    """One vector of the result of a tile, from the tile's first line and column."""

    line: int
    column: int
    lanes: int
    mask: SSAValue | None


@dataclass(frozen=True)
class TileSums:
    """Emits the sums of tiles of one convolution."""

    build: LoopBuilder
    how: Arithmetic
    shape: ConvShape
    planes: Planes
    tile: Tile
    buffer: SSAValue
    weights: Weights

    def emit(
        self, g: Index, t: Index, rows: int, place: SSAValue, part: Part
    ) -> Sequence[SSAValue]:
        """The sums of a tile, row by row."""
        build, shape, lanes = self.build, self.shape, self.how.lanes
        if self.tile.flat:
            offsets = [v * lanes for v in range(part.vectors)]
        else:
            offsets = [
                i * self.planes.step + v * lanes
                for i in range(part.lines)
                for v in range(part.vectors)
            ]
        size = rows * len(offsets)
        kernel = shape.kernel
        weight = self._weight(g, t, rows)

        def tap(c: Index, i: Index, j: Index, at: Index, old: Sequence[SSAValue]) -> list[SSAValue]:
            def pixel(number: int) -> SSAValue:
                # What x has no room behind is read with a mask; the padded copy has.
                mask = part.masks[number % part.vectors] if self.planes.in_place else None
                return build.vload(self.buffer, [build.plus(at, offsets[number])], lanes, mask)

            def factor(row: int) -> SSAValue:
                return build.splat(self.how.widen(build, weight(c, i, j, row)), lanes)

            # The operands that are fewer wait in registers for those of the other side.
            across = len(offsets)
            few_pixels = across <= rows
            waiting = list(map(pixel, range(across)) if few_pixels else map(factor, range(rows)))
            new = list(old)
            for other in range(rows if few_pixels else across):
                one = factor(other) if few_pixels else pixel(other)
                for number, two in enumerate(waiting):
                    row, vector = (other, number) if few_pixels else (number, other)
                    place = row * across + vector
                    new[place] = multiply_add(build, one, two, old[place], fused=self.how.fused)
            return new

        def line(c: Index, i: Index, at: Index, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
            for j in range(kernel[1]):
                old = tap(c, i, j, build.plus(at, self.planes.tap(0, j)), old)
            return old

        def channel(c: Index, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
            at = build.plus(place, build.times(c, self.planes.channel))
            if size * shape.taps <= WRITTEN_OUT or kernel[0] == 1:
                for i in range(kernel[0]):
                    down = build.plus(at, self.planes.tap(i, 0))
                    old = line(c, i, down, old)
                return old
            down = self.planes.tap(1, 0)
            regular = all(self.planes.tap(i, 0) == i * down for i in range(kernel[0]))
            if not regular:
                for i in range(kernel[0]):
                    old = line(c, i, build.plus(at, self.planes.tap(i, 0)), old)
                return old
            return build.reduce(
                0,
                kernel[0],
                1,
                old,
                lambda i, values: line(c, i, build.plus(at, build.mul(i, down)), values),
                hint="i",
                sums="products",
            )

        zero = build.constant(0, self.how.vector)
        start: Sequence[SSAValue] = [zero] * size
        if size * shape.depth <= WRITTEN_OUT:
            for c in range(shape.channels):
                start = channel(c, start)
            return start
        return build.reduce(0, shape.channels, 1, start, channel, hint="c", sums="products")

    def _weight(
        self, g: Index, t: Index, rows: int
    ) -> Callable[[Index, Index, Index, int], SSAValue]:
        """Reads the weight of an input channel, a place of the kernel and a row of the tile."""
        build, shape = self.build, self.shape
        buffer = self.weights.buffer
        if not self.weights.packed:
            first = build.plus(build.mul(g, shape.outputs), build.mul(t, self.tile.rows))
            places = [build.plus(first, row) for row in range(rows)]
            return lambda c, i, j, row: build.load(buffer, [places[row], c, i, j])

        def read(c: Index, i: Index, j: Index, row: int) -> SSAValue:
            k = build.plus(build.times(c, shape.taps), j)
            if isinstance(i, int):
                k = build.plus(k, i * shape.kernel[1])
            else:
                k = build.plus(k, build.mul(i, shape.kernel[1]))
            return build.load(buffer, [g, t, k, row])

        return read
