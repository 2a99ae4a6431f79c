"""openinfer beside other runtimes, and what a user waits for and stores.

    python -m benchmarks.suite                              the whole table, some minutes
    python -m benchmarks.suite --quick                      every part, too short to quote
    python -m benchmarks.suite --json benchmarks/results.json && python -m benchmarks.page
    python -m benchmarks.suite --only mlp-1 mlp-64 --peers onnxruntime --no-start

Needs `pip install -e '.[bench]'` and the MiniLM weights; OpenVINO takes part when it is installed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks import page, startup
from benchmarks.peers import PEERS, version
from benchmarks.problems import PROBLEMS, weights, write_packages
from benchmarks.racing import OURS, WorkerError, race
from openinfer.compiler.tools.extras import missing_library
from openinfer.compiler.tools.report import guard
from openinfer.runtime.devices.cpu_codegen import host_target

LIBRARIES = ("python", "numpy", "llvmlite", "xdsl")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.suite",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--json", type=Path, metavar="FILE", help="write the numbers too")
    add("--quick", action="store_true", help="2 short rounds: shows that everything works")
    add("--rounds", type=int, default=15, help="rounds of turns (default 15)")
    add("--slice", type=float, default=0.5, metavar="S", help="seconds of a turn (default 0.5)")
    add("--threads", type=int, default=1, metavar="N", help="of every runtime (default 1)")
    add("--only", nargs="+", choices=list(PROBLEMS), help="these models and sizes")
    add("--peers", nargs="+", choices=[p for p in PEERS if p != OURS], help="against these only")
    add("--no-start", action="store_true", help="leave compile times, start-up and sizes out")
    add("--traceback", action="store_true", help="show where an error comes from")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.threads < 1 or not options.slice > 0:
        parser.error("--rounds, --threads and --slice take numbers above 0")
    return options


def chosen_peers(named: Sequence[str] | None) -> list[str]:
    """Ours first, then the installed ones. Raises UnsupportedError for one that was named."""
    for peer in named or ():
        if version(peer) is None:
            raise missing_library(peer, "bench")
    return [p for p in PEERS if p == OURS or (p in (named or PEERS) and version(p) is not None)]


def write_models(models: set[str], peers: Sequence[str], folder: Path) -> None:
    """Packages for us, ONNX files for who reads those. Raises UnsupportedError without `onnx`."""
    write_packages(folder)
    if not {"onnxruntime", "openvino"} & set(peers):
        return
    try:
        from benchmarks import onnx_graphs
    except ImportError:
        raise missing_library("onnx", "bench") from None
    for model in sorted(models):
        write = getattr(onnx_graphs, f"write_{model}")
        write(weights(model, folder), folder / f"{model}.onnx")


def machine() -> str:
    """The processor's name."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def versions(peers: Sequence[str]) -> dict[str, str]:
    """What took part, by name."""
    found = {"python": platform.python_version()}
    for name in (OURS, *LIBRARIES[1:], *(peer for peer in peers if peer != OURS)):
        found[name] = metadata.version(name)
    return found


def run(options: argparse.Namespace) -> int:
    rounds, seconds, repeats = options.rounds, options.slice, 5
    if options.quick:
        rounds, seconds, repeats = 2, 0.05, 1
    peers = chosen_peers(options.peers)
    problems = [PROBLEMS[name] for name in options.only or PROBLEMS]
    data: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "target": host_target().name,
        "threads": options.threads,
        "rounds": rounds,
        "slice": seconds,
        "versions": versions(peers),
        "races": [],
    }
    with tempfile.TemporaryDirectory(prefix="openinfer-bench-") as name:
        folder = Path(name)
        os.environ["OPENINFER_CACHE_DIR"] = str(folder / "cache")
        write_models({problem.model for problem in problems}, peers, folder)
        try:
            for problem in problems:
                print(f"{problem.title} …", file=sys.stderr)
                data["races"].append(
                    race(
                        problem,
                        peers,
                        folder,
                        threads=options.threads,
                        rounds=rounds,
                        seconds=seconds,
                    )
                )
            if not options.no_start:
                print("compiling and starting …", file=sys.stderr)
                data["start"] = startup.measure(folder, repeats)
        except WorkerError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    print(page.markdown(data), end="")
    if options.json is not None:
        options.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    return guard(lambda: run(options), traceback=options.traceback)


if __name__ == "__main__":
    sys.exit(main())
