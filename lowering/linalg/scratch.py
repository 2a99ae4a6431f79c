"""The working memory that hand-scheduled kernels ask for, as sizes of their operands."""

from __future__ import annotations

from xdsl.ir import Attribute

from openinfer.dialects import nn
from openinfer.lowering.loops.attention_schedule import attention_scratch
from openinfer.lowering.loops.conv_schedule import conv_scratch
from openinfer.lowering.loops.fourier_schedule import fourier_scratch
from openinfer.lowering.loops.indexing import sort_scratch
from openinfer.lowering.loops.matmul_schedule import scratch_types
from openinfer.lowering.loops.recurrence import recurrent_scratch
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
