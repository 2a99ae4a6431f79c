"""What a step costs before it computes anything: native call, `run`, insert + step + fetch.

    python -m benchmarks.overhead
    python -m benchmarks.overhead --threads 1 2 --json overhead.json

Every program is as small as its kind allows, so that what is left is the way in and out. The limits
are those that the project promises; a row over its limit makes the exit code 1.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import openinfer as oi

Array = np.ndarray[Any, Any]
LIMITS = {"native": 2.0, "run": 4.0, "insert + step + fetch": 15.0}
"""Microseconds."""

_X = "dynamic { x: f32[4]; } volatile { y: f32[4]; }"
PROGRAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "empty": ("volatile { y: f32[4]; } block entry { return; }", {}),
    "one op": (f"{_X} block entry {{ op add(x, x) >> y; return; }}", {"x": "f32[4]"}),
    "one op, any batch": (
        "dynamic { x: f32[B, 4]; } volatile { y: f32[B, 4]; }"
        "block entry { op add(x, x) >> y; return; }",
        {"x": "f32[3, 4]"},
    ),
    "a tensor of state": (
        f"{_X} persistent {{ s: f32[4]; }}"
        "block entry { op add(x, s) >> y; cache.write y >> s; return; }",
        {"x": "f32[4]"},
    ),
    "a table of state": (
        "dynamic { x: f32[4]; t: i32; } volatile { y: f32[4]; } "
        "persistent { K(i): f32[4] @table @fixed(i=64); }"
        "block entry { cache.write x >> K[t]; op add(x, x) >> y; return; }",
        {"x": "f32[4]", "t": "number"},
    ),
}


@dataclass(frozen=True)
class Row:
    """Microseconds of one program at one number of threads."""

    program: str
    threads: int
    seconds: dict[str, tuple[float, float]]
    """For each of `LIMITS` the smallest and the median round, in microseconds."""

    @property
    def over(self) -> list[str]:
        """What took longer than promised."""
        return [name for name, (least, _) in self.seconds.items() if least > LIMITS[name]]


def measure(program: str, threads: int, rounds: int, calls: int) -> Row:
    """Times one program: the smallest and the median of `rounds` rounds of `calls` calls."""
    text, kinds = PROGRAMS[program]
    inputs = {name: _value(kind) for name, kind in kinds.items()}
    with oi.compile(oi.graph(text)).make_executor(threads) as executor:
        executor.run(**inputs)
        executor.run(**inputs)

        def apart() -> None:
            executor.insert(**inputs)
            executor.step()
            executor.fetch("y")

        work: dict[str, Callable[[], object]] = {
            "native": _native(executor),
            "run": lambda: executor.run(**inputs),
            "insert + step + fetch": apart,
        }
        return Row(program, threads, {n: _timed(w, rounds, calls) for n, w in work.items()})


def _value(kind: str) -> Any:
    if kind == "number":
        return 3
    shape = [int(extent) for extent in kind.partition("[")[2].rstrip("]").split(",")]
    return np.ones(shape, np.float32)


def _native(executor: Any) -> Callable[[], object]:
    """The call that a step ends in, with the frame of the step before."""
    return executor._first.native_call()


def _timed(work: Callable[[], object], rounds: int, calls: int) -> tuple[float, float]:
    """Microseconds of a call: the smallest round and the median one."""
    found: list[float] = []
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        for _ in range(calls):
            work()
        found.append((time.perf_counter_ns() - begin) / calls / 1e3)
    return min(found), statistics.median(found)


def table(rows: Sequence[Row]) -> str:
    """The rows as text; `!` marks what is over its limit."""
    lines = [f"{'program':20} {'threads':>7}" + "".join(f" {name:>24}" for name in LIMITS)]
    for row in rows:
        cells = "".join(
            f" {least:9.2f} (median {median:5.2f}){'!' if name in row.over else ' '}"
            for name, (least, median) in row.seconds.items()
        )
        lines.append(f"{row.program:20} {row.threads:7}{cells}")
    limits = "".join(f" {limit:24.2f}" for limit in LIMITS.values())
    lines.append(f"{'limit, µs':28}{limits}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.overhead",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--threads", type=int, nargs="+", default=[1, 2], metavar="N")
    add("--rounds", type=int, default=15, help="rounds of each (default 15)")
    add("--calls", type=int, default=1000, help="calls of a round (default 1000)")
    add("--json", type=Path, metavar="FILE", help="write the numbers too")
    options = parser.parse_args(arguments)
    if min(*options.threads, options.rounds, options.calls, 1) < 1:
        parser.error("--threads, --rounds and --calls take numbers above 0")
    rows = [
        measure(program, threads, options.rounds, options.calls)
        for program in PROGRAMS
        for threads in options.threads
    ]
    sys.stdout.write(table(rows) + "\n")
    if options.json is not None:
        data = {"limits": LIMITS, "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return 1 if any(row.over for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
