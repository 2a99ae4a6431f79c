"""Where the time of a trace went: events summed by node, op, scope, source line or kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from openinfer.runtime.errors import Location
from openinfer.runtime.trace import Event

BLOCKS = ("BlockEnter", "BlockExit")


@dataclass
class Row:
    """The events with one key."""

    label: str
    calls: int = 0
    total_ns: int = 0
    detail: str = ""
    """The nodes as a person writes them, or the line of the program."""
    places: tuple[Location, ...] = ()

    def json(self, total: int) -> dict[str, object]:
        return {
            "label": self.label,
            "calls": self.calls,
            "total_ns": self.total_ns,
            "mean_ns": self.total_ns / self.calls,
            "share": self.total_ns / total if total else 0.0,
            "detail": self.detail,
            "places": [str(place) for place in self.places],
        }


@dataclass
class Profile:
    """The sums of a trace."""

    events: Sequence[Event]
    steps: int
    step_ns: int
    """From entering `entry` to leaving it, over all steps."""
    busy_ns: int
    """In nodes."""
    timeless: int = 0
    """Nodes that took no time of their own in any step."""
    threads: int | None = None
    """How many threads ran a step; None where no event says it, as in the simulator."""
    arena_growths: int = 0
    """How often the arena grew for a step."""
    state_growths: int = 0
    """How often memory of persistent variables did."""
    sources: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Lines of the program texts that are at hand, by file name."""

    @staticmethod
    def of(events: Sequence[Event], sources: dict[str, str] | None = None) -> Profile:
        """The profile of the events of whole steps."""
        spent: dict[str, int] = {}
        begun: dict[str, int] = {}
        step_ns = 0
        for event in events:
            if event.kind == "BlockEnter" and event.block_name == "entry":
                begun["entry"] = event.start_ns
            elif event.kind == "BlockExit" and event.block_name == "entry" and begun:
                step_ns += event.start_ns - begun.pop("entry")
            if event.kind not in BLOCKS and event.node_index >= 0:
                for uuid in event.node_uuids:
                    spent[uuid] = spent.get(uuid, 0) + event.duration_ns
        return Profile(
            events,
            len({event.step for event in events}) or 0,
            step_ns,
            sum(event.duration_ns for event in events if event.kind not in BLOCKS),
            sum(time == 0 for time in spent.values()),
            _threads(events),
            _count(events, "arena_growths"),
            _count(events, "state_growths"),
            {file: text.split("\n") for file, text in (sources or {}).items()},
        )

    def rows(self, by: str) -> list[Row]:
        """The rows by one of `KEYS`, the longest first; without those that took no time."""
        label, detail = KEYS[by]
        found: dict[str, Row] = {}
        for event in self.events:
            if event.kind in BLOCKS:
                continue
            key = label(event)
            row = found.setdefault(key, Row(key))
            row.calls += 1
            row.total_ns += event.duration_ns
            if not row.detail:
                row.detail = self._line(event) if by == "line" else detail(event)
            row.places = tuple(dict.fromkeys((*row.places, *event.locations)))
        listed = [row for row in found.values() if row.total_ns]
        return sorted(listed, key=lambda row: (-row.total_ns, row.label))

    def _line(self, event: Event) -> str:
        """The text of the lines of an event."""
        found: list[str] = []
        for place in dict.fromkeys((p.file, p.line) for p in event.locations):
            lines = self.sources.get(place[0], [])
            if 1 <= place[1] <= len(lines):
                found.append(lines[place[1] - 1].strip())
        return " ".join(found) or event.description

    def json(self, keys: Iterable[str]) -> dict[str, object]:
        """All that the table shows."""
        return {
            "steps": self.steps,
            "threads": self.threads,
            "step_ns": self.step_ns,
            "busy_ns": self.busy_ns,
            "nodes_without_time": self.timeless,
            "arena_growths": self.arena_growths,
            "state_growths": self.state_growths,
            "by": {key: [row.json(self.busy_ns) for row in self.rows(key)] for key in keys},
        }

    def table(self, by: str, top: int | None = None) -> str:
        """A text table: share, total, calls, mean, label, detail."""
        rows = self.rows(by)
        shown = rows if top is None else rows[:top]
        width = min(40, max([len(row.label) for row in shown] + [len(by)]))
        lines = [f"{'share':>6} {'total':>9} {'calls':>7} {'mean':>9}  {by:{width}}  what"]
        for row in shown:
            share = row.total_ns / self.busy_ns if self.busy_ns else 0.0
            lines.append(
                f"{share:6.1%} {duration(row.total_ns):>9} {row.calls:>7} "
                f"{duration(row.total_ns / row.calls):>9}  {_cut(row.label, width):{width}}  "
                f"{_cut(row.detail, 72)}".rstrip()
            )
        if len(shown) < len(rows):
            rest = sum(row.total_ns for row in rows[len(shown) :])
            lines.append(f"{'':6} {duration(rest):>9}  in {len(rows) - len(shown)} more rows")
        return "\n".join(lines)

    def summary(self) -> str:
        """A few sentences about the whole."""
        steps = f"{self.steps} step{'s' if self.steps != 1 else ''}"
        text = f"{duration(self.busy_ns)} in nodes"
        if self.step_ns:
            text += f" of {duration(self.step_ns)} in {steps}"
        if self.threads is not None:
            text += f"; threads: {self.threads}"
        if self.timeless:
            text += (
                f"; {self.timeless} node{'s' if self.timeless != 1 else ''} took no time of their "
                "own: passed, views, or known when the program was compiled"
            )
        if self.arena_growths or self.state_growths:
            text += (
                f"; memory grew for a step: the arena {_times(self.arena_growths)}, "
                f"that of persistent variables {_times(self.state_growths)}"
            )
        return text


