"""What each pass of the compiler buys: every optimising one left out in turn, the others kept.

The full compiler and its variants race as runtimes do: a process each, in turns, and their answers
are compared with the simulator first.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.choices import Choices
from benchmarks.peers import OURS, REFERENCE
from benchmarks.racing import Pool, WorkerError, answer_file, compared
from benchmarks.workloads import ABLATED
from benchmarks.workloads.base import Workload
from openinfer.compiler.pipeline import PIPELINES, SPEED_ONLY

THREADS = 1
ROUNDS, SECONDS = 5, 0.05
"""At most: what a pass buys shows sooner than a lead over a peer."""


def passes() -> list[str]:
    """The optimising passes in the order in which they first run."""
    names = dict.fromkeys(step.name for phase in PIPELINES["cpu"] for step in phase.steps)
    return [name for name in names if name in SPEED_ONLY]


def ablate(
    choices: Choices, folder: Path, scratch: Path, say: Callable[[str], None]
) -> dict[str, Any]:
    """Slowdowns by pass and workload, on one thread: time without the pass, time with all."""
    rows = choices.workloads if choices.selected else tuple(ABLATED.values())
    found: dict[str, Any] = {
        "titles": {row.name: row.title for row in rows},
        "passes": {name: {} for name in passes()},
        "failed": {},
    }
    for row in rows:
        say(f"{row.name}: one pass less …")
        row.write_package(folder)
        with Pool(folder, scratch, THREADS) as pool:
            factors = slowdowns(pool, row, passes(), choices, found["failed"])
        for name, factor in factors.items():
            found["passes"][name][row.name] = factor
    return found


def slowdowns(
    pool: Pool,
    workload: Workload,
    names: Sequence[str],
    choices: Choices,
    failed: dict[str, str],
) -> dict[str, float]:
    """The factors of one workload. Raises WorkerError when the full compiler fails."""
    _prepared(pool, REFERENCE, REFERENCE, workload, ())
    _prepared(pool, OURS, OURS, workload, ())
    running: list[str] = []
    for name in names:
        try:
            _prepared(pool, OURS, f"{OURS}-{name}", workload, (name,))
            running.append(name)
        except WorkerError as error:
            failed[f"{workload.name} without {name}"] = str(error)[:300]
    seconds = min(choices.seconds, SECONDS)
    table: dict[str, list[float]] = {name: [] for name in running}
    for number in range(min(choices.rounds, ROUNDS)):
        first = number % max(len(running), 1)
        for name in (*running[first:], *running[:first]):
            # The full compiler again before each variant: neighbours come and go within a round.
            full = _median(pool, OURS, seconds)
            table[name].append(_median(pool, f"{OURS}-{name}", seconds) / full)
    return {name: statistics.median(factors) for name, factors in table.items()}


def _prepared(pool: Pool, peer: str, key: str, workload: Workload, without: Sequence[str]) -> None:
    answer = answer_file(workload, key, pool.scratch)
    worker = pool.worker(peer, key)
    options = {"without": list(without)}
    worker.ask(prepare=workload.name, answer=str(answer), options=options)
    if peer != REFERENCE:
        reference = answer_file(workload, REFERENCE, pool.scratch)
        compared(answer, reference, workload.peer_tolerance(OURS))


def _median(pool: Pool, key: str, seconds: float) -> float:
    return statistics.median(pool.worker(OURS, key).ask(measure=seconds)["times"])
