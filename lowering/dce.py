"""The pass `dce`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, OpResult, Region
from xdsl.ir.post_order import PostOrderIterator
from xdsl.passes import ModulePass

from openinfer.lowering.effects import Effects
from openinfer.lowering.operations import operands_of, ops_of


@dataclass(frozen=True)
class Dce(ModulePass):
    """Removes ops whose results reach nothing that matters, and blocks that nobody comes to.

    Before:
        %a = arith.addi %x, %y : index
        %b = arith.addi %a, %y : index
        memref.store %v, %m[%x] : memref<4xf32>
    After:
        memref.store %v, %m[%x] : memref<4xf32>

    Requires: nothing. What writes, or does what nobody knows, stays.
    Leaves: the level as it was.
    """

    name: ClassVar[str] = "dce"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        live = _live(op.body)
        _erase(op.body, live)


def _live(region: Region) -> set[int]:
    """Identities of ops that matter by themselves, and of all that these use."""
    effects = Effects()
    # By identity, which is what makes ops equal: a set of ops would ask each for its hash.
    live: set[int] = set()
    waiting: list[Operation] = []

    def find(region: Region) -> None:
        for block in _reached(region):
            for op in ops_of(block):
                for inner in op.regions:
                    find(inner)
                if not effects.dead_if_unused(op):
                    live.add(id(op))
                    waiting.append(op)

    find(region)
    while waiting:
        for operand in operands_of(waiting.pop()):
            if type(operand) is OpResult and id(operand.op) not in live:
                live.add(id(operand.op))
                waiting.append(operand.op)
    return live


def _reached(region: Region) -> list[Block]:
    first = region.first_block
    if first is None or first is region.last_block:
        return list(region.blocks)
    return list(PostOrderIterator(first))


def _erase(region: Region, live: set[int]) -> None:
    for block in reversed(region.blocks):
        ops = ops_of(block)
        if block is not region.first_block and not any(id(op) in live for op in ops):
            region.erase_block(block, safe_erase=False)
            continue
        for op in reversed(ops):
            if id(op) not in live:
                block.erase_op(op, safe_erase=False)
                continue
            for inner in op.regions:
                _erase(inner, live)
