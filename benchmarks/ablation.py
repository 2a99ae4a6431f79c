"""What each optional pass of the compiler buys: left out by itself, all the others kept.

The passes come from the pipeline, so a new one is in the table at once. For each program the
pipeline runs once to see which passes change it; the program is compiled without each of those, and
timed only where that gives other machine code. Both builds work in a process each, in turns, and the
answer is compared with the simulator's first. A row is written when it is done, and `--resume` goes
on after it.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openinfer as oi
from benchmarks.choices import Choices
from benchmarks.memory import arena_of
from benchmarks.peers import OURS, REFERENCE
from benchmarks.racing import Pool, WorkerError, answer_file, compared
from benchmarks.workloads import ABLATED
from benchmarks.workloads.base import Workload
from openinfer.compiler import pipeline, registry
from openinfer.compiler.api import compile as compiled
from openinfer.compiler.compile import compile_module
from openinfer.lowering.options import PipelineOptions

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from openinfer.runtime.packages.base import Package
    from openinfer.runtime.program import Program

THREADS = 1
ROUNDS, SECONDS = 5, 0.04
"""At most: what a pass buys shows sooner than a lead over a peer."""
TWINS = 3
LESS = f"{OURS}-less"
"""The process that runs the builds with a pass less."""


def passes() -> list[str]:
    """The optional passes in the order in which they first run."""
    steps = (step for phase in pipeline.PIPELINES["cpu"] for step in phase.steps)
    return list(dict.fromkeys(step.name for step in steps if step.optional))


def rows_of(choices: Choices) -> tuple[Workload, ...]:
    """What passes are left out of: the samples, unless workloads were chosen."""
    return choices.workloads if choices.selected else tuple(ABLATED.values())


def ablate(
    choices: Choices,
    folder: Path,
    scratch: Path,
    say: Callable[[str], None],
    earlier: dict[str, Any] | None = None,
) -> Iterator[dict[str, Any]]:
    """The whole table after each row, beginning with the rows of `earlier`."""
    names = passes()
    found: dict[str, Any] = {"passes": names, "rows": []}
    if earlier is not None and earlier.get("passes") == names:
        found["rows"] = list(earlier["rows"])
    done = {row["name"] for row in found["rows"]}
    for row in rows_of(choices):
        if row.name in done:
            continue
        start = time.perf_counter()
        row.write_package(folder)
        cells, noise = _Row(row, choices, folder, scratch).measured(names)
        line = {"name": row.name, "title": row.title, "cells": cells, "noise": noise}
        found["rows"].append(line)
        changed = ", ".join(f"{name} {_shown(cell)}" for name, cell in cells.items())
        taken = time.perf_counter() - start
        say(f"{row.name} without: {changed or 'no pass acts'}; noise {noise:.1%}  [{taken:.0f} s]")
        yield found


def _shown(cell: dict[str, Any]) -> str:
    if "error" in cell:
        return "failed"
    return "same code" if cell["factor"] is None else f"{cell['factor']:.2f}"


@dataclass(frozen=True)
class _Row:
    """One workload, with all passes and with one less."""

    workload: Workload
    choices: Choices
    folder: Path
    scratch: Path

    def measured(self, names: list[str]) -> tuple[dict[str, dict[str, Any]], float]:
        """What is known of each pass that changes this program, and how far the times of two equal
        builds differ: those lie at other places in memory."""
        acting = acting_passes(self.workload, self.folder, names)
        found: dict[str, dict[str, Any]] = {}
        noise = 0.0
        with self._package() as model, self._pool() as pool:
            full, seconds = self._full(model)
            for name in acting:
                try:
                    less, taken = _timed(partial(self._compiled, model, name))
                    cell = _costs(self.workload, full, less) | {"compile": None, "factor": None}
                    if less.compiled:  # another row with the same program may have left it
                        cell["compile"] = taken / seconds
                    if not _runs_alike(full, less):
                        noise = noise or self._noise(pool)
                        self._prepare(pool, name)
                        cell["factor"] = self._factor(pool)
                    found[name] = cell
                except (WorkerError, oi.OpenInferError) as error:
                    found[name] = {"error": " ".join(str(error).split())[:300]}
        return found, noise

    def _pool(self) -> Pool:
        choices = self.choices
        return Pool(
            self.folder, self.scratch, THREADS, device=choices.device, fallback=choices.fallback
        )

    def _package(self) -> Package:
        return oi.open_model(self.workload.package(self.folder))

    def _compiled(self, model: Package, *without: str) -> Program:
        graph = oi.graph_file(self.workload.program)
        sizes = self.workload.sizes() or None
        choices = self.choices
        return compiled(
            graph, model, choices.device, sizes, without=without, fallback=choices.fallback
        )

    def _full(self, model: Package) -> tuple[Program, float]:
        """The program with all passes, and the seconds that it takes to compile."""
        options = PipelineOptions(
            package=model, sizes=self.workload.sizes(), device=self.choices.device
        )
        graph = oi.graph_file(self.workload.program)
        _, seconds = _timed(partial(compile_module, graph, model, options))
        return self._compiled(model), seconds

    def _noise(self, pool: Pool) -> float:
        """The largest difference of equal builds in a few tries."""
        factors: list[float] = []
        for _ in range(TWINS):
            self._prepare(pool)
            factors.append(self._factor(pool))
        return max(abs(factor - 1) for factor in factors)

    def _prepare(self, pool: Pool, *without: str) -> None:
        """A build of all passes, the first time, and one without some."""
        if not pool.has(OURS):
            _prepare(pool, REFERENCE, REFERENCE, self.workload)
            _prepare(pool, OURS, OURS, self.workload)
        _prepare(pool, OURS, LESS, self.workload, *without)

    def _factor(self, pool: Pool) -> float:
        """Time with a pass less against the time with all of them, median over the rounds."""
        seconds = min(self.choices.seconds, SECONDS)
        factors: list[float] = []
        for number in range(min(self.choices.rounds, ROUNDS)):
            keys = (OURS, LESS) if number % 2 else (LESS, OURS)
            times = {key: _median(pool, key, seconds) for key in keys}
            factors.append(times[LESS] / times[OURS])
        return statistics.median(factors)


def acting_passes(workload: Workload, folder: Path, names: list[str]) -> list[str]:
    """Those of these passes that change a program where they stand in the pipeline."""
    steps = [step for phase in pipeline.PIPELINES["cpu"] for step in phase.steps]
    wanted = [step.name in names for step in steps] + [False]
    found: dict[str, None] = {}
    before: list[Any] = []
    number = 0

    def compare(phase: str, item: ModulePass, module: ModuleOp, seconds: float) -> None:
        nonlocal before, number
        del phase, seconds
        after = _content(module) if wanted[number] or wanted[number + 1] else []
        if wanted[number] and after != before:
            found[item.name] = None
        before, number = after, number + 1

    with oi.open_model(workload.package(folder)) as model:
        module = oi.graph_file(workload.program).module.clone()
        options = PipelineOptions(package=model, sizes=workload.sizes())
        context = registry.make_context()
        pipeline.run(module, context, options=options, on_pass=compare, verify=False)
    return [name for name in names if name in found]


def _content(module: ModuleOp) -> list[Any]:
    """All that a pass can change; equal for the same operations with equal attributes."""
    return [
        (op, tuple(op.operands), tuple(op.result_types), dict(op.attributes), dict(op.properties))
        for op in module.walk()
    ]


def _runs_alike(one: Program, other: Program) -> bool:
    """Whether the processor does the same in both: code, weights as laid out, places in memory."""
    return one.parts == other.parts and all(
        getattr(one.manifest, name) == getattr(other.manifest, name)
        for name in ("weights", "arena", "offsets", "frame")
    )


def _timed(make: Callable[[], Program]) -> tuple[Program, float]:
    """A program and the seconds until it was there."""
    gc.collect()  # compiling leaves cycles, and sweeping them is no part of the next compilation
    start = time.perf_counter()
    return make(), time.perf_counter() - start


def _costs(workload: Workload, full: Program, less: Program) -> dict[str, float]:
    """Memory and code with a pass less, against those with all of them."""
    arenas = arena_of(workload, less)[0], arena_of(workload, full)[0]
    return {
        "arena": arenas[0] / arenas[1] if arenas[1] else 1.0,
        "code": less.code_bytes / full.code_bytes,
    }


def _prepare(pool: Pool, peer: str, key: str, workload: Workload, *without: str) -> None:
    """Raises WorkerError when the answer is not the simulator's."""
    answer = answer_file(workload, key, pool.scratch)
    options = {"without": without, "device": pool.device, "fallback": pool.fallback}
    order = {"prepare": workload.name, "answer": str(answer), "options": options}
    pool.worker(peer, key).ask(**order)
    if peer != REFERENCE:
        reference = answer_file(workload, REFERENCE, pool.scratch)
        compared(answer, reference, workload.peer_tolerance(OURS))


def _median(pool: Pool, key: str, seconds: float) -> float:
    return statistics.median(pool.worker(OURS, key).ask(measure=seconds)["times"])
