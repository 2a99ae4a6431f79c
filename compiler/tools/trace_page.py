"""One HTML page of a trace: the timeline of a step and the tables, without scripts or other files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from statistics import median_low

from openinfer.compiler.tools.trace_profile import BLOCKS, KEYS, Profile, duration
from openinfer.runtime.trace import LANES, Event

MAX_BARS = 20_000
"""Bars of the timeline: a browser shows so many at once; the tables count all events."""
_MOST_PIXELS = 30_000
_ROW, _BAR = 22, 12
"""Pixels: the height of a row of bars, and the width of a median bar."""

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --bar: #4a90d9; }
body { font: 14px/1.4 system-ui, sans-serif; margin: 1rem; }
#timeline { overflow-x: auto; border: 1px solid var(--line); }
#timeline > div { position: relative; min-width: 100%; }
#timeline span { position: absolute; height: 20px; min-width: 1px; overflow: hidden;
  font-size: 11px; white-space: pre; color: white; }
#timeline .block { background: #8888; }
summary { cursor: pointer; font-weight: bold; margin-top: .6rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: right; padding: .1rem .5rem; border-bottom: 1px solid var(--line); }
th:nth-child(n + 5), td:nth-child(n + 5) { text-align: left; overflow-wrap: anywhere; }
td:nth-child(6) { font-family: ui-monospace, monospace; font-size: 12px; }
td:first-child { background:
  linear-gradient(to right, var(--bar) var(--part), transparent var(--part)); }
"""


def page(profile: Profile, name: str) -> str:
    """The page. Names and texts of programs are escaped wherever they stand in it."""
    tables = "".join(_table(profile, key) for key in KEYS)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(name)} — openinfer trace</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{escape(name)}</h1>
<p>{escape(profile.summary())}</p>
{_timeline(profile.events)}
{tables}
</body>
</html>
"""


def _table(profile: Profile, key: str) -> str:
    """The rows by one key; the first table is open."""
    heads = "".join(f"<th>{head}</th>" for head in ("share", "total", "calls", "mean", key, "what"))
    lines: list[str] = []
    for row in profile.rows(key):
        share = f"{100 * row.total_ns / profile.busy_ns:.1f}%"
        times = duration(row.total_ns), str(row.calls), duration(row.total_ns / row.calls)
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in (*times, row.label, row.detail))
        lines.append(f'<tr><td style="--part:{share}">{share}</td>{cells}</tr>')
    opened = " open" if key == "node" else ""
    return (
        f"<details{opened}><summary>by {key}</summary>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table></details>\n"
    )


def _timeline(events: Sequence[Event]) -> str:
    """The last step, from its first node to its last: the first one meets cold caches."""
    step = [list(group) for _, group in groupby(events, lambda event: event.step)][-1:]
    spans = list(_spans(step[0] if step else []))
    work = [(e.start_ns, time) for e, _, time in spans if e.kind not in BLOCKS and time > 0]
    if not work:
        return "<p>No node took time.</p>"
    start = min(begin for begin, _ in work)
    end = max(begin + time for begin, time in work)
    pixels = min(_MOST_PIXELS, _BAR * (end - start) // median_low(time for _, time in work))
    shown = spans[:MAX_BARS]
    bars = "".join(_bar(event, depth, time, start, end) for event, depth, time in shown)
    height = _ROW * (1 + max(depth for _, depth, _ in shown))
    rest = f"; {len(spans) - len(shown)} more bars are not drawn" if spans[MAX_BARS:] else ""
    return (
        f'<div id="timeline"><div style="width:{pixels}px;height:{height}px">{bars}</div></div>\n'
        f"<p>Step {shown[0][0].step}, {duration(end - start)}{rest}. A bar tells its node under the "
        "pointer. For Perfetto: <code>openinfer run --trace FILE --trace-format chrome</code>.</p>"
    )


def _spans(events: Sequence[Event]) -> Iterator[tuple[Event, int, int]]:
    """Blocks and nodes with their depth and time; a block lasts until it is left."""
    entered: list[Event] = []
    below = _depth(events)
    for event in events:
        if event.kind == "BlockEnter":
            entered.append(event)
        elif event.kind != "BlockExit":
            depth = len(entered) if event.lane == LANES[0] else below
            yield event, depth, event.duration_ns
        elif entered:
            begun = entered.pop()
            yield begun, len(entered), event.start_ns - begun.start_ns


def _depth(events: Sequence[Event]) -> int:
    """A row below all of the host's."""
    depth = deepest = 0
    for event in events:
        depth += (event.kind == "BlockEnter") - (event.kind == "BlockExit")
        deepest = max(deepest, depth)
    return deepest + 1


def _bar(event: Event, depth: int, time: int, start: int, end: int) -> str:
    """One bar; what a block lasts before its first node and after its last is cut."""
    name = event.op_name or event.kind
    colour = f"background:hsl({sum(map(ord, name)) * 47 % 360} 55% 45%)"
    kind = ""
    if event.kind in BLOCKS:
        name, colour, kind = event.block_name, "", ' class="block"'
    left, right = (
        100 * (min(max(ns, start), end) - start) / (end - start)
        for ns in (event.start_ns, event.start_ns + time)
    )
    box = f"left:{left:.4f}%;top:{_ROW * depth}px;width:{max(0, right - left):.4f}%;{colour}"
    shapes = (f"{n}: {event.dtypes.get(n, '')}{list(s)}" for n, s in event.shapes.items())
    places = dict.fromkeys(f"{place.file}:{place.line}" for place in event.locations)
    about = (event.kernel, event.scope, event.description, ", ".join(shapes), " ".join(places))
    title = "\n".join(filter(None, (f"{name} {duration(time)}", *about)))
    return f'<span{kind} style="{box}" title="{escape(title)}">{escape(name)}</span>'
