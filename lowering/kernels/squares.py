"""Squares of elements that are turned in registers: what lies side by side becomes what does not.

A nest whose inputs lie side by side along another dimension than its outputs is computed square by square:

    for each square of n x n elements:
      load n vectors along the inputs' dimension, transpose them
      for each of n rows: apply the body to vectors along the outputs' dimension, store
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log2

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    IntegerType,
    VectorType,
    i64,
)
from xdsl.dialects.vector import ShuffleOp
from xdsl.ir import SSAValue

from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.nest import Access, Nest

LEAST_SIDE = 4
# Instructions in all copies of the body; more of them are in scalar loops.
MOST_WRITTEN_OUT = 1500


@dataclass(frozen=True)
class Square:
    """Which two dimensions of a nest are computed in squares."""

    along: int
    """Neighbours of it lie side by side in the outputs."""
    across: int
    """Neighbours of it lie side by side in the inputs that are turned."""
    side: int

    @staticmethod
    def of(nest: Nest, parallel: Sequence[int], lanes: int, weight: int) -> Square | None:
        """The squares that take the fewest instructions; None where single elements take fewer.

        `weight` is about how many instructions the body has.
        """
        accesses = [a for a in nest.accesses if a.kind is not None]
        if not all(map(_has_lanes, accesses)):
            return None
        for along in parallel:
            if all(out.has_unit_stride(along) for out in nest.outputs):
                break
        else:
            return None
        found: list[tuple[float, Square]] = []
        for across in parallel:
            extents = nest.extents[along].static, nest.extents[across].static
            if across == along or not _fits(nest, along, across) or None in extents:
                continue
            height, width = (extent or 0 for extent in extents)
            side = lanes
            while side >= LEAST_SIDE:
                count = -(-height // side) * -(-width // side)
                variants = (1 + (height % side > 0)) * (1 + (width % side > 0))
                cost = count * side * (log2(side) + 2)
                if cost < height * width and weight * side * variants <= MOST_WRITTEN_OUT:
                    found.append((cost, Square(along, across, side)))
                side //= 2
        return min(found, key=lambda each: each[0])[1] if found else None

    def turns(self, access: Access) -> bool:
        """Whether vectors of an input have to be turned."""
        return access.uses(self.along) and not access.has_unit_stride(self.along)


def _has_lanes(access: Access) -> bool:
    """Whether vectors of the elements can be shuffled."""
    assert access.kind is not None
    element = access.kind.element_type
    if isinstance(element, AnyFloat):
        return element.bitwidth >= 16
    return isinstance(element, IntegerType) and element.bitwidth >= 8


def _fits(nest: Nest, along: int, across: int) -> bool:
    """Whether every input lies side by side along one of two dimensions, if it follows `along`."""
    followed = [a for a in nest.inputs if a.kind is not None and a.uses(along)]
    turned = [a for a in followed if not a.has_unit_stride(along)]
    return bool(turned) and all(access.has_unit_stride(across) for access in turned)


def over_squares(
    build: LoopBuilder,
    square: Square,
    extents: tuple[int, int],
    body: Callable[[tuple[SSAValue, int], tuple[SSAValue, int]], None],
    *,
    parallel: bool,
) -> None:
    """`body((row, rows), (column, columns))` for all squares, the last ones of which are smaller.

    Rows are neighbours across, columns neighbours along; `extents` are how many there are of both.
    """

    def run(extent: int, one: Callable[[SSAValue, int], None], *, parallel: bool) -> None:
        whole = extent // square.side * square.side
        if whole:
            build.loop(0, whole, square.side, lambda i: one(i, square.side), parallel=parallel)
        if extent > whole:
            one(build.index(whole), extent - whole)

    def rows(row: SSAValue, count: int) -> None:
        run(extents[1], lambda column, n: body((row, count), (column, n)), parallel=False)

    run(extents[0], rows, parallel=parallel)


def turned(
    build: LoopBuilder, side: int, count: int, read: Callable[[Index], SSAValue]
) -> list[SSAValue]:
    """The transpose of `read(0)`, … `read(count - 1)`, vectors of `side`; what there is not is never used."""
    vectors = [read(number) for number in range(count)]
    return transpose(build, vectors + vectors[-1:] * (side - count))


def transpose(build: LoopBuilder, rows: Sequence[SSAValue]) -> list[SSAValue]:
    """The transpose of n vectors of n lanes, n a power of two.

    One round interleaves vector i with vector i + n/2. That rotates the bits of an element's place
    (row, lane) by one; after log2(n) rounds row and lane have changed places.
    """
    n = len(rows)
    low = [lane for pair in zip(range(n // 2), range(n, n + n // 2)) for lane in pair]
    high = [lane + n // 2 for lane in low]
    current = list(rows)
    for _ in range(n.bit_length() - 1):
        following: list[SSAValue] = []
        for a, b in zip(current[: n // 2], current[n // 2 :]):
            following += [_shuffle(build, a, b, low), _shuffle(build, a, b, high)]
        current = following
    return current


def interleave(build: LoopBuilder, parts: Sequence[SSAValue]) -> list[SSAValue]:
    """The first elements of n vectors, then their second ones, and so on, as n vectors; n a power of two."""
    if len(parts) == 1:
        return list(parts)
    kind = parts[0].type
    assert isinstance(kind, VectorType)
    n = kind.get_shape()[0]
    low = [lane for pair in zip(range(n // 2), range(n, n + n // 2)) for lane in pair]
    high = [lane + n // 2 for lane in low]
    found: list[SSAValue] = []
    for a, b in zip(interleave(build, parts[::2]), interleave(build, parts[1::2])):
        found += [_shuffle(build, a, b, low), _shuffle(build, a, b, high)]
    return found


def _shuffle(build: LoopBuilder, a: SSAValue, b: SSAValue, lanes: Sequence[int]) -> SSAValue:
    mask = DenseArrayBase.from_list(i64, list(lanes))
    assert isinstance(a.type, VectorType)
    return build.insert(ShuffleOp(a, b, mask, result_type=a.type))
