"""Drawn programs and the whole case table on a Vulkan device: `python tests/fuzz/on_vulkan.py --out FILE`.

Where a device takes subnormal numbers for zeros, so does one more run of the simulator, for drawn programs.
Each program is compiled for the device, small values too (`choose-places` leaves none to the host for its
size), and held against the simulator as `run.py` does it. A line of JSON for each one goes into FILE as soon
as it is there; what has a line is not run again, so the script may be stopped at any time and started again.
A child process runs some of them at a time: where a driver ends the process, the next child goes on behind
the one that did it. `--jobs` says how many children there are at once, `--minutes` when no program is begun
any more. The case table comes first; `--quick` takes the part of it that CI runs. The exit code is 1 where a
line says that something is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cases"), str(HERE.parent / "unit")]

TIERS = ("scalar", "subgroup", "matrix", "matrix2")
AT_ONCE = 20
"""Programs of one child, at most."""
SECONDS = 600
"""That a child may take."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Drawn programs and the case table on Vulkan.")
    parser.add_argument("--programs", type=int, default=2000, help="how many are drawn (2000)")
    parser.add_argument("--seed", type=int, default=0, help="of the first one (0)")
    parser.add_argument("--no-cases", action="store_true", help="leave out the case table")
    parser.add_argument("--quick", action="store_true", help="the quick part of the case table")
    parser.add_argument("--tier", choices=TIERS, action="append", help="all that there are")
    parser.add_argument("--jobs", type=int, default=1, help="children at once (1)")
    parser.add_argument("--minutes", type=float, help="begin no program after that long")
    parser.add_argument("--out", type=Path, required=True, help="the file of lines")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, default=float("inf"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child is not None:
        _run_all(json.loads(given.child), given.out, given.until)
        return 0
    if given.minutes is not None:
        given.until = time.time() + 60 * given.minutes
    _end_line(given.out)
    wanted = list(_wanted(given))
    with ThreadPoolExecutor(given.jobs) as pool:
        left = _left(wanted, given.out, given.jobs)
        for done in [pool.submit(_run_some, some, given) for some in left]:
            done.result()
    return _report(wanted, given.out)


def _wanted(given: argparse.Namespace) -> Iterator[str]:
    """The names of all that is to be run: `scalar case 3`, `scalar quick 3`, `subgroup program 7`."""
    tiers = given.tier or TIERS
    if not given.no_cases:
        kind = "quick" if given.quick else "case"
        for tier in tiers:
            for number in range(len(_batches(kind))):
                yield f"{tier} {kind} {number}"
    for tier in tiers:
        for seed in range(given.seed, given.seed + given.programs):
            yield f"{tier} program {seed}"


@cache
def _batches(kind: str) -> list[tuple[str, ...]]:
    """The cases by programs: `case`, all of them, or `quick`."""
    batches, cases = _cases("batches"), _cases("table").CASES
    if kind == "quick":
        cases = batches.first_cases({name: one for name, one in cases.items() if not one.full})
    return list(batches.batches_of(cases))


def _cases(module: str) -> Any:
    """A module of the case table, which is in another folder of tests."""
    return import_module(module)


def _end_line(out: Path) -> None:
    """Ends a line that was being written when the script was stopped: the next one is another."""
    if out.exists() and not out.read_bytes().endswith(b"\n"):
        with out.open("a") as file:
            file.write("\n")


def _lines(out: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    if out.exists():
        for line in out.read_text().splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue  # It was being written when the script was stopped.
            found[row["name"]] = row
    return found


def _left(wanted: list[str], out: Path, jobs: int) -> list[list[str]]:
    """What has no line yet, some at a time: programs of one kind and tier, so that each job has some."""
    done = _lines(out)
    left = [name for name in wanted if name not in done]
    counts = Counter(map(_sort, left))
    found: list[list[str]] = []
    for name in left:
        most = min(AT_ONCE, -(-counts[_sort(name)] // (4 * jobs)))
        if not found or len(found[-1]) >= most or _sort(found[-1][0]) != _sort(name):
            found.append([])
        found[-1].append(name)
    return found


def _sort(name: str) -> str:
    """Tier and kind."""
    return name.rsplit(" ", 1)[0]


def _tier(name: str) -> str:
    return name.split()[0]


def _run_some(names: list[str], given: argparse.Namespace) -> None:
    """Runs some in processes of their own; one that ends its process has a line that says so."""
    out: Path = given.out
    while names and time.time() < given.until:
        why = _run_child(names, out, given.until)
        lines = _lines(out)
        names = [name for name in names if name not in lines]
        if why is None:
            return
        if names:
            _write(out, {"name": names.pop(0), "defect": why})


def _run_child(names: list[str], out: Path, until: float) -> str | None:
    """Why the process ended early, if it did."""
    environment = {**os.environ, "OPENINFER_VULKAN_TIER": _tier(names[0])}
    command = [sys.executable, __file__, "--out", str(out), "--child", json.dumps(names)]
    command += ["--until", str(until)]
    try:
        code = subprocess.run(command, env=environment, timeout=SECONDS, check=False).returncode
    except subprocess.TimeoutExpired:
        return f"no end after {SECONDS} s"
    return f"the process ended with {code}" if code else None


def _write(out: Path, row: dict[str, Any]) -> None:
    with out.open("a") as file:
        file.write(json.dumps(row) + "\n")


def _run_all(names: list[str], out: Path, until: float) -> None:
    from openinfer.lowering.linalg import choose_places

    choose_places.MOST_ELEMENTS = 0
    flushes = _cases("batches").flushes("vulkan")
    for name in names:
        if time.time() >= until:
            return
        _, kind, number = name.split()
        try:
            row = (
                _run_program(int(number), flushes)
                if kind == "program"
                else _run_case(kind, int(number), flushes)
            )
        except Exception:
            row = {"defect": traceback.format_exc()[-2000:]}
        _write(out, {"name": name, **row})


def _run_program(seed: int, flushes: bool) -> dict[str, Any]:
    """A drawn program: some plainly, traced, or watched as well."""
    from fuzzing.check import check
    from fuzzing.generate import generate
    from fuzzing.mend import mend
    from fuzzing.ways import Variant

    options = {"device": "vulkan"}
    ways = [Variant(options, flushes=flushes)]
    ways += [Variant({**options, "optimise": False}, flushes=flushes)] * (seed % 4 == 0)
    ways += [Variant(options, traced=True, flushes=flushes)] * (seed % 5 == 0)
    ways += [Variant(options, iterated=True, flushes=flushes)] * (seed % 7 == 0)
    with tempfile.TemporaryDirectory() as folder:
        mended = mend(generate(seed), Path(folder))
        if mended is None:
            return {"defect": None, "compared": 0}
        verdict = check(mended.program, Path(folder), ways)
    wrong = verdict.defect
    text = None if wrong is None else f"{wrong.kind}, {wrong.variant.name}: {wrong.why}"
    return {"defect": text, "compared": verdict.compared, "refused": dict(verdict.refusals)}


def _run_case(kind: str, number: int, flush: bool) -> dict[str, Any]:
    """Some cases of the table as one program."""
    import openinfer as oi

    batches, modes, cases = _cases("batches"), _cases("modes"), _cases("table").CASES
    batch = _batches(kind)[number]
    program = oi.compile(oi.graph(batches.text_of(batch)), None, device="vulkan")
    found = batches.run_program(program, batch, flush=flush)
    wrong: dict[str, str] = {}
    for name in batch:
        expected = modes.simulate(cases[name], flush=flush)
        text = modes.difference(cases[name], expected, found[name], flush=flush)
        if text is not None:
            wrong[name] = text
    return {"defect": str(wrong) if wrong else None, "compared": len(batch)}


def _report(wanted: list[str], out: Path) -> int:
    lines = _lines(out)
    counts: Counter[str] = Counter()
    compared: Counter[str] = Counter()
    bad = 0
    for name in [one for one in wanted if one in lines]:
        tier, kind, _ = name.split()
        row = lines[name]
        counts[f"{tier} {kind}"] += 1
        compared[f"{tier} {kind}"] += row.get("compared", 0)
        if row["defect"]:
            bad += 1
            sys.stdout.write(f"{name}: {row['defect']}\n")
    for what, count in counts.items():
        unit = "steps" if what.endswith("program") else "cases"
        sys.stdout.write(f"{what}: {count} programs, {compared[what]} {unit} compared\n")
    left = sum(name not in lines for name in wanted)
    sys.stdout.write(f"wrong: {bad}, left to run: {left}\n")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
