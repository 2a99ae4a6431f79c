"""Measures tiles of the matrix products of a program: `openinfer tune`.

Each product is compiled by itself with every tile that fits into the target's registers, and run in
turns with the default, so that a busy moment of the machine is nobody's alone. Only a tile that was
clearly quicker is kept.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.compiler.backends import backend_of
from openinfer.lowering.options import PipelineOptions
from openinfer.runtime.tuning import Tile, Tuning

if TYPE_CHECKING:
    from openinfer.compiler.api import Graph
    from openinfer.runtime.executor import BaseExecutor
    from openinfer.runtime.packages.base import Package
    from openinfer.runtime.target import TargetDescription

WORTH = 0.97
"""A tile is kept when it takes at most this part of the default's time."""
DEPTHS = (0, 256, 512)
"""Blocks of the contraction that are tried; 0 is no block."""
_DTYPES = {"f32": "f32", "f16": "f16", "bf16": "bf16", "f64": "f64"}


@dataclass(frozen=True)
class Shape:
    """A product of a program that a tile can be chosen for."""

    key: str
    rows: int | None
    """None: what a step decides."""
    depth: int
    columns: int
    dtype: str
    constant: bool
    """Whether the right operand is a packed weight."""
    transposed: bool
    """Whether an operand that is no packed weight is given transposed."""
    counts: tuple[int, ...]
    """The numbers of rows to measure at."""


@dataclass(frozen=True)
class Finding:
    """What was measured of a product: microseconds, by default and with the best tile."""

    shape: Shape
    default: float
    best: float
    tile: Tile | None
    """None: the default stays."""

    @property
    def gain(self) -> float:
        """How many times as quick the best one is."""
        return self.default / self.best if self.best else 1.0


def shapes_of(
    graph: Graph, package: Package | None, options: PipelineOptions, sizes: Mapping[str, int]
) -> list[Shape]:
    """The products of a program that can be tuned, each once; `sizes` are those to measure at.

    Raises what compiling raises.
    """
    from openinfer.compiler import pipeline, registry
    from openinfer.dialects.nn import MatmulOp, dims_of, element_of
    from openinfer.lowering.cpu.machine import key_of

    module = graph.module.clone()
    name = backend_of(options.device).pipeline
    pipeline.run(module, registry.make_context(), name, stop="linalg", options=options)
    found: dict[str, Shape] = {}
    for op in module.walk():
        if not isinstance(op, MatmulOp):
            continue
        key = key_of(op)
        rows, columns = dims_of(op.output)[-2:]
        depth = dims_of(op.inputs[0])[-2 if op.transpose_a is not None else -1]
        if key is None or depth.constant is None or columns.constant is None:
            continue
        if min(depth.constant, columns.constant) < 16 or op.transpose_a is not None:
            continue
        leading = dims_of(op.output)[:-2]
        count = rows
        for extent in leading if len(dims_of(op.inputs[1])) <= 3 else ():
            count = count * extent
        try:
            at = count.evaluate({**dict.fromkeys(count.names, 8), **sizes})
        except ZeroDivisionError:
            continue
        known = found.get(key)
        counts = sorted({*(known.counts if known else ()), max(at, 1)})
        found[key] = Shape(
            key,
            rows.constant,
            depth.constant,
            columns.constant,
            str(element_of(op.inputs[0])),
            op.layout is not None,
            op.transpose_b is not None,
            tuple(counts),
        )
    return [shape for shape in found.values() if shape.dtype in _DTYPES]


