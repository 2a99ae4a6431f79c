"""The device half of this project beside PyTorch and hand-written kernels: `python -m benchmarks.vulkan`.

Programs are compiled first, by several processes. Then each row is timed: ours, then the prototypes; then
PyTorch has the device. Nothing else works on it meanwhile. The file of results is written after each step;
rows that are not asked for stay in it as they are. `--page` writes the table of `docs/performance-vulkan.md`.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import openinfer as oi
from benchmarks.vulkan import host, machine, ours, page, prototypes
from benchmarks.vulkan.chains import Chain
from benchmarks.vulkan.prepare import Prepared, prepare
from benchmarks.vulkan.results import Results
from benchmarks.vulkan.rows import MICROSECONDS, Row, all_rows
from benchmarks.vulkan.torch_peer import peers
from openinfer.runtime.errors import OpenInferError

RESULTS = Path(__file__).resolve().parent.parent / "results-vulkan.json"
SPIN_UP = 1.5
"""Seconds of work behind a pause: the clock of an idle device takes so long to come up."""


def main(words: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(words)
    known = all_rows()
    names = [*(row.name for row in known), host.NAME]
    if arguments.list:
        print("\n".join(names))
        return 0
    try:
        if arguments.page:
            files = [arguments.out, *sorted(RESULTS.parent.glob("results-vulkan-*.json"))]
            page.write(files if arguments.out == RESULTS else [arguments.out], known)
            return 0
        wanted = _wanted(arguments.rows, names)
        return _run(arguments, [row for row in known if row.name in wanted], host.NAME in wanted)
    except (OpenInferError, ValueError) as error:
        print(f"benchmarks.vulkan: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vulkan", description=__doc__)
    add = parser.add_argument
    add("--rows", help="names, separated by commas; all without it")
    add("--list", action="store_true", help="prints the names of all rows")
    add("--seconds", type=float, default=0.5, help="for each row and way to run it")
    add("--out", type=Path, default=RESULTS, help="file of results")
    add("--device", default="vulkan", help="as for `openinfer run`")
    add("--prototypes", type=Path, help="folder with words of hand-written kernels")
    add("--torch-python", default="python3", help="a Python that has PyTorch with CUDA")
    add("--no-torch", action="store_true", help="leaves PyTorch out")
    add("--no-compile", action="store_true", help="leaves torch.compile out")
    add("--jobs", type=int, help="processes that compile; 0: this one alone")
    add("--small", action="store_true", help="tiny sizes, to see that everything runs")
    add(
        "--page",
        action="store_true",
        help="writes docs/performance-vulkan.md from all results-vulkan*.json, or from --out",
    )
    return parser


def _wanted(given: str | None, names: Sequence[str]) -> set[str]:
    if given is None:
        return set(names)
    wanted = [name.strip() for name in given.split(",") if name.strip()]
    for name in wanted:
        if name not in names:
            raise ValueError(f"there is no row {name!r}; --list shows them")
    return set(wanted)


def _run(arguments: argparse.Namespace, rows: Sequence[Row], with_host: bool) -> int:
    start = time.perf_counter()
    results = Results(arguments.out)
    about = {**machine.describe(arguments.device), "small": arguments.small}
    print(f"{about['device']}, {about['driver']}", flush=True)
    chains = {row.name: row.small() if arguments.small else row.chain() for row in rows}
    with tempfile.TemporaryDirectory() as folder:
        made = prepare(chains, arguments.small, Path(folder), arguments.device, arguments.jobs)
        print(f"compiled after {time.perf_counter() - start:.0f} s", flush=True)
        spin_up = 0.0 if about["software"] else SPIN_UP
        for row in rows:
            results.begin(row.name, {"title": row.title, "unit": row.unit, **about})
            found = _ours(chains[row.name], made[row.name], arguments, spin_up)
            gc.collect()  # What the device holds goes with the programs.
            results.add(row.name, "ours", found)
            results.add(row.name, "prototypes", _prototypes(row, arguments))
            if not about["software"]:
                results.add(row.name, "clock", {"MHz": machine.clock()})
            # Of tiny sizes only times can be said.
            shown = replace(row, unit=MICROSECONDS) if arguments.small else row
            print(f"{row.name}: {page.said(shown, found)}", flush=True)
    if with_host:
        results.begin(host.NAME, {"title": host.TITLE, **about})
        for part, found in host.measured(arguments.device, arguments.small, arguments.seconds):
            results.add(host.NAME, part, found)
            print(f"{host.NAME}, {part}: {found}", flush=True)
    for name, found in _peers(rows, arguments):
        results.add(name, "peers", found)
        print(f"{name}: {page.peers_said(found)}", flush=True)
    if not about["software"] and not arguments.small:
        print("\n".join(page.tables(results.rows, all_rows())))
    print(f"{time.perf_counter() - start:.0f} s; {arguments.out}", flush=True)
    return 0


def _ours(
    chain: Chain, made: Prepared, arguments: argparse.Namespace, spin_up: float
) -> dict[str, Any]:
    """Times of ours, or why there are none. The package goes."""
    try:
        if made.error:
            return {"error": made.error}
        with oi.open_model(made.package) as package:
            programs = ours.compiled(chain, package, arguments.device)
            return ours.timed(chain, programs, arguments.seconds, spin_up)
    except (OpenInferError, MemoryError, ValueError) as error:
        return {"error": f"{type(error).__name__}: {error}"[:500]}
    finally:
        made.package.unlink(missing_ok=True)


def _prototypes(row: Row, arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.prototypes is None:
        return {name: {"absent": "not given"} for name in row.prototypes}
    physical = machine.physical(arguments.device)
    seconds = arguments.seconds / 2
    return prototypes.timed(physical, arguments.prototypes, row.prototypes, seconds)


def _peers(
    rows: Sequence[Row], arguments: argparse.Namespace
) -> Iterator[tuple[str, dict[str, Any]]]:
    if arguments.no_torch:
        yield from ((row.name, {"PyTorch": {"absent": "left out"}}) for row in rows)
        return
    asked = [{**row.peer, "name": row.name} for row in rows]
    compiles, about = not arguments.no_compile, {}
    given = peers(arguments.torch_python, asked, arguments.seconds, compiles=compiles)
    for name, found in given:
        if not name:
            about = found
        elif "absent" in found or "error" in found:
            yield name, {"PyTorch": found}
        else:
            yield name, {**found, "about": about}


if __name__ == "__main__":
    sys.exit(main())
