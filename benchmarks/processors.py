"""Whether a core was missing while something was measured, by the counters that Linux keeps."""

from __future__ import annotations

import os
import time
from pathlib import Path

LOOK, RESTING, PATIENCE = 0.01, 0.1, 0.5
"""Seconds between two looks at a process, the part of them in which one that rests may work, and
seconds until nobody waits for it any longer."""
RESOLUTION = 0.02
"""Seconds to which the system tells how long processors were idle: two numbers of 10 ms each."""


class Watch:
    """From `start` to `missing`, for work on a number of threads."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._begin = (0.0, 0.0, None)

    def start(self) -> None:
        self._begin = _now()

    def missing(self) -> float | None:
        """The part of the time, None where the system does not tell."""
        wall, own, idle = (
            None if after is None or before is None else after - before
            for before, after in zip(self._begin, _now())
        )
        if wall is None or own is None or idle is None:
            return None
        return missing(wall, own, idle, self._threads, os.cpu_count() or 1)


def _now() -> tuple[float, float, float | None]:
    """Seconds on the clock, of this process on all processors, and of idle processors together."""
    try:
        line = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0].split()
        # A processor without work counts as waiting while anybody waits there for a disk.
        idle = (int(line[4]) + int(line[5])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        idle = None
    return time.perf_counter(), time.process_time(), idle


def missing(wall: float, own: float, idle: float, threads: int, cpus: int) -> float:
    """What others had of the processors beyond the cores that we leave free, as a part of the time:
    1 is a whole core. What the host of a virtual machine took is in it where the host tells."""
    others = cpus * wall - own - idle - RESOLUTION
    return max(others / wall - (cpus - threads), 0.0)


def settle() -> None:
    """Waits until the threads of this process rest.

    Some spin for a tenth of a second after a call (OpenBLAS's), on a processor that is the next
    runtime's then.
    """
    end = time.perf_counter() + PATIENCE
    while time.perf_counter() < end:
        before = time.process_time()
        time.sleep(LOOK)
        if time.process_time() - before < RESTING * LOOK:
            return
