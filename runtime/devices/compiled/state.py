"""What survives a step of a compiled program: memory of growing states, extents, undo, snapshots.

`lowering/state_layout.py` says what the cells mean. The code never allocates: a step that
finds too little memory leaves, everything is put back, the memory grows, and the step runs again.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np

from openinfer.runtime.devices.compiled.growing import (
    Growing,
    fill_outside,
    single_elements,
)
from openinfer.runtime.devices.compiled.state_memory import size_names
from openinfer.runtime.devices.compiled.state_values import StateValues
from openinfer.runtime.devices.failures import FAILURES
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import StepError
from openinfer.runtime.manifest import StateRow
from openinfer.runtime.sizes import MAX_SIZE, Size
from openinfer.runtime.state import State, StateValue
from openinfer.runtime.storage import AnyArray
from openinfer.runtime.tensors import Tensor


def _bytes(tensor: Tensor) -> AnyArray:
    return np.ascontiguousarray(tensor.storage).reshape(-1).view(np.uint8)


def _real(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that memory may have, for one that the sizes of a step make negative: steps that use
    the variable fail, others run."""
    return tuple(max(extent, 0) for extent in shape)


class CompiledState(StateValues):
    """The persistent variables of one executor."""

    def has_shape(self, name: str) -> bool:
        """Whether there is memory whose shape no other size can change."""
        return name in self._shapes and (name in self._touched or not size_names(self._rows[name]))

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

    # A step

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
            if size_names(row) - known.keys():
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
