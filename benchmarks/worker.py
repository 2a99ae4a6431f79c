"""One runtime in one process: prepares a problem, answers, and times itself when told to.

    python -m benchmarks.worker PEER FOLDER THREADS

Reads a JSON object per line from stdin and answers with one per line. `{"prepare": NAME}` builds the
model and stores its answer; `{"measure": SECONDS}` gives the times of single calls.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import IO, Any

import numpy as np

from benchmarks.peers import MAKERS, Run
from benchmarks.problems import PROBLEMS

LEAST = 5
MOST = 20_000
WARM = 2


def own_stdout() -> IO[str]:
    """The pipe to whoever asks; what libraries print goes to stderr instead."""
    pipe = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return pipe


def measure(run: Run, inputs: dict[str, Any], seconds: float) -> list[float]:
    """Seconds of single calls, arrays in and arrays out, for so long."""
    for _ in range(WARM):
        run(inputs)
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < MOST and (len(times) < LEAST or time.perf_counter() < end):
        start = time.perf_counter()
        run(inputs)
        times.append(time.perf_counter() - start)
    return times


def main() -> None:
    peer, folder, threads = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    pipe = own_stdout()
    run: Run | None = None
    inputs: dict[str, Any] = {}
    for line in sys.stdin:
        order = json.loads(line)
        if "prepare" in order:
            problem = PROBLEMS[order["prepare"]]
            inputs = problem.inputs()
            start = time.perf_counter()
            run = MAKERS[peer](problem, folder, threads)
            answer = run(inputs)
            reply: dict[str, Any] = {"seconds": time.perf_counter() - start}
            np.save(folder / f"{problem.name}-{peer}.npy", np.asarray(answer))
        else:
            assert run is not None
            reply = {"times": measure(run, inputs, order["measure"])}
        pipe.write(json.dumps(reply) + "\n")
        pipe.flush()


if __name__ == "__main__":
    main()
