"""Measures the numbers of a processor that schedules choose by: `openinfer tune --machine`.

For each number of `runtime/microarchitecture.py` there are products whose time depends on it, most with
weights from 2 MiB to more than twice the last cache, on one thread or several. They are compiled with each
candidate and run in turns with what is known so far, so that a busy moment of the machine is nobody's
alone. Only what was clearly quicker is kept.
"""

from __future__ import annotations

import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.compiler.tools.tuning import WORTH
from openinfer.lowering.options import PipelineOptions
from openinfer.runtime.microarchitecture import Microarchitecture
from openinfer.runtime.tuning import Tuning

if TYPE_CHECKING:
    from openinfer.runtime.executor import BaseExecutor
    from openinfer.runtime.target import TargetDescription

DEPTH = 4096
"""Products in each sum of a matrix-vector product."""
PARTS = (25, 35, 50, 70, 100)
"""Percent of the last cache that weights fill where it is measured what the cache keeps."""
NEVER = 1000
"""A percentage that no weights here reach."""
_ROUNDS = 5


@dataclass(frozen=True)
class Probe:
    """A product with a constant right operand: `rows x depth` by `depth x columns`."""

    rows: int
    depth: int
    columns: int
    dtype: str = "f32"
    threads: int = 1

    @property
    def title(self) -> str:
        """`1 x 4096 by 8192 f32 (128 MiB)`."""
        count = self.depth * self.columns * (4 if self.dtype == "f32" else 2) / 2**20
        threads = f", {self.threads} threads" if self.threads > 1 else ""
        return (
            f"{self.rows} x {self.depth} by {self.columns} {self.dtype} ({count:.3g} MiB{threads})"
        )

    @property
    def text(self) -> str:
        """The program."""
        widened = "w" if self.dtype == "f32" else "v"
        cast = "" if widened == "w" else "op cast(w, to=f32) >> v; "
        assigned = "" if widened == "w" else f"assign v: f32[{self.depth}, {self.columns}]; "
        return (
            f"dynamic {{ x: f32[{self.rows}, {self.depth}]; }} "
            f"constant {{ w: {self.dtype}[{self.depth}, {self.columns}]; }} "
            f"volatile {{ y: f32[{self.rows}, {self.columns}]; }} "
            f"block entry {{ {assigned}{cast}op matmul(x, {widened}) >> y; return; }}"
        )


@dataclass(frozen=True)
class Number:
    """What was found of one number."""

    name: str
    default: int
    best: int
    tried: Mapping[int, float]
    """The time with each candidate, as a part of that with the default."""
    probes: str
    """The products that were measured."""

    @property
    def gain(self) -> float:
        """The time with the best, as a part of that with the default."""
        return self.tried.get(self.best, 1.0)

    @property
    def sentence(self) -> str:
        """What was measured, for the table by microarchitecture."""
        shown = ", ".join(f"{value}: {part:.2f}" for value, part in self.tried.items())
        return f"{self.probes}; of the time with {self.default}: {shown}"


def candidates(target: TargetDescription) -> dict[str, tuple[int, ...]]:
    """The numbers that matter to code for a target, and what is tried of each."""
    distances = (0, 512, 1024, 2048, 4096, 8192)
    lines = ("ahead", "ahead_streamed") if target.vector_bits >= 512 else ("ahead_line",)
    return {
        **dict.fromkeys(lines, distances),
        "ahead_narrow": (0, 2048, 4096, 8192, 16384),
        "panels": (1, 2, 4),
        "chunks": (1, 2, 4, 8),
    }


