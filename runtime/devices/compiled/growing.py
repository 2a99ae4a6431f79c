"""The memory of one growing state of a compiled program: dense up to a capacity of each axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from math import prod

import numpy as np

from openinfer.runtime.devices.base import Block, Box, Memory
from openinfer.runtime.dtypes import DType
from openinfer.runtime.manifest import StateRow
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.storage import AnyArray, first_value, to_storage
from openinfer.runtime.tensors import Tensor


def facts_of(row: StateRow) -> int:
    """How many facts there are of a variable: whether a step has fixed its dynamic dimensions, and
    their values."""
    return 1 + len(row.dynamic_axes) if row.dynamic_axes else 0


@dataclass
class Growing:
    """One growing state: its block, dense up to `capacity`."""

    row: StateRow
    number: int
    dtype: DType
    entry: tuple[int, ...]
    base: tuple[int, ...]
    limits: tuple[int | None, ...]
    capacity: list[int]
    memory: Memory
    """Where its block is."""
    block: Block
    counts: AnyArray = field(default_factory=lambda: np.zeros(0, np.int64))
    marks: AnyArray = field(default_factory=lambda: np.zeros(0, np.uint8))

    @property
    def tables(self) -> int:
        return self.row.tables

    @property
    def counted(self) -> bool:
        """Whether the matrix axes have extents for each entry."""
        return 0 < self.tables < len(self.capacity) and not self.row.open

    @property
    def shared(self) -> int:
        return self.tables if self.counted else len(self.capacity)

    @property
    def slots(self) -> int:
        """Entries that there is memory for."""
        return prod(self.capacity[: self.tables])

    @property
    def words(self) -> list[tuple[int, int]]:
        """The cells of extents and facts: where each is now, and at the start of the step."""
        facts = self.facts
        count = len(facts)
        return [
            *((self.row.cell + i, self.row.cell + self.shared + i) for i in range(self.shared)),
            *((cell, cell + count) for cell in facts),
        ]

    @property
    def facts(self) -> range:
        """The cells that say whether a step has fixed the dynamic dimensions, and their values."""
        first = self.row.cell + 2 * self.shared
        return range(first, first + facts_of(self.row))

    def exact(self, axis: int) -> bool:
        """Whether an axis gets the length of a dynamic dimension once and for all."""
        return self.row.open and axis - self.tables - 1 in self.row.dynamic_axes

    def entry_bytes(self) -> int:
        return self.dtype.nbytes(prod(self.entry))

    def total_bytes(self, capacity: Sequence[int]) -> int:
        return prod(capacity) * self.entry_bytes()

    def box(self, index: Sequence[int], extents: Sequence[int] | None = None) -> Box:
        """The entries of a part of the block: one at each of the leading indices, then so many from the
        start of each axis (None: all that there is memory for)."""
        capacity = tuple(self.capacity)
        rest = capacity[len(index) :] if extents is None else tuple(extents)
        first = (*index, *[0] * len(rest))
        return Box(self.block, capacity, self.entry_bytes(), first, (*[1] * len(index), *rest))

    def filler(self) -> AnyArray:
        """The bytes of an entry with the initial content."""
        values = np.full(
            self.entry, first_value(self.dtype, self.row.value), np.dtype(self.dtype.value)
        )
        return np.ascontiguousarray(to_storage(self.dtype, values)).reshape(-1).view(np.uint8)

    def place(self, index: Sequence[int]) -> int:
        """The number of an entry of the table."""
        at = 0
        for i, capacity in zip(index, self.capacity):
            at = at * capacity + i
        return at


def single_elements(tensor: Tensor) -> AnyArray:
    """The bytes of a tensor element by element: one that is packed has a byte of its own."""
    if not tensor.dtype.packed:
        return np.ascontiguousarray(tensor.storage).reshape(-1).view(np.uint8)
    single = [Tensor.from_values(tensor.dtype, value) for value in tensor.values().flat]
    return np.array([t.storage[0] for t in single], np.uint8)


def fill_outside(
    memory: Memory, whole: Box, lead: int, used: Sequence[int], filler: AnyArray
) -> None:
    """Initial content everywhere in a box of whole axes, but where the axes behind the first `lead` ones are
    below `used`."""
    for axis, inside in enumerate(used, lead):
        first, extents = list(whole.first), list(whole.extents)
        extents[lead:axis] = used[: axis - lead]
        first[axis], extents[axis] = inside, max(whole.extents[axis] - inside, 0)
        memory.fill(whole._replace(first=tuple(first), extents=tuple(extents)), filler)
