"""Where a step finds what survives it: arguments, cells, capacities.

The cells are 64-bit words: the late sizes, then for each state the extents of its axes now and as
they were when the step began, and its facts in the same way, then the length of the undo log. Facts
are there where dimensions name scalars: whether a step has touched the state, then a word for each
such dimension. A matrix in a table has its extents in a buffer of its own, two words for each axis of
each entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Attribute

from openinfer.dialects.nn import interface_of
from openinfer.lowering.interface import strings
from openinfer.runtime.sizes import Size


def capacity_name(state: str, axis: int) -> str:
    """The run-time size that says how much memory an axis has."""
    return f"capacity.{state}.{axis}"


def late_capacity_name(size: str) -> str:
    """The run-time size that bounds a late one while the step is laid out."""
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

    late: tuple[str, ...]
    states: Mapping[str, StatePlace]
    """Growing states."""
    log: int
    """The cell with the length of the undo log."""

    @property
    def count(self) -> int:
        return self.log + 1

    @property
    def needed(self) -> bool:
        return bool(self.late or self.states)


def layout_of(module: ModuleOp) -> StateLayout:
    """The layout that the interface of a module asks for."""
    sizes = strings(module, "late")
    rows = interface_of(module).get("states")
    cell = len(sizes)
    states: dict[str, StatePlace] = {}
    given: tuple[Attribute, ...] = rows.data if isinstance(rows, ArrayAttr) else ()
    for number, row in enumerate(given):
        assert isinstance(row, DictionaryAttr)
        axes = _texts(row.data["axes"])
        if not axes:
            continue
        value: Attribute | None = row.data.get("value")
        late = row.data.get("late")
        dims = len(late.data) if isinstance(late, ArrayAttr) else 0
        place = StatePlace(
            _text(row.data["name"]),
            number,
            _text(row.data["dtype"]),
            len(axes),
            _int(row.data["tables"]),
            tuple(Size.of(t) for t in _texts(row.data["base"])),
            tuple(Size.of(t) if t else None for t in _texts(row.data["limits"])),
            tuple(Size.of(t) for t in _texts(row.data["entry"])),
            value.value.data if isinstance(value, IntegerAttr | FloatAttr) else 0,
            bool(_int(row.data["marks"])),
            "open" in row.data and bool(_int(row.data["open"])),
            cell,
            1 + dims if dims else 0,
        )
        states[place.name] = place
        cell += 2 * (place.shared + place.facts)
    return StateLayout(tuple(sizes), states, cell)


def _texts(value: Attribute) -> list[str]:
    assert isinstance(value, ArrayAttr)
    return [item.data for item in value if isinstance(item, StringAttr)]  # pyright: ignore


def _text(value: Attribute) -> str:
    assert isinstance(value, StringAttr)
    return value.data


def _int(value: Attribute) -> int:
    assert isinstance(value, IntegerAttr)
    return value.value.data
