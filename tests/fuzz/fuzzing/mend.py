"""Takes out of a drawn program what is not legal, and what lets too many of its steps fail."""

from __future__ import annotations

import math
import signal
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import openinfer as oi
from fuzzing.runs import Seen, seen_steps, simulated
from fuzzing.tree import Block, Declaration, Node, Program
from openinfer.lowering.reference.contents import Contents
from openinfer.runtime.sizes import MAX_SIZE
from openinfer.runtime.storage import AnyArray

ROUNDS = 60
LONG = 4.0
"""Seconds of processor time: a program that the simulator takes longer for is left out. Errors are
measured by running it a dozen times more."""
LARGE = 1 << 28
"""Elements: programs with larger values that a memory may hold are left out as well."""


@dataclass
class Mended:
    """A legal program, with what was taken out of it."""

    program: Program
    refused: Counter[str] = field(default_factory=Counter[str])
    """How many parts were not legal, by code."""
    examples: dict[str, str] = field(default_factory=dict[str, str])


class _TooMuch(BaseException):
    """Nobody on the way takes it for an error of the program."""


@contextmanager
def _limited(seconds: float, elements: int) -> Generator[None]:
    """Raises _TooMuch inside of it after so many seconds of processor time, or for a larger value."""

    def end(*_: object) -> None:
        raise _TooMuch

    def zeros(dtype: str, shape: Sequence[int]) -> AnyArray:
        if elements < math.prod(shape) <= MAX_SIZE:
            raise _TooMuch
        return plain(dtype, shape)

    plain = Contents.zeros
    Contents.zeros = staticmethod(zeros)
    old = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        try:
            signal.setitimer(signal.ITIMER_PROF, 0)
        finally:  # The timer, which fires once, can do so between the end of the block and this.
            signal.signal(signal.SIGPROF, old)
            Contents.zeros = staticmethod(plain)


def mend(program: Program, folder: Path) -> Mended | None:
    """The program without what the frontend refuses; None when nothing is left of it, or when it
    takes too long or too much memory."""
    found = Mended(program.copy())
    for _ in range(ROUNDS):
        try:
            make = simulated(found.program, folder)
        except oi.ProgramError as error:
            if not _take_out(found, error):
                return None
            continue
        except oi.InputError:
            return None
        try:
            with _limited(LONG, LARGE):
                steps = seen_steps(make, found.program)
        except _TooMuch:
            return None
        if not _calm(found.program, steps):
            return found
    return None


def take_out(program: Program, error: oi.ProgramError) -> bool:
    """Removes the parts that the errors of a program speak of; whether there were any."""
    return _take_out(Mended(program), error)


def _take_out(found: Mended, error: oi.ProgramError) -> bool:
    parts: list[tuple[str, str, Node | Declaration | Block]] = []
    for diagnostic in error.diagnostics:
        if diagnostic.severity != "error" or diagnostic.location is None:
            continue
        part = found.program.part_at(diagnostic.location.line)
        if part is not None:
            parts.append((diagnostic.code, diagnostic.message, part))
    changed = False
    for code, message, part in parts:
        if isinstance(part, Block) and (part.name == "entry" or part.begin is None):
            if part.end == "return;":
                continue
            part.end = "return;"
            changed = True
        else:
            shown = part.text if isinstance(part, Node | Declaration) else part.name
            if found.program.remove(part):
                changed = True
                found.refused[code] += 1
                found.examples.setdefault(code, f"{shown}: {message}")
    return changed


def _calm(program: Program, steps: list[Seen]) -> bool:
    """Removes the node that most steps fail at, when many fail; whether it did."""
    ran = [s for s, step in zip(steps, program.steps) if step.action == "run"]
    failed = [s for s in ran if s.code]
    if len(failed) <= max(1, len(ran) // 3) and len(failed) < len(ran):
        return False
    lines = Counter(s.line for s in failed if s.line)
    if not lines:
        return False
    part = program.part_at(lines.most_common(1)[0][0])
    return part is not None and not isinstance(part, Block) and program.remove(part)
