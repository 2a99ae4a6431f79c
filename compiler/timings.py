"""What each pass of a compilation cost: `--time-passes`."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass
class Timings:
    """Seconds per pass, in the order they ran; `table()` is what `--time-passes` prints."""

    rows: list[tuple[str, str, float]] = field(default_factory=list[tuple[str, str, float]])
    """(phase, pass, seconds); what is no pass has its name in brackets."""

    def add(self, phase: str, name: str, seconds: float) -> None:
        """Takes down a pass that ran."""
        self.rows.append((phase, name, seconds))

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
        return "\n".join(lines)


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
