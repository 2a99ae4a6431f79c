"""Slots of a persistent variable: entries and slices become offsets, lengths and checks.

Each entry of a table has a matrix that may grow, with extents of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from openinfer.dialects import nn
from openinfer.dialects.graph import SizeAttr, SliceAttr
from openinfer.lowering.graph.index_arithmetic import never_negative
from openinfer.lowering.graph.state_axes import Entry, Lengths, StateAxes
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size

Slot = SizeAttr | SliceAttr
FULL = SliceAttr(StringAttr(""), StringAttr(""))


@dataclass
class Place:
    """A part of a state: an offset for each growing axis, and the sizes of the axes that stay."""

    offsets: list[SSAValue] = field(default_factory=list[SSAValue])
    kept: list[int] = field(default_factory=list[int])
    dims: list[Size] = field(default_factory=list[Size])

    def keep(self, axis: int, offset: SSAValue, dim: Size) -> None:
        """A slice of an axis, which stays."""
        self.offsets.append(offset)
        self.kept.append(axis)
        self.dims.append(dim)


class Slots:
    """What single slots select."""

    def __init__(self, axes: StateAxes) -> None:
        self._axes = axes
        self._builder = axes.step.builder

    def entry(self, axis: int, slot: SizeAttr) -> SSAValue:
        """The entry is there afterwards; its number, cut to what there is memory for."""
        axes, b = self._axes, self._builder
        number = axes.number(slot)
        axes.require_natural(number, "negative", axis)
        need = b.add(arith.AddiOp(number, b.constant(1)))
        safe = axes.grow(axis, (), need)
        return b.add(arith.SubiOp(safe, b.constant(1)))

    def slice(
        self, axis: int, slot: SliceAttr, entry: Entry, *, grows: bool, lengths: Lengths = ()
    ) -> tuple[SSAValue, SSAValue, Size]:
        """Start and length of a slice, cut to what there is memory for, and the length as a size.

        `lengths` are those of the table slices that select the entry, the first one of several.
        """
        axes, b = self._axes, self._builder
        key: object = None
        extent: SSAValue | None = None
        begin = (
            axes.number(slot.start, entry, lengths) if isinstance(slot.start, SizeAttr) else None
        )
        raw = axes.number(slot.stop, entry, lengths) if isinstance(slot.stop, SizeAttr) else None
        if begin is not None:
            axes.require_natural(begin, "slice-start", axis)
        if raw is not None and isinstance(slot.stop, SizeAttr):
            constant = axes.constant(slot.stop)
            if constant is not None and constant >= 0:
                stop = raw
            else:
                extent = counted = axes.extent(axis, entry, lengths)
                stop = b.from_end(raw, lambda: counted)
                axes.require_end(stop, raw, extent, axis)
            if constant is None or constant >= 0:
                key = self._key(slot)
            self._in_order(axis, begin, stop)
            if grows:
                end = axes.grow(axis, entry, stop)
            else:
                if extent is None:
                    extent = axes.extent(axis, entry, lengths)
                axes.require(stop, "sle", extent, "position", axis)
                end = self._cut(stop, extent)
        else:
            end = axes.extent(axis, entry, lengths)
            self._in_order(axis, begin, end)
        start = b.constant(0) if begin is None else self._cut(begin, end)
        length = b.add(arith.SubiOp(end, start))
        size = axes.step.sizes.define(axes.name, length, axes.scope, key)
        return start, length, size

    def _in_order(self, axis: int, begin: SSAValue | None, stop: SSAValue) -> None:
        """A slice ends where it starts, or behind; said before anything grows for it."""
        if begin is not None:
            self._axes.require(begin, "sle", stop, "slice-order", axis)

    def _cut(self, value: SSAValue, high: SSAValue) -> SSAValue:
        """The number of 0 or more and no more than another that is nearest to a value."""
        b = self._builder
        low = b.add(arith.MaxSIOp(value, b.constant(0)))
        return b.add(arith.MinSIOp(low, high))

    def _key(self, slot: SliceAttr) -> object:
        """Equal bounds that do not depend on an extent give equal lengths."""
        axes, step = self._axes, self._axes.step
        assert isinstance(slot.stop, SizeAttr)
        start = slot.start.data if isinstance(slot.start, SizeAttr) else Size.of(0)
        names = start.names | slot.stop.data.names
        if names & set(axes.state.auto):
            return None
        marks: list[object] = []
        for name in sorted(names - step.sizes.known - step.facts.static.keys()):
            index = axes.scope.indices.get(name)
            value = index.value if index else step.variables.value_of(name, axes.scope)
            marks.append((name, value))
        return ("length", start, slot.stop.data, tuple(marks))


class MatrixSlots:
    """What the slots behind those of the table select."""

    def __init__(self, axes: StateAxes, slots: Slots, written: Sequence[Slot]) -> None:
        """`written` are the slots as the program writes them; those that it leaves out are full."""
        self._axes = axes
        self._builder = axes.step.builder
        self._slots = slots
        self._written = written
        self._tables = len(axes.state.table)

    def select(self, place: Place, lengths: Lengths, *, writes: bool) -> None:
        """Of the matrix of an entry, or of all entries of a table slice."""
        axes, written = self._axes, self._written
        entry = list(place.offsets)
        grows = bool(written) and all(isinstance(s, SizeAttr) for s in written)
        needs: list[SSAValue] = []
        if axes.state.scalar_dims:
            axes.each(entry, lengths, self._start)
        if grows:
            needs = self._needs(None if lengths else entry)

            def grow(entry: Entry) -> None:
                # Each entry has counts of its own.
                own = self._needs(entry) if lengths else needs
                for axis, need in enumerate(own, self._tables):
                    axes.grow(axis, entry, need)

            axes.each(entry, lengths, grow)
            self._require_as_grown(lengths, needs)
        slots = [] if grows else list(written)
        slots += [FULL] * (len(axes.state.auto) - len(slots))
        for axis, slot in enumerate(slots, self._tables):
            if isinstance(slot, SizeAttr):
                place.offsets.append(self._line(axis, slot, entry, lengths, writes=writes))
            elif lengths and slot == FULL:
                least = needs[axis - self._tables] if grows else None
                start = self._builder.constant(0)
                extent = axes.extent(axis, entry, lengths, least)
                place.keep(axis, start, axes.step.sizes.define(axes.name, extent, axes.scope))
            else:
                start, _, size = self._slots.slice(axis, slot, entry, grows=False, lengths=lengths)
                place.keep(axis, start, size)
        if lengths:
            self._require_alike(entry, lengths, slots)

    def _start(self, entry: Entry) -> None:
        """A matrix is as large as scalars say that it is at the start."""
        axes, b = self._axes, self._builder
        for axis, extent in axes.scalars.items():
            b.insert(nn.GrowOp(axes.name, entry, self._tables + axis, extent, b.node))

    def _needs(self, entry: Entry | None) -> list[SSAValue]:
        """How far the axes of a matrix are to reach, by the numbers in its slots; without an entry
        how far those of a new one would."""
        axes = self._axes
        found: list[SSAValue] = []
        for axis, slot in enumerate(self._written, self._tables):
            assert isinstance(slot, SizeAttr)
            number = axes.number(slot, entry)
            if entry is not None:
                axes.require_natural(number, "negative", axis)
            found.append(self._builder.add(arith.AddiOp(axes.base(axis), number)))
        return found

    def _require_as_grown(self, lengths: Lengths, needs: Sequence[SSAValue]) -> None:
        """Where a slice of a table has no entry, numbers that no entry could take fail all the same."""
        if not lengths:
            return
        axes, b = self._axes, self._builder
        zero, count = b.constant(0), lengths[0][1]
        for _, length in lengths[1:]:
            count = b.add(arith.MuliOp(count, length))
        some = b.compare(count, "ne", zero)

        def require(value: SSAValue, predicate: str, other: SSAValue, kind: str, axis: int) -> None:
            holds = b.add(arith.OrIOp(b.compare(value, predicate, other), some))
            b.fail_unless(holds, kind, value, axes.shown(axis))

        for axis, need in enumerate(needs, self._tables):
            number = b.add(arith.SubiOp(need, axes.base(axis)))
            if not never_negative(number):
                require(number, "sge", zero, "negative", axis)
            limit = axes.state.limit(axis)
            if limit is not None:
                require(need, "sle", axes.index(limit), "fixed", axis)

    def _line(
        self, axis: int, slot: SizeAttr, entry: Entry, lengths: Lengths, *, writes: bool
    ) -> SSAValue:
        """One row or column; a write may append it."""
        axes, b = self._axes, self._builder
        number = axes.number(slot, entry, lengths)
        extent = axes.extent(axis, entry, lengths)
        one = b.constant(1)
        limit = b.add(arith.AddiOp(extent, one)) if writes else extent
        inside = b.compare(number, "ult", limit)
        b.fail_unless(inside, "position", number, extent, axes.axis_number(axis))
        safe = b.add(arith.SelectOp(inside, number, b.constant(0)))
        if not writes:
            return safe
        grown = axes.grow(axis, entry, b.add(arith.AddiOp(safe, one)))
        return b.add(arith.SubiOp(grown, one))

    def _require_alike(self, entry: Entry, lengths: Lengths, slots: Sequence[Slot]) -> None:
        """What the slots select of each matrix is there, and lies where it lies in the first one.

        Matrices may differ beyond that: `C[0..4, 0..1]` needs a first row of each and no more.
        """
        axes = self._axes
        numbered = list(enumerate(slots, self._tables))
        first = [self._reached(axis, slot, entry) for axis, slot in numbered]
        begins = [(axis, slot, slot.start, axes.number(slot.start, entry))
                  for axis, slot in numbered
                  if isinstance(slot, SliceAttr) and isinstance(slot.start, SizeAttr)
                  and slot.start.data.names & set(axes.state.auto)]  # fmt: skip

        def inside(entry: Entry) -> None:
            for axis, slot in numbered:
                if isinstance(slot, SliceAttr) and not isinstance(slot.stop, SizeAttr):
                    continue
                extent = axes.present(entry, axis)
                reached = self._reached(axis, slot, entry)
                if isinstance(slot, SizeAttr):
                    axes.require(reached, "ult", extent, "position", axis)
                else:
                    axes.require_end(reached, reached, extent, axis)
                    axes.require(reached, "sle", extent, "position", axis)
            for axis, slot, start, _ in begins:
                begin = axes.number(start, entry)
                axes.require_natural(begin, "slice-start", axis)
                stop = self._reached(axis, slot, entry)
                axes.require(begin, "sle", stop, "slice-order", axis)

        def alike(entry: Entry) -> None:
            for (axis, slot), wanted in zip(numbered, first):
                reached = self._reached(axis, slot, entry)
                axes.require(reached, "eq", wanted, "stack", axis)
            for axis, _, start, wanted in begins:
                begin = axes.number(start, entry)
                axes.require(begin, "eq", wanted, "stack", axis)

        axes.each(entry, lengths, inside)
        axes.each(entry, lengths, alike)

    def _reached(self, axis: int, slot: Slot, entry: Entry) -> SSAValue:
        """The line that a slot selects of the matrix of an entry, or the end of what it selects."""
        axes = self._axes
        if isinstance(slot, SizeAttr):
            return axes.number(slot, entry)
        if not isinstance(slot.stop, SizeAttr):
            return axes.present(entry, axis)
        raw = axes.number(slot.stop, entry)
        constant = axes.constant(slot.stop)
        if constant is not None and constant >= 0:
            return raw
        return self._builder.from_end(raw, lambda: axes.present(entry, axis))
