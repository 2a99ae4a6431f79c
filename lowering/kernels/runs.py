"""Loops over runs of neighbouring elements: whole vectors, then one masked vector for the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
    i64,
)
from xdsl.dialects.memref import CollapseShapeOp
from xdsl.ir import SSAValue

from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.runtime.quick_dataclass import dataclass


@dataclass(frozen=True)
class Extent:
    """The number of iterations of a loop, as the product of axis sizes."""

    factors: tuple[Index, ...]

    @property
    def known(self) -> int:
        """The product of the factors that are known: the extent is a multiple of it."""
        return prod(f for f in self.factors if isinstance(f, int))

    @property
    def static(self) -> int | None:
        """The extent when all factors are known (or one of them is 0), else None."""
        if self.known == 0 or all(isinstance(f, int) for f in self.factors):
            return self.known
        return None

    def value(self, b: LoopBuilder) -> Index:
        """A Python int when the extent is static, else an index value, computed here."""
        if self.static is not None:
            return self.static
        value: Index = self.known
        for factor in self.factors:
            if isinstance(factor, SSAValue):
                value = factor if value == 1 else b.mul(value, factor)
        return value

    def times(self, other: Extent) -> Extent:
        return Extent((*self.factors, *other.factors))


def fitting_lanes(extent: Extent, lanes: int) -> int:
    """Shorter vectors where they hold a short run exactly, so that it needs no mask."""
    count = extent.static
    if count is not None and 2 <= count < lanes and count & (count - 1) == 0:
        return count
    return lanes


def extent_of(b: LoopBuilder, buffer: SSAValue, axes: Sequence[int]) -> Extent:
    """The product of the sizes of some axes of a buffer."""
    return Extent(tuple(b.dim(buffer, axis) for axis in axes))


def each(
    b: LoopBuilder,
    extent: Extent,
    body: Callable[[SSAValue], None],
    *,
    parallel: bool = False,
    hint: str = "i",
) -> None:
    """A loop over all indices below an extent; no loop when there is exactly one."""
    if extent.static == 1:
        body(b.index(0))
        return
    b.loop(0, extent.value(b), 1, body, parallel=parallel, hint=hint)


Chunk = Callable[[SSAValue, SSAValue | None], None]
"""Handles the vector that starts at an index; the mask leaves out lanes beyond the end."""


def vector_run(
    b: LoopBuilder,
    extent: Extent,
    lanes: int,
    chunk: Chunk,
    *,
    parallel: bool = False,
    hint: str = "i",
) -> None:
    """`chunk` for each whole vector of a run, then with a mask for the rest if there may be one."""
    count = extent.value(b)
    whole = count if extent.known % lanes == 0 else b.round_down(count, lanes)
    if whole == lanes:
        chunk(b.index(0), None)
    elif whole != 0:
        b.loop(0, whole, lanes, lambda i: chunk(i, None), parallel=parallel, hint=hint)
    if extent.known % lanes == 0:
        return
    if isinstance(count, int) and isinstance(whole, int):
        chunk(b.index(whole), b.mask(count - whole, lanes))
        return
    rest = b.sub(count, whole)

    def tail() -> None:
        chunk(b.index(whole), b.mask(rest, lanes))

    b.when(b.compare("ne", rest, 0), tail)


Step = Callable[[SSAValue, SSAValue | None, Sequence[SSAValue]], Sequence[SSAValue]]
"""Handles one vector of a reduction: index, mask, accumulators → accumulators."""


def reduce_run(
    b: LoopBuilder,
    extent: Extent,
    lanes: int,
    banks: Sequence[Sequence[SSAValue]],
    step: Step,
    *,
    hint: str = "k",
) -> list[tuple[SSAValue, ...]]:
    """A run that accumulates. Each bank is one set of accumulators; neighbouring vectors go to
    different banks, so that they need not wait for each other. Returns the banks at the end."""
    width = len(banks)
    size = width * lanes
    count = extent.value(b)
    current = [tuple(bank) for bank in banks]

    def round_of_banks(
        i: SSAValue, values: Sequence[Sequence[SSAValue]]
    ) -> list[tuple[SSAValue, ...]]:
        return [tuple(step(b.add(i, u * lanes), None, bank)) for u, bank in enumerate(values)]

    whole = count if extent.known % size == 0 else b.round_down(count, size)
    if whole == size:
        current = round_of_banks(b.index(0), current)
    elif whole != 0:
        flat = b.reduce(
            0,
            whole,
            size,
            _flatten(current),
            lambda i, values: _flatten(round_of_banks(i, _unflatten(values, width))),
            hint=hint,
        )
        current = _unflatten(flat, width)
    if extent.known % size == 0:
        return current
    first = current[0]
    vectors = whole
    if width > 1:
        vectors = count if extent.known % lanes == 0 else b.round_down(count, lanes)
    if width > 1 and (not isinstance(vectors, int) or not isinstance(whole, int)):
        first = b.reduce(
            whole,
            vectors,
            lanes,
            first,
            lambda i, v: step(i, None, v),
            hint=hint,
            rounds=width - 1,
        )
    elif isinstance(vectors, int) and isinstance(whole, int):
        for start in range(whole, vectors, lanes):
            u = (start - whole) // lanes
            current[u] = tuple(step(b.index(start), None, current[u]))
        first = current[0]
    if extent.known % lanes == 0:
        return [first, *current[1:]]
    if isinstance(count, int) and isinstance(vectors, int):
        mask = b.mask(count - vectors, lanes)
        return [tuple(step(b.index(vectors), mask, first)), *current[1:]]
    rest = b.sub(count, vectors)
    before = first
    first = b.when(
        b.compare("ne", rest, 0),
        lambda: step(b.index(vectors), b.mask(rest, lanes), before),
        lambda: before,
        [value.type for value in before],
    )
    return [tuple(first), *current[1:]]


def bank_count(b: LoopBuilder, extent: Extent, lanes: int, most: int = 4) -> int:
    """How many sets of accumulators a run keeps busy."""
    if b.facts.strict_math:
        return 1
    if extent.static is None:
        return most
    return max(1, min(most, extent.static // lanes))


def _flatten(banks: Sequence[Sequence[SSAValue]]) -> list[SSAValue]:
    return [value for bank in banks for value in bank]


def _unflatten(values: Sequence[SSAValue], width: int) -> list[tuple[SSAValue, ...]]:
    size = len(values) // width
    return [tuple(values[u * size : (u + 1) * size]) for u in range(width)]


# Views --------------------------------------------------------------------------------------------


def is_contiguous(kind: MemRefType) -> bool:
    """Whether the elements lie without gaps in row-major order."""
    return isinstance(kind.layout, NoneAttr)


def has_unit_stride(kind: MemRefType) -> bool:
    """Whether neighbours along the last axis are neighbours in memory."""
    if isinstance(kind.layout, StridedLayoutAttr):
        last = kind.layout.strides.data[-1] if kind.layout.strides.data else None
        return getattr(last, "data", None) == 1
    return isinstance(kind.layout, NoneAttr)


def collapse(b: LoopBuilder, buffer: SSAValue, groups: Sequence[Sequence[int]]) -> SSAValue:
    """The view in which each group of neighbouring axes is one axis."""
    if all(len(group) == 1 for group in groups):
        return buffer
    kind = buffer.type
    assert isinstance(kind, MemRefType)
    assert is_contiguous(kind)
    sizes = kind.get_shape()
    shape = [
        DYNAMIC_INDEX if any(sizes[a] == DYNAMIC_INDEX for a in g) else prod(sizes[a] for a in g)
        for g in groups
    ]
    return b.insert(
        CollapseShapeOp(
            operands=[buffer],
            result_types=[MemRefType(kind.element_type, shape, memory_space=kind.memory_space)],
            properties={
                "reassociation": ArrayAttr(
                    [ArrayAttr([IntegerAttr(a, i64) for a in group]) for group in groups]
                )
            },
        )
    )


@dataclass(frozen=True)
class AxisView:
    """A buffer seen as `[outer, count, inner]` around one axis; parts without axes are left out."""

    buffer: SSAValue
    outer: Extent
    count: Extent
    inner: Extent
    parts: tuple[bool, bool, bool]

    def at(self, outer: Index, k: Index, inner: Index) -> list[Index]:
        """The indices of an element."""
        return [i for i, there in zip((outer, k, inner), self.parts) if there]


def view_around(b: LoopBuilder, buffer: SSAValue, axis: int, axes: int = 1) -> AxisView:
    """`buffer` as `[outer, count, inner]` where `count` stands for `axes` axes from `axis` on.

    Without such axes `axis` may be the rank: nothing is behind it then.
    """
    kind = buffer.type
    assert isinstance(kind, MemRefType)
    rank = kind.get_num_dims()
    if axes:
        axis %= max(rank, 1)
    groups = [list(range(axis)), list(range(axis, axis + axes)), list(range(axis + axes, rank))]
    extents = [extent_of(b, buffer, group) for group in groups]
    view = collapse(b, buffer, [group for group in groups if group])
    outer, middle, inner = (bool(group) for group in groups)
    return AxisView(view, extents[0], extents[1], extents[2], (outer, middle, inner))
