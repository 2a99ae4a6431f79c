"""What the device `null` asks of the passes that all machines share."""

from __future__ import annotations

from xdsl.ir import Operation

from openinfer.dialects import nn
from openinfer.lowering.demands import Demands


class NullDemands(Demands):
    """Nothing: its kernels are not lowered any further."""

    def supports(self, op: Operation) -> str | None:
        if isinstance(op, nn.GatherOp | nn.ScatterOp | nn.ElementIndexOp):
            return "it checks indices, and only the host can say which one is wrong"
        return None
