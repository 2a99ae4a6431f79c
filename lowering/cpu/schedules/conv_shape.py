"""What a convolution is made of: its sizes, how the padded planes lie, and the tile that covers it.

Sums of neighbouring pixels are the lanes of a vector, output channels are the rows of a tile. x is
copied once with its padding, so that the window of every pixel is there and neighbours lie side by
side, whatever the stride.

Two layouts of the copy:

- by lines, `[N, lines, channels, phases, width]`: a tile is one or several lines of the result, or a
  part of one. What the windows of a tile cover lies together, and nothing is computed in vain but
  the last lanes of a line.
- flat, `[N, channels, vertical phases, phases, lines, width]`: pixel q of the result is `h * width +
  w`, so that vectors run from one line into the next, and over the columns between them. For lines
  that would leave many lanes empty.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd, prod

from xdsl.ir.affine import AffineDimExpr, AffineMap

from openinfer.dialects.nn import ConvOp, known_numbers
from openinfer.dialects.nn.checks import shape_of
from openinfer.lowering.cpu.machine import Machine
from openinfer.runtime.quick_dataclass import dataclass

# Lines whose last vector is emptier than this are computed flat.
LEAST_FILLED = 0.8
# Single lines of a multiple of so many pixels are put further apart.
ALIKE = 128
# Bytes that one way of the nearest cache holds, and its ways: lines that lie a multiple of them apart
# push each other out.
WAY_BYTES, WAYS = 4096, 8
# Vectors of pixels, and output channels, that a tile has at most.
MOST_VECTORS = MOST_ROWS = 8
# Cycles that a tile takes beyond its multiplications, and that each of its sums takes.
TILE_COST, SUM_COST = 16, 2
# Bytes that stay in the nearest cache, and that the next one gives in a cycle.
NEAR_BYTES, FAR_BYTES = 40_000, 24
# Bytes that a tile reads while they cost it one cycle: weights pass by, pixels mostly stay near.
WEIGHT_BYTES, PIXEL_BYTES = 256, 1280


@dataclass(frozen=True)
class ConvShape:
    """The sizes of a convolution; channels and outputs are those of one group."""

    groups: int
    channels: int
    outputs: int
    extent: tuple[int, int]
    count: tuple[int, int]
    """Lines and columns of sums; those of the result, before pooling."""
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    before: tuple[int, int]
    """Padding above and on the left."""
    is_line: bool = False
    """Whether lines and columns have become one dimension, of one line."""
    pool: int = 1
    """The side of the squares that one element of the result is taken from."""

    @staticmethod
    def of(op: ConvOp) -> ConvShape:
        """The sizes of an op, of which only the batch may be unknown."""
        x, y = shape_of(op.inputs[0]), shape_of(op.output)
        (inputs, *extent), (outputs, *count) = _known(x[1:]), _known(y[1:])
        groups = op.groups.value.data
        kernel, stride = _pair(op.kernel.get_values()), _pair(known_numbers(op.stride))
        top, _, left, _ = known_numbers(op.padding)
        pool = op.pool.value.data if op.pool is not None else 1
        shape = ConvShape(
            groups,
            inputs // groups,
            outputs // groups,
            _pair(extent),
            _pair([size * pool for size in count]),
            kernel,
            stride,
            _pair(known_numbers(op.dilation)),
            (top, left),
            pool=pool,
        )
        return shape._line() if shape.is_pointwise and may_be_line(op) else shape

    @property
    def is_pointwise(self) -> bool:
        """Whether every pixel of the result is made of one pixel, that at its own place."""
        one = self.kernel == self.stride == (1, 1) and self.pool == 1
        return one and self.extent == self.count

    def _line(self) -> ConvShape:
        """A plane of pixels that do not see each other is one line."""
        line = (1, prod(self.extent))
        return ConvShape(
            self.groups,
            self.channels,
            self.outputs,
            line,
            line,
            *((1, 1),) * 3,
            before=(0, 0),
            is_line=True,
        )

    @property
    def fits_ways(self) -> bool:
        """Whether the pixels of all channels at one place find room in the nearest cache as they lie."""
        stride = 4 * self.extent[1]
        places = WAY_BYTES // gcd(WAY_BYTES, stride)
        return stride % (4 * ALIKE) != 0 or self.channels <= WAYS * places

    @property
    def taps(self) -> int:
        return prod(self.kernel)

    @property
    def depth(self) -> int:
        """Products in one sum."""
        return self.channels * self.taps

    def reach(self, axis: int) -> int:
        """How far the last element of a window lies behind the first."""
        return (self.kernel[axis] - 1) * self.dilation[axis]


def may_be_line(op: ConvOp) -> bool:
    """Whether no operand of the body tells lines from columns, but for one that follows both."""
    for attribute in op.maps or ():
        mapping = attribute.data
        used = {e.position for e in mapping.results if isinstance(e, AffineDimExpr)}
        if mapping != AffineMap.identity(4) and used & {2, 3}:
            return False
    return True


def _known(dims: object) -> list[int]:
    assert isinstance(dims, tuple)
    found = [d for d in dims if isinstance(d, int)]
    assert len(found) == len(dims)
    return found


def _pair(values: object) -> tuple[int, int]:
    assert isinstance(values, tuple | list)
    first, second = values
    return int(first), int(second)


@dataclass(frozen=True)
class Tile:
    """What the registers hold: sums of `rows` output channels for some vectors of pixels."""

    flat: bool
    rows: int
    lines: int
    """Lines of the result that a tile covers."""
    vectors: int
    """Vectors of one line; of all lines when flat."""

    @property
    def across(self) -> int:
        """Vectors of pixels in the whole tile."""
        return self.vectors if self.flat else self.lines * self.vectors


@dataclass(frozen=True)
class Planes:
    """Where the elements of the padded copy lie, in elements of its buffer."""

    shape: ConvShape
    flat: bool
    lanes: int
    in_place: bool = False
    """Whether they are x itself: a line of pixels as it lies."""

    @property
    def width(self) -> int:
        """Columns of one phase of a line."""
        shape = self.shape
        width = shape.count[1] + shape.reach(1) // shape.stride[1]
        # Channels that lie a power of two apart would fight for the same places of a cache.
        alike = shape.count[0] == 1 and width % ALIKE == 0 and not self.in_place
        return width + ALIKE // 8 if alike else width

    @property
    def lines(self) -> int:
        """Lines of a plane; of one vertical phase when flat."""
        shape = self.shape
        if self.flat:
            return shape.count[0] + shape.reach(0) // shape.stride[0]
        return (shape.count[0] - 1) * shape.stride[0] + shape.reach(0) + 1

    @property
    def phases(self) -> int:
        """Parts of a line: neighbours of a part are a stride apart in x."""
        return min(self.shape.stride[1], self.shape.reach(1) + 1)

    @property
    def vertical_phases(self) -> int:
        return min(self.shape.stride[0], self.shape.reach(0) + 1) if self.flat else 1

    @property
    def line(self) -> int:
        """Elements from one line of a channel to its next one in the order of the buffer."""
        return self.phases * self.width

    @property
    def channel(self) -> int:
        """Elements from one channel to the next."""
        if self.flat:
            return self.vertical_phases * self.phases * self.lines * self.width
        return self.line

    @property
    def image(self) -> int:
        """Elements of one image."""
        channels = self.shape.groups * self.shape.channels
        return channels * self.channel * (1 if self.flat else self.lines)

    @property
    def slack(self) -> int:
        """Elements behind the last image, which vectors may read and nobody uses."""
        return MOST_VECTORS * self.lanes

    @property
    def step(self) -> int:
        """Elements from a pixel of the result to the one below it."""
        if self.flat:
            return self.width
        return self.shape.stride[0] * self.shape.groups * self.shape.channels * self.line

    def tap(self, i: int, j: int) -> int:
        """From the first element of a window to element (i, j)."""
        shape = self.shape
        down, right = i * shape.dilation[0], j * shape.dilation[1]
        across = right % shape.stride[1] * self.width + right // shape.stride[1]
        if not self.flat:
            return down * shape.groups * shape.channels * self.line + across
        phase = down % shape.stride[0] * self.phases + right % shape.stride[1]
        place = down // shape.stride[0] * self.width + right // shape.stride[1]
        return phase * self.lines * self.width + place


# The choice of a tile -----------------------------------------------------------------------------


def choose_tile(shape: ConvShape, machine: Machine, lanes: int, rows: int | None = None) -> Tile:
    """The tile that takes the fewest cycles by a count of multiplications, loads and bytes.

    `rows` is what packed weights ask for.
    """
    found = [tile for flat in _forms(shape, lanes) for tile in _tiles(shape, machine, lanes, flat)]
    if rows is not None:
        own = [replace(tile, rows=rows) for tile in found]
        found = [tile for tile in found if tile.rows == rows] or own
    return min(found, key=lambda tile: _cycles(shape, tile, lanes))


def fills_lines(shape: ConvShape, lanes: int) -> bool:
    """Whether the columns of a line fill vectors well enough."""
    columns = shape.count[1]
    return columns / (-(-columns // lanes) * lanes) >= LEAST_FILLED


def _forms(shape: ConvShape, lanes: int) -> tuple[bool, ...]:
    """Whether tiles may be flat; what is pooled, or a single line, never is."""
    by_lines = shape.count[0] == 1 or shape.pool > 1 or fills_lines(shape, lanes)
    return (False,) if by_lines else (True,)


def _tiles(shape: ConvShape, machine: Machine, lanes: int, flat: bool) -> list[Tile]:
    found: list[Tile] = []
    width = Planes(shape, flat, lanes).width
    for across in range(1, MOST_VECTORS + 1):
        for rows in range(1, min(shape.outputs, MOST_ROWS) + 1):
            if across * rows > machine.accumulators:
                continue
            if flat:
                lines = min(shape.count[0], (across * lanes - shape.count[1]) // width + 1)
                if across * lanes >= shape.count[1]:
                    found.append(Tile(True, rows, lines, across))
                continue
            whole = -(-shape.count[1] // lanes)
            for vectors in range(min(across, whole), 0, -1):
                lines = across // vectors
                if lines * vectors == across and lines <= shape.count[0]:
                    if lines % shape.pool == 0:
                        found.append(Tile(False, rows, lines, vectors))
    if not found:
        # A line that no tile holds: as many vectors as it takes, and few rows.
        found.append(Tile(flat, 1, shape.pool, -(-shape.count[1] // lanes)))
    return found


def _covered(shape: ConvShape, tile: Tile, across: int, lanes: int) -> int:
    """Bytes of one channel that the windows of a tile cover, by whole lines of the cache."""
    vector = lanes * 4
    if tile.flat:
        return across * vector + (shape.reach(0) + 1) * 64
    lines = (tile.lines - 1) * shape.stride[0] + shape.reach(0) + 1
    return lines * (across // tile.lines * vector + (64 if shape.taps > 1 else 32))


def _cycles(shape: ConvShape, tile: Tile, lanes: int) -> float:
    """Two multiplications or two loads a cycle, a sum is ready four cycles later.

    A vector that does not begin with a line of the cache is two loads.
    """

    def one(rows: int, across: int) -> float:
        sums = rows * across
        busy = max(sums / 2, across + rows / 2, 4) * shape.depth
        pixels = shape.channels * _covered(shape, tile, across, lanes)
        if pixels > NEAR_BYTES:
            busy = max(busy, pixels / FAR_BYTES)
        busy += rows * shape.depth * 4 / WEIGHT_BYTES + pixels / PIXEL_BYTES
        # Half of a vector is left where neighbours of one become one.
        halves = shape.pool > 1 and tile.vectors % 2 == 1
        return busy + SUM_COST * sums * (2 if halves else 1) + TILE_COST

    def columns(lines: int) -> float:
        if not lines:
            return 0
        if tile.flat:
            return over_rows(tile.across)
        whole = -(-shape.count[1] // lanes)
        full, rest = divmod(whole, tile.vectors)
        return full * over_rows(lines * tile.vectors) + (over_rows(lines * rest) if rest else 0)

    def over_rows(across: int) -> float:
        full, rest = divmod(shape.outputs, tile.rows)
        return full * one(tile.rows, across) + (one(rest, across) if rest else 0)

    full, rest = divmod(shape.count[0], tile.lines)
    return full * columns(tile.lines) + columns(rest)
