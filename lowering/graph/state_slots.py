"""Slots of a persistent variable: entries and slices become offsets, lengths and checks."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from openinfer.dialects.graph import SizeAttr, SliceAttr
from openinfer.lowering.graph.state_axes import Entry, Lengths, StateAxes
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
        axes.require("sge", number, 0, "negative", number, axes.shown(axis))
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
        begin = axes.number(slot.start, entry) if isinstance(slot.start, SizeAttr) else None
        raw = axes.number(slot.stop, entry) if isinstance(slot.stop, SizeAttr) else None
        if begin is not None:
            axes.require("sge", begin, 0, "slice-start", begin, axes.shown(axis))
        if raw is not None and isinstance(slot.stop, SizeAttr):
            constant = axes.constant(slot.stop)
            if constant is not None and constant >= 0:
                stop = raw
            else:
                extent = counted = axes.extent(axis, entry, lengths)
                stop = b.from_end(raw, lambda: counted)
                axes.require("sge", stop, 0, "slice-end", raw, extent, axis=axis)
            if constant is None or constant >= 0:
                key = self._key(slot)
            self._in_order(axis, begin, stop)
            if grows:
                end = axes.grow(axis, entry, stop)
            else:
                if extent is None:
                    extent = axes.extent(axis, entry, lengths)
                axes.require("sle", stop, extent, "position", stop, extent, axis=axis)
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
            self._axes.require("sle", begin, stop, "slice-order", begin, stop, axis=axis)

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
