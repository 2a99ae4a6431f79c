"""`argmax` and `argmin`: a workgroup searches a line, a short one is searched by an invocation.

Before:
    nn.reduce(%x) outs(%y) {axes = array<i64: 1>, kind = "argmax"}
      : (memref<?x64xf32>, memref<?xi64>) -> ()

After:
    scf.if %inside {
      %best, %place = scf.for %k = %thread to %c64 step %c64_1 …
      %top = …                               // the best of the workgroup
      %here = arith.cmpf oeq, %best, %top
      %first = …                             // the first place of the workgroup that holds it
      memref.store %first, %y[%i] }

Requires: bufferised; one axis.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IndexType, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects.extensions.arith import IndexCastOp
from openinfer.dialects.nn import ReduceOp, element_of
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.extremes import Extreme
from openinfer.lowering.kernels.numeric import (
    compare_floats,
    compare_integers,
    index_to,
    is_float,
    select,
)
from openinfer.lowering.vulkan.schedules.grid import Grid, each_group, groups_for
from openinfer.lowering.vulkan.schedules.group_line import invocations_for
from openinfer.lowering.vulkan.schedules.lines import Lines, Place
from openinfer.lowering.vulkan.schedules.reduce import SHORT
from openinfer.lowering.vulkan.schedules.wide import width
from openinfer.lowering.vulkan.schedules.workgroup import Workgroup


def lower_extreme(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of an `argmax` or `argmin`."""
    assert isinstance(op, ReduceOp)
    search = _Search(b, op)
    length = search.lines.length
    if isinstance(length, int) and length <= SHORT:
        return search.by_invocations()
    return search.by_groups(invocations_for(b, length))


class _Search:
    def __init__(self, b: LoopBuilder, op: ReduceOp) -> None:
        self.b, self.op = b, op
        (axis,) = op.axes.get_values()
        self.lines = Lines(b, op.inputs[0], axis)
        self.extreme = Extreme(
            op.kind.data == "argmax", op.select_last is not None, op.unsigned is not None
        )
        element = element_of(op.inputs[0])
        # Narrow elements in 32 bits: what every device exchanges within a subgroup.
        wide = f32 if isinstance(element, AnyFloat) else i32
        self.computed: Attribute = element if width(op.inputs[0]) > 32 else wide
        self.nowhere = 0 if self.extreme.last else (1 << 31) - 1

    def part(self, at: Place, first: Index, step: int) -> tuple[SSAValue, SSAValue]:
        """The best of every `step`-th element from `first` on, and its place, `nowhere` if there is none."""
        b = self.b

        def one(k: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
            raw = b.load(self.op.inputs[0], at(k))
            value = convert(b, raw, self.computed, unsigned=self.extreme.unsigned)
            wins = self.extreme.better(b, value, old[0])
            return [select(b, wins, value, old[0]), select(b, wins, k, old[1])]

        start = [
            b.constant(self.extreme.worst(self.computed), self.computed),
            b.index(self.nowhere),
        ]
        best, place = b.reduce(first, self.lines.length, step, start, one, hint="k")
        return best, place

    def store(self, number: SSAValue, place: SSAValue) -> None:
        """The result of a line. Where nothing is better than the worst its first place is 0."""
        b, target = self.b, self.op.output
        exists = b.compare("ne", place, self.nowhere)
        place = select(b, exists, place, b.index(0))
        around: list[Index] = [*self.lines.around(number)]
        if self.op.keepdims is not None:
            axis = self.lines.axis % (len(around) + 1)
            around.insert(axis, 0)
        b.store(index_to(b, place, element_of(target)), target, around)

    def by_invocations(self) -> Grid:
        def line(number: SSAValue) -> None:
            _, place = self.part(self.lines.place(number), 0, 1)
            self.store(number, place)

        return self.lines.each(line)

    def by_groups(self, size: int) -> Grid:
        b, lines = self.b, self.lines
        group = Workgroup(b, size)

        def line(number: SSAValue) -> None:
            best, place = self.part(lines.place(number), group.thread, size)
            top = group.all_reduce(best, lambda x, y: self.extreme.join(b, x, y))
            found = select(b, self._holds(best, top), place, b.index(self.nowhere))
            outermost = arith.MaxSIOp if self.extreme.last else arith.MinSIOp
            whole = group.all_reduce(
                b.insert(IndexCastOp(found, i32)), lambda x, y: b.insert(outermost(x, y))
            )
            result = b.insert(IndexCastOp(whole, IndexType()))
            b.when(b.compare("eq", group.thread, 0), lambda: self.store(number, result))

        each_group(b, lines.count(b, lines.buffer), line)
        return Grid(
            lambda host, value_of: groups_for(host, lines.count(host, value_of(lines.buffer))),
            size,
        )

    def _holds(self, best: SSAValue, top: SSAValue) -> SSAValue:
        """Whether the best of an invocation is that of all, or a NaN, which no other value beats."""
        b = self.b
        if not is_float(best):
            return compare_integers(b, "eq", best, top)
        same = compare_floats(b, "oeq", best, top)
        return b.insert(arith.OrIOp(same, compare_floats(b, "uno", best, best)))
