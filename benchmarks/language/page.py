"""`docs/performance-language.md` from `benchmarks/results-language-*.json`, a file for each processor.

    python -m benchmarks.language.page

The page is never written by hand: a test compares it with what this module makes.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.language.engines import OURS, PEER
from benchmarks.language.models import SHAPES, TYPES
from benchmarks.language.racing import KINDS
from benchmarks.language.worker import DEPTH, PROMPT
from benchmarks.tables import Table, duration, markdown, other_commits, plain, size, threads_words

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "benchmarks"
STEM = "results-language-"
PAGE = ROOT / "docs" / "performance-language.md"
GOALS: dict[tuple[str, str, str], tuple[float, float | None]] = {
    ("1.04G", "f16", "decode"): (1.15, 0.97),
    ("1.04G", "q8_0", "decode"): (1.3, 0.97),
    ("1.04G", "q4_0", "decode"): (1.2, 0.9),
    ("1.04G", "q4_k", "decode"): (1.2, 0.9),
    ("15M", "f16", "decode"): (1.3, None),
    ("15M", "q8_0", "decode"): (1.3, None),
    **{("1.04G", kind, what): (2.0, None) for kind in ("q8_0", "q4_k") for what in ("128", "512")},
}
"""How many times llama.cpp's speed, or what part of the read bandwidth; reaching one of them will do."""
LEAST = {"f16": (1.05, 0.9), "q8_0": (1.05, 0.9), "q4_0": (1.05, 0.8), "q4_k": (1.05, 0.8)}
"""What decoding with 1.04 G parameters must reach in any case: both."""
WORDS = {"decode": "decode", "128": "prompt of 128", "512": "prompt of 512"}

HEAD = f"""\
# Language models

Made by `python -m benchmarks.language.page` from `benchmarks/{STEM}*.json`, a file for each
processor. No test asserts a time.

The models are llama shapes with random weights in GGUF files (`benchmarks/language/models.py`), the head
is the embedding. Each engine has a process of its own, one works at a time, in turns, in another order
each round, by the rules of [performance.md](performance.md). Logits of both were compared before anything
was timed. Decode is a step of one token behind {DEPTH} others, logits out; a prompt is taken in one call,
the logits behind its last token out. A start is the time from the start of Python to the logits behind a
prompt of {PROMPT} tokens, with the file in the system's memory: the first one finds an empty cache of
compiled programs, later ones what it left there. A ratio is our tokens per second divided by llama.cpp's
in the same round, median over the rounds: above 1 we are faster. The share is that of the bandwidth at
which a loop that does nothing else reads as many bytes as the file has, measured in the same round.

llama.cpp is the library inside `xllamacpp`, with its cache in f16 and without its fused attention, which
is slower for one token on a CPU; that build has AVX2 kernels and none for AVX-512.
"""
REPRODUCE = f"""\
## How to reproduce it

    pip install -e '.[bench-more]'    # in a checkout; brings llama.cpp
    python -m benchmarks.language --json benchmarks/{STEM}NAME.json --page    # NAME: of the processor

Files of 5 GB are written once into the bench folder (`--prepare` does only that); then it takes a quarter
of an hour, on a machine that does nothing else. `--shapes`, `--types` and `--threads` choose, `--quick`
shows whether everything works, `--resume` goes on where it was stopped."""

Data = Mapping[str, Any]


def page(measured: Sequence[Data]) -> str:
    """The whole page: what each processor measured."""
    return HEAD + "\n" + "\n\n".join(part.rstrip() for part in _parts(measured)) + "\n"


def committed() -> list[Data]:
    """The results in the repository, those with the most rows first."""
    files = sorted(RESULTS.glob(f"{STEM}*.json"))
    found: list[Data] = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return sorted(found, key=lambda data: -len(data["rows"]))


def is_committed(path: Path) -> bool:
    """Whether the page is made of this file, too."""
    return path.resolve().parent == RESULTS and path.match(f"{STEM}*.json")


def write() -> None:
    PAGE.write_text(page(committed()), encoding="utf-8")


def _parts(measured: Sequence[Data]) -> Iterator[str]:
    yield "## All ratios"
    yield markdown(ratios(measured))
    for data in measured:
        yield f"## {processor(data)}"
        yield _where(data)
        for threads in _threads(data):
            rows = _sorted(row for row in data["rows"] if row["threads"] == threads)
            yield f"### {processor(data)}, {threads_words(threads)}"
            yield markdown(speeds(rows))
            yield (
                "Until the first token, and bytes in memory then, of a later start, pages of the file "
                "included:"
            )
            yield markdown(starts(rows))
        if notes := list(_notes(data)):
            yield "Missing there:\n\n" + "\n".join(f"- {note}" for note in notes)
    yield REPRODUCE


def processor(data: Data) -> str:
    """Its name as people write it."""
    return str(data["environment"]["cpu"]).replace("(R)", "").removesuffix(" Processor")


