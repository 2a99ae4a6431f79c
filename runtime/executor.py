"""What every executor shares: one interface, turns of threads, what is refused when.

An executor runs steps of one program. The simulator and the compiled program derive from
`BaseExecutor` and say only how a step runs and where values are kept.
"""

from __future__ import annotations

import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, NoReturn, Self, cast

from openinfer.runtime.errors import InputError, UnsupportedError
from openinfer.runtime.inputs import checked_inputs, dynamic_names, near_names, sizes_of_inputs
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.results import PositionalInputError, Results, positional_inputs
from openinfer.runtime.state import State, checked_state_bytes
from openinfer.runtime.state_check import check_state
from openinfer.runtime.step_sizes import divides, impossible, no_memory_for_state
from openinfer.runtime.storage import AnyArray
from openinfer.runtime.tensors import Tensor
from openinfer.runtime.trace import Event, EventStore, Trace, TraceLog
from openinfer.runtime.turns import Turn, Turns, alone
from openinfer.runtime.variables import VariableInfo, checked_entry, handed

if TYPE_CHECKING:
    from openinfer.runtime.breakpoints import Breakpoint
    from openinfer.runtime.devices.base import DeviceCall
    from openinfer.runtime.outline import Outline


@dataclass(frozen=True)
class StepNode:
    """One node of a step while it is iterated: what happened, and access to the values so far."""

    event: Event
    executor: BaseExecutor

    def fetch(self, name: str, *, copy: bool = True) -> AnyArray | Tensor:
        """The value of `name` after this node, temporaries too."""
        return self.executor.fetch(name, copy=copy)


