"""`nn.sort`: an invocation counts how many elements of a line stand in front of its own.

Before:
    nn.sort(%x) outs(%v, %p) {axis = 0 : i64} : (memref<64xf32>, memref<8xf32>, memref<8xi64>) -> ()

After:
    scf.if %inside {
      %x_i = memref.load %x[%i]
      %rank = scf.for %j = %c0 to %i …      // those before it that do not stand behind it
      %rank_2 = scf.for %j = …              // those behind it that stand in front of it
      scf.if %rank_2 < 8 { memref.store %x_i, %v[%rank_2] … } }

Equal values keep their order. The work grows with the square of the line's length.
Requires: bufferised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.nn import SortOp
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import index_to, select
from openinfer.lowering.kernels.sort_order import Order
from openinfer.lowering.vulkan.schedules.grid import Grid, each_element

MOST_SORTED = 1 << 15
"""Elements of a line that are compared with each other."""


def lower_sort(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a sort."""
    assert isinstance(op, SortOp)
    source, (values, places) = op.inputs[0], op.outs
    axis = op.axis.value.data
    order = Order(op.descending is not None, op.unsigned is not None)
    length, taken = b.dim(source, axis), b.dim(values, axis)

    def element(place: list[SSAValue]) -> None:
        def at(k: Index) -> list[Index]:
            return [*place[:axis], k, *place[axis + 1 :]]

        own, here = b.load(source, place), place[axis]

        def count(
            first: Index, last: Index, rank: SSAValue, stands: Callable[[SSAValue], SSAValue]
        ) -> SSAValue:
            """`rank`, and how many of a range `stands` is true of."""

            def step(j: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
                found = stands(b.load(source, at(j)))
                return [select(b, found, b.add(old[0], 1), old[0])]

            (rank,) = b.reduce(first, last, 1, [rank], step, hint="j")
            return rank

        behind = count(0, here, b.index(0), lambda x: order.before(b, own, x))
        rank = b.sub(here, behind)
        rank = count(b.add(here, 1), length, rank, lambda x: order.before(b, x, own))

        def store() -> None:
            b.store(own, values, at(rank))
            b.store(index_to(b, here, i64), places, at(rank))

        b.when(b.compare("ult", rank, taken), store)

    return each_element(b, source, element)
