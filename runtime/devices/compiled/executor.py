"""The executor of compiled programs: a step is one native call, whatever device it works on."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from openinfer.runtime.devices.base import DeviceCall, LoadedProgram
from openinfer.runtime.devices.compiled.beside import Beside
from openinfer.runtime.devices.compiled.context import Context
from openinfer.runtime.devices.compiled.quick_run import Follow
from openinfer.runtime.devices.compiled.trace_events import TRACED_THREADS
from openinfer.runtime.devices.compiled.values import CompiledValues, no_temporary
from openinfer.runtime.devices.compiled.watching import Handed, Watcher, start_numbers
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import InputError
from openinfer.runtime.executor import StepNode
from openinfer.runtime.manifest import StateRow, VariableRow
from openinfer.runtime.options import available_cpus
from openinfer.runtime.results import Results
from openinfer.runtime.sizes import Size
from openinfer.runtime.state import State
from openinfer.runtime.step_sizes import impossible
from openinfer.runtime.storage import AnyArray
from openinfer.runtime.tensors import Tensor
from openinfer.runtime.trace import Event, EventStore, TraceLog
from openinfer.runtime.turns import alive, alone
from openinfer.runtime.variables import VariableInfo, handed

if TYPE_CHECKING:
    from openinfer.runtime.breakpoints import Breakpoint
    from openinfer.runtime.outline import Outline
    from openinfer.runtime.program import Program


class CompiledExecutor(CompiledValues):
    """Runs a compiled program: one native call per step.

    All but `run` works in the first of its contexts, which has the team of threads and all that is
    persistent. `run` takes another one while somebody is inside the first, unless there is only one.
    """

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
        # One thread writes stamps, so they are times of the work only where that thread does all of it.
        self.threads = threads = TRACED_THREADS if manifest.traced else threads
        self._program = program
        self._loaded = loaded
        self._manifest = manifest
        self._rows = loaded.variables
        self._input_count = sum(row.memory == "dynamic" for row in manifest.variables)
        self._ready: dict[str, AnyArray] = {}
        """Inputs that look like those of the step before, and so need no second check."""
        self._live: dict[str, Tensor] = {}
        self._follow: Follow | None = None
        """What does all of a `run` like the last one, if nobody was inside since; None: not known."""
        self._tracing = manifest.traced
        self._make_contexts()

    def _make_contexts(self) -> None:
        loaded = self._loaded
        self._taking = self._turn.taking
        given = self.sizes, self.max_state_bytes, self._trace, self._log
        self._first = Context(loaded, self.threads, *given)
        self._state = self._first.state
        single = self._has_state() or self._manifest.traced or loaded.watched
        # The first one has the threads. What runs beside it has one: the bits are the same.
        make = partial(Context, loaded, 1, *given)
        self._beside = None if single else Beside(make, available_cpus() - 1)

    @property
    def finished_steps(self) -> int:
        """See `BaseExecutor.finished_steps`."""
        return sum(context.finished for context in self._contexts)

    @property
    def arena_growths(self) -> int:
        """How often an arena grew: between steps, when a run-time size grew."""
        return sum(context.arena_growths for context in self._contexts)

    @property
    def state_growths(self) -> int:
        """How often memory of persistent variables, or what undoes their changes, grew."""
        return self._state.growths

    def device_calls(self) -> list[DeviceCall]:
        """See `BaseExecutor.device_calls`."""
        return self._first.device_calls()

    @property
    def _contexts(self) -> list[Context]:
        return [self._first, *(self._beside.all if self._beside is not None else ())]

    # The quick way: inputs of the dtypes and shapes of the last step.

    def insert(self, /, *unnamed: Never, **arrays: Any) -> None:
        """See `BaseExecutor.insert`."""
        turn, me = self._turn, get_ident()
        for free in self._taking:
            if not free:
                break
            try:
                turn.user, turn.what = me, "insert"
                if turn.inserter != me:
                    turn.inserts(self._has_inputs())
                self._insert(unnamed, arrays)
                return
            finally:
                turn.slot[0] = True
                if turn.waiting:
                    turn.wake()
        raise turn.busy("insert")

    def _insert(self, unnamed: Sequence[object], arrays: Mapping[str, Any]) -> None:
        quick = self._first.quick
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
        super()._insert(unnamed, arrays)
        for name in arrays:
            self._ready.pop(name, None)

    def _has_inputs(self) -> bool:
        return bool(self._ready or self._inputs)

    def step(self) -> None:
        """See `BaseExecutor.step`."""
        turn, me = self._turn, get_ident()
        for free in self._taking:
            if not free:
                break
            try:
                turn.user, turn.what = me, "step"
                self._step_inserted()
                return
            finally:
                turn.slot[0] = True
                if turn.waiting:
                    turn.wake()
        raise turn.busy("step")

    def _step_inserted(self) -> None:
        ready, first = self._ready, self._first
        quick = first.quick
        if quick is not None and len(ready) == self._input_count and not self._inputs:
            if self._stepping is None and not self._closed:
                if not quick.place(ready):
                    first.place(ready)
                if self._turn.stepper != self._turn.user:
                    self._turn.steps()
                try:
                    first.quick_step(ready)
                finally:
                    ready.clear()
                return
        self._take_ready()
        super()._step_inserted()

    def run(self, /, *unnamed: Never, **inputs: Any) -> Results:
        """See `BaseExecutor.run`. Large results are not copied: `fetch` reads the same memory.

        Calls of a program without state do not wait for each other while there are CPUs.
        """
        return self._run(unnamed, inputs)

    def _run(self, unnamed: Sequence[object], inputs: Mapping[str, Any]) -> Results:
        """A run with whatever inputs."""
        turn, me = self._turn, get_ident()
        token: object = True
        for free in self._taking:
            if not free:
                break
            try:
                turn.user, turn.what = me, "run"
                first = self._first
                quick = first.quick
                if (
                    quick is not None
                    and turn.stepper == me
                    and not (unnamed or self._ready or self._inputs or self._closed)
                    and self._stepping is None
                    and quick.place(inputs)
                ):
                    first.quick_step(inputs)
                    results = Results()
                    for name, give in first.rooms.ways():
                        results[name] = self._fetch(name) if give is None else give()
                    if quick.token is None:
                        self._follow = first.follow(turn)
                    token = quick.token or True
                    return results
            finally:
                turn.slot[0] = token
                if turn.waiting:
                    turn.wake()
            break
        return self._run_slowly(unnamed, inputs)

    def _run_slowly(self, unnamed: Sequence[object], inputs: Mapping[str, Any]) -> Results:
        """A run that does not find the first context as it left it: in that one, or beside it."""
        turn, beside, me = self._turn, self._beside, get_ident()
        while True:
            for free in self._taking:
                if not free:
                    break
                try:
                    turn.user, turn.what = me, "run"
                    if self._closed or self._first_is_for(me):
                        return self._run_first(unnamed, inputs)
                finally:
                    # No call before it: Ctrl-C may come where a function begins.
                    turn.slot[0] = True
                    if turn.waiting:
                        turn.wake()
                break
            if beside is None:
                if turn.user == me:
                    raise turn.busy("run")
                turn.pause(turn.slot.__len__)
                continue
            for context in beside.taking(me):
                if context is None:
                    break
                try:
                    beside.inside[me] = context
                    return self._run_beside(context, unnamed, inputs)
                finally:
                    beside.inside.pop(me, None)
                    beside.give_back(context, me)
                    if turn.waiting:
                        turn.wake()
            if not beside.add():
                if turn.user == me and not turn.slot:
                    raise turn.busy("run")
                turn.pause(lambda: turn.slot or beside.free)

    def _first_is_for(self, me: int) -> bool:
        """Whether a thread may run in the first context, which is free."""
        turn, beside = self._turn, self._beside
        if beside is None:
            return True
        if self._has_inputs() and turn.inserter not in (None, me) and alive(turn.inserter or 0):
            return False
        if self._stepping is not None and turn.stepper != me:
            return False
        return turn.stepper == me or not beside.stays(me, self._first.finished)

    def _run_first(self, unnamed: Sequence[object], inputs: Mapping[str, Any]) -> Results:
        self._run_whole(unnamed, inputs)
        results = Results()
        for name, give in self._first.rooms.ways():
            results[name] = self._fetch(name) if give is None else give()
        return results

    def _run_whole(self, unnamed: Sequence[object], inputs: Mapping[str, Any]) -> None:
        self._take_ready()
        super()._run_whole(unnamed, inputs)

    def _run_beside(
        self, context: Context, unnamed: Sequence[object], inputs: Mapping[str, Any]
    ) -> Results:
        """A run in another context than the first one."""
        self._check_open()
        quick = context.quick
        self._turn.steps_beside()
        if quick is not None and not unnamed and quick.place(inputs):
            context.quick_step(inputs)
        else:
            if unnamed:
                raise self._positional(unnamed)
            given = self._checked_inputs(inputs)
            sizes = self._sizes_of(given)
            try:
                context.run_step(given, sizes)
            except (MemoryError, ZeroDivisionError) as error:
                raise impossible(error, sizes) from error
        results = Results()
        for name, give in context.rooms.ways():
            results[name] = self._fetch_from(context, name, True) if give is None else give()
        return results

    def iterate(self, breakpoints: Iterable[Breakpoint] = ()) -> Generator[StepNode, None, None]:
        """See `BaseExecutor.iterate`."""
        self._take_ready_alone()
        return super().iterate(breakpoints)

    def outline(self) -> Outline | None:
        """See `BaseExecutor.outline`; a loaded program has none."""
        return self._program.outline()

    def fetch(self, name: str, *, copy: bool = True) -> AnyArray | Tensor:
        """See `BaseExecutor.fetch`."""
        turn, beside, me = self._turn, self._beside, get_ident()
        if beside is not None and turn.stepper != me and me in beside.free:
            # The caller's last step was one beside the first context.
            for context in beside.taking(me, own=True):
                if context is None:
                    break
                try:
                    beside.inside[me] = context
                    return self._fetch_from(context, name, copy)
                finally:
                    beside.inside.pop(me, None)
                    beside.give_back(context, me)
        for free in self._taking:
            if not free:
                break
            try:
                turn.user, turn.what = me, "fetch"
                return self._fetch(name, copy=copy)
            finally:
                turn.slot[0] = True
                if turn.waiting:
                    turn.wake()
        raise turn.busy("fetch")

    def _fetch(self, name: str, *, copy: bool = True) -> AnyArray | Tensor:
        first = self._first
        view = first.views.get(name)
        if view is not None and first.done and self._stepping is None and not self._closed:
            if self._turn.stepper != self._turn.user:
                self._turn.check_results()
            return view.copy() if copy else view
        value = super()._fetch(name, copy=copy)
        row = self._rows.get(name)
        if row is not None and row.memory == "volatile" and name not in first.offsets:
            # No step writes it: it is looked up once.
            if first.done and isinstance(value, np.ndarray) and value.nbytes <= 4096:
                first.views[name] = value.copy()
                first.views[name].flags.writeable = False
        return value

    def _fetch_from(self, context: Context, name: str, copy: bool) -> AnyArray | Tensor:
        """A value after the last step of a context that is not the first one."""
        name, info = self._asked_for(name)
        row = self._rows[info.name]
        if name in context.offsets and context.done and context.shape_sizes is not None:
            return handed(context.output(row), copy)
        if row.memory == "temporary":
            raise no_temporary(name)
        return handed(self._first_content(row, name, context.shape_sizes), copy)

    def _take_ready(self) -> None:
        """Inputs that came the quick way go the checked way after all."""
        if self._ready:
            arrays, self._ready = self._ready, {}
            dtypes = {name: DTYPES[self._rows[name].dtype] for name in arrays}
            super()._insert((), {n: Tensor(dtypes[n], a.shape, a) for n, a in arrays.items()})

    _take_ready_alone = alone("iterate")(_take_ready)

    def _run_step(self, inputs: Mapping[str, Tensor], sizes: Mapping[str, int]) -> None:
        self._first.run_step(inputs, sizes)

    def _set_tracing(self, on: bool) -> None:
        if self._first.record is not None:
            self._first.record.enabled = on
        elif on:
            raise InputError(
                "OI0553",
                "this executor runs the plain build of the program, which leaves no trace",
                hint="make one with make_executor(trace=True)",
            )
        super()._set_tracing(on)

    def _iterate_step(
        self, inputs: Mapping[str, Tensor], sizes: Mapping[str, int]
    ) -> Iterator[Event]:
        watched = self._program.observed()
        loaded = watched.loaded()
        context = Context(loaded, 1, self.sizes, self.max_state_bytes, EventStore(), TraceLog(""))
        if self._manifest.states:
            context.state.restore(self._state.snapshot(), sizes)
            context.state.take_facts(self._state)
        watcher = Watcher(
            watched.manifest,
            context.tensor_at,
            lambda: {**sizes, **context.state.dynamic_sizes()},
            self.finished_steps,
            start_numbers(self.variables, self._fetch),
        )
        context.retry = watcher.clear
        with loaded.watched_by(watcher.record):
            context.run_step(inputs, sizes)
        self._live.clear()
        try:
            given = Handed(watched.manifest)
            for shown in watcher.seen:
                given.follow(shown.event, self._live)
                self._live.update(shown.values)
                self._record(shown.event)
                yield shown.event
            # The state after an iterated step is that of a step, which leaves no events of its own.
            self._first.muted = True
            self._run_step(inputs, sizes)
        finally:
            # Also where the iteration was left early: its values are those of no step.
            self._first.muted = False
            self._live.clear()

    def _snapshot_state(self) -> State:
        return self._state.snapshot()

    def _restore_state(self, state: State) -> None:
        self._first.quiesce()
        # Also where it fails: the slots of the frame are filled in anew.
        self._first.forget_sizes()
        self._state.restore(state, self.sizes)
        self._first.done = False

    def _reset_state(self) -> None:
        self._ready.clear()
        first = self._first
        first.done = False
        first.quiesce()
        self._state.reset()
        first.forget_sizes()
        first.forget_steps()
        for context in self._beside.clear() if self._beside is not None else ():
            context.close()

    def _forked(self) -> None:
        lost = not self._turn.slot or (self._beside is not None and self._beside.inside)
        super()._forked()
        if lost and not self._closed:
            self._make_contexts()
        self._taking = self._turn.taking
        # It looks at the turn of before.
        self._first.quick = self._follow = None

    def _lost_inside(self) -> None:
        super()._lost_inside()
        self._ready.clear()
        # A step was under way, and what it has changed cannot be put back from the middle of it.
        self._closed = self._closed or self._has_state()

    def _others_inside(self) -> int | None:
        inside = self._beside.inside if self._beside is not None else {}
        return next(iter(list(inside)), None)

    def _close(self) -> None:
        super()._close()
        for context in self._contexts:
            context.close()
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
