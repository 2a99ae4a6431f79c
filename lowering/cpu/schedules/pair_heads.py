"""What attention in bf16 reads and the scratch that it works in."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import bf16, f32

from openinfer.dialects.nn import AttentionOp, dims_of
from openinfer.lowering.cpu.machine import machine_of
from openinfer.lowering.cpu.schedules.attention_operands import Heads
from openinfer.lowering.cpu.schedules.packing import Matrix
from openinfer.lowering.demands import Scratch
from openinfer.lowering.kernels.builder import Index
from openinfer.runtime.sizes import THREADS, Size

VECTORS = 2
"""Vectors of queries that a block has at most."""


def pair_attention_scratch(op: AttentionOp) -> list[Scratch]:
    """The scratch buffers of an attention with `precision`, which is on tensors.

    The queries of a block as pairs, `[threads, head size / 2, 2 * block]`; their scores,
    `[threads, keys + 1, block]`; all values as panels of pairs, `[batch * heads, …]`.
    """
    layouts = [layout.data for layout in op.layouts]
    query, key, value = (dims_of(v) for v in op.inputs[:3])
    batch, heads, length = (key[layouts[1].index(axis)] for axis in "bhl")
    size = value[3].constant
    assert size is not None
    machine = machine_of(op)
    block = VECTORS * machine.lanes(f32)
    threads = Size.name(THREADS)
    tile = machine.tile_for(size)
    panels = (batch * heads, Size.of(-(-size // tile)), (length + 1) // 2, Size.of(2 * tile))
    return [
        Scratch("queries", bf16, (threads, query[3] // 2, Size.of(2 * block))),
        Scratch("scores", f32, (threads, length + 1, Size.of(block))),
        Scratch("values", bf16, panels),
    ]


@dataclass(frozen=True)
class HeadRows(Matrix):
    """The `[length, size]` matrix of one head."""

    heads: Heads | None = None

    def at(self, *place: Index) -> list[Index]:
        assert self.heads is not None
        batch, head = self.leading
        row, column = place
        return self.heads.at(batch, head, row, column)
