"""Where a step finds what survives it: arguments, cells, capacities.

The cells are 64-bit words: the dynamic sizes, then for each state the extents of its axes now and as
they were when the step began, and its facts in the same way, then the length of the undo log. Facts
are there where dimensions name scalars: whether a step has touched the state, then a word for each
such dimension. A matrix in a table has its extents in a buffer of its own, two words for each axis of
each entry.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp

from openinfer.lowering.interface import read_rows, strings
from openinfer.runtime.manifest import StateRow
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size


def capacity_name(state: str, axis: int) -> str:
    """The run-time size that says how much memory an axis has."""
    return f"capacity.{state}.{axis}"


def dynamic_capacity_name(size: str) -> str:
    """The run-time size that bounds a dynamic one while the step is laid out."""
    return f"bound.{size}"


@dataclass(frozen=True)
class StatePlace:
    """A growing state as `nn.interface` describes it, with its place among the cells."""

    name: str
    number: int
    dtype: str
    axes: int
    tables: int
    base: tuple[Size, ...]
    limits: tuple[Size | None, ...]
    entry: tuple[Size, ...]
    value: int | float
    marks: bool
    open: bool
    """Whether an axis behind those of the table says that the dimensions have a value."""
    cell: int
    """Its first cell: an extent for each axis that is no matrix axis in a table, then as many at
    the start."""
    facts: int = 0
    """How many facts there are behind them, now and then at the start."""
    device: bool = False
    """Whether it lies in the memory of the device."""

    @property
    def counted(self) -> bool:
        """Whether the matrix axes have extents for each entry."""
        return 0 < self.tables < self.axes and not self.open

    @property
    def shared(self) -> int:
        """How many axes have one extent for the whole state."""
        return self.tables if self.counted else self.axes

    @property
    def words(self) -> list[tuple[int, int]]:
        """The cells that a failing step has put back: where each is now, and at the start."""
        facts = self.cell + 2 * self.shared
        return [
            *((self.cell + axis, self.cell + self.shared + axis) for axis in range(self.shared)),
            *((facts + fact, facts + self.facts + fact) for fact in range(self.facts)),
        ]

    def fact_cell(self, number: int) -> int:
        """The cell of what `nn.extent` calls this axis: they count on from the axes."""
        return self.cell + 2 * self.shared + number - self.axes

    def capacity(self, axis: int) -> Size:
        return Size.name(capacity_name(self.name, axis))

    @property
    def entry_count(self) -> Size:
        total = Size.of(1)
        for dim in self.entry:
            total = total * dim
        return total

    @property
    def slots(self) -> Size:
        """Entries that there is memory for."""
        total = Size.of(1)
        for axis in range(self.tables):
            total = total * self.capacity(axis)
        return total


@dataclass(frozen=True)
class StateLayout:
    """The cells of a program."""

    dynamic_sizes: tuple[str, ...]
    states: Mapping[str, StatePlace]
    """Growing states."""
    log: int
    """The cell with the length of the undo log."""

    @property
    def count(self) -> int:
        return self.log + 1

    @property
    def needed(self) -> bool:
        return bool(self.dynamic_sizes or self.states)


def layout_of(module: ModuleOp) -> StateLayout:
    """The layout that the interface of a module asks for."""
    sizes = strings(module, "dynamic_sizes")
    cell = len(sizes)
    states: dict[str, StatePlace] = {}
    for number, row in enumerate(read_rows(module, "states", StateRow)):
        if not row.axes:
            continue
        states[row.name] = place = StatePlace(
            row.name,
            number,
            row.dtype,
            len(row.axes),
            row.tables,
            tuple(Size.of(text) for text in row.base),
            tuple(Size.of(text) if text else None for text in row.limits),
            tuple(Size.of(text) for text in row.entry),
            row.value or 0,
            row.marks,
            row.open,
            cell,
            1 + len(row.dynamic_axes) if row.dynamic_axes else 0,
            row.device,
        )
        cell += 2 * (place.shared + place.facts)
    return StateLayout(tuple(sizes), states, cell)
