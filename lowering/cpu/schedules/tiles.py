"""A matrix as squares: the copy that a device reads, made when a program is loaded."""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue

from openinfer.lowering.cpu.schedules.packing import Matrix
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import element_type


def pack_tiles(
    build: LoopBuilder,
    source: Matrix,
    tiles: Matrix,
    depth: Index,
    columns: Index,
    side: int,
    *,
    transposed: bool,
) -> None:
    """`tiles[c][k][n · side + s] = source[k · side + s][c · side + n]`, 0 beyond the source.

    `source` is `[depth, columns]`, or when `transposed` the reverse.
    """
    element = element_type(source.buffer)
    is_whole = transposed and isinstance(depth, int) and depth % side == 0

    def elements(column: SSAValue, step: SSAValue, inside: SSAValue, at: list[Index]) -> None:
        """One column of a square: neighbours in the source, and in any case in the square."""
        zero = build.constant(0, VectorType(element, [side]))
        if is_whole:
            build.when(
                inside,
                lambda: build.vstore(
                    build.vload(source.buffer, source.at(column, step), side), tiles.buffer, at
                ),
                lambda: build.vstore(zero, tiles.buffer, at),
            )
            return
        build.vstore(zero, tiles.buffer, at)

        def one(place: SSAValue) -> None:
            here = build.add(step, place)
            read = source.at(column, here) if transposed else source.at(here, column)
            write = [*at[:-1], build.add(at[-1], place)]
            build.store(build.load(source.buffer, read), tiles.buffer, write)

        count = build.minimum(side, build.minus(depth, step))
        build.when(inside, lambda: build.loop(0, count, 1, one, hint="s"))

    def square(across: SSAValue, down: SSAValue) -> None:
        def each(number: SSAValue) -> None:
            column = build.add(build.mul(across, side), number)
            inside = build.compare("ult", column, columns)
            at = tiles.at(across, down, build.mul(number, side))
            elements(column, build.mul(down, side), inside, at)

        build.loop(0, side, 1, each, hint="n")

    def squares(across: SSAValue) -> None:
        rows = build.ceil_div(depth, side)
        build.loop(0, rows, 1, lambda down: square(across, down), hint="k")

    build.loop(0, build.ceil_div(columns, side), 1, squares, parallel=True, hint="c")
