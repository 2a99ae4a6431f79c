"""Races between runtimes: one process each, one working at a time, in turns.

The machine may be shared, so times drift. Every round therefore measures the machine's limits and
asks all runtimes shortly after each other, in another order each time; a ratio and a share of the limit
are taken within their round. `benchmarks/rounds.py` says which rounds count.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environment import cpu_field
from benchmarks.instruction_sets import HOST, RESTRICTIONS
from benchmarks.limits import beyond, limit_seconds, read_name
from benchmarks.peers import OURS, PEERS, REFERENCE, takes_part
from benchmarks.rounds import LIMITS, Round, collect
from benchmarks.workloads.base import Workload
from openinfer.runtime.devices import DEFAULT_DEVICE

ROOT = Path(__file__).resolve().parent.parent


class WorkerError(Exception):
    """A runtime failed; the message is what it said."""


class Child:
    """A process that answers orders, a line of JSON each, through pipes."""

    def __init__(
        self, name: str, command: Sequence[str], env: Mapping[str, str], scratch: Path, root: Path
    ) -> None:
        self._log = open(scratch / f"{name}.log", "w+", encoding="utf-8")
        self._process = subprocess.Popen(
            command,
            cwd=root,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def ask(self, **order: Any) -> dict[str, Any]:
        """Raises WorkerError when the runtime failed or the process ended instead of answering."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            # It has ended; its answer may still be there, and says why.
            pass
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """What the process says next. Raises WorkerError as `ask`."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            self._log.seek(0)
            raise WorkerError(f"ended with code {code}: {self._log.read()[-1000:].strip()}")
        reply = json.loads(line)
        if "error" in reply:
            raise WorkerError(reply["error"])
        return reply

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


class Worker(Child):
    """A process that runs one peer."""

    def __init__(
        self,
        peer: str,
        folder: Path,
        threads: int,
        scratch: Path,
        target: str = HOST,
        root: Path = ROOT,
    ) -> None:
        self.peer = peer
        command = [
            sys.executable,
            "-m",
            "benchmarks.worker",
            peer,
            str(folder),
            str(threads),
            target,
        ]
        env = {**environment(scratch, threads, target), "PYTHONPATH": search_path(root)}
        super().__init__(peer, command, env, scratch, root)


class Pool:
    """The workers of one number of threads; each starts when it is first asked for."""

    def __init__(
        self,
        folder: Path,
        scratch: Path,
        threads: int,
        target: str = HOST,
        device: str = DEFAULT_DEVICE,
        *,
        fallback: bool = True,
    ) -> None:
        self.folder = folder
        self.scratch = scratch
        self.threads = threads
        self.target = target
        self.device = device
        self.fallback = fallback
        self._workers: dict[str, Worker] = {}

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()

    def worker(self, peer: str, key: str | None = None) -> Worker:
        """The process of a peer, or of one of its variants; a new one when the last one died."""
        key = key or peer
        if key in self._workers and not self._workers[key].alive:
            self._workers.pop(key).close()
        if key not in self._workers:
            self._workers[key] = Worker(peer, self.folder, self.threads, self.scratch, self.target)
        return self._workers[key]

    def has(self, key: str) -> bool:
        """Whether such a process runs."""
        return key in self._workers and self._workers[key].alive


def search_path(root: Path) -> str:
    """A checkout first, so that its modules are those that run, then what was searched before."""
    return os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))


def environment(scratch: Path, threads: int, target: str = HOST) -> dict[str, str]:
    """What the runtimes read before they start: threads, a cache that starts empty, instructions."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TBB_NUM_THREADS")
    count = str(threads)
    # What an environment says of OpenBLAS may belong to other processors: it is left out.
    outside = {key: text for key, text in os.environ.items() if not key.startswith("OPENBLAS_")}
    newest = "avx512f" in cpu_field("flags").split()
    return {
        **outside,
        **dict.fromkeys(names, count),
        "PYTHONPATH": search_path(ROOT),
        "OPENINFER_CACHE_DIR": str(scratch / "cache"),
        # NumPy's OpenBLAS may take newer AMD processors for older ones (the simulator uses it too).
        **({"OPENBLAS_CORETYPE": "SkylakeX"} if newest else {}),
        # tinygrad's processor device, with as many threads as the others.
        "DEV": "CPU",
        "NUM_CPU_THREADS": count,
        **RESTRICTIONS[target].environment,
    }


@dataclass
class Prepared:
    """The peers of a row that gave the right answer, and why others did not."""

    setup: dict[str, float] = field(default_factory=dict[str, float])
    """Seconds until the first answer, by peer."""
    difference: dict[str, float] = field(default_factory=dict[str, float])
    missing: dict[str, str] = field(default_factory=dict[str, str])


def prepare(pool: Pool, workload: Workload, peers: Sequence[str]) -> Prepared:
    """Every peer's first answer, compared with the simulator's.

    Raises WorkerError when we are the one who fails.
    """
    found = Prepared()
    _ask(pool, REFERENCE, workload)
    for peer in peers:
        reason = takes_part(PEERS[peer], workload)
        try:
            if reason is None:
                seconds = _ask(pool, peer, workload)
                found.difference[peer] = difference(workload, peer, pool.scratch)
                found.setup[peer] = seconds
        except WorkerError as error:
            if peer == OURS:
                raise WorkerError(f"{peer}, {workload.name}: {error}") from None
            reason = " ".join(str(error).split())[:300]
        if reason is not None:
            found.missing[peer] = reason
    return found


