"""What the machine allows, measured by loops that our own compiler generates.

Multiply-adds from registers, and reading from memory and from the last-level cache, with one loop
for each thread. The suite asks for these in every round, so that a time and its limit have met the
same neighbours; a time far beyond its limit is no time but a mistake, and is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kernels import aligned, peak_case, repeated
from openinfer.runtime.devices.cpu_codegen import host_target

Array = np.ndarray[Any, Any]
SUMS = 8
"""Independent sums, so that additions wait for nothing but memory."""
DRAM_BYTES = 1 << 28
L3_BYTES = 6 << 20
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
    sizes: dict[str, int] = {}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            level = (index / "level").read_text().strip()
            text = (index / "size").read_text().strip()
        except OSError:
            continue
        unit = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:], 1)
        sizes[level] = int(text.rstrip("KM")) * unit
    return Caches(sizes.get("2", 1 << 20), sizes.get("3", 32 << 20))


def memory_level(nbytes: float, threads: int, known: Caches) -> str | None:
    """Where so many bytes come from in a repeated call: "dram", "l3", or None for nearer caches."""
    if nbytes > known.last:
        return "dram"
    return "l3" if nbytes > known.second * threads else None


def limit_seconds(
    operations: float, nbytes: float, level: str | None, measured: Mapping[str, float]
) -> tuple[float, str]:
    """The least time of a call by the measured rates, and what bounds it: "fma", "dram" or "l3"."""
    bounds = {"fma": operations / measured["fma"]}
    if level is not None:
        bounds[level] = nbytes / measured[level]
    name = max(bounds, key=bounds.__getitem__)
    return bounds[name], name


def beyond(seconds: float, limit: float) -> bool:
    """Whether a time is too good to be true."""
    return seconds * SLACK < limit


class Limits:
    """Rates of this machine for a number of threads: operations or bytes each second."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads)
        peaks = [peak_case() for _ in range(threads)]
        self._cases: dict[str, tuple[list[Callable[[int], Any]], float]] = {
            "fma": ([case.run for case in peaks], peaks[0].work * threads)
        }
        for name, total in (("dram", DRAM_BYTES // threads), ("l3", L3_BYTES)):
            runs = [read_case(total) for _ in range(threads)]
            self._cases[name] = (runs, float(total * threads))
        self._counts = dict.fromkeys(self._cases, 1)

    def measure(self) -> dict[str, float]:
        """The best of a few tries of each."""
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


def read_case(nbytes: int) -> Callable[[int], Any]:
    """A loop that reads a buffer of so many bytes from start to end."""
    lanes = host_target().vector_bits // 32
    kind, length = f"vector<{lanes}xf32>", nbytes // 4
    assert length % (SUMS * lanes) == 0
    buffer, out = f"memref<{length}xf32>", f"memref<{SUMS * lanes}xf32>"
    sums = ", ".join(f"%s{i} = %x{i}" for i in range(SUMS))
    offsets = [f"%c{i} = arith.constant {i * lanes} : index" for i in range(SUMS)]
    lines = [
        "%zero = arith.constant 0 : index",
        f"%by = arith.constant {SUMS * lanes} : index",
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
    arrays = [aligned(np.zeros(length, np.float32)), aligned(np.zeros(SUMS * lanes, np.float32))]
    return repeated("\n".join(lines), [buffer, out], arrays)
