"""Who touches a buffer, and when: uses through views, positions in a block."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import memref
from xdsl.ir import Block, Operation, SSAValue

from openinfer.dialects import nn

VIEWS = (nn.ViewOp, memref.ViewOp)


def root_of(buffer: SSAValue) -> SSAValue:
    """The buffer that a chain of views looks at."""
    while isinstance(buffer.owner, VIEWS):
        buffer = buffer.owner.source
    return buffer


def users(buffer: SSAValue) -> Iterator[Operation]:
    """Every operation that reads or writes a buffer, directly or through views."""
    for use in buffer.uses:
        if isinstance(use.operation, VIEWS):
            yield from users(use.operation.results[0])
        else:
            yield use.operation


def ancestor_in(op: Operation, block: Block) -> Operation | None:
    """The operation of `block` that is `op` or holds it, if any."""
    current: Operation | None = op
    while current is not None and current.parent_block() is not block:
        current = current.parent_op()
    return current


def positions(block: Block) -> dict[Operation, int]:
    """The place of each operation in its block."""
    return {op: i for i, op in enumerate(block.ops)}
