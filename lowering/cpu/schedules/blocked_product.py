"""The schedule of a product whose operands do not fit in the caches: blocks of all three sizes.

    for each task: a block of rows, and some panels of columns      (parallel)
      for each block of the contraction
        copy this part of the rows
        for each panel
          for each tile of rows: go on with its sums
          behind the last block of the contraction: scale, apply the body, store

The copy stays in the second cache while panels go by: rows of a large matrix are pages apart, and as
far apart as cache sets repeat. Of a panel only the part that one block of the contraction needs goes
by, and the tiles ask for that of the next panel. Sums wait in a buffer of their own, so that the
result is written once, and may lie where an operand of the body lies. They go on where they stopped:
in whole tiles each is added up in the same order as without blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float16Type, Float32Type, Float64Type, MemRefType, bf16, f32, f64
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects.extensions.memref import PrefetchOp
from openinfer.dialects.nn import MatmulOp, dims_of, element_of
from openinfer.lowering.cpu.machine import machine_of
from openinfer.lowering.cpu.schedules.microkernel import Carried, over_tiles
from openinfer.lowering.cpu.schedules.packing import Matrix
from openinfer.lowering.cpu.schedules.product import Part, Product, Strip
from openinfer.lowering.cpu.schedules.streaming import LINE, share_of_next
from openinfer.lowering.cpu.vector_width import bits_of
from openinfer.lowering.demands import Scratch
from openinfer.lowering.facts import Facts
from openinfer.lowering.kernels.builder import Index
from openinfer.lowering.kernels.elements import accumulator_of
from openinfer.lowering.kernels.long_sums import PRODUCTS
from openinfer.lowering.kernels.numeric import element_type, resize_float
from openinfer.lowering.kernels.runs import Extent, vector_run
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import THREADS, Size

STEP_BYTES = 4096
"""What a block of the contraction takes of a row: 32 columns of f32 are 128 KiB then."""
TILES = 8
"""Tiles of rows in a block: 64 rows take a quarter of a second cache of 1 MiB, beside two panels and
some sums. A power of two, so that the tiles ask for all of the next panel: 12 made 1.05 of the time."""
NEAR_BYTES = 8 << 20
"""A left operand of this size is quick to read for every panel, where it lies."""
FEW_PANELS = 4
"""So few of them are computed quicker than the rows are copied."""
TASKS = 16
"""Tasks that are wanted at least: what a loop is cut into for threads."""
APART = 64
"""Bytes between the rows of a copy, so that rows of a power of two do not share cache sets."""
_COPIED = (Float16Type, Float32Type, Float64Type, type(bf16))


@dataclass(frozen=True)
class Blocks:
    """The buffers of blocks: a copy of rows `[threads, rows, steps and a gap]`, the two last ones the
    other way round for a transposed left operand, and sums `[threads, panels, rows, columns]`. Long
    sums of f32 are kept in f64."""

    copy: SSAValue
    sums: SSAValue

    @property
    def rows(self) -> int:
        """Rows of a block: whole tiles."""
        return _shape(self.sums)[2]

    def steps(self, *, transposed: bool, pairs: bool) -> int:
        """Steps of a block of the contraction."""
        _, first, second = _shape(self.copy)
        if transposed:
            return first
        gap = APART * 8 // bits_of(element_type(self.copy))
        return (second - gap) // (2 if pairs else 1)


def block_scratch(op: MatmulOp) -> list[Scratch]:
    """The buffers of `Blocks` where they pay, else none. `op` is on tensors, its columns in panels.

    They pay where the left operand is large: 0.97 of the time at 2048 x 2048 x 2048, 1.01 at 1024 x
    1024 x 1024.
    """
    kind = element_of(op.left)
    machine = machine_of(op)
    pairs = op.precision is not None
    output, left = dims_of(op.output), dims_of(op.left)
    transposed = op.transpose_a is not None
    depth = left[-2 if transposed else -1].constant
    rows = _rows(op, output)
    if not isinstance(kind, _COPIED) or depth is None or rows is None:
        return []
    panels = (output[-1] + (machine.tile - 1)) // machine.tile
    few = panels.constant is not None and panels.constant <= FEW_PANELS
    width = bits_of(kind) // 8
    if machine.depth is None:
        steps = STEP_BYTES // width
        if few or depth < steps or rows * depth * width <= NEAR_BYTES:
            return []
    else:
        # In pairs where the product is: what `openinfer tune` found best for this product.
        steps = machine.depth * (2 if pairs else 1)
        if not 0 < steps < depth:
            return []
    # Blocks of about equal length: a short last one would hardly pay for its sums.
    unit = LINE // width
    count = -(-depth // steps)
    steps = -(-depth // (count * unit)) * unit
    height = TILES * machine.rows(machine.tile_vectors)
    body = op.body[0].block.args[0].type if op.body else accumulator_of(element_of(op.output))
    gap = APART // width
    place = (steps, height + gap) if transposed else (height, steps + gap)
    threads = Size.name(THREADS)
    is_long = _is_long(depth, body, strict=Facts.of(op).strict_math)
    kept = f64 if is_long else body
    return [
        Scratch("copy", kind, (threads, Size.of(place[0]), Size.of(place[1]))),
        Scratch("sums", kept, (threads, panels, Size.of(height), Size.of(machine.tile))),
    ]


def _is_long(depth: int, kind: Attribute, *, strict: bool) -> bool:
    """Whether sums of so many products are kept in f64."""
    return depth > PRODUCTS.most and kind == f32 and not strict


def _rows(op: MatmulOp, output: Sequence[Size]) -> int | None:
    """Rows of the left operand, leading dimensions among them where the right one has none."""
    own = 3 if op.layout is not None else 2
    folds = op.transpose_a is None and len(dims_of(op.right)) == own
    rows = 1
    for size in output[:-1] if folds else output[-2:-1]:
        if size.constant is None:
            return None
        rows *= size.constant
    return rows


@dataclass
class BlockedProduct(Product):
    """Emits the loops of one large product."""

    in_groups: ClassVar[bool] = False
    blocks: Blocks | None = None
    thread: Index = 0
    """The part of the buffers that this thread uses."""

    def emit(self) -> None:
        build, size, width = self.build, self._blocks.rows, self.right.width
        row_blocks = build.ceil_div(self.extents.rows, size)
        panels = build.ceil_div(self.extents.columns, width)
        groups = self._groups(row_blocks, panels)
        each = build.ceil_div(panels, groups)

        def task(number: SSAValue) -> None:
            block = build.floordiv(number, groups)
            first = build.mul(build.rem(number, groups), each)
            last = build.minimum(build.add(first, each), panels)
            self._task(build.mul(block, size), first, last)

        if isinstance(row_blocks, int):
            count: Index = row_blocks * groups
        else:
            count = build.mul(row_blocks, groups)
        build.loop(0, count, 1, task, parallel=True, hint="task")

    @property
    def _blocks(self) -> Blocks:
        assert self.blocks is not None
        return self.blocks

    @property
    def _pairs(self) -> bool:
        """Whether extents count pairs of the contraction."""
        return False

    @property
    def _long(self) -> bool:
        """Whether sums are kept in f64."""
        depth = self.extents.depth
        assert isinstance(depth, int)
        depth *= 2 if self._pairs else 1
        return _is_long(depth, self.how.kind, strict=self.build.facts.strict_math)

    def _groups(self, row_blocks: Index, panels: Index) -> int:
        """How many groups the panels are cut into, so that threads find enough tasks."""
        blocks = row_blocks if isinstance(row_blocks, int) else 1
        most = panels if isinstance(panels, int) else TASKS
        return max(1, min(most, -(-TASKS // max(blocks, 1))))

    def _task(self, row: SSAValue, first: Index, last: Index) -> None:
        """A block of rows with the panels from `first` to `last`."""
        build, width, lanes = self.build, self.right.width, self.how.lanes
        size, depth, rows = self._blocks.rows, self.extents.depth, self.extents.rows
        even = isinstance(rows, int) and rows % size == 0
        here = size if even else build.minimum(build.minus(rows, row), size)
        steps = self._blocks.steps(transposed=self.left_transposed, pairs=self._pairs)
        whole = build.round_down(self.extents.columns, width)
        count = whole // width if isinstance(whole, int) else build.floordiv(whole, width)
        rest = build.minus(self.extents.columns, whole)

        def block(k: SSAValue) -> None:
            left = build.minus(depth, k)
            even = isinstance(depth, int) and depth % steps == 0
            length = steps if even else build.minimum(left, steps)
            self._copy(row, here, k, length)
            is_last = build.compare("sle", left, steps)

            def panel(number: Index, masks: Sequence[SSAValue | None]) -> None:
                self._panel(self._strip_of(number, masks), row, here, (k, length, is_last))

            none: list[SSAValue | None] = [None] * (width // lanes)
            stop = build.minimum(last, count)
            build.loop(first, stop, 1, lambda p: panel(p, none), hint="p")
            if rest == 0:
                return

            def partial() -> None:
                masks = [
                    None
                    if isinstance(rest, int) and rest - at >= lanes
                    else build.mask(build.minus(rest, at), lanes)
                    for at in range(0, rest if isinstance(rest, int) else width, lanes)
                ]
                panel(count, masks)

            # The last groups may have no panels at all.
            mine = arith.AndIOp(
                build.compare("sgt", last, count), build.compare("slt", first, last)
            )
            build.when(build.insert(mine), partial)

        build.loop(0, depth, steps, block, hint="kb")

    def _copy(self, row: SSAValue, here: Index, k: SSAValue, length: Index) -> None:
        """Copies some steps of some rows. What is behind the last pair is zero."""
        build, left, copy = self.build, self.left, self._blocks.copy
        lanes = max(1, self.machine.vector_bits // bits_of(element_type(copy)))
        start: Index = build.mul(k, 2) if self._pairs else k
        extent: Index = length
        if self._pairs:
            extent = build.times(length, 2)
            inner = build.dim(left.buffer, len(left.kind.get_shape()) - 1)
            odd = not (isinstance(inner, int) and inner % 2 == 0)
            extent = build.minimum(extent, build.minus(inner, start)) if odd else extent
        lines, line, begin = (here, extent, (row, start))
        if self.left_transposed:
            lines, line, begin = (extent, here, (start, row))

        def one(number: SSAValue) -> None:
            def some(offset: SSAValue, mask: SSAValue | None) -> None:
                place = left.at(build.add(begin[0], number), build.add(begin[1], offset))
                value = build.vload(left.buffer, place, lanes, mask)
                build.vstore(value, copy, [self.thread, number, offset])

            vector_run(build, Extent((line,)), lanes, some, hint="c")

        build.loop(0, lines, 1, one, hint="r")

    def _panel(
        self,
        strip: Strip,
        row: SSAValue,
        here: Index,
        block: tuple[SSAValue, Index, SSAValue],
    ) -> None:
        """Goes on with the sums of a panel, by one block of the contraction: the first step, how many
        there are, and whether it is the last block."""
        build, lanes, sums = self.build, self.how.lanes, self._blocks.sums
        k, length, is_last = block
        rows = self.machine.rows(strip.vectors)
        tiles = -(-self._blocks.rows // rows)
        offsets = [vector * lanes for vector in range(strip.vectors)]
        steps = self._blocks.steps(transposed=self.left_transposed, pairs=self._pairs)
        copy = Matrix(self._blocks.copy, (self.thread,))
        goes_on = build.compare("sgt", k, 0)
        following = build.add(strip.panel, 1)
        finish = self._finish(strip)
        is_long = self._is_long(rows, strip.vectors)

        def place(line: Index) -> list[list[Index]]:
            return [[self.thread, strip.panel, line, at] for at in offsets]

        def tile(offset: Index, count: int, _: Carried) -> Carried:
            lines = [build.plus(offset, number) for number in range(count)]
            places = [one for line in lines for one in place(line)]
            # Behind these sums lie those of the next tile, and behind a panel those of the next one.
            for line in lines:
                for ahead in place(build.plus(line, count)):
                    build.do(PrefetchOp(sums, [build.index(i) for i in ahead]))
            ask = share_of_next(
                build,
                self.right.matrix,
                following,
                steps,
                offset // rows if isinstance(offset, int) else build.floordiv(offset, rows),
                tiles,
                start=k,
            )

            def old() -> list[SSAValue]:
                return [build.vload(sums, one, lanes) for one in places]

            none = [build.constant(0, self.how.vector)] * len(places)
            before: Sequence[SSAValue] = none
            if not self._long:
                before = build.when(goes_on, old, lambda: none, [value.type for value in none])
            part = Part(copy, k, length, before, ask, steps, self._long)
            made = [value for line in self._tile(strip, offset, count, part) for value in line]
            if self._long:
                # Each block has sums of its own, joined in f64.
                wide = [resize_float(build, value, f64) for value in made]

                def joined() -> list[SSAValue]:
                    pairs = zip(old(), wide, strict=True)
                    return [build.insert(arith.AddfOp(x, y)) for x, y in pairs]

                made = build.when(goes_on, joined, lambda: wide, [value.type for value in wide])

            def keep() -> None:
                for one, value in zip(places, made, strict=True):
                    build.vstore(value, sums, one)

            def narrow(values: Sequence[SSAValue]) -> list[SSAValue]:
                kind = self.how.kind
                return [resize_float(build, v, kind) if self._long else v for v in values]

            def complete(line: SSAValue) -> None:
                values = [build.vload(sums, one, lanes) for one in place(line)]
                finish(narrow(values), build.add(row, line))

            def complete_tile() -> None:
                if is_long:
                    keep()
                    build.loop(offset, build.plus(offset, count), 1, complete, hint="r")
                    return
                across = len(offsets)
                for number, line in enumerate(lines):
                    values = made[number * across : (number + 1) * across]
                    finish(narrow(values), build.plus(row, line))

            build.when(is_last, complete_tile, keep)
            return ()

        over_tiles(build, here, rows, tile)


def _shape(buffer: SSAValue) -> tuple[int, ...]:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type.get_shape()
