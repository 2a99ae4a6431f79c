"""Checks many seeds in a few processes. One that dies or hangs is a finding for its seed.

A process that is started anew for each program spends more time on that than on the program. So a
worker checks one seed after another; when it dies, the next one goes on. What a worker reports is
tried once more in a process of its own: a fault that only shows after other programs is one as well.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from fuzzing.check import Defect, Told, Verdict, check
from fuzzing.generate import generate
from fuzzing.isolate import SECONDS, TICKS, isolated, processor_time, tail, warm_up
from fuzzing.mend import Mended, mend
from fuzzing.ways import PLAIN, Variant, variants_of

RECYCLED = 250
"""Programs of one worker: LLVM and NumPy keep a little of each."""
MEMORY = 2 << 30
"""Bytes at which a worker has kept too much."""

Outcome = tuple[Mended | None, Verdict]
"""A legal program, if there is one, and what came out of it."""


def check_seed(seed: int, folder: Path, told: Told | None = None, callers: bool = False) -> Outcome:
    """Draws, mends and checks the program of a seed, in this process."""
    try:
        mended = mend(generate(seed), folder)
    except Exception:
        # The frontend or the simulator: their programs are drawn again for the report.
        why = " | ".join(traceback.format_exc().splitlines()[-8:])
        return Mended(generate(seed)), Verdict(Defect("simulator", PLAIN, why))
    if mended is None:
        return None, Verdict()
    try:
        return mended, check(mended.program, folder, variants_of(seed, callers), told)
    except Exception:
        why = " | ".join(traceback.format_exc().splitlines()[-8:])
        return mended, Verdict(Defect("checker", PLAIN, why), program=mended.program)


SIMULATOR = "/lowering/reference/"
"""What the stack of a process names that the simulator keeps busy."""


@dataclass
class _Worker:
    """A process and what it does now."""

    process: int
    pipe: Connection
    folder: Path
    seeds: list[int] = field(default_factory=list[int])
    """All that it was given."""
    variant: Variant = PLAIN
    spent: str = ""
    idle: int = 0

    @property
    def log(self) -> Path:
        return self.folder / "stderr"

    def give(self, seed: int) -> None:
        self.seeds.append(seed)
        self.variant, self.spent, self.idle = PLAIN, "", 0
        self.pipe.send(seed)

    def hangs(self) -> bool:
        """Called about once a second: whether the worker has done nothing for long."""
        now = processor_time(self.process)
        self.idle = self.idle + 1 if now == self.spent else 0
        self.spent = now
        return self.idle >= TICKS

    def end(self, *, kill: bool = False) -> int:
        """Waits for its end and returns its exit code."""
        if kill:
            os.kill(self.process, signal.SIGABRT)  # faulthandler shows where it was
            time.sleep(0.5)
            os.kill(self.process, signal.SIGKILL)
        self.pipe.close()
        _, status = os.waitpid(self.process, 0)
        return os.waitstatus_to_exitcode(status)


def run_seeds(
    seeds: Iterable[int], jobs: int = 1, *, callers: bool = False
) -> Iterator[tuple[int, Outcome]]:
    """The outcome of each seed, in the order in which they come."""
    warm_up()
    todo = iter(seeds)
    with tempfile.TemporaryDirectory(prefix="oifuzz") as root:
        workers: list[_Worker] = []
        try:
            for _ in range(jobs):
                seed = next(todo, None)
                if seed is not None:
                    workers.append(_started(Path(root), callers, workers))
                    workers[-1].give(seed)
            while workers:
                yield from _round(workers, todo, Path(root), callers)
        finally:
            for worker in workers:
                worker.end(kill=True)


def _round(
    workers: list[_Worker], todo: Iterator[int], root: Path, callers: bool
) -> Iterator[tuple[int, Outcome]]:
    ready = wait([worker.pipe for worker in workers], timeout=1.0)
    for worker in list(workers):
        *before, seed = worker.seeds
        outcome: Outcome | None = None
        ended = False
        if worker.pipe in ready:
            try:
                answer: Any = worker.pipe.recv()
            except (EOFError, ConnectionResetError):
                outcome, ended = _death(worker, worker.end()), True
            else:
                if isinstance(answer, Variant):
                    worker.variant = answer
                    continue
                outcome = answer[0]
                ended = answer[1] or len(worker.seeds) >= RECYCLED
                if ended:
                    worker.end()
        elif worker.hangs():
            worker.end(kill=True)
            outcome, ended = _death(worker, -signal.SIGXCPU), True
        if outcome is None:
            continue
        if ended:
            workers.remove(worker)
        following = next(todo, None)
        if following is not None:
            if ended:
                worker = _started(root, callers, workers)
                workers.append(worker)
            worker.give(following)
        elif not ended:
            workers.remove(worker)
            worker.end()
        yield seed, _confirmed(seed, outcome, before, callers)


def _death(worker: _Worker, code: int) -> Outcome:
    kind = "hang" if code == -signal.SIGXCPU else "crash"
    why = f"status {code}: {tail(worker.log)}"
    program = Mended(generate(worker.seeds[-1]))
    if kind == "hang" and SIMULATOR in why:
        # Loops of 2^40 iterations say nothing of compiled programs.
        return program, Verdict(endless=True)
    return program, Verdict(Defect(kind, worker.variant, why))


def _confirmed(seed: int, outcome: Outcome, before: list[int], callers: bool) -> Outcome:
    """The outcome of a process of its own where the worker has found a defect."""
    mended, verdict = outcome
    found = verdict.defect
    if found is None:
        return outcome
    try:
        alone: Outcome = isolated(lambda folder: check_seed(seed, folder, callers=callers))
        again = alone[1].defect
    except (RuntimeError, TimeoutError) as error:
        # It dies there too; what was found first names the way of compiling.
        return mended, Verdict(
            Defect(found.kind, found.variant, f"{found.why}; alone: {error}"),
            program=verdict.program,
        )
    if again is not None:
        return alone
    found.why = f"only after the seeds {before[-20:]}: {found.why}"
    found.alone = False
    return outcome


def _started(root: Path, callers: bool, others: list[_Worker]) -> _Worker:
    ours, theirs = Pipe()
    folder = Path(tempfile.mkdtemp(dir=root))
    process = os.fork()
    if process:
        theirs.close()
        return _Worker(process, ours, folder)
    try:
        ours.close()
        for other in others:
            # Or these would never see that the parent has closed its end.
            other.pipe.close()
        _work(theirs, folder, callers)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _work(pipe: Connection, folder: Path, callers: bool) -> None:
    """Answers seeds until there are no more."""
    # Here and not in the parent, which may be a test run with other tests to follow.
    os.environ["OPENINFER_CACHE"] = "off"
    error = os.open(folder / "stderr", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(error, 2)
    faulthandler.enable()
    faulthandler.register(signal.SIGXCPU, chain=True)
    gc.disable()
    while True:
        try:
            seed: int = pipe.recv()
        except EOFError:
            return
        os.truncate(folder / "stderr", 0)
        limit = int(time.process_time() + SECONDS) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        own = folder / str(seed)
        own.mkdir()
        outcome = check_seed(seed, own, pipe.send, callers)
        shutil.rmtree(own)
        gc.collect()
        pipe.send((outcome, _memory() > MEMORY))


def _memory() -> int:
    """Bytes that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def run_seed(seed: int, callers: bool = False) -> Outcome:
    """Checks one seed."""
    ((_, outcome),) = run_seeds([seed], callers=callers)
    return outcome
