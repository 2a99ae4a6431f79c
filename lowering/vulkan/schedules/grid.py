"""How the invocations of a kernel are numbered, and how many workgroups start.

A kernel that has one invocation for each of `count` elements:

    numbered(b, count, lambda i: …)     # in the kernel
    grid_for(host, count)               # where it is started
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects import gpu
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from openinfer.lowering.kernels.builder import Index, LoopBuilder

WORKGROUP = 64
"""Invocations of a workgroup along x: a multiple of every subgroup size in use (4 to 64)."""
MOST_GROUPS = 65535
"""Workgroups along an axis that every device starts (`maxComputeWorkGroupCount`)."""

HostValue = Callable[[SSAValue], SSAValue]
"""What the host passes for an argument of a kernel."""
Groups: TypeAlias = Callable[[LoopBuilder, HostValue], tuple[Index, Index, Index]]
"""Builds the numbers of workgroups along x, y and z, on the host."""


@dataclass(frozen=True)
class Grid:
    """How a kernel is started."""

    groups: Groups
    size: int = WORKGROUP
    """Invocations of a workgroup."""


_X = gpu.DimensionAttr(gpu.DimensionEnum.X)
_Y = gpu.DimensionAttr(gpu.DimensionEnum.Y)


def group_number(b: LoopBuilder) -> SSAValue:
    """The number of a workgroup among all: along x first."""
    across = b.insert(gpu.GridDimOp(_X))
    return b.add(b.mul(b.insert(gpu.BlockIdOp(_Y)), across), b.insert(gpu.BlockIdOp(_X)))


def invocation(b: LoopBuilder, size: int = WORKGROUP) -> SSAValue:
    """The number of an invocation among all, in workgroups of some size."""
    return b.add(b.mul(group_number(b), size), b.insert(gpu.ThreadIdOp(_X)))


def numbered(
    b: LoopBuilder, count: Index, body: Callable[[SSAValue], None], size: int = WORKGROUP
) -> None:
    """`body` with the number of the invocation, where that is below `count`."""
    number = invocation(b, size)
    b.when(b.compare("ult", number, count), lambda: body(number))


def each_group(b: LoopBuilder, count: Index, body: Callable[[SSAValue], None]) -> None:
    """`body` with the number of the workgroup, where that is below `count`."""
    number = group_number(b)
    b.when(b.compare("ult", number, count), lambda: body(number))


def each_element(
    b: LoopBuilder, target: SSAValue, body: Callable[[list[SSAValue]], None], lanes: int = 1
) -> Grid:
    """An invocation for each element of a buffer, with the indices of the element; or for `lanes` neighbours
    along the last axis, whose extent is a known multiple of that, with the indices of the first."""
    assert isinstance(target.type, MemRefType)
    axes = range(target.type.get_num_dims())

    def extents(builder: LoopBuilder, buffer: SSAValue) -> list[Index]:
        found: list[Index] = [builder.dim(buffer, axis) for axis in axes]
        if lanes > 1:
            assert isinstance(found[-1], int)
            found[-1] //= lanes
        return found

    inside = extents(b, target)

    def one(number: SSAValue) -> None:
        place = split(b, number, inside)
        if lanes > 1:
            place[-1] = b.mul(place[-1], lanes)
        body(place)

    numbered(b, product(b, inside), one)
    return Grid(
        lambda host, value_of: grid_for(host, product(host, extents(host, value_of(target))))
    )


def grid_for(host: LoopBuilder, count: Index, size: int = WORKGROUP) -> tuple[Index, Index, Index]:
    """The workgroups of some size that `count` invocations need."""
    return groups_for(host, host.ceil_div(count, size))


def groups_for(host: LoopBuilder, groups: Index) -> tuple[Index, Index, Index]:
    """Some workgroups, as many along x as every device starts."""
    across = host.maximum(host.minimum(groups, MOST_GROUPS), 1)
    return across, host.ceil_div(groups, across), 1


def product(b: LoopBuilder, extents: Sequence[Index]) -> Index:
    """The product of extents; a Python int when all of them are."""
    total: Index = 1
    for extent in extents:
        if isinstance(total, int) and isinstance(extent, int):
            total *= extent
        elif total == 1:
            total = extent
        elif extent != 1:
            total = b.mul(total, extent)
    return total


def split(b: LoopBuilder, number: SSAValue, extents: Sequence[Index]) -> list[SSAValue]:
    """The index along each extent of the element of a number, the last one running fastest."""
    found: list[SSAValue] = []
    rest = number
    for axis in range(len(extents) - 1, 0, -1):
        if extents[axis] == 1:
            found.append(b.index(0))
            continue
        found.append(b.rem(rest, extents[axis]))
        rest = b.floordiv(rest, extents[axis])
    return [*([rest] if extents else []), *reversed(found)]
