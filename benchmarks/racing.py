"""Races between runtimes: one process each, one working at a time, in turns.

The machine may be shared, so times drift. Every round therefore asks all runtimes shortly after
each other, the first one changing from round to round, and a ratio is taken within its round.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import REFERENCE
from benchmarks.problems import Problem

ROOT = Path(__file__).resolve().parent.parent
OURS = "openinfer"


class WorkerError(Exception):
    """A runtime failed; the message is the end of what it printed."""


class Worker:
    """A process that runs one peer."""

    def __init__(self, peer: str, folder: Path, threads: int) -> None:
        self.peer = peer
        self._log = open(folder / f"{peer}.log", "w+", encoding="utf-8")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", peer, str(folder), str(threads)],
            cwd=ROOT,
            env=environment(folder, threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def ask(self, **order: Any) -> dict[str, Any]:
        """Raises WorkerError when the process ended instead of answering."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = ""
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            pass
        if not line:
            code = self._process.wait()
            self._log.seek(0)
            raise WorkerError(
                f"{self.peer}: ended with code {code}\n{self._log.read()[-2000:].strip()}"
            )
        return json.loads(line)

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        self._process.wait()
        self._log.close()


def environment(folder: Path, threads: int) -> dict[str, str]:
    """What the runtimes read before they start: threads, and a cache that starts empty."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TBB_NUM_THREADS")
    count = str(threads)
    return {
        **os.environ,
        **dict.fromkeys(names, count),
        "PYTHONPATH": str(ROOT),
        "OPENINFER_CACHE_DIR": str(folder / "cache"),
        # NumPy's OpenBLAS takes newer AMD processors for older ones (the simulator uses it).
        "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE", "SkylakeX"),
    }


def race(
    problem: Problem,
    peers: Sequence[str],
    folder: Path,
    *,
    threads: int,
    rounds: int,
    seconds: float,
) -> dict[str, Any]:
    """Medians of all rounds, ratios within a round, setup times and largest differences.

    Raises WorkerError when a runtime fails or gives another answer than the simulator.
    """
    reference = Worker(REFERENCE, folder, threads)
    try:
        reference.ask(prepare=problem.name)
    finally:
        reference.close()
    workers = {peer: Worker(peer, folder, threads) for peer in peers}
    try:
        setup = {p: w.ask(prepare=problem.name)["seconds"] for p, w in workers.items()}
        off = {peer: difference(problem, peer, folder) for peer in peers}
        table: dict[str, list[float]] = {peer: [] for peer in peers}
        for number in range(rounds):
            first = number % len(peers)
            for peer in (*peers[first:], *peers[:first]):
                times = workers[peer].ask(measure=seconds)["times"]
                table[peer].append(statistics.median(times))
    finally:
        for worker in workers.values():
            worker.close()
    return {
        "name": problem.name,
        "title": problem.title,
        "operations": problem.operations(),
        "peers": {
            peer: {
                "seconds": statistics.median(values),
                "best": min(values),
                "rounds": values,
                "ratio": statistics.median(a / b for a, b in zip(table[OURS], values))
                if OURS in table
                else None,
                "setup": setup[peer],
                "difference": off[peer],
            }
            for peer, values in table.items()
        },
    }


def difference(problem: Problem, peer: str, folder: Path) -> float:
    """Largest difference from the simulator. Raises WorkerError beyond the problem's tolerance."""
    found = np.load(folder / f"{problem.name}-{peer}.npy")
    wanted = np.load(folder / f"{problem.name}-{REFERENCE}.npy")
    if found.shape != wanted.shape:
        raise WorkerError(f"{peer}: {problem.name} gave shape {found.shape}, not {wanted.shape}")
    off = float(np.abs(found - wanted).max())
    if not off <= problem.tolerance:
        raise WorkerError(
            f"{peer}: {problem.name} is {off:.2e} off, {problem.tolerance:.0e} is allowed"
        )
    return off
