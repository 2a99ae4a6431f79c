"""What one step of a compiled program at a time needs: frame, arena, errors, threads, state.

An executor has one, and further ones for callers of `run` that come while somebody is inside.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import numpy as np

from openinfer.runtime.devices.base import Block, DeviceCall, LoadedProgram, TraceRecord
from openinfer.runtime.devices.compiled.frame import Frame
from openinfer.runtime.devices.compiled.outputs import Room, Rooms
from openinfer.runtime.devices.compiled.quick_inputs import QuickInput, QuickInputs, address_of
from openinfer.runtime.devices.compiled.quick_run import Follow, QuickRun
from openinfer.runtime.devices.compiled.recovery import Recovery
from openinfer.runtime.devices.compiled.sizes import check_shape
from openinfer.runtime.devices.compiled.state import CompiledState
from openinfer.runtime.devices.compiled.trace_events import Growths, TraceReader
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import StepError
from openinfer.runtime.manifest import VariableRow
from openinfer.runtime.sizes import THREADS, Size
from openinfer.runtime.step_sizes import impossible
from openinfer.runtime.storage import AnyArray
from openinfer.runtime.tensors import Tensor
from openinfer.runtime.trace import EventStore, TraceLog
from openinfer.runtime.turns import Turn
from openinfer.runtime.variables import NUMPY_DTYPES

MAX_ARENA = 1 << 46
"""Bytes beyond which no arena is asked for."""
GUARD_SECONDS = 0.001
"""How often steps look whether the file of their mapped weights is as it was: what that costs is nothing
beside a step that reads much of them, and a step that reads little is not slowed down."""


class Context:
    """Runs steps, one at a time: who calls makes sure that nobody else is inside."""

    def __init__(
        self,
        loaded: LoadedProgram,
        threads: int,
        sizes: Mapping[str, int],
        max_state_bytes: int,
        store: EventStore,
        log: TraceLog,
    ) -> None:
        """`sizes` are those that are fixed for every step; `store` and `log` take the events of a traced
        build."""
        manifest = loaded.manifest
        self.threads = threads
        self.user: int | None = None
        """The thread that ran the last step here."""
        self._finished = 0
        self._followed = ctypes.c_int64()
        """Steps that ended well in a builtin (`follow`); `_finished` counts the others."""
        self._loaded = loaded
        self._manifest = manifest
        self._results = manifest.returns or manifest.outputs
        self.rows = loaded.variables
        self.offsets = {name: Size.of(text) for name, text in manifest.offsets.items()}
        self._dims = {
            name: tuple(Size.of(d) for d in manifest.shapes.get(name, self.rows[name].dims))
            for name in self.offsets
        }
        self._arena_size = Size.of(manifest.arena)
        self._memory = loaded.memory
        self._arena: Block = self._memory.allocate(0)
        self._device_memory = loaded.device_memory
        self._device_arena_size = Size.of(manifest.device_arena)
        self._device_arena: Block | None = None
        self.rooms = Rooms(self._memory)
        # What the last step was given: inputs that look the same need no second check.
        self.quick: QuickInputs | None = None
        self.views: dict[str, AnyArray] = {}
        self.shape_sizes: dict[str, int] | None = None
        self._plan_sizes: dict[str, int] = {}
        """The sizes of the last step with threads and capacities: what offsets are made of."""
        self.last_sizes: Mapping[str, int] = dict(sizes)
        """The sizes of the last step that ended well."""
        self.done = False
        """Whether the last step ended well, and its results are there."""
        self.state = CompiledState(
            manifest, loaded.package, loaded.memory, max_state_bytes, loaded.device_memory
        )
        self.retry: Callable[[], object] | None = None
        self.record = loaded.make_record() if manifest.traced else None
        self.muted = False
        """Whether the step that runs leaves no events: they were given already."""
        self._store, self._log = store, log
        self._trace_reader = TraceReader(manifest)
        self.arena_growths = 0
        """How often the arena grew: between steps, when a run-time size grew."""
        self._shown_growths = (0, 0)
        """Growths of arena and state that the trace has counted."""
        self.team = loaded.make_team(threads) if loaded.shared else None
        self._helped = self.team is not None and threads > 1
        self._guard, self._guard_due = loaded.guard, 0.0
        self._native: Callable[[], object] | None = None
        """The native call of a step, with its arguments."""
        self._noted_state = self.state if self.state.noted else None
        self._recovery = Recovery(manifest, self.state, self.team)
        self._error_words = self._recovery.words
        self._slots = Frame(loaded, self._recovery.errors, self.team, self.record)
        self._frame = self._slots.words
        self.input_slots = self._slots.inputs

    @property
    def finished(self) -> int:
        """Steps that ended well."""
        return self._finished + self._followed.value

    def forget_steps(self) -> None:
        """Counts from 0 again."""
        self._finished = self._followed.value = 0

    def _resize(self, sizes: Mapping[str, int]) -> None:
        """Run-time sizes changed: their slots, and an arena that is large enough."""
        # Until all slots are true again, no step may take the quick way.
        self.forget_sizes()
        self._recovery.check_requirements(sizes)
        self.state.prepare(sizes)
        given = sizes
        sizes = {**sizes, THREADS: self.threads if self.team is not None else 1}
        if self.team is not None:
            self.team.forget()
        sizes.update(self.state.capacities())
        wanted = self._arena_size.evaluate(sizes)
        if wanted > MAX_ARENA:
            raise MemoryError
        if wanted > self._arena.nbytes or self.rooms.taken:
            self.quiesce()
            self._arena = self._memory.allocate(wanted)
            self.arena_growths += 1
        self._place_device_arena(sizes)
        self._slots.lay_out(sizes, self.state)
        self._plan_sizes = sizes
        views = self._output_views(self._arena)
        self._enter(self.rooms.lay_out(self._arena, views, self._results))
        # Last, so that what ends this half-way, Ctrl-C too, leaves it to the next step.
        self.shape_sizes = dict(given)

    def _place_device_arena(self, sizes: Mapping[str, int]) -> None:
        """Memory of the device that is large enough for the buffers of its kernels."""
        if self._device_memory is None:
            return
        wanted = self._device_arena_size.evaluate(sizes)
        if wanted > MAX_ARENA:
            raise MemoryError
        if self._device_arena is None or wanted > self._device_arena.nbytes:
            self._device_arena = self._device_memory.allocate(wanted)
            self._slots.enter_device(self._device_memory.address(self._device_arena))

    def device_calls(self) -> list[DeviceCall]:
        """What the last step asked of the device, where its program writes that down."""
        return self._loaded.calls(self._frame)

    def forget_sizes(self) -> None:
        """The next step lays everything out anew."""
        self.shape_sizes, self.quick = None, None

    def _enter(self, room: Room) -> None:
        """Steps work in the arena of `room` from here on."""
        self._arena, self.views = room.block, room.views
        self._slots.enter(room.address, room.block.nbytes)

    def _output_views(self, arena: Block) -> dict[str, AnyArray]:
        """The outputs whose shapes are known before the step, where they lie; none where the host cannot see
        that."""
        if self._memory.owner(arena) is None:
            return {}
        return {
            name: self.output(self.rows[name], arena).storage
            for name in self.offsets
            if self.rows[name].dtype in NUMPY_DTYPES
            and not self._is_dynamic(name)
            and min(self._shape(self.rows[name]), default=0) >= 0
        }

    def _another_arena(self) -> Block:
        self.arena_growths += 1
        return self._memory.allocate(self._arena.nbytes)

    # A step

    def quick_step(self, given: Mapping[str, Any]) -> None:
        """A step with the inputs whose addresses are in the frame; `given` keeps them alive."""
        try:
            self._call()
            self._finished += 1
        except MemoryError as error:
            raise impossible(error, self._plan_sizes) from error
        finally:
            if self._helped:
                self.keep(given)

    def follow(self, turn: Turn) -> Follow | None:
        """What does all of a `run` after one that took the quick way and left its `token` in the turn."""
        quick = self.quick
        if quick is None:
            return None
        token = object()
        follow = self._follow(quick, turn, token)
        quick.token = True if follow is None else token
        return follow

    def _follow(self, quick: QuickInputs, turn: Turn, token: object) -> Follow | None:
        call, results = self._native, self.rooms.copied()
        plain = self._noted_state is None and self.record is None and self._guard is None
        if not (plain and quick.arrays_only and quick.native and call) or results is None:
            return None
        errors, steps = self._recovery.errors.ctypes.data, ctypes.addressof(self._followed)
        workers = self.team.workers() if self.team is not None and self._helped else None
        return self._loaded.follow(
            QuickRun(turn, token, self, quick.native, call, errors, steps, workers, results)
        )

    def place(self, arrays: Mapping[str, AnyArray]) -> None:
        """Puts the addresses of all inputs into the frame."""
        for slot, name in self.input_slots:
            self._frame[slot] = address_of(arrays[name])

    def run_step(self, inputs: Mapping[str, Tensor], sizes: Mapping[str, int]) -> None:
        """A step with inputs that were checked, of any sizes."""
        if sizes != self.shape_sizes:
            self._resize(sizes)
        for slot, name in self.input_slots:
            self._frame[slot] = inputs[name].storage.ctypes.data
        try:
            self._call()
            self._finished += 1
        finally:
            self.keep(inputs)
        entries = {name: QuickInput.of(tensor) for name, tensor in inputs.items()}
        if self.quick is None or self.quick.all_entries != entries:
            slots = dict.fromkeys(entries, len(self._frame) - 1)
            slots.update((name, slot) for slot, name in self.input_slots)
            self.quick = QuickInputs(entries, slots, self._frame, self._loaded.place)

    def keep(self, given: Mapping[str, Any]) -> None:
        """Inputs stay as they are until nobody can read them any more."""
        if self.team is not None:
            self.team.keep(given, self.quick.renew if self.quick is not None else list)

    def _call(self) -> None:
        """One native call with the frame as it stands; another one when it asks for memory."""
        if not self.done and self._error_words[0]:
            self._recovery.undo(self._loaded.kept_log(self._frame))
        self.done = False
        rooms = self.rooms
        if rooms.lent and rooms.taken:
            self._enter(rooms.move(self._another_arena, self._output_views))
        if self._guard is not None and monotonic() >= self._guard_due:
            self._guard()
            self._guard_due = monotonic() + GUARD_SECONDS
        native = self._native or self.native_call()
        state, record = self._noted_state, self.record
        while True:
            if state is not None:
                state.begin()
            if record is not None:
                record.begin()
            try:
                native()
                if not self._error_words[0]:
                    break
                self._recover()
            except StepError:
                raise
            except BaseException:
                # Ctrl-C comes behind any call, also while memory moves.
                self.forget_sizes()
                self.fail()
                raise
        self.done = True
        assert self.shape_sizes is not None
        self.last_sizes = self.shape_sizes
        if state is not None:
            state.end()
        if record is not None:
            self._collect(record)

    def fail(self) -> None:
        """What a step has changed that was ended is put back."""
        self.done = False
        kept = self._loaded.kept_log(self._frame)
        if self._error_words[0] or kept is not None:
            self._recovery.undo(kept)

    def _recover(self) -> None:
        """Puts back what the failed step changed, and gives it the memory that it asks for.

        Raises the StepError of any other failure.
        """
        try:
            asked = self._recovery.put_back({**self._plan_sizes, **self.state.dynamic_sizes()})
        finally:
            if self._recovery.moved:
                self.forget_sizes()
        sizes, quick = self.shape_sizes, self.quick
        assert sizes is not None
        # Whatever fails from here on: the next step lays everything out anew.
        self.forget_sizes()
        self._recovery.provide(asked, lambda: self._resize(sizes))
        if quick is not None:
            # Results may lie elsewhere now.
            quick.token = None
        self.quick = quick
        if self.retry is not None:
            self.retry()

    def native_call(self) -> Callable[[], object]:
        """What runs the code with the frame, made when it is first needed: it starts threads."""
        runner = self.team if self.team is not None else self._loaded
        self._native = runner.call(self._frame)
        return self._native

    def _collect(self, record: TraceRecord) -> None:
        """Takes over what a traced step wrote down; it is read when somebody asks for it."""
        entries, dropped = record.take()
        if self.muted or not len(entries):
            return
        grown = (self.arena_growths, self.state.growths)
        growths = Growths(grown[0] - self._shown_growths[0], grown[1] - self._shown_growths[1])
        self._shown_growths = grown
        assert self.shape_sizes is not None
        self._store.dropped += dropped
        sizes, step = {**self.shape_sizes, **self.state.dynamic_sizes()}, self.finished
        reader = self._trace_reader
        self._store.add_later(len(entries), lambda: reader.events(entries, sizes, step, growths))
        if self._log.enabled:
            for event in reader.events(entries, sizes, step, growths):
                self._log.event(event)

    # Values

    def _is_dynamic(self, name: str) -> bool:
        """Whether the step itself fixes the shape of an output."""
        dynamic = set(self._manifest.dynamic_sizes)
        return any(d.names & dynamic for d in self._dims[name])

    def output(self, row: VariableRow, arena: Block | None = None) -> Tensor:
        """An output of the last step, where it lies."""
        arena = self._arena if arena is None else arena
        sizes = {**self._plan_sizes, **self.state.dynamic_sizes()}
        start = self.offsets[row.name].evaluate(sizes)
        shape = self._shape(row)
        check_shape(row.name, shape)
        dtype = DTYPES[row.dtype]
        nbytes = dtype.nbytes(int(np.prod(shape, dtype=np.int64)))
        data = self._memory.read(arena, start, nbytes).view(np.dtype(dtype.storage))
        return Tensor(dtype, shape, data if dtype.packed else data.reshape(shape))

    def _shape(self, row: VariableRow) -> tuple[int, ...]:
        """The shape of an output of the last step."""
        sizes = {**self._plan_sizes, **self.state.dynamic_sizes()}
        return tuple(dim.evaluate(sizes) for dim in self._dims[row.name])

    def tensor_at(
        self, name: str, address: int, sizes: Mapping[str, int], dims: list[str] | None = None
    ) -> Tensor:
        """A copy of the value of a variable that the code holds at an address."""
        row = self.rows[name]
        shape = tuple(Size.of(d).evaluate(sizes) for d in (row.dims if dims is None else dims))
        dtype = DTYPES[row.dtype]
        storage = np.dtype(dtype.storage)
        count = int(np.prod(shape, dtype=np.int64))
        stored = (dtype.nbytes(count),) if dtype.packed else shape
        if count == 0:
            return Tensor(dtype, shape, np.zeros(stored, storage))
        raw = ctypes.string_at(address, dtype.nbytes(count))
        return Tensor(dtype, shape, np.frombuffer(raw, storage).reshape(stored).copy())

    # The end

    def quiesce(self) -> None:
        """Nobody touches the arena or the last inputs any more."""
        if self.team is not None:
            self.team.quiesce()

    def close(self) -> None:
        """Lets the threads go and frees memory."""
        if self.team is not None:
            self.team.close()
        self._arena, self._device_arena = self._memory.allocate(0), None
        self.rooms = Rooms(self._memory)
        self.views.clear()
        self.quick, self._native = None, None
