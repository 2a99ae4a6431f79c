"""`docs/performance.md` from the numbers of `benchmarks/results.json`.

    python -m benchmarks.page

The page is never written by hand: a test compares it with what this module makes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers import TITLES

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results.json"
PAGE = ROOT / "docs" / "performance.md"

HEAD = """\
# Performance

Made by `python -m benchmarks.page` from `benchmarks/results.json`, which `python -m benchmarks.suite
--json benchmarks/results.json` measured. No test asserts a time.

Every runtime works in a process of its own, one at a time, in turns with a changing start; the number
of threads is set before Python starts; all have the same weights and inputs and compute in f32, and
the answer of each was compared with the simulator before anything was timed. A time is that of one
call from Python, NumPy arrays in and NumPy array out: the median over the rounds of each round's
median. A ratio is our time divided by the other's in the same round, median over the rounds: below 1
we are faster. The machine may be shared, so ratios say more than times.
"""


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the others are numbers."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, rule, *rows))


def duration(seconds: float) -> str:
    """Three digits with a unit that a person reads easily."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def size(count: int) -> str:
    """Bytes in units of 1000 or 1000000."""
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def markdown(data: Mapping[str, Any]) -> str:
    """All tables of one measurement."""
    return "\n\n".join(part.rstrip() for part in _parts(data)) + "\n"


def _parts(data: Mapping[str, Any]) -> Iterator[str]:
    if data.get("races"):
        yield from _races(data)
    start = data.get("start")
    if start:
        yield from _start(start)
    yield from _machine(data)


def _races(data: Mapping[str, Any]) -> Iterator[str]:
    races = data["races"]
    peers = list(dict.fromkeys(peer for race in races for peer in race["peers"]))
    others = [peer for peer in peers if peer != "openinfer"]
    threads = "1 thread" if data["threads"] == 1 else f"{data['threads']} threads"
    yield f"## Models, f32, {threads}"
    header = ["work", *(TITLES[peer] for peer in peers)]
    header += [f"ratio to {TITLES[peer]}" for peer in others]
    rows: list[list[str]] = []
    for race in races:
        row = [race["title"]]
        row += [duration(race["peers"][peer]["seconds"]) for peer in peers]
        row += [f"{race['peers'][peer]['ratio']:.2f}" for peer in others]
        rows.append(row)
    yield table(header, rows)
    yield (
        "Set-up: load or compile, then the first result, inside a process that has NumPy. openinfer "
        "compiles a model in its first row and finds it in its cache in the others."
    )
    yield table(
        ["work", *(TITLES[peer] for peer in peers)],
        [
            [race["title"], *(duration(race["peers"][peer]["setup"]) for peer in peers)]
            for race in races
        ],
    )
    yield "Largest difference from the simulator:"
    yield table(
        ["work", *(TITLES[peer] for peer in peers)],
        [
            [race["title"], *(f"{race['peers'][peer]['difference']:.1e}" for peer in peers)]
            for race in races
        ],
    )


def _start(start: Mapping[str, Any]) -> Iterator[str]:
    seconds = start["seconds"]
    yield "## Compiling and starting"
    yield (
        "Wall time of new processes, medians. Results and imports are counted beyond Python's own "
        f"start, which takes {duration(seconds['python'])}."
    )
    rows = [[name, duration(value)] for name, value in seconds.items() if name != "python"]
    yield table(["what", "time"], rows)
    memory = start["memory"]
    yield "## Memory of MiniLM"
    ratio = memory["arena"] / memory["lower bound"]
    yield table(
        ["what", "size"],
        [
            ["arena at 128 tokens", size(memory["arena"])],
            [
                "lower bound of any plan",
                f"{size(memory['lower bound'])} (arena: {ratio:.3f} times)",
            ],
            ["weights used where the file is mapped", size(memory["weights mapped"])],
            ["weights laid out anew, once", size(memory["weights packed"])],
        ],
    )
    stored = start["bytes"]
    yield "## Installed size"
    rows = [[f"`{name}`", size(count)] for name, count in stored.items()]
    yield table(["package", "size"], [*rows, ["all required", size(sum(stored.values()))]])


def _machine(data: Mapping[str, Any]) -> Iterator[str]:
    yield "## Where this was measured"
    versions = ", ".join(f"{name} {value}" for name, value in data["versions"].items())
    lines = [
        f"- {data['machine']}, {data['cpus']} CPUs; openinfer compiles for `{data['target']}`",
        f"- {data['date']}, {data['rounds']} rounds of {data['slice']:g} s for each runtime",
        f"- {versions}",
    ]
    yield "\n".join(lines)


def page(data: Mapping[str, Any]) -> str:
    """The whole page."""
    return f"{HEAD}\n{markdown(data)}"


def main() -> None:
    data = json.loads(RESULTS.read_text(encoding="utf-8"))
    PAGE.write_text(page(data), encoding="utf-8")
    print(PAGE.relative_to(ROOT))


if __name__ == "__main__":
    main()
