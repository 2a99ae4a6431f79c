"""Stepping through a program on any executor: node by node, to breakpoints, to changes.

stepper = Stepper(executor, [Breakpoint(op="matmul", when="h.max > 1")])
stepper.begin(x=array)
stop = stepper.resume()         # Stop(reason="breakpoint", …), after the node has run
stepper.fetch("h")              # temporaries too
stepper.next()                  # one node, over the bodies of branches and loops
stepper.end()                   # to the end of the step
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, cast

from openinfer.runtime.breakpoints import Breakpoint, check_names
from openinfer.runtime.conditions import Condition, NoValue
from openinfer.runtime.errors import InputError
from openinfer.runtime.executor import BaseExecutor, StepNode
from openinfer.runtime.outline import Call, Outline, Position
from openinfer.runtime.step_values import StepValues
from openinfer.runtime.storage import AnyArray
from openinfer.runtime.tensors import Tensor
from openinfer.runtime.trace import Event
from openinfer.runtime.turns import Turn, Turns


@dataclass(frozen=True)
class Change:
    """A watched expression that has another value than before; None: it had, or has, none."""

    text: str
    before: AnyArray | None
    after: AnyArray | None


@dataclass(frozen=True)
class Stop:
    """Why and where a stepper came to rest."""

    reason: str
    """"step", "breakpoint", "watch", "interrupt", or "end" when the step is over."""
    event: Event | None = None
    """The node that ran last; None at the end of a step."""
    breakpoints: tuple[Breakpoint, ...] = ()
    """Those that were hit."""
    changes: tuple[Change, ...] = ()
    problems: tuple[str, ...] = ()
    """Conditions that could not be decided at this node, with the reason."""


class Watch:
    """An expression whose changes by nodes stop a step."""

    def __init__(self, text: str) -> None:
        """Raises InputError OI0561 for a text that is no expression."""
        self.condition = Condition(text)
        self.value: AnyArray | None = None

    @property
    def text(self) -> str:
        """The expression as written."""
        return self.condition.text

    def change(self, values: StepValues) -> Change | None:
        """What has changed since the last call. Raises InputError."""
        try:
            found: AnyArray | None = self.condition.evaluate(values).copy()
        except NoValue:
            found = None
        before, self.value = self.value, found
        return None if _same(before, found) else Change(self.text, before, found)


def _same(left: AnyArray | None, right: AnyArray | None) -> bool:
    """Equality of bits, so that a NaN that stays is no change."""
    if left is None or right is None:
        return left is right
    return left.dtype == right.dtype and left.shape == right.shape and _bits(left) == _bits(right)


def _bits(array: AnyArray) -> bytes:
    return array.tobytes()


class Follower:
    """What is known of a step after each of its events: position, values, breakpoints hit."""

    def __init__(self, executor: BaseExecutor, outline: Outline | None) -> None:
        self.executor = executor
        self.outline = outline
        self.event: Event | None = None
        self.entered = False
        """Whether the event is the first of its block."""
        self.called: tuple[Call, ...] = ()
        """The calls of blocks with parameters of which the event is the first."""
        self._held: dict[int, tuple[Breakpoint, bool]] = {}
        self.begin()

    def begin(self) -> None:
        """The next step starts."""
        self.position = Position(self.outline, lambda name: self.values.integer(name))
        self.values = StepValues(self.executor, self.position, self.executor.finished_steps)
        self.event = None

    def update(self, event: Event) -> None:
        """Takes note of the next event."""
        before = len(self.position.frames)
        self.position.update(event)
        calls = self.outline.first_of if self.outline is not None else {}
        self.called = calls.get(event.node_uuid, ())
        # A stream that does not tell of entering is taken to enter where a block is new.
        grown = not self.position.told and len(self.position.frames) > before
        self.entered = event.kind == "BlockEnter" or grown
        self.event = event

    def hit(self, breakpoint: Breakpoint) -> bool:
        """Whether a breakpoint stops here; asked once after each event. Raises InputError."""
        if self.event is None:
            return False
        entered = [call.block for call in self.called]
        places = [call.location for call in self.called]
        if self.entered:
            name = self.event.block_name
            entered.append(name)
            places.append(self.outline.blocks.get(name) if self.outline is not None else None)
        calls = self.position.frames[-1].calls if self.position.frames else ()
        block = calls[-1].block if calls else self.event.block_name
        if not breakpoint.at(self.event, block, entered=entered, places=places):
            return False
        if breakpoint.condition is None:
            return True
        holds = breakpoint.condition.holds(self.values)
        if breakpoint.is_anywhere:
            _, held = self._held.get(id(breakpoint), (breakpoint, False))
            self._held[id(breakpoint)] = (breakpoint, holds)
            return holds and not held
        return holds


def _declares(event: Event | None) -> bool:
    return event is not None and event.kind == "Assign"


def stops(
    executor: BaseExecutor, nodes: Generator[StepNode, None, None], breakpoints: list[Breakpoint]
) -> Generator[StepNode, None, None]:
    """Those nodes of an iteration at which a breakpoint is hit.

    Raises InputError for a breakpoint that does not fit the program, at once, and for a condition
    that cannot be decided, which abandons the step.
    """
    outline = executor.outline()
    for breakpoint in breakpoints:
        given = cast("object", breakpoint)
        if not isinstance(given, Breakpoint):
            raise InputError(
                "OI0525",
                f"a breakpoint is a {type(given).__name__}, not an openinfer.Breakpoint",
                hint='write oi.Breakpoint(op="matmul"), say',
            )
        breakpoint.check(executor, outline)
    # A turn of its own: that of the executor is taken for each node and each condition.
    return Turns(_stops(Follower(executor, outline), nodes, list(breakpoints)), Turn())


def _stops(
    follower: Follower, nodes: Generator[StepNode, None, None], breakpoints: list[Breakpoint]
) -> Generator[StepNode, None, None]:
    try:
        for node in nodes:
            follower.update(node.event)
            hits = [b for b in breakpoints if follower.hit(b)]
            breakpoints = [b for b in breakpoints if not (b.once and b in hits)]
            if hits:
                yield node
    finally:
        nodes.close()


class Stepper:
    """Controls the steps of one executor. Breakpoints and watches may change between calls.

    While a step is active, the executor takes no inputs and runs no other step. A step that fails
    raises its StepError from the call that ran into it; it is then over, state is as before it.
    """

    def __init__(
        self,
        executor: BaseExecutor,
        breakpoints: Iterable[Breakpoint] = (),
        *,
        outline: Outline | None = None,
    ) -> None:
        """`outline` is that of the executor when it is left out. Raises InputError OI0562, OI0563
        for a breakpoint that does not fit the program."""
        self.executor = executor
        self.outline = outline if outline is not None else executor.outline()
        self.breakpoints: list[Breakpoint] = []
        self.watches: list[Watch] = []
        self.stop: Stop | None = None
        """The last stop of the active step."""
        self._nodes: Generator[StepNode, None, None] | None = None
        self._follower = Follower(executor, self.outline)
        self._interrupted = False
        for breakpoint in breakpoints:
            self.add(breakpoint)

    def add(self, breakpoint: Breakpoint) -> Breakpoint:
        """Sets a breakpoint. Raises InputError when the program has no such place or name."""
        breakpoint.check(self.executor, self.outline)
        self.breakpoints.append(breakpoint)
        return breakpoint

    def watch(self, text: str) -> Watch:
        """Stops where an expression changes its value. Raises InputError OI0561, OI0562."""
        watch = Watch(text)
        check_names(watch.condition, self.executor, self.outline)
        watch.change(self._follower.values)
        self.watches.append(watch)
        return watch

    # The step

    @property
    def active(self) -> bool:
        """Whether a step was begun and is not over."""
        return self._nodes is not None

    @property
    def step_number(self) -> int:
        """How many steps were finished before this one."""
        return self.executor.finished_steps

    @property
    def position(self) -> Position:
        """Blocks and loops around the node that ran last."""
        return self._follower.position

    def begin(self, /, **inputs: Any) -> None:
        """Inserts the inputs and begins a step; nothing has run yet. Raises InputError."""
        if self.active:
            raise InputError("OI0509", "a step is being iterated", hint="end or abandon it first")
        self.executor.insert(**inputs)
        self._nodes = self.executor.iterate()
        self._follower.begin()
        self.stop = None

    def step(self, count: int = 1) -> Stop:
        """Runs `count` nodes, into branches and loops; a breakpoint or the end stops earlier.

        An `assign` declares and computes nothing: it is passed, here, in `next` and in `finish`.
        """
        stop = self._run_until(lambda: True)
        for _ in range(count - 1):
            if stop.reason != "step":
                break
            stop = self._run_until(lambda: True)
        return stop

    def next(self) -> Stop:
        """Runs one node, and the bodies of the branch or loop that ran last, to their end.

        A breakpoint, watch or interrupt within stops earlier.
        """
        depth = max(self.position.depth, (1, 0))
        return self._run_until(lambda: self.position.depth <= depth)

    def finish(self) -> Stop:
        """Runs out of the innermost loop or block; a breakpoint within stops earlier."""
        blocks, loops = max(self.position.depth, (1, 0))

        calls = self.position.calls

        def outside() -> bool:
            event = self._follower.event
            if event is not None and event.kind == "BlockExit" and self.position.depth[0] == blocks:
                return True
            # A call may follow the one before it, or itself in the next turn of a loop.
            left = self.position.calls[: len(calls)] != calls
            again = bool(calls) and calls[-1][1] in self._follower.called
            return left or again or self.position.depth < (blocks, loops)

        return self._run_until(outside)

    def resume(self) -> Stop:
        """Runs to the next breakpoint or change, or to the end of the step."""
        return self._run_until(lambda: False)

    def until(self, target: Breakpoint | str) -> Stop:
        """Runs until a breakpoint or condition is hit, or a set breakpoint before it."""
        chosen = target if isinstance(target, Breakpoint) else Breakpoint(when=target)
        chosen.check(self.executor, self.outline)
        return self._run_until(lambda: self._follower.hit(chosen), declarations=True)

    def end(self) -> Stop:
        """Runs to the end of the step, past all breakpoints."""
        stop = self._advance(quiet=True)
        while stop.reason not in ("end", "interrupt"):
            stop = self._advance(quiet=True)
        return stop

    def abandon(self) -> None:
        """Ends the active step here; persistent state is as before it."""
        if self._nodes is not None:
            nodes, self._nodes = self._nodes, None
            nodes.close()
        self.stop = None

    def interrupt(self) -> None:
        """Makes a running call stop after its present node; safe in a signal handler."""
        self._interrupted = True

    # Values

    def fetch(self, name: str, *, copy: bool = True) -> AnyArray | Tensor:
        """The value of a variable after the node that ran last. See `BaseExecutor.fetch`."""
        return self.executor.fetch(name, copy=copy)

    def evaluate(self, text: str) -> AnyArray:
        """The value of an expression here.

        Raises InputError OI0561, OI0562, also where a name has no value yet.
        """
        condition = Condition(text)
        check_names(condition, self.executor, self.outline)
        try:
            return condition.evaluate(self._follower.values)
        except NoValue as error:
            raise InputError("OI0562", str(error)) from None

    # Running

    def _run_until(self, reached: Callable[[], bool], *, declarations: bool = False) -> Stop:
        """Runs on until `reached`, and with `declarations` unset to the next node that is none."""
        arrived = False
        while True:
            stop = self._advance()
            if stop.reason != "step":
                return stop
            try:
                arrived = arrived or reached()
            except InputError as error:
                return Stop("breakpoint", stop.event, problems=(error.message,))
            if arrived and (declarations or not _declares(stop.event)):
                return stop

    def _advance(self, *, quiet: bool = False) -> Stop:
        """Runs one node. Raises StepError when it fails, InputError when no step is active."""
        if self._nodes is None:
            raise InputError("OI0509", "no step is active", hint="begin one with `begin`")
        try:
            node = next(self._nodes, None)
        except BaseException:
            self._nodes = None
            self.stop = None
            raise
        if node is None:
            self._nodes = None
            self.stop = Stop("end")
            return self.stop
        self._follower.update(node.event)
        self.stop = self._looked_at(node.event, quiet)
        return self.stop

    def _looked_at(self, event: Event, quiet: bool) -> Stop:
        changes: list[Change] = []
        hits: list[Breakpoint] = []
        problems: list[str] = []
        # What the beginning of a step resets was changed by no node.
        begins = self.stop is None and event.kind == "BlockEnter"
        for watch in self.watches:
            try:
                change = watch.change(self._follower.values)
            except InputError as error:
                problems.append(error.message)
                continue
            if change is not None and not begins:
                changes.append(change)
        for breakpoint in self.breakpoints:
            try:
                if self._follower.hit(breakpoint):
                    hits.append(breakpoint)
            except InputError as error:
                problems.append(error.message)
        interrupted, self._interrupted = self._interrupted, False
        if quiet:
            return Stop("interrupt" if interrupted else "step", event)
        self.breakpoints = [b for b in self.breakpoints if not (b.once and b in hits)]
        if hits or problems:
            reason = "breakpoint"
        elif changes:
            reason = "watch"
        else:
            reason = "interrupt" if interrupted else "step"
        return Stop(reason, event, tuple(hits), tuple(changes), tuple(problems))
