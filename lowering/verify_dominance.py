"""Every use of a value stands where its definition has run: xDSL's own verifier does not check it.

Within a block an op may use what stands above it; a block may use what its dominators define; a
region may use what is visible at the op that holds it, unless that op is isolated from above.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException

from openinfer.lowering.locations import location_of
from openinfer.runtime.dominance import immediate_dominators


class DominanceError(VerifyException):
    """A use that its definition does not dominate; `op` is the user."""

    def __init__(self, op: Operation, message: str) -> None:
        self.op = op
        super().__init__(message)


def _successors(block: Block) -> tuple[Block, ...]:
    last = block.last_op
    return tuple(last.successors) if last is not None else ()


def verify_dominance(module: Operation) -> None:
    """Raises DominanceError at the first use that its definition does not dominate."""
    for region in module.regions:
        _check_region(region, set())


def _check_region(region: Region, outer: set[SSAValue]) -> None:
    blocks = list(region.blocks)
    if not blocks:
        return
    if len(blocks) == 1:
        added = _check_block(blocks[0], outer)
        outer.difference_update(added)
        return
    children: dict[Block, list[Block]] = {}
    successors = {block: _successors(block) for block in blocks}
    for block, dominator in immediate_dominators(blocks[0], successors).items():
        children.setdefault(dominator, []).append(block)
    # Depth first over the dominator tree; what a block defines is visible in its subtree only.
    stack: list[tuple[Block, list[SSAValue] | None]] = [(blocks[0], None)]
    while stack:
        block, added = stack.pop()
        if added is not None:
            outer.difference_update(added)
            continue
        stack.append((block, _check_block(block, outer)))
        stack.extend((child, None) for child in children.get(block, ()))


def _check_block(block: Block, visible: set[SSAValue]) -> list[SSAValue]:
    """Checks a block and returns what it made visible, which the caller hides again."""
    added: list[SSAValue] = list(block.args)
    visible.update(block.args)
    for op in block.ops:
        for index, operand in enumerate(op.operands):
            if operand not in visible:
                raise DominanceError(op, _message(op, index, operand))
        for region in op.regions:
            isolated = op.has_trait(IsolatedFromAbove, value_if_unregistered=False)
            _check_region(region, set() if isolated else visible)
        added.extend(op.results)
        visible.update(op.results)
    return added


def _message(op: Operation, index: int, operand: SSAValue) -> str:
    name = f"%{operand.name_hint}" if operand.name_hint else "a value"
    if isinstance(operand, BlockArgument):
        source = "an argument of a block"
    else:
        definer = operand.owner
        assert isinstance(definer, Operation)
        where = location_of(definer)
        source = f"the result of '{definer.name}'{f' at {where}' if where else ''}"
    return (
        f"operand {index} of '{op.name}' is {name}, {source} that does not dominate this use: "
        "it stands later, in a region that ends before, or on another path"
    )


@dataclass(frozen=True)
class VerifyDominance(ModulePass):
    """Refuses a module where a value is used outside the scope of its definition.

    Before:
        %a = arith.constant 1 : i32
        %b = arith.addi %a, %a : i32
    After:
        %a = arith.constant 1 : i32
        %b = arith.addi %a, %a : i32
    Requires: a module that verifies.
    Leaves: the module as it is.
    """

    name = "verify-dominance"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        verify_dominance(op)
