"""Elementwise operations write over an operand that dies with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from openinfer.lowering.buffers.uses import ancestor_in, positions, root_of, users
from openinfer.lowering.facts import Facts
from openinfer.lowering.fusing import holds_barrier
from openinfer.lowering.linalg.generic import identity_map, input_maps, is_elementwise_on_buffers


@dataclass(frozen=True)
class ReuseBuffers(ModulePass):
    """Computes an elementwise result in place of an operand that nobody reads again.

    Before:
        linalg.generic … ins(%a, %b) outs(%c) { … }
    After:
        linalg.generic … ins(%a, %b) outs(%a) { … }

    Requires: buffers, copies elided.
    Leaves: operands that are inputs, weights, views, of another type, read later, or computed in
        front of a barrier.
    """

    name: ClassVar[str] = "reuse-buffers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if Facts.of(op).observed:
            return  # Every value is to stay visible.
        for function in op.body.ops:
            if isinstance(function, FuncOp):
                for generic in [o for o in function.walk() if isinstance(o, linalg.GenericOp)]:
                    _reuse(generic)


def _reuse(op: linalg.GenericOp) -> None:
    block = op.parent_block()
    if block is None or not is_elementwise_on_buffers(op):
        return
    target = op.outputs[0]
    if not isinstance(target.owner, memref.AllocOp) or target.owner.parent_block() is not block:
        return
    order = positions(block)
    here = order[op]
    if any(_before(user, here, block, order) for user in users(target) if user is not op):
        return
    rank = len(op.iterator_types)
    for value, mapping in zip(op.inputs, input_maps(op)):
        if mapping == identity_map(rank) and _dies(value, target, op, here, order):
            target.replace_all_uses_with(value)
            target.owner.detach()
            target.owner.erase()
            return


def _before(user: Operation, here: int, block: Block, order: dict[Operation, int]) -> bool:
    holder = ancestor_in(user, block)
    return holder is None or order[holder] < here


def _dies(
    value: SSAValue,
    target: SSAValue,
    op: linalg.GenericOp,
    here: int,
    order: dict[Operation, int],
) -> bool:
    block = op.parent_block()
    assert block is not None
    if not isinstance(value.owner, memref.AllocOp) or value.owner.parent_block() is not block:
        return False
    if value.type != target.type:
        return False
    # Read elsewhere in the same op at other places, or in another shape: overwriting would be seen.
    rank = len(op.iterator_types)
    for v, mapping in zip(op.inputs, input_maps(op)):
        if root_of(v) is value and (v is not value or mapping != identity_map(rank)):
            return False
    first = here
    for user in users(value):
        holder = ancestor_in(user, block)
        if user is not op and (holder is None or order[holder] >= here):
            return False
        if holder is not None:
            first = min(first, order[holder])
    return not any(holds_barrier(other) for other in list(block.ops)[first:here])
