"""The memory of a compiled program's persistent variables: made, enlarged, and where the code finds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from openinfer.runtime.devices.base import Block, Memory
from openinfer.runtime.devices.compiled.growing import (
    Growing,
    facts_of,
)
from openinfer.runtime.devices.compiled.undo_log import UndoLog
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import StepError
from openinfer.runtime.manifest import Manifest, StateRow
from openinfer.runtime.sizes import Size
from openinfer.runtime.slots import Slot, SlotKind
from openinfer.runtime.state import StateValue, over_limit
from openinfer.runtime.storage import AnyArray, first_value
from openinfer.runtime.tensors import Tensor

if TYPE_CHECKING:
    from openinfer.runtime.packages.base import Package


_FIRST_CAPACITY = 16


def size_names(row: StateRow) -> set[str]:
    """The sizes that the shape of a variable is made of."""
    texts = (*row.entry, *row.base, *row.limits)
    return {name for text in texts if text for name in Size.of(text).names}


class StateMemory:
    """Blocks, extents and capacities of the persistent variables of one executor."""

    def __init__(
        self,
        manifest: Manifest,
        package: Package | None,
        memory: Memory,
        max_bytes: int,
        device_memory: Memory | None = None,
    ) -> None:
        """`device_memory` is where the variables are that the manifest puts there."""
        self._manifest = manifest
        self._memory = memory
        self._device_memory = device_memory if device_memory is not None else memory
        self._package = package
        self._max_bytes = max_bytes
        self._rows = {row.name: row for row in manifest.states}
        cells = max(
            (r.cell + 2 * (self._shared(r) + facts_of(r)) for r in manifest.states if r.cell >= 0),
            default=0,
        )
        self.cells = np.zeros(max(cells, len(manifest.dynamic_sizes)) + 1, np.int64)
        self._log_cell = len(self.cells) - 1
        self.dynamic_capacity = dict.fromkeys(manifest.dynamic_sizes, _FIRST_CAPACITY)
        self._nothing: Block = memory.allocate(0)
        logs_there = any(row.device and row.axes for row in manifest.states)
        self.log = UndoLog(memory, self._device_memory if logs_there else None)
        self._held: dict[str, Block] = {}
        self._growing: dict[str, Growing] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._kept: list[tuple[AnyArray, AnyArray]] = []
        self._any_marks = any(row.marks for row in manifest.states)
        self._pending: dict[str, StateValue] = {}
        """What a snapshot holds of variables that wait for the sizes of the next step."""
        self._sized = [row for row in manifest.states if size_names(row)]
        """The variables whose shape follows from the sizes of a step."""
        self.noted = bool(self._sized) or self._any_marks
        """Whether `begin` and `end` have anything to do."""
        self._touched: set[str] = set()
        """Those of them that steps have used: their shape stays."""
        self.growths: int = 0
        """How often memory grew."""

    @staticmethod
    def _shared(row: StateRow) -> int:
        counted = 0 < row.tables < len(row.axes) and not row.open
        return row.tables if counted else len(row.axes)

    @property
    def names(self) -> list[str]:
        return list(self._rows)

    def _memory_of(self, row: StateRow) -> Memory:
        return self._device_memory if row.device else self._memory

    def _make(
        self,
        number: int,
        row: StateRow,
        shape: tuple[int, ...],
        base: tuple[int, ...],
        sizes: Mapping[str, int],
    ) -> None:
        dtype = DTYPES[row.dtype]
        if not row.axes:
            first = self._first(row, shape)
            memory = self._memory_of(row)
            own = memory.allocate(max(first.nbytes, 1))
            memory.write(own, 0, first.storage.reshape(-1).view(np.uint8))
            self._held[row.name] = own
            return
        limits = tuple(Size.of(t).evaluate(sizes) if t else None for t in row.limits)
        capacity = [
            max(start, 1) + _FIRST_CAPACITY if limit is None else max(min(limit, start + 64), 1)
            for start, limit in zip(base, limits)
        ]
        memory = self._memory_of(row)
        growing = Growing(row, number, dtype, shape, base, limits, capacity, memory, self._nothing)
        for axis in range(len(capacity)):
            if row.open and row.dynamic_axes and limits[axis] is None:
                # How large the entries are nobody knows yet.
                capacity[axis] = 1
        self._check_limit(growing, capacity)
        self._growing[row.name] = growing
        self._clear(growing)

    def _first(self, row: StateRow, shape: tuple[int, ...]) -> Tensor:
        dtype = DTYPES[row.dtype]
        if row.sources and self._package is not None:
            return self._package.tensor_as(row.sources[0], dtype)
        values = np.full(shape, first_value(dtype, row.value), np.dtype(dtype.value))
        return Tensor.from_values(row.dtype, values)

    def _new_memory(self, growing: Growing, capacity: list[int]) -> None:
        """Memory with the initial content, all of it or none: Raises MemoryError, or is ended by Ctrl-C."""
        new = self._with_memory(growing, capacity)
        growing.block, growing.capacity = new.block, capacity

    def _with_memory(self, growing: Growing, capacity: list[int]) -> Growing:
        """The state with a block of its own for a capacity, with the initial content."""
        block = growing.memory.allocate(growing.total_bytes(capacity))
        new = replace(growing, block=block, capacity=capacity)
        filler = growing.filler()
        if filler.any():
            growing.memory.fill(new.box(()), filler)
        return new

    def _clear(self, growing: Growing) -> None:
        """The state as at the start, in new memory."""
        self._new_memory(growing, growing.capacity)
        content = [*growing.base[: growing.shared], *(0 for _ in growing.facts)]
        for (now, before), word in zip(growing.words, content):
            self.cells[now] = self.cells[before] = word
        if growing.counted:
            growing.counts = np.zeros(self._count_words(growing, growing.capacity), np.int64)
            self._matrix_extents(growing)[...] = growing.base[growing.tables :]
        if growing.row.marks:
            growing.marks = np.zeros(growing.slots, np.uint8)

    @staticmethod
    def _count_words(growing: Growing, capacity: Sequence[int]) -> int:
        return 2 * (len(capacity) - growing.tables) * prod(capacity[: growing.tables])

    def _matrix_extents(self, growing: Growing) -> AnyArray:
        """[table capacities…, now or at the start, matrix axes]"""
        tables = growing.capacity[: growing.tables]
        return growing.counts.reshape(*tables, 2, len(growing.capacity) - growing.tables)

    def _check_limit(self, growing: Growing, capacity: Sequence[int]) -> None:
        others = sum(g.block.nbytes for g in self._growing.values() if g is not growing)
        held = sum(a.nbytes for a in self._held.values())
        # Entries without bytes count, too: they are numbered, and listed by a snapshot.
        slots = prod(capacity[: growing.tables]) if growing.tables else 0
        wanted = others + held + max(growing.total_bytes(capacity), slots)
        if wanted > self._max_bytes:
            raise over_limit(growing.row.name, wanted, self._max_bytes)

    def _enlarge(self, growing: Growing, axis: int, need: int) -> None:
        """More capacity along an axis; contents stay where their indices say."""
        limit = growing.limits[axis]
        capacity = list(growing.capacity)
        if growing.exact(axis):
            capacity[axis] = need
        else:
            capacity[axis] = max(need, 2 * capacity[axis])
        if limit is not None:
            capacity[axis] = max(need, min(capacity[axis], limit))
        try:
            self._check_limit(growing, capacity)
        except StepError:
            capacity[axis] = need
            self._check_limit(growing, capacity)
        old_capacity = growing.capacity
        extents = self._matrix_extents(growing) if growing.counted else None
        marks = growing.marks.reshape(old_capacity[: growing.tables]) if growing.row.marks else None
        grown = self._with_memory(growing, capacity)
        growing.memory.copy(growing.box(()), grown.box((), old_capacity))
        tables = tuple(slice(0, n) for n in old_capacity[: growing.tables])
        if extents is not None:
            grown.counts = np.zeros(self._count_words(growing, capacity), np.int64)
            self._matrix_extents(grown)[...] = growing.base[growing.tables :]
            self._matrix_extents(grown)[tables] = extents
        if marks is not None:
            grown.marks = np.zeros(grown.slots, np.uint8)
            grown.marks.reshape(capacity[: growing.tables])[tables] = marks
        # All at once: what ends this before, Ctrl-C too, leaves everything as it was.
        growing.block, growing.capacity = grown.block, grown.capacity
        growing.counts, growing.marks = grown.counts, grown.marks
        self.growths += 1

    def word(self, slot: Slot) -> int:
        """What a slot of the frame holds: an address or a length."""
        match slot.kind:
            case SlotKind.CELLS:
                return self.cells.ctypes.data
            case (
                SlotKind.LOG
                | SlotKind.LOG_LENGTH
                | SlotKind.DEVICE_LOG
                | SlotKind.DEVICE_LOG_LENGTH
            ):
                return self.log.word(slot)
            case SlotKind.HELD:
                return self._memory.address(self._held[slot.name])
            case SlotKind.DEVICE_HELD:
                return self._device_memory.address(self._held[slot.name])
            case SlotKind.STATE | SlotKind.DEVICE_STATE:
                growing = self._growing[slot.name]
                return growing.memory.address(growing.block)
            case SlotKind.STATE_LENGTH | SlotKind.DEVICE_STATE_LENGTH:
                return self._growing[slot.name].block.nbytes
            case SlotKind.COUNTS:
                return self._growing[slot.name].counts.ctypes.data
            case SlotKind.COUNTS_LENGTH:
                return self._growing[slot.name].counts.size
            case SlotKind.MARKS:
                return self._growing[slot.name].marks.ctypes.data
            case SlotKind.MARKS_LENGTH:
                return self._growing[slot.name].marks.size
            case _:
                raise ValueError(f"{slot.kind} is no part of the state")

    def capacities(self) -> dict[str, int]:
        """The run-time sizes that the plan and the code know capacities by."""
        found = {f"bound.{size}": n for size, n in self.dynamic_capacity.items()}
        for name, growing in self._growing.items():
            for axis, capacity in enumerate(growing.capacity):
                found[f"capacity.{name}.{axis}"] = capacity
        return found

    def dynamic_axes(self, name: str) -> list[int]:
        """The dimensions of a variable that name scalars."""
        return self._rows[name].dynamic_axes

    def dynamic_dims(self, name: str) -> dict[int, int] | None:
        """The dimensions that name scalars, with their values; None before a step has fixed them."""
        growing = self._growing.get(name)
        if growing is None or not growing.facts:
            return None
        touched, *values = (int(self.cells[cell]) for cell in growing.facts)
        return dict(zip(growing.row.dynamic_axes, values)) if touched else None

    def _declared(self, row: StateRow) -> list[str]:
        """The dimensions of a variable as they are written."""
        return next(v.dims for v in self._manifest.variables if v.name == row.name)

    def _extents(self, growing: Growing) -> list[int]:
        cell = growing.row.cell
        return [int(n) for n in self.cells[cell : cell + growing.shared]]

    def entries(self, name: str) -> Iterator[tuple[int, ...]]:
        """The indices of a table that are in use."""
        growing = self._growing.get(name)
        if growing is not None:
            yield from product(*(range(n) for n in self._extents(growing)[: growing.tables]))
