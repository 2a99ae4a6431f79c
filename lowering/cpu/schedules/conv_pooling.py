"""Max pooling of squares of two by two while they are sums in registers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, VectorType, i64
from xdsl.dialects.vector import ShuffleOp
from xdsl.ir import SSAValue

from openinfer.lowering.cpu.schedules.conv_tile import Cell, Part
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import largest


def pooled(
    build: LoopBuilder,
    sums: Sequence[SSAValue],
    rows: int,
    at: tuple[Index, Index, Index],
    part: Part,
    lanes: int,
) -> tuple[list[SSAValue], tuple[Index, Index, Index], list[Cell]]:
    """The largest of each square of two by two sums; where they are stored."""
    n, line, column = at
    cells: list[Cell] = []
    values: list[SSAValue] = []
    for row in range(rows):
        for i in range(0, part.lines, 2):
            above = (row * part.lines + i) * part.vectors
            both = [
                largest(build, sums[above + v], sums[above + part.vectors + v])
                for v in range(part.vectors)
            ]
            for v in range(0, part.vectors, 2):
                pair = both[v : v + 2]
                values.append(_neighbours(build, pair, lanes))
                if row == 0:
                    cells.append(_pooled_cell(build, i // 2, v, len(pair), part, lanes))
    half = [build.index(0) if index == 0 else _half(build, index) for index in (line, column)]
    return values, (n, half[0], half[1]), cells


def _half(build: LoopBuilder, index: Index) -> Index:
    return index // 2 if isinstance(index, int) else build.floordiv(index, 2)


def _pooled_cell(
    build: LoopBuilder, line: int, vector: int, count: int, part: Part, lanes: int
) -> Cell:
    width = count * lanes // 2
    column = vector * lanes // 2
    rest = part.columns // 2 - column
    return Cell(line, column, width, None if rest >= width else build.mask(rest, width))


def _neighbours(build: LoopBuilder, pair: Sequence[SSAValue], lanes: int) -> SSAValue:
    """The larger of each two neighbours of one or two vectors."""
    width = len(pair) * lanes // 2
    first, second = pair[0], pair[-1]
    kind = first.type
    assert isinstance(kind, VectorType)
    sides = [
        build.insert(
            ShuffleOp(
                first,
                second,
                DenseArrayBase.from_list(i64, list(range(side, 2 * width, 2))),
                result_type=VectorType(kind.element_type, [width]),
            )
        )
        for side in range(2)
    ]
    return largest(build, sides[0], sides[1])
