"""A chain, compiled, run and timed on a Vulkan device."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import openinfer as oi
from benchmarks.vulkan.chains import Array, Chain
from openinfer.runtime.devices.vulkan.step_clock import StepClock
from openinfer.runtime.packages.oinf_writer import OinfContent

LEAST, MOST = 5, 400
"""Timed steps of each program."""
PAUSE = 2.0
"""Seconds that a clock stays up without work, and some less."""
WARM = 0.4
"""The part of the seconds that goes to bringing clocks up."""


def write_weights(chain: Chain, path: Path) -> None:
    """The package of a chain."""
    # Sizes that stand in the text of a model; those of B and L, too: a chain has one shape.
    content = OinfContent(dict(chain.sizes))
    content.tensors.update(chain.weights())
    oi.write_oinf(content, path)


def compiled(chain: Chain, package: oi.Package, device: str) -> list[oi.Program]:
    """The programs of a chain, which are in the cache of compiled programs then. The package stays open as
    long as they are used."""
    return [oi.compile(oi.graph(text), package, device=device) for text in texts(chain)]


def texts(chain: Chain) -> list[str]:
    """The programs of a chain, in the order of `compiled`."""
    first, second = chain.counts
    found = [chain.text(second), *([chain.text(first)] if first else [])]
    if chain.padded is not None:
        found += [chain.padded(second), chain.padded(first)]
    return found if chain.base is None else [*found, chain.base]


@dataclass
class Run:
    """An executor and its times, in seconds."""

    executor: oi.Executor
    plain: oi.Executor
    """The same without a clock, whose steps are handed in again by machine code."""
    clock: StepClock
    inputs: dict[str, Array]
    device: list[float]
    wall: list[float]
    commands: int = 0
    submissions: int = 0

    def check(self) -> None:
        """Runs the first step. Raises ValueError for results that no right kernel has."""
        with self.clock:
            found = np.asarray(self.executor.run(**self.inputs)["y"])
        if not np.isfinite(found).all() or not found.any():
            raise ValueError("its results are zeros, infinite or no numbers")

    def step(self) -> None:
        """Runs a step for the time of the device, and two for that of the host: the first of these finds the
        processor's caches full of something else."""
        self.executor.run(**self.inputs)
        self.device.append(self.clock.nanoseconds * 1e-9)
        self.plain.run(**self.inputs)
        start = time.perf_counter()
        self.plain.run(**self.inputs)
        self.wall.append(time.perf_counter() - start)

    def forget(self) -> None:
        """The next step is the first that counts."""
        self.device.clear()
        self.wall.clear()
        self.commands, self.submissions = self.clock.commands, self.clock.submissions


@contextmanager
def runs(chain: Chain, programs: list[oi.Program]) -> Generator[list[Run]]:
    """Executors of the programs of a chain, after their first step."""
    found: list[Run] = []
    with ExitStack() as stack:
        for program in programs:
            both = [stack.enter_context(program.make_executor()) for _ in range(2)]
            if chain.start is not None:
                for executor in both:
                    chain.start(executor)
            executor, plain = both
            run = Run(executor, plain, StepClock(), chain.inputs(), [], [])
            run.check()
            run.plain.run(**run.inputs)
            found.append(run)
        yield found


def timed(
    chain: Chain, programs: list[oi.Program], seconds: float, spin_up: float = 0.0
) -> dict[str, Any]:
    """Seconds of a link, or of the whole step, on the device and for the host. Where the device has not
    been timed for some seconds, it works for `spin_up` seconds more before."""
    with runs(chain, programs) as found:
        if time.monotonic() < _working.until + PAUSE:
            spin_up = 0.0
        _alternate(found, spin_up + seconds * WARM, 1, MOST * MOST)
        for run in found:
            run.forget()
        _alternate(found, seconds * (1 - WARM), LEAST)
        _working.until = time.monotonic()
        return result_of(chain, found)


class _Working:
    """When the device was last timed, on the monotonic clock."""

    until = float("-inf")


_working = _Working()


def _alternate(found: list[Run], seconds: float, least: int, most: int = MOST) -> None:
    """Steps of one program after the other, so that a drift of clocks meets all of them."""
    end, count = time.perf_counter() + seconds, 0
    while count < least or (time.perf_counter() < end and count < most):
        for run in found:
            run.step()
        count += 1


def result_of(chain: Chain, found: list[Run]) -> dict[str, Any]:
    """What the times of the programs of a chain, in the order of `texts`, say of a link."""
    first, second = chain.counts
    links = second - first

    def link(of: Any) -> float:
        """Seconds of a link, where `of` is what is made of the times of a program."""
        step = [of(run) for run in found]
        if not first:
            return step[0] if chain.base is None else step[0] - step[1]
        plain = (step[0] - step[1]) / links
        # The padded chain has one copy more in each link, which the plain one has once.
        return plain if chain.padded is None else 2 * plain - (step[2] - step[3]) / links

    longest = found[0]
    return {
        "seconds": link(lambda run: median(run.device)),
        "least": link(lambda run: min(run.device)),
        "wall": link(lambda run: median(run.wall)),
        "steps": len(longest.device),
        "links": links,
        "commands": _per_link(chain, found),
        "step": {
            "seconds": median(longest.device),
            "wall": median(longest.wall),
            "commands": longest.commands,
            "submissions": longest.submissions,
        },
    }


def _per_link(chain: Chain, found: list[Run]) -> float:
    first, second = chain.counts
    if not first:
        return found[0].commands - (0 if chain.base is None else found[1].commands)
    return (found[0].commands - found[1].commands) / (second - first)