def tiles_for(shape: Shape, target: TargetDescription) -> list[Tile]:
    """The register tiles of a product that leave room for operands."""
    room = target.registers - 2
    lanes = target.vector_bits // 32
    most = -(-shape.columns // lanes)
    found = [
        Tile(vectors, rows)
        for vectors in (1, 2, 3, 4)
        for rows in (4, 6, 8, 10, 12, 14)
        if vectors <= most and rows * vectors + vectors <= room and rows * vectors >= room // 3
    ]
    return [tile for tile in found if shape.rows is None or tile.rows < 2 * shape.rows]


def depths_for(shape: Shape) -> Sequence[int]:
    """The blocks of the contraction that can make a difference."""
    large = shape.rows is not None and shape.rows >= 64 and shape.depth >= 512
    return [depth for depth in DEPTHS if depth < shape.depth] if large else []


class Tuner:
    """Measures one product after the other."""

    def __init__(
        self, target: TargetDescription, threads: int, seconds: float, folder: Path
    ) -> None:
        self._target = target
        self._threads = threads
        self._seconds = seconds
        self._folder = folder

    def measure(self, shape: Shape) -> Finding:
        """The best tile of a product."""
        tiles = tiles_for(shape, self._target)
        first = self._race(shape, [None, *tiles])
        best = min(first, key=lambda tile: first[tile])
        finalists: list[Tile | None] = [None]
        for base in (best or Tile(2, 8),):
            finalists += [best] if best is not None else []
            finalists += [Tile(base.vectors, base.rows, depth) for depth in depths_for(shape)]
        times = self._race(shape, finalists) if len(finalists) > 1 else first
        best = min(times, key=lambda tile: times[tile])
        if best is None or times[best] > WORTH * times[None]:
            return Finding(shape, times[None], times[None], None)
        return Finding(shape, times[None], times[best], best)

    def _race(self, shape: Shape, tiles: Sequence[Tile | None]) -> dict[Tile | None, float]:
        """Microseconds of each tile, run in turns: the median of rounds, over all row counts."""
        times: dict[Tile | None, float] = dict.fromkeys(tiles, 0.0)
        for count in shape.counts:
            with _opened([self._executor(shape, tile) for tile in tiles]) as executors:
                works = [_work(executor, shape, count) for executor in executors]
                rounds: list[list[float]] = [[] for _ in works]
                calls = [max(1, int(2e-4 / max(_timed(work, 1), 1e-7))) for work in works]
                end = time.perf_counter() + self._seconds
                while len(rounds[0]) < 5 or time.perf_counter() < end:
                    for found, work, number in zip(rounds, works, calls):
                        found.append(_timed(work, number))
                for tile, found in zip(tiles, rounds):
                    times[tile] += 1e6 * statistics.median(found)
        return times

    def _executor(self, shape: Shape, tile: Tile | None) -> BaseExecutor:
        from openinfer.compiler.api import Graph
        from openinfer.compiler.compile import compile_module
        from openinfer.runtime.packages import open_model
        from openinfer.runtime.packages.oinf_writer import OinfContent, write_oinf

        right = (shape.columns, shape.depth) if shape.transposed else (shape.depth, shape.columns)
        dims = f"[{right[0]}, {right[1]}]"
        rows = "M" if shape.rows is None else str(shape.counts[0])
        memory = "constant" if shape.constant else "dynamic"
        kind = shape.dtype
        text = (
            f"dynamic {{ x: {kind}[{rows}, {shape.depth}]; }}"
            f" volatile {{ y: {kind}[{rows}, {shape.columns}]; }}"
            f" {memory} {{ w: {kind}{dims}; }}"
            f" block entry {{ op matmul(x, w{', transpose_b=true' if shape.transposed else ''})"
            " >> y; return; }"
        )
        package = None
        if shape.constant:
            path = self._folder / f"{kind}-{right[0]}-{right[1]}.oinf"
            if not path.exists():
                write_oinf(OinfContent({}, {}, {"w": _drawn(right, kind)}), path)
            package = open_model(path)
        tuning = None
        if tile is not None:
            # Rows that a whole program knows are known here, too.
            key = shape.key
            tuning = Tuning(self._target.name, "", {key: tile})
        options = PipelineOptions(package=package, tuning=tuning)
        program = compile_module(Graph(text, "<product>"), package, options)
        return program.make_executor(self._threads)


class _opened:
    """Executors that are closed together."""

    def __init__(self, executors: list[BaseExecutor]) -> None:
        self._executors = executors

    def __enter__(self) -> list[BaseExecutor]:
        return self._executors

    def __exit__(self, *error: object) -> None:
        for executor in self._executors:
            executor.close()


def _drawn(shape: Sequence[int], dtype: str) -> Any:
    from openinfer.runtime.tensors import Tensor

    values = np.random.default_rng(0).standard_normal(shape, np.float32)
    return Tensor.from_values(dtype, values)


def _work(executor: BaseExecutor, shape: Shape, count: int) -> Callable[[], object]:
    inputs: dict[str, Any] = {"x": _drawn((count, shape.depth), shape.dtype)}
    if not shape.constant:
        dims = (shape.depth, shape.columns)
        inputs["w"] = _drawn(dims[::-1] if shape.transposed else dims, shape.dtype)
    executor.run(**inputs)
    executor.run(**inputs)

    def step() -> None:
        executor.insert(**inputs)
        executor.step()

    return step


def _timed(work: Callable[[], object], calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - begin) / calls


def findings(
    shapes: Sequence[Shape], target: TargetDescription, threads: int, seconds: float
) -> Generator[Finding]:
    """Measures products one after the other."""
    with tempfile.TemporaryDirectory(prefix="openinfer-tune-") as name:
        tuner = Tuner(target, threads, seconds, Path(name))
        for shape in shapes:
            yield tuner.measure(shape)


def table(found: Sequence[Finding], target: TargetDescription) -> str:
    """Shape, default, best and gain, one product a row."""
    width = max([len(finding.shape.key) for finding in found] + [5])
    lines = [f"{'shape':{width}} {'rows':>10} {'default':>11} {'best':>11} {'gain':>6}  tile"]
    for finding in found:
        rows = ",".join(str(count) for count in finding.shape.counts)
        tile = finding.tile.text if finding.tile is not None else "as by default"
        lines.append(
            f"{finding.shape.key:{width}} {rows:>10} {finding.default:8.1f} us "
            f"{finding.best:8.1f} us {finding.gain:6.3f}  {tile}"
        )
    kept = sum(finding.tile is not None for finding in found)
    lines.append(f"{kept} of {len(found)} products have a quicker tile for {target.name}")
    return "\n".join(lines)
