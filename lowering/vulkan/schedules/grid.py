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
from xdsl.dialects.builtin import IntegerType, MemRefType
from xdsl.ir import SSAValue

from openinfer.dialects.nn.elements import is_packed
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import element_type
from openinfer.lowering.kernels.runs import collapse
from openinfer.runtime.manifest import MOST_GROUPS

WORKGROUP = 64
"""Invocations of a workgroup along x: a multiple of every subgroup size in use (4 to 64)."""
WORD = 32
"""Bits of a result that one invocation stores, where elements share bytes."""

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


def group_number(b: LoopBuilder, groups: Index) -> SSAValue:
    """The number of a workgroup among `groups`, as `groups_for` lays them out: along x first."""
    x = b.insert(gpu.BlockIdOp(_X))
    if isinstance(groups, int) and groups <= MOST_GROUPS:
        return x
    # How many there are is nothing that a driver knows beforehand: asking takes a kernel 0.4 us on an H100.
    across = b.insert(gpu.GridDimOp(_X)) if not isinstance(groups, int) else _across(groups)
    return b.add(b.mul(b.insert(gpu.BlockIdOp(_Y)), across), x)


def _across(groups: int) -> int:
    """Workgroups along x, where there are more than one row of them."""
    return -(-groups // -(-groups // MOST_GROUPS))


def invocation(b: LoopBuilder, count: Index, size: int = WORKGROUP) -> SSAValue:
    """The number of an invocation, where there are workgroups of some size for `count` of them."""
    groups = -(-count // size) if isinstance(count, int) else count
    return b.add(b.mul(group_number(b, groups), size), b.insert(gpu.ThreadIdOp(_X)))


def numbered(
    b: LoopBuilder, count: Index, body: Callable[[SSAValue], None], size: int = WORKGROUP
) -> None:
    """`body` with the number of the invocation, where that is below `count`."""
    number = invocation(b, count, size)
    b.when(b.compare("ult", number, count), lambda: body(number))


def owned(
    b: LoopBuilder,
    count: Index,
    bits: int,
    body: Callable[[SSAValue], None],
    clear: Callable[[SSAValue], None],
) -> None:
    """The same where elements of some bits share bytes: an invocation has all elements of a word of the
    result, so that no two invocations write the same word. `clear` is for what stands behind the last element
    in its byte, by numbers from `count` on."""
    in_word, whole = WORD // bits, padded(b, count, bits)

    def word(number: SSAValue) -> None:
        first = b.mul(number, in_word)

        def one(place: SSAValue) -> None:
            if whole == count:
                body(place)
            else:
                b.when(b.compare("ult", place, count), lambda: body(place), lambda: clear(place))

        b.loop(first, b.minimum(b.add(first, in_word), whole), 1, one, hint="e")

    numbered(b, b.ceil_div(count, in_word), word)


def padded(b: LoopBuilder, count: Index, bits: int) -> Index:
    """The elements of some bits that fill whole bytes."""
    each = 8 // bits
    groups = b.ceil_div(count, each)
    return b.times(groups, each)


def packed_bits(buffer: SSAValue) -> int:
    """The bits of an element of a buffer whose elements share bytes; 0 where they do not."""
    assert isinstance(buffer.type, MemRefType)
    element = buffer.type.element_type
    return element.bitwidth if isinstance(element, IntegerType) and is_packed(element) else 0


def each_group(
    b: LoopBuilder, count: Index, body: Callable[[SSAValue], None], *, asks: bool = False
) -> None:
    """`body` with the number of the workgroup, where that is below `count`; `asks`: even where all are."""
    number = group_number(b, count)
    if isinstance(count, int) and 0 < count <= MOST_GROUPS and not asks:
        body(number)
    else:
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

    inside, bits = extents(b, target), packed_bits(target)

    def one(number: SSAValue) -> None:
        place = split(b, number, inside)
        if lanes > 1:
            place[-1] = b.mul(place[-1], lanes)
        body(place)

    if bits:
        owned(b, product(b, inside), bits, one, cleared(b, target))
    else:
        numbered(b, product(b, inside), one)
    return Grid(
        lambda host, value_of: elements_grid(
            host, product(host, extents(host, value_of(target))), bits
        )
    )


def cleared(b: LoopBuilder, target: SSAValue) -> Callable[[SSAValue], None]:
    """Stores 0 in an element of a packed buffer, by its number."""
    assert isinstance(target.type, MemRefType)
    flat = collapse(b, target, [list(range(target.type.get_num_dims()))])
    return lambda place: b.store(b.constant(0, element_type(target)), flat, [place])


def elements_grid(host: LoopBuilder, count: Index, bits: int) -> tuple[Index, Index, Index]:
    """The workgroups for `count` elements; `bits`: of those that share bytes, else 0."""
    return grid_for(host, host.ceil_div(count, WORD // bits) if bits else count)


def grid_for(host: LoopBuilder, count: Index, size: int = WORKGROUP) -> tuple[Index, Index, Index]:
    """The workgroups of some size that `count` invocations need."""
    return groups_for(host, host.ceil_div(count, size))


def groups_for(host: LoopBuilder, groups: Index) -> tuple[Index, Index, Index]:
    """Some workgroups, no more along x than every device starts, and hardly more than are needed: empty ones
    take time, too."""
    down = host.ceil_div(groups, MOST_GROUPS)
    across = host.ceil_div(groups, host.maximum(down, 1))
    return across, down, 1


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
