"""Work in several processes, of which one may crash: what scripts and suites with many small jobs share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


def in_processes(
    work: Callable[[Job], Result],
    jobs: Sequence[Job],
    processes: int,
    ended: Callable[[Job], Result],
) -> Iterator[tuple[Job, Result]]:
    """Each job with its result, as they come; `ended` makes that of a job whose process ended.

    `work` is a function of a module, as is all that is pickled. One process is this one. What the work
    raises is a RuntimeError here.
    """
    if processes == 1:
        yield from ((job, _called(work, job)) for job in jobs)
        return
    os.environ["OPENINFER_THREADS"] = str(max(1, (os.cpu_count() or 1) // processes))
    left: list[Job] = []
    with _pool(processes) as pool:
        futures = {pool.submit(_called, work, job): job for job in jobs}
        for future in as_completed(futures):
            try:
                yield futures[future], future.result()
            except BrokenProcessPool:
                left.append(futures[future])
    # One of them ended a process, and took the others with it: now each has a process of its own.
    with ThreadPoolExecutor(processes) as threads:
        alone = {threads.submit(_alone, work, job, ended): job for job in left}
        for found in as_completed(alone):
            yield alone[found], found.result()


def _alone(work: Callable[[Job], Result], job: Job, ended: Callable[[Job], Result]) -> Result:
    with _pool(1) as pool:
        try:
            return pool.submit(_called, work, job).result()
        except BrokenProcessPool:
            return ended(job)


def _called(work: Callable[[Job], Result], job: Job) -> Result:
    """The work; what it raises goes as text, since not every exception survives the way to this process."""
    try:
        return work(job)
    except BaseException as error:
        raise RuntimeError(f"{job}: {type(error).__name__}: {error}") from None


def _pool(processes: int) -> ProcessPoolExecutor:
    """Processes that begin anew: those of a driver or of PyTorch have threads and cannot be forked."""
    return ProcessPoolExecutor(processes, get_context("spawn"))