def race(
    pool: Pool, workload: Workload, peers: Sequence[str], *, rounds: int, seconds: float
) -> dict[str, Any]:
    """A row: times, ratios and shares of the limit, and why a peer is missing.

    A peer whose answer is wrong is not timed. Raises WorkerError when we are the one who fails.
    """
    ready = prepare(pool, workload, peers)
    reads = sorted({_bytes(workload, peer) for peer in ready.setup})
    pool.worker(LIMITS).ask(prepare=workload.name, answer="", options={"reads": reads})
    found = collect(
        lambda name: pool.worker(name).ask(measure=seconds),
        list(ready.setup),
        rounds,
        rivals(ready.setup),
        f"{workload.name}, {pool.threads}",
    )
    cells: dict[str, dict[str, Any]] = {}
    for peer, taken in ready.setup.items():
        cell = result(workload, peer, found.of(peer))
        cells[peer] = {**cell, "setup": taken, "difference": ready.difference[peer]}
        if pool.threads == 1:
            # Behind the rounds: what looks on may slow a runtime down.
            cells[peer] |= _memory(pool, peer)
    return {
        "name": workload.name,
        "group": workload.group,
        "title": workload.title,
        "threads": pool.threads,
        "operations": workload.operations(),
        "bytes": workload.nbytes(),
        **_limit(workload, [each.rates for each in found.kept]),
        "again": {
            **{"turns": found.turns, "rounds": found.dropped, "more": found.more},
            "disturbed": found.disturbed,
        },
        "peers": cells,
        "missing": ready.missing,
    }


def rivals(running: Iterable[str]) -> list[str]:
    """We, and the peers that compute in f32: the fastest of them is what a row compares us with."""
    return [OURS, *(name for name in running if name != OURS and not PEERS[name].narrow)]


def _ask(pool: Pool, peer: str, workload: Workload) -> float:
    """Seconds until a peer had its first answer, which lies in a file then."""
    answer = str(answer_file(workload, peer, pool.scratch))
    options: dict[str, Any] = {"device": pool.device, "fallback": pool.fallback}
    if peer == "openinfer-bf16":
        options["precision"] = "bf16"
    worker = pool.worker(peer)
    return worker.ask(prepare=workload.name, answer=answer, options=options)["seconds"]


def _memory(pool: Pool, peer: str) -> dict[str, Any]:
    """What a peer says that a call allocates, or why it says nothing."""
    try:
        return pool.worker(peer).ask(memory=True)
    except WorkerError as error:
        return {"untold": " ".join(str(error).split())[:300]}


def answer_file(workload: Workload, peer: str, scratch: Path) -> Path:
    return scratch / f"{workload.name}-{peer}.npy"


def _bytes(workload: Workload, peer: str) -> int:
    """What a call of a peer has to read at least."""
    return int(workload.nbytes() / PEERS[peer].gain)


def _limit(workload: Workload, limits: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """The machine's rates, medians over the rounds, and what they allow this work in f32."""
    nbytes = _bytes(workload, OURS)
    names = {"fma": "fma", "read": read_name(nbytes)}
    rates = {name: statistics.median(each[key] for each in limits) for name, key in names.items()}
    seconds, bound = limit_seconds(workload.operations(), nbytes, **rates)
    return {"limits": rates, "bound": bound, "limit": seconds}


def result(workload: Workload, peer: str, rounds: Sequence[Round]) -> dict[str, Any]:
    """One cell: times, spread, ratio of our time to this one, share of the limit."""
    taken = [statistics.median(each.times[peer]) for each in rounds]
    every = np.sort(np.concatenate([np.asarray(each.times[peer]) for each in rounds]))
    ratios = [
        statistics.median(each.times[OURS]) / own
        for each, own in zip(rounds, taken)
        if OURS in each.times
    ]
    operations, nbytes = workload.operations() / PEERS[peer].gain, _bytes(workload, peer)
    shares = [
        limit_seconds(operations, nbytes, each.rates["fma"], each.rates[read_name(nbytes)])[0] / own
        for each, own in zip(rounds, taken)
    ]
    seconds, share = statistics.median(taken), statistics.median(shares)
    return {
        "seconds": seconds,
        "best": float(every[0]),
        "p10": float(np.quantile(every, 0.1)),
        "p90": float(np.quantile(every, 0.9)),
        "cv": statistics.pstdev(taken) / statistics.fmean(taken),
        "rounds": taken,
        "ratio": statistics.median(ratios) if ratios else None,
        "share": share,
        "refused": beyond(1.0, share),
    }


def difference(workload: Workload, peer: str, scratch: Path) -> float:
    """Largest difference from the simulator. Raises WorkerError beyond what is allowed."""
    reference = answer_file(workload, REFERENCE, scratch)
    return compared(answer_file(workload, peer, scratch), reference, workload.peer_tolerance(peer))


def compared(answer: Path, reference: Path, allowed: float) -> float:
    """Largest difference of two answers. Raises WorkerError beyond what is allowed."""
    found, wanted = np.load(answer), np.load(reference)
    if found.shape != wanted.shape:
        raise WorkerError(f"gave shape {found.shape}, not {wanted.shape}")
    off = float(np.abs(found - wanted).max())
    if not off <= allowed:
        raise WorkerError(f"is {off:.2e} off, {allowed:.0e} is allowed")
    return off
