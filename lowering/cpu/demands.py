"""What the CPU asks of the passes that all machines share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from openinfer.dialects import nn
from openinfer.lowering.cpu.machine import machine_of
from openinfer.lowering.cpu.schedules.attention_schedule import attention_scratch
from openinfer.lowering.cpu.schedules.blocked_product import block_scratch
from openinfer.lowering.cpu.schedules.conv_schedule import conv_scratch, schedule_of, sums_of
from openinfer.lowering.cpu.schedules.conv_shape import ConvShape, fills_lines
from openinfer.lowering.cpu.schedules.fourier_schedule import fourier_scratch
from openinfer.lowering.cpu.schedules.indexing import sort_scratch
from openinfer.lowering.cpu.schedules.matmul_schedule import scratch_types
from openinfer.lowering.cpu.schedules.recurrence import recurrent_scratch
from openinfer.lowering.cpu.vector_width import lanes_of
from openinfer.lowering.demands import Demands, Scratch, Tiling

_SCRATCH: dict[type[nn.NNOp], Callable[[Any], list[Scratch]]] = {
    nn.MatmulOp: scratch_types,
    nn.ConvOp: conv_scratch,
    nn.AttentionOp: attention_scratch,
    nn.SortOp: sort_scratch,
    nn.RecurrentOp: recurrent_scratch,
    nn.FourierOp: fourier_scratch,
}


class CpuDemands(Demands):
    """The schedules of `lowering/cpu/schedules/` answer."""

    own_memory = False

    def tiling(self, op: nn.MatmulOp | nn.ConvOp) -> Tiling | None:
        if isinstance(op, nn.ConvOp):
            return Tiling(nn.PanelsAttr(schedule_of(op).tile.rows))
        dims = nn.dims_of(op.inputs[1])
        columns = dims[-2] if op.transpose_b is not None else dims[-1]
        panels = nn.PairsAttr if op.precision is not None else nn.PanelsAttr
        return Tiling(panels(machine_of(op).tile_for(columns.constant)))

    def merges(self, products: Sequence[nn.MatmulOp]) -> bool:
        # What is computed in blocks has a loop of its own around its panels.
        return not any(block_scratch(op) for op in products)

    def pools(self, conv: nn.ConvOp, pool: nn.PoolOp) -> bool:
        return fills_lines(ConvShape.of(conv), lanes_of(conv, sums_of(conv)))

    def scratch(self, op: nn.NNOp) -> list[Scratch]:
        found = (rule(op) for kind, rule in _SCRATCH.items() if isinstance(op, kind))
        return next(found, [])
