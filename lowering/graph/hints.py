"""What `with { … }` says of the nodes that it stands behind or around."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i1
from xdsl.ir import Attribute, Operation

from openinfer.dialects import nn
from openinfer.dialects.graph import BlockOp, LoopOp, OpOp, ScopeOp
from openinfer.lowering.fusing import NO_FUSE
from openinfer.lowering.hints import set_hints
from openinfer.runtime.quick_dataclass import dataclass

_ORDERS = {"fuse": IntegerAttr(0, i1), "no_reorder": IntegerAttr(1, i1)}
"""What is obeyed; everything else is advice."""


@dataclass(frozen=True)
class Hints:
    """The hints that hold for a node: its own, and those of what is around it."""

    apart: bool = False
    """Whether it is kept apart from others."""
    advice: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])

    def inside(self, op: Operation) -> Hints:
        """The hints of a node, or inside of a loop, a scope or a block; inner advice wins."""
        hints = op.hints if isinstance(op, OpOp | LoopOp | ScopeOp | BlockOp) else None
        if hints is None:
            return self
        orders = {name for name, value in hints.data.items() if _ORDERS.get(name) == value}
        advice = {name: value for name, value in hints.data.items() if name not in orders}
        return Hints(self.apart or bool(orders), {**self.advice, **advice})

    def mark(self, op: Operation) -> None:
        """Has an op that a node becomes carry them."""
        if isinstance(op, nn.NNOp):
            if self.apart:
                op.attributes[NO_FUSE] = UnitAttr()
            set_hints(op, self.advice)
