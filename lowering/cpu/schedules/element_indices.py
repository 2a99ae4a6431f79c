"""Gather and scatter with an index for each element, as loops.

Before:
    nn.gather_elements(%x, %i) outs(%y) {axis = 1 : i64}
      : (memref<8x9xf32>, memref<8x5xi64>, memref<8x5xf32>) -> ()

After:
    scf.for %a = %c0 to %c8 step %c1 {
      scf.for %b = %c0 to %c5 step %c1 {
        %raw = memref.load %i[%a, %b] : memref<8x5xi64>
        %at = arith.index_cast %raw : i64 to index
        %inside = arith.cmpi ult, %at, %c9 : index
        scf.if %inside {
          %v = memref.load %x[%a, %at] : memref<8x9xf32>
          memref.store %v, %y[%a, %b] : memref<8x5xf32> } } } {openinfer.parallel}

A scatter copies x, then goes along the lines of its axis in order, lines in parallel, 64 at a time where
they stand side by side. Where there is an error record, the first index outside is noted.

Requires: bufferised; contiguous operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.nn import GatherElementsOp, ScatterElementsOp, element_of
from openinfer.dialects.nn.element_index_ops import ElementIndexOp
from openinfer.lowering.cpu.schedules.gathers import as_index, check_indices, report_into
from openinfer.lowering.cpu.schedules.scatters import copy_all
from openinfer.lowering.cpu.vector_width import lanes_of
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.joins import joined
from openinfer.lowering.kernels.rules import Rule
from openinfer.lowering.kernels.runs import collapse

Place = list[SSAValue]

BLOCK = 64
"""Lines side by side that a thread takes at a time."""


def _gather(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, GatherElementsOp)
    x, axis = op.inputs[0], op.axis.value.data

    def copy(place: Place, index: SSAValue) -> None:
        b.store(b.load(x, _moved(place, axis, index)), op.output, place)

    _each_index(b, op, copy, by_lines=False)
    return True


def _scatter(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, ScatterElementsOp)
    x, _, updates = op.inputs
    axis, mode = op.axis.value.data, op.mode.data
    copy_all(b, x, op.output, lanes_of(op, element_of(op.output)))

    def join(place: Place, index: SSAValue) -> None:
        target = _moved(place, axis, index)
        new = b.load(updates, place)
        if mode != "set":
            old = b.load(op.output, target)
            new = joined(b, mode, old, new, unsigned=op.unsigned is not None)
        b.store(new, op.output, target)

    _each_index(b, op, join, by_lines=True)
    return True


def _each_index(
    b: LoopBuilder,
    op: ElementIndexOp,
    body: Callable[[Place, SSAValue], None],
    *,
    by_lines: bool,
) -> None:
    """`body` with the place of each index and its value, where that lies inside.

    Threads share one of the axes, with `by_lines` not the one that the indices count along: a thread then
    goes along lines of its own, so that equal indices come in their order.
    """
    indices, axis = op.inputs[1], op.axis.value.data
    rank = _rank(indices)
    unsigned, errors = op.unsigned_indices is not None, op.room("errors")
    bound = b.dim(op.inputs[0], axis)
    place: dict[int, SSAValue] = {}
    bounds: dict[int, tuple[Index, Index]] = {a: (0, b.dim(indices, a)) for a in range(rank)}

    def tell() -> None:
        # Threads come to wrong indices in any order: each looks for the first one, and notes the same.
        assert errors is not None
        report = report_into(b, errors, op.node.value.data if op.node is not None else 0)
        flat = collapse(b, indices, [list(range(rank))]) if rank > 1 else indices
        report.unless_noted(lambda: check_indices(b, flat, bound, report, unsigned=unsigned))

    def loops(rest: Sequence[int], *, shared: bool = False) -> None:
        if rest:

            def one(i: SSAValue) -> None:
                place[rest[0]] = i
                loops(rest[1:])

            first, stop = bounds[rest[0]]
            b.loop(first, stop, 1, one, parallel=shared, hint="i")
            return
        here = [place[a] for a in range(rank)]
        index = as_index(b, b.load(indices, here), unsigned)
        # Unsigned: what is below 0 is too large.
        inside = b.compare("ult", index, bound)
        b.when(inside, lambda: body(here, index), tell if errors is not None else None)

    free = [a for a in range(rank) if bounds[a][1] != 1 and not (by_lines and a == axis)]
    if not free:
        loops(range(rank))
        return
    shared = free[0]
    if shared < rank - 1 or shared <= axis:
        loops([shared, *(a for a in range(rank) if a != shared)], shared=True)
        return
    # Lines that stand side by side: a thread takes neighbours, which it walks together.
    count = bounds[shared][1]

    def block(start: SSAValue) -> None:
        bounds[shared] = (start, b.minimum(b.add(start, BLOCK), count))
        loops(range(rank))

    b.loop(0, count, BLOCK, block, parallel=True, hint="i")


def _moved(place: Place, axis: int, index: SSAValue) -> list[Index]:
    """The place with another index along the axis."""
    return [*place[:axis], index, *place[axis + 1 :]]


def _rank(buffer: SSAValue) -> int:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type.get_num_dims()


RULES: dict[str, Rule] = {GatherElementsOp.name: _gather, ScatterElementsOp.name: _scatter}
