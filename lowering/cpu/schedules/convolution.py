"""The schedule of a convolution: tiles of output channels and pixels, their sums in registers.

    for each tile of lines                           (parallel)
      for each part of a line
        for each tile of output channels
          for each channel, for each element of the kernel:
            load the vectors of pixels, multiply each with one weight of every output channel
          apply the body, store

The pixels that a tile of lines reads stay in the nearest cache while all weights pass by. Where the
weights are many, they are cut into parts that stay in the second cache, and the loop over the parts
stands outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.memref import AllocaOp
from xdsl.ir import SSAValue

from openinfer.lowering.cpu.schedules.conv_planes import split
from openinfer.lowering.cpu.schedules.conv_pooling import pooled
from openinfer.lowering.cpu.schedules.conv_tile import Cell, Part, TileSums
from openinfer.lowering.cpu.schedules.product import EPILOGUE_LIMIT, at_entry
from openinfer.lowering.cpu.vector_width import bits_of
from openinfer.lowering.kernels.builder import Index
from openinfer.lowering.kernels.epilogue import Epilogue, Place
from openinfer.runtime.quick_dataclass import dataclass

# Bytes of weights that pass by each tile of pixels: half of a second cache.
WEIGHT_BYTES = 1 << 19
# Bytes of pixels that a run of tiles covers at most: most of the nearest cache.
RUN_BYTES = 24_000
# Pieces of work that even out unequal threads.
PIECES = 8
# Products of a sum from which on output channels are cut into parts for more pieces: of shorter sums too
# much would be reading the same pixels again.
CUT_DEPTH = 64


@dataclass
class Convolution:
    """Emits the loops of one convolution whose x has been copied to `planes`."""

    sums: TileSums
    epilogue: Epilogue
    batch: Index

    def __post_init__(self) -> None:
        sums = self.sums
        self.build, self.how = sums.build, sums.how
        self.shape, self.planes, self.tile = sums.shape, sums.planes, sums.tile

    def emit(self) -> None:
        """All tiles; groups of lines, or parts of a single line, may be on several threads."""
        if self.shape.count[0] == 1:
            self._single_line()
            return
        build, tile = self.build, self.tile
        height = self.shape.count[0]
        whole = height // tile.lines
        blocks = self._blocks(whole)
        for first, count, lines in (
            (0, whole, tile.lines),
            (whole * tile.lines, 1, height % tile.lines),
        ):
            if not count or not lines:
                continue
            parts = self._parts(lines)

            def work(
                outer: Index,
                number: Index,
                first: int = first,
                lines: int = lines,
                count: int = count,
                parts: Sequence[tuple[int, int, Part]] = parts,
            ) -> None:
                n, place = self._split_index(number, count)
                line = build.plus(first, build.mul(place, lines) if count > 1 else 0)
                self._lines(n, line, outer, blocks, parts)

            images = build.mul(self.batch, count) if self.batch != 1 else count
            split(build, (blocks, images), work)

    def _single_line(self) -> None:
        """Tiles of a result of one line: runs of them are the pieces of work, whole tiles first.

        The tile of what is left is a piece like others: threads do not meet between the two kinds.
        """
        build, parts = self.build, self._parts(1)
        blocks = self._blocks(sum(count for _, count, _ in parts))
        each = [self._run(part, count) for _, count, part in parts]
        runs = [-(-count // tiles) for (_, count, _), tiles in zip(parts, each)]

        def piece(n: Index, run: Index, outer: Index, number: int) -> None:
            first, count, part = parts[number]
            start = build.times(run, each[number])
            tiles: Index = each[number]
            if count % each[number]:
                tiles = build.minimum(tiles, build.minus(count, start))
            column = build.plus(first, build.times(start, part.columns))
            self._channels(n, 0, column, part, outer, blocks, tiles)

        def work(outer: Index, number: Index) -> None:
            n, run = self._split_index(number, sum(runs))
            if len(parts) == 1:
                piece(n, run, outer, 0)
                return
            whole = build.compare("slt", build.index(run), runs[0])
            build.when(
                whole,
                lambda: piece(n, run, outer, 0),
                lambda: piece(n, build.minus(run, runs[0]), outer, 1),
            )

        images = build.mul(self.batch, sum(runs)) if self.batch != 1 else sum(runs)
        split(build, (blocks, images), work)

    def _run(self, part: Part, count: int) -> int:
        """Tiles in a row whose pixels stay in the nearest cache while all weights pass by.

        A channel of the result is then written in longer pieces, which the caches see coming.
        """
        pixels = self.shape.channels * part.columns * bits_of(self.how.kind) // 8
        return max(1, min(RUN_BYTES // pixels, count // PIECES))

    def _split_index(self, number: Index, count: int) -> tuple[Index, Index]:
        """Image and tile, of `count` in an image."""
        if self.batch == 1:
            return 0, number
        if count == 1:
            return number, 0
        return self.build.floordiv(number, count), self.build.rem(number, count)

    def _blocks(self, tiles: int) -> int:
        """Into how many parts the output channels of a group are cut."""
        rows = -(-self.shape.outputs // self.tile.rows)
        size = bits_of(self.how.kind) // 8
        weights = self.shape.groups * rows * self.tile.rows * self.shape.depth * size
        blocks = 1
        while blocks < rows and weights // blocks > WEIGHT_BYTES:
            blocks *= 2
        while 2 * blocks <= rows and blocks * tiles < PIECES and self.shape.depth >= CUT_DEPTH:
            blocks *= 2
        return min(blocks, rows)

    def _parts(self, lines: int) -> list[tuple[int, int, Part]]:
        """(first column, how many tiles of that kind follow, tile) of one line or group of them."""
        lanes, columns = self.how.lanes, self.shape.count[1]
        if self.tile.flat:
            span = (lines - 1) * self.planes.width + columns
            vectors = -(-span // lanes)
            return [(0, 1, Part(lines, vectors, (None,) * vectors, columns))]
        found: list[tuple[int, int, Part]] = []
        width = self.tile.vectors * lanes
        whole = columns // width
        if whole:
            none = (None,) * self.tile.vectors
            found.append((0, whole, Part(lines, self.tile.vectors, none, width)))
        if rest := columns - whole * width:
            vectors = -(-rest // lanes)
            masks = tuple(
                None if rest - v * lanes >= lanes else self.build.mask(rest - v * lanes, lanes)
                for v in range(vectors)
            )
            found.append((whole * width, 1, Part(lines, vectors, masks, rest)))
        return found

    def _lines(
        self,
        n: Index,
        line: Index,
        block: Index,
        blocks: int,
        parts: Sequence[tuple[int, int, Part]],
    ) -> None:
        """All output channels of a block, for some lines of one image."""
        build = self.build
        for first, count, part in parts:

            def one(column: Index, part: Part = part) -> None:
                self._channels(n, line, column, part, block, blocks)

            if count == 1:
                one(first)
            else:
                build.loop(first, first + count * part.columns, part.columns, one, hint="w")

    def _channels(
        self,
        n: Index,
        line: Index,
        column: Index,
        part: Part,
        block: Index,
        blocks: int,
        tiles: Index = 1,
    ) -> None:
        """All output channels of a block, for `tiles` tiles from a column on."""
        build, shape, rows = self.build, self.shape, self.tile.rows
        full, rest = divmod(shape.outputs, rows)
        place = build.plus(build.mul(n, self.planes.image), column)
        place = build.plus(place, build.mul(line, self.planes.step))

        def group(g: Index) -> None:
            here = build.plus(place, build.mul(g, shape.channels * self.planes.channel))

            def run(t: Index, rows: int) -> None:
                def one(i: Index) -> None:
                    along = build.times(i, part.columns)
                    at = (n, line, build.plus(column, along))
                    self._tile(g, t, rows, at, build.plus(here, along), part)

                if tiles == 1:
                    one(0)
                else:
                    build.loop(0, tiles, 1, one, hint="w")

            def whole(t: Index) -> None:
                run(t, rows)

            def last() -> None:
                run(full, rest)

            if blocks == 1:
                if full == 1:
                    whole(0)
                elif full:
                    build.loop(0, full, 1, whole, hint="t")
                if rest:
                    last()
                return
            each = -(-(full + bool(rest)) // blocks)
            start = build.mul(block, each)
            stop = build.plus(start, each)
            build.loop(start, build.minimum(stop, full), 1, whole, hint="t")
            if rest:
                begun = build.compare("sle", start, full)
                ends = build.compare("sgt", stop, full)
                build.when(build.insert(arith.AndIOp(begun, ends)), last)

        if shape.groups == 1:
            group(0)
        else:
            build.loop(0, shape.groups, 1, group, hint="g")

    # One tile

    def _tile(
        self,
        g: Index,
        t: Index,
        rows: int,
        at: tuple[Index, Index, Index],
        place: SSAValue | Index,
        part: Part,
    ) -> None:
        build = self.build
        sums = self.sums.emit(g, t, rows, build.index(place), part)
        first = build.plus(build.mul(g, self.shape.outputs), build.mul(t, self.tile.rows))
        across = len(sums) // rows
        if self.shape.pool > 1:
            sums, at, cells = pooled(build, sums, rows, at, part, self.how.lanes)
            across = len(sums) // rows
        else:
            cells = self._cells(part)
        if self.tile.flat or (rows > 1 and self.epilogue.weight * len(sums) > EPILOGUE_LIMIT):
            self._through_stage(sums, rows, first, at, cells, part)
            return
        for row in range(rows):
            own = sums[row * across : (row + 1) * across]
            self._finish(build.plus(first, row), at, cells, lambda n, own=own: own[n])

    def _cells(self, part: Part) -> list[Cell]:
        """The vectors of the result that a tile stores for one output channel."""
        build, lanes = self.build, self.how.lanes
        masks = part.masks
        if self.tile.flat:
            rests = range(part.columns, 0, -lanes)
            masks = tuple(None if r >= lanes else build.mask(r, lanes) for r in rests)
        return [
            Cell(i, v * lanes, lanes, mask)
            for i in range(part.lines)
            for v, mask in enumerate(masks)
        ]

    def _finish(
        self,
        channel: Index,
        at: tuple[Index, Index, Index],
        cells: Sequence[Cell],
        value: Callable[[int], SSAValue],
    ) -> None:
        """Applies the body to all vectors of one output channel and stores them."""
        build = self.build
        n, line, column = at
        known: dict[int, list[SSAValue | None]] = {}
        for number, cell in enumerate(cells):
            where = build.plus(column, cell.column)
            pixel = (where,) if self.shape.is_line else (build.plus(line, cell.line), where)
            last = None if cell.mask is None else self.shape.count[1] // self.shape.pool - 1
            there = Place((n, channel, *pixel), cell.lanes, cell.mask, last)
            if cell.lanes not in known:
                known[cell.lanes] = self.epilogue.hoisted(there, range(2, 2 + len(pixel)))
            self.epilogue.store(value(number), there, known[cell.lanes])

    def _through_stage(
        self,
        sums: Sequence[SSAValue],
        rows: int,
        first: Index,
        at: tuple[Index, Index, Index],
        cells: Sequence[Cell],
        part: Part,
    ) -> None:
        """Sums go through a small buffer: a loop over its rows applies the body.

        For bodies of many instructions, and where lines do not begin with a vector.
        """
        build, lanes = self.build, self.how.lanes
        across = len(sums) // rows
        pitch = (across + 1) * lanes
        stage = at_entry(
            build, AllocaOp.get(self.how.kind, alignment=64, shape=[self.tile.rows * pitch])
        )
        for number, value in enumerate(sums):
            row, vector = divmod(number, across)
            build.vstore(value, stage, [row * pitch + vector * lanes])
        starts = [number * lanes for number in range(len(cells))]
        if self.tile.flat:
            starts = [cell.line * self.planes.width + cell.column for cell in cells]

        def one(row: SSAValue) -> None:
            start = build.mul(row, pitch)
            self._finish(
                build.plus(first, row),
                at,
                cells,
                lambda n: build.vload(stage, [build.plus(start, starts[n])], cells[n].lanes),
            )

        build.loop(0, rows, 1, one, hint="r")
