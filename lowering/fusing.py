"""What keeps two operations apart: a barrier on the way from one to the other, a hint, too many buffers.

Every pass that makes one operation of two asks `may_join` first.
"""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.tensor import EmptyOp
from xdsl.ir import Operation

from openinfer.dialects import nn
from openinfer.lowering.demands import demands_of
from openinfer.lowering.places import on_host

NO_FUSE = "openinfer.no_fuse"
"""Set on what a node with `fuse = false` or `no_reorder = true` became."""


def may_join(first: Operation, second: Operation) -> bool:
    """Whether `first` may be computed where `second` stands, a user of its result further down.

    False when either one carries `NO_FUSE`, when one of them leaves the device and the other does not,
    when a kernel of both would have more buffers than the machine gives one, or when a barrier may run
    between the two. In a loop that holds only `second` every barrier counts: the next round comes back
    to `second` behind it.
    """
    if NO_FUSE in first.attributes or NO_FUSE in second.attributes:
        return False
    if on_host(first) != on_host(second):
        return False
    most = demands_of(second).most_buffers
    if most is not None and _buffers(first, second) > most:
        return False
    block = first.parent_block()
    here = second
    while here.parent_block() is not block:
        holder = here.parent_op()
        if holder is None or holds_barrier(holder):
            return False
        here = holder
    between = first.next_op
    while between is not None and between is not here:
        if holds_barrier(between):
            return False
        between = between.next_op
    return between is here


def _buffers(first: Operation, second: Operation) -> int:
    """How many a kernel of both would have."""
    found = {*first.operands, *second.operands, *second.results} - {*first.results}
    return sum(
        isinstance(value.type, TensorType) and not isinstance(value.owner, EmptyOp)
        for value in found
    )


def holds_barrier(op: Operation) -> bool:
    if not op.regions:
        return isinstance(op, nn.BarrierOp)
    return any(isinstance(inner, nn.BarrierOp) for inner in op.walk())
