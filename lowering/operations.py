"""All ops of a region or an op, as a list; and the operands of an op without a view of them."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue

operands_of: Callable[[Operation], tuple[SSAValue, ...]] = attrgetter("_operands")
"""The operands of an op, to read: `op.operands` makes a view that can be written to, and each access of that
view is a call. Unpacking such a tuple, or results, is an eighth of the time of an index into it."""

VALUES = frozenset[type]({OpResult, BlockArgument})
"""Classes of values: `isinstance(x, SSAValue)` asks the abstract base class for each of them."""


def operations(region: Region) -> list[Operation]:
    """All ops of a region, each before those inside it. `walk` gives them at ten times the price:
    it hands each one up through a generator per level."""
    found: list[Operation] = []
    _collect(region, found)
    return found


def operations_of(op: Operation) -> list[Operation]:
    """An op and all that are inside of it, each before those inside it."""
    found = [op]
    for region in op.regions:
        _collect(region, found)
    return found


def ops_of(block: Block) -> list[Operation]:
    """The ops of a block, without those inside of them: `block.ops` asks three methods for each."""
    found: list[Operation] = []
    op = block.first_op
    while op is not None:
        found.append(op)
        op = op._next_op  # pyright: ignore[reportPrivateUsage]
    return found


def _collect(region: Region, found: list[Operation]) -> None:
    append = found.append
    for block in region.blocks:
        op = block.first_op
        while op is not None:
            append(op)
            for inner in op.regions:
                _collect(inner, found)
            # Its property would be half of the time of a walk.
            op = op._next_op  # pyright: ignore[reportPrivateUsage]


def take_body(op: Operation, other: Operation) -> None:
    """Gives an op the first region of another one, which has none afterwards."""
    op.detach_region(0).erase()
    op.add_region(other.detach_region(0))
