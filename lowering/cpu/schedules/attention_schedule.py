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

from xdsl.ir import Operation

from openinfer.dialects.nn import AttentionOp, dims_of, element_of
from openinfer.lowering.cpu.machine import machine_of
from openinfer.lowering.cpu.schedules.attention import Attention
from openinfer.lowering.cpu.schedules.pair_attention import PairAttention
from openinfer.lowering.cpu.schedules.pair_heads import VECTORS, pair_attention_scratch
from openinfer.lowering.demands import Scratch
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.elements import accumulator_of
from openinfer.lowering.kernels.rules import Rule
from openinfer.runtime.sizes import THREADS, Size


def attention_scratch(op: AttentionOp) -> list[Scratch]:
    """The scratch buffers (element type, sizes) that the lowering of `op` wants after its output.

    First the queries of a block, transposed: `[threads, head size, block]`; then their scores
    against all keys: `[threads, keys, block]`, a part for each thread of a step. A block is two
    vectors, one where that holds all queries. `op` is on tensors.
    """
    if op.precision is not None:
        return pair_attention_scratch(op)
    kind = accumulator_of(element_of(op.inputs[0]))
    layouts = [layout.data for layout in op.layouts]
    query, key = dims_of(op.inputs[0]), dims_of(op.inputs[1])
    lanes = machine_of(op).lanes(kind)
    queries = (query[2] if layouts[0] == "bhld" else query[1]).constant
    block = Size.of(lanes if queries is not None and queries <= lanes else VECTORS * lanes)
    length = key[2] if layouts[1] == "bhld" else key[1]
    threads = Size.name(THREADS)
    return [
        Scratch("queries", kind, (threads, Size.max(query[3], 1), block)),
        Scratch("scores", kind, (threads, length, block)),
    ]


def _attention(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, AttentionOp)
    pairs = op.precision is not None
    schedule = PairAttention if pairs else Attention
    schedule(b, op, machine_of(op)).emit()
    return True


RULES: dict[str, Rule] = {AttentionOp.name: _attention}
