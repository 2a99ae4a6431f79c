"""`docs/performance.md` from `benchmarks/results.json`, `results-avx2.json` and `results-cpu-*.json`.

    python -m benchmarks.page

The page is never written by hand: a test compares it with what this module makes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import ablation_tables, memory_tables, processor_page, tables, target_page
from benchmarks.peers import PEERS
from benchmarks.tables import duration, markdown, size, threads_words
from benchmarks.workloads import SAMPLES

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results.json"
HELD = ROOT / "benchmarks" / "results-avx2.json"
"""Measured with `--target avx2`."""
PAGE = ROOT / "docs" / "performance.md"

HEAD = """\
# Performance

Made by `python -m benchmarks.page` from `benchmarks/results.json`, `benchmarks/results-avx2.json` and
`benchmarks/results-cpu-*.json`, which `openinfer bench` measured. No test asserts a time. What limits the
rows that miss their goal, and what was tried, is in [performance-log.md](performance-log.md).

Every runtime works in a process of its own, one at a time, in turns, in another order each round; the
number of threads is set before Python starts; a turn begins when the threads of the one before rest,
for some spin on; all have the same weights and inputs, and the answer of each was compared with the
simulator before anything was timed. A time is that of one call from Python, NumPy arrays in and NumPy
array out: the median over the rounds of each round's median. A ratio is our time divided by the other's
in the same round, median over the rounds: below 1 we are faster. The machine may be shared, so ratios
say more than times.

A machine that is shared takes a core away for a while. One rule for everybody decides what is measured
again. A turn, one runtime's part of a round, is repeated at once, twice at most, where others had more
processor time than the cores that the runtime leaves free, by more than a fifth of the turn: Linux
counts that. A round is repeated where the median over all runtimes and the machine's own loops, each
against its quickest round, is above 1.25. Our time has one voice there, as every other. Where our time
or that of the fastest f32 peer still spreads by more than 10 %, the row gets half as many rounds more,
and all of these count. No more turns are added to a row than it had; then the rounds that come closest to
the rule count. Below the tables stands what was added.

The limit of a row is the longest of two times: that of its multiply-adds at the rate of a loop that
does nothing else, and that of its bytes (weights, inputs, results, each once) at the rate of a loop
that only reads, again and again, a buffer of just as many bytes: what of them a cache keeps from call
to call is measured so, not assumed. Both loops are made by our own compiler and run in every round, on
as many threads. A time that beats its limit by more than 15 % is refused: the
work was not all done, or the limit was measured badly. Between 100 and 115 % a time counts, since rates
vary so much; `openinfer bench` says for each share above 100 % what was measured.
"""
MEMORY = """\
The arena holds all that a step computes, its result and the scratch of its kernels too; weights,
inputs and state lie elsewhere. No step allocates. Its plan stands here against the largest set of
values that live at once, and against what other runtimes hold in a call beyond weights and inputs,
their results included; in brackets our arena divided by theirs. All on one thread, asked for behind
the rounds. Two columns have narrower numbers than the rest: `openinfer bf16` and OpenVINO's default.
What is counted:
"""
LARGER = """\
Reasons: a product of two inputs from 512 up lays one of them out anew, in the arena; other kernels do so
in memory that they do not report, and IREE, which reports it, takes more. A variable that the layers of
MiniLM hand on keeps its place while a layer computes the next one. The decoder's attention takes 64
bytes of scratch for each token in the cache. A vector between f16 weights stays in f32, PyTorch's has
16 bits."""
REPRODUCE = """\
## How to reproduce it

    pip install -e '.[bench,bench-more]'    # in a checkout; brings the peers
    openinfer bench --json benchmarks/results.json --ablate --page
    openinfer bench --target avx2 --json benchmarks/results-avx2.json --page
    openinfer bench --no-start --json benchmarks/results-cpu-NAME.json --page    # on another processor
    openinfer bench --again --workload W8,W9 --peers onnxruntime,openvino,torch,torch-compile,aot \\
        --rounds 4 --json benchmarks/results-cpu-NAME.json --page    # some rows of it anew

The first command measures everything on 1 and 2 threads, the ablation too, and writes this page: half an
hour, on a machine that does nothing else. It notes each row in the file as soon as it is done, and goes
on there with `--resume`. `--again` measures the chosen rows of a file anew and notes their commit. The
first run also builds what some peers compile ahead of time, and keeps it (`--prepare` does only that;
AOTInductor takes half a minute for each row and number of threads, and so does torch.compile, which
races in a row or two of each group where nobody names it).
`--workload W4,minilm-128` and `--peers` choose, `--quick` shows within minutes that everything works,
`--plot FILE.png` draws the shares of the limit; `python -m benchmarks.page` writes the page from the
file as it is, `python -m benchmarks.kernels` measures single kernels. The workloads are in
`benchmarks/workloads/`, their programs in `benchmarks/programs/` and `examples/`. Language models from
`.gguf` files, W7, have a command of their own: `python -m benchmarks.language`.

