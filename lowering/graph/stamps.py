"""What a step shows of itself: that it comes to a node, a block or an iteration, and values.

A watched build tells its host at once, a traced build writes it down; a plain build shows nothing.
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
    RefAttr,
    ReturnOp,
    ScopeOp,
    YieldOp,
)
from openinfer.lowering.graph.step_builder import StepBuilder
from openinfer.lowering.program.nodes import block_info
from openinfer.runtime.errors import Location
from openinfer.runtime.manifest import BlockRow

_CONTROL = (AssignOp, BarrierOp, DepOp, ReturnOp, YieldOp, AwaitOp, LoopOp, BranchOp)
"""Nodes that are passed: no kernel computes them."""


class Stamps:
    """Inserts what a watched or traced build shows."""

    def __init__(self, builder: StepBuilder, *, observed: bool) -> None:
        self._builder = builder
        self._observed = observed
        self._shows = observed or builder.traced
        self.dims: dict[str, list[str]] = {}
        """`NODE NAME` to the dimensions of what is shown there; `NODE NAME#1`, `NODE NAME#2` … where it
        has others."""

    def node(self, op: Operation) -> None:
        """The step comes to a node; a scope is no event, its nodes are."""
        if isinstance(op, ScopeOp) or not self._shows:
            return
        # A watched build shows the values of all others, and a reset has none.
        if self._observed and not isinstance(op, (*_CONTROL, CacheResetOp)):
            return
        kind = "pass" if isinstance(op, _CONTROL) else "node"
        self._builder.insert(nn.StampOp(kind, "", [self._number(op)]))

    def iteration(self, op: LoopOp, index: SSAValue) -> None:
        """An iteration of a loop starts."""
        if self._shows:
            stamp = nn.StampOp("turn", op.index.data, [self._number(op)], index)
            self._builder.insert(stamp)

    def enter(self, op: BlockOp) -> None:
        """A block starts."""
        self._block(op, "enter")

    def leave(self, op: BlockOp) -> None:
        """A block ends."""
        self._block(op, "exit")

    def _block(self, op: BlockOp, phase: str) -> None:
        if self._shows:
            self._builder.insert(nn.StampOp(phase, op.block_name.data))

    def value(self, value: SSAValue, op: Operation, ref: RefAttr) -> None:
        """What a node has written: the value in a watched build, its shape in a traced one."""
        if not self._shows:
            return
        node, name = self._number(op), ref.variable.data
        dims = [str(d) for d in nn.dims_of(value)]
        # A block that is called from several places has sizes of its own at each.
        shown, copies = name, 0
        while self.dims.setdefault(f"{node} {shown}", dims) != dims:
            copies += 1
            shown = f"{name}#{copies}"
        if self._observed:
            self._builder.insert(nn.ObserveOp(value, node, shown))

    def _number(self, op: Operation) -> int:
        return self._builder.nodes[op].index


def block_rows(blocks: dict[str, BlockOp]) -> list[BlockRow]:
    """What events of entering and leaving say of each block."""
    rows: list[BlockRow] = []
    for op in blocks.values():
        info = block_info(op)
        place = info.location or Location("", 0, 0)
        rows.append(BlockRow(op.block_name.data, info.uuid, place.file, place.line, place.column))
    return rows
