"""The schedule of a convolution of small images: output channels are lanes of vectors, windows are rows.

    copy x with its padding
    for each panel of output channels, for each image            (parallel)
      for each block of channels, whose weights stay in the second cache
        for each tile of windows, whole lines of the result:
          for each channel, each element of the kernel:
            multiply that pixel of each window with the vectors of weights
          add the sums, `[window, output]`, to a small buffer
      turn squares of the buffer
      for each output channel: apply the body, store its pixels

7 x 7 pixels fill 49 of 64 lanes; as rows, two lines at a time, they leave nothing empty.

`window_width` has the conditions; convolutions that Winograd's algorithm computes do not get here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from openinfer.dialects.extensions.memref import PrefetchOp
from openinfer.lowering.cpu.machine import Machine
from openinfer.lowering.cpu.schedules.conv_planes import PlaneCopy, split
from openinfer.lowering.cpu.schedules.conv_shape import ConvShape, Planes
from openinfer.lowering.cpu.schedules.microkernel import Carried, Tile, over_tiles
from openinfer.lowering.cpu.schedules.pixel_rows import PixelRows
from openinfer.lowering.cpu.schedules.streaming import LINE
from openinfer.lowering.cpu.vector_width import bits_of
from openinfer.lowering.kernels.builder import Index
from openinfer.lowering.kernels.elements import add
from openinfer.lowering.kernels.long_sums import PRODUCTS
from openinfer.lowering.kernels.numeric import element_type

# Vectors of output channels of a panel, and sums that 32 registers hold at most.
VECTORS, MOST_SUMS = 2, 28
# Pixels of the result at most: their sums wait in buffers.
MOST_PIXELS = 256
# Elements of a kernel at most: they are written out one after the other.
MOST_TAPS = 9
# Bytes of weights of a block: this one, the next one and the pixels find room in a second cache.
WEIGHT_BYTES = 160_000
# Panels at least, so that several threads have equal work.
LEAST_PANELS = 8


def window_width(shape: ConvShape, machine: Machine, lanes: int) -> int | None:
    """Output channels of a panel of weights; None where pixels are better lanes than rows."""
    if machine.registers < 32 or not machine.fused or lanes == 1:
        return None
    width = VECTORS * lanes
    if shape.groups > 1 or shape.pool > 1 or shape.outputs < LEAST_PANELS * width:
        return None
    if not 1 < shape.taps <= MOST_TAPS or shape.count[0] * shape.count[1] > MOST_PIXELS:
        return None
    return width if lines_of(shape) else None


def lines_of(shape: ConvShape) -> int:
    """Lines of the result that are the rows of a tile."""
    return min(shape.count[0], MOST_SUMS // VECTORS // shape.count[1])


def planes_of(shape: ConvShape, lanes: int) -> Planes:
    """How x lies with its padding."""
    return Planes(shape, flat=True, lanes=lanes)


@dataclass
class WindowRows(PixelRows):
    """Emits the loops of one convolution; x is `[N, C, H, W]`, weights `[1, panel, C * KH * KW, width]`."""

    copies: SSAValue
    """The buffer that x is copied to."""

    def __post_init__(self) -> None:
        self.windows = self.shape
        self.planes = planes_of(self.shape, self.how.lanes)
        # The pixels of the result are one line.
        line = (1, self.shape.count[0] * self.shape.count[1])
        self.shape = replace(self.shape, count=line, is_line=True)
        super().__post_init__()

    def emit(self) -> None:
        """All panels of all images."""
        PlaneCopy(self.build, self.x, self.copies, self.planes).emit()
        super().emit()

    def _split(self, images: Index, panels: int) -> None:
        """Weights of a panel meet all images before those of the next one."""
        split(self.build, (panels, images), lambda p, n: self._panel(n, p))

    def _products(self, n: Index, p: Index) -> None:
        """The sums of a panel, block by block of channels."""
        build, channels = self.build, self.windows.channels
        each = self._block_channels
        first = build.mul(n, self.planes.image)
        self._block(first, p, (0, min(each, channels)), begins=True)
        if each >= channels:
            return

        def block(start: SSAValue) -> None:
            stop = build.plus(start, each)
            if channels % each:
                stop = build.minimum(stop, channels)
            self._block(first, p, (start, stop), begins=False)

        build.loop(each, channels, each, block, hint="k")

    @property
    def _block_channels(self) -> int:
        """Channels of a block."""
        channels = self.windows.channels
        size = channels * self.windows.taps * self._row_bytes
        return -(-channels // -(-size // WEIGHT_BYTES))

    @property
    def _row_bytes(self) -> int:
        """Bytes of a row of a panel of weights."""
        return self.width * bits_of(element_type(self.weights)) // 8

    def _block(self, image: SSAValue, p: Index, steps: tuple[Index, Index], begins: bool) -> None:
        """Adds the products of some channels to all sums of a panel."""
        build, shape = self.build, self.windows
        lines, columns = lines_of(shape), shape.count[1]
        tiles = -(-shape.count[0] // lines)
        ahead = build.minus(steps[1], steps[0])

        def tile(line: Index, count: int, _: Carried) -> Carried:
            number = line // lines if isinstance(line, int) else build.floordiv(line, lines)
            place = build.add(image, build.mul(line, self.planes.width))
            pixel = build.mul(line, columns)
            rows = count * columns
            sums = self._tile(p, place, rows, steps, (ahead, number, tiles))
            for row, values in enumerate(sums):
                for v, value in enumerate(values):
                    there = [build.plus(pixel, row), v * self.lanes]
                    if not begins:
                        value = add(build, build.vload(self.sums, there, self.lanes), value)
                    build.vstore(value, self.sums, there)
            return ()

        over_tiles(build, shape.count[0], lines, tile)

    def _tile(
        self,
        p: Index,
        place: SSAValue,
        rows: int,
        steps: tuple[Index, Index],
        share: tuple[Index, Index, int],
    ) -> Tile:
        """The sums of some lines of windows."""
        build, shape, planes = self.build, self.windows, self.planes
        columns, across = shape.count[1], self.width // self.lanes
        offsets = [row // columns * planes.width + row % columns for row in range(rows)]
        taps = [(i, j) for i in range(shape.kernel[0]) for j in range(shape.kernel[1])]
        zero = build.constant(0, self.how.vector)

        def channel(c: SSAValue, sums: Sequence[SSAValue]) -> list[SSAValue]:
            self._ask(p, c, share)
            at, depth = build.add(place, build.mul(c, planes.channel)), build.mul(c, shape.taps)
            new = list(sums)
            for tap, (i, j) in enumerate(taps):
                weights = [
                    self.how.across(
                        build,
                        build.vload(self.weights, [0, p, build.plus(depth, tap), v], self.lanes),
                    )
                    for v in range(0, self.width, self.lanes)
                ]
                for row, offset in enumerate(offsets):
                    there = build.plus(at, planes.tap(i, j) + offset)
                    pixel = self.how.spread(build, build.load(self.copies, [there]))
                    for v, weight in enumerate(weights):
                        total = new[row * across + v]
                        new[row * across + v] = self.how.multiply_add(build, pixel, weight, total)
            return new

        start = [zero] * (rows * across)
        # A block of channels is a part of the whole sum, whose length `block-sums` cannot see.
        kind = "long products" if shape.depth > PRODUCTS.most else "products"
        sums = build.reduce(
            *steps, 1, start, channel, hint="c", sums=kind, rounds=self._block_channels
        )
        return [list(sums[row * across : (row + 1) * across]) for row in range(rows)]

    def _ask(self, p: Index, c: SSAValue, share: tuple[Index, Index, int]) -> None:
        """Prefetches some of the next block's weights: behind a block lies the next one."""
        build, taps = self.build, self.windows.taps
        ahead, number, tiles = share
        line = LINE * self.width // self._row_bytes
        each = -(-taps * self._row_bytes // (LINE * tiles))
        first = build.mul(build.plus(c, ahead), taps)
        shift = build.times(number, each * line)
        for part in range(each):
            place = [0, p, first, build.plus(shift, part * line)]
            build.do(PrefetchOp(self.weights, [build.index(i) for i in place]))
