"""What happened in a step: events, the trace files, and log lines.

`OPENINFER_TRACE=1` writes one line per event to stderr; `OPENINFER_TRACE=full` adds shapes, dtypes
and settings, and warnings. `docs/trace.md` describes the files.
"""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, TextIO

from openinfer.runtime.errors import Location
from openinfer.runtime.options import Options
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.tables import html_table

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
LANES = ("host", "device")
FORMATS = ("json", "chrome")
"""The formats of trace files."""
SHOWN_EVENTS = 1000
"""Events of a trace that a notebook shows."""
TRACE_LIMIT = 100_000
"""Events that an executor keeps; older ones are dropped, and counted."""

_COLOURS = {"TRACE": "36", "WARNING": "33", "ERROR": "31", "CRITICAL": "35"}


@dataclass(frozen=True)
class Event:
    """One node that ran, or the entering or leaving of a block.

    Compiled programs run several nodes as one kernel: that is one event, which lists them.
    """

    kind: str
    """One of `KINDS`."""
    block_name: str
    node_index: int
    """Position in program order, the same in every run of one program text; -1 for a block."""
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
    nodes: tuple[str, ...] = ()
    """uuids of all nodes that a kernel computes, in program order; empty for a node of its own."""
    indices: tuple[int, ...] = ()
    """Their indices."""
    places: tuple[Location, ...] = ()
    """Their places in the text, as far as they are known."""
    kernel: str = ""
    """The compiled function that ran; empty where none did."""
    scope: str = ""
    """Labels of the scopes around the node, and the calls of blocks with parameters, outermost first:
    `layers/attention`."""
    calls: tuple[str, ...] = ()
    """These calls, each with its line: `conv(x, "layer1.0", stride=2) at line 21`."""
    step: int = 0
    """Number of the step, from 0."""
    lane: str = "host"
    """One of `LANES`: who worked; the times of a device are its own, on the clock of the host."""

    @property
    def micros(self) -> list[int]:
        """The duration as [milliseconds, microseconds, nanoseconds]."""
        microseconds, nanoseconds = divmod(self.duration_ns, 1000)
        return [*divmod(microseconds, 1000), nanoseconds]

    @property
    def micros_text(self) -> str:
        return "{}ms {}us {}ns".format(*self.micros)

    @property
    def node_uuids(self) -> tuple[str, ...]:
        """The nodes that it stands for: those of the kernel, else its own."""
        return self.nodes or (self.node_uuid,)

    @property
    def node_indices(self) -> tuple[int, ...]:
        """Their indices."""
        return self.indices or (self.node_index,)

    @property
    def locations(self) -> tuple[Location, ...]:
        """Where the text has them."""
        return self.places or ((self.location,) if self.location is not None else ())

    def json(self) -> dict[str, object]:
        """An entry of a trace file: the seven fields of the original, then what is ours."""
        return {
            "block_name": self.block_name,
            "node_index": self.node_index,
            "node_uuid": self.node_uuid,
            "kind": self.kind,
            "params": list(self.params),
            "output": list(self.output),
            "micros": self.micros,
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
            "dtypes": dict(self.dtypes),
            "settings": {name: plain_json(value) for name, value in self.settings.items()},
            "op": self.op_name,
            "text": self.description,
            "nodes": list(self.node_uuids),
            "indices": list(self.node_indices),
            "places": [str(place) for place in self.locations],
            "kernel": self.kernel,
            "scope": self.scope,
            "calls": list(self.calls),
            "location": str(self.location) if self.location else "",
            "step": self.step,
            "start_ns": self.start_ns,
            "lane": self.lane,
        }

    def log_text(self, *, full: bool = False) -> str:
        """`index uuid [block] -- text -- (0ms 13us 120ns)`, with shapes and settings when full."""
        text = (
            f"{self.node_index} {self.node_uuid} [{self.block_name}] -- "
            f"{self.description or self.kind} -- ({self.micros_text})"
        )
        if full and self.kernel:
            text += f" as {self.kernel}"
        if full and self.shapes:
            shown = [f"{n}: {self.dtypes.get(n, '')}{list(s)}" for n, s in self.shapes.items()]
            text += f" {', '.join(shown)}"
        if full and self.settings:
            text += " {" + ", ".join(f"{k}={v}" for k, v in self.settings.items()) + "}"
        return text


