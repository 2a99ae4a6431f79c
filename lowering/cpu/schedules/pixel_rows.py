"""The schedule of a 1x1 convolution of small images: output channels are lanes of vectors, pixels are rows.

    for each image, for each panel of output channels        (parallel)
      for each tile of pixels:
        for each channel: multiply one element of each pixel with the vectors of weights
        store the sums, `[pixel, output]`, to a small buffer
      turn squares of the buffer
      for each output channel: apply the body, store its pixels

7 x 7 pixels leave a quarter of four vectors of 16 empty; as rows, seven at a time, they leave nothing empty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from xdsl.dialects.memref import AllocaOp
from xdsl.ir import SSAValue

from openinfer.lowering.cpu.machine import Machine
from openinfer.lowering.cpu.schedules.conv_planes import split
from openinfer.lowering.cpu.schedules.conv_shape import MOST_ROWS, ConvShape
from openinfer.lowering.cpu.schedules.microkernel import (
    Arithmetic,
    Carried,
    contract,
    over_tiles,
    split_for,
)
from openinfer.lowering.cpu.schedules.packing import Matrix
from openinfer.lowering.cpu.schedules.product import at_entry
from openinfer.lowering.cpu.schedules.streaming import share_of_next
from openinfer.lowering.kernels.builder import Index
from openinfer.lowering.kernels.epilogue import Epilogue, Place
from openinfer.lowering.kernels.squares import transpose

# Images that fill their vectors less than this have their pixels as rows.
LEAST_FILLED = 0.85
# Panels that even out the work of several threads.
PANELS = 8


def panel_width(shape: ConvShape, machine: Machine, lanes: int) -> int | None:
    """Output channels of a panel of weights; None where pixels are better lanes than rows."""
    pixels = shape.count[1]
    filled = pixels / (-(-pixels // lanes) * lanes)
    if filled >= LEAST_FILLED or not shape.is_line or shape.groups > 1 or shape.outputs < 2 * lanes:
        return None
    narrow = machine.registers >= 32 and shape.outputs < PANELS * 2 * lanes
    width = lanes if narrow else 2 * lanes
    # Narrower panels are the rows of tiles whose lanes are pixels.
    return width if width > MOST_ROWS else None


@dataclass
class PixelRows:
    """Emits the loops of one convolution; x is `[N, C, pixels]`, weights `[1, panel, C, width]`."""

    how: Arithmetic
    shape: ConvShape
    machine: Machine
    width: int
    x: SSAValue
    weights: SSAValue
    epilogue: Epilogue

    def __post_init__(self) -> None:
        self.build = self.epilogue.build
        self.pixels, self.lanes = self.shape.count[1], self.how.lanes
        self.vectors = -(-self.pixels // self.lanes)
        """Of the pixels of one output channel."""

    def emit(self) -> None:
        """All panels of all images."""
        build, width = self.build, self.width
        pitch = self.vectors * self.lanes
        self.sums, self.turned = (
            at_entry(build, AllocaOp.get(self.how.kind, alignment=64, shape=list(shape)))
            for shape in ((pitch, width), (width, pitch))
        )
        full, rest = divmod(self.shape.outputs, width)
        self._split(build.dim(self.x, 0), full + bool(rest))

    def _split(self, images: Index, panels: int) -> None:
        split(self.build, (images, panels), self._panel)

    def _panel(self, n: Index, p: Index) -> None:
        """The results of some output channels of one image."""
        build, width = self.build, self.width
        self._products(n, p)
        self._turn()
        first = build.times(p, width)
        outputs: Index = width
        if self.shape.outputs % width:
            outputs = build.minimum(width, build.minus(self.shape.outputs, first))
        build.loop(
            0, outputs, 1, lambda row: self._finish(n, build.plus(first, row), row), hint="r"
        )

    def _products(self, n: Index, p: Index) -> None:
        """The sums of a panel, pixel by pixel."""
        build, across = self.build, self.width // self.lanes
        most = self.machine.rows(across)
        rows = -(-self.pixels // -(-self.pixels // most))
        tiles, panels = -(-self.pixels // rows), Matrix(self.weights, (0,))

        def vectors(ask: Callable[[SSAValue], None], c: SSAValue) -> list[SSAValue]:
            ask(c)
            places = range(0, self.width, self.lanes)
            return [build.vload(self.weights, [0, p, c, v], self.lanes) for v in places]

        def tile(first: Index, rows: int, _: Carried) -> Carried:
            number = first // rows if isinstance(first, int) else build.floordiv(first, rows)
            following = build.plus(p, 1)
            ask = share_of_next(build, panels, following, self.shape.channels, number, tiles)
            sums = contract(
                build,
                self.how,
                rows,
                across,
                (0, self.shape.channels),
                lambda c: [
                    build.load(self.x, [n, c, build.plus(first, row)]) for row in range(rows)
                ],
                partial(vectors, ask),
                split=split_for(build, self.machine.accumulators, rows, across),
            )
            for row, values in enumerate(sums):
                for v, value in enumerate(values):
                    build.vstore(value, self.sums, [build.plus(first, row), v * self.lanes])
            return ()

        over_tiles(build, self.pixels, rows, tile)

    def _turn(self) -> None:
        """`turned[output, pixel] = sums[pixel, output]`; what lies behind the last pixel is never read."""
        build, lanes = self.build, self.lanes

        def squares(first: Index) -> None:
            def square(output: Index) -> None:
                rows = [
                    build.vload(self.sums, [build.plus(first, row), output], lanes)
                    for row in range(lanes)
                ]
                for row, value in enumerate(transpose(build, rows)):
                    build.vstore(value, self.turned, [build.plus(output, row), first])

            build.loop(0, self.width, lanes, square, hint="o")

        build.loop(0, self.vectors * lanes, lanes, squares, hint="v")

    def _finish(self, n: Index, channel: Index, row: SSAValue) -> None:
        """Applies the body to the pixels of one output channel and stores them."""
        build, lanes = self.build, self.lanes
        known: list[SSAValue | None] | None = None
        for first in range(0, self.pixels, lanes):
            rest = self.pixels - first
            mask = None if rest >= lanes else build.mask(rest, lanes)
            last = None if mask is None else self.pixels - 1
            place = Place((n, channel, first), lanes, mask, last)
            if known is None:
                known = self.epilogue.hoisted(place, (2,))
            value = build.vload(self.turned, [row, first], lanes)
            self.epilogue.store(value, place, known)
