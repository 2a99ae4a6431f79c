"""Several processors side by side, for `docs/performance.md`: one results file for each.

`benchmarks/results-cpu-NAME.json` is what `openinfer bench --json` wrote on the processor NAME; the file
says which one it was, and what it can do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import tables
from benchmarks.peers import OURS, PEERS
from benchmarks.tables import Table, duration, markdown, threads_words
from benchmarks.workloads import WORKLOADS
from openinfer.runtime.microarchitecture import DEFAULT, MEASURED

RESULTS = Path(__file__).resolve().parent
STEM = "results-cpu-"
NAMES = {
    "znver3": "Zen 3",
    "znver4": "Zen 4",
    "znver5": "Zen 5",
    "icelake-server": "Ice Lake",
    "sapphirerapids": "Sapphire Rapids",
    "emeraldrapids": "Emerald Rapids",
    "graniterapids": "Granite Rapids",
}
"""Microarchitectures by LLVM's name, as people know them."""

Data = Mapping[str, Any]


def others() -> list[Data]:
    """What was measured on other processors than that of the page's first tables, most rows first."""
    files = sorted(RESULTS.glob(f"{STEM}*.json"))
    found: list[Data] = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return sorted(found, key=lambda data: -len(data["rows"]))


def is_other(path: Path) -> bool:
    """Whether a file is one of those that `others` reads."""
    return path.resolve().parent == RESULTS and path.match(f"{STEM}*.json")


def processor(data: Data) -> str:
    """The name of a file's processor: its maker's, and its microarchitecture where the file says it."""
    where = data["environment"]
    name = str(where["cpu"]).replace("(R)", "").removesuffix(" Processor")
    known = where.get("microarchitecture")
    held = f", {data['held'].upper()} code" if data.get("held") else ""
    return f"{name}{f' ({NAMES.get(known, known)})' if known else ''}{held}"


def side_by_side(measured: Sequence[Data]) -> Table:
    """Header and lines: for each row and number of threads, on each processor, our time divided by that
    of the fastest f32 peer, our time, and that peer."""
    header = ["work", "threads", *map(processor, measured)]
    found: dict[tuple[str, int], list[str]] = {}
    for place, data in enumerate(measured):
        for row in data["rows"]:
            if OURS in row["peers"]:
                line = found.setdefault((row["name"], row["threads"]), [""] * len(measured))
                line[place] = _cell(row)
    order = {name: place for place, name in enumerate(WORKLOADS)}
    keys = sorted(found, key=lambda key: (order.get(key[0], len(order)), key))
    titles = {row["name"]: row["title"] for data in measured for row in data["rows"]}
    return header, [[titles[name], str(count), *found[name, count]] for name, count in keys]


def _cell(row: tables.Row) -> str:
    ours, best = row["peers"][OURS], tables.fastest(row)
    if best is None:
        return duration(ours["seconds"])
    ratio = f"{row['peers'][best]['ratio']:.2f}"
    shown = ratio if float(ratio) <= 1 else f"**{ratio}**"
    return f"{shown} of {PEERS[best].title}, {duration(ours['seconds'])}"


def misses(measured: Sequence[Data]) -> Table:
    """Header and lines: on each processor, how many rows have no quicker peer, and how many there are."""
    lines: list[list[str]] = []
    for data in measured:
        for count in sorted({row["threads"] for row in data["rows"]}):
            ratios = [
                row["peers"][best]["ratio"]
                for row in data["rows"]
                if row["threads"] == count and OURS in row["peers"]
                for best in [tables.fastest(row)]
                if best is not None
            ]
            ahead = sum(round(ratio, 2) <= 1 for ratio in ratios)
            span = f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else ""
            lines.append([processor(data), str(count), f"{ahead} of {len(ratios)}", span])
    return ["processor", "threads", "rows without a quicker peer", "ratios"], lines


def overview(measured: Sequence[Data]) -> Iterator[str]:
    """All processors beside each other."""
    yield "## Processors side by side"
    yield (
        "Our time divided by that of the fastest peer that computes in f32, measured in the same run on "
        "the same processor, then our time; bold where a peer is quicker. Empty: not measured there. "
        "Each column is a results file of its own, with the processor's name and flags in it."
    )
    yield markdown(misses(measured))
    yield markdown(side_by_side(measured))


def sections(measured: Sequence[Data]) -> Iterator[str]:
    """For each processor of `others` its tables, and what they were measured with."""
    for data in measured:
        yield f"## {processor(data)}"
        yield _where(data)
        for threads in sorted({row["threads"] for row in data["rows"]}):
            rows = [row for row in data["rows"] if row["threads"] == threads]
            yield f"### {processor(data)}, {threads_words(threads)}"
            yield markdown(tables.summary(rows))
            yield markdown(tables.against_all(rows))
            again = list(tables.again(rows))
            if again:
                yield "What was measured again, or more often:"
                yield "\n".join(f"- {line}" for line in again)
        rates = tables.rates(data["rows"], data["environment"]["caches"])
        if rates[1]:
            yield "The limits, medians over the rows:"
            yield markdown(rates)
        reasons = [f"{title} is left out: {reason}" for title, reason in data["absent"].items()]
        reasons += list(tables.absences(data["rows"]))
        reasons += [f"openinfer failed, {name}: {why}" for name, why in data["failed"].items()]
        if reasons:
            yield "\n".join(f"- {reason}" for reason in reasons)


def _where(data: Data) -> str:
    where, caches = data["environment"], data["environment"]["caches"]
    versions = ", ".join(f"{name} {value}" for name, value in where["versions"].items())
    other = "".join(f"; {text}" for text in tables.other_commits(data["rows"]))
    note = f" {where['note']}" if where.get("note") else ""
    return (
        f"{', '.join(where['flags'])}; {where['cpus']} CPUs, L2 {caches['l2'] >> 10} KiB each, "
        f"L3 {caches['l3'] >> 20} MiB; {where['system']}; openinfer compiles for `{where['target']}`; "
        f"{versions}; commit {where['commit'] or 'unknown'}, {where['date']}{other}; "
        f"{data['rounds']} rounds of {data['slice']:g} s.{note}"
    )


def tuned(measured: Sequence[Data]) -> Iterator[str]:
    """What `openinfer tune --machine` found, on the processors of the table and of the files."""
    yield "## What `openinfer tune --machine` found"
    yield (
        "Numbers that schedules choose by ([compiler.md](compiler.md#numbers-of-a-processor)), as they "
        "stand in `runtime/microarchitecture.py`. A number is there only where it was quicker than the "
        "default each time; every candidate with its times is in "
        "[performance-log.md](performance-log.md#what-openinfer-tune---machine-found)."
    )
    yield "\n".join([*_found(), *_not_tuned(measured)])


def _found() -> Iterator[str]:
    for name, row in MEASURED.items():
        title, numbers = NAMES.get(name, name), row.numbers.numbers
        for number, value in numbers.items():
            default = getattr(DEFAULT, number)
            yield f"- {title}: `{number}` {value} instead of {default} ({row.measured[number]})"
        which = "the other numbers are" if numbers else "all numbers are"
        yield f"- {title}: {which} the defaults ({row.measured['']})"


def _not_tuned(measured: Sequence[Data]) -> Iterator[str]:
    for data in measured:
        if data["environment"].get("microarchitecture") not in MEASURED:
            yield f"- {processor(data)}: not measured, so it has the defaults"
