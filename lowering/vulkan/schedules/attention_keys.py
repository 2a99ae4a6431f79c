"""Results of attention in one walk over the keys: what schedules fall back to where values are not finite.

A product of matrices multiplies hidden values by a weight of 0, which gives NaN where they are not finite.
Here hidden values are no part of a result.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.dialects.math import FmaOp
from xdsl.ir import SSAValue

from openinfer.lowering.kernels.attention_sight import Scores
from openinfer.lowering.kernels.builder import Index
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.numeric import INF, is_float, select
from openinfer.lowering.vulkan.schedules.attention_operands import Attended
from openinfer.lowering.vulkan.schedules.attention_weights import Weights
from openinfer.lowering.vulkan.schedules.matmul_matrices import LANES
from openinfer.lowering.vulkan.schedules.wide import load_wide


def key_by_key(
    of: Attended,
    weights: Weights,
    place: tuple[Index, Index, Index],
    at: tuple[SSAValue, SSAValue],
    count: int,
    keys: tuple[Index, Index],
) -> list[SSAValue]:
    """Neighbouring results of a query. `place`: batch, head, head of the keys; `at`: the query and the first
    column; `keys`: the range that it may see."""
    b = of.b
    batch, head, key_head = place
    query, column = at
    scores = Scores(b, of.op, f32, weights.scale(1))
    assert isinstance(of.depth, int)

    def step(key: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
        def dot(d: SSAValue, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
            (total,) = sums
            theirs = load_wide(b, of.k.buffer, of.k.at(batch, key_head, key, d), LANES)
            mine = load_wide(b, of.q.buffer, of.q.at(batch, head, query, d), LANES)
            for x, y in zip(mine, theirs):
                total = b.insert(FmaOp(convert(b, x, f32), convert(b, y, f32), total))
            return [total]

        (score,) = b.reduce(0, of.depth, LANES, [b.constant(0, f32)], dot, hint="d")
        score = scores.of(score)
        if of.mask is not None and is_float(of.mask.buffer):
            bias = of.mask.one(batch, head, query, key)
            score = b.insert(FmaOp(bias, b.constant(weights.scale(1), f32), score))
        seen = b.compare("ult", key, keys[1])
        if of.hidden.anything:
            seen = b.insert(arith.AndIOp(seen, of.hidden.seen(batch, head, query, key)))
        score = select(b, seen, score, b.constant(-INF, f32))
        values: list[SSAValue] = []
        for start in range(0, count, 4):
            there = of.v.at(batch, key_head, key, b.add(column, start))
            values += load_wide(b, of.v.buffer, there, 4)
        return weights.weigh([score], [seen], [values], old)

    found = b.reduce(keys[0], keys[1], 1, weights.start(count), step, hint="key")
    total = weights.divisor(found[1], nan_rows=of.op.nan_rows is not None)
    return [b.insert(arith.DivfOp(value, total)) for value in found[2:]]