def probes(name: str, target: TargetDescription, threads: int) -> list[Probe]:
    """The products that tell a number; none where this machine cannot tell it."""
    far, near = _weights(5 * target.last_cache // 2), _weights(target.last_cache // 8)
    # Weights that pass a second cache or lie in it, where the distance says the most.
    small = Probe(1, 512, 1024)
    match name:
        case "ahead":
            both = [replace(near, threads=threads)] if threads > 1 else []
            return [small, near, *both]
        case "ahead_line":
            return [small, near, far]
        case "ahead_streamed":
            return [far]
        case "ahead_narrow":
            return [replace(far, dtype="f16")]
        case "chunks":
            rows = [(1, 512, 2048), (16, 384, 1536), (128, 384, 1536)]
            return [Probe(*row, threads=threads) for row in rows] if threads > 1 else []
        case _:
            return [near, far]


def _weights(nbytes: int) -> Probe:
    """A matrix-vector product with about so many bytes of f32 weights."""
    return Probe(1, DEPTH, max(512, nbytes // (4 * DEPTH) // 512 * 512))


class MachineTuner:
    """Measures one number after the other, each with what was found before.

    `known` are the numbers of an earlier time, which all candidates are compared with; without them those
    of the table are.
    """

    def __init__(
        self,
        target: TargetDescription,
        threads: int,
        seconds: float,
        known: Microarchitecture | None = None,
    ) -> None:
        self.found = target.measured if known is None else known
        self._target = target
        self._threads = threads
        self._seconds = seconds

    def numbers(self) -> Generator[Number]:
        """All of them; `found` is the row when they are through."""
        for name, values in candidates(self._target).items():
            default = getattr(self.found, name)
            asked = probes(name, self._target, self._threads)
            times = {value: self._race(name, value, asked) for value in values if value != default}
            if not asked:
                times = {}
            best = min(times, key=lambda value: times[value], default=default)
            if best != default and times[best] <= WORTH:
                self.found = replace(self.found, **{name: best})
            else:
                best = default
            titles = ", ".join(probe.title for probe in asked)
            yield Number(name, default, best, times, titles or "one thread: not measured")
        yield self._kept()

    def _kept(self) -> Number:
        """From which part of the last cache on weights are better read as streams."""
        default, known = self.found.kept, self.found
        if "ahead" not in candidates(self._target) or known.ahead == known.ahead_streamed:
            return Number("kept", default, default, {}, "streams are read as all others are")
        streamed: dict[int, float] = {}
        for part in PARTS:
            probe = _weights(part * self._target.last_cache // 100)
            streamed[part] = self._ratio(
                replace(known, kept=NEVER), replace(known, kept=0), [probe]
            )
        shown = ", ".join(f"{part} %: {ratio:.2f}" for part, ratio in streamed.items())
        said = f"weights of such parts of the last cache, as streams of the time as others: {shown}"
        best = kept_part(streamed, default)
        self.found = replace(known, kept=best)
        return Number("kept", default, best, {}, said)

    def _race(self, name: str, value: int, asked: Sequence[Probe]) -> float:
        return self._ratio(self.found, replace(self.found, **{name: value}), asked)

    def _ratio(
        self, known: Microarchitecture, other: Microarchitecture, asked: Sequence[Probe]
    ) -> float:
        """The time of `other` as a part of that of `known`: geometric mean over the products."""
        logs: list[float] = []
        for probe in asked:
            with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
                package = _package(probe, Path(folder))
                works = [
                    _work(stack.enter_context(self._executor(probe, row, package)), probe)
                    for row in (known, other)
                ]
                # One thread's own time counts no neighbour's; several wait for each other.
                clock = time.process_time if probe.threads == 1 else time.perf_counter
                logs.append(math.log(_paired(works, self._seconds, clock)))
        return math.exp(statistics.fmean(logs)) if logs else 1.0

    def _executor(self, probe: Probe, numbers: Microarchitecture, package: Path) -> BaseExecutor:
        from openinfer.compiler.api import Graph
        from openinfer.compiler.compile import compile_module
        from openinfer.runtime.packages import open_model

        model = open_model(package)
        tuning = Tuning(self._target.name, "", {}, numbers)
        options = PipelineOptions(package=model, tuning=tuning)
        program = compile_module(Graph(probe.text, "<product>"), model, options)
        return program.make_executor(probe.threads)


def kept_part(streamed: Mapping[int, float], default: int) -> int:
    """The part of the last cache from which on streams are quicker; `streamed` are times of streams, as
    parts of those of others, by the percentage that weights fill. The default stays where nothing that is
    clear speaks against it."""
    early = any(streamed[part] < WORTH for part in streamed if part <= default)
    late = any(streamed[part] > 1 / WORTH for part in streamed if part > default)
    if not early and not late:
        return default
    before = max((part for part in streamed if streamed[part] >= WORTH), default=0)
    first = min((part for part in streamed if part > before), default=NEVER)
    return first if first == NEVER else (before + first) // 2


def _package(probe: Probe, folder: Path) -> Path:
    from openinfer.runtime.packages.oinf_writer import OinfContent, write_oinf

    path = folder / "weights.oinf"
    dtype = np.float32 if probe.dtype == "f32" else np.float16
    row = np.random.default_rng(0).standard_normal((1, probe.columns), np.float32).astype(dtype)
    # Which numbers they are changes no time; one row of them is drawn quickly.
    weights = np.broadcast_to(row, (probe.depth, probe.columns))
    write_oinf(OinfContent({}, {}, {"w": np.ascontiguousarray(weights)}), path)
    return path


def _work(executor: BaseExecutor, probe: Probe) -> Callable[[], object]:
    x = np.random.default_rng(1).standard_normal((probe.rows, probe.depth), np.float32)
    executor.run(x=x)

    def step() -> None:
        executor.insert(x=x)
        executor.step()

    return step


def _paired(
    works: Sequence[Callable[[], object]], seconds: float, clock: Callable[[], float]
) -> float:
    """The second one's time as a part of the first one's: the median over rounds in turns."""

    def timed(work: Callable[[], object], calls: int) -> float:
        begin = clock()
        for _ in range(calls):
            work()
        return clock() - begin

    calls = max(1, int(2e-3 / max(min(timed(works[0], 1) for _ in range(3)), 1e-7)))
    ratios: list[float] = []
    end = time.perf_counter() + seconds
    while len(ratios) < _ROUNDS or time.perf_counter() < end:
        order = works if len(ratios) % 2 else works[::-1]
        times = {id(work): timed(work, calls) for work in order}
        ratios.append(times[id(works[1])] / times[id(works[0])])
    return statistics.median(ratios)


def threads_here(asked: int) -> int:
    """Threads to measure chunks with: as many as are asked for, else two where there are two CPUs."""
    return asked if asked > 1 else min(2, len(os.sched_getaffinity(0)))


def table(found: Sequence[Number], numbers: Microarchitecture, cpu: str) -> str:
    """Number, default, what was found, its time, and how."""
    width = max(len(field.name) for field in fields(Microarchitecture))
    lines = [f"{'number':{width}} {'known':>6} {'found':>6} {'time':>5}  measured"]
    for one in found:
        lines.append(
            f"{one.name:{width}} {one.default:6} {one.best:6} {one.gain:5.2f}  {one.sentence}"
            if one.tried
            else f"{one.name:{width}} {one.default:6} {one.best:6} {'':5}  {one.probes}"
        )
    changed = ", ".join(f"{name}={value}" for name, value in numbers.numbers.items())
    lines.append(f"{cpu}: {changed or 'the defaults'}")
    return "\n".join(lines)


def as_json(found: Sequence[Number]) -> list[dict[str, Any]]:
    """A row for each number."""
    return [
        {
            "number": one.name,
            "known": one.default,
            "found": one.best,
            "tried": {str(value): part for value, part in one.tried.items()},
            "measured": one.probes,
        }
        for one in found
    ]
