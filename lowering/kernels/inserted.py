"""Keeps the source location of an op on the loops that take its place."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from xdsl.ir import Operation

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
