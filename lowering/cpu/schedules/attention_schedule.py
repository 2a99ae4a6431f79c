"""softmax(scale · q kᵀ + mask) v as one kernel: no score leaves it.

Before:
    nn.attention(%q, %k, %v) outs(%o, %queries, %scores) {scale = 0.125 : f64, …} : (…) -> ()

After:
    scf.for %b = … { scf.for %h = … { scf.for %i = 0 to %length step 16 {
      // %queries = scale · qᵀ; %scores = k · %queries, masked, with a running maximum;
      // %scores = exp(%scores - maximum), with its sum; %o = %scoresᵀ · v / sum
    }}}

Requires: bufferised; contiguous operands; the two scratch buffers of `attention_scratch`.
"""

from __future__ import annotations

from xdsl.dialects.builtin import bf16
from xdsl.ir import Operation

from openinfer.dialects.nn import AttentionOp, dims_of, element_of
from openinfer.lowering.cpu.machine import machine_of
from openinfer.lowering.cpu.schedules.attention import Attention
from openinfer.lowering.cpu.schedules.pair_attention import PairAttention
from openinfer.lowering.demands import Scratch
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.elements import accumulator_of
from openinfer.lowering.kernels.rules import Rule
from openinfer.runtime.sizes import THREADS, Size

VECTORS = 2
"""Vectors of queries that a block has at most."""


def attention_scratch(op: AttentionOp) -> list[Scratch]:
    """The scratch buffers (element type, sizes) that the lowering of `op` wants after its output.

    First the queries of a block, transposed: `[threads, head size, block]`; then their scores
    against all keys: `[threads, keys, block]`, a part for each thread of a step. A block is two
    vectors, one where that holds all queries. With `precision` queries are words of two elements,
    and all values lie in panels of pairs: `[batch * heads, …]`. Of keys and values in blocks the unpacked
    rows of one head, `[threads, keys, head size]`. `op` is on tensors.
    """
    kind = accumulator_of(element_of(op.inputs[0]))
    layouts = [layout.data for layout in op.layouts]
    query, key, value = (dims_of(v) for v in op.inputs[:3])
    machine = machine_of(op)
    lanes = machine.lanes(kind)
    queries = query[layouts[0].index("l")].constant
    few = queries is not None and 1 < queries <= lanes
    block = Size.of(lanes if few else VECTORS * lanes)
    batch, heads, length = (key[layouts[1].index(axis)] for axis in "bhl")
    threads = Size.name(THREADS)
    depth = query[3] if op.precision is None else query[3] // 2
    scratch = [
        Scratch("queries", kind, (threads, Size.max(depth, 1), block)),
        Scratch("scores", kind, (threads, length, block)),
    ]
    names = (("unpacked_keys", 1), ("unpacked_values", 2))
    for name, number in names:
        block = op.blocks_of(number)
        if block is not None:
            size = dims_of(op.inputs[number])[3] // block.nbytes * block.elements
            scratch.append(Scratch(name, kind, (threads, length, size)))
    if op.precision is not None:
        tile = machine.tile_for(value[3].constant)
        panels = (value[3] + (tile - 1)) // tile
        pairs = (length + 1) // 2
        scratch.append(Scratch("values", bf16, (batch * heads, panels, pairs, Size.of(2 * tile))))
    return scratch


def _attention(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, AttentionOp)
    schedule = Attention if op.precision is None else PairAttention
    schedule(b, op, machine_of(op)).emit()
    return True


RULES: dict[str, Rule] = {AttentionOp.name: _attention}
