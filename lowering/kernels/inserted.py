"""Keeps the source location of an op on the loops that take its place."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from openinfer.lowering.locations import give_location


@contextmanager
def keep_location(op: Operation) -> Generator[None]:
    """Ops that a `with` block inserts before `op` get its location where they have none."""
    before = op.prev_op
    yield
    block = op.parent_block()
    assert block is not None
    first = block.first_op if before is None else before.next_op
    while first is not None and first is not op:
        give_location(op.location, first)
        first = first.next_op


@contextmanager
def in_place_of(loop: scf.ForOp) -> Generator[Callable[[Sequence[SSAValue]], None]]:
    """A function that puts values in the place of a loop's results, where those were used before the `with`
    block, which may move the loop. Ops that it inserts around the loop get its location."""
    block, before, behind = loop.parent_block(), loop.prev_op, loop.next_op
    assert block is not None
    uses = [list(result.uses) for result in loop.results]

    def replace(values: Sequence[SSAValue]) -> None:
        for own, value in zip(uses, values, strict=True):
            for use in own:
                use.operation.operands[use.index] = value

    yield replace
    op = block.first_op if before is None else before.next_op
    while op is not None and op is not behind:
        give_location(loop.location, op)
        op = op.next_op
