"""Rows of the benchmarks before and after a change: two checkouts of openinfer, in turns.

    git worktree add ../before main~3
    python -m benchmarks.commits ../before
    python -m benchmarks.commits ../before --workload encoder matvec-f32 --threads 1,2 --target avx2

Each side runs its own code in processes of its own, `--twins` of them, since equal builds that lie at
other places in memory differ by some percent. In a round all of them are asked shortly after each
other, and a side counts with the quickest of its processes; the number is the median over the rounds.
Peers take no part: `openinfer bench` races with those.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.choices import Choices, chosen
from benchmarks.instruction_sets import HOST
from benchmarks.peers import OURS, REFERENCE
from benchmarks.racing import Pool, Worker, WorkerError, answer_file, compared
from benchmarks.rounds import MISSING, TRIES
from benchmarks.suite import bench_folder, scratch_folder
from benchmarks.workloads.base import Workload
from openinfer.compiler.tools.report import UsageError, guard
from openinfer.runtime.devices import DEFAULT_DEVICE


class Side:
    """The processes of one checkout."""

    def __init__(self, root: Path, pool: Pool, twins: int) -> None:
        self.workers = [
            Worker(OURS, pool.folder, pool.threads, pool.scratch, pool.target, root)
            for _ in range(twins)
        ]

    def prepare(self, workload: Workload, scratch: Path) -> None:
        """Every process is ready to be timed. Raises WorkerError when an answer is wrong."""
        answer = answer_file(workload, OURS, scratch)
        for worker in self.workers:
            worker.ask(prepare=workload.name, answer=str(answer), options={})
            compared(answer, answer_file(workload, REFERENCE, scratch), workload.tolerance)

    def seconds(self, seconds: float) -> float:
        """Of one call, by the quickest process."""
        return min(_median(worker, seconds) for worker in self.workers)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


def _median(worker: Worker, seconds: float) -> float:
    """Asked again where somebody else used the core."""
    for _ in range(TRIES):
        reply = worker.ask(measure=seconds)
        if (reply["missing"] or 0) <= MISSING:
            break
    return statistics.median(reply["times"])


def run(args: argparse.Namespace) -> int:
    """One line for each row. Raises UsageError for bad options."""
    before = args.before.resolve()
    if not (before / "benchmarks" / "worker.py").is_file():
        raise UsageError(f"{args.before} is no checkout of openinfer", "git worktree add makes one")
    choices = chosen(args)
    print(f"{'row':24} threads {'before us':>12} {'after us':>12}  ratio  from-to", flush=True)
    slower: list[str] = []
    folder = bench_folder(args.folder)
    with scratch_folder() as scratch:
        for threads in choices.threads:
            with Pool(folder, scratch, threads, choices.target) as pool:
                slower += _rows(args, choices, pool, before)
    print(f"slower than {args.limit}: {', '.join(slower) or 'none'}")
    return 0


def _rows(args: argparse.Namespace, choices: Choices, pool: Pool, before: Path) -> list[str]:
    """Times every row; those that are slower than the limit."""
    slower: list[str] = []
    sides = [Side(root, pool, args.twins) for root in (before, Path(__file__).parents[1])]
    try:
        for workload in choices.workloads:
            workload.write_package(pool.folder)
            reference = answer_file(workload, REFERENCE, pool.scratch)
            simulator = pool.worker(REFERENCE)
            try:
                simulator.ask(prepare=workload.name, answer=str(reference), options={})
                for side in sides:
                    side.prepare(workload, pool.scratch)
            except WorkerError as error:
                print(f"{workload.name:24} {pool.threads}: {error}", flush=True)
                continue
            times: list[tuple[float, float]] = []
            for number in range(choices.rounds):
                order = sides if number % 2 else sides[::-1]
                found = {side: side.seconds(choices.seconds) for side in order}
                times.append((found[sides[0]], found[sides[1]]))
            ratios = sorted(after / before for before, after in times)
            ratio = statistics.median(ratios)
            micro = [1e6 * statistics.median(each) for each in zip(*times)]
            print(
                f"{workload.name:24} {pool.threads:7} {micro[0]:12.2f} {micro[1]:12.2f} "
                f"{ratio:6.3f}  {ratios[0]:.3f}-{ratios[-1]:.3f}",
                flush=True,
            )
            if ratio > args.limit:
                slower.append(f"{workload.name}/{pool.threads}")
    finally:
        for side in sides:
            side.close()
    return slower


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.commits",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("before", type=Path, help="the checkout to compare this one with")
    add("--workload", nargs="+", metavar="W", help="groups or rows by name (default: all)")
    add("--threads", metavar="N,…", help="numbers of threads (default 1,2, or 1 on one CPU)")
    add("--target", default=HOST, metavar="T", help="compile for an older processor")
    add("--rounds", type=int, metavar="N", help="rounds of turns (default 7)")
    add("--slice", type=float, metavar="S", help="seconds of a turn (default 0.1)")
    add("--twins", type=int, default=2, metavar="N", help="processes of each side (default 2)")
    add("--limit", type=float, default=1.02, metavar="R", help="what is called slower (1.02)")
    add("--folder", type=Path, metavar="DIR", help="for weights (default: cache)")
    add("--traceback", action="store_true", help="show Python tracebacks")
    parser.set_defaults(peers=["none"], quick=False, no_start=True)
    parser.set_defaults(device=DEFAULT_DEVICE, no_fallback=False)
    args = parser.parse_args(arguments)
    return guard(lambda: run(args), traceback=args.traceback)


if __name__ == "__main__":
    sys.exit(main())
