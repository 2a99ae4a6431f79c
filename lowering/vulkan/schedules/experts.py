"""`nn.expert_matmul`: a workgroup computes an element of the result, along a row of a chosen matrix.

Before:
    nn.expert_matmul(%x, %w, %chosen) outs(%y)
      : (memref<?x1x64xf32>, memref<8x96x64xf16>, memref<?x2xi32>, memref<?x2x96xf32>) -> ()

After:
    %e = memref.load %chosen[%t, %s] : memref<?x2xi32>
    %part = scf.for %k = … { products of 16 bytes of %w[%e, %n] with %x[%t, %c0] }
    %sum = …                                    // of all invocations
    memref.store %sum, %y[%t, %s, %n]           // by one of them

Requires: bufferised; indices that were checked; mathematics are not strict.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.dialects.math import FmaOp
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.extensions.arith import IndexCastUIOp
from openinfer.dialects.nn import ExpertMatmulOp
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.numeric import element_type
from openinfer.lowering.vulkan.schedules.grid import (
    Grid,
    HostValue,
    each_group,
    groups_for,
    product,
    split,
)
from openinfer.lowering.vulkan.schedules.group_line import invocations_for
from openinfer.lowering.vulkan.schedules.wide import common_lanes, load_wide
from openinfer.lowering.vulkan.schedules.workgroup import Workgroup


def lower_expert_matmul(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of such products."""
    assert isinstance(op, ExpertMatmulOp)
    x, w, chosen = op.inputs
    out, kind = op.output, element_type(op.output)
    depth, shared = b.dim(w, 2), b.dim(x, 1) == 1
    lanes = common_lanes(op, (x, w))
    group = Workgroup(b, invocations_for(b, depth))

    def add(left: SSAValue, right: SSAValue) -> SSAValue:
        return b.insert(arith.AddfOp(left, right))

    def extents(host: LoopBuilder, buffer: SSAValue) -> list[Index]:
        return [host.dim(buffer, axis) for axis in range(3)]

    def one(number: SSAValue) -> None:
        position, choice, row = split(b, number, extents(b, out))
        expert = b.insert(IndexCastUIOp(b.load(chosen, [position, choice]), IndexType()))

        def step(k: SSAValue, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
            (total,) = sums
            ours = load_wide(b, x, [position, 0 if shared else choice, k], lanes)
            theirs = load_wide(b, w, [expert, row, k], lanes)
            for left, right in zip(ours, theirs):
                total = b.insert(FmaOp(convert(b, left, kind), convert(b, right, kind), total))
            return [total]

        first = b.mul(group.thread, lanes)
        reach = group.size * lanes
        (part,) = b.reduce(
            first,
            depth,
            reach,
            [b.constant(0, kind)],
            step,
            hint="k",
            sums="products",
            beside=reach,
        )
        total = group.all_reduce(part, add)
        is_first = b.compare("eq", group.thread, 0)
        b.when(is_first, lambda: b.store(total, out, [position, choice, row]))

    each_group(b, product(b, extents(b, out)), one)

    def groups(host: LoopBuilder, value_of: HostValue) -> tuple[Index, Index, Index]:
        return groups_for(host, product(host, extents(host, value_of(out))))

    return Grid(groups, group.size)
