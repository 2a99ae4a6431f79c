"""One HTML page of a trace: timeline, tables and program text, without network or other files."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence

from openinfer.compiler.tools.trace_profile import KEYS, Profile, duration
from openinfer.compiler.tools.trace_script import SCRIPT, STYLE
from openinfer.runtime.trace import Event

MAX_EVENTS = 20_000
"""Events of the timeline: a browser draws so many at once; the tables count all of them."""


def page(profile: Profile, name: str) -> str:
    """The page. Text of programs and names stands in it as data and is never read as HTML."""
    title = html.escape(f"{name} — openinfer trace")
    # A script element ends at the first `</`, wherever that stands.
    data = json.dumps(_data(profile), ensure_ascii=True).replace("<", "\\u003c")
    tabs = "".join(f'<button type="button" data-key="{key}">by {key}</button>' for key in KEYS)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<header>
<h1>{html.escape(name)}</h1>
<p>{html.escape(profile.summary())}</p>
</header>
<section id="timeline">
<canvas id="canvas" height="150"></canvas>
<p class="hint">Wheel: zoom. Drag: move. Double click: all of it. Click: show the nodes.</p>
<div id="detail"></div>
</section>
<main>
<section id="tables">
<nav>{tabs}</nav>
<table><thead></thead><tbody></tbody></table>
</section>
<section id="source"></section>
</main>
<noscript>{_plain(profile)}</noscript>
<script type="application/json" id="data">{data}</script>
<script>{SCRIPT}</script>
</body>
</html>
"""


def _plain(profile: Profile) -> str:
    """The first table for readers without scripts."""
    rows = "".join(
        f"<tr><td>{html.escape(row.label)}</td><td>{duration(row.total_ns)}</td>"
        f"<td>{row.calls}</td><td>{html.escape(row.detail)}</td></tr>"
        for row in profile.rows("node")
    )
    return f"<table>{rows}</table>"


def _data(profile: Profile) -> dict[str, object]:
    """What the script draws."""
    shown = profile.events[:MAX_EVENTS]
    origin = min((event.start_ns for event in shown), default=0)
    return {
        "events": [_event(event, origin) for event in shown],
        "cut": max(0, len(profile.events) - MAX_EVENTS),
        "busy": profile.busy_ns,
        "tables": {key: [row.json(profile.busy_ns) for row in profile.rows(key)] for key in KEYS},
        "sources": profile.sources,
        "lines": _line_times(profile.events),
    }


def _event(event: Event, origin: int) -> dict[str, object]:
    shapes = [
        f"{name}: {event.dtypes.get(name, '')}{list(shape)}" for name, shape in event.shapes.items()
    ]
    return {
        "kind": event.kind,
        "block": event.block_name,
        "name": event.op_name or event.kind,
        "text": event.description,
        "start": event.start_ns - origin,
        "time": event.duration_ns,
        "kernel": event.kernel,
        "scope": event.scope,
        "step": event.step,
        "nodes": list(event.node_indices),
        "shapes": shapes,
        "places": [[place.file, place.line] for place in event.locations],
    }


def _line_times(events: Sequence[Event]) -> dict[str, dict[int, int]]:
    """Nanoseconds by file and line; a kernel counts on each of its lines."""
    found: dict[str, dict[int, int]] = {}
    for event in events:
        for file, line in dict.fromkeys((p.file, p.line) for p in event.locations):
            if event.duration_ns:
                lines = found.setdefault(file, {})
                lines[line] = lines.get(line, 0) + event.duration_ns
    return found
