"""One step with its consumers: blocks that start with `await` run beside entry.

A consumer runs when all values that it awaits have been yielded since it last ran. It works on its
own copies of them, so that readers see what was yielded; what the one writer has made of a value
comes back when entry awaits it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

from openinfer.lowering.program.view import ProgramView
from openinfer.lowering.reference.caches import Cache, Caches
from openinfer.lowering.reference.contents import Contents
from openinfer.lowering.reference.interpreter import Interpreter, Steps
from openinfer.lowering.reference.scope import Key, Overlay, Scope, StepData
from openinfer.runtime.storage import AnyArray
from openinfer.runtime.trace import Event

ENTRY = "entry"
Order = Callable[[Sequence[str]], str]
"""Picks the block whose next node runs, "entry" or a consumer, among those that can go on."""


def consumers_first(ready: Sequence[str]) -> str:
    """The order of a step that nobody asks for another: each consumer runs when it can, whole."""
    return next((name for name in ready if name != ENTRY), ENTRY)


@dataclass
class _Published:
    """A yielded value, and what its writer has made of it."""

    value: AnyArray
    result: AnyArray | None = None


@dataclass
class _Task:
    """A block that runs: entry, or a consumer."""

    interpreter: Interpreter
    nodes: Steps
    awaited: frozenset[str] = frozenset()
    waits: bool = False
    """Whether it can only go on when another task has ended."""


class StepRun:
    """One step of a program: the values while it runs, and the generator that runs it."""

    def __init__(
        self,
        view: ProgramView,
        contents: Contents,
        inputs: Mapping[str, AnyArray],
        sizes: Mapping[str, int],
        kept: Mapping[str, Cache],
        limit: int,
        order: Order | None = None,
    ) -> None:
        """`inputs` are value arrays, `kept` the caches of the last step; neither is changed.

        `limit` bounds the bytes of all caches.
        """
        values: dict[Key, AnyArray] = {(name, ()): array for name, array in inputs.items()}
        caches = Caches(contents, kept, limit)
        self.data = StepData(view, contents, dict(sizes), values, caches)
        self.order = order or consumers_first
        self._tasks: dict[str, _Task] = {}
        self._published: dict[str, _Published] = {}
        self._consumers = view.consumers()
        self._arrived: dict[str, set[str]] = {name: set() for name in self._consumers}
        """For each consumer, what has been yielded since it last started."""
        self._entry = Interpreter(self.data, exchange=self)
        self._current: Scope = self._entry

    @property
    def scope(self) -> Scope:
        """The names as the block sees them whose node ran last."""
        return self._current

    def run(self) -> Generator[Event, None, None]:
        """Runs the step, an event for each node. Raises StepError."""
        self._tasks = {ENTRY: _Task(self._entry, self._entry.block(ENTRY))}
        try:
            while self._tasks:
                name = self._pick()
                task = self._tasks[name]
                self._current = task.interpreter
                try:
                    event = next(task.nodes)
                except StopIteration:
                    self._ended(name)
                    continue
                task.waits = event is None
                if event is not None:
                    yield event
            # Values that are still away when entry returns come back with the end of the step.
            self.take_back(tuple(self._published))
        finally:
            self._current = self._entry
            for task in self._tasks.values():
                task.nodes.close()

    def _pick(self) -> str:
        ready = [name for name, task in self._tasks.items() if not task.waits]
        name = self.order(ready)
        assert name in ready, f"{name} cannot run now, only {ready}"
        return name

    def _ended(self, name: str) -> None:
        task = self._tasks.pop(name)
        for other in self._tasks.values():
            other.waits = False
        overlay = task.interpreter.overlay
        if overlay is None:
            return
        for variable in sorted(overlay.written & overlay.names):
            self._published[variable].result = overlay.values[variable]

    # What entry asks for

    def publish(self, names: Sequence[str]) -> None:
        """`yield` in entry: takes the values away and starts the consumers that have all of theirs."""
        for name in names:
            self._published[name] = _Published(self._entry.value(name))
        for block, awaited in self._consumers.items():
            arrived = self._arrived[block]
            arrived.update(awaited.intersection(names))
            if arrived.issuperset(awaited):
                arrived.clear()
                self._start(block, awaited)

    def _start(self, block: str, awaited: frozenset[str]) -> None:
        values = {name: self._published[name].value for name in awaited}
        overlay = Overlay(block, awaited, values)
        interpreter = Interpreter(self.data, overlay)
        self._tasks[block] = _Task(interpreter, interpreter.block(block), awaited)

    def is_away(self, names: Sequence[str]) -> bool:
        """Whether a consumer of one of these values still runs."""
        return any(task.awaited.intersection(names) for task in self._tasks.values())

    def take_back(self, names: Sequence[str]) -> None:
        """`await` in entry: the values are entry's again, as their writer has left them."""
        for name in names:
            published = self._published.pop(name)
            for arrived in self._arrived.values():
                arrived.discard(name)
            if published.result is not None:
                self.data.values[(name, ())] = published.result
