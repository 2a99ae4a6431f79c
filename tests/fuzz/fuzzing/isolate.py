"""Runs one program in a process of its own, so that a crash or a hang is a finding like others."""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import resource
import select
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fuzzing.check import Defect, Verdict, check
from fuzzing.tree import Program
from fuzzing.ways import Variant
from openinfer.compiler.api import compile as compile_program

SECONDS = 150.0
"""Processor time: a program that takes more hangs, or takes far too long to compile."""
TICKS = 60
"""Seconds in which this process runs and the other one does nothing: it hangs. A machine that
stops everything for a while, or has other things to do, ends no program."""


def isolated(work: Callable[[Path], Any], seconds: float = SECONDS) -> Any:
    """What `work` returns in a forked process with a folder of its own.

    Raises RuntimeError for a process that died, TimeoutError for one that did not end.
    """
    warm_up()
    read, write = os.pipe()
    with tempfile.TemporaryDirectory(prefix="oifuzz") as folder:
        log = Path(folder) / "stderr"
        child = os.fork()
        if child == 0:
            os.close(read)
            _child(work, Path(folder), log, write, seconds)
        os.close(write)
        data = None
        try:
            data = _all_of(read, child)
            if data is None:
                os.kill(child, signal.SIGABRT)  # faulthandler shows where it was
                time.sleep(0.5)
                os.kill(child, signal.SIGKILL)
        finally:
            os.close(read)
            _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if data is None or code == -signal.SIGXCPU:
            raise TimeoutError(tail(log))
        if not data:
            raise RuntimeError(f"status {code}: {tail(log)}")
    good, result = pickle.loads(data)
    if not good:
        raise AssertionError(result)
    return result


@cache
def warm_up() -> None:
    """Imports what compiling and running import where they need it, once for all processes."""
    text = "dynamic { x: f32[N]; } block entry { assign y: f32[N]; op exp(x) >> y; return y; }"
    for optimise in (True, False):
        program = compile_program(text, optimise=optimise)
        with program.make_executor(1) as executor:
            executor.insert(x=np.zeros(3, np.float32))
            for _ in executor.iterate():
                pass
    gc.collect()
    gc.freeze()


def _child(
    work: Callable[[Path], Any], folder: Path, log: Path, write: int, seconds: float
) -> None:
    """Never returns."""
    try:
        gc.disable()
        # Here and not in the parent, which may be a test run with other tests to follow.
        os.environ["OPENINFER_CACHE"] = "off"
        error = os.open(log, os.O_CREAT | os.O_WRONLY)
        os.dup2(error, 2)
        faulthandler.enable()
        faulthandler.register(signal.SIGXCPU, chain=True)
        limit = int(seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 10))
        try:
            answer = (True, work(folder))
        except BaseException:
            answer = (False, traceback.format_exc())
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(answer, pipe)
    finally:
        os._exit(0)


def _all_of(read: int, child: int) -> bytes | None:
    """Everything that comes; None when it does not come to an end."""
    parts: list[bytes] = []
    idle, spent = 0, ""
    while idle < TICKS:
        while select.select([read], [], [], 1.0)[0]:
            part = os.read(read, 1 << 20)
            if not part:
                return b"".join(parts)
            parts.append(part)
        now = processor_time(child)
        idle = idle + 1 if now == spent else 0
        spent = now
    return None


def processor_time(process: int) -> str:
    """What a process has used so far, with all its threads, as the system writes it."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return " ".join(fields[11:13])


def tail(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return " | ".join(line.strip() for line in lines[:14])


def run_program(program: Program, variants: list[Variant], seconds: float = SECONDS) -> Verdict:
    """Checks a program in a process of its own."""
    try:
        return isolated(lambda folder: check(program, folder, variants), seconds)
    except RuntimeError as error:
        return Verdict(Defect("crash", variants[-1], str(error)), program=program)
    except TimeoutError as error:
        return Verdict(Defect("hang", variants[-1], str(error)), program=program)
    except AssertionError as error:
        return Verdict(Defect("checker", variants[-1], str(error)), program=program)
