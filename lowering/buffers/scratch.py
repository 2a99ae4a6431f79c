"""The working memory that hand-scheduled kernels ask for, as sizes of their operands."""

from __future__ import annotations

from xdsl.ir import Attribute

from openinfer.dialects import nn
from openinfer.lowering.cpu.schedules.attention_schedule import attention_scratch
from openinfer.lowering.cpu.schedules.conv_schedule import conv_scratch
from openinfer.lowering.cpu.schedules.fourier_schedule import fourier_scratch
from openinfer.lowering.cpu.schedules.indexing import sort_scratch
from openinfer.lowering.cpu.schedules.matmul_schedule import scratch_types
from openinfer.lowering.cpu.schedules.recurrence import recurrent_scratch
from openinfer.runtime.sizes import Size

Scratch = tuple[Attribute, tuple[Size, ...]]
"""Element type and dimensions of one scratch buffer."""


def scratch_of(op: nn.NNOp) -> list[Scratch]:
    """The scratch buffers of an op on tensors, in the order in which its kernel expects them."""
    if isinstance(op, nn.MatmulOp):
        return scratch_types(op)
    if isinstance(op, nn.ConvOp):
        return conv_scratch(op)
    if isinstance(op, nn.AttentionOp):
        return attention_scratch(op)
    if isinstance(op, nn.SortOp):
        return sort_scratch(op)
    if isinstance(op, nn.RecurrentOp):
        return recurrent_scratch(op)
    if isinstance(op, nn.FourierOp):
        return fourier_scratch(op)
    return []
