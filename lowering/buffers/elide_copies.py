"""Copies whose source or destination nobody else needs go away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from openinfer.lowering.buffers.uses import ancestor_in, positions, root_of, users
from openinfer.lowering.fusing import holds_barrier
from openinfer.lowering.linalg.generic import identity_map, input_maps, is_elementwise_on_buffers


@dataclass(frozen=True)
class ElideCopies(ModulePass):
    """Lets a value be computed where a copy would bring it.

    Before:
        nn.softmax(%x) outs(%t) …
        memref.copy %t, %carried
    After:
        nn.softmax(%x) outs(%carried) …

    Requires: buffers, before kernels are outlined.
    Leaves: a copy whose two buffers are alive at the same time, or with a barrier between what
        computes the value and the copy.
    """

    name: ClassVar[str] = "elide-copies"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.ops:
            if isinstance(function, FuncOp):
                for copy in [o for o in function.walk() if isinstance(o, memref.CopyOp)]:
                    _elide(copy)


def _elide(copy: memref.CopyOp) -> None:
    source, target = copy.source, copy.destination
    block = copy.parent_block()
    if block is None or source.type != target.type:
        return
    if not isinstance(source.owner, memref.AllocOp) or source.owner.parent_block() is not block:
        return
    if not isinstance(target.owner, memref.AllocOp) and not isinstance(target, BlockArgument):
        return
    order = positions(block)
    here = order[copy]
    own = [_place(user, block, order) for user in users(source) if user is not copy]
    if any(place is None or place > here for place in own) or not own:
        return
    first = min(place for place in own if place is not None)
    if any(holds_barrier(op) for op in list(block.ops)[first:here]):
        return
    for user in users(target):
        if user is copy:
            continue
        place = _place(user, block, order)
        if place is None or place < first or place > here:
            continue
        if place == first and user.parent_block() is block and _reads_in_step(user, source, target):
            continue
        return
    _join(copy, source, target, block, order)


def _place(op: Operation, block: Block, order: dict[Operation, int]) -> int | None:
    holder = ancestor_in(op, block)
    return None if holder is None else order[holder]


def _reads_in_step(op: Operation, written: SSAValue, read: SSAValue) -> bool:
    """Whether `op` reads each element of `read` just where it writes that of `written`."""
    if not isinstance(op, linalg.GenericOp) or not is_elementwise_on_buffers(op):
        return False
    rank = len(op.iterator_types)
    return op.outputs[0] is written and all(
        v is read and m == identity_map(rank)
        for v, m in zip(op.inputs, input_maps(op))
        if root_of(v) is read
    )


def _join(
    copy: memref.CopyOp,
    source: SSAValue,
    target: SSAValue,
    block: Block,
    order: dict[Operation, int],
) -> None:
    """One buffer for both; the one that is there first stays."""
    keep, drop = target, source
    same_block = isinstance(target.owner, memref.AllocOp) and target.owner.parent_block() is block
    if same_block:
        assert isinstance(source.owner, Operation)
        assert isinstance(target.owner, Operation)
        if order[target.owner] > order[source.owner]:
            keep, drop = source, target
    copy.detach()
    copy.erase()
    if keep.name_hint is None:
        keep.name_hint = drop.name_hint
    drop.replace_all_uses_with(keep)
    assert isinstance(drop.owner, Operation)
    drop.owner.detach()
    drop.owner.erase()
