"""Where a step says that it comes to a node, a block or a round of a loop.

A watched build tells its host at once, a traced build writes it down; a plain build has no stamps.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.graph import (
    AssignOp,
    AwaitOp,
    BarrierOp,
    BlockOp,
    BranchOp,
    CacheResetOp,
    DepOp,
    LoopOp,
    ReturnOp,
    ScopeOp,
    YieldOp,
)
from openinfer.lowering.facts import Facts
from openinfer.lowering.program.nodes import block_info
from openinfer.runtime.errors import Location
from openinfer.runtime.manifest import BlockRow

_CONTROL = (AssignOp, BarrierOp, DepOp, ReturnOp, YieldOp, AwaitOp, LoopOp, BranchOp)
"""Nodes that are passed: no kernel computes them."""


def node_stamp(op: Operation, number: int) -> nn.StampOp | None:
    """What is said in front of a node; a scope is no event, its nodes are."""
    facts = Facts.of(op)
    if isinstance(op, ScopeOp) or not (facts.traced or facts.observed):
        return None
    # A watched build shows the values of all others, and a reset has none.
    if facts.observed and not isinstance(op, (*_CONTROL, CacheResetOp)):
        return None
    return nn.StampOp("pass" if isinstance(op, _CONTROL) else "node", "", [number])


def turn_stamp(op: LoopOp, number: int, index: SSAValue) -> nn.StampOp | None:
    """What is said at the start of a round of a loop."""
    facts = Facts.of(op)
    if not (facts.traced or facts.observed):
        return None
    return nn.StampOp("turn", op.index.data, [number], index)


def block_stamp(op: BlockOp, phase: str) -> nn.StampOp | None:
    """What is said at the start ("enter") and the end ("exit") of a block."""
    facts = Facts.of(op)
    if not (facts.traced or facts.observed):
        return None
    return nn.StampOp(phase, op.block_name.data)


def block_rows(blocks: dict[str, BlockOp]) -> list[BlockRow]:
    """What events of entering and leaving say of each block."""
    rows: list[BlockRow] = []
    for op in blocks.values():
        info = block_info(op)
        place = info.location or Location("", 0, 0)
        rows.append(BlockRow(op.block_name.data, info.uuid, place.file, place.line, place.column))
    return rows
