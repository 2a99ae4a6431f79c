"""`nn.scatter`: an invocation makes all updates of its elements, one after the other.

    rows        of at least 32 neighbours: an invocation has a column of the result
    elements    else: an invocation has one element, and looks at every index

Before:
    nn.scatter(%x, %at, %u) outs(%y) {axis = 0 : i64, mode = "add"}
      : (memref<9x64xf32>, memref<?xi64>, memref<?x64xf32>, memref<9x64xf32>) -> ()

After, by rows:
    scf.if %inside {                          // %j of the column
      scf.for %k = … { … memref.store %v, %y[%k, %j] }
      scf.for %n = … {
        %index = memref.load %at[%n]
        scf.if %ok { … memref.store %sum, %y[%index, %j] } } }

So equal indices have a fixed order, and nothing is written by two invocations. Indices outside are the
host's to report (`nn.check_indices`); here they write nothing.
Requires: bufferised; no error record.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.nn import ScatterOp
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.joins import joined
from openinfer.lowering.vulkan.schedules.grid import (
    Grid,
    each_element,
    packed_bits,
    product,
    split,
)
from openinfer.lowering.vulkan.schedules.indices import checked_index
from openinfer.lowering.vulkan.schedules.lines import Lines
from openinfer.lowering.vulkan.schedules.matmul_operands import both

WIDE = 32
"""Neighbours of a row that keep a subgroup busy."""


def lower_scatter(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a scatter."""
    assert isinstance(op, ScatterOp)
    scatter = _Scatter(b, op)
    row = product(b, scatter.extents[scatter.axis + 1 :])
    if isinstance(row, int) and row >= WIDE and not packed_bits(op.output):
        return scatter.by_rows()
    return scatter.by_elements()


class _Scatter:
    def __init__(self, b: LoopBuilder, op: ScatterOp) -> None:
        self.b, self.op = b, op
        self.source, self.indices, self.updates = op.inputs
        assert isinstance(op.output.type, MemRefType)
        assert isinstance(self.indices.type, MemRefType)
        rank = op.output.type.get_num_dims()
        self.axis = op.axis.value.data % rank
        self.extents = [b.dim(op.output, axis) for axis in range(rank)]
        self.shape = [b.dim(self.indices, axis) for axis in range(self.indices.type.get_num_dims())]

    def by_rows(self) -> Grid:
        b = self.b
        lines = Lines(b, self.op.output, self.axis)

        def line(number: SSAValue) -> None:
            at = lines.place(number)

            def copy(k: SSAValue) -> None:
                b.store(b.load(self.source, at(k)), self.op.output, at(k))

            def update(n: SSAValue) -> None:
                index, inside, place = self._index(n)

                def write() -> None:
                    old = b.load(self.op.output, at(index))
                    new = self._joined(old, self._update(at(index), place))
                    b.store(new, self.op.output, at(index))

                b.when(inside, write)

            b.loop(0, lines.length, 1, copy, hint="k")
            b.loop(0, product(b, self.shape), 1, update, hint="n")

        return lines.each(line)

    def by_elements(self) -> Grid:
        b = self.b

        def element(place: list[SSAValue]) -> None:
            def update(n: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
                index, inside, at = self._index(n)
                here = both(b, [inside, b.compare("eq", index, place[self.axis])])

                def join() -> Sequence[SSAValue]:
                    return [self._joined(old[0], self._update(place, at))]

                return b.when(here, join, lambda: old, [old[0].type])

            first = b.load(self.source, place)
            count = product(b, self.shape)
            (value,) = b.reduce(0, count, 1, [first], update, hint="n", sums="in order")
            b.store(value, self.op.output, place)

        return each_element(b, self.op.output, element)

    def _index(self, number: SSAValue) -> tuple[SSAValue, SSAValue, list[SSAValue]]:
        """An index by its number, whether it is inside, and its place among the indices."""
        place = split(self.b, number, self.shape)
        raw = self.b.load(self.indices, place)
        unsigned = self.op.unsigned_indices is not None
        index, inside = checked_index(self.b, raw, self.extents[self.axis], unsigned)
        return index, inside, place

    def _update(self, place: Sequence[Index], at: Sequence[Index]) -> SSAValue:
        """What the index at a place has for an element of the result."""
        axis = self.axis
        return self.b.load(self.updates, [*place[:axis], *at, *place[axis + 1 :]])

    def _joined(self, old: SSAValue, update: SSAValue) -> SSAValue:
        mode = self.op.mode.data
        if mode == "set":
            return update
        return joined(self.b, mode, old, update, unsigned=self.op.unsigned is not None)
