"""The results as tables: for the terminal and in Markdown, from the same rows."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.peers import OURS, PEERS

Row = Mapping[str, Any]
Table = tuple[list[str], list[list[str]]]
"""Header and lines."""
GOALS = {
    **{"mlp-1": 0.85, "mlp512-1": 0.85, "mlp2048-1": 0.85, "mlp-64": 0.97},
    **{name: 0.9 for name in ("encoder-64", "encoder-256", "encoder-512", "encoder-768")},
    **{"minilm-16": 0.8, "minilm-128": 0.9},
}
"""Our time against the fastest peer's that we want; 1 where nothing is said."""


def duration(seconds: float) -> str:
    """Three digits with a unit that a person reads easily."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{digits(seconds / scale)} {unit}"
    return f"{digits(seconds / 1e-6)} µs"


def digits(value: float) -> str:
    """Three digits, never as a power of ten."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def size(count: float) -> str:
    """Bytes in units of 1000 or 1000000."""
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def bound(row: Row) -> str:
    """What limits a row, in words."""
    return "multiply-adds" if row["bound"] == "fma" else f"reads of {size(row['bytes'])}"


def threads_words(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def timed(row: Row, *, narrow: bool) -> dict[str, Mapping[str, Any]]:
    """Peers of a row that compute in f32, or those that round to bf16; refused times left out."""
    return {
        name: cell
        for name, cell in row["peers"].items()
        if PEERS[name].narrow == narrow and not PEERS[name].ours and not cell["refused"]
    }


def fastest(row: Row) -> str | None:
    """The quickest f32 peer of a row, None when there is none."""
    cells = timed(row, narrow=False)
    return min(cells, key=lambda name: cells[name]["seconds"], default=None)


def summary(rows: Iterable[Row]) -> Table:
    """Header and lines: our time, the fastest f32 peer, the ratio, the share of the limit."""
    header = ["work", "openinfer", "p10 to p90", "spread", "fastest f32 peer", "its time"]
    header += ["ratio", "goal", "share of the limit"]
    lines: list[list[str]] = []
    for row in rows:
        ours, best = row["peers"].get(OURS), fastest(row)
        if ours is None:
            continue
        line = [row["title"], _time(ours)]
        line += [f"{duration(ours['p10'])} to {duration(ours['p90'])}", f"{ours['cv']:.0%}"]
        if best is None:
            line += ["", "", "", ""]
        else:
            cell, goal = row["peers"][best], GOALS.get(row["name"], 1.0)
            line += [PEERS[best].title, duration(cell["seconds"]), f"{cell['ratio']:.2f}"]
            line += [f"{goal:g}" if cell["ratio"] <= goal else f"{goal:g} missed"]
        line.append(f"{ours['share']:.0%} of {bound(row)}")
        lines.append(line)
    return header, lines


def again(rows: Sequence[Row]) -> Iterator[str]:
    """What was measured again, one line for each row in which the machine made that necessary; files
    of older runs do not tell."""
    for row in rows:
        found = row.get("again", {})
        if not any(found.values()):
            continue
        parts = [
            _counted(found["rounds"], "round", "in which most were slow"),
            _counted(found["turns"], "turn", "without a core"),
            _counted(found["more"], "round", "more for times that spread"),
        ]
        text = f"{row['title']}: {', '.join(part for part in parts if part)}"
        if found["disturbed"]:
            text += f"; {found['disturbed']} of the rounds that count are disturbed"
        yield text


def _counted(count: int, name: str, kind: str) -> str:
    return f"{count} {name}{'s' * (count != 1)} {kind}" if count else ""


def against_all(rows: Sequence[Row]) -> Table:
    """Header and lines: every runtime's time, and our time in relation to it."""
    names = [name for name in PEERS if any(name in row["peers"] for row in rows)]
    header = ["work", *(PEERS[name].title for name in names)]
    lines: list[list[str]] = []
    for row in rows:
        line = [row["title"]]
        for name in names:
            cell = row["peers"].get(name)
            if cell is None:
                line.append("")
            elif name == OURS or cell["ratio"] is None:
                line.append(_time(cell))
            else:
                line.append(f"{_time(cell)} ({cell['ratio']:.2f})")
        lines.append(line)
    return header, lines


def bf16(rows: Sequence[Row]) -> Table:
    """Header and lines of the runtimes that round to bf16, where we do so too."""
    ours, theirs = "openinfer-bf16", "openvino-bf16"
    header = ["work", PEERS[ours].title, PEERS[theirs].title, "ratio"]
    lines: list[list[str]] = []
    for row in rows:
        if ours in row["peers"] and theirs in row["peers"]:
            cells = row["peers"][ours], row["peers"][theirs]
            # Both are known as parts of our f32 time in the same round.
            ratio = cells[1]["ratio"] / cells[0]["ratio"]
            lines.append([row["title"], _time(cells[0]), _time(cells[1]), f"{ratio:.2f}"])
    return header, lines


def setup(rows: Sequence[Row]) -> Table:
    """Header and lines: load or compile, then the first result."""
    names = [name for name in PEERS if any(name in row["peers"] for row in rows)]
    lines = [
        [row["title"]]
        + [duration(row["peers"][n]["setup"]) if n in row["peers"] else "" for n in names]
        for row in rows
    ]
    return ["work", *(PEERS[name].title for name in names)], lines


def scaling(rows: Sequence[Row], counts: Sequence[int]) -> Table:
    """Header and lines: how much faster we are on more threads than on one."""
    taken = {
        (row["name"], row["threads"]): row["peers"][OURS]["seconds"]
        for row in rows
        if OURS in row["peers"]
    }
    titles = {row["name"]: row["title"] for row in rows}
    more = [count for count in counts if count > 1]
    header = ["work", *(threads_words(count) for count in more)]
    lines: list[list[str]] = []
    for name, title in titles.items():
        if any((name, count) not in taken for count in (1, *more)):
            continue
        factors = [taken[name, 1] / taken[name, count] for count in more]
        lines.append([title, *(f"{factor:.2f}" for factor in factors)])
    return header, lines if more else []


def rates(rows: Sequence[Row], caches: Mapping[str, int]) -> Table:
    """Header and lines: what the machine did in the rows of each number of threads.

    Reads are those of rows that memory or the last-level cache alone can serve; the limits of rows in
    between lie in between.
    """
    lines: list[list[str]] = []
    for count in sorted({row["threads"] for row in rows}):
        own = [row for row in rows if row["threads"] == count]
        memory = [row for row in own if row["bytes"] > 2 * caches["l3"]]
        near = [row for row in own if caches["l2"] * count < row["bytes"] < caches["l3"] / 2]
        line = [threads_words(count), f"{_middle(own, 'fma'):.0f} GFLOP/s"]
        line += [f"{_middle(kind, 'read'):.0f} GB/s" if kind else "" for kind in (memory, near)]
        lines.append(line)
    return ["", "f32 multiply-adds", "memory read", "L3 read"], lines


def _middle(rows: Sequence[Row], name: str) -> float:
    return statistics.median(row["limits"][name] for row in rows) / 1e9


def overhead(rows: Sequence[Row]) -> Table:
    """Header and lines: microseconds of each way in and out."""
    ways = list(rows[0]["seconds"]) if rows else []
    lines = [
        [f"{row['program']}, {threads_words(row['threads'])}"]
        + [f"{least:.2f} ({middle:.2f})" for least, middle in row["seconds"].values()]
        for row in rows
    ]
    return ["program", *ways], lines


def _time(cell: Mapping[str, Any]) -> str:
    return f"{duration(cell['seconds'])} refused" if cell["refused"] else duration(cell["seconds"])


def other_commits(rows: Sequence[Row]) -> Iterator[str]:
    """One sentence for each commit that some rows name: a file that was measured at another one."""
    counts: dict[str, set[int]] = {}
    found: dict[tuple[str, str], dict[str, set[int]]] = {}
    for row in rows:
        counts.setdefault(row["name"], set()).add(row["threads"])
        if "commit" in row:
            names = found.setdefault((row["commit"], row["date"]), {})
            names.setdefault(row["name"], set()).add(row["threads"])
    for (commit, date), names in found.items():
        told = [
            name
            if threads == counts[name]
            else f"{name} on {' and '.join(map(threads_words, sorted(threads)))}"
            for name, threads in names.items()
        ]
        yield f"{', '.join(told)}: commit {commit or 'unknown'}, {date}"


def absences(rows: Sequence[Row]) -> Iterator[str]:
    """One sentence for each reason that a peer is missing in rows."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for peer, reason in row["missing"].items():
            names = found.setdefault((peer, reason), [])
            if row["name"] not in names:
                names.append(row["name"])
    for (peer, reason), names in found.items():
        yield f"{PEERS[peer].title} has no part in {', '.join(names)}: {reason}"


def markdown(table: tuple[Sequence[str], Sequence[Sequence[str]]]) -> str:
    """A Markdown table; the first column is text, the others are numbers."""
    header, lines = table
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, rule, *lines))


def plain(table: tuple[Sequence[str], Sequence[Sequence[str]]]) -> str:
    """The same for a terminal, in columns."""
    header, lines = table
    widths = [max(len(row[i]) for row in (header, *lines)) for i in range(len(header))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if i == 0 else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in (header, *lines)
    )
