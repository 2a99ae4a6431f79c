"""Which variables a list of nodes needs: backward liveness over structured control flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Operation

from openinfer.dialects.graph import BlockOp, BranchOp, LoopOp, ReturnOp, ScopeOp
from openinfer.dialects.graph.syntax import GraphOp

Names = frozenset[str]


def nodes_of(op: BlockOp | LoopOp | ScopeOp) -> list[Operation]:
    """The nodes of a body, in order."""
    return list(op.body.block.ops)


def written(nodes: Sequence[Operation], blocks: Mapping[str, BlockOp]) -> dict[str, None]:
    """Every variable that the nodes may write, in the order of the first write."""
    found: dict[str, None] = {}
    for op in nodes:
        if isinstance(op, LoopOp | ScopeOp):
            found.update(written(nodes_of(op), blocks))
        elif isinstance(op, BranchOp):
            for target in (op.then_block, op.else_block):
                if target is not None:
                    found.update(written(nodes_of(blocks[target.data]), blocks))
        elif isinstance(op, GraphOp):
            found.update({ref.variable.data: None for ref in op.writes()})
    return found


def live_before(
    nodes: Sequence[Operation], after: Names, at_return: Names, blocks: Mapping[str, BlockOp]
) -> Names:
    """The variables whose value is needed before `nodes`.

    `after` is what is needed behind them, `at_return` what is needed where a return leads to.
    """
    live = after
    for op in reversed(nodes):
        live = _step(op, live, at_return, blocks)
    return live


def _step(op: Operation, after: Names, at_return: Names, blocks: Mapping[str, BlockOp]) -> Names:
    match op:
        case ReturnOp():
            return at_return | frozenset(op.names)
        case ScopeOp():
            return live_before(nodes_of(op), after, at_return, blocks)
        case LoopOp():
            # The body may run again, or not at all: twice around reaches the fixpoint.
            once = after | live_before(nodes_of(op), after, at_return, blocks)
            again = once | live_before(nodes_of(op), once, at_return, blocks)
            return (again - {op.index.data}) | op.start.data.names | op.stop.data.names
        case BranchOp():
            live: Names = frozenset()
            for target in (op.then_block, op.else_block):
                if target is not None:
                    # A return in the called block comes back here.
                    live |= live_before(nodes_of(blocks[target.data]), after, after, blocks)
            return live | frozenset(ref.variable.data for ref in op.reads())
        case GraphOp():
            killed = frozenset(ref.variable.data for ref in op.writes())
            needed = frozenset(ref.variable.data for ref in op.reads())
            return (after - killed) | needed
        case _:
            return after
