"""What a compilation is at, and what each of its passes cost: `--time-passes`."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from typing import TYPE_CHECKING

from openinfer.runtime.quick_dataclass import dataclass

if TYPE_CHECKING:
    from openinfer.runtime.devices.cpu.compilation import ModuleCost


@dataclass
class Timings:
    """Seconds per pass, in the order they ran; `table()` is what `--time-passes` prints."""

    rows: list[tuple[str, str, float]] = field(default_factory=list[tuple[str, str, float]])
    """(phase, pass, seconds); what is no pass has its name in brackets."""
    modules: list[ModuleCost] = field(default_factory=list["ModuleCost"])
    """What LLVM took for each object, beside the rest: seconds of processor time, in no fixed order."""

    def add(self, phase: str, name: str, seconds: float) -> None:
        """Takes down a pass that ran."""
        self.rows.append((phase, name, seconds))

    def of_llvm(self, costs: Sequence[ModuleCost]) -> None:
        """Takes down what LLVM took for the objects of a program."""
        self.modules.extend(costs)

    @contextmanager
    def measured(self, phase: str, name: str) -> Generator[None]:
        """Takes down what runs inside of a `with` block, also when it fails."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.add(phase, name, time.perf_counter() - begin)

    @property
    def total(self) -> float:
        """Seconds of all rows."""
        return sum(seconds for _, _, seconds in self.rows)

    def table(self) -> str:
        """A text table with a share per pass and the sum."""
        total = self.total
        width = max([len(name) for _, name, _ in self.rows] + [5])
        lines = [f"{'phase':8} {'pass':{width}} {'ms':>9} {'share':>6}"]
        for phase, name, seconds in self.rows:
            share = seconds / total if total else 0.0
            lines.append(f"{phase:8} {name:{width}} {seconds * 1e3:9.2f} {share:6.1%}")
        lines.append(f"{'':8} {'total':{width}} {total * 1e3:9.2f} {1:6.1%}")
        return "\n".join(lines + self._module_lines())

    def _module_lines(self) -> list[str]:
        """LLVM's part: it works beside the rest, on several processors."""
        if not self.modules:
            return []
        rows = [(m.what, (m.read, m.passes, m.code)) for m in self.modules]
        rows.sort(key=lambda row: (-sum(row[1]), row[0]))
        columns = list(zip(*(seconds for _, seconds in rows), strict=True))
        rows.append(("total", (sum(columns[0]), sum(columns[1]), sum(columns[2]))))
        head = "LLVM, processor time in ms"
        width = max([len(name) for name, _ in rows] + [len(head)])
        lines = ["", f"{head:{width}} {'read':>9} {'passes':>9} {'code':>9}"]
        for name, seconds in rows:
            lines.append(f"{name:{width}} " + " ".join(f"{s * 1e3:9.2f}" for s in seconds))
        return lines


_CURRENT: ContextVar[Timings | None] = ContextVar("openinfer_timings", default=None)


def current_timings() -> Timings:
    """Where the compilation that runs takes down its costs; one that nobody reads by default."""
    found = _CURRENT.get()
    return found if found is not None else Timings()


@contextmanager
def timed() -> Generator[Timings]:
    """Collects the costs of all compilations inside of a `with` block."""
    timings = Timings()
    token = _CURRENT.set(timings)
    try:
        yield timings
    finally:
        _CURRENT.reset(token)


@dataclass
class Stage:
    """What a compilation is at, for whoever waits for it: written by one thread, read by another."""

    text: str = ""


_STAGE: ContextVar[Stage | None] = ContextVar("openinfer_stage", default=None)


def at_stage(text: str) -> None:
    """Says what the compilation that runs is at now."""
    stage = _STAGE.get()
    if stage is not None:
        stage.text = text


@contextmanager
def staged() -> Generator[Stage]:
    """What all compilations inside of a `with` block are at."""
    stage = Stage()
    token = _STAGE.set(stage)
    try:
        yield stage
    finally:
        _STAGE.reset(token)