class BaseExecutor(ABC):
    """Runs steps. Use `insert`, `step`, `fetch`; or `run`; or `iterate` node by node.

    A failing step leaves persistent state as it was, and the executor stays usable. Any number of
    threads may call `run`; the other methods are for one thread at a time, and raise InputError OI0564
    while another one is inside.
    """

    def __init__(
        self,
        variables: Iterable[VariableInfo],
        *,
        sizes: Mapping[str, int],
        results: Sequence[str],
        max_state_bytes: int | None = None,
    ) -> None:
        """`sizes` are fixed for every step; `results` are the names that `run` gives back.

        `max_state_bytes` limits what persistent variables take (default: half of the memory of the
        machine). Raises InputError OI0552 for what is no number of bytes.
        """
        self.variables: dict[str, VariableInfo] = {v.name: v for v in variables}
        self.sizes: dict[str, int] = dict(sizes)
        self.results = tuple(results)
        self._divided = [
            dim for info in self.variables.values() for dim in info.dims if divides(dim)
        ]
        """Dimensions that divide by something that a step may give the value 0."""
        self._finished = 0
        self._turn = Turn()
        self.step_sizes: dict[str, int] = {}
        """All sizes of the step that is, or was last, iterated."""
        self.max_state_bytes = checked_state_bytes(max_state_bytes)
        """A step whose state would outgrow it fails with OI0609."""
        self._inputs: dict[str, Tensor] = {}
        self._stepping: Iterator[Event] | None = None
        self._closed = False
        self._trace = EventStore()
        self._tracing = True
        self._log = TraceLog()
        _EXECUTORS.add(self)

    @property
    def finished_steps(self) -> int:
        """Steps that ended well since the executor was made or reset."""
        return self._finished

    # What an executor must provide

    @abstractmethod
    def _run_step(self, inputs: Mapping[str, Tensor], sizes: Mapping[str, int]) -> None:
        """Run one whole step. All dynamic variables are in `inputs`, all their sizes in `sizes`."""

    @abstractmethod
    def _iterate_step(
        self, inputs: Mapping[str, Tensor], sizes: Mapping[str, int]
    ) -> Iterator[Event]:
        """Run one step, giving an event after each node; closing it abandons the step."""

    @abstractmethod
    def _value(self, name: str) -> Tensor:
        """The present value of a variable. Raises InputError when it has none now."""

    @abstractmethod
    def _reset_state(self) -> None:
        """Persistent variables back to their first content."""

    def _snapshot_state(self) -> State:
        """The content of all persistent variables, in memory of its own."""
        return State({}) if not self._has_state() else self._no_snapshots()

    def _restore_state(self, state: State) -> None:
        """Take over a snapshot that fits (`check_state`); nothing is shared with it."""
        if self._has_state():
            self._no_snapshots()

    def _close(self) -> None:
        """Free what the executor holds; the default holds nothing."""
        self._trace.clear()

    def _others_inside(self) -> int | None:
        """A thread that is inside beside the turn; the default knows none."""
        return None

    def _has_inputs(self) -> bool:
        """Whether inputs wait for a step."""
        return bool(self._inputs)

    def _forked(self) -> None:
        """This is the child of a fork: the threads that were inside are not here."""
        if not self._turn.slot:
            self._lost_inside()
        # Who had taken it before the fork, and looks only now, finds somebody inside.
        self._turn.slot.clear()
        self._turn = Turn()
        self._trace.renew_lock()

    def _lost_inside(self) -> None:
        """A thread was inside that is not here any more; the default keeps what no step has finished."""
        self._inputs.clear()

    # The interface

    @alone("insert")
    def insert(self, /, *unnamed: Never, **arrays: Any) -> None:
        """Give dynamic variables their values for the next step; arrays are borrowed until then.

        Raises InputError for an unknown name, another memory kind, a wrong dtype, rank or shape, or
        a size on which two arrays of this call differ. Nothing is taken in when one is wrong.
        """
        self._turn.inserts(self._has_inputs())
        self._insert(unnamed, arrays)

    def _insert(self, unnamed: Sequence[object], arrays: Mapping[str, Any]) -> None:
        self._check_open()
        if unnamed:
            raise self._positional(unnamed)
        if self._stepping is not None:
            raise InputError(
                "OI0509",
                "insert while a step is being iterated",
                hint="finish or close the iteration first",
            )
        self._inputs.update(self._checked_inputs(arrays))

    def _checked_inputs(self, arrays: Mapping[str, Any]) -> dict[str, Tensor]:
        return checked_inputs(arrays, self.variables, self.sizes)

    @alone("step")
    def step(self) -> None:
        """Run one step. Raises InputError before anything runs, StepError when the step fails."""
        self._step_inserted()

    def _step_inserted(self) -> None:
        inputs, sizes = self._begin()
        self._turn.steps()
        try:
            self._run_step(inputs, sizes)
            self._finished += 1
        except (MemoryError, ZeroDivisionError) as error:
            raise impossible(error, sizes) from error
        finally:
            self._inputs.clear()

    @alone("run", wait=True)
    def run(self, /, *unnamed: Never, **inputs: Any) -> Results:
        """`insert`, `step`, and the results by name, in one turn: other threads wait for it.

        The results are the values that `entry` returns, else every volatile variable it writes; a
        name that is none of them raises an InputError that is a KeyError, too.
        """
        self._run_whole(unnamed, inputs)
        return Results({name: self._fetch(name) for name in self.results})

    def _run_whole(self, unnamed: Sequence[object], inputs: Mapping[str, Any]) -> None:
        """Inserts and steps: both, or what was inserted before is there as it was."""
        self._turn.inserts(self._has_inputs())
        before = dict(self._inputs)
        try:
            self._insert(unnamed, inputs)
            self._step_inserted()
        finally:
            if self._inputs:
                # The step did not begin.
                self._inputs = before

    @alone("fetch")
    def fetch(self, name: str, *, copy: bool = True) -> AnyArray | Tensor:
        """The value of a variable: a NumPy array, or a `Tensor` for dtypes that NumPy lacks.

        `W[0]` names one member of a prefix table. A cache gives all its entries as one array, `K`,
        or those below some indices, `K[0]` or `K[0, 3]`; entries that are not there have their
        first content.
        With `copy=False` the array may share memory that the next step overwrites. Raises
        InputError for an unknown name, or one that has no value now, and for the results of a step
        that another thread has run since the caller's own.
        """
        return self._fetch(name, copy=copy)

    def _fetch(self, name: str, *, copy: bool = True) -> AnyArray | Tensor:
        name, info = self._asked_for(name)
        if info.memory not in ("persistent", "constant"):
            self._turn.check_results()
        # While a step is iterated, a dynamic variable is what the caller has inserted.
        inserted = self._inputs.get(name) if self._stepping is not None else None
        return handed(inserted if inserted is not None else self._value(name), copy)

    def _asked_for(self, name: str) -> tuple[str, VariableInfo]:
        """The variable that `fetch` is asked for, checked. Raises InputError."""
        self._check_open()
        # A plain name is what every `run` asks for: one look is all that it costs.
        info = self.variables.get(name) if isinstance(cast("object", name), str) else None
        if info is None:
            name, info = self._entry_asked_for(name)
        if info.memory == "dynamic" and name not in self.results and self._stepping is None:
            raise InputError(
                "OI0506",
                f"{name} is dynamic: its value belongs to the caller and is cleared by the step",
                hint="keep the array that you inserted, or copy it into a volatile variable",
            )
        return name, info

    def _entry_asked_for(self, name: object) -> tuple[str, VariableInfo]:
        """What `K[0]` or `K[]` means, checked. Raises InputError OI0501, OI0547."""
        info = self.variables.get(name.partition("[")[0]) if isinstance(name, str) else None
        if info is None:
            hint = near_names(str(name), self.variables)
            raise InputError("OI0501", f"no variable is named {name!r}", hint=hint)
        return checked_entry(str(name), info), info

    def iterate(self, breakpoints: Iterable[Breakpoint] = ()) -> Generator[StepNode, None, None]:
        """Run one step node by node; each item has `.event`, and `fetch` works in between.

        With breakpoints, only the nodes at which one is hit are given; the others run. Leaving the
        loop early abandons the step: persistent state is then as before it. Raises InputError for
        a breakpoint that does not fit the program. `runtime.stepping.Stepper` does more.
        """
        chosen = list(breakpoints)
        nodes = Turns(self._iterate(), self._turn)
        if not chosen:
            return nodes
        from openinfer.runtime.stepping import stops

        return stops(self, nodes, chosen)

    def _iterate(self) -> Generator[StepNode, None, None]:
        inputs, sizes = self._begin()
        self._turn.steps()
        self.step_sizes = sizes
        events = self._iterate_step(inputs, sizes)
        self._stepping = events
        try:
            for event in events:
                yield StepNode(event, self)
                # Closed by whoever looks on: the rest of the step has no memory any more.
                self._check_open()
            self._finished += 1
        except (MemoryError, ZeroDivisionError) as error:
            raise impossible(error, sizes) from error
        finally:
            self._stepping = None
            close = getattr(events, "close", None)
            if close is not None:
                close()
            self._inputs.clear()

    def outline(self) -> Outline | None:
        """The nodes of the program in text order; None where only the compiled program is known."""
        return None

    def device_calls(self) -> list[DeviceCall]:
        """What the last step asked of its device, in order: kernels and transfers with their bytes.

        Empty where nobody writes that down; the device `null` does.
        """
        return []

    @alone("reset")
    def reset(self) -> None:
        """Persistent variables back to their first content; inserted inputs and trace dropped.

        Raises InputError while a step is iterated: what it has changed so far is nobody's yet.
        """
        self._check_alone("reset")
        self._check_idle("reset")
        self._inputs.clear()
        self._trace.clear()
        self._finished = 0
        self._turn.steps()
        self._reset_state()

    @alone("snapshot")
    def snapshot(self) -> State:
        """What the persistent variables hold, detached; the next steps do not change it.

        Raises InputError while a step is iterated.
        """
        self._check_idle("snapshot")
        try:
            return self._snapshot_state()
        except MemoryError as error:
            raise no_memory_for_state("a snapshot") from error

    @alone("restore")
    def restore(self, state: State | str | os.PathLike[str]) -> None:
        """Persistent variables as in a snapshot, or in the file of one: all of them or none.

        Raises InputError OI0551 when names, dtypes or shapes are not those of the program, and
        ArtefactError OI0811 for a file that cannot be used, OI0812 where memory does not hold it.
        """
        self._check_alone("restore")
        self._check_idle("restore")
        taken = state if isinstance(state, State) else State.load(state)
        check_state(taken, self.variables.values(), self.sizes, self.max_state_bytes)
        self._turn.steps()
        try:
            self._restore_state(taken)
        except MemoryError as error:
            raise no_memory_for_state("the content of a snapshot") from error

    # The trace

    @property
    def tracing(self) -> bool:
        """Whether steps leave events; settable. `iterate` leaves them in any case.

        The simulator traces from the start, a compiled program when its executor was made with
        `trace=True`: setting it on another one raises InputError OI0553.
        """
        return self._tracing

    @tracing.setter
    @alone("tracing")
    def tracing(self, on: bool) -> None:
        self._check_open()
        self._set_tracing(bool(on))

    def _set_tracing(self, on: bool) -> None:
        self._tracing = on

    def trace(self) -> Trace:
        """The events of all steps so far, in execution order; a notebook shows them as a table.

        The last `runtime.trace.TRACE_LIMIT` are kept; `dropped_events` counts those before them.
        """
        return self._trace.events()

    @property
    def dropped_events(self) -> int:
        """Events that the trace had no room for, since it was last cleared."""
        self._trace.events()
        return self._trace.dropped

    def clear_trace(self) -> None:
        """Forgets all events."""
        self._trace.clear()

    def save_trace(self, path: str | os.PathLike[str], format: str = "json") -> None:
        """Writes the trace to a file: "json" (`docs/trace.md`), or "chrome", which Perfetto opens.

        Raises InputError OI0554 for another format, or where the file cannot be written.
        """
        from openinfer.runtime.trace_files import write_trace

        write_trace(self.trace(), path, format)

    @alone("close")
    def close(self) -> None:
        """Free memory; may be called again. Every other call raises InputError afterwards.

        So does this one while another thread is inside.
        """
        if not self._closed:
            self._check_alone("close")
            self._closed = True
            self._inputs.clear()
            self._close()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Helpers

    def _positional(self, unnamed: Sequence[object]) -> PositionalInputError:
        return positional_inputs(unnamed, dynamic_names(self.variables))

    def _record(self, event: Event) -> None:
        if self._tracing or self._stepping is not None:
            if self.finished_steps:
                event = replace(event, step=self.finished_steps)
            self._trace.add(event)
            self._log.event(event)

    def _has_state(self) -> bool:
        return any(info.memory == "persistent" for info in self.variables.values())

    def _no_snapshots(self) -> NoReturn:
        names = ", ".join(v.name for v in self.variables.values() if v.memory == "persistent")
        raise UnsupportedError(
            "OI0735",
            f"this executor takes and gives no snapshots of {names}",
            hint="use the simulator",
        )

    def _check_alone(self, what: str) -> None:
        """Raises InputError OI0564 where somebody is inside beside the turn."""
        other = self._others_inside()
        if other is not None:
            raise self._turn.busy(what, other, "run")

    def _check_idle(self, what: str) -> None:
        self._check_open()
        if self._stepping is not None:
            raise InputError(
                "OI0509",
                f"{what} while a step is being iterated",
                hint="finish or close the iteration first",
            )

    def _check_open(self) -> None:
        if self._closed:
            raise InputError("OI0507", "the executor is closed", hint="make another one")

    def _begin(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """The inputs of the step that starts now, and all sizes. Raises InputError."""
        self._check_open()
        if self._stepping is not None:
            raise InputError(
                "OI0509", "a step is being iterated", hint="finish or close the iteration first"
            )
        return dict(self._inputs), self._sizes_of(self._inputs)

    def _sizes_of(self, inputs: Mapping[str, Tensor]) -> dict[str, int]:
        return sizes_of_inputs(inputs, self.variables, self.sizes, self._divided)


_EXECUTORS: weakref.WeakSet[BaseExecutor] = weakref.WeakSet()


def _after_fork() -> None:
    for executor in list(_EXECUTORS):
        executor._forked()  # pyright: ignore[reportPrivateUsage]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
