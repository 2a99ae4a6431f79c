"""The device `cpu`: runs the steps of a compiled program, each in one native call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, Never, cast

import numpy as np

from openinfer.runtime.devices.cpu_call import native_call
from openinfer.runtime.devices.cpu_growing import aligned_bytes
from openinfer.runtime.devices.cpu_loaded import LoadedProgram
from openinfer.runtime.devices.cpu_results import Room, Rooms
from openinfer.runtime.devices.cpu_shapes import check_shape, dims_now, no_shape
from openinfer.runtime.devices.cpu_state import CpuState
from openinfer.runtime.devices.cpu_team import Team
from openinfer.runtime.devices.cpu_trace import Growths, TraceReader, TraceRecord
from openinfer.runtime.devices.cpu_watch import Handed, Watcher, start_numbers
from openinfer.runtime.devices.failures import FAILURES
from openinfer.runtime.devices.quick_inputs import QuickInput, QuickInputs, address_of
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import InputError, StepError
from openinfer.runtime.executor import (
    NUMPY_DTYPES,
    BaseExecutor,
    StepNode,
    VariableInfo,
    impossible,
)
from openinfer.runtime.manifest import BEFORE, NodeRow, StateRow, VariableRow
from openinfer.runtime.results import Results
from openinfer.runtime.sizes import THREADS, Size
from openinfer.runtime.state import State
from openinfer.runtime.storage import AnyArray, first_value, to_storage
from openinfer.runtime.tensors import Tensor
from openinfer.runtime.trace import Event

if TYPE_CHECKING:
    from openinfer.runtime.breakpoints import Breakpoint
    from openinfer.runtime.outline import Outline
    from openinfer.runtime.program import Program

MAX_ARENA = 1 << 46
"""Bytes beyond which no arena is asked for."""
GUARD_SECONDS = 0.001
"""How often steps look whether the file of their mapped weights is as it was: what that costs is nothing
beside a step that reads much of them, and a step that reads little is not slowed down."""


class CpuExecutor(BaseExecutor):
    """Runs a compiled program: one native call per step."""

    def __init__(
        self,
        program: Program,
        loaded: LoadedProgram,
        threads: int,
        max_state_bytes: int | None = None,
    ) -> None:
        manifest = loaded.manifest
        states = {row.name: row for row in manifest.states}
        super().__init__(
            [_info(row, states.get(row.name)) for row in manifest.variables],
            sizes=manifest.sizes,
            results=manifest.returns or manifest.outputs,
            max_state_bytes=max_state_bytes,
        )
        self.threads = threads
        self._program = program
        self._loaded = loaded
        self._manifest = manifest
        self._rows = loaded.variables
        self._offsets = {name: Size.of(text) for name, text in manifest.offsets.items()}
        self._dims = {
            name: tuple(Size.of(d) for d in manifest.shapes.get(name, self._rows[name].dims))
            for name in self._offsets
        }
        self._arena_size = Size.of(manifest.arena)
        self._arena = aligned_bytes(0)
        self._rooms = Rooms()
        self._errors = np.zeros(4, np.int64)
        self._error_words: Any = memoryview(cast(Any, self._errors))
        # Two words more than the frame: what the step gives back, and one that nobody reads.
        self._frame = (ctypes.c_uint64 * (len(manifest.frame) + 2))()
        # What the last step was given: inputs that look the same need no second check.
        self._quick: QuickInputs | None = None
        self._ready: dict[str, AnyArray] = {}
        self._views: dict[str, AnyArray] = {}
        self._shape_sizes: dict[str, int] | None = None
        self._plan_sizes: dict[str, int] = {}
        """The sizes of the last step with threads and capacities: what offsets are made of."""
        self._last_sizes: Mapping[str, int] = self.sizes
        """The sizes of the last step that ended well."""
        self._input_slots: list[tuple[int, str]] = []
        self._arena_slots: list[int] = []
        self._arena_size_slots: list[int] = []
        self._input_count = sum(row.memory == "dynamic" for row in manifest.variables)
        self._live: dict[str, Tensor] = {}
        self._done = False
        self._state = CpuState(manifest, loaded.package, self.max_state_bytes)
        self._retry: Any = None
        self._trace_record = TraceRecord() if manifest.traced else None
        self._muted = False
        """Whether the step that runs leaves no events: they were given already."""
        self._trace_reader = TraceReader(manifest)
        self._tracing = manifest.traced
        self.arena_growths = 0
        """How often the arena grew: between steps, when a run-time size grew."""
        self._shown_growths = (0, 0)
        """Growths of arena and state that the trace has counted."""
        self._team = Team(loaded, threads) if loaded.shared else None
        self._helped = self._team is not None and threads > 1
        self._guard, self._guard_due = loaded.guard, 0.0
        self._native: Callable[[], object] | None = None
        """The native call of a step, with its arguments."""
        self._noted_state = self._state if self._state.noted else None
        self._job = np.zeros(loaded.job_words + 1, np.int64)
        self._section_errors = np.zeros(64 * 4, np.int64)
        self._fill_constant_slots()

    def _fill_constant_slots(self) -> None:
        for slot, text in enumerate(self._manifest.frame):
            role, _, rest = text.partition(" ")
            if role == "weight":
                self._frame[slot] = self._loaded.weights[int(rest)].ctypes.data
            elif role == "errors":
                self._frame[slot] = self._errors.ctypes.data
            elif role == "team" and self._team is not None:
                self._frame[slot] = self._team.address
            elif role == "job":
                self._frame[slot] = self._job.ctypes.data
            elif role == "section_errors":
                self._frame[slot] = self._section_errors.ctypes.data
            elif role == "trace" and self._trace_record is not None:
                self._frame[slot] = self._trace_record.address
            elif role == "input":
                self._input_slots.append((slot, rest))
            elif role == "arena":
                self._arena_slots.append(slot)
            elif role == "arena_size":
                self._arena_size_slots.append(slot)

    def _resize(self, sizes: Mapping[str, int]) -> None:
        """Run-time sizes changed: their slots, and an arena that is large enough."""
        # Until all slots are true again, no step may take the quick way.
        self._shape_sizes, self._quick = None, None
        self._check_requirements(sizes)
        self._state.prepare(sizes)
        given = sizes
        sizes = {**sizes, THREADS: self.threads if self._team is not None else 1}
        if self._team is not None:
            self._team.forget()
        sizes.update(self._state.capacities())
        wanted = self._arena_size.evaluate(sizes)
        if wanted > MAX_ARENA:
            raise MemoryError
        if wanted > self._arena.nbytes or self._rooms.taken:
            self._quiesce()
            self._arena = aligned_bytes(wanted)
            self.arena_growths += 1
        for slot, text in enumerate(self._manifest.frame):
            role, _, rest = text.partition(" ")
            if role == "size":
                self._frame[slot] = sizes[rest]
            elif role == "value":
                self._frame[slot] = Size.of(rest).evaluate(sizes)
            elif role in ("held", "state", "counts", "marks", "cells", "log", "length"):
                self._frame[slot] = self._state.slots(role, rest)
        self._shape_sizes = dict(given)
        self._plan_sizes = sizes
        views = self._output_views(self._arena)
        self._enter(self._rooms.lay_out(self._arena, views, self.results))

    def _enter(self, room: Room) -> None:
        """Steps work in the arena of `room` from here on."""
        self._arena, self._views = room.memory, room.views
        for slot in self._arena_slots:
            self._frame[slot] = room.address
        for slot in self._arena_size_slots:
            self._frame[slot] = room.memory.nbytes

    def _output_views(self, arena: AnyArray) -> dict[str, AnyArray]:
        """The outputs whose shapes are known before the step, where they lie."""
        return {
            name: self._output(self._rows[name], arena).storage
            for name in self._offsets
            if self._rows[name].dtype in NUMPY_DTYPES
            and not self._is_late(name)
            and min(self._shape(self._rows[name]), default=0) >= 0
        }

    def _another_arena(self) -> AnyArray:
        self.arena_growths += 1
        return aligned_bytes(self._arena.nbytes)

    # The quick way: inputs of the dtypes and shapes of the last step.

    def insert(self, /, *unnamed: Never, **arrays: Any) -> None:
        """See `BaseExecutor.insert`."""
        quick = self._quick
        if quick is not None and self._stepping is None and not self._closed and not unnamed:
            fitting: dict[str, AnyArray] = {}
            # The frame is filled in again when the step begins: here it only has to be possible.
            whole = quick.arrays_only and quick.place(arrays)
            for name, value in () if whole else arrays.items():
                entry = quick.entries.get(name)
                array = entry.take(value) if entry is not None else None
                if array is None:
                    break
                fitting[name] = array
            else:
                self._ready.update(arrays if whole else fitting)
                if self._inputs:
                    for name in arrays:
                        self._inputs.pop(name, None)
                return
        super().insert(*unnamed, **arrays)
        for name in arrays:
            self._ready.pop(name, None)

    def step(self) -> None:
        """See `BaseExecutor.step`."""
        ready, quick = self._ready, self._quick
        if quick is not None and len(ready) == self._input_count and not self._inputs:
            if self._stepping is None and not self._closed:
                if not quick.place(ready):
                    for slot, name in self._input_slots:
                        self._frame[slot] = address_of(ready[name])
                try:
                    self._quick_step(ready)
                finally:
                    ready.clear()
                return
        self._take_ready()
        super().step()

    def run(self, /, *unnamed: Never, **inputs: Any) -> Results:
        """See `BaseExecutor.run`. Large results are not copied: `fetch` reads the same memory."""
        quick = self._quick
        if (
            quick is not None
            and not (unnamed or self._ready or self._inputs or self._closed)
            and self._stepping is None
            and quick.place(inputs)
        ):
            self._quick_step(inputs)
        else:
            self.insert(*unnamed, **inputs)
            self.step()
        results = Results()
        for name, give in self._rooms.ways():
            results[name] = self.fetch(name) if give is None else give()
        return results

    def _quick_step(self, given: Mapping[str, Any]) -> None:
        """A step with the inputs whose addresses are in the frame; `given` keeps them alive."""
        try:
            self._call()
            self.finished_steps += 1
        except MemoryError as error:
            raise impossible(error, self._plan_sizes) from error
        finally:
            if self._helped:
                self._keep(given)

    def _keep(self, given: Mapping[str, Any]) -> None:
        """Inputs stay as they are until nobody can read them any more."""
        if self._team is not None:
            self._team.keep(given, self._quick.renew if self._quick is not None else list)

    def iterate(self, breakpoints: Iterable[Breakpoint] = ()) -> Generator[StepNode, None, None]:
        """See `BaseExecutor.iterate`."""
        self._take_ready()
        return super().iterate(breakpoints)

    def outline(self) -> Outline | None:
        """See `BaseExecutor.outline`; a loaded program has none."""
        return self._program.outline()

    def fetch(self, name: str, *, copy: bool = True) -> AnyArray | Tensor:
        """See `BaseExecutor.fetch`."""
        view = self._views.get(name)
        if view is not None and self._done and self._stepping is None and not self._closed:
            return view.copy() if copy else view
        value = super().fetch(name, copy=copy)
        row = self._rows.get(name)
        if row is not None and row.memory == "volatile" and name not in self._offsets:
            # No step writes it: it is looked up once.
            if self._done and isinstance(value, np.ndarray) and value.nbytes <= 4096:
                self._views[name] = value.copy()
                self._views[name].flags.writeable = False
        return value

    def _take_ready(self) -> None:
        """Inputs that came the quick way go the checked way after all."""
        if self._ready:
            arrays, self._ready = self._ready, {}
            dtypes = {name: DTYPES[self._rows[name].dtype] for name in arrays}
            super().insert(**{n: Tensor(dtypes[n], a.shape, a) for n, a in arrays.items()})

    def _run_step(self, inputs: Mapping[str, Tensor], sizes: Mapping[str, int]) -> None:
        if sizes != self._shape_sizes:
            self._resize(sizes)
        for slot, name in self._input_slots:
            self._frame[slot] = inputs[name].storage.ctypes.data
        try:
            self._call()
        finally:
            self._keep(inputs)
        entries = {name: QuickInput.of(tensor) for name, tensor in inputs.items()}
        if self._quick is None or self._quick.all_entries != entries:
            slots = dict.fromkeys(entries, len(self._frame) - 1)
            slots.update((name, slot) for slot, name in self._input_slots)
            self._quick = QuickInputs(entries, slots, self._frame)

    def _call(self) -> None:
        """One native call with the frame as it stands; another one when it asks for memory."""
        self._done = False
        rooms = self._rooms
        if rooms.lent and rooms.taken:
            self._enter(rooms.move(self._another_arena, self._output_views))
        if self._guard is not None and monotonic() >= self._guard_due:
            self._guard()
            self._guard_due = monotonic() + GUARD_SECONDS
        native = self._native or self._native_call()
        state, record = self._noted_state, self._trace_record
        while True:
            if state is not None:
                state.begin()
            if record is not None:
                record.begin()
            native()
            if not self._error_words[0]:
                break
            self._recover()
        self._done = True
        assert self._shape_sizes is not None
        self._last_sizes = self._shape_sizes
        if state is not None:
            state.end()
        if record is not None:
            self._collect(record)

    def _native_call(self) -> Callable[[], object]:
        """What runs the code with the frame, made when it is first needed: it starts threads."""
        team, step = self._team, self._loaded.step
        self._native = native_call(step, self._frame) if team is None else team.call(self._frame)
        return self._native

    @property
    def state_growths(self) -> int:
        """How often memory of persistent variables, or what undoes their changes, grew."""
        return self._state.growths

    def _collect(self, record: TraceRecord) -> None:
        """Takes over what a traced step wrote down; it is read when somebody asks for it."""
        entries, dropped = record.take()
        if self._muted or not len(entries):
            return
        grown = (self.arena_growths, self._state.growths)
        growths = Growths(grown[0] - self._shown_growths[0], grown[1] - self._shown_growths[1])
        self._shown_growths = grown
        assert self._shape_sizes is not None
        self._trace.dropped += dropped
        sizes, step = {**self._shape_sizes, **self._state.late_sizes()}, self.finished_steps
        reader = self._trace_reader
        self._trace.add_later(len(entries), lambda: reader.events(entries, sizes, step, growths))
        if self._log.enabled:
            for event in reader.events(entries, sizes, step, growths):
                self._log.event(event)

    def _set_tracing(self, on: bool) -> None:
        if self._trace_record is not None:
            self._trace_record.enabled = on
        elif on:
            raise InputError(
                "OI0553",
                "this executor runs the plain build of the program, which leaves no trace",
                hint="make one with make_executor(trace=True)",
            )
        super()._set_tracing(on)

    def _check_requirements(self, sizes: Mapping[str, int]) -> None:
        for row in self._manifest.requires:
            low, high = Size.of(row.low), Size.of(row.high)
            if low.evaluate(sizes) <= high.evaluate(sizes):
                continue
            names = sorted(low.names | high.names)
            shown = ", ".join(f"{name} = {sizes[name]}" for name in names)
            what = f"bound {low} must not exceed {high}"
            if row.kind == "negative-size":
                what = f"dimension {high} must not be negative"
            raise StepError(
                FAILURES[row.kind].code,
                f"{self._where(row.node)}: {what}, but {shown}",
                hint="give inputs of another size",
            )

    def _where(self, node: int) -> str:
        if node == BEFORE:
            return "before the first node"
        rows = {row.index: row for row in self._manifest.nodes}
        row = rows.get(node)
        return _node_text(row) if row is not None else f"node {node}"

    def _recover(self) -> None:
        """Puts back what the failed step changed; gives it more memory when it asks for that.

        Raises the StepError of any other failure.
        """
        node, a, b, kind = (int(v) for v in self._errors)
        self._errors[:] = 0
        self._quiesce()
        name = list(FAILURES)[kind]
        failure = FAILURES[name]
        # What it says of the state is true before that is put back.
        message = "" if failure.memory else self._state.describe(name, a, b)
        self._state.undo()
        if not failure.memory:
            if self._state.give_up():
                self._shape_sizes, self._quick = None, None
            raise StepError(
                failure.code, f"{self._where(node - 1)}: {message}", hint=failure.hint or None
            )
        sizes, quick = self._shape_sizes, self._quick
        assert sizes is not None
        bounds = dict(self._state.late_capacity)
        # Whatever fails from here on: the next step lays everything out anew.
        self._shape_sizes, self._quick = None, None
        try:
            self._state.provide(name, a, b)
            self._resize(sizes)
        except StepError:
            self._state.give_up()
            raise
        except (MemoryError, ValueError) as error:
            self._state.late_capacity.update(bounds)
            self._state.give_up()
            raise MemoryError from error
        self._quick = quick
        if self._retry is not None:
            self._retry()

    def _iterate_step(
        self, inputs: Mapping[str, Tensor], sizes: Mapping[str, int]
    ) -> Iterator[Event]:
        watched = self._program.observed()
        executor = CpuExecutor(watched, watched.loaded(), self.threads, self.max_state_bytes)
        if self._manifest.states:
            executor._state.restore(self._state.snapshot(), sizes)
            executor._state.take_facts(self._state)
        watcher = Watcher(
            watched.manifest,
            executor.tensor_at,
            lambda: {**sizes, **executor._state.late_sizes()},
            self.finished_steps,
            start_numbers(self),
        )
        loaded = watched.loaded()
        loaded.on_value = watcher.record
        executor._retry = watcher.clear
        try:
            executor._run_step(inputs, sizes)
        finally:
            loaded.on_value = None
            failure, loaded.failure = loaded.failure, None
        if failure is not None:
            raise failure
        self._live.clear()
        try:
            handed = Handed(watched.manifest)
            for shown in watcher.seen:
                handed.follow(shown.event, self._live)
                self._live.update(shown.values)
                self._record(shown.event)
                yield shown.event
            # The state after an iterated step is that of a step, which leaves no events of its own.
            self._muted = True
            self._run_step(inputs, sizes)
        finally:
            # Also where the iteration was left early: its values are those of no step.
            self._muted = False
            self._live.clear()

    def tensor_at(
        self, name: str, address: int, sizes: Mapping[str, int], dims: list[str] | None = None
    ) -> Tensor:
        """A copy of the value of a variable that the code holds at an address."""
        row = self._rows[name]
        shape = tuple(Size.of(d).evaluate(sizes) for d in (row.dims if dims is None else dims))
        dtype = DTYPES[row.dtype]
        storage = np.dtype(dtype.storage)
        count = int(np.prod(shape, dtype=np.int64))
        stored = (dtype.nbytes(count),) if dtype.packed else shape
        if count == 0:
            return Tensor(dtype, shape, np.zeros(stored, storage))
        raw = ctypes.string_at(address, dtype.nbytes(count))
        return Tensor(dtype, shape, np.frombuffer(raw, storage).reshape(stored).copy())

    def _value(self, name: str) -> Tensor:
        if name in self._live:
            return self._live[name]
        base = name.partition("[")[0]
        row = self._rows[base]
        if self._stepping is not None and row.memory == "volatile":
            # This step has not written it yet: it holds what every step begins with.
            return self._first_content(row, name)
        if name in self._offsets and self._stepping is None:
            if self._done and self._shape_sizes is not None:
                return self._output(row)
            if row.memory == "volatile":
                # What a step would start from.
                return self._first_content(row, name)
            raise InputError(
                "OI0506",
                f"{name} is a temporary: it lives only inside a step",
                hint="step first; what entry returns is there then",
            )
        if row.memory == "persistent":
            if self.variables[base].indices and self._stepping is not None:
                # Scalars and tensors are shown as they are written; of these, only reads are.
                raise InputError(
                    "OI0549",
                    f"{base} has no value inside a compiled step: its entries are not shown there",
                    hint="fetch it after the step, or iterate on the simulator",
                )
            return self._persistent(base, name)
        if row.memory == "temporary":
            if self._stepping is not None:
                # Nothing has been written to it: zeros, as in the simulator.
                return self._first_content(row, name)
            raise InputError(
                "OI0546",
                f"{name} is a temporary: it has a value only while a step is iterated",
                hint="return it from entry, or declare it volatile",
            )
        return self._first_content(row, name)

    def _is_late(self, name: str) -> bool:
        """Whether the step itself fixes the shape of an output."""
        late = set(self._manifest.late)
        return any(d.names & late for d in self._dims[name])

    def _output(self, row: VariableRow, arena: AnyArray | None = None) -> Tensor:
        arena = self._arena if arena is None else arena
        sizes = {**self._plan_sizes, **self._state.late_sizes()}
        start = self._offsets[row.name].evaluate(sizes)
        shape = self._shape(row)
        check_shape(row.name, shape)
        dtype = DTYPES[row.dtype]
        nbytes = dtype.nbytes(int(np.prod(shape, dtype=np.int64)))
        data = arena[start : start + nbytes].view(np.dtype(dtype.storage))
        return Tensor(dtype, shape, data if dtype.packed else data.reshape(shape))

    def _shape(self, row: VariableRow) -> tuple[int, ...]:
        """The shape of an output of the last step."""
        sizes = {**self._plan_sizes, **self._state.late_sizes()}
        return tuple(dim.evaluate(sizes) for dim in self._dims[row.name])

    def _persistent(self, base: str, name: str) -> Tensor:
        if not self._state.has_shape(base):
            index = None if base == name else _indices(name)
            late = self._state.late_axes(base)
            if self._stepping is not None and self._state.waiting(base, index) is None and not late:
                # The first step that uses it is on its way.
                return self._first_content(self._rows[base], name)
            # The sizes of a step that failed give it none.
            known = self._last_sizes.keys() | self._rows.keys() | {"_"}
            unknown = {n for d in self._rows[base].dims for n in Size.of(d).names} - known
            if unknown:
                held = self._state.waiting(base, index)
                if held is not None:
                    return held
                raise no_shape(self.variables[base], unknown)
            dims = [Size.of(d) for d in self._rows[base].dims]
            fixed = [d for d in dims if d.names <= self._last_sizes.keys()]
            check_shape(base, tuple(d.evaluate(self._last_sizes) for d in fixed))
            if self._shape_sizes != self._last_sizes:
                self._shape_sizes, self._quick = None, None
            self._state.prepare_one(base, self._last_sizes)
        index = None if base == name else _indices(name)
        found = self._state.value(base, index, self._late_dims(base))
        storage = found.storage.view()
        storage.flags.writeable = False
        return Tensor(found.dtype, found.shape, storage)

    def _late_dims(self, name: str) -> dict[int, int] | None:
        """What dimensions that name scalars would be if a variable were touched now; None where a step
        has fixed them, or there are none.

        Raises InputError OI0506 for dimensions that cannot be, OI0508 where sizes are not known yet.
        """
        if not self._state.late_axes(name) or self._state.late_dims(name) is not None:
            return None
        dims = {a: Size.of(self._rows[name].dims[a]) for a in self._state.late_axes(name)}
        return dims_now(self.variables[name], dims, self._last_sizes, self._rows, self._scalar)

    def _scalar(self, name: str) -> int:
        """The value of an integer scalar now, or that the next step starts from."""
        row = self._rows[name]
        if self._stepping is not None:
            value: Any = self.fetch(name)
        elif row.memory == "persistent":
            value = self._persistent(name, name)
        else:
            value = self._first_content(row, name)
        return int(value.values() if isinstance(value, Tensor) else value)

    def _snapshot_state(self) -> State:
        return self._state.snapshot()

    def _restore_state(self, state: State) -> None:
        self._quiesce()
        self._state.restore(state, self.sizes)
        self._shape_sizes, self._quick = None, None
        self._done = False

    def _first_content(self, row: VariableRow, name: str) -> Tensor:
        dtype = DTYPES[row.dtype]
        package = self._loaded.package
        if row.sources and package is not None:
            if not row.members:
                return package.tensor(row.sources[0])
            return package.tensor(row.sources[_member(row, name)])
        if "_" in row.dims:
            raise InputError(
                "OI0506",
                f"{name} has an open dimension and was not written yet",
                hint="write it before it is read",
            )
        unknown = {n for d in row.dims for n in Size.of(d).names} - self.sizes.keys()
        sizes = self._shape_sizes or self.sizes
        if self._stepping is not None:
            sizes = self.step_sizes
        if unknown - sizes.keys():
            raise no_shape(self.variables[row.name], unknown - sizes.keys())
        shape = tuple(Size.of(d).evaluate(sizes) for d in row.dims)
        check_shape(row.name, shape)
        values = np.full(shape, first_value(dtype, row.value), np.dtype(dtype.value))
        return Tensor(dtype, shape, to_storage(dtype, values))

    def _reset_state(self) -> None:
        self._done = False
        self._ready.clear()
        self._quiesce()
        self._state.reset()
        self._shape_sizes, self._quick = None, None

    def _quiesce(self) -> None:
        """Nobody touches the arena or the last inputs any more."""
        if self._team is not None:
            self._team.quiesce()

    def _close(self) -> None:
        super()._close()
        if self._team is not None:
            self._team.close()
        self._arena = aligned_bytes(0)
        self._rooms = Rooms()
        self._views.clear()
        self._quick, self._native = None, None
        self._ready.clear()
        self._live.clear()


def _info(row: VariableRow, state: StateRow | None) -> VariableInfo:
    dims = tuple(Size.of(d) for d in row.dims)
    if state is None:
        return VariableInfo(row.name, row.memory, row.dtype, dims, tuple(row.indices))
    if state.open:
        tables = tuple(state.axes[: state.tables])
        return VariableInfo(
            row.name, row.memory, row.dtype, dims, tables, (), tuple(state.fixed.items())
        )
    return VariableInfo(
        row.name,
        row.memory,
        row.dtype,
        dims,
        tuple(state.axes),
        tuple(state.axes[state.tables :]),
        tuple(state.fixed.items()),
    )


def _indices(name: str) -> tuple[int, ...]:
    """The numbers of `K[0, 3]`. Raises InputError OI0547 for anything else."""
    base, _, text = name.rstrip("]").partition("[")
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            "OI0547", f"{name} names no entry of {base}", hint=f"fetch {base}[0], say"
        ) from None


def _node_text(row: NodeRow) -> str:
    place = f"{row.file}:{row.line}:{row.column}: " if row.file else ""
    return f"{place}node {row.index} in block {row.block}: {row.text}"


def _member(row: VariableRow, name: str) -> int:
    """The position of `W[0, 1]` among the members of its family."""
    _, _, text = name.rstrip("]").partition("[")
    try:
        indices = [int(part) for part in text.split(",")]
    except ValueError:
        indices = []
    if len(indices) != len(row.members) or any(
        not 0 <= i < n for i, n in zip(indices, row.members)
    ):
        extents = ", ".join(f"0..{n}" for n in row.members)
        raise InputError(
            "OI0547",
            f"{name}: {row.name} is a prefix table with indices {extents}",
            hint=f"fetch {row.name}[{', '.join('0' for _ in row.members)}]",
        )
    place = 0
    for index, extent in zip(indices, row.members):
        place = place * extent + index
    return place
