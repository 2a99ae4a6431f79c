"""What a user waits for and stores: compile time, start-up, sizes. Every start is a new process.

Python finds the byte code of every module, as after an installation, also where the environment
forbids to write it: it lies in a folder of its own, which the first start of each kind fills.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import openinfer as oi
from benchmarks import overhead
from benchmarks.racing import WorkerError
from benchmarks.workloads import WORKLOADS
from openinfer.runtime.plan import lower_bound
from openinfer.runtime.sizes import THREADS

MINILM = WORKLOADS["minilm-128"]
ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("openinfer", "compiler", "dialects", "lowering", "runtime")

# Prints when the first result was there, and how much of that was spent in `compile`.
FIRST_RESULT = """
import json, sys, time
import openinfer as oi
model = oi.open_model(sys.argv[1])
graph = oi.graph_file(sys.argv[2])
start = time.perf_counter()
program = oi.compile(graph, model)
compiled = time.perf_counter() - start
executor = program.make_executor(1)
import numpy as np
tokens = np.full((1, 16), 2000, np.int64)
executor.run(tokens=tokens, mask=np.ones_like(tokens))
print(json.dumps({"compile": compiled, "compiled": program.compiled, "xdsl": "xdsl" in sys.modules}))
"""


def measure(folder: Path, repeats: int) -> dict[str, Any]:
    """Seconds (medians of `repeats`), bytes, microseconds of calls."""
    starts = _starts(folder, repeats)
    return {
        "seconds": starts,
        "bytes": installed_bytes(),
        "memory": minilm_memory(folder),
        "overhead": calls(repeats),
    }


def calls(repeats: int) -> list[dict[str, Any]]:
    """What a step costs before it computes anything, in microseconds."""
    threads = sorted({1, min(2, len(os.sched_getaffinity(0)))})
    return [
        asdict(overhead.measure(program, count, 3 * repeats, 1000))
        for program in overhead.PROGRAMS
        for count in threads
    ]


def _starts(folder: Path, repeats: int) -> dict[str, float]:
    weights, program = str(MINILM.package(folder)), str(MINILM.program)
    environment = _installed(folder)
    bare, importing = _beside(
        5 * repeats,
        [sys.executable, "-c", "pass"],
        [sys.executable, "-c", "import openinfer"],
        environment,
    )
    tool = str(Path(sys.executable).with_name("openinfer-opt"))
    shown = _median(repeats, lambda: _seconds([tool, "--version"], environment))
    cold: list[float] = []
    compiling: list[float] = []
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        for number in range(repeats + 1):
            own = {**environment, "OPENINFER_CACHE_DIR": str(Path(cache) / str(number))}
            wall, said = _first_result(weights, program, own)
            _must(said["compiled"], "a start with an empty cache compiles")
            if number:
                cold.append(wall)
                compiling.append(said["compile"])
        warm: list[float] = []
        for _ in range(repeats):
            own = {**environment, "OPENINFER_CACHE_DIR": str(Path(cache) / "0")}
            wall, said = _first_result(weights, program, own)
            _must(not said["compiled"], "a second start compiles nothing")
            _must(not said["xdsl"], "a second start imports no xDSL")
            warm.append(wall)
    return {
        "python": bare,
        "import openinfer": importing,
        "openinfer-opt --version": shown,
        "compile MiniLM, empty cache": statistics.median(compiling),
        "first result, empty cache": statistics.median(cold) - bare,
        "first result, second start": statistics.median(warm) - bare,
    }


def _installed(folder: Path) -> dict[str, str]:
    """The environment of a start, with a place for byte code."""
    given = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**given, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


def _must(holds: bool, rule: str) -> None:
    if not holds:
        raise WorkerError(f"start-up: {rule}; here it is otherwise")


def _first_result(
    weights: str, program: str, environment: dict[str, str]
) -> tuple[float, dict[str, Any]]:
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", FIRST_RESULT, weights, program],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return time.perf_counter() - start, json.loads(done.stdout)


def _seconds(command: list[str], environment: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def _beside(
    repeats: int, base: list[str], command: list[str], environment: dict[str, str]
) -> tuple[float, float]:
    """Seconds of `base`, and what `command` takes longer, run in turns: medians."""
    commands = base, command
    pairs = [tuple(_seconds(c, environment) for c in commands) for _ in range(repeats + 1)][1:]
    return (
        statistics.median(first for first, _ in pairs),
        statistics.median(second - first for first, second in pairs),
    )


def _median(repeats: int, sample: Callable[[], float]) -> float:
    sample()  # the first one reads files that later ones find in memory
    return statistics.median(sample() for _ in range(repeats))


def installed_bytes() -> dict[str, int]:
    """Bytes of openinfer's own files and of every distribution that it requires."""
    own = sum(
        path.stat().st_size
        for layer in LAYERS
        for path in (ROOT / layer).rglob("*")
        # The links in openinfer/ lead to the layers, which are counted by themselves.
        if path.is_file() and path.suffix in (".py", ".json", ".typed", ".oi")
    )
    return {"openinfer": own, **{name: _files(name) for name in sorted(required("openinfer"))}}


def required(name: str) -> set[str]:
    """The distributions that one needs on this machine, extras left out."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for dependency in _requires(waiting.pop()):
            if dependency not in found:
                found.add(dependency)
                waiting.append(dependency)
    return found


def _requires(name: str) -> Iterator[str]:
    from packaging.requirements import Requirement

    for text in metadata.requires(name) or []:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement.name.lower().replace("_", "-")


def _files(name: str) -> int:
    paths = [Path(str(file.locate())) for file in metadata.distribution(name).files or []]
    return sum(path.stat().st_size for path in paths if path.suffix != ".pyc" and path.is_file())


def minilm_memory(folder: Path) -> dict[str, int]:
    """The arena at 128 tokens with the planner's lower bound, and where the weights are."""
    sizes = {"B": 1, "L": 128, THREADS: 1}
    with oi.open_model(MINILM.package(folder)) as model:
        program = oi.compile(oi.graph_file(MINILM.program), model)
        loaded = program.loaded()
        return {
            "arena": program.arena_bytes(sizes),
            "lower bound": lower_bound(program.manifest, sizes),
            "weights mapped": loaded.mapped_bytes,
            "weights packed": loaded.packed_bytes,
        }