def plain_json(value: object) -> Any:
    """A setting as JSON has it: what JSON has no form for becomes a text, infinity too."""
    if isinstance(value, tuple | list):
        return [plain_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def trace_json(events: Iterable[Event], *, indent: int | None = 2) -> str:
    """The trace as a JSON array, one object per event in execution order."""
    return json.dumps(
        [event.json() for event in events], indent=indent, ensure_ascii=False, allow_nan=False
    )


def chrome_trace(events: Iterable[Event]) -> str:
    """The trace in the event format that Perfetto and chrome://tracing open.

    Blocks are slices around those of their nodes; what took no time is an instant. Times start at
    the first event. A device has a track of its own.
    """
    listed = list(events)
    origin = min((event.start_ns for event in listed), default=0)
    rows: list[dict[str, object]] = []
    for event in listed:
        phase = {"BlockEnter": "B", "BlockExit": "E"}.get(event.kind, "X")
        row: dict[str, object] = {
            "name": event.block_name if phase != "X" else event.op_name or event.kind,
            "cat": event.kind,
            "ph": phase,
            "ts": (event.start_ns - origin) / 1000,
            "pid": 1,
            "tid": 1 + LANES.index(event.lane),
            "args": _chrome_arguments(event),
        }
        if phase == "X":
            row["dur"] = event.duration_ns / 1000
        rows.append(row)
    if any(event.lane != LANES[0] for event in listed):
        for tid, lane in enumerate(LANES, 1):
            args = {"name": lane}
            rows.append({"name": "thread_name", "ph": "M", "pid": 1, "tid": tid, "args": args})
    return json.dumps(
        {"traceEvents": rows, "displayTimeUnit": "ns"}, ensure_ascii=False, allow_nan=False
    )


def _chrome_arguments(event: Event) -> dict[str, object]:
    """What the panel of a slice shows, without what is empty."""
    shown: dict[str, object] = {
        "node": event.description,
        "index": event.node_index,
        "kernel": event.kernel,
        "nodes": list(event.nodes),
        "params": list(event.params),
        "output": list(event.output),
        "shapes": {
            name: f"{event.dtypes.get(name, '')}{list(shape)}"
            for name, shape in event.shapes.items()
        },
        "settings": {name: str(value) for name, value in event.settings.items()},
        "scope": event.scope,
        "calls": list(event.calls),
        "location": str(event.location) if event.location else "",
        "step": event.step,
    }
    return {key: value for key, value in shown.items() if value not in ("", [], {})}


class Trace(list[Event]):
    """The events of steps, in execution order."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        rows = [
            (
                str(event.step),
                event.kind,
                event.description or event.block_name,
                ", ".join(f"{name}: {shape_text(event, name)}" for name in event.output),
                event.kernel,
                f"{event.duration_ns / 1000:.1f}",
            )
            for event in self[:SHOWN_EVENTS]
        ]
        left = len(self) - len(rows)
        caption = f"the first {len(rows)} of {len(self)} events" if left else ""
        return html_table(("step", "kind", "node", "gives", "kernel", "µs"), rows, caption)


def shape_text(event: Event, name: str) -> str:
    """`f32[2, 3]`, as far as an event says it of one of its values."""
    shape = event.shapes.get(name)
    dims = "" if not shape else f"[{', '.join(map(str, shape))}]"
    return f"{event.dtypes.get(name, '')}{dims}"


class EventStore:
    """The last events of an executor, and how many were dropped before them.

    One thread may ask for the events of steps that another one runs.
    """

    def __init__(self, limit: int = TRACE_LIMIT) -> None:
        self.dropped = 0
        self._events: deque[Event] = deque(maxlen=limit)
        self._later: list[tuple[int, Callable[[], list[Event]]]] = []
        self._lock = threading.RLock()

    def add(self, event: Event) -> None:
        """Keeps an event; the oldest one makes room."""
        with self._lock:
            self._take_later()
            self._add(event)

    def add_later(self, count: int, read: Callable[[], list[Event]]) -> None:
        """Keeps the record of `count` stamps, which is read when somebody asks for the events."""
        with self._lock:
            self._later.append((count, read))
            if sum(waiting for waiting, _ in self._later) > TRACE_LIMIT:
                self._take_later()

    def events(self) -> Trace:
        """All kept events, in execution order."""
        with self._lock:
            self._take_later()
            return Trace(self._events)

    def clear(self) -> None:
        """Forgets everything, the count of dropped events too."""
        with self._lock:
            self.dropped = 0
            self._events.clear()
            self._later.clear()

    def renew_lock(self) -> None:
        """The thread that had the lock is not here any more: this is the child of a fork."""
        self._lock = threading.RLock()

    def _take_later(self) -> None:
        later, self._later = self._later, []
        for _, read in later:
            for event in read():
                self._add(event)

    def _add(self, event: Event) -> None:
        self.dropped += len(self._events) == self._events.maxlen
        self._events.append(event)


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
