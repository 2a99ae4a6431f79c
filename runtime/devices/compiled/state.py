"""What survives a step of a compiled program: memory of growing states, extents, undo, snapshots.

`lowering/state_layout.py` says what the cells mean. The code never allocates: a step that
finds too little memory leaves, everything is put back, the memory grows, and the step runs again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from openinfer.runtime.devices.base import Block, Box, Memory
from openinfer.runtime.devices.compiled.growing import (
    Growing,
    facts_of,
    fill_outside,
    single_elements,
)
from openinfer.runtime.devices.compiled.undo_log import UndoLog
from openinfer.runtime.devices.failures import FAILURES
from openinfer.runtime.dtypes import DTYPES, DType
from openinfer.runtime.errors import InputError, StepError
from openinfer.runtime.manifest import Manifest, StateRow
from openinfer.runtime.sizes import MAX_SIZE, Size
from openinfer.runtime.slots import Slot, SlotKind
from openinfer.runtime.state import State, StateValue, over_limit
from openinfer.runtime.state_fetch import held_value
from openinfer.runtime.storage import AnyArray, first_value, to_values
from openinfer.runtime.tensors import Tensor

if TYPE_CHECKING:
    from openinfer.runtime.packages.base import Package

_FIRST_CAPACITY = 16


def _names(row: StateRow) -> set[str]:
    """The sizes that the shape of a variable is made of."""
    texts = (*row.entry, *row.base, *row.limits)
    return {name for text in texts if text for name in Size.of(text).names}


def _bytes(tensor: Tensor) -> AnyArray:
    return np.ascontiguousarray(tensor.storage).reshape(-1).view(np.uint8)


def _real(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that memory may have, for one that the sizes of a step make negative: steps that use
    the variable fail, others run."""
    return tuple(max(extent, 0) for extent in shape)


