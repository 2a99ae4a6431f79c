"""Transfers become copies, where the host sees the memory of the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from openinfer.dialects import nn
from openinfer.dialects.extensions.memref import CopyOp
from openinfer.lowering.locations import give_location


@dataclass(frozen=True)
class LowerTransfers(ModulePass):
    """A transfer is a copy for a device whose memory has addresses of the host.

    Before:
        nn.transfer "to_host" %y, %y_twin bytes <16> : memref<4xf32> to memref<4xf32>
    After:
        memref.copy %y, %y_twin : memref<4xf32> to memref<4xf32>

    Requires: `place-buffers`.
    Leaves: no `nn.transfer`.
    """

    name: ClassVar[str] = "lower-transfers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for transfer in [o for o in op.walk() if isinstance(o, nn.TransferOp)]:
            copy = CopyOp(transfer.source, transfer.target)
            give_location(transfer.location, copy)
            Rewriter.replace_op(transfer, [copy], [])