Some peers need more than their package. AOTInductor and torch.compile start `g++`. tinygrad starts
`clang`: the one on the path, else the one inside the package `ziglang` (`zig clang`), which the extra
brings. llama.cpp is the library inside `xllamacpp`, of one version, since its C structures change; that
build has AVX2 kernels and none for AVX-512. It reads the weights of W5 from a GGUF file that is written
for it, takes the token's vector as an embedding, and holds the cache in f32, without its fused attention,
which is slower for one token on a CPU. ONNX Runtime's row of 8-bit weights expands them to f32 when it
loads them, the fastest of its forms that keeps the vector in f32; the one that rounds the vector to
8 bits stands in a column of its own, with a tolerance of its own."""


def page(
    data: Mapping[str, Any],
    held: Mapping[str, Any] | None = None,
    others: Sequence[Mapping[str, Any]] = (),
) -> str:
    """The whole page; `held` was measured for an older instruction set, `others` on other processors."""
    parts = (part.rstrip() for part in _parts(data, held, others))
    return HEAD + "\n" + "\n\n".join(parts) + "\n"


def write(found: Mapping[str, Any], path: Path = RESULTS) -> None:
    """The page from a new measurement, which lies at `path`, and the committed ones beside it."""
    data, held = _read(RESULTS), _read(HELD)
    if found.get("held"):
        held = found
    elif not processor_page.is_other(path):
        data = found
    PAGE.write_text(page(data, held, processor_page.others()), encoding="utf-8")


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def _parts(
    data: Mapping[str, Any], held: Mapping[str, Any] | None, others: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    if others:
        measured = [data, *((held,) if held is not None else ()), *others]
        yield from processor_page.overview(measured)
        yield from processor_page.tuned(measured)
    counts = sorted({row["threads"] for row in data["rows"]})
    for threads in counts:
        yield from _threads(data, threads)
    yield from _scaling(data, counts)
    yield from _left_out(data)
    if data.get("ablation"):
        yield from _ablation(data["ablation"])
    if data.get("start"):
        yield from _start(data["start"])
    yield from _memory(data)
    if data.get("start"):
        yield from _installed(data["start"])
    if held is not None:
        yield from target_page.section(held)
    yield from processor_page.sections(others)
    yield from _machine(data)
    yield REPRODUCE


def _threads(data: Mapping[str, Any], threads: int) -> Iterator[str]:
    rows = [row for row in data["rows"] if row["threads"] == threads]
    words = threads_words(threads)
    yield f"## {words.capitalize()}"
    yield (
        "The fastest peer that computes in f32, and the share of the machine's limit that we reach. "
        "Spread is that of the rounds' medians; the goals are our own."
    )
    yield markdown(tables.summary(rows))
    again = list(tables.again(rows))
    if again:
        yield "What was measured again, or more often:"
        yield "\n".join(f"- {line}" for line in again)
    yield f"### All runtimes, {words}"
    yield (
        "Times, and in brackets our time divided by theirs. OpenVINO's default rounds to bf16, and "
        "vectors to 8 bits where weights have 8."
    )
    yield markdown(tables.against_all(rows))
    rounded = tables.bf16(rows)
    if rounded[1]:
        yield f'### `precision="bf16"`, {words}'
        yield "Products of operands that are rounded to bf16, summed in f32, by both."
        yield markdown(rounded)
    yield f"### Set-up, {words}"
    yield (
        "Load or compile, then the first result, in a process that has its libraries. AOTInductor and "
        "IREE load what they compiled before; openinfer compiles a program that it has not seen "
        "in this run, and takes it from its cache afterwards, as with two threads."
    )
    yield markdown(tables.setup(rows))


def _scaling(data: Mapping[str, Any], counts: list[int]) -> Iterator[str]:
    table = tables.scaling(data["rows"], counts)
    if table[1]:
        yield "## Two threads against one"
        yield "Our time on one thread divided by that on more, from different parts of the run."
        yield markdown(table)


def _samples(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Slow peers that met only the samples."""
    for name, peer in PEERS.items():
        seen = {row["name"] for row in rows if name in row["peers"]}
        if peer.slow and seen and seen <= SAMPLES:
            yield f"{peer.title} takes part in a row or two of each group, or where it is named"


