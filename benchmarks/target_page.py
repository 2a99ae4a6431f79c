"""The part of `docs/performance.md` about an older instruction set, from a run with `--target`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks import tables
from benchmarks.tables import markdown, threads_words

TITLES = {"avx2": "AVX2"}


def section(data: Mapping[str, Any]) -> Iterator[str]:
    """Heading, what was held to the target and how, and a table for each number of threads."""
    where, target = data["environment"], data["held"]
    other = "".join(f"; {text}" for text in tables.other_commits(data["rows"]))
    yield f"## {TITLES[target]}"
    yield (
        f"The same processor, held to an older instruction set: `openinfer bench --target {target}`. "
        f"Our programs, and the loops that measure the limits, are compiled for `{target}`; IREE "
        "compiles for x86-64-v3; oneDNN (inside OpenVINO and PyTorch), PyTorch's own kernels, MKL and "
        "NumPy's OpenBLAS are told to use no more than AVX2; llama.cpp's build has no more. OpenVINO "
        "leaves products without anything behind them to MLAS, which cannot be told: a clip that "
        "changes nothing, behind such products, keeps them with oneDNN, and where one is left OpenVINO "
        f"has no part. Commit {where['commit'] or 'unknown'}, {where['date']}{other}, "
        f"{data['rounds']} rounds of {data['slice']:g} s."
    )
    for threads in sorted({row["threads"] for row in data["rows"]}):
        rows = [row for row in data["rows"] if row["threads"] == threads]
        yield f"### {TITLES[target]}, {threads_words(threads)}"
        yield markdown(tables.summary(rows))
        yield markdown(tables.against_all(rows))
    rates = tables.rates(data["rows"], where["caches"])
    if rates[1]:
        yield f"The limits of `{target}` code, medians over the rows:"
        yield markdown(rates)
    reasons = [f"{title} is left out: {reason}" for title, reason in data["absent"].items()]
    reasons += list(tables.absences(data["rows"]))
    reasons += [f"openinfer failed, {name}: {error}" for name, error in data["failed"].items()]
    if reasons:
        yield "\n".join(f"- {reason}" for reason in reasons)
