"""The whole of a measurement as text, for the terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks import ablation_tables, memory_tables, tables
from benchmarks.doubts import doubts
from benchmarks.peers import OURS, PEERS
from benchmarks.tables import duration, threads_words

Data = Mapping[str, Any]


def line(row: Data) -> str:
    """A row while the suite runs."""
    ours, best = row["peers"].get(OURS), tables.fastest(row)
    text = f"{row['name']}, {threads_words(row['threads'])}"
    if ours is None:
        return text
    text += f": {duration(ours['seconds'])}, {ours['share']:.0%} of {tables.bound(row)}"
    if best is not None:
        cell = row["peers"][best]
        text += f", {cell['ratio']:.2f} of {PEERS[best].title} ({duration(cell['seconds'])})"
    return text


def terminal(data: Data) -> str:
    """All tables, in columns."""
    return "\n".join(_parts(data, tables.plain, "")) + "\n"


def markdown(data: Data) -> str:
    """All tables, in Markdown."""
    return "\n".join(_parts(data, tables.markdown, "## ")) + "\n"


def _parts(data: Data, draw: Any, mark: str) -> Iterator[str]:
    if data.get("held"):
        yield f"Compiled for {data['held']}, and peers held to its instructions.\n"
    for threads in sorted({row["threads"] for row in data["rows"]}):
        rows = [row for row in data["rows"] if row["threads"] == threads]
        yield f"{mark}{threads_words(threads).capitalize()}\n"
        yield draw(tables.summary(rows)) + "\n"
        for text in tables.again(rows):
            yield f"- measured again: {text}"
        for text in doubts(rows):
            yield f"- beyond the limit: {text}"
        if any(len(row["peers"]) > 1 for row in rows):
            yield draw(tables.against_all(rows)) + "\n"
        rounded = tables.bf16(rows)
        if rounded[1]:
            yield draw(rounded) + "\n"
    measured = memory_tables.with_plans(data["rows"], (data.get("start") or {}).get("arenas", {}))
    planned = memory_tables.arenas(measured)
    if planned[1]:
        yield f"{mark}Memory of a call\n"
        yield draw(planned) + "\n"
    for text in (*tables.absences(data["rows"]), *_absent(data)):
        yield f"- {text}"
    if data.get("ablation"):
        yield f"\n{mark}Without one pass\n"
        found = data["ablation"]
        yield draw(ablation_tables.summary(found)) + "\n"
        yield draw(ablation_tables.factors(found)) + "\n"
        yield from ablation_tables.verdicts(found)
        for text in ablation_tables.failures(found):
            yield f"- failed: {text}"
    if data.get("start"):
        yield f"\n{mark}Compiling and starting\n"
        rows = [[n, duration(v)] for n, v in data["start"]["seconds"].items() if n != "python"]
        yield draw((["what", "time"], rows)) + "\n"
    for name, error in data["failed"].items():
        yield f"- failed: {name}: {error}"


def _absent(data: Data) -> Iterator[str]:
    for title, reason in data["absent"].items():
        yield f"{title} is left out: {reason}"
