"""Results for people: a line while rows are measured, and the tables of `docs/performance-vulkan.md`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.vulkan import host
from benchmarks.vulkan.results import Results
from benchmarks.vulkan.rows import MICROSECONDS, Row

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "performance-vulkan.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
PEERS = ("PyTorch eager", "PyTorch CUDA graph", "PyTorch compiled graph")
NOTHING = "–"
Found = Mapping[str, Any]


def said(row: Row, found: Found) -> str:
    """A row of ours as a line."""
    if "error" in found:
        return f"failed: {found['error']}"
    return (
        f"{amount(row, found['seconds'])} of the device (least {amount(row, found['least'])}), "
        f"step {found['step']['wall'] * 1e6:.1f} µs of wall time for "
        f"{found['step']['seconds'] * 1e6:.1f} µs, {found['step']['commands']} commands"
    )


def peers_said(found: Found) -> str:
    """A row of PyTorch as a line."""
    parts = [
        f"{name}: {_reason(one) or format(one['seconds'] * 1e6, '.2f') + ' µs'}"
        for name, one in found.items()
        if name != "about"
    ]
    return ", ".join(parts)


def amount(row: Row, seconds: float) -> str:
    """A time in the unit of its row. That of a chain is a difference, which noise may make nothing."""
    if seconds <= 0:
        return "less than can be told"
    value = row.value(seconds)
    return f"{value:.{_digits(value)}f} {row.unit}"


def _digits(value: float) -> int:
    return 0 if value >= 100 else 1 if value >= 20 else 2


def write(paths: Sequence[Path], rows: Sequence[Row]) -> None:
    """Puts the tables of results, a file a device, into the page. ValueError: no measurement."""
    parts: list[str] = []
    for path in paths:
        found = Results(path).rows
        if not found:
            raise ValueError(f"{path} holds no rows: run without --page first")
        _check(found)
        if len(paths) > 1:
            parts.append(f"\n### {next(iter(found.values()))['device']}\n")
        parts += tables(found, rows)
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    body = "\n".join(parts)
    PAGE.write_text(f"{before}{BEGIN}\n{body}\n{END}{after}", encoding="utf-8")


def _check(found: Mapping[str, Found]) -> None:
    """That all rows are measurements of a GPU."""
    for name, row in found.items():
        if row.get("software"):
            raise ValueError(
                f"{name} was measured on {row['device']}, which computes on the processor: its times say "
                "nothing of a GPU; measure it on one"
            )
        if row.get("small"):
            raise ValueError(f"{name} was measured with --small: tiny sizes are no measurement")


def tables(found: Mapping[str, Found], rows: Sequence[Row]) -> Iterator[str]:
    """Lines of Markdown."""
    shown = [(row, found[row.name]) for row in rows if row.name in found]
    yield from _runs([*(one for _, one in shown), *(found[n] for n in [host.NAME] if n in found)])
    if shown:
        yield "\n| work | ours | prototype | " + " | ".join(PEERS) + " | goal |"
        yield "|" + "---|" * (len(PEERS) + 4)
        for row, one in shown:
            yield f"| {row.title} | " + " | ".join(_cells(row, one)) + " |"
        yield "\n| work | least | wall time | whole step: device | wall | commands | clock |"
        yield "|---|---|---|---|---|---|---|"
        for row, one in shown:
            if "seconds" in one.get("ours", {}):
                yield f"| {row.title} | " + " | ".join(_more(row, one)) + " |"
    if host.NAME in found:
        yield "\n| the host's part | |"
        yield "|---|---|"
        for title, value in host.lines(found[host.NAME]):
            yield f"| {title} | {value} |"
    reasons = list(_reasons(shown))
    if reasons:
        yield ""
        yield from reasons


def _runs(shown: Sequence[Found]) -> Iterator[str]:
    """What was measured when, with what."""
    runs: dict[str, int] = {}
    for one in shown:
        versions = one.get("peers", {}).get("about", {})
        torch = f", PyTorch {versions['torch']}" if versions else ""
        commit = f", commit {one['commit']}" if one.get("commit") else ""
        run = f"{one['date'][:10]}, {one['device']}, {one['driver']}{torch}{commit}"
        runs[run] = runs.get(run, 0) + 1
    for run, count in runs.items():
        yield f"- {run}: {count} rows"


def _cells(row: Row, one: Found) -> Iterator[str]:
    ours = one.get("ours", {}).get("seconds")
    yield NOTHING if ours is None else f"**{amount(row, ours)}**"
    yield _beside(row, ours, prototype(row, one))
    for peer in PEERS:
        yield _beside(row, ours, one.get("peers", {}).get(peer, {}).get("seconds"))
    goal = f"{row.goal:g} {row.unit}"
    if ours is not None and ours > 0:
        goal += f" ({row.ratio(ours, row.goal):.2f})"
    yield goal


def _beside(row: Row, ours: float | None, seconds: float | None) -> str:
    """Another's time, and how many times as fast ours is."""
    if seconds is None:
        return NOTHING
    text = amount(row, seconds)
    return text if ours is None or ours <= 0 else f"{text} ({seconds / ours:.2f})"


def prototype(row: Row, one: Found) -> float | None:
    """The time of the hand-written kernels of a row, where all that it takes were timed."""
    timed = one.get("prototypes", {})
    times = [timed[name]["seconds"] for name in row.prototypes if "seconds" in timed.get(name, {})]
    if not times or (row.together and len(times) < len(row.prototypes)):
        return None
    return sum(times) if row.together else min(times)


def _more(row: Row, one: Found) -> Iterator[str]:
    ours = one["ours"]
    yield amount(row, ours["least"])
    yield amount(row, ours["wall"])
    yield f"{ours['step']['seconds'] * 1e6:.0f} {MICROSECONDS}"
    yield f"{ours['step']['wall'] * 1e6:.0f} {MICROSECONDS}"
    yield f"{ours['step']['commands']}"
    clock = one.get("clock", {}).get("MHz")
    yield f"{clock:.0f} MHz" if clock else NOTHING


def _reasons(shown: Sequence[tuple[Row, Found]]) -> Iterator[str]:
    """Why a cell is empty, each reason once."""
    reasons: dict[str, list[str]] = {}
    for row, one in shown:
        for part, held in (
            ("ours", {"ours": one.get("ours", {})}),
            ("prototype", one.get("prototypes", {})),
        ):
            for name, cell in held.items():
                if reason := _reason(cell):
                    what = "ours" if part == "ours" else f"the prototype {name}"
                    reasons.setdefault(f"{what}: {reason}", []).append(row.name)
        for name, cell in one.get("peers", {}).items():
            if name != "about" and (reason := _reason(cell)):
                reasons.setdefault(f"{name}: {reason}", []).append(row.name)
    for reason, names in reasons.items():
        yield f"- {reason} ({', '.join(names)})"


def _reason(cell: Found) -> str:
    return cell.get("absent") or cell.get("error") or ""
