"""Loop nests over buffers with affine indices: the form of `linalg.generic`.

A nest is simplified first: dimensions of size 1 go, neighbours that lie without gaps in every
buffer become one. `lowering/kernels/nest_loops.py` then chooses the loops.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)

from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.runs import (
    Extent,
    collapse,
    extent_of,
    has_unit_stride,
    is_contiguous,
)
from openinfer.runtime.errors import CompileError
from openinfer.runtime.quick_dataclass import dataclass

_ZERO = AffineExpr.constant(0)


@dataclass
class Access:
    """How a nest touches one buffer: one affine expression of the loop indices for each axis.

    Axes of `groups` are walked as one. A scalar value is an access without axes.
    """

    value: SSAValue
    indices: list[AffineExpr]
    groups: list[list[int]]

    @staticmethod
    def of(value: SSAValue, indices: Sequence[AffineExpr]) -> Access:
        return Access(value, list(indices), [[axis] for axis in range(len(indices))])

    @property
    def kind(self) -> MemRefType | None:
        """The buffer's type; None for a scalar value."""
        return self.value.type if isinstance(self.value.type, MemRefType) else None

    def axis_of(self, dim: int) -> int | None:
        """The one axis that is walked by a dimension alone, None when there is no such."""
        users = [i for i, index in enumerate(self.indices) if _uses(index, dim)]
        if len(users) == 1 and isinstance(self.indices[users[0]], AffineDimExpr):
            return users[0]
        return None

    def uses(self, dim: int) -> bool:
        return any(_uses(index, dim) for index in self.indices)

    def has_unit_stride(self, dim: int) -> bool:
        """Whether neighbours along the dimension are neighbours in memory."""
        kind = self.kind
        if kind is None or not has_unit_stride(kind):
            return False
        return self.axis_of(dim) == len(self.indices) - 1

    def follows(self, first: int, second: int) -> bool:
        """Whether the second dimension continues the first one without a gap."""
        left, right = self.axis_of(first), self.axis_of(second)
        if left is None or right is None:
            return not self.uses(first) and not self.uses(second)
        kind = self.kind
        return right == left + 1 and kind is not None and is_contiguous(kind)

    def merge_axes(self, axis: int) -> None:
        """Makes one axis of an axis and the next; the first one's index stays."""
        self.groups[axis : axis + 2] = [self.groups[axis] + self.groups[axis + 1]]
        del self.indices[axis + 1]

    def drop_unit_axes(self) -> None:
        """Joins axes of size 1 that are only ever read at 0 to a neighbour."""
        kind = self.kind
        if kind is None or not is_contiguous(kind):
            return
        sizes = kind.get_shape()
        axis = 0
        while len(self.indices) > 1 and axis < len(self.indices):
            if self.indices[axis] != _ZERO or any(sizes[a] != 1 for a in self.groups[axis]):
                axis += 1
                continue
            if axis + 1 < len(self.indices):
                self.indices[axis] = self.indices[axis + 1]
                self.merge_axes(axis)
            else:
                self.merge_axes(axis - 1)

    def materialise(self, b: LoopBuilder) -> None:
        """Makes the view whose axes are the groups."""
        if self.kind is not None:
            self.value = collapse(b, self.value, self.groups)
            self.groups = [[axis] for axis in range(len(self.groups))]

    def at(self, b: LoopBuilder, at: Sequence[Index | None]) -> list[Index]:
        """The indices of the element that the loop indices stand for."""
        return [affine_value(b, index, at) for index in self.indices]


@dataclass
class Nest:
    """At each point: values of `inputs` and old values of `outputs` → new values of `outputs`."""

    extents: list[Extent]
    reduces: list[bool]
    """Which dimensions are reductions."""
    inputs: list[Access]
    outputs: list[Access]

    @property
    def accesses(self) -> list[Access]:
        return [*self.inputs, *self.outputs]

    def simplify(self, kept: frozenset[int] = frozenset()) -> None:
        """Drops and merges dimensions, except those of `kept`, whose index the body wants."""
        for dim, extent in enumerate(self.extents):
            if extent.static == 1 and dim not in kept:
                self._fix_at_zero(dim)
        for access in self.accesses:
            access.drop_unit_axes()
        while pair := self._mergeable(kept):
            self._merge(*pair)

    def live_dims(self) -> list[int]:
        """The dimensions that need a loop."""
        return [d for d, extent in enumerate(self.extents) if extent.static != 1]

    def _fix_at_zero(self, dim: int) -> None:
        dims = [AffineExpr.dimension(d) for d in range(len(self.extents))]
        dims[dim] = _ZERO
        for access in self.accesses:
            access.indices = [i.replace_dims_and_symbols(dims, []) for i in access.indices]

    def _mergeable(self, kept: frozenset[int]) -> tuple[int, int] | None:
        dims = [d for d in self.live_dims() if d not in kept]
        for first in dims:
            for second in dims:
                if first == second or self.reduces[first] != self.reduces[second]:
                    continue
                used = any(access.uses(first) for access in self.accesses)
                if used and all(access.follows(first, second) for access in self.accesses):
                    return first, second
        return None

    def _merge(self, first: int, second: int) -> None:
        for access in self.accesses:
            axis = access.axis_of(first)
            if axis is not None:
                access.merge_axes(axis)
        self.extents[first] = self.extents[first].times(self.extents[second])
        self.extents[second] = Extent(())


def nest_extents(
    b: LoopBuilder, dims: int, accesses: Sequence[Access], op_name: str
) -> list[Extent]:
    """The extent of each dimension: of an axis that it walks alone, of static size if there is one.

    Raises CompileError OI0933 for a dimension that walks no axis alone.
    """
    extents: list[Extent] = []
    for dim in range(dims):
        places = [(a, axis) for a in accesses if (axis := a.axis_of(dim)) is not None]
        if not places:
            raise CompileError(
                "OI0933", f"{op_name}: no operand says how often dimension {dim} runs"
            )
        static = [p for p in places if _size(*p) != DYNAMIC_INDEX]
        access, axis = (static or places)[0]
        extents.append(extent_of(b, access.value, [axis]))
    return extents


def affine_value(b: LoopBuilder, index: AffineExpr, at: Sequence[Index | None]) -> Index:
    """The value of an affine expression; dimensions without a loop are 0."""
    if isinstance(index, AffineDimExpr):
        value = at[index.position]
        return 0 if value is None else value
    if isinstance(index, AffineConstantExpr):
        return index.value
    if isinstance(index, AffineBinaryOpExpr):
        left, right = affine_value(b, index.lhs, at), affine_value(b, index.rhs, at)
        if index.kind is AffineBinaryOpKind.Add:
            return b.add(left, right)
        if index.kind is AffineBinaryOpKind.Mul:
            return b.mul(left, right)
        if index.kind is AffineBinaryOpKind.FloorDiv:
            return b.floordiv(left, right)
        if index.kind is AffineBinaryOpKind.Mod:
            return b.rem(left, right)
    raise CompileError("OI0933", f"a loop index of the form {index} has no code")


def _size(access: Access, axis: int) -> int:
    kind = access.kind
    assert kind is not None
    return kind.get_shape()[axis]


def _uses(index: AffineExpr, dim: int) -> bool:
    return dim in index.used_dims()
