"""Runs one program in a process of its own, so that a crash or a hang is a finding like others."""

from __future__ import annotations

import faulthandler
import os
import pickle
import select
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzzing.check import PLAIN, Defect, Variant, Verdict, check, variants_of
from fuzzing.generate import generate
from fuzzing.mend import Mended, mend
from fuzzing.tree import Program

SECONDS = 120.0
"""A program that takes longer hangs, or takes far too long to compile."""


def isolated(work: Callable[[Path], Any], seconds: float = SECONDS) -> Any:
    """What `work` returns in a forked process with a folder of its own.

    Raises RuntimeError for a process that died, TimeoutError for one that did not end.
    """
    read, write = os.pipe()
    with tempfile.TemporaryDirectory(prefix="oifuzz") as folder:
        log = Path(folder) / "stderr"
        child = os.fork()
        if child == 0:
            os.close(read)
            _child(work, Path(folder), log, write)
        os.close(write)
        data = b""
        try:
            data = _all_of(read, time.monotonic() + seconds)
        except TimeoutError:
            os.kill(child, signal.SIGABRT)  # faulthandler shows where it was
            time.sleep(0.2)
            os.kill(child, signal.SIGKILL)
            raise TimeoutError(_tail(log)) from None
        finally:
            os.close(read)
            _, status = os.waitpid(child, 0)
        if not data:
            raise RuntimeError(f"status {os.waitstatus_to_exitcode(status)}: {_tail(log)}")
    good, result = pickle.loads(data)
    if not good:
        raise AssertionError(result)
    return result


def _child(work: Callable[[Path], Any], folder: Path, log: Path, write: int) -> None:
    """Never returns."""
    try:
        error = os.open(log, os.O_CREAT | os.O_WRONLY)
        os.dup2(error, 2)
        faulthandler.enable()
        os.environ["OPENINFER_CACHE"] = "off"
        try:
            answer = (True, work(folder))
        except BaseException:
            answer = (False, traceback.format_exc())
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(answer, pipe)
    finally:
        os._exit(0)


def _all_of(read: int, end: float) -> bytes:
    parts: list[bytes] = []
    while True:
        left = end - time.monotonic()
        if left <= 0 or not select.select([read], [], [], left)[0]:
            raise TimeoutError
        part = os.read(read, 1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)


def _tail(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return " | ".join(line.strip() for line in lines[:14])


def run_seed(seed: int) -> tuple[Mended | None, Verdict]:
    """Draws, mends and checks the program of a seed."""

    def drawn(folder: Path) -> Mended | None:
        return mend(generate(seed), folder)

    try:
        mended = isolated(drawn)
    except (RuntimeError, TimeoutError, AssertionError) as error:
        # The frontend or the simulator: their programs are drawn again for the report.
        return Mended(generate(seed)), Verdict(Defect("simulator", PLAIN, str(error)))
    if mended is None:
        return None, Verdict()
    variants = variants_of(seed)
    verdict = run_program(mended.program, variants)
    if verdict.defect is not None and verdict.defect.kind in ("crash", "hang"):
        for variant in variants:
            alone = run_program(mended.program, [variant])
            if alone.defect is not None and alone.defect.kind == verdict.defect.kind:
                return mended, alone
    return mended, verdict


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
