"""Takes out of a drawn program what is not legal, and what lets too many of its steps fail."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import openinfer as oi
from fuzzing.runs import Seen, seen_steps, simulated
from fuzzing.tree import Block, Declaration, Node, Program

ROUNDS = 60
LONG = 4.0
"""Seconds of processor time: a program that the simulator takes longer for is left out. Errors are
measured by running it a dozen times more."""


@dataclass
class Mended:
    """A legal program, with what was taken out of it."""

    program: Program
    refused: Counter[str] = field(default_factory=Counter[str])
    """How many parts were not legal, by code."""
    examples: dict[str, str] = field(default_factory=dict[str, str])


class _TooLong(BaseException):
    """Nobody on the way takes it for an error of the program."""


@contextmanager
def _ended_after(seconds: float) -> Generator[None]:
    """Raises _TooLong inside of it after so many seconds of processor time."""

    def end(*_: object) -> None:
        raise _TooLong

    old = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, old)


def mend(program: Program, folder: Path) -> Mended | None:
    """The program without what the frontend refuses; None when nothing is left of it, or when its loops
    run too long."""
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
            with _ended_after(LONG):
                steps = seen_steps(make, found.program)
        except _TooLong:
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
