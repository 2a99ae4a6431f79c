"""One runtime in one process: prepares workloads, answers, and times itself when told to.

    python -m benchmarks.worker PEER FOLDER THREADS TARGET

Reads a JSON object per line from stdin and answers with one per line. `{"prepare": NAME, "answer":
FILE}` builds the workload and stores its answer; `{"measure": SECONDS}` gives the times of single
calls and what part of the time a core was missing, `{"memory": true}` the bytes that the runtime says
one allocates. What goes wrong comes back as `{"error": TEXT}`.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environment import described
from benchmarks.peers import PEERS, SIMULATOR, Asked, Peer, Run, Setting, peer_inputs
from benchmarks.pipes import own_stdout
from benchmarks.processors import Watch, settle
from benchmarks.workloads import find
from openinfer.runtime.devices import DEFAULT_DEVICE

LEAST = 3
MOST = 20_000
WARM = 2
KEPT = 101
"""Of the times of a turn so many are kept, evenly from the quickest to the slowest."""


def measure(
    run: Run, inputs: dict[str, Any], seconds: float, watch: Watch | None = None
) -> list[float]:
    """Seconds of single calls, arrays in and arrays out, for so long; a watch starts with them."""
    clock = time.perf_counter
    start = clock()
    for _ in range(WARM):
        run(inputs)
        if clock() - start > seconds:
            break
    least = LEAST if clock() - start < seconds else 1
    times: list[float] = []
    gc.collect()
    gc.disable()
    if watch is not None:
        watch.start()
    end = clock() + seconds
    while len(times) < MOST and (len(times) < least or clock() < end):
        start = clock()
        run(inputs)
        times.append(clock() - start)
    gc.enable()
    return times


def thinned(times: list[float]) -> list[float]:
    """At most `KEPT` of the times, in order of length."""
    times = sorted(times)
    if len(times) <= KEPT:
        return times
    return [times[round(i * (len(times) - 1) / (KEPT - 1))] for i in range(KEPT)]


class Session:
    """The peer of this process and what it runs now."""

    def __init__(self, peer: Peer, folder: Path, threads: int, target: str) -> None:
        self._peer = peer
        self._folder = folder
        self._threads = threads
        self._target = target
        self._watch = Watch(threads)
        self._made: Asked | None = None

    def prepare(self, name: str, answer: str, options: dict[str, Any]) -> dict[str, Any]:
        self._made = None
        gc.unfreeze()
        gc.collect()
        workload = find(name)
        inputs = peer_inputs(self._peer, workload)
        without = frozenset(options.get("without", ()))
        setting = Setting(
            self._folder,
            self._threads,
            without,
            options.get("precision"),
            self._target,
            options.get("device", DEFAULT_DEVICE),
            options.get("fallback", True),
        )
        start = time.perf_counter()
        run = self._peer.make(workload, setting)
        found = np.asarray(run(inputs))
        seconds = time.perf_counter() - start
        np.save(answer, found)
        self._made = Asked(self._peer.name, workload, setting, run, inputs)
        gc.freeze()  # each turn collects, which then has little to look at
        return {"seconds": seconds}

    def measure(self, seconds: float) -> dict[str, Any]:
        assert self._made is not None
        times = measure(self._made.run, self._made.inputs, seconds, self._watch)
        missing = self._watch.missing()
        settle()
        return {"times": thinned(times), "calls": len(times), "missing": missing}

    def memory(self) -> dict[str, Any]:
        assert self._made is not None
        return self._peer.allocated(self._made)


class LimitSession(Session):
    """Measures the machine instead of a runtime."""

    def __init__(self, threads: int, target: str) -> None:
        from benchmarks.limits import Limits

        self._watch = Watch(threads)
        self._limits = Limits(threads, described(target))

    def prepare(self, name: str, answer: str, options: dict[str, Any]) -> dict[str, Any]:
        del name, answer
        self._limits.expect(options["reads"])
        return {}

    def measure(self, seconds: float) -> dict[str, Any]:
        self._watch.start()
        rates = self._limits.measure()
        missing = self._watch.missing()
        settle()
        return {"rates": rates, "missing": missing}


def main() -> None:
    name, folder, threads, target = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    pipe = own_stdout()
    peers = {**PEERS, SIMULATOR.name: SIMULATOR}
    if name == "limits":
        session = LimitSession(threads, target)
    else:
        session = Session(peers[name], folder, threads, target)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if "prepare" in order:
                options = order.get("options", {})
                reply = session.prepare(order["prepare"], order["answer"], options)
            elif "memory" in order:
                reply = session.memory()
            else:
                reply = session.measure(order["measure"])
        except Exception as error:
            text = f"{type(error).__name__}: {error}".strip()
            reply = {"error": text[:2000]}
        pipe.write(json.dumps(reply) + "\n")
        pipe.flush()


if __name__ == "__main__":
    main()
