"""The schedule of one matrix product: panels of columns, tiles of rows, the contraction inside.

    for each panel of columns                       (parallel)
      for each tile of rows
        for k: load the panel's vectors, multiply each with one element of every row
        scale, apply the body, store

A panel is read by all tiles of rows one after the other, so it stays in a near cache.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import ClassVar

from xdsl.dialects import func
from xdsl.dialects.memref import AllocaOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from openinfer.lowering.cpu.machine import Machine
from openinfer.lowering.cpu.schedules.microkernel import (
    Arithmetic,
    Carried,
    Tile,
    contract,
    over_tiles,
    split_for,
)
from openinfer.lowering.cpu.schedules.packing import Matrix
from openinfer.lowering.cpu.schedules.streaming import (
    FEW_ROWS,
    prefetch_panel,
    share_of_next,
    steps_per_line,
)
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.epilogue import Epilogue, Place
from openinfer.runtime.errors import CompileError
from openinfer.runtime.quick_dataclass import dataclass

# More instructions than this in all copies of the epilogue: the sums go through a small buffer and
# one loop over rows finishes them. A store and a load of a vector cost less than the code.
EPILOGUE_LIMIT = 300


@dataclass(frozen=True)
class Columns:
    """The right operand: panels `[panel, k, column]`, or rows `[k, column]` read where they lie."""

    matrix: Matrix
    panels: bool
    width: int
    """Columns that one tile covers; those of a panel."""
    streamed: bool = False
    """Whether the panels come from memory."""


@dataclass(frozen=True)
class Extents:
    """The sizes of a product: `[rows, depth] x [depth, columns]`."""

    rows: Index
    depth: Index
    columns: Index


@dataclass(frozen=True)
class Strip:
    """One panel of the result: its vectors' first columns, and masks for those it fills in part."""

    panel: SSAValue
    starts: tuple[SSAValue, ...]
    masks: tuple[SSAValue | None, ...]

    @property
    def vectors(self) -> int:
        return len(self.starts)


@dataclass(frozen=True)
class Part:
    """Some steps of the contraction, for rows of the left operand that were copied."""

    left: Matrix
    """The copy: it begins with the first of these rows and steps."""
    start: SSAValue
    length: Index
    before: Sequence[SSAValue]
    """The sums of the steps before."""
    ask: Callable[[SSAValue], None]
    """Asks, in one step of `length`, for something that is read later."""
    most: int
    """Steps that there are at most."""
    long: bool
    """Whether they belong to a sum that needs blocks."""