def _where(data: Data) -> str:
    where = data["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    named = [{**row, "name": f"{row['shape']} {row['type']}"} for row in data["rows"]]
    other = "".join(f"; {text}" for text in other_commits(named))
    return (
        f"{', '.join(where['flags'])}; {where['cpus']} CPUs; {where['system']}; {versions}; "
        f"commit {where['commit'] or 'unknown'}, {where['date']}{other}; {_rounds(data)} rounds, "
        f"turns of {data['slice']:g} s."
    )


def _rounds(data: Data) -> str:
    """How many a row has, the fewest and the most."""
    counts = {
        len(found[what]["rounds"])
        for row in data["rows"]
        for found in row["engines"].values()
        for what in KINDS
        if what in found
    }
    low, high = min(counts, default=0), max(counts, default=0)
    return str(low) if low == high else f"{low} to {high}"


def _threads(data: Data) -> list[int]:
    return sorted({row["threads"] for row in data["rows"]})


def ratios(measured: Sequence[Data]) -> Table:
    """How many times as fast as the peer, on all processors side by side."""
    columns = [(data, threads) for data in measured for threads in _threads(data)]
    head = [f"{processor(data)}, {threads_words(threads)}" for data, threads in columns]
    lines: list[list[str]] = []
    for shape, kind, what in itertools.product(SHAPES, TYPES, KINDS):
        wanted = GOALS.get((shape, kind, what))
        cells: list[str] = []
        for data, threads in columns:
            key = (shape, kind, threads)
            found = next((r for r in data["rows"] if _key(r) == key), None)
            cells.append(_ratio(found, what) if found else "")
        if any(cells):
            lines.append([f"{shape} {kind}", WORDS[what], _goal_words(wanted), *cells])
    return ["model", "what", "goal", *head], lines


def _key(row: Data) -> tuple[str, str, int]:
    return row["shape"], row["type"], row["threads"]


def _ratio(row: Data, what: str) -> str:
    mine = row["engines"].get(OURS, {}).get(what, {})
    if not mine.get("ratio"):
        return ""
    return f"{mine['ratio']:.2f}" + (" missed" if goal(row, what).endswith("missed") else "")


def _sorted(rows: Any) -> list[Data]:
    shapes, types = list(SHAPES), list(TYPES)
    return sorted(rows, key=lambda row: (shapes.index(row["shape"]), types.index(row["type"])))


def _notes(data: Data) -> Iterator[str]:
    measured = {_key(row) for row in data["rows"]}
    for threads, shape, kind in itertools.product(_threads(data), SHAPES.values(), TYPES):
        if (shape.name, kind, threads) not in measured:
            reason = shape.missing(kind) or "not measured"
            yield f"{shape.name} {kind}, {threads_words(threads)}: {reason}"
    for engine, reason in data["absent"].items():
        yield f"{engine} is left out: {reason}"
    for row in _sorted(data["rows"]):
        for engine, reason in row["missing"].items():
            yield f"{engine}, {_name(row)}: {reason}"
    for name, reason in data["failed"].items():
        yield f"failed: {name}: {reason}"


def _name(row: Data) -> str:
    return f"{row['shape']} {row['type']}"


def speeds(rows: Sequence[Data]) -> Table:
    """Tokens per second, ratios, shares of the bandwidth."""
    head = ["model", "what", OURS, PEER, "ratio", "goal", "at least"]
    head += ["share of bandwidth", f"{PEER}'s", "GB/s"]
    lines: list[list[str]] = []
    for row in rows:
        ours, peer = (row["engines"].get(engine, {}) for engine in (OURS, PEER))
        for what in KINDS:
            mine, other = ours.get(what, {}), peer.get(what, {})
            lines.append(
                [
                    _name(row),
                    WORDS[what],
                    _number(mine.get("tokens")),
                    _number(other.get("tokens")),
                    f"{mine['ratio']:.2f}" if mine.get("ratio") else "",
                    goal(row, what),
                    least(row, what),
                    _share(mine),
                    _share(other),
                    f"{row['read'] / 1e9:.1f}" if what == "decode" else "",
                ]
            )
    return head, lines


def goal(row: Data, what: str) -> str:
    """The goal of a measurement, and whether we missed it."""
    wanted = GOALS.get((row["shape"], row["type"], what))
    text = _goal_words(wanted)
    if wanted is None:
        return text
    ratio, share = wanted
    mine = row["engines"].get(OURS, {}).get(what)
    if mine is None or mine["ratio"] is None:
        return text
    reached = mine["ratio"] >= ratio or (share is not None and mine["share"] >= share)
    return text if reached else f"{text} missed"


def least(row: Data, what: str) -> str:
    """Below what a measurement may never be, and whether it is."""
    if (row["shape"], what) != ("1.04G", "decode"):
        return ""
    ratio, share = LEAST[row["type"]]
    text = f"{ratio:g} and {share:.0%}"
    mine = row["engines"].get(OURS, {}).get(what)
    if mine is None or mine["ratio"] is None:
        return text
    return text if mine["ratio"] >= ratio and mine["share"] >= share else f"{text} missed"


def _goal_words(wanted: tuple[float, float | None] | None) -> str:
    if wanted is None:
        return ""
    ratio, share = wanted
    return f"{ratio:g}" + (f" or {share:.0%}" if share else "")


def starts(rows: Sequence[Data]) -> Table:
    head = ["model", "file", "engine", "first start", "later starts", "of it loading", "memory"]
    lines = [
        [
            _name(row),
            size(row["bytes"]),
            engine,
            duration(found["first_start"]),
            duration(found["second_start"]),
            duration(found["load"]),
            size(sum(found["memory"].values())),
        ]
        for row in rows
        for engine, found in row["engines"].items()
    ]
    return head, lines


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _share(found: Data) -> str:
    return f"{found['share']:.0%}" if "share" in found else ""


def line(row: Data) -> str:
    """A row in short."""
    parts = [f"{_name(row)}, {threads_words(row['threads'])}:"]
    for engine, found in row["engines"].items():
        rates = " / ".join(_number(found[what]["tokens"]) for what in KINDS)
        parts.append(f"{engine} {rates} tok/s ({_share(found['decode'])})")
    return " ".join(parts)


def terminal(data: Data) -> str:
    """What the command prints in the end."""
    parts: list[str] = []
    for threads in _threads(data):
        rows = _sorted(row for row in data["rows"] if row["threads"] == threads)
        parts += [threads_words(threads), plain(speeds(rows)), plain(starts(rows))]
    parts += [f"- {note}" for note in _notes(data)]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    write()
