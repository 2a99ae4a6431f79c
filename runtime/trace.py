"""What happened in a step: events, trace JSON, the Perfetto form, and log lines.

`OPENINFER_TRACE=1` writes one line per event to stderr; `OPENINFER_TRACE=full` adds shapes, dtypes
and settings, and warnings.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TextIO

from openinfer.runtime.errors import Location
from openinfer.runtime.options import Options

KINDS = (
    "BlockEnter",
    "BlockExit",
    "Assign",
    "OpExecute",
    "CacheRead",
    "CacheWrite",
    "CacheIncrement",
    "CacheDecrement",
    "CacheReset",
    "Barrier",
    "Dep",
    "Transfer",
    "Yield",
    "Await",
    "Branch",
    "Loop",
    "Return",
)

_COLOURS = {"TRACE": "36", "WARNING": "33", "ERROR": "31", "CRITICAL": "35"}


@dataclass(frozen=True)
class Event:
    """One node that ran, or the entering or leaving of a block."""

    kind: str
    """One of `KINDS`."""
    block_name: str
    node_index: int
    """Position in program order, the same in every run of one program text."""
    node_uuid: str
    """Stable: the same source gives the same uuid."""
    op_name: str = ""
    description: str = ""
    """The node as a person writes it: `op add(x, a) >> t0`."""
    params: tuple[str, ...] = ()
    """Names of the values read; `W[l=0]` for an index that a loop or scalar gave."""
    output: tuple[str, ...] = ()
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: {})
    """Shape by name, of all params and outputs."""
    dtypes: Mapping[str, str] = field(default_factory=lambda: {})
    settings: Mapping[str, object] = field(default_factory=lambda: {})
    start_ns: int = 0
    """Monotonic clock at the start of the node."""
    duration_ns: int = 0
    location: Location | None = None

    @property
    def micros(self) -> list[int]:
        """The duration as [milliseconds, microseconds, nanoseconds]."""
        microseconds, nanoseconds = divmod(self.duration_ns, 1000)
        return [*divmod(microseconds, 1000), nanoseconds]

    @property
    def micros_text(self) -> str:
        return "{}ms {}us {}ns".format(*self.micros)

    def json(self) -> dict[str, object]:
        """The seven fields of a trace entry, and `shapes`."""
        return {
            "block_name": self.block_name,
            "node_index": self.node_index,
            "node_uuid": self.node_uuid,
            "kind": self.kind,
            "params": list(self.params),
            "output": list(self.output),
            "micros": self.micros,
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
        }

    def log_text(self, *, full: bool = False) -> str:
        """`index uuid [block] -- text -- (0ms 13us 120ns)`, with shapes and settings when full."""
        text = (
            f"{self.node_index} {self.node_uuid} [{self.block_name}] -- "
            f"{self.description or self.kind} -- ({self.micros_text})"
        )
        if full and self.shapes:
            shown = [f"{n}: {self.dtypes.get(n, '')}{list(s)}" for n, s in self.shapes.items()]
            text += f" {', '.join(shown)}"
        if full and self.settings:
            text += " {" + ", ".join(f"{k}={v}" for k, v in self.settings.items()) + "}"
        return text


def trace_json(events: Iterable[Event], *, indent: int | None = 2) -> str:
    """The trace as a JSON array, one object per event in execution order."""
    return json.dumps([event.json() for event in events], indent=indent)


def chrome_trace(events: Iterable[Event]) -> str:
    """The trace in the event format that Perfetto and chrome://tracing open."""
    phases = {"BlockEnter": "B", "BlockExit": "E"}
    rows: list[dict[str, object]] = []
    for event in events:
        row: dict[str, object] = {
            "name": event.block_name if event.kind in phases else event.op_name or event.kind,
            "cat": event.kind,
            "ph": phases.get(event.kind, "X"),
            "ts": event.start_ns / 1000,
            "pid": 1,
            "tid": 1,
            "args": {
                "node": event.description,
                "shapes": {name: list(shape) for name, shape in event.shapes.items()},
                "settings": {name: str(value) for name, value in event.settings.items()},
                "location": str(event.location) if event.location else "",
            },
        }
        if row["ph"] == "X":
            row["dur"] = event.duration_ns / 1000
        rows.append(row)
    return json.dumps({"traceEvents": rows, "displayTimeUnit": "ns"})


class TraceLog:
    """Writes log lines as the environment asks; `enabled` is False when it asks for nothing."""

    def __init__(self, level: str | None = None, stream: TextIO | None = None) -> None:
        chosen = Options.from_environment().trace if level is None else level
        self.enabled = chosen not in ("", "0")
        self.full = chosen == "full"
        self._stream = stream

    def event(self, event: Event) -> None:
        """One TRACE line."""
        if self.enabled:
            self._write("TRACE", event.log_text(full=self.full))

    def warning(self, text: str) -> None:
        """A WARNING line, at level full."""
        if self.full:
            self._write("WARNING", text)

    def error(self, text: str) -> None:
        """An ERROR line, at every level."""
        if self.enabled:
            self._write("ERROR", text)

    def _write(self, kind: str, text: str) -> None:
        # Looked up now, so that a redirected stderr is honoured.
        stream = self._stream or sys.stderr
        label = f"[{kind}]"
        if stream.isatty():
            label = f"\x1b[{_COLOURS[kind]}m{label}\x1b[0m"
        stream.write(f"{time.strftime('%H:%M:%S')} {label} -- {text}\n")
