"""Loops that copy a matrix into panels, and that copy it transposed.

A panel holds `tile` neighbouring columns of a `[K, N]` matrix: `[ceil(N / tile), K, tile]`, zeros
where a column does not exist. The product kernel reads it from front to back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import SSAValue

from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import element_type, select
from openinfer.lowering.kernels.squares import transpose
from openinfer.runtime.quick_dataclass import dataclass

# Rows of the source that are visited together: their pages stay known to the processor while all
# panels take their part of them.
ROWS_AT_ONCE = 16


@dataclass(frozen=True)
class Matrix:
    """The `[rows, columns]` matrix that lies behind some leading indices of a buffer."""

    buffer: SSAValue
    leading: tuple[Index, ...] = ()

    @property
    def kind(self) -> MemRefType:
        assert isinstance(self.buffer.type, MemRefType)
        return self.buffer.type

    def at(self, *place: Index) -> list[Index]:
        return [*self.leading, *place]


def pack_panels(
    build: LoopBuilder,
    source: Matrix,
    panels: Matrix,
    depth: Index,
    columns: Index,
    tile: int,
    vector_bits: int,
    *,
    transposed: bool,
) -> None:
    """Copies `source`, `[depth, columns]` or when `transposed` the reverse, into `panels`."""
    bits = max(8, getattr(element_type(source.buffer), "bitwidth", 32))
    lanes = gcd(tile, max(1, vector_bits // bits))
    whole = build.round_down(columns, tile)
    if isinstance(whole, int):
        count: Index = whole // tile
    else:
        count = build.floordiv(whole, tile)
    if transposed:
        _pack_transposed(build, source, panels, depth, (count, whole, columns), tile, lanes)
    else:
        _pack_rows(build, source, panels, depth, (count, whole, columns), tile, lanes)


def _pack_rows(
    build: LoopBuilder,
    source: Matrix,
    panels: Matrix,
    depth: Index,
    extents: tuple[Index, Index, Index],
    tile: int,
    lanes: int,
) -> None:
    count, whole, columns = extents
    offsets = [build.index(offset) for offset in range(0, tile, lanes)]

    def copy(k: SSAValue, panel: Index, masks: Sequence[SSAValue] | None) -> None:
        first = build.mul(panel, tile)
        for i, offset in enumerate(offsets):
            mask = masks[i] if masks else None
            place = source.at(k, build.add(first, offset))
            value = build.vload(source.buffer, place, lanes, mask)
            build.vstore(value, panels.buffer, panels.at(panel, k, offset))

    def block(start: SSAValue) -> None:
        stop = build.minimum(build.add(start, ROWS_AT_ONCE), depth)

        def rows(panel: Index, masks: Sequence[SSAValue] | None = None) -> None:
            build.loop(start, stop, 1, lambda k: copy(k, panel, masks), hint="k")

        if count != 0:
            build.loop(0, count, 1, rows, hint="p")
        partial(lambda masks: rows(count, masks))

    def partial(body: Callable[[Sequence[SSAValue]], None]) -> None:
        """The panel that the matrix fills in part only, if there is one."""
        rest = build.minus(columns, whole)
        if rest == 0:
            return

        def masked() -> None:
            body([build.mask(build.minus(rest, offset), lanes) for offset in range(0, tile, lanes)])

        if isinstance(rest, int):
            masked()
        else:
            build.when(build.compare("ne", rest, 0), masked)

    build.loop(0, depth, ROWS_AT_ONCE, block, parallel=True, hint="kb")


def _pack_transposed(
    build: LoopBuilder,
    source: Matrix,
    panels: Matrix,
    depth: Index,
    extents: tuple[Index, Index, Index],
    tile: int,
    lanes: int,
) -> None:
    count, whole, columns = extents
    lanes = min(lanes, 16)
    rest = build.minus(columns, whole)

    def fill(panel: Index, *, partial: bool) -> None:
        first = build.mul(panel, tile)
        last = build.minus(columns, 1)
        zero = build.constant(0, VectorType(element_type(source.buffer), [lanes]))
        for offset in range(0, tile, lanes):
            places = [build.add(first, offset + lane) for lane in range(lanes)]
            if not partial:
                write = _writer(build, panels, panel, offset)
            else:
                # Columns that do not exist repeat the last one and are then set to zero.
                places = [build.index(build.minimum(place, last)) for place in places]
                mask = build.mask(build.minus(rest, offset), lanes)
                write = _writer(build, panels, panel, offset, (mask, zero))
            transpose_into(build, places, (0, depth), _reader(build, source), write)

    if count != 0:
        build.loop(0, count, 1, lambda p: fill(p, partial=False), parallel=True, hint="p")
    if isinstance(rest, int):
        if rest:
            fill(count, partial=True)
    else:
        build.when(build.compare("ne", rest, 0), lambda: fill(count, partial=True))


Read = Callable[[Index, SSAValue, int | None], SSAValue]
"""Reads `width` neighbours of a row from a column on, or one element: (row, column, width)."""
Write = Callable[[SSAValue, SSAValue], None]
"""Takes a column of the source as one vector: (value, column)."""


def _reader(build: LoopBuilder, source: Matrix) -> Read:
    def read(row: Index, column: SSAValue, width: int | None) -> SSAValue:
        place = source.at(row, column)
        if width is None:
            return build.load(source.buffer, place)
        return build.vload(source.buffer, place, width)

    return read


def _writer(
    build: LoopBuilder,
    panels: Matrix,
    panel: Index,
    offset: int,
    keep: tuple[SSAValue, SSAValue] | None = None,
) -> Write:
    def write(value: SSAValue, k: SSAValue) -> None:
        if keep is not None:
            value = select(build, keep[0], value, keep[1])
        build.vstore(value, panels.buffer, panels.at(panel, k, offset))

    return write


def transpose_into(
    build: LoopBuilder,
    rows: Sequence[Index],
    columns: tuple[Index, Index],
    read: Read,
    write: Write,
) -> None:
    """Reads `rows` between two columns and hands each column on as one vector.

    Square blocks are turned in registers. The last one overlaps the one before, so that a column
    may be written twice; only a range shorter than a block is read element by element.
    """
    lanes = len(rows)
    start, stop = columns
    extent = build.minus(stop, start)

    def block(column: SSAValue) -> None:
        square = transpose(build, [read(row, column, lanes) for row in rows])
        for lane, value in enumerate(square):
            write(value, build.add(column, lane))

    def single(column: SSAValue) -> None:
        write(build.from_elements([read(row, column, None) for row in rows]), column)

    def blocks() -> None:
        if isinstance(extent, int) and extent % lanes == 0:
            build.loop(start, stop, lanes, block, hint="k")
            return
        last = build.minus(stop, lanes)
        build.loop(
            start,
            stop,
            lanes,
            lambda column: block(build.index(build.minimum(column, last))),
            hint="k",
        )

    def singles() -> None:
        build.loop(start, stop, 1, single, hint="k")

    if lanes == 1:
        singles()
    elif isinstance(extent, int):
        if extent >= lanes:
            blocks()
        elif extent:
            singles()
    else:
        build.when(build.compare("sge", extent, lanes), blocks, singles)
