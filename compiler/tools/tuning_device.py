"""Measures tiles of the matrix products of a program on a device: `openinfer tune --device vulkan`.

Each product is compiled by itself with every tile that a kernel can be made of, and its kernel is timed by
the clock of the device, in a step that does the product again and again on operands that lie there, behind
some work: a device that rests lets its clock fall. Results of the quickest on a small problem are compared
with a product in f64; those that are right run in turns with the default then. Only a tile that was clearly
quicker is kept.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import product as all_of
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.compiler.backends import backend_of
from openinfer.compiler.tools.tuning import WORTH
from openinfer.compiler.tools.tuning_steps import ProgramSteps, StepTimes
from openinfer.lowering.linalg.choose_places import MOST_ELEMENTS
from openinfer.lowering.options import PipelineOptions
from openinfer.lowering.vulkan.schedules.matmul import FEW
from openinfer.lowering.vulkan.schedules.matmul_few_rows import has_few_rows
from openinfer.lowering.vulkan.schedules.matmul_matrices import LANES, SUBGROUP
from openinfer.lowering.vulkan.schedules.matmul_workgroup import SIZES
from openinfer.lowering.vulkan.schedules.tile_choice import (
    MOST_SUMS,
    why_no_matrix_tile,
    why_no_tile,
    why_no_workgroup_tile,
)
from openinfer.runtime.devices.description import DeviceDescription
from openinfer.runtime.devices.vulkan.step_clock import StepClock
from openinfer.runtime.errors import OpenInferError, UnsupportedError
from openinfer.runtime.packages import open_model
from openinfer.runtime.packages.oinf_writer import write_oinf
from openinfer.runtime.tuning_device import DeviceProduct, DeviceTile, DeviceTiles

if TYPE_CHECKING:
    from openinfer.compiler.api import Graph
    from openinfer.dialects.nn import MatmulOp
    from openinfer.runtime.executor import BaseExecutor
    from openinfer.runtime.packages.base import Package
    from openinfer.runtime.program import Program

FINALISTS = 4
"""Tiles that run in turns with the default."""
AT_ONCE = 8
"""Tiles that are timed in turns before that."""
STEPPED = 2
"""The quickest of them, which then run in steps of the program."""
LEAST_ROUNDS = 5
BUSY = 4000.0
"""Microseconds that the device works at a step that is timed,"""
MOST_PRODUCTS = 500
"""and the most products of one."""
_TYPES: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
_ROUNDING = {"f16": 2.0**-11, "f32": 2.0**-24, "f64": 2.0**-53}


@dataclass(frozen=True)
class DeviceShape:
    """A product of a program that a tile can be chosen for."""

    product: DeviceProduct
    batch: int
    """Rows of a batch: all of them where there is one."""
    by_workgroups: bool = False
    """Whether workgroups may multiply it as a whole, too."""

    @property
    def forms(self) -> list[DeviceProduct]:
        """What a table names it by: a row for each of what multiplies."""
        whole = replace(self.product, matrices=False, workgroup=True)
        return [self.product, *([whole] if self.by_workgroups else [])]


@dataclass(frozen=True, order=True)
class Choice:
    """A row that a table may have."""

    product: DeviceProduct
    tile: DeviceTile

    def __str__(self) -> str:
        return f"{self.tile}{', by workgroups' * self.product.workgroup}"


@dataclass(frozen=True)
class DeviceFinding:
    """What was measured of a product: microseconds of the device, by default and with the best tile."""

    shape: DeviceShape
    default: float
    best: float
    choice: Choice | None
    """None: the default stays."""
    tried: int
    refused: Mapping[Choice, str] = field(default_factory=dict[Choice, str])
    """Tiles that were not timed, and why: a wrong result, or an error of the driver."""
    steps: StepTimes | None = None
    """Of the program, with the tile that was quickest there; None where they were not timed."""

    @property
    def rows(self) -> dict[DeviceProduct, DeviceTile | None]:
        """What a table is to say of each form: an older row of another form may stand there."""
        kept = {self.choice.product: self.choice.tile} if self.choice else {}
        return {form: kept.get(form) for form in self.shape.forms}

    @property
    def gain(self) -> float:
        """How many times as quick the best one is."""
        return self.default / self.best if self.best else 1.0


def shapes_of(graph: Graph, package: Package | None, options: PipelineOptions) -> list[DeviceShape]:
    """The products of a program that the device computes in tiles, each once.

    Those of which the options leave an extent open are none. Raises what compiling raises.
    """
    from openinfer.compiler import pipeline, registry
    from openinfer.dialects.nn import MatmulOp

    module = graph.module_with(package, options.sizes).clone()
    name = backend_of(options.device).pipeline
    pipeline.run(module, registry.make_context(), name, stop="linalg", options=options)
    device = options.device_description()
    found: dict[DeviceProduct, DeviceShape] = {}
    for op in module.walk():
        shape = _shape_of(op, device) if isinstance(op, MatmulOp) else None
        if shape is not None:
            known = found.get(shape.product, shape)
            found[shape.product] = replace(shape, batch=min(shape.batch, known.batch))
    return list(found.values())


def _shape_of(op: MatmulOp, device: DeviceDescription) -> DeviceShape | None:
    from openinfer.dialects.nn import dims_of, element_of
    from openinfer.lowering.places import on_host

    left, right = op.inputs[0], op.inputs[1]
    dtype = str(element_of(left))
    if on_host(op) or op.transpose_a is not None or op.precision is not None:
        return None
    if op.layout is not None:
        return None  # Its tile is `row_tile`'s.
    if dtype not in _TYPES or element_of(right) != element_of(left):
        return None
    if any(dim.constant != 1 for dim in dims_of(right)[:-2]):
        return None
    *batches, own, columns = (dim.constant for dim in dims_of(op.output))
    depth = dims_of(left)[-1].constant
    rows = own
    for extent in batches:
        rows = rows * extent if rows is not None and extent is not None else None
    if rows is None or own is None or depth is None or columns is None:
        return None
    if min(own, depth, columns) < FEW or has_few_rows(own, depth):
        return None
    if rows * columns <= MOST_ELEMENTS:
        return None
    transposed = op.transpose_b is not None
    matrices = (
        (dtype == "f16" and device.matrices and device.subgroup == SUBGROUP)
        and depth % LANES == 0
        and (transposed or columns % LANES == 0)
    )
    product = DeviceProduct(rows, depth, columns, dtype, transposed, matrices)
    return DeviceShape(product, own, matrices and device.workgroup_matrices)


def choices_for(shape: DeviceShape, device: DeviceDescription) -> list[Choice]:
    """The tiles of a product that kernels can be made of, and that are worth a measurement."""
    return [
        Choice(form, tile) for form in shape.forms for tile in _tiles_for(form, shape.batch, device)
    ]


def _tiles_for(asked: DeviceProduct, batch: int, device: DeviceDescription) -> list[DeviceTile]:
    bits = 64 if asked.dtype == "f64" else 32
    found: dict[tuple[int, ...], list[DeviceTile]] = {}
    tiles = _matrix_tiles() if asked.matrices else _tiles()
    for tile in _workgroup_tiles() if asked.workgroup else tiles:
        if tile.rows >= 2 * batch or tile.columns >= 2 * asked.columns:
            continue
        if batch != asked.rows and batch % tile.rows:
            continue
        if tile.depth >= 2 * asked.depth or not _keeps_busy(asked, tile):
            continue
        if asked.workgroup:
            reason = why_no_workgroup_tile(tile, device)
        elif asked.matrices:
            reason = why_no_matrix_tile(tile, asked.transposed, device)
        else:
            reason = why_no_tile(tile, bits, device)
        if reason is None:
            found.setdefault((*tile.numbers[:2], *tile.numbers[3:]), []).append(tile)
    return [tile for tiles in found.values() for tile in _depths(tiles)]


def _keeps_busy(asked: DeviceProduct, tile: DeviceTile) -> bool:
    """Whether there are tiles enough for a device, and not so many that operands are read too often;
    subgroups share steps where there are few."""
    groups = -(-asked.rows // tile.rows) * -(-asked.columns // tile.columns)
    most = 512 if tile.along > 1 else 4096
    large = tile.rows * tile.columns >= 128 * 128
    small = tile.rows * tile.columns <= 32 * 32
    return (groups >= 48 or small) and (groups <= most or (large and tile.along == 1))


def _depths(tiles: list[DeviceTile]) -> list[DeviceTile]:
    """Of tiles that differ in the steps between barriers alone, two: of large tiles those of the fewest
    steps, whose operands fit registers on their way, of small ones those of the most."""
    found = sorted(tiles, key=lambda tile: tile.depth)
    large = found[0].rows * found[0].columns >= 64 * 64
    return found[:2] if large else found[-2:]


def _matrix_tiles() -> Generator[DeviceTile]:
    sides, counts = (16, 32, 48, 64), (1, 2, 4)
    for each_row, each_column, down, across in all_of(sides, sides, counts, counts):
        rows, columns = each_row * down, each_column * across
        if max(rows, columns) > 2 * min(rows, columns) or each_row > 2 * each_column:
            continue
        for along, depth in all_of((1, 2, 4), (32, 64, 128, 192, 256)):
            if 128 <= down * across * along * SUBGROUP <= 256 and (along < 4 or each_row == 16):
                yield DeviceTile(rows, columns, depth, each_row, each_column, along)


def _workgroup_tiles() -> Generator[DeviceTile]:
    rows, columns, depths = (64, 128, 256), (64, 96, 128, 192, 256), (32, 64)
    for down, across, depth, size in all_of(rows, columns, depths, SIZES):
        # As many sums for an invocation as registers hold, and not few.
        if 64 * size <= down * across <= MOST_SUMS * size:
            subgroups = size // SUBGROUP
            yield DeviceTile(down, across, depth, down // 2, across // (subgroups // 2))


def _tiles() -> Generator[DeviceTile]:
    sides, each, depths = (32, 64, 128, 256), (2, 4, 8, 16), (8, 16, 32)
    for rows, columns, each_row, each_column, depth in all_of(sides, sides, each, each, depths):
        tile = DeviceTile(rows, columns, depth, each_row, each_column)
        alike = max(each_row, each_column) <= 2 * min(each_row, each_column)
        near = max(rows, columns) <= 2 * min(rows, columns)
        if alike and near and 64 <= rows // each_row * (columns // each_column) <= 256:
            yield tile


class DeviceTuner:
    """Measures one product after the other."""

    spin_up = 1.0
    """Seconds of work in front of a race: the clock of an idle device takes so long to come up."""
    pause = 2.0
    """Seconds that it stays up without work, and some less."""

    def __init__(
        self, options: PipelineOptions, seconds: float, steps: ProgramSteps | None = None
    ) -> None:
        """`options`: of the program; `seconds`: for the last race of a product; `steps`: of the program,
        which have the last word then."""
        self._device, self._seconds, self._steps = options.device, seconds, steps
        self._description = options.device_description()
        self._worked = float("-inf")
        """When the device last had work, on the monotonic clock."""

    def measure(self, shape: DeviceShape) -> DeviceFinding:
        """The best tile of a product."""
        # First: where the device has no clock, nothing is compiled in vain.
        self._race(shape.product, [None], 0.0)
        tried = choices_for(shape, self._description)
        refused: dict[Choice, str] = {}
        times: dict[Any, float] = {}
        for start in range(0, len(tried), AT_ONCE):
            times |= self._race(shape.product, tried[start : start + AT_ONCE], 0.0, refused)
        best: list[Choice] = []
        for choice in sorted(times, key=lambda choice: times[choice]):
            if len(best) == FINALISTS:
                break
            try:
                reason = self.why_wrong(choice)
            except OpenInferError as error:
                reason = error.message
            if reason is None:
                best.append(choice)
            else:
                refused[choice] = reason
        final = self._race(shape.product, [None, *best], self._seconds)
        default = final.pop(None)
        kept, steps = self._kept(shape, final, default)
        quickest = final[kept] if kept is not None else default
        return DeviceFinding(shape, default, quickest, kept, len(tried), refused, steps)

    def _kept(
        self, shape: DeviceShape, final: Mapping[Choice, float], default: float
    ) -> tuple[Choice | None, StepTimes | None]:
        """Which of the last choices is worth a row, and the steps that say so, where there are any."""
        ranked = sorted(final, key=lambda choice: final[choice])
        kept = next((one for one in ranked[:1] if final[one] <= WORTH * default), None)
        steps: StepTimes | None = None
        if self._steps is None:
            return kept, None
        for choice in ranked[:STEPPED]:
            took = self._steps.against(shape.forms, (choice.product, choice.tile), self._seconds)
            if took is None:
                return kept, None
            if steps is None or took.tile / took.default < steps.tile / steps.default:
                steps, kept = took, choice if took.gains((1 - WORTH) * default) else None
        return kept, steps

    def why_wrong(self, choice: Choice) -> str | None:
        """What is wrong with the result of a tile on a small problem that has its edges where the product
        has them; None where it is right."""
        asked, tile = choice.product, choice.tile
        problem = replace(
            asked,
            rows=_small(asked.rows, tile.rows),
            depth=_small(asked.depth, tile.depth),
            columns=_small(asked.columns, tile.columns),
        )
        inputs = _inputs(problem)
        with self._executor(problem, Choice(problem, tile)) as executor:
            found = np.asarray(executor.run(**inputs)["y"]).astype(np.float64)
        left, right = (inputs[name].astype(np.float64) for name in ("x", "w"))
        right = right.T if problem.transposed else right
        expected, size = left @ right, np.abs(left) @ np.abs(right)
        sums = _ROUNDING["f64" if asked.dtype == "f64" else "f32"]
        bound = 2 * _ROUNDING[asked.dtype] * np.abs(expected) + 2 * problem.depth * sums * size
        wrong = ~(np.abs(found - expected) <= bound)
        if not wrong.any():
            return None
        return f"{int(wrong.sum())} of {wrong.size} elements of {problem} are wrong"

    def _race(
        self,
        asked: DeviceProduct,
        choices: Sequence[Choice | None],
        seconds: float,
        refused: dict[Choice, str] | None = None,
    ) -> dict[Any, float]:
        """Microseconds of each choice, run in turns: the median of rounds. None is the default. `refused`
        takes those that a driver makes no kernel of, and why; without it that is an error."""
        rounds: dict[Choice | None, list[float]] = {}
        with ExitStack() as stack:
            package = stack.enter_context(_operands(asked))
            timed: dict[Choice | None, _Timed] = {}
            for one in choices:
                try:
                    timed[one] = stack.enter_context(self._timed(asked, one, package))
                except OpenInferError as error:
                    if refused is None or one is None:
                        raise
                    refused[one] = error.message
            rests = time.monotonic() - self._worked > self.pause
            warm = time.perf_counter() + (self.spin_up if rests else 0.0)
            while timed and time.perf_counter() < warm:
                next(iter(timed.values())).microseconds()
            end, count = time.perf_counter() + seconds, 0
            while count < LEAST_ROUNDS or time.perf_counter() < end:
                for choice, one in timed.items():
                    rounds.setdefault(choice, []).append(one.microseconds())
                count += 1
            self._worked = time.monotonic()
        return {choice: statistics.median(found) for choice, found in rounds.items()}

    def _program(self, choice: Choice | None, text: str, package: Package | None) -> Program:
        from openinfer.compiler.api import Graph
        from openinfer.compiler.compile import compile_module

        tiles: DeviceTiles = {choice.product: choice.tile} if choice is not None else {}
        options = PipelineOptions(device=self._device, device_tiles=tiles)
        program = compile_module(Graph(text, "<product>"), package, options)
        program.device = self._device
        return program

    def _executor(self, asked: DeviceProduct, choice: Choice | None) -> BaseExecutor:
        """A program of nothing but a product, with a tile, or as it is by default."""
        left, right, result = _declared(asked)
        text = (
            f"dynamic {{ x: {left}; w: {right}; }} volatile {{ y: {result}; }}"
            f" block entry {{ {_product(asked)} return; }}"
        )
        return self._program(choice, text, None).make_executor(1)

    @contextmanager
    def _timed(
        self, asked: DeviceProduct, choice: Choice | None, package: Package
    ) -> Generator[_Timed]:
        """A program that does a product as often as it is told; the barrier keeps it in its loop."""
        left, right, result = _declared(asked)
        text = (
            f"dynamic {{ n: i32; }} constant {{ x: {left}; w: {right}; }}"
            f" volatile {{ z: {asked.dtype}[1, {asked.columns}]; }}"
            f" block entry {{ assign y: {result}; loop products (i in 0..n) {{ barrier; {_product(asked)} }}"
            " op slice(y, axis=0, start=0, stop=1) >> z; return; }"
        )
        program = self._program(choice, text, package)
        with StepClock() as clock, program.make_executor(1) as executor:
            yield _Timed(executor, clock)


class _Timed:
    """A step of some products, and the clock of its device."""

    def __init__(self, executor: BaseExecutor, clock: StepClock) -> None:
        """Runs the first steps: they find how many products keep the device busy for long enough."""
        self._executor, self._clock = executor, clock
        self._count = 1
        self._step(1)
        for _ in range(2):
            self._count = max(1, min(MOST_PRODUCTS, round(BUSY / self.microseconds())))
        self.microseconds()

    def _step(self, count: int) -> float:
        """Microseconds of the device for so many products."""
        self._executor.insert(n=np.int32(count))
        self._executor.step()
        if not self._clock.nanoseconds:
            raise UnsupportedError(
                "OI0776",
                "the device has no timestamps: its kernels cannot be timed",
                hint="`openinfer devices` says which devices have them",
            )
        return self._clock.nanoseconds / 1000

    def microseconds(self) -> float:
        """Those of a product."""
        return self._step(self._count) / self._count


@contextmanager
def _operands(asked: DeviceProduct) -> Generator[Package]:
    """Both operands of a product as a package."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "operands.oinf"
        write_oinf(_inputs(asked), path)
        with open_model(path) as package:
            yield package


