"""What the CPU asks of the passes that all machines share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    IntegerType,
    f32,
    i1,
)
from xdsl.ir import Attribute, Operation

from openinfer.dialects import nn
from openinfer.lowering.cpu.machine import machine_of
from openinfer.lowering.cpu.schedules.attention_schedule import attention_scratch
from openinfer.lowering.cpu.schedules.block_codes import READERS
from openinfer.lowering.cpu.schedules.block_rows import ROW_READERS
from openinfer.lowering.cpu.schedules.block_values import ROW_FORMAT
from openinfer.lowering.cpu.schedules.blocked_product import block_scratch
from openinfer.lowering.cpu.schedules.conv_schedule import conv_layout, conv_scratch, sums_of
from openinfer.lowering.cpu.schedules.conv_shape import ConvShape, fills_lines
from openinfer.lowering.cpu.schedules.experts import expert_scratch
from openinfer.lowering.cpu.schedules.fourier_schedule import fourier_scratch
from openinfer.lowering.cpu.schedules.indexing import sort_scratch
from openinfer.lowering.cpu.schedules.matmul_schedule import scratch_types
from openinfer.lowering.cpu.schedules.recurrence import recurrent_scratch
from openinfer.lowering.cpu.vector_width import lanes_of
from openinfer.lowering.demands import (
    BlockReader,
    Composite,
    Demands,
    Packed,
    Scratch,
    Tiling,
    Widening,
)
from openinfer.lowering.facts import Facts

_SCRATCH: dict[type[nn.NNOp], Callable[[Any], list[Scratch]]] = {
    nn.MatmulOp: scratch_types,
    nn.ConvOp: conv_scratch,
    nn.AttentionOp: attention_scratch,
    nn.ExpertMatmulOp: expert_scratch,
    nn.SortOp: sort_scratch,
    nn.RecurrentOp: recurrent_scratch,
    nn.FourierOp: fourier_scratch,
}

_WIDENED_FLOATS = (Float16Type, BFloat16Type, Float8E5M2Type, Float8E4M3FNType)
_WIDENED_INTEGERS = (8, 16)
"""Bits that a vector instruction widens; packed integers would be unpacked again for each row."""

LEAST_DEPTH = 16
"""A shorter contraction is over before the smaller operands have paid for their rounding."""
MOST_WIDENED_ROWS = 4
"""With more of them, widening bf16 in registers takes longer than reading f32."""
LEAST_ROWS = 8
"""With fewer rows a right operand that is no weight is used too seldom to be packed for it."""


class CpuDemands(Demands):
    """The schedules of `lowering/cpu/schedules/` answer."""

    own_memory = False

    def supports(self, op: Operation) -> str | None:
        if isinstance(op, nn.MatmulOp | nn.ExpertMatmulOp):
            block = nn.element_of(op.inputs[1])
            if isinstance(block, nn.BlockType) and block.block.data not in READERS:
                return f"the CPU has no kernel for products with weights in {block.block.data}"
        if isinstance(op, nn.QuantizeBlocksOp) and op.format.name != ROW_FORMAT:
            return f"the CPU has no kernel that writes bytes of {op.format.name}"
        return None

    def reads_blocks(self, op: BlockReader, block: str) -> bool:
        if isinstance(op, nn.AttentionOp):
            return block == "q8_0"
        return block in (ROW_READERS if isinstance(op, nn.GatherOp) else READERS)

    def rounds_to_bytes(self, op: nn.MatmulOp | nn.ExpertMatmulOp) -> bool:
        return True

    def whole(self, op: Composite) -> bool:
        # Partners that are neighbours would be turned one by one: no vector holds one of each.
        return not isinstance(op, nn.RotaryOp) or op.interleaved is None

    def widens(self, op: Widening, operand: int, dtype: Attribute) -> bool:
        if isinstance(dtype, IntegerType):
            if isinstance(op, nn.AttentionOp) or dtype == i1:
                return False
            return dtype.width.data in _WIDENED_INTEGERS
        return isinstance(dtype, _WIDENED_FLOATS)

    def rounds(self, op: nn.MatmulOp | nn.AttentionOp, weights: Collection[int]) -> bool:
        if isinstance(op, nn.AttentionOp):
            return Facts.of(op).target.bf16_dot and _pairs_gain(op)
        return _product_gains(op, weights) and (
            Facts.of(op).target.bf16_dot or _gains_by_reading(op, weights)
        )

    def tiling(self, op: Packed) -> Tiling | None:
        if isinstance(op, nn.ConvOp):
            return Tiling(conv_layout(op))
        if isinstance(op, nn.MatvecOp | nn.UnpackBlocksOp):
            return None
        block = nn.element_of(op.inputs[1])
        if isinstance(block, nn.BlockType):
            return Tiling(nn.BlocksAttr.of(block.block.data, machine_of(op).lanes(f32)))
        if isinstance(op, nn.ExpertMatmulOp):
            return None
        dims = nn.dims_of(op.right)
        columns = dims[-2] if op.transpose_b is not None else dims[-1]
        panels = nn.PairsAttr if op.in_pairs else nn.QuadsAttr if op.in_quads else nn.PanelsAttr
        return Tiling(panels(machine_of(op).tile_for(columns.constant)))

    def merges(self, products: Sequence[nn.MatmulOp]) -> bool:
        # What is computed in blocks has a loop of its own around its panels.
        return not any(op.in_quads or block_scratch(op) for op in products)

    def adds_fours(self, op: nn.MatmulOp, weight: bool) -> bool:
        depth = nn.dims_of(op.left)[-1].constant
        rows = nn.dims_of(op.result[0])[-2].constant
        if op.transpose_a is not None or depth is None or depth < LEAST_DEPTH:
            return False
        return weight or rows is None or rows >= LEAST_ROWS

    def pools(self, conv: nn.ConvOp, pool: nn.PoolOp) -> bool:
        return fills_lines(ConvShape.of(conv), lanes_of(conv, sums_of(conv)))

    def scratch(self, op: nn.NNOp) -> list[Scratch]:
        found = (rule(op) for kind, rule in _SCRATCH.items() if isinstance(op, kind))
        return next(found, [])


def _product_gains(op: nn.MatmulOp, weights: Collection[int]) -> bool:
    """Whether a product pays for its rounding: its left operand is rounded in every step."""
    if op.transpose_a is not None or 0 in weights:
        return False
    depth = nn.dims_of(op.left)[-1].constant
    if depth is not None and depth < LEAST_DEPTH:
        return False
    rows = nn.dims_of(op.result[0])[-2].constant
    return 1 in weights or rows is None or rows >= LEAST_ROWS


def _gains_by_reading(op: nn.MatmulOp, weights: Collection[int]) -> bool:
    """Whether a product gains by weights of half the size, on a processor that has to widen them again.

    Measured on a Zen 4, of the time with f32 weights: AVX2 code 0.49 with one row, 0.72 with two, 0.85
    with four, 1.76 with eight and 2.3 to 2.4 with 32 and 128; AVX-512 code without the instruction 0.57,
    0.87, 0.91, 1.05, and 1.06 beyond; SSE2 code 1.14, and 1.10 beyond, where weights stay in a cache.
    """
    rows = nn.dims_of(op.result[0])[-2].constant
    few = rows is not None and rows <= MOST_WIDENED_ROWS
    return few and 1 in weights and Facts.of(op).target.vector_bits >= 256


def _pairs_gain(op: nn.AttentionOp) -> bool:
    """Whether the schedule in pairs takes an attention: several queries that see the same keys."""
    if any(limit is not None for limit in (op.causal, op.window, op.windowed)):
        return False
    mask = nn.dims_of(op.mask) if op.mask is not None else ()
    if len(mask) > 1 and mask[-2].constant != 1:
        return False
    layouts = [layout.data for layout in op.layouts]
    queries = nn.dims_of(op.inputs[0])[layouts[0].index("l")].constant
    size, values = (nn.dims_of(op.inputs[n])[3].constant for n in (0, 2))
    if size is None or not values or size % 2 or size < LEAST_DEPTH:
        return False
    return queries is None or queries >= LEAST_ROWS