def _left_out(data: Mapping[str, Any]) -> Iterator[str]:
    reasons = [f"{title} is left out: {reason}" for title, reason in data["absent"].items()]
    reasons += list(_samples(data["rows"]))
    reasons += list(tables.absences(data["rows"]))
    reasons += [f"openinfer failed, {name}: {error}" for name, error in data["failed"].items()]
    if reasons:
        yield "## Who is missing where, and why"
        yield "\n".join(f"- {reason}" for reason in reasons)


def _ablation(found: Mapping[str, Any]) -> Iterator[str]:
    yield "## What each pass buys"
    yield (
        "Each optional pass left out by itself, all others kept, on one thread. A pass acts where it "
        "changes the program at its place in the pipeline; where the machine code stays the same all "
        "the same, nothing is timed. Numbers are those without the pass divided by those with it: "
        "time of a step, bytes of the arena and of machine code, the largest of all programs, and "
        "time to compile, the median."
    )
    yield markdown(ablation_tables.summary(found))
    yield from ablation_tables.verdicts(found)
    yield (
        "The time of a step without the pass, divided by the time with all: `=` where the machine "
        "code is the same, empty where the pass does not act. The first line is how far equal builds "
        "differ, each in memory of its own."
    )
    yield markdown(ablation_tables.factors(found))
    failed = list(ablation_tables.failures(found))
    if failed:
        yield "\n".join(f"- {text}" for text in failed)


def _start(start: Mapping[str, Any]) -> Iterator[str]:
    seconds = start["seconds"]
    yield "## Compiling and starting"
    yield (
        "Wall time of new processes, medians. Results and imports are counted beyond Python's own "
        f"start, which takes {duration(seconds['python'])}. Byte code is there, as installers leave it."
    )
    lines = [[name, duration(value)] for name, value in seconds.items() if name != "python"]
    yield markdown((["what", "time"], lines))
    yield "## Overhead of a call"
    yield "Microseconds, the smallest round and the median one, of programs that compute next to nothing."
    yield markdown(tables.overhead(start["overhead"]))


def _memory(data: Mapping[str, Any]) -> Iterator[str]:
    start = data.get("start") or {}
    rows = memory_tables.with_plans(data["rows"], start.get("arenas", {}))
    table = memory_tables.arenas(rows)
    if table[1]:
        yield "## Memory"
        yield MEMORY
        yield "\n".join(f"- {line}" for line in memory_tables.sources(rows))
        yield markdown(table)
        more = list(memory_tables.larger(rows))
        if more:
            yield "Where our arena is larger than what an f32 peer reports:"
            yield "\n".join(f"- {line}" for line in more)
            yield LARGER
    if start:
        memory = start["memory"]
        yield (
            f"Weights of MiniLM: {size(memory['weights mapped'])} are used where the file is mapped, "
            f"{size(memory['weights packed'])} are laid out anew, once."
        )


def _installed(start: Mapping[str, Any]) -> Iterator[str]:
    stored = start["bytes"]
    yield "## Installed size"
    lines = [[f"`{name}`", size(count)] for name, count in stored.items()]
    yield markdown((["package", "size"], [*lines, ["all required", size(sum(stored.values()))]]))


def _machine(data: Mapping[str, Any]) -> Iterator[str]:
    where = data["environment"]
    caches = where["caches"]
    yield "## Where this was measured"
    versions = ", ".join(f"{name} {value}" for name, value in where["versions"].items())
    lines = [
        f"- {where['cpu']} ({', '.join(where['flags'])}), {where['cpus']} CPUs, "
        f"L2 {caches['l2'] >> 10} KiB each, L3 {caches['l3'] >> 20} MiB, {where['system']}; "
        f"openinfer compiles for `{where['target']}`",
        f"- {where['date']}, commit {where['commit'] or 'unknown'}, {data['rounds']} rounds of "
        f"{data['slice']:g} s for each runtime",
        f"- {versions}",
        *(f"- {text}" for text in tables.other_commits(data["rows"])),
        *(f"- {text}" for text in _other_parts(data)),
    ]
    yield "\n".join(lines)
    rates = tables.rates(data["rows"], caches)
    if rates[1]:
        yield "The limits, medians over the rows:"
        yield markdown(rates)


def _other_parts(data: Mapping[str, Any]) -> Iterator[str]:
    """One sentence for each part that was measured at another commit than the file."""
    for name, title in (("ablation", "what each pass buys"), ("start", "compiling and starting")):
        part = data.get(name) or {}
        if "commit" in part:
            yield f"{title}: commit {part['commit'] or 'unknown'}, {part['date']}"


def main() -> None:
    write(_read(RESULTS))
    print(PAGE.relative_to(ROOT))


if __name__ == "__main__":
    main()
