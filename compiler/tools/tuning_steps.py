"""Steps of a program with another tile of one product, beside steps as they are: what tells whether a tile
that is quicker by itself is quicker with its epilogue, among its neighbours.
"""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.compiler.tools.values import drawn_inputs
from openinfer.runtime.devices.vulkan.step_clock import StepClock
from openinfer.runtime.errors import OpenInferError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.compiler.api import Graph
    from openinfer.lowering.options import PipelineOptions
    from openinfer.runtime.executor import BaseExecutor
    from openinfer.runtime.packages.base import Package
    from openinfer.runtime.tensors import Tensor
    from openinfer.runtime.tuning_device import DeviceProduct, DeviceTile

LEAST_TURNS = 9
MOST_TURNS = 400
WON = 0.75
"""The share of turns in which a tile has to be quicker: what the noise of a step hides is not kept."""


@dataclass(frozen=True)
class StepTimes:
    """Microseconds of the device for a step, medians of turns."""

    default: float
    tile: float
    won: float
    """The share of turns in which the step with the tile was quicker."""

    def gains(self, least: float) -> bool:
        """Whether the tile makes a step quicker, by so many microseconds at least."""
        return self.won >= WON and self.default - self.tile >= least

    def __str__(self) -> str:
        return f"steps of the program: {self.tile:.1f} us, by default {self.default:.1f} us"


class ProgramSteps:
    """A program whose inputs are drawn, on a device; use it in `with`."""

    def __init__(self, graph: Graph, package: Package | None, options: PipelineOptions) -> None:
        self._graph, self._package, self._options = graph, package, options
        self._stack = ExitStack()
        self._inputs: Mapping[str, Tensor] = {}
        self._alone = False
        """Whether the program cannot be run: products are measured by themselves."""
        self._default: tuple[BaseExecutor, StepClock] | None = None

    def __enter__(self) -> ProgramSteps:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def against(
        self, forms: Sequence[DeviceProduct], row: tuple[DeviceProduct, DeviceTile], seconds: float
    ) -> StepTimes | None:
        """Steps with a tile in turns with steps as they are, for so many seconds; None for a program that
        keeps values, whose steps are not all alike, and for one that does not run on inputs that are drawn.
        `forms`: what else a table may name the product by. Raises what the tile makes compiling raise."""
        if self._alone:
            return None
        if self._default is None:
            try:
                self._default = self._made(self._options, self._stack)
            except OpenInferError:
                self._alone = True
                return None
        if any(v.memory == "persistent" for v in self._default[0].variables.values()):
            return None
        known = self._options.device_description().tiles
        tiles = {form: tile for form, tile in known.items() if form not in forms}
        tiles |= [row]
        with ExitStack() as stack:
            other = self._made(replace(self._options, device_tiles=tiles), stack)
            both, turns = (self._default, other), list[tuple[float, ...]]()
            end = time.perf_counter() + seconds
            while len(turns) < LEAST_TURNS or (
                time.perf_counter() < end and len(turns) < MOST_TURNS
            ):
                turns.append(tuple(self._microseconds(*one) for one in both))
        medians = [statistics.median(found) for found in zip(*turns)]
        won = sum(new < old for old, new in turns) / len(turns)
        return StepTimes(medians[0], medians[1], won)

    def _made(self, options: PipelineOptions, stack: ExitStack) -> tuple[BaseExecutor, StepClock]:
        """An executor that has made its first step, and its clock."""
        from openinfer.compiler.compile import compile_module

        program = compile_module(self._graph, self._package, options)
        program.device = options.device
        executor = stack.enter_context(program.make_executor(1))
        if not self._inputs:
            self._inputs = drawn_inputs(executor, {}, options.sizes, 0, 0)
        with StepClock() as clock:
            self._microseconds(executor, clock)
        return executor, clock

    def _microseconds(self, executor: BaseExecutor, clock: StepClock) -> float:
        executor.insert(**self._inputs)
        executor.step()
        return clock.nanoseconds / 1000
