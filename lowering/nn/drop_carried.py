"""Values that a loop hands from round to round and that nobody reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.lowering.locations import give_location


@dataclass(frozen=True)
class DropCarried(ModulePass):
    """A loop carries only what a later round, or somebody behind the loop, reads.

    Before:
        %k, %h = scf.for %i = %c0 to %n step %c1 iter_args(%a = %zeros, %b = %x) -> (…) {
          %v = nn.state_read "K"[%i] kept []
          %s = nn.elementwise(%b, %v) {kind = "add"}
          scf.yield %v, %s }                        // nobody reads %k or %a
    After:
        %h = scf.for %i = %c0 to %n step %c1 iter_args(%b = %x) -> (…) {
          %v = nn.state_read "K"[%i] kept []
          %s = nn.elementwise(%b, %v) {kind = "add"}
          scf.yield %s }

    A variable that is declared in front of a loop and assigned in it is such a value: each round would
    copy it, for nobody.

    Requires: nothing. Leaves: the level as it was, and what is read in the next round or behind the loop.
    """

    name: ClassVar[str] = "drop-carried"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        # Inner loops first: what they no longer begin with, the loops around them need not carry.
        for loop in reversed([inner for inner in op.walk() if isinstance(inner, scf.ForOp)]):
            read = [number for number in range(len(loop.iter_args)) if _is_read(loop, number)]
            if len(read) < len(loop.iter_args):
                _keep(loop, read)


def _is_read(loop: scf.ForOp, number: int) -> bool:
    """Whether anybody reads a carried value: the loop that hands it on unchanged does not."""
    if loop.res[number].uses.get_length():
        return True
    own = _last(loop)
    argument = loop.body.block.args[1 + number]
    return any(use.operation is not own or use.index != number for use in argument.uses)


def _last(loop: scf.ForOp) -> Operation:
    last = loop.body.block.last_op
    assert isinstance(last, scf.YieldOp)
    return last


def _keep(loop: scf.ForOp, read: list[int]) -> None:
    """The loop with those of its carried values that are read."""
    old = loop.body.block
    last = _last(loop)
    block = Block(arg_types=[old.args[0].type, *(old.args[1 + n].type for n in read)])
    kept = [old.args[0], *(old.args[1 + n] for n in read)]
    for argument, new in zip(kept, block.args):
        new.name_hint = argument.name_hint
        argument.replace_all_uses_with(new)
    results: list[SSAValue] = [last.operands[n] for n in read]
    for inner in list(old.ops):
        inner.detach()
        if inner is not last:
            block.add_op(inner)
    block.add_op(scf.YieldOp(*results))
    last.drop_all_references()
    made = scf.ForOp(loop.lb, loop.ub, loop.step, [loop.iter_args[n] for n in read], block)
    made.attributes.update(loop.attributes)
    give_location(loop.location, made)
    for new, number in zip(made.res, read):
        new.name_hint = loop.res[number].name_hint
        loop.res[number].replace_all_uses_with(new)
    Rewriter.insert_op(made, InsertPoint.before(loop))
    Rewriter.erase_op(loop)