@dataclass
class Product:
    """Emits the loops of one product; `batch` is the index into the result's leading dimensions."""

    build: LoopBuilder
    how: Arithmetic
    machine: Machine
    left: Matrix
    left_transposed: bool
    right: Columns
    extents: Extents
    epilogue: Epilogue
    batch: tuple[Index, ...]
    following: tuple[Matrix, Index] | None = None
    """The panel that is computed after this one, where that is not the next one of its matrix."""

    in_groups: ClassVar[bool] = True
    """Whether one tile may cover several panels."""

    def emit(self) -> None:
        """All columns: whole panels in a loop, then the one that the matrix fills in part."""
        build, width, lanes = self.build, self.right.width, self.how.lanes
        whole = build.round_down(self.extents.columns, width)
        rest = build.minus(self.extents.columns, whole)
        if isinstance(whole, int):
            count: Index = whole // width
        else:
            count = build.floordiv(whole, width)
        none = [None] * (width // lanes)
        grouped, several = self._grouped(count)
        if grouped:
            wide = none * several
            build.loop(0, grouped, several, lambda p: self._strip(p, wide), parallel=True, hint="p")
        if count == 1:
            self._strip(0, none, parallel=True)
        elif count != grouped:
            build.loop(grouped, count, 1, lambda p: self._strip(p, none), parallel=True, hint="p")
        if isinstance(rest, int):
            masks = [
                None if rest - first >= lanes else build.mask(rest - first, lanes)
                for first in range(0, rest, lanes)
            ]
            if rest:
                self._strip(count, masks, parallel=True)
            return

        def partial() -> None:
            masks = [
                build.mask(build.minus(rest, first), lanes) for first in range(0, width, lanes)
            ]
            self._strip(count, masks, parallel=True)

        build.when(build.compare("ne", rest, 0), partial)

    def _grouped(self, count: Index) -> tuple[int, int]:
        """How many of the first panels are read side by side, and how many at once: where a row or two
        meet them, several streams may be read quicker than one."""
        several, rows = self.machine.measured.panels, self.extents.rows
        few = isinstance(rows, int) and rows <= FEW_ROWS and self.right.panels
        if several == 1 or not few or not isinstance(count, int) or not self.in_groups:
            return 0, 1
        # Every thread still finds some of them to do.
        return (count // several * several, several) if count >= 8 * several else (0, 1)

    def panel(self, panel: SSAValue) -> None:
        """All rows of one panel out of a known number; the last one may be filled in part."""
        build, width, lanes = self.build, self.right.width, self.how.lanes
        columns = self.extents.columns
        assert isinstance(columns, int)
        count, rest = divmod(columns, width)
        none = [None] * (width // lanes)

        def partial() -> None:
            masks = [
                None if rest - first >= lanes else build.mask(rest - first, lanes)
                for first in range(0, rest, lanes)
            ]
            self._strip(panel, masks)

        if rest == 0:
            self._strip(panel, none)
        elif count == 0:
            partial()
        else:
            whole = build.compare("slt", panel, count)
            build.when(whole, lambda: self._strip(panel, none), partial)

    def _strip(
        self, panel: Index, masks: Sequence[SSAValue | None], *, parallel: bool = False
    ) -> None:
        """All rows of one panel."""
        build = self.build
        strip = self._strip_of(panel, masks)
        finish = self._finish(strip)
        rows = self.machine.rows(strip.vectors)
        if self._is_long(rows, strip.vectors):
            self._through_stage(strip, rows, finish, parallel=parallel)
            return

        def body(row: Index, size: int, _: Carried) -> Carried:
            for offset, sums in enumerate(self._tile(strip, row, size)):
                finish(sums, build.plus(row, offset))
            return ()

        over_tiles(build, self.extents.rows, rows, body, parallel=parallel)

    def _strip_of(self, panel: Index, masks: Sequence[SSAValue | None]) -> Strip:
        build, width, lanes = self.build, self.right.width, self.how.lanes
        first = build.times(panel, width)
        starts = tuple(build.index(build.plus(first, v * lanes)) for v in range(len(masks)))
        return Strip(build.index(panel), starts, tuple(masks))

    def _finish(self, strip: Strip) -> Callable[[Sequence[SSAValue], Index], None]:
        """What scales, completes and stores the sums of a row."""
        hoisted = [self.epilogue.hoisted(self._place(strip, v, 0)) for v in range(strip.vectors)]

        def finish(sums: Sequence[SSAValue], row: Index) -> None:
            for vector, value in enumerate(sums):
                self.epilogue.store(value, self._place(strip, vector, row), hoisted[vector])

        return finish

    def _place(self, strip: Strip, vector: int, row: Index) -> Place:
        mask = strip.masks[vector]
        last = None if mask is None else self.build.minus(self.extents.columns, 1)
        return Place((*self.batch, row, strip.starts[vector]), self.how.lanes, mask, last)

    def _is_long(self, rows: int, vectors: int) -> bool:
        count = self.extents.rows
        copies = 2 * rows if not isinstance(count, int) else min(count, rows + count % rows)
        return copies > 1 and self.epilogue.weight * copies * vectors > EPILOGUE_LIMIT

    def _tile(self, strip: Strip, row: Index, rows: int, part: Part | None = None) -> Tile:
        """The sums of `rows` rows from `row` on, over all of the contraction or a part of it."""
        build, lanes = self.build, self.how.lanes
        left, right = self.left if part is None else part.left, self.right.matrix
        places = [build.index(build.plus(row, offset)) for offset in range(rows)]
        each = self.right.width // lanes
        offsets = [build.index(v * lanes) for v in range(min(each, strip.vectors))]
        beside = [strip.panel]
        for number in range(1, -(-strip.vectors // each)):
            beside.append(build.add(strip.panel, number))
        calls = itertools.count()
        ask = None if part is None else part.ask
        if part is None and self.right.panels and rows > FEW_ROWS:
            ask = self._asking(strip, row)

        def scalars(k: SSAValue) -> list[SSAValue]:
            if self.left_transposed:
                return [build.load(left.buffer, left.at(k, place)) for place in places]
            return [build.load(left.buffer, left.at(place, k)) for place in places]

        def columns(k: SSAValue) -> list[SSAValue]:
            if self.right.panels:
                if ask is not None:
                    ask(k)
                elif rows <= FEW_ROWS and next(calls) % steps_per_line(right) == 0:
                    for panel in beside:
                        known, streamed = self.machine.measured, self.right.streamed
                        prefetch_panel(build, right, panel, k, known, streamed=streamed)
                # A panel is padded: every lane may be read.
                there = k if part is None else build.add(part.start, k)
                return [
                    build.vload(right.buffer, right.at(panel, there, offset), lanes)
                    for panel in beside
                    for offset in offsets
                ]
            return [
                build.vload(right.buffer, right.at(k, start), lanes, mask)
                for start, mask in zip(strip.starts, strip.masks)
            ]

        return contract(
            build,
            self.how,
            rows,
            strip.vectors,
            (0, self.extents.depth if part is None else part.length),
            scalars,
            columns,
            split=split_for(self.build, self.machine.accumulators, rows, strip.vectors),
            before=None if part is None else part.before,
            most=None if part is None else part.most,
            long=part is not None and part.long,
        )

    def _asking(self, strip: Strip, row: Index) -> Callable[[SSAValue], None]:
        """What asks for the part of the next panel that the tile from `row` on is to fetch."""
        build, count = self.build, self.extents.rows
        rows = self.machine.rows(strip.vectors)
        tiles = build.ceil_div(count, rows)
        tile = row // rows if isinstance(row, int) else build.floordiv(row, rows)
        panels, following = self.following or (self.right.matrix, build.plus(strip.panel, 1))
        return share_of_next(build, panels, following, self.extents.depth, tile, tiles)

    def _through_stage(
        self,
        strip: Strip,
        rows: int,
        finish: Callable[[Sequence[SSAValue], Index], None],
        *,
        parallel: bool,
    ) -> None:
        """Like `_strip`, with the epilogue in a loop over the rows of a tile in a small buffer."""
        build, lanes = self.build, self.how.lanes
        stage = self._stage(rows, strip.vectors * lanes)
        offsets = [build.index(vector * lanes) for vector in range(strip.vectors)]

        def compute(row: Index, size: int, at: Index) -> None:
            for offset, sums in enumerate(self._tile(strip, row, size)):
                for place, value in zip(offsets, sums):
                    build.vstore(value, stage, [build.plus(at, offset), place])

        def finish_rows(first: Index, count: Index) -> None:
            def one(offset: SSAValue) -> None:
                sums = [build.vload(stage, [offset, place], lanes) for place in offsets]
                finish(sums, build.plus(first, offset))

            build.loop(0, count, 1, one, hint="r")

        def known(row: Index, size: int, _: Carried) -> Carried:
            compute(row, size, 0)
            finish_rows(row, size)
            return ()

        def unknown(row: SSAValue) -> None:
            here = build.minimum(build.minus(self.extents.rows, row), rows)

            def part(offset: Index, size: int, _: Carried) -> Carried:
                compute(build.plus(row, offset), size, offset)
                return ()

            over_tiles(build, here, rows, part)
            finish_rows(row, here)

        if isinstance(self.extents.rows, int):
            over_tiles(build, self.extents.rows, rows, known, parallel=parallel)
        else:
            build.loop(0, self.extents.rows, rows, unknown, parallel=parallel)

    def _stage(self, rows: int, columns: int) -> SSAValue:
        allocation = AllocaOp.get(self.how.kind, alignment=64, shape=[rows, columns])
        return at_entry(self.build, allocation)


def at_entry(build: LoopBuilder, op: Operation) -> SSAValue:
    """Inserts an op at the start of the function that is being built; its only result."""
    parent = build.builder.insertion_point.block.parent_op()
    while parent is not None and not isinstance(parent, func.FuncOp):
        parent = parent.parent_op()
    if parent is None:
        raise CompileError("OI0953", f"'{op.name}' is built outside of a function")
    LoopBuilder(InsertPoint.at_start(parent.body.blocks[0])).do(op)
    return op.results[0]
