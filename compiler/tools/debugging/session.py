"""The state of `openinfer debug`: an executor, its steps, and what stops them."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from openinfer.compiler.tools.debugging.reply import Reply
from openinfer.compiler.tools.debugging.show import short_value, stop_reply
from openinfer.compiler.tools.report import render
from openinfer.compiler.tools.running import results, short_line, tensor_json
from openinfer.runtime.errors import OpenInferError, StepError
from openinfer.runtime.files import read_text
from openinfer.runtime.stepping import Breakpoint, Stepper, Stop, Watch

if TYPE_CHECKING:
    from openinfer.compiler.tools.running import Session
    from openinfer.runtime.executor import BaseExecutor
    from openinfer.runtime.outline import Outline


@dataclass
class Entry:
    """A numbered breakpoint, watch or display."""

    number: int
    kind: str
    """"breakpoint", "watch" or "display"."""
    text: str
    breakpoint: Breakpoint | None = None
    watch: Watch | None = None
    hits: int = 0

    @property
    def line(self) -> str:
        """As `info breakpoints` lists it."""
        once = " (once)" if self.breakpoint is not None and self.breakpoint.once else ""
        hits = "" if self.kind == "display" else f", hit {self.hits} times"
        return f"{self.number}: {self.kind} {self.text}{once}{hits}"


class DebugSession:
    """Steps of one program under control; commands call these methods."""

    def __init__(self, program: Session, executor: BaseExecutor, outline: Outline) -> None:
        self.program = program
        self.executor = executor
        self.outline = outline
        self.stepper = Stepper(executor, outline=outline)
        self.entries: list[Entry] = []
        self.wanted = program.steps
        """`continue` goes on until so many steps are finished."""
        self.failures = 0
        """Steps that failed."""
        self.failed_line: int | None = None
        """Source line of the node that failed last, until a step runs again."""
        self.listed: int | None = None
        """Last source line that `list` showed."""
        self._numbers = 0

    @property
    def current_line(self) -> int | None:
        """Source line of the node that ran last, or that failed."""
        stop = self.stepper.stop
        place = stop.event.location if stop is not None and stop.event is not None else None
        return place.line if place is not None else self.failed_line

    @cached_property
    def source(self) -> str:
        """The text that the lines of nodes belong to; empty when it is not to be had.

        A program from graph JSON may say where another file has its nodes.
        """
        graph = self.program.graph
        places = [node.location for node in self.outline.nodes]
        file = next((place.file for place in places if place is not None), graph.file)
        if file == graph.file:
            return graph.text
        try:
            return read_text(file)
        except (OSError, UnicodeDecodeError):
            return ""

    # What stops a step

    def add_breakpoint(self, breakpoint: Breakpoint) -> Entry:
        """Raises InputError when it does not fit the program."""
        self.stepper.add(breakpoint)
        return self._entry("breakpoint", breakpoint.text, breakpoint=breakpoint)

    def add_watch(self, text: str) -> Entry:
        """Raises InputError for a wrong expression."""
        watch = self.stepper.watch(text)
        return self._entry("watch", watch.text, watch=watch)

    def add_display(self, text: str) -> Entry:
        """Shown after every stop. Raises InputError for a wrong expression."""
        from openinfer.runtime.breakpoints import check_names
        from openinfer.runtime.conditions import Condition

        condition = Condition(text)
        check_names(condition, self.executor, self.outline)
        return self._entry("display", condition.text)

    def _entry(
        self,
        kind: str,
        text: str,
        breakpoint: Breakpoint | None = None,
        watch: Watch | None = None,
    ) -> Entry:
        self._numbers += 1
        entry = Entry(self._numbers, kind, text, breakpoint, watch)
        self.entries.append(entry)
        return entry

    def delete(self, entry: Entry) -> None:
        """Removes a breakpoint, watch or display."""
        self.entries.remove(entry)
        stepper = self.stepper
        if entry.breakpoint is not None:
            stepper.breakpoints = [b for b in stepper.breakpoints if b is not entry.breakpoint]
        if entry.watch is not None:
            stepper.watches = [w for w in stepper.watches if w is not entry.watch]

    # Running

    def run(self, move: Callable[[Stepper], Stop], *, on: bool = False) -> Reply:
        """Moves in the step, beginning one when none is active, and tells where it stopped.

        With `on`, further steps are begun until as many as wanted are finished.
        """
        reply = Reply()
        with self._interruptible():
            try:
                self._begin(reply)
                stop = move(self.stepper)
                while stop.reason == "end":
                    self._ended(reply)
                    if not on or self.executor.finished_steps >= self.wanted:
                        return reply
                    self._begin(reply)
                    stop = move(self.stepper)
            except KeyboardInterrupt:
                self.stepper.abandon()
                reply.add(Reply.of("the step was abandoned; state is as before it"))
                return reply
            except StepError as error:
                return self._failed(reply, error)
            except OpenInferError:
                self.stepper.abandon()
                raise
        self._stopped(reply, stop)
        return reply

    def restart(self) -> Reply:
        """State, step count and trace as at the start; breakpoints stay."""
        self.stepper.abandon()
        self.executor.reset()
        self.failed_line = self.listed = None
        return Reply.of("state is reset; the next step is step 0", step=0)

    def _begin(self, reply: Reply) -> None:
        self.failed_line = self.listed = None
        if self.stepper.active:
            return
        number = self.executor.finished_steps
        self.stepper.begin(**self.program.inputs(self.executor, number))

    def _ended(self, reply: Reply) -> None:
        number = self.executor.finished_steps - 1
        values = results(self.executor)
        lines = [f"step {number} ended"]
        lines += [f"  {short_line(name, value)}" for name, value in values.items()]
        outputs = {
            name: tensor_json(value) if value.size <= 64 else {"shape": list(value.shape)}
            for name, value in values.items()
        }
        ended: list[Any] = [*reply.data.get("ended", []), {"step": number, "outputs": outputs}]
        reply.add(Reply.of(lines, ended=ended))

    def _failed(self, reply: Reply, error: StepError) -> Reply:
        self.failures += 1
        number = self.executor.finished_steps
        place = _place(error.message)
        self.failed_line = place
        reply.add(
            Reply.of(
                [
                    *render(error).splitlines(),
                    f"step {number} failed; state is as before it, and it can be run again",
                ],
                failed={"step": number, "error": str(error), "line": place},
            )
        )
        return reply

    def _stopped(self, reply: Reply, stop: Stop) -> None:
        numbers: list[int] = []
        for entry in list(self.entries):
            texts = [change.text for change in stop.changes]
            hit = any(entry.breakpoint is b for b in stop.breakpoints)
            if hit or (entry.watch is not None and entry.watch.text in texts):
                entry.hits += 1
                numbers.append(entry.number)
                reply.lines.append(f"{entry.kind} {entry.number}: {entry.text}")
                if entry.breakpoint is not None and entry.breakpoint.once:
                    self.entries.remove(entry)
        if stop.reason == "interrupt":
            reply.lines.append("interrupted")
        reply.add(stop_reply(self.stepper, stop))
        reply.data["entries"] = numbers
        shown = [short_value(self.stepper, e.text) for e in self.entries if e.kind == "display"]
        for value in shown:
            reply.lines += [f"  {line}" for line in value.lines]
        if shown:
            reply.data["display"] = [value.data for value in shown]

    @contextmanager
    def _interruptible(self) -> Generator[None]:
        """Ctrl-C stops after the present node; a second one abandons the step."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        asked = False

        def stop(number: int, frame: object) -> None:
            nonlocal asked
            if asked:
                raise KeyboardInterrupt
            asked = True
            self.stepper.interrupt()

        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def _place(message: str) -> int | None:
    """The source line at the beginning of a step's error, None when there is none."""
    found = re.match(r".+?:(\d+):\d+: ", message)
    return int(found[1]) if found else None
