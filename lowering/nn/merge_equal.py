"""Equal operations become one, but never across what the program wants kept in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass
from xdsl.transforms.common_subexpression_elimination import cse

from openinfer.dialects import nn
from openinfer.lowering.fusing import NO_FUSE

_SEGMENT = "openinfer.segment"


@dataclass(frozen=True)
class MergeEqual(ModulePass):
    """Computes equal values once: common subexpression elimination that stops at barriers.

    Before:
        %a = nn.elementwise(%x) {kind = "exp"}
        %b = nn.elementwise(%x) {kind = "exp"}
        nn.barrier
        %c = nn.elementwise(%x) {kind = "exp"}
    After:
        %a = nn.elementwise(%x) {kind = "exp"}
        nn.barrier
        %c = nn.elementwise(%x) {kind = "exp"}

    Requires: level `nn`.
    Leaves: an operation behind a barrier although there is an equal one before it; operations whose
        node says `fuse = false` or `no_reorder = true`.
    """

    name: ClassVar[str] = "merge-equal"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        marked: list[Operation] = []
        for function in op.body.ops:
            for region in function.regions:
                for block in region.blocks:
                    _number(block, 0, marked)
        cse(op)
        for inner in marked:
            inner.attributes.pop(_SEGMENT, None)


def _number(block: Block, segment: int, marked: list[Operation]) -> int:
    """Numbers the stretches between barriers; equal operations of two stretches are not equal."""
    for op in block.ops:
        if isinstance(op, nn.BarrierOp):
            segment += 1
        if isinstance(op, nn.NNOp):
            if NO_FUSE in op.attributes:
                segment += 1
            op.attributes[_SEGMENT] = IntegerAttr(segment, i64)
            marked.append(op)
            if NO_FUSE in op.attributes:
                segment += 1
        elif op.regions and any(isinstance(inner, nn.BarrierOp) for inner in op.walk()):
            # A loop comes back to its start behind its barrier.
            segment += 1
            for region in op.regions:
                for inner in region.blocks:
                    segment = _number(inner, segment, marked) + 1
        elif op.regions:
            for region in op.regions:
                for inner in region.blocks:
                    segment = max(segment, _number(inner, segment, marked))
    return segment