class CompiledState:
    """The persistent variables of one executor."""

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
        self._sized = [row for row in manifest.states if _names(row)]
        """The variables whose shape follows from the sizes of a step."""
        self.noted = bool(self._sized) or self._any_marks
        """Whether `begin` and `end` have anything to do."""
        self._touched: set[str] = set()
        """Those of them that steps have used: their shape stays."""
        self.growths = 0
        """How often memory grew."""

    @staticmethod
    def _shared(row: StateRow) -> int:
        counted = 0 < row.tables < len(row.axes) and not row.open
        return row.tables if counted else len(row.axes)

    @property
    def names(self) -> list[str]:
        return list(self._rows)

    def has_shape(self, name: str) -> bool:
        """Whether there is memory whose shape no other size can change."""
        return name in self._shapes and (name in self._touched or not _names(self._rows[name]))

    # Memory

    def prepare(self, sizes: Mapping[str, int]) -> None:
        """Memory for all states, now that the sizes are known; those of the first use stay.

        Raises StepError OI0608 when a size is another one than that.
        """
        for row in self._manifest.states:
            self.prepare_one(row.name, sizes)

    def prepare_one(self, name: str, sizes: Mapping[str, int]) -> None:
        """Memory for one state; see `prepare`."""
        for number, row in enumerate(self._manifest.states):
            if row.name != name:
                continue
            shape = tuple(Size.of(d).evaluate(sizes) for d in row.entry)
            base = tuple(Size.of(d).evaluate(sizes) for d in row.base)
            held = self._shapes.get(row.name)
            if held == (*base, *shape):
                return
            if held is not None and row.name in self._touched:
                raise self._other_shape(row, held, (*base, *shape))
            self._make(number, row, _real(shape), _real(base), sizes)
            self._shapes[row.name] = (*base, *shape)
            if row.name in self._pending:
                self._fill(row, self._pending.pop(row.name))

    def _other_shape(self, row: StateRow, held: tuple[int, ...], now: tuple[int, ...]) -> StepError:
        """The error of a step whose sizes give another shape than an earlier one."""
        declared = self._declared(row)
        first = len(now) - len(declared)

        def text(shape: tuple[int, ...]) -> str:
            shown = [str(extent) for extent in shape[first:]]
            for axis in [
                i for i, dim in enumerate(declared) if dim == "_" or i in row.dynamic_axes
            ]:
                shown[axis] = "_"
            return f"[{', '.join(shown)}]"

        return StepError(
            "OI0608",
            f"{row.name}: {row.dtype}[{', '.join(declared)}] is {text(now)} in this step, but holds "
            f"values for {text(held)} from an earlier one",
            hint="call reset() on the executor before a step with other sizes",
        )

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

    # A step

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

    def dynamic_sizes(self) -> dict[str, int]:
        """The sizes that the last step fixed."""
        return {size: int(self.cells[i]) for i, size in enumerate(self._manifest.dynamic_sizes)}

    def begin(self) -> None:
        """Notes what the code does not note itself."""
        for row in self._sized:
            if row.touched in self.dynamic_capacity:
                self.cells[self._manifest.dynamic_sizes.index(row.touched)] = 0
        if not self._any_marks:
            return
        marked = [g.marks for g in self._growing.values() if g.row.marks]
        if [id(marks) for marks, _ in self._kept] != [id(marks) for marks in marked]:
            self._kept = [(marks, marks.copy()) for marks in marked]
            return
        for marks, before in self._kept:
            before[:] = marks

    def end(self) -> None:
        """A step ended well: what it has used keeps its shape from now on."""
        for row in self._sized:
            if row.touched in self.dynamic_capacity:
                if self.cells[self._manifest.dynamic_sizes.index(row.touched)]:
                    self._touched.add(row.name)
            elif not row.touched:
                self._touched.add(row.name)

    def undo(self, kept: int | None = None) -> None:
        """Everything as before the step that failed; `kept` as `LoadedProgram.kept_log` has it."""
        states = {growing.number: growing for growing in self._growing.values()}
        self.log.replay(int(self.cells[self._log_cell]), states, kept)
        self.cells[self._log_cell] = 0
        for growing in self._growing.values():
            self._forget_new(growing)
        for array, before in self._kept:
            array[:] = before

    def _forget_new(self, growing: Growing) -> None:
        """What lies outside of the extents at the start gets the initial content again."""
        cell, shared = growing.row.cell, growing.shared
        start = [int(n) for n in self.cells[cell + shared : cell + 2 * shared]]
        filler = growing.filler()
        # How far the step got nobody knows: what it reset later has no extent any more.
        fill_outside(growing.memory, growing.box(()), 0, start, filler)
        if growing.counted:
            extents = self._matrix_extents(growing)
            extents[..., 0, :] = extents[..., 1, :]
            for index in product(*(range(n) for n in start)):
                inside = extents[index][1].tolist()
                fill_outside(growing.memory, growing.box(index), len(index), inside, filler)
        for now, before in growing.words:
            self.cells[now] = self.cells[before]

    def give_up(self) -> bool:
        """A step failed for good: what it made room for need not be what the next one needs. Whether
        memory has moved."""
        found = False
        for growing in self._growing.values():
            exact = [axis for axis in range(len(growing.capacity)) if growing.exact(axis)]
            large = any(growing.capacity[axis] > 1 for axis in exact)
            if large and self.dynamic_dims(growing.row.name) is None:
                capacity = [1 if axis in exact else n for axis, n in enumerate(growing.capacity)]
                self._new_memory(growing, capacity)
                found = True
        return found

    def provide(self, kind: str, a: int, b: int) -> None:
        """The memory that a step asked for. Raises StepError OI0609 beyond the limit."""
        if kind == "dynamic":
            size = self._manifest.dynamic_sizes[b]
            if a > MAX_SIZE:
                raise MemoryError
            self.dynamic_capacity[size] = min(max(a, 2 * self.dynamic_capacity[size]), MAX_SIZE)
        elif kind == "log":
            self.log.grow(a)
            self.growths += 1
        else:
            number, axis = divmod(b, 64)
            name = self._manifest.states[number].name
            self._enlarge(self._growing[name], axis, a)

    def describe(self, kind: str, a: int, b: int, place: str = "", where: int = 0) -> str:
        """The message of a failure; `where` is an axis of a state plus 1, `place` says another one."""
        failure, state = FAILURES[kind], ""
        variable = self._manifest.variables[a].name if "{variable}" in failure.message else ""
        if where:
            number, position = divmod(where - 1, 64)
            row = self._manifest.states[number]
            state, place = f" of {row.name}", f" of index {row.axes[position]} of {row.name}"
        if failure.held:
            return self._resized(a, *divmod(b, 64))
        axis = ""
        if failure.state:
            number, position = divmod(b, 64)
            row = self._manifest.states[number]
            index = row.axes[position]
            axis = f"index {index} = {a} of {row.name}"
            limit = self._growing[row.name].limits[position] if kind == "fixed" else None
            if limit is not None and position >= row.tables:
                return f"index {index} of {row.name} would reach extent {a}, its fixed bound is {limit}"
            if limit is not None:
                axis = f"index {index} = {a - 1} of {row.name}"
                return f"{axis} is outside 0..{limit}, the bound of @fixed({index}={limit})"
        return failure.message.format(
            a=a, b=b, axis=axis, place=place, state=state, variable=variable
        )

    def _resized(self, now: int, number: int, axis: int) -> str:
        """The message of a dimension that names scalars and has another value than it had."""
        row = self._manifest.states[number]
        declared = self._declared(row)
        held = self.dynamic_dims(row.name)
        before = "of another size, from a snapshot" if held is None else f"for {held[axis]}"
        return (
            f"{row.name}: {row.dtype}[{', '.join(declared)}] has dimension {declared[axis]} = {now} "
            f"here, but holds values {before}"
        )

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

    # Values

    def waiting(self, name: str, index: tuple[int, ...] | None) -> Tensor | None:
        """What a snapshot holds of a variable that waits for sizes; None where that does not say.

        Raises InputError OI0547 for an entry that is not there, OI0548 for one that has no shape.
        """
        value, row = self._pending.get(name), self._rows[name]
        if value is None:
            return None
        counted = 0 < row.tables < len(row.axes) and not row.open
        first = first_value(DTYPES[row.dtype], row.value)
        return held_value(name, value, index, first, counted=counted)

    def value(
        self, name: str, index: tuple[int, ...] | None, dynamic: Mapping[int, int] | None = None
    ) -> Tensor:
        """A variable, or an entry of a table. The storage is the state's own where it can be.

        `dynamic` are the dimensions that name scalars, for a variable that no step has touched. Raises
        InputError OI0547 for an entry that is not there, OI0548 for one that has no shape, OI0506 for
        what has no value.
        """
        row = self._rows[name]
        dtype = DTYPES[row.dtype]
        if not row.axes:
            held = self._held[name]
            raw = self._memory_of(row).read(held, 0, held.nbytes)
            return self._tensor(dtype, self._shapes[name], raw)
        growing = self._growing[name]
        extents = self._extents(growing)
        dynamic = self.dynamic_dims(name) or dynamic or {}
        if row.open and not extents[row.tables]:
            if "_" in self._declared(row):
                raise InputError(
                    "OI0506",
                    f"{name} has an open dimension and was not written yet",
                    hint="write it before it is read",
                )
            return self._untouched(growing, index, dynamic)
        if row.open and index is None:
            shape = (*extents[: row.tables], *extents[row.tables + 1 :])
            return self._gathered(growing, self._open_part(growing, ()), shape)
        if index is None and row.dynamic_axes and not growing.counted:
            return self._entry(growing, (), dynamic)
        if index is None and not growing.counted:
            return self._gathered(growing, growing.box((), extents), (*extents, *growing.entry))
        if index is None:
            indices = list(product(*(range(n) for n in extents)))
            shapes = {self._matrix_shape(growing, i, dynamic) for i in indices} or {
                self._started(growing, dynamic)
            }
            if len(shapes) > 1:
                raise InputError(
                    "OI0548",
                    f"the matrices of {name} have different shapes",
                    hint=f"fetch {name}[i] one by one",
                )
            stacked = [self._entry(growing, i, dynamic).storage for i in indices]
            shape = (*extents, *shapes.pop())
            storage = np.stack(stacked) if stacked else np.zeros(0, np.dtype(dtype.storage))
            if dtype.packed:
                values = [self._entry(growing, i, dynamic).values() for i in indices]
                joined = np.stack(values) if values else np.zeros(0, np.dtype(dtype.value))
                return Tensor.from_values(dtype, joined.reshape(shape))
            return Tensor(dtype, shape, storage.reshape(shape))
        self._check_entry(growing, index)
        return self._entry(growing, index, dynamic)

    def _check_entry(self, growing: Growing, index: tuple[int, ...]) -> None:
        extents = self._extents(growing)
        if len(index) != growing.tables or any(not 0 <= i < n for i, n in zip(index, extents)):
            shown = ", ".join(f"0..{n}" for n in extents[: growing.tables])
            raise InputError(
                "OI0547",
                f"{growing.row.name}{list(index)} is not there: its indices are {shown or 'none'}",
                hint="fetch an entry that a step has touched",
            )

    def _untouched(
        self, growing: Growing, index: tuple[int, ...] | None, dynamic: Mapping[int, int]
    ) -> Tensor:
        """A variable that no step has filled, with dynamic dimensions: its first content."""
        row, tables = growing.row, growing.tables
        if index is not None:
            self._check_entry(growing, index)
        first = growing.base[tables + 1 :]
        shape = tuple(dynamic.get(axis, extent) for axis, extent in enumerate(first))
        if index is None:
            shape = (*self._extents(growing)[:tables], *shape)
        found = self._first(row, shape)
        if found.shape != shape:
            raise InputError(
                "OI0506",
                f"{row.name} is {list(shape)}, but its tensor in the model is {list(found.shape)}",
                hint="make the declaration fit the model",
            )
        return found

    def _declared(self, row: StateRow) -> list[str]:
        """The dimensions of a variable as they are written."""
        return next(v.dims for v in self._manifest.variables if v.name == row.name)

    def _extents(self, growing: Growing) -> list[int]:
        cell = growing.row.cell
        return [int(n) for n in self.cells[cell : cell + growing.shared]]

    def _matrix_shape(
        self, growing: Growing, index: tuple[int, ...], dynamic: Mapping[int, int]
    ) -> tuple[int, ...]:
        """The shape of a growing matrix; `dynamic` where no step has made it as large."""
        if growing.counted:
            extents = [int(n) for n in self._matrix_extents(growing)[index][0]]
        else:
            extents = self._extents(growing)
        if self._is_there(growing, extents):
            return tuple(extents)
        return self._started(growing, dynamic)

    @staticmethod
    def _is_there(growing: Growing, shape: Sequence[int]) -> bool:
        """Whether a step, or a snapshot, has made a matrix as large as it is at least."""
        dynamic = growing.row.dynamic_axes
        return not dynamic or any(shape[axis] for axis in dynamic)

    def _restored(self, growing: Growing, index: tuple[int, ...]) -> bool:
        """Whether a matrix whose dynamic dimensions no step has fixed is there, from a snapshot."""
        if not growing.counted:
            return self._is_there(growing, self._extents(growing))
        return self._is_there(growing, self._matrix_extents(growing)[index][0])

    def has_matrices(self, name: str, index: tuple[int, ...] | None) -> bool:
        """Whether a step, or a snapshot, has made all matrices that are asked for: they say
        themselves how large they are."""
        growing = self._growing.get(name)
        if growing is None or growing.row.open or growing.tables == len(growing.capacity):
            return False
        places = [i for i in self.entries(name) if index is None or i == index]
        return bool(places) and all(self._restored(growing, place) for place in places)

    @staticmethod
    def _started(growing: Growing, dynamic: Mapping[int, int]) -> tuple[int, ...]:
        """The shape of a matrix that has not grown."""
        first = growing.base[growing.tables :]
        return tuple(dynamic.get(axis, extent) for axis, extent in enumerate(first))

    def _entry(
        self, growing: Growing, index: tuple[int, ...], dynamic: Mapping[int, int] | None = None
    ) -> Tensor:
        if growing.tables == len(growing.capacity):
            raw = growing.memory.gather(growing.box(index))
            return self._tensor(growing.dtype, growing.entry, raw)
        if growing.row.open:
            shape = tuple(self._extents(growing)[growing.tables + 1 :])
            return self._gathered(growing, self._open_part(growing, index), shape)
        shape = self._matrix_shape(growing, index, dynamic or {})
        if any(n > most for n, most in zip(shape, growing.capacity[growing.tables :])):
            # No step has made it so large: nothing is in it.
            return self._first(growing.row, shape)
        return self._gathered(growing, growing.box(index, shape), shape)

    def _open_part(self, growing: Growing, index: tuple[int, ...]) -> Box:
        """The place of an entry with open dimensions, or of all entries."""
        extents = self._extents(growing)
        lead = () if index else extents[: growing.tables]
        return growing.box(index, (*lead, 1, *extents[growing.tables + 1 :]))

    def _gathered(self, growing: Growing, part: Box, shape: tuple[int, ...]) -> Tensor:
        """Some entries as one tensor; packed entries that end within a byte are joined."""
        raw = growing.memory.gather(part)
        dtype, count = growing.dtype, prod(growing.entry)
        if not dtype.packed or count * dtype.bits % 8 == 0:
            return self._tensor(dtype, shape, raw)
        each = raw.reshape(-1, part.entry)
        values = [to_values(dtype, entry, growing.entry) for entry in each]
        joined = np.stack(values) if values else np.zeros(0, np.dtype(dtype.value))
        return Tensor.from_values(dtype, joined.reshape(shape))

    @staticmethod
    def _tensor(dtype: DType, shape: tuple[int, ...], raw: AnyArray) -> Tensor:
        nbytes = dtype.nbytes(prod(shape))
        storage = raw[:nbytes].view(np.dtype(dtype.storage))
        return Tensor(dtype, shape, storage if dtype.packed else storage.reshape(shape))

    # Snapshots

    def snapshot(self) -> State:
        """All that was touched, in memory of its own."""
        values: dict[str, StateValue] = {}
        unused = {row.name for row in self._sized} - self._touched
        for name, row in self._rows.items():
            dtype = DTYPES[row.dtype]
            if name in self._pending:
                values[name] = self._pending[name].copy()
                continue
            entries: dict[tuple[int, ...], Tensor] = {}
            extents: tuple[int, ...] = ()
            if name in self._shapes and name not in unused:
                if not row.axes:
                    entries[()] = self.value(name, None)
                else:
                    growing = self._growing[name]
                    extents = tuple(self._extents(growing)[: growing.tables])
                    if row.open and not self._extents(growing)[growing.tables]:
                        values[name] = StateValue(dtype, extents, {})
                        continue
                    dynamic = self.dynamic_dims(name)
                    for index in product(*(range(n) for n in extents)):
                        if (
                            row.dynamic_axes
                            and dynamic is None
                            and not self._restored(growing, index)
                        ):
                            continue
                        if not row.marks or growing.marks[growing.place(index)]:
                            entries[index] = self._entry(growing, index, dynamic)
            else:
                extents = tuple(int(Size.of(b).constant or 0) for b in row.base[: row.tables])
            values[name] = StateValue(dtype, extents, entries).copy()
        return State(values)

    def take_facts(self, other: CompiledState) -> None:
        """After `restore` of a snapshot of the other one: dimensions that it has fixed stay so.

        Raises StepError OI0608 where they are others in this step, also of a table without entries.
        """
        for name in other._touched:
            held, now = other._shapes.get(name), self._shapes.get(name)
            if held is not None and now is not None and held != now:
                raise self._other_shape(self._rows[name], held, now)
            self._touched.add(name)
        for name, growing in self._growing.items():
            if name in other._growing:
                for cell in growing.facts:
                    self.cells[cell] = other.cells[cell]

    def restore(self, state: State, sizes: Mapping[str, int]) -> None:
        """Takes over a snapshot whose shapes were checked; where something fails, all is as before."""
        held = (self._pending, self._touched, self._held, self._growing, self._shapes)
        before = [kind.copy() for kind in held]
        cells = self.cells.copy()
        try:
            self._take_over(state, sizes)
        except BaseException:
            self.reset()
            for kind, content in zip(held, before):
                kind.update(content)  # pyright: ignore[reportArgumentType, reportCallIssue]
            self.cells[:] = cells
            raise

    def _take_over(self, state: State, sizes: Mapping[str, int]) -> None:
        known, own = dict(sizes), dict[str, dict[str, int]]()
        for row in self._manifest.states:
            own[row.name] = found = dict[str, int]()
            for tensor in state[row.name].entries.values():
                dims = row.entry if not row.axes or row.tables == len(row.axes) else []
                if row.open:
                    dims = row.base[row.tables + 1 :]
                for dim, extent in zip(dims, tensor.shape):
                    name = Size.of(dim).single_name
                    if name is not None:
                        found.setdefault(name, extent)
                        known.setdefault(name, extent)
        self.reset()
        for row in self._manifest.states:
            value = state[row.name]
            if _names(row) - known.keys():
                # The next step says what the sizes are.
                self._pending[row.name] = value
                continue
            # What an entry says counts for its variable, another step may have made the others.
            self.prepare_one(row.name, {**known, **own[row.name]})
            self._fill(row, value)

    def _fill(self, row: StateRow, value: StateValue) -> None:
        """New memory gets the content of a snapshot."""
        # The extents of a `@fixed` index are there without any use.
        if value.entries:
            self._touched.add(row.name)
        if row.axes:
            self._restore_growing(self._growing[row.name], value)
            return
        for tensor in value.entries.values():
            self._memory_of(row).write(self._held[row.name], 0, _bytes(tensor))

    def _restore_growing(self, growing: Growing, value: StateValue) -> None:
        cell, tables = growing.row.cell, growing.tables
        for axis, extent in enumerate(value.extents):
            if extent > growing.capacity[axis]:
                self._enlarge(growing, axis, extent)
            self.cells[cell + axis] = extent
        if growing.row.open:
            self._restore_open(growing, value)
            return
        for index, tensor in value.entries.items():
            if tables == len(growing.capacity):
                growing.memory.scatter(growing.box(index), _bytes(tensor))
            else:
                for position, extent in enumerate(tensor.shape):
                    if extent > growing.capacity[tables + position]:
                        self._enlarge(growing, tables + position, extent)
                growing.memory.scatter(growing.box(index, tensor.shape), single_elements(tensor))
                if growing.counted:
                    self._matrix_extents(growing)[index][0] = tensor.shape
                else:
                    self.cells[cell : cell + len(tensor.shape)] = tensor.shape
            if growing.row.marks:
                growing.marks[growing.place(index)] = 1

    def _restore_open(self, growing: Growing, value: StateValue) -> None:
        cell, settled = growing.row.cell, growing.tables
        for index, tensor in value.entries.items():
            for axis, extent in enumerate(tensor.shape, settled + 1):
                if extent > growing.capacity[axis]:
                    self._enlarge(growing, axis, extent)
                self.cells[cell + axis] = extent
            self.cells[cell + settled] = 1
            dims = (1, *(tensor.shape[axis] for axis in growing.row.dynamic_axes))
            for fact, number in zip(growing.facts, dims):
                self.cells[fact] = number
            part = growing.box((*index, 0), tensor.shape)
            growing.memory.scatter(part, single_elements(tensor))
            if growing.row.marks:
                growing.marks[growing.place(index)] = 1

    def reset(self) -> None:
        """As a new executor has it; memory comes with the next step."""
        self._pending.clear()
        self._touched.clear()
        self._held.clear()
        self._growing.clear()
        self._shapes.clear()
        self.cells[:] = 0

    def entries(self, name: str) -> Iterator[tuple[int, ...]]:
        """The indices of a table that are in use."""
        growing = self._growing.get(name)
        if growing is not None:
            yield from product(*(range(n) for n in self._extents(growing)[: growing.tables]))
