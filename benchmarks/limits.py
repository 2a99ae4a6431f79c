"""What the machine allows, measured by loops that our own compiler generates.

Multiply-adds from registers, and reading, again and again, of as many bytes as a row touches: what
part of them a cache keeps, and how fast it gives them, is measured instead of assumed. There is one
loop for each thread. The suite asks for these in every round, so that a time and its limit have met
the same neighbours; a time far beyond its limit is no time but a mistake, and is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.kernels import Case, aligned, peak_case, repeated
from openinfer.runtime.host import USUAL_CACHE, cache_sizes
from openinfer.runtime.target import TargetDescription

Array = np.ndarray[Any, Any]
SUMS = 8
"""Independent sums, so that additions wait for nothing but memory."""
TRIES = 3
LEAST_SECONDS = 5e-3
SLACK = 1.15
"""So far a time may lie beyond its limit before it is refused."""


@dataclass(frozen=True)
class Caches:
    """Bytes of one core's L2 and of the last level."""

    second: int
    last: int


def caches() -> Caches:
    """From Linux's description of the first CPU; sizes of a small server where it is silent."""
    sizes = cache_sizes()
    return Caches(sizes.get(2, 1 << 20), sizes.get(3, USUAL_CACHE))


def limit_seconds(operations: float, nbytes: float, fma: float, read: float) -> tuple[float, str]:
    """The least time of a call by the measured rates, and what bounds it: "fma" or "read"."""
    bounds = {"fma": operations / fma, "read": nbytes / read}
    name = max(bounds, key=bounds.__getitem__)
    return bounds[name], name


def beyond(seconds: float, limit: float) -> bool:
    """Whether a time is too good to be true."""
    return seconds * SLACK < limit


class Limits:
    """Rates of this machine for a number of threads: operations or bytes each second.

    The loops are compiled for `target`.
    """

    def __init__(self, threads: int, target: TargetDescription) -> None:
        self._threads = threads
        self._target = target
        self._pool = ThreadPoolExecutor(threads)
        peaks = [peak_case(target) for _ in range(threads)]
        self._peak = [case.run for case in peaks], peaks[0].work * threads
        self._cases: dict[str, tuple[list[Callable[[int], Any]], float]] = {}
        self._counts: dict[str, int] = {}
        self.expect([])

    def expect(self, sizes: Sequence[int]) -> None:
        """Makes the loops that read so many bytes with all threads together, and drops others."""
        self._cases = {"fma": self._peak}
        for nbytes in sizes:
            share = nbytes // self._threads
            parts = [read_case(share, self._target) for _ in range(self._threads)]
            work = float(sum(part.work for part in parts))
            self._cases[read_name(nbytes)] = [part.run for part in parts], work
        self._counts = dict.fromkeys(self._cases, 1)

    def measure(self) -> dict[str, float]:
        """The best of a few tries of each: "fma", and `read_name` of each expected size."""
        return {name: max(self._rate(name) for _ in range(TRIES)) for name in self._cases}

    def _rate(self, name: str) -> float:
        """Work each second, of so many runs that starting the threads does not show."""
        runs, work = self._cases[name]
        while (seconds := self._seconds(runs, self._counts[name])) < LEAST_SECONDS:
            self._counts[name] *= 2
        return work * self._counts[name] / seconds

    def _seconds(self, runs: list[Callable[[int], Any]], count: int) -> float:
        """All loops at once; they leave Python's lock while they run."""
        start = time.perf_counter()
        others = [self._pool.submit(run, count) for run in runs[1:]]
        runs[0](count)
        for done in others:
            done.result()
        return time.perf_counter() - start


def read_name(nbytes: float) -> str:
    """How the rate of reading so many bytes is called."""
    return f"read {nbytes:.0f}"


def read_case(nbytes: int, target: TargetDescription) -> Case:
    """A loop that reads a buffer of so many bytes, rounded down to whole turns, from start to end."""
    lanes = target.vector_bits // 32
    kind, turn = f"vector<{lanes}xf32>", SUMS * lanes
    length = max(nbytes // 4 // turn, 1) * turn
    buffer, out = f"memref<{length}xf32>", f"memref<{turn}xf32>"
    sums = ", ".join(f"%s{i} = %x{i}" for i in range(SUMS))
    offsets = [f"%c{i} = arith.constant {i * lanes} : index" for i in range(SUMS)]
    lines = [
        "%zero = arith.constant 0 : index",
        f"%by = arith.constant {turn} : index",
        f"%stop = arith.constant {length} : index",
        *offsets,
        *(f"%x{i} = vector.load %1[%c{i}] : {out}, {kind}" for i in range(SUMS)),
        f"%r:{SUMS} = scf.for %i = %zero to %stop step %by iter_args({sums})"
        f" -> ({', '.join([kind] * SUMS)}) {{",
    ]
    for i in range(SUMS):
        lines += [
            f"%i{i} = arith.addi %i, %c{i} : index",
            f"%v{i} = vector.load %0[%i{i}] : {buffer}, {kind}",
            f"%n{i} = arith.addf %s{i}, %v{i} : {kind}",
        ]
    lines += [
        f"scf.yield {', '.join(f'%n{i}' for i in range(SUMS))} : {', '.join([kind] * SUMS)}",
        "}",
    ]
    lines += [f"vector.store %r#{i}, %1[%c{i}] : {out}, {kind}" for i in range(SUMS)]
    arrays = [aligned(np.zeros(length, np.float32)), aligned(np.zeros(turn, np.float32))]
    run = repeated("\n".join(lines), [buffer, out], arrays, target)
    return Case(f"read {nbytes}", run, 4.0 * length)