def _declared(asked: DeviceProduct) -> tuple[str, str, str]:
    """The types of the operands and of the result, as programs write them."""
    right = (asked.depth, asked.columns)
    if asked.transposed:
        right = right[::-1]
    shapes = (asked.rows, asked.depth), right, (asked.rows, asked.columns)
    one, other, result = (f"{asked.dtype}[{rows}, {columns}]" for rows, columns in shapes)
    return one, other, result


def _product(asked: DeviceProduct) -> str:
    """`op matmul(…) >> y;`"""
    return f"op matmul(x, w{', transpose_b=true' if asked.transposed else ''}) >> y;"


def _small(extent: int, side: int) -> int:
    """An extent of a small problem: of two tiles, the second one as far as it goes at the edge."""
    return extent if extent <= 2 * side else side + (extent % side or side)


def _inputs(asked: DeviceProduct) -> dict[str, Any]:
    random = np.random.default_rng(0)
    right = (asked.depth, asked.columns)
    kind = _TYPES[asked.dtype]
    return {
        "x": random.standard_normal((asked.rows, asked.depth), np.float32).astype(kind),
        "w": random.standard_normal(right[::-1] if asked.transposed else right, np.float32).astype(
            kind
        ),
    }


def table(found: Sequence[DeviceFinding], device: str) -> str:
    """Product, default, best and gain, one product a row."""
    width = max([len(str(finding.shape.product)) for finding in found] + [7])
    lines = [f"{'product':{width}} {'default':>11} {'best':>11} {'gain':>6} {'tried':>6}  tile"]
    for finding in found:
        lines.append(
            f"{finding.shape.product!s:{width}} {finding.default:8.1f} us {finding.best:8.1f} us "
            f"{finding.gain:6.3f} {finding.tried:6}  {finding.choice or 'as by default'}"
        )
        if finding.steps is not None:
            lines.append(f"  {finding.steps}")
        if finding.refused:
            choice, reason = next(iter(finding.refused.items()))
            lines.append(f"  {len(finding.refused)} tiles refused, as {choice}: {reason}")
    kept = sum(finding.choice is not None for finding in found)
    lines.append(f"{kept} of {len(found)} products have a quicker tile on {device}")
    return "\n".join(lines)
