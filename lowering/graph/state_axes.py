"""The axes of a persistent variable at one use: extents, growth, numbers in slots, what must hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from openinfer.dialects import nn
from openinfer.dialects.graph import SizeAttr
from openinfer.lowering.graph.index_arithmetic import never_negative
from openinfer.lowering.graph.scope import Index, Scope
from openinfer.lowering.graph.states import State
from openinfer.runtime.sizes import Size

if TYPE_CHECKING:
    from openinfer.lowering.graph.step import Step

Entry = Sequence[SSAValue]
"""The numbers of an entry of a table."""
Lengths = Sequence[tuple[int, SSAValue]]
"""The axes of a table that a slice selects of, with how many entries."""


class StateAxes:
    """One use of a state in a scope."""

    def __init__(self, step: Step, state: State, scope: Scope) -> None:
        self.step = step
        self.state = state
        self.name = state.name
        self.scope = scope
        index = step.values.index
        self.scalars = {axis: index(state.dims[axis], scope) for axis in state.scalar_dims}
        """The values of the dimensions that name scalars, by dimension."""

    def present(self, entry: Entry, axis: int) -> SSAValue:
        """The extent that an axis of an entry has now."""
        return self.step.builder.add(nn.ExtentOp(self.name, entry, axis))

    def extent(
        self, axis: int, entry: Entry, lengths: Lengths = (), least: SSAValue | None = None
    ) -> SSAValue:
        """The extent of an axis of an entry; where table slices select none, what one would have."""
        b = self.step.builder
        extent = self.present(entry, axis)
        if lengths and least is None:
            least = self.base(axis)
        for _, length in lengths:
            assert least is not None
            some = b.compare(length, "sgt", b.constant(0))
            extent = b.add(arith.SelectOp(some, extent, least))
        return extent

    def base(self, axis: int) -> SSAValue:
        """The extent of an axis of a matrix that has not grown."""
        scalar = self.scalars.get(axis - len(self.state.table))
        return self.index(self.state.base(axis)) if scalar is None else scalar

    def index(self, size: Size) -> SSAValue:
        """A size in the scope of this use."""
        return self.step.values.index(size, self.scope)

    def set(self, axis: int, extent: SSAValue) -> None:
        """An axis has another extent from here on."""
        b = self.step.builder
        b.insert(nn.SetExtentOp(self.name, axis, extent, b.node))

    def grow(self, axis: int, entry: Entry, need: SSAValue) -> SSAValue:
        """An axis reaches as far as is needed; how far it does, cut to what there is memory for."""
        b = self.step.builder
        bound = self.state.fixed.get(self.state.axes[axis])
        if bound is not None and axis - len(self.state.table) in self.scalars:
            most = b.add(arith.AddiOp(self.base(axis), b.constant(bound)))
            self.require_fixed(need, most, axis)
        return b.add(nn.GrowOp(self.name, entry, axis, need, b.node))

    def number(self, slot: SizeAttr, entry: Entry | None = (), lengths: Lengths = ()) -> SSAValue:
        """The value of an index; an auto index that means nothing else is its present count in the
        matrix of an entry, 0 without one and where table slices select none."""
        step, b = self.step, self.step.builder
        size = slot.data.substitute(step.facts.static)
        counts = [
            name
            for name in self.state.auto
            if name in size.names
            and name not in self.scope.indices
            and name not in step.facts.variables
            and name not in step.sizes.known
        ]
        if not counts:
            return step.values.count(size, self.scope)
        inner = self.scope.nested()
        for name in counts:
            if entry is None:
                inner.indices[name] = Index(b.constant(0))
                continue
            axis = self.state.axes.index(name)
            extent = self.extent(axis, entry, lengths)
            inner.indices[name] = Index(b.add(arith.SubiOp(extent, self.base(axis))))
        return step.values.count(size, inner)

    def constant(self, slot: SizeAttr) -> int | None:
        """The value of an index that is a number in the program."""
        return slot.data.substitute(self.step.facts.static).constant

    def require(self, a: SSAValue, predicate: str, b: SSAValue, kind: str, axis: int) -> None:
        """The step fails unless a comparison holds; the message shows both sides and names the axis."""
        self.step.builder.require(a, predicate, b, kind, self.axis_number(axis))

    def require_natural(self, number: SSAValue, kind: str, axis: int) -> None:
        """The step fails where a number is negative."""
        b, shown = self.step.builder, self.shown(axis)
        if not never_negative(number):
            b.fail_unless(b.compare(number, "sge", b.constant(0)), kind, number, shown)

    def require_fixed(self, need: SSAValue, most: SSAValue, axis: int) -> None:
        """The step fails where more is needed than the declaration lets an axis have."""
        b, shown = self.step.builder, self.shown(axis)
        b.fail_unless(b.compare(need, "sle", most), "fixed", need, shown)

    def require_end(self, end: SSAValue, number: SSAValue, extent: SSAValue, axis: int) -> None:
        """The step fails where the end of a slice lies before the axis starts."""
        b = self.step.builder
        if not never_negative(end):
            holds = b.compare(end, "sge", b.constant(0))
            b.fail_unless(holds, "slice-end", number, extent, self.axis_number(axis))

    def axis_number(self, axis: int) -> int:
        """State and axis in one number."""
        return self.state.number * 64 + axis

    def shown(self, axis: int) -> SSAValue:
        """The same for a message."""
        return self.step.builder.constant(self.axis_number(axis))

    def each(self, entry: Entry, lengths: Lengths, body: Callable[[Entry], None]) -> None:
        """What `body` inserts runs for every entry that table slices select."""
        if not lengths:
            body(entry)
            return
        (axis, length), *rest = lengths
        b = self.step.builder

        def moved(number: SSAValue) -> None:
            other = list(entry)
            other[axis] = b.add(arith.AddiOp(entry[axis], number))
            self.each(other, rest, body)

        b.for_each(length, moved)

    def every(self, body: Callable[[Entry], None], entry: Entry = ()) -> None:
        """What `body` inserts runs for every entry of the table."""
        if len(entry) == len(self.state.table):
            body(entry)
            return
        extent = self.present([], len(entry))
        self.step.builder.for_each(extent, lambda number: self.every(body, [*entry, number]))
