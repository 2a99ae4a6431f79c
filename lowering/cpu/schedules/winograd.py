"""The schedule of a 3x3 convolution by Winograd's F(2x2, 3x3): tiles of four sums are the lanes of vectors.

    for each block of lines of tiles
      for each input channel                          (parallel)
        copy the lines that the block reads, with their padding, even and odd columns apart
        for each line of tiles: V[place, channel, tile] = (Bᵀ d B)[place], 16 places
      for each tile of output channels                (parallel)
        for each place: M[place, output, tile] = sum over channels of U[place, channel, output] · V
        for each output channel, each line of tiles: Aᵀ M A, the body, two lines of the result

`U` is made when the program is loaded (`winograd_weights.py`); `V` and `M` stay in the caches of a core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseArrayBase, VectorType, i64
from xdsl.dialects.memref import AllocaOp
from xdsl.dialects.vector import ShuffleOp
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.memref import PrefetchOp
from openinfer.lowering.cpu.schedules.conv_planes import PlaneCopy
from openinfer.lowering.cpu.schedules.conv_shape import Planes
from openinfer.lowering.cpu.schedules.microkernel import Arithmetic, contract
from openinfer.lowering.cpu.schedules.product import at_entry
from openinfer.lowering.cpu.schedules.winograd_shape import (
    MOST_VECTORS,
    PIXELS,
    PLACES,
    SUMS,
    Winograd,
)
from openinfer.lowering.kernels.builder import Index
from openinfer.lowering.kernels.epilogue import Epilogue, Place
from openinfer.lowering.kernels.numeric import largest

# Bytes of weights from which on they are asked for, and how many channels ahead: they come from the last
# cache or from memory, and the processor's own prefetcher does not keep up with pieces of 32 bytes.
FAR_BYTES, AHEAD = 1 << 17, 256


class WinogradConvolution:
    """Emits the loops of one convolution."""

    def __init__(
        self,
        how: Arithmetic,
        sizes: Winograd,
        operands: tuple[SSAValue, SSAValue],
        pixels: SSAValue,
        epilogue: Epilogue,
    ) -> None:
        self.build, self.how, self.sizes, self.epilogue = epilogue.build, how, sizes, epilogue
        self.x, self.weights = operands
        self.pixels = pixels
        self.shape, self.lanes = sizes.shape, sizes.lanes
        self.width = sizes.width
        self.place, self.sums_place = sizes.place, sizes.sums_place

    def emit(self) -> None:
        """All blocks of all images, one after the other; threads share what each consists of."""
        build, sizes = self.build, self.sizes
        lanes, kind = self.lanes, self.how.kind
        planes = Planes(sizes.pixels, flat=False, lanes=lanes)
        lines = SUMS * sizes.block + PIXELS - SUMS
        room = lines * planes.line + lanes + 1
        copies = at_entry(build, AllocaOp.get(kind, alignment=64, shape=[room]))
        room = PLACES * self.sums_place + lanes
        sums = at_entry(build, AllocaOp.get(kind, alignment=64, shape=[room]))
        blocks = -(-sizes.lines // sizes.block)
        copy = PlaneCopy(build, self.x, copies, planes)

        def block(n: Index, number: Index) -> None:
            first = build.times(number, sizes.block)
            inside = build.minimum(sizes.block, build.minus(sizes.lines, first))
            build.loop(
                0,
                self.shape.channels,
                1,
                lambda c: self._spread(copy, (n, c), first, inside),
                parallel=True,
                hint="c",
            )
            build.loop(
                0,
                -(-self.shape.outputs // sizes.rows),
                1,
                lambda t: self._outputs(t, sums, n, first, inside),
                parallel=True,
                hint="t",
            )

        batch = build.dim(self.x, 0)
        if batch == 1 and blocks == 1:
            block(0, 0)
        elif blocks == 1:
            build.loop(0, batch, 1, lambda n: block(n, 0), together=True, hint="n")
        elif batch == 1:
            build.loop(0, blocks, 1, lambda b: block(0, b), together=True, hint="b")
        else:
            total = build.mul(batch, blocks)

            def one(i: SSAValue) -> None:
                block(build.floordiv(i, blocks), build.rem(i, blocks))

            build.loop(0, total, 1, one, together=True, hint="b")

    # Pixels

    def _spread(
        self, copy: PlaneCopy, outer: tuple[Index, Index], first: Index, inside: Index
    ) -> None:
        """V of one channel: the sums of pixels that its products are made with."""
        build, sizes, planes = self.build, self.sizes, copy.planes
        top = build.minus(build.times(first, SUMS), self.shape.before[0])

        def line(r: SSAValue) -> None:
            copy.row(outer, build.plus(top, r), build.mul(r, planes.line), planes.width)

        count = build.plus(build.times(inside, SUMS), PIXELS - SUMS)
        build.loop(0, count, 1, line, hint="h")
        channel = build.mul(outer[1], self.width)

        def tiles(h: SSAValue) -> None:
            start = build.mul(h, SUMS * planes.line)
            target = build.add(channel, build.mul(h, sizes.tiles))
            self._over_line(
                lambda v: self._tiles(copy, build.plus(start, v), build.plus(target, v))
            )

        build.loop(0, inside, 1, tiles, hint="h")

    def _over_line(self, body: Callable[[Index], None]) -> None:
        """`body(first tile)` for the vectors of a line; the last one may overlap the one before it."""
        build, tiles, lanes = self.build, self.sizes.tiles, self.lanes
        if tiles <= lanes:
            body(0)
        elif tiles == 2 * lanes:
            body(0)
            body(lanes)
        else:
            last = tiles - lanes
            build.loop(0, tiles, lanes, lambda v: body(build.minimum(v, last)), hint="v")

    def _tiles(self, copy: PlaneCopy, start: Index, target: Index) -> None:
        """The sums of pixels of a vector of tiles."""
        build, planes, lanes = self.build, copy.planes, self.lanes
        mask = None if self.sizes.tiles >= lanes else build.mask(self.sizes.tiles, lanes)
        across: list[list[SSAValue]] = []
        for i in range(PIXELS):
            # Columns of a tile: even, odd, and the same of its neighbour.
            columns = (0, planes.width, 1, planes.width + 1)
            places = [build.plus(start, i * planes.line + column) for column in columns]
            across.append(self._differences([build.vload(copy.buffer, [p], lanes) for p in places]))
        for j in range(PIXELS):
            for i, value in enumerate(self._differences([line[j] for line in across])):
                place = build.plus(target, (i * PIXELS + j) * self.place)
                build.vstore(value, self.pixels, [place], mask)

    def _differences(self, d: Sequence[SSAValue]) -> list[SSAValue]:
        """Bᵀ d."""
        return [
            self._minus(d[0], d[2]),
            self._plus(d[1], d[2]),
            self._minus(d[2], d[1]),
            self._minus(d[1], d[3]),
        ]

    def _plus(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.build.insert(arith.AddfOp(a, b))

    def _minus(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.build.insert(arith.SubfOp(a, b))

    # Products

    def _outputs(self, t: SSAValue, sums: SSAValue, n: Index, first: Index, inside: Index) -> None:
        """All sums of some output channels."""
        build, sizes = self.build, self.sizes
        rows = sizes.rows
        build.loop(0, PLACES, 1, lambda place: self._products(t, sums, place), hint="place")
        outputs: Index = rows
        channel = build.mul(t, rows)
        if self.shape.outputs % rows:
            outputs = build.minimum(rows, build.minus(self.shape.outputs, channel))

        def one(r: SSAValue) -> None:
            def line(h: SSAValue) -> None:
                self._line(sums, r, h, (n, build.add(channel, r), build.plus(first, h)))

            build.loop(0, inside, 1, line, hint="h")

        build.loop(0, outputs, 1, one, hint="r")

    def _products(self, t: SSAValue, sums: SSAValue, place: SSAValue) -> None:
        """M of one place."""
        build, rows, lanes = self.build, self.sizes.rows, self.lanes
        depth = self.shape.channels
        pixels = build.mul(place, self.place)
        weights = build.mul(place, depth)
        target = build.mul(place, self.sums_place)

        def factors(c: SSAValue, ahead: bool) -> list[SSAValue]:
            here = build.add(weights, c)
            if ahead:
                # Behind the channels of a place lie those of the next one.
                there = [0, t, build.add(here, AHEAD), 0]
                build.do(PrefetchOp(self.weights, [build.index(i) for i in there]))
            return [build.load(self.weights, [0, t, here, row]) for row in range(rows)]

        def some(first: Index, vectors: int) -> None:
            ahead = first == 0 and self.sizes.weight_bytes > FAR_BYTES
            tile = contract(
                build,
                self.how,
                rows,
                vectors,
                (0, depth),
                lambda c: factors(c, ahead),
                lambda c: self._pixels(build.plus(pixels, first), c, vectors),
            )
            for row, values in enumerate(tile):
                for v, value in enumerate(values):
                    at = build.plus(build.plus(target, first), row * self.width + v * lanes)
                    build.vstore(value, sums, [at])

        # Tiles of as many vectors as each other, or of one less: a single vector waits for its sums.
        whole = self.width // lanes
        tiles = -(-whole // MOST_VECTORS)
        vectors, wider = divmod(whole, tiles)
        first = 0
        for count, size in ((wider, vectors + 1), (tiles - wider, vectors)):
            step, behind = size * lanes, first + count * size * lanes
            if count == 1:
                some(first, size)
            elif count:
                build.loop(first, behind, step, lambda v, size=size: some(v, size), hint="v")
            first = behind

    def _pixels(self, start: Index, c: SSAValue, vectors: int) -> list[SSAValue]:
        """Pixels of one channel at one place."""
        build = self.build
        here = build.plus(start, build.mul(c, self.width))
        places = [build.plus(here, v * self.lanes) for v in range(vectors)]
        return [build.vload(self.pixels, [place], self.lanes) for place in places]

    # Results

    def _line(
        self, sums: SSAValue, row: SSAValue, h: SSAValue, at: tuple[Index, Index, Index]
    ) -> None:
        """What one line of tiles of one output channel becomes."""
        build, sizes, lanes = self.build, self.sizes, self.lanes
        start = build.add(build.mul(row, self.width), build.mul(h, sizes.tiles))
        whole = sizes.tiles // lanes

        def vector(v: Index) -> None:
            here = build.plus(start, v)
            places = [
                [
                    build.vload(sums, [build.plus(here, (i * PIXELS + j) * self.sums_place)], lanes)
                    for j in range(PIXELS)
                ]
                for i in range(PIXELS)
            ]
            down = [self._totals([line[j] for line in places]) for j in range(PIXELS)]
            square = [self._totals([both[i] for both in down]) for i in range(SUMS)]
            if self.shape.pool > 1:
                self._pooled(square, at, v)
            else:
                self._lines(square, at, v)

        # Columns behind the end are only looked for where there are some.
        inner = whole if SUMS * whole * lanes <= self.shape.count[1] else whole - 1
        if inner > 1:
            build.loop(0, inner * lanes, lanes, vector, hint="v")
        elif inner == 1:
            vector(0)
        for v in range(inner * lanes, sizes.tiles, lanes):
            vector(v)

    def _totals(self, m: Sequence[SSAValue]) -> list[SSAValue]:
        """Aᵀ m."""
        return [
            self._plus(self._plus(m[0], m[1]), m[2]),
            self._minus(self._minus(m[1], m[2]), m[3]),
        ]

    def _pooled(
        self, square: Sequence[Sequence[SSAValue]], at: tuple[Index, Index, Index], v: Index
    ) -> None:
        """One line of the result: the largest of each square."""
        build = self.build
        value = largest(build, *(largest(build, *pair) for pair in square))
        self._store(value, at, v, self.shape.count[1] // SUMS)

    def _lines(
        self, square: Sequence[Sequence[SSAValue]], at: tuple[Index, Index, Index], v: Index
    ) -> None:
        """Two lines of the result; even and odd columns meet again."""
        build = self.build
        n, channel, line = at
        height, columns = self.shape.count
        for i, (even, odd) in enumerate(square):
            here = build.plus(build.times(line, SUMS), i)

            def store(even: SSAValue = even, odd: SSAValue = odd, here: Index = here) -> None:
                for half in range(SUMS):
                    column = build.plus(build.times(v, SUMS), half * self.lanes)
                    if not isinstance(column, int) or column < columns:
                        value = self._interleaved(even, odd, half)
                        self._store(value, (n, channel, here), column, columns)

            if i and height % SUMS:
                build.when(build.compare("ult", here, height), store)
            else:
                store()

    def _store(
        self, value: SSAValue, at: tuple[Index, Index, Index], column: Index, columns: int
    ) -> None:
        build, lanes = self.build, self.lanes
        mask = last = None
        if isinstance(column, int) and column + lanes > columns:
            mask, last = build.mask(columns - column, lanes), columns - 1
        self.epilogue.store(value, Place((*at, column), lanes, mask, last))

    def _interleaved(self, even: SSAValue, odd: SSAValue, half: int) -> SSAValue:
        lanes = self.lanes
        first = half * lanes // 2
        places = [side * lanes + first + i for i in range(lanes // 2) for side in range(2)]
        kind = VectorType(self.how.kind, [lanes])
        places = DenseArrayBase.from_list(i64, places)
        return self.build.insert(ShuffleOp(even, odd, places, result_type=kind))
