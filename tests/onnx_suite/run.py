"""ONNX's operator tests against the list: `python tests/onnx_suite/run.py [PART]`, on the simulator.

    run.py --device cpu               # compiled for a device
    run.py --device vulkan --tenth    # the tenth that CI compiles
    run.py --device cpu --keep FILE   # resumes: what FILE has is not run again
    run.py --device cpu --jobs 8      # in processes
    run.py --update                   # writes the list anew from what the simulator does

A wrong number is never written into the list.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

from node_cases import EXPECTED, Case, all_cases, expected, in_tenth, result_of
from processes import in_processes


def main() -> int:
    """Runs the cases whose names have PART in them."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("part", nargs="?", default="")
    options.add_argument("--device", default="", help="compiled for it, else the simulator")
    options.add_argument("--tenth", action="store_true", help="the tenth that CI compiles")
    options.add_argument("--keep", type=Path, metavar="FILE", help="results, a line each")
    options.add_argument("--jobs", type=int, default=1, metavar="N", help="processes; 1 by default")
    options.add_argument("--update", action="store_true", help="write the list")
    given = options.parse_args()
    wanted = {one.name: one.result for one in expected()} if EXPECTED.exists() else {}
    chosen = [
        case
        for name, case in all_cases().items()
        if given.part in name and (in_tenth(name) or not given.tenth)
    ]
    found = _results(chosen, given.keep, partial(_result, given.device), given.jobs)
    wrong = [
        f"{name}: {result}, listed: {wanted.get(name)}"
        for name, result in found.items()
        if result.startswith("wrong") or (result != wanted.get(name) and not given.update)
    ]
    for line in wrong:
        _say(line)
    counts = Counter(result.partition(":")[0] for result in found.values())
    _say(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    if given.update and not (given.part or given.tenth or given.device):
        _write({name: result for name, result in found.items() if not result.startswith("wrong")})
    return 1 if wrong else 0


def _result(device: str, case: Case) -> str:
    try:
        return result_of(case, device)
    # A wrong number, or a failure: both are told, and the rest goes on.
    except Exception as error:
        return f"wrong: {type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _ended(case: Case) -> str:
    return f"wrong: {case.name} ended its process"


def _results(
    cases: list[Case], keep: Path | None, result: Callable[[Case], str], processes: int
) -> dict[str, str]:
    """The result of each case; those that are in the file come from there, others are added to it."""
    lines = keep.read_text().splitlines() if keep is not None and keep.exists() else []
    known = dict(line.split("\t", 1) for line in lines)
    waiting = [case for case in cases if case.name not in known]
    for case, found in in_processes(result, waiting, processes, _ended):
        known[case.name] = found
        if keep is not None:
            with keep.open("a") as file:
                file.write(f"{case.name}\t{found}\n")
    return {case.name: known[case.name] for case in cases}


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _write(found: dict[str, str]) -> None:
    import onnx

    lines = [
        f"# onnx {onnx.__version__}\n",
        "# case, operator, what became of it; written by run.py --update\n",
    ]
    cases = all_cases()
    lines += [
        f"{name}\t{cases[name].operator}\t{result}\n" for name, result in sorted(found.items())
    ]
    EXPECTED.write_text("".join(lines))


if __name__ == "__main__":
    sys.exit(main())