def _threads(events: Sequence[Event]) -> int | None:
    """The number of threads that the events which enter a step name."""
    found = (event.settings.get("threads") for event in events if event.kind == "BlockEnter")
    return max((count for count in found if isinstance(count, int)), default=None)


def _count(events: Sequence[Event], name: str) -> int:
    """The sum of a setting of the events that enter a step."""
    found = (event.settings.get(name) for event in events if event.kind == "BlockEnter")
    return sum(value for value in found if isinstance(value, int))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def duration(nanoseconds: float) -> str:
    """`12.3us`: three digits and a unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            value = nanoseconds / size
            digits = 0 if value >= 100 else 1 if value >= 10 else 2
            return f"{value:.{digits}f}{unit}"
    return f"{nanoseconds:.0f}ns"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


# Keys.


def _ranges(numbers: Iterable[int]) -> str:
    """`1-3,5`."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in parts)


def _node(event: Event) -> str:
    """`1-3 matmul_0`: a kernel is one row for all its nodes."""
    numbers = _ranges(event.node_indices)
    return f"{numbers} {event.kernel}" if event.kernel else numbers


def _op(event: Event) -> str:
    return event.op_name or event.kind


def _scope(event: Event) -> str:
    """The scopes inside of their block."""
    return f"{event.block_name}/{event.scope}" if event.scope else event.block_name


def _line(event: Event) -> str:
    """`mlp.oi:23-25`."""
    files = dict.fromkeys(place.file for place in event.locations)
    if not files:
        return "(unknown)"
    return ", ".join(
        f"{file.rpartition('/')[2]}:"
        + _ranges(place.line for place in event.locations if place.file == file)
        for file in files
    )


def _kernel(event: Event) -> str:
    return event.kernel or "(none)"


def _text(event: Event) -> str:
    return event.description


def _nothing(event: Event) -> str:
    return ""


KEYS: dict[str, tuple[Callable[[Event], str], Callable[[Event], str]]] = {
    "node": (_node, _text),
    "op": (_op, _nothing),
    "scope": (_scope, _nothing),
    "line": (_line, _text),
    "kernel": (_kernel, _op),
}
"""What events can be summed by: label and detail of a row."""
