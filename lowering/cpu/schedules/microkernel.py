"""The register tile that every product is made of, and the loops that cover a range with tiles.

A tile is `rows` x `vectors` accumulators. One step of the contraction loads `vectors` vectors of
one operand and `rows` scalars of the other, and adds all their products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import add, convert, multiply_add
from openinfer.runtime.quick_dataclass import dataclass

Tile = list[list[SSAValue]]
"""One list of vectors for each row."""


@dataclass(frozen=True)
class Arithmetic:
    """How products are added up: vectors of `lanes` values of type `kind`."""

    kind: Attribute
    lanes: int
    fused: bool
    boolean: bool = False
    unsigned: bool = False

    def widen(self, build: LoopBuilder, value: SSAValue) -> SSAValue:
        """An element or vector as it is read, in the accumulator's type."""
        return convert(build, value, self.kind, unsigned=self.unsigned)

    def across(self, build: LoopBuilder, value: SSAValue) -> SSAValue:
        """A vector of one operand, as it is multiplied."""
        return self.widen(build, value)

    def spread(self, build: LoopBuilder, value: SSAValue) -> SSAValue:
        """A scalar of the other operand, in all lanes."""
        return build.splat(self.widen(build, value), self.lanes)

    def multiply_add(
        self, build: LoopBuilder, left: SSAValue, right: SSAValue, total: SSAValue
    ) -> SSAValue:
        """`total + left·right`, of what `spread` and `across` give."""
        return multiply_add(build, left, right, total, fused=self.fused, boolean=self.boolean)

    @property
    def vector(self) -> VectorType:
        return VectorType(self.kind, [self.lanes])


Operand = Callable[[SSAValue], Sequence[SSAValue]]
"""The elements that one step k of the contraction reads: scalars of the rows, or vectors."""


def contract(
    build: LoopBuilder,
    how: Arithmetic,
    rows: int,
    vectors: int,
    steps: tuple[Index, Index],
    scalars: Operand,
    columns: Operand,
    *,
    split: int = 1,
    before: Sequence[SSAValue] | None = None,
    most: int | None = None,
    long: bool = False,
) -> Tile:
    """The tile `sum over k in steps of scalars(k)[row] * columns(k)[vector]`.

    With `split` each step of the loop does that many k, each with accumulators of its own: a tile
    of few rows has too few additions in flight otherwise. `before`, row by row, is what the sums
    start from instead of zero. `most` is how many steps there are at most, where that is known;
    `long` says that they are a part of a long sum.
    """
    zero = build.constant(0, how.vector)
    size = rows * vectors
    start, stop = steps

    def step(k: SSAValue, sums: Sequence[SSAValue]) -> list[SSAValue]:
        right = [how.across(build, value) for value in columns(k)]
        following: list[SSAValue] = []
        for row, value in enumerate(scalars(k)):
            left = how.spread(build, value)
            for vector, other in enumerate(right):
                total = sums[row * vectors + vector]
                following.append(how.multiply_add(build, left, other, total))
        return following

    def steps_of(k: SSAValue, sums: Sequence[SSAValue]) -> list[SSAValue]:
        following: list[SSAValue] = []
        for part in range(split):
            following += step(build.add(k, part), sums[part * size : (part + 1) * size])
        return following

    extent = build.minus(stop, start)
    if isinstance(extent, int):
        split = max(1, min(split, extent))
    middle = build.plus(start, build.round_down(extent, split)) if split > 1 else stop
    first = [zero] * size if before is None else list(before)
    first += [zero] * (size * (split - 1))
    rounds = None if most is None else most // split
    kind = "long products" if long else "products"
    sums = list(
        build.reduce(
            start,
            middle,
            split,
            first,
            steps_of,
            hint="k",
            sums=kind,
            rounds=rounds,
            beside=split,
        )
    )
    parts = [sums[part * size : (part + 1) * size] for part in range(split)]
    if not (isinstance(extent, int) and extent % split == 0):
        rest = build.reduce(middle, stop, 1, parts[0], step, hint="k", rounds=split - 1)
        parts[0] = list(rest)
    while len(parts) > 1:
        half = len(parts) // 2
        paired = [
            [add(build, a, b, boolean=how.boolean) for a, b in zip(parts[i], parts[i + half])]
            for i in range(half)
        ]
        parts = paired + parts[2 * half :]
    return [parts[0][row * vectors : (row + 1) * vectors] for row in range(rows)]


def split_for(build: LoopBuilder, accumulators: int, rows: int, vectors: int) -> int:
    """How many k at a time keep `accumulators` additions in flight, at most 4.

    One where sums have to go in order.
    """
    split = 1
    if build.facts.strict_math:
        return split
    while split < 4 and 2 * split * rows * vectors <= accumulators:
        split *= 2
    return split


Carried = Sequence[SSAValue]
TileBody = Callable[[Index, int, Carried], Carried]
"""Handles `rows` rows from a first one on: (first, rows, carried) → carried."""


def over_tiles(
    build: LoopBuilder,
    count: Index,
    rows: int,
    body: TileBody,
    carried: Carried = (),
    *,
    start: Index = 0,
    parallel: bool = False,
    hint: str = "i",
) -> Carried:
    """Covers `count` rows from `start` on with tiles of `rows`, then with smaller ones.

    A known remainder is one tile. One that only the run knows is covered by tiles of 4, 2 and 1
    rows (the powers of two below `rows`), each taken when its bit is set in the remainder. With
    `parallel` a tile that stands alone is a loop of one round, so that it is one piece of work.
    """
    if isinstance(count, int):
        whole = count // rows * rows
        for first, size, extent in ((0, rows, whole), (whole, count - whole, count - whole)):
            here = build.plus(start, first)
            if extent > size or (extent and parallel):
                stop = build.plus(here, extent)
                carried = _loop(build, here, stop, size, body, carried, parallel, hint)
            elif extent:
                carried = body(here, size, carried)
        return carried
    whole = build.round_down(count, rows)
    middle = build.plus(start, whole)
    if rows == 1:
        return _loop(build, start, middle, rows, body, carried, parallel, hint)
    carried = _loop(build, start, middle, rows, body, carried, parallel, hint)
    rest = build.minus(count, whole)
    size = 1 << ((rows - 1).bit_length() - 1)
    while size:
        bit = build.insert(arith.AndIOp(build.index(rest), build.index(size)))
        carried = _when(build, bit, middle, size, body, carried)
        middle = build.plus(middle, bit)
        size //= 2
    return carried


def _loop(
    build: LoopBuilder,
    start: Index,
    stop: Index,
    rows: int,
    body: TileBody,
    carried: Carried,
    parallel: bool,
    hint: str,
) -> Carried:
    return build.reduce(
        start,
        stop,
        rows,
        carried,
        lambda i, values: body(i, rows, values),
        parallel=parallel,
        hint=hint,
    )


def _when(
    build: LoopBuilder, bit: SSAValue, first: Index, rows: int, body: TileBody, carried: Carried
) -> Carried:
    taken = build.compare("ne", bit, 0)
    if not carried:
        build.when(taken, lambda: body(first, rows, ()))
        return ()
    types = [value.type for value in carried]
    return build.when(taken, lambda: body(first, rows, carried), lambda: carried, types)
