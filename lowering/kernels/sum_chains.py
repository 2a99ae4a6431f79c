"""What a loop adds up: the values that it carries and changes by additions alone.

A carried value is a sum when every round turns it into itself plus something, and nothing else looks
at it on the way. How many additions follow one another is what the rounding error of the sum grows
with, so it is counted here; loops and branches inside of the round are followed.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, math, scf, vector
from xdsl.dialects.builtin import AnyFloat, Float32Type, Float64Type, IntegerAttr, VectorType
from xdsl.ir import Block, Operation, SSAValue

from openinfer.dialects.nn import DotPairsOp
from openinfer.lowering.kernels.builder import PARALLEL, ROUNDS
from openinfer.runtime.quick_dataclass import dataclass

_Inner = tuple[scf.ForOp, int]
"""A loop inside of a round, and how many additions each of its own rounds makes."""


@dataclass(frozen=True)
class Chain:
    """The additions that a value meets on its way through one round."""

    known: int = 0
    """Those that are there in every round, or at most."""
    loops: tuple[_Inner, ...] = ()
    """Loops whose rounds only the run knows."""

    def then(self, other: Chain) -> Chain:
        loops = self.loops + tuple(one for one in other.loops if one not in self.loops)
        return Chain(self.known + other.known, loops)

    def either(self, other: Chain) -> Chain:
        return Chain(max(self.known, other.known), self.then(other).loops)


UNKNOWN = 1 << 30
"""Stands for the additions of a round in which a loop lies whose rounds only the run knows."""


def rounds_of(loop: scf.ForOp) -> int | None:
    """How often a loop runs, or at most: what its bounds or its builder say."""
    numbers = [constant_of(value) for value in (loop.lb, loop.ub, loop.step)]
    start, stop, step = numbers
    if start is not None and stop is not None and step:
        return max(0, -(-(stop - start) // step))
    most = loop.attributes.get(ROUNDS)
    return most.value.data if isinstance(most, IntegerAttr) else None


def constant_of(value: SSAValue) -> int | None:
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


def sums_of(loop: scf.ForOp) -> dict[int, Chain]:
    """The carried values of a loop that are sums of floats, by number, with one round of each."""
    if PARALLEL in loop.attributes:
        return {}
    found: dict[int, Chain] = {}
    block = loop.body.block
    for number, value in enumerate(block.args[1:]):
        chain = _through(value, block, number) if _is_sum_type(value) else None
        if chain is not None and (chain.known or chain.loops):
            found[number] = chain
    return found


def _is_sum_type(value: SSAValue) -> bool:
    kind = value.type
    if isinstance(kind, VectorType):
        if len(kind.get_shape()) != 1:
            return False
        kind = kind.element_type
    return isinstance(kind, AnyFloat) and isinstance(kind, Float32Type | Float64Type)


def _through(value: SSAValue, block: Block, number: int) -> Chain | None:
    """From a value of a block to what the block yields in place `number`; None for what is no sum."""
    chain = Chain()
    while True:
        users = [use.operation for use in value.uses]
        if len(users) == 1 and users[0] is block.last_op:
            operands = users[0].operands
            return chain if [o is value for o in operands].index(True) == number else None
        if found := _branches(value, users, block):
            value, step = found
        elif found := _added(value, users, block):
            value, step = found
        else:
            return None
        chain = chain.then(step)


def _added(
    value: SSAValue, users: Sequence[Operation], block: Block
) -> tuple[SSAValue, Chain] | None:
    """The next value after an addition, a loop of additions, or one that a mask leaves out."""
    if any(user.parent is not block for user in users):
        return None
    if len(users) == 2:
        selects = [u for u in users if isinstance(u, arith.SelectOp) and u.operands[2] is value]
        if len(selects) != 1:
            return None
        (other,) = [u for u in users if u is not selects[0]]
        new, steps = value, Chain()
        while selects[0].operands[1] is not new:
            step = _one(new, other)
            if step is None or len(list(step[0].uses)) != 1:
                return None
            new, steps = step[0], steps.then(step[1])
            (use,) = new.uses
            other = use.operation
        return selects[0].results[0], steps
    return _one(value, users[0]) if len(users) == 1 else None


def _one(value: SSAValue, user: Operation) -> tuple[SSAValue, Chain] | None:
    places = [number for number, operand in enumerate(user.operands) if operand is value]
    if len(places) != 1:
        return None
    match user:
        case arith.AddfOp():
            return user.results[0], Chain(1)
        case vector.FMAOp() | math.FmaOp() if places[0] == 2:
            return user.results[0], Chain(1)
        case DotPairsOp() if places[0] == 0:
            return user.results[0], Chain(1)
        case scf.ForOp() if places[0] >= 3:
            number = places[0] - 3
            body = user.body.block
            inner = _through(body.args[1 + number], body, number)
            if inner is None:
                return None
            rounds = rounds_of(user)
            if rounds is not None and not inner.loops:
                return user.results[number], Chain(rounds * inner.known)
            each = UNKNOWN if inner.loops else inner.known
            return user.results[number], Chain(0, ((user, each),) if each else ())
        case _:
            return None


def _branches(
    value: SSAValue, users: Sequence[Operation], block: Block
) -> tuple[SSAValue, Chain] | None:
    """The result of a branch both of whose sides go on with the sum."""
    parents = {_child_of(user, block) for user in users}
    if len(parents) != 1:
        return None
    (branch,) = parents
    if not isinstance(branch, scf.IfOp) or branch in users or not branch.false_region.blocks:
        return None
    number: int | None = None
    chain = Chain()
    for region in (branch.true_region, branch.false_region):
        side = region.block
        found = next(
            (
                (place, through)
                for place in range(len(branch.results))
                if (through := _within(value, side, place)) is not None
            ),
            None,
        )
        if found is None or number not in (None, found[0]):
            return None
        number, chain = found[0], chain.either(found[1])
    assert number is not None
    return branch.results[number], chain


def _within(value: SSAValue, side: Block, number: int) -> Chain | None:
    """Like `_through`, for a side of a branch that uses a value from outside of it."""
    chain = Chain()
    while True:
        users = [use.operation for use in value.uses if _child_of(use.operation, side) is not None]
        if len(users) == 1 and users[0] is side.last_op:
            places = [o is value for o in users[0].operands]
            return chain if sum(places) == 1 and places[number] else None
        found = _branches(value, users, side) or _added(value, users, side)
        if found is None:
            return None
        value, step = found
        chain = chain.then(step)


def _child_of(op: Operation, block: Block) -> Operation | None:
    """The op of a block that holds an op; None for one that lies elsewhere."""
    here: Operation | None = op
    while here is not None and here.parent is not block:
        here = here.parent_op()
    return here
