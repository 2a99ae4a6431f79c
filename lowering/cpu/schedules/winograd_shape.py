"""When a convolution of 3x3 kernels is computed by Winograd's algorithm, and in what blocks.

F(2x2, 3x3) takes 16 products for the four sums of a tile instead of 36 (Lavin and Gray, "Fast Algorithms for
Convolutional Neural Networks", 2015). Tiles of an image are the lanes of vectors. What is multiplied are sums
of four pixels and quarters of sums of nine weights; a result depends on no pixel outside of its own window.
"""

from __future__ import annotations

from xdsl.dialects.builtin import Float64Type

from openinfer.dialects.nn import ConvOp, WinogradAttr, element_of
from openinfer.lowering.cpu.machine import Machine
from openinfer.lowering.cpu.schedules.conv_shape import ConvShape
from openinfer.lowering.facts import Facts
from openinfer.runtime.quick_dataclass import dataclass

# Sides of the squares of sums that are computed together, and of the pixels that they are made of.
SUMS, PIXELS = 2, 4
PLACES = WinogradAttr.PLACES
# Bytes that a block has at most: pixels, as they are multiplied, fill half of a second cache, through which
# weights pass by, and the sums of a tile of output channels lie on the stack.
PIXEL_BYTES, SUM_BYTES = 1 << 19, 1 << 16
# Places that lie a multiple of so many bytes apart push each other out of the nearest cache.
ALIKE_BYTES = 1024
# Vectors of tiles of a register tile at most.
MOST_VECTORS = 3
# What a loop over output channels and its threads cost, in vectors of tiles, and how much longer products
# take in a block that is wider than a register tile, whose pixels are not read as they lie, and in one of a
# single vector, for which as many weights are loaded as for three.
BLOCK_COST, WIDE_COST, NARROW_COST = 0.25, 1.07, 1.25
# With fewer channels the sums before and after the products take longer than what is saved.
LEAST_CHANNELS = 24
# Smaller images than this leave most of a vector of tiles empty; only many channels make up for it, down to
# the second number.
LEAST_SIDE, LEAST_SIDE_OF_MANY, MANY_CHANNELS = 12, 7, 64


@dataclass(frozen=True)
class Winograd:
    """The sizes of one convolution by tiles."""

    shape: ConvShape
    lanes: int
    rows: int
    """Output channels of a register tile."""

    @property
    def lines(self) -> int:
        """Lines of tiles in an image."""
        return -(-self.shape.count[0] // SUMS)

    @property
    def tiles(self) -> int:
        """Tiles of a line."""
        return -(-self.shape.count[1] // SUMS)

    @property
    def block(self) -> int:
        """Lines of tiles that are computed together: few vectors, whose pixels and sums stay near."""
        allowed = [n for n in range(1, self.lines + 1) if self._stays_near(n)] or [1]

        def cost(lines: int) -> float:
            vectors = self.vectors(lines)
            slower = WIDE_COST if vectors > MOST_VECTORS else NARROW_COST if vectors == 1 else 1
            return -(-self.lines // lines) * (vectors * slower + BLOCK_COST)

        return min(allowed, key=lambda n: (cost(n), n))

    def _stays_near(self, lines: int) -> bool:
        width = PLACES * self.vectors(lines) * self.lanes * 4
        return width * self.shape.channels <= PIXEL_BYTES and width * self.rows <= SUM_BYTES

    def vectors(self, lines: int) -> int:
        """Vectors of the tiles of some lines."""
        return -(-lines * self.tiles // self.lanes)

    @property
    def width(self) -> int:
        """Elements of one channel at one place of a block."""
        return self.vectors(self.block) * self.lanes

    @property
    def place(self) -> int:
        """Elements from the pixels of one place to those of the next."""
        return self._apart(self.shape.channels * self.width)

    @property
    def sums_place(self) -> int:
        """Elements from the sums of one place to those of the next, of a tile of output channels."""
        return self._apart(self.rows * self.width)

    def _apart(self, elements: int) -> int:
        return elements + (0 if elements * 4 % ALIKE_BYTES else self.lanes)

    @property
    def elements(self) -> int:
        """Elements of the pixels of a block."""
        return PLACES * self.place

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights as they are multiplied."""
        return PLACES * 4 * self.shape.channels * self.shape.outputs

    @property
    def pixels(self) -> ConvShape:
        """The squares of pixels, as windows of a convolution with a stride."""
        shape = self.shape
        return ConvShape(
            1,
            shape.channels,
            shape.outputs,
            shape.extent,
            (self.lines, self.tiles),
            (PIXELS, PIXELS),
            (SUMS, SUMS),
            (1, 1),
            shape.before,
        )


def winograd_rows(op: ConvOp, machine: Machine, lanes: int) -> int | None:
    """Output channels of a register tile, or None where an op is computed as it is written."""
    if Facts.of(op).strict_math or not machine.fused or lanes == 1:
        return None
    if any(isinstance(element_of(value), Float64Type) for value in op.inputs[:2]):
        return None
    shape = ConvShape.of(op)
    if shape.kernel != (3, 3) or shape.groups != 1 or shape.pool > SUMS:
        return None
    if shape.stride != (1, 1) or shape.dilation != (1, 1):
        return None
    channels = min(shape.channels, shape.outputs)
    least = LEAST_SIDE_OF_MANY if channels >= MANY_CHANNELS else LEAST_SIDE
    if channels < LEAST_CHANNELS or min(shape.count) < least:
        return None
    return 8 if machine.registers >= 32 else 4
