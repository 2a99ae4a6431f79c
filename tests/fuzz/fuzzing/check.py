"""Compiles a program in several ways and compares each with the simulator, step by step."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openinfer as oi
from fuzzing.compare import Unstable, difference
from fuzzing.mend import take_out
from fuzzing.noise import noisy
from fuzzing.runs import STATE_LIMIT, Make, Seen, seen_steps, simulated
from fuzzing.tree import Program
from openinfer.compiler import pipeline
from openinfer.compiler.api import compile as compile_program
from openinfer.runtime.program import Program as Compiled

NOISY = 2
"""Simulations with errors, at first; where they do not explain a difference, more follow."""
MORE = 12
REFUSALS = 8
"""Statements that the compiler may refuse before a program is given up."""


@dataclass(frozen=True)
class Variant:
    """One way of compiling and running."""

    name: str
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    threads: int = 1
    iterated: bool = False
    saved: bool = False
    """Saved to a file and loaded from it."""


PLAIN = Variant("optimised")
TEAM = Variant("2 threads", threads=2)
VARIANTS = (
    PLAIN,
    TEAM,
    Variant("not optimised", {"optimise": False}),
    Variant("not optimised, 2 threads", {"optimise": False}, threads=2),
    Variant("watched", iterated=True),
    Variant("for generic", {"target": "generic"}),
    Variant("for avx2", {"target": "avx2"}),
    Variant("for avx512", {"target": "avx512"}),
    Variant("strict math", {"strict_math": True}),
    Variant("saved", saved=True, threads=2),
)


def variants_of(seed: int) -> list[Variant]:
    """The ways in which the program of a seed is run: a few each, all over some seeds."""
    found = {
        0: [PLAIN, TEAM],
        1: [PLAIN, VARIANTS[2 if seed % 8 == 1 else 3]],
        2: [TEAM, VARIANTS[4]],
        3: [VARIANTS[5 + seed // 4 % 5]],
    }[seed % 4]
    return found if seed % 16 else [*found, VARIANTS[2], VARIANTS[4]]


@dataclass
class Defect:
    """Something that is wrong."""

    kind: str
    """"compile", "value", "code", "crash", "hang", "threads": what shrinking must keep."""
    variant: Variant
    why: str


@dataclass
class Verdict:
    """What came out of one program."""

    defect: Defect | None = None
    steps: int = 0
    codes: Counter[str] = field(default_factory=Counter[str])
    """Errors of steps, on which both sides agree."""
    refusals: Counter[str] = field(default_factory=Counter[str])
    """Errors of the compiler for programs that the simulator runs."""
    examples: dict[str, str] = field(default_factory=dict[str, str])
    unstable: str = ""
    """Why nothing was compared from some step on."""
    program: Program | None = None
    """What was compared: without the statements that the compiler refuses."""


def check(program: Program, folder: Path, variants: list[Variant]) -> Verdict:
    """Runs the program everywhere and compares all that can be seen."""
    verdict = Verdict(program=program.copy())
    for _ in range(REFUSALS):
        assert verdict.program is not None
        found = _Check(verdict.program, folder, verdict)
        refused = found.run(variants)
        if refused is None or verdict.defect is not None:
            return verdict
        verdict.refusals[refused.code] += 1
        verdict.examples.setdefault(refused.code, str(refused))
        if not isinstance(refused, oi.ProgramError) or not take_out(verdict.program, refused):
            return verdict
        try:
            simulated(verdict.program, folder)
        except oi.OpenInferError:
            return verdict
    return verdict


class _Check:
    def __init__(self, program: Program, folder: Path, verdict: Verdict) -> None:
        self.program = program
        self.folder = folder
        self.verdict = verdict
        self.model = program.package(folder)

    def run(self, variants: list[Variant]) -> oi.OpenInferError | None:
        """Fills the verdict; returns what the compiler refuses."""
        make = simulated(self.program, self.folder)
        self.make = make
        self.samples: dict[bool, list[list[Seen]]] = {}
        first: dict[bool, list[Seen]] = {}
        programs: dict[tuple[tuple[str, object], ...], Compiled] = {}
        results: dict[str, list[Seen]] = {}
        for variant in variants:
            if variant.iterated not in first:
                first[variant.iterated] = self._simulate(make, variant.iterated)
            want = first[variant.iterated]
            key = tuple(variant.options.items())
            try:
                if key not in programs:
                    options: Any = dict(variant.options)
                    with _verified(not programs):
                        programs[key] = compile_program(self.program.text, self.model, **options)
            except (oi.UnsupportedError, oi.ProgramError) as error:
                return error
            except Exception as error:
                self._defect("compile", variant, _blame(error))
                return None
            try:
                with _verified(False):
                    have = self._run(programs[key], variant, want)
            except (oi.UnsupportedError, oi.ProgramError) as error:
                return error
            except Exception as error:
                self._defect("run", variant, _blame(error))
                return None
            self._compare(variant, want, have)
            if self.verdict.defect is not None:
                return None
            results[variant.name] = have
            if variant is TEAM and PLAIN.name in results:
                self._same_bits(variant, results[PLAIN.name], have)
                if self.verdict.defect is not None:
                    return None
        self.verdict.steps = sum(step.action == "run" for step in self.program.steps)
        self.verdict.codes.update(seen.code for seen in first.get(False, []) if seen.code)
        return None

    def _simulate(self, make: Make, iterated: bool) -> list[Seen]:
        return seen_steps(make, self.program, iterated=iterated)

    def _run(self, program: Compiled, variant: Variant, want: list[Seen]) -> list[Seen]:
        if variant.saved:
            path = self.folder / "program.oic"
            program.save(path)
            program = oi.load(path, self.model)
        return seen_steps(
            lambda: program.make_executor(variant.threads, max_state_bytes=STATE_LIMIT),
            self.program,
            iterated=variant.iterated,
            restored=want,
        )

    def _defect(self, kind: str, variant: Variant, why: str) -> None:
        self.verdict.defect = Defect(kind, variant, why)

    def _compare(self, variant: Variant, want: list[Seen], have: list[Seen]) -> None:
        iterated = variant.iterated
        if iterated not in self.samples:
            self.samples[iterated] = [self._sample(n, iterated) for n in range(NOISY)]
        why = self._first_difference(want, have, self.samples[iterated], iterated)
        if why is not None:
            more = [self._sample(NOISY + n, iterated, 1 + n % 4) for n in range(MORE)]
            self.samples[iterated] += more
            why = self._first_difference(want, have, self.samples[iterated], iterated)
        if why is not None:
            kind = "code" if " instead of " in why and "(" in why.split(":")[1][:12] else "value"
            self._defect(kind, variant, f"{variant.name}: {why}")

    def _first_difference(
        self, want: list[Seen], have: list[Seen], samples: list[list[Seen]], iterated: bool
    ) -> str | None:
        for number, (left, right) in enumerate(zip(want, have)):
            others = [sample[number] for sample in samples]
            try:
                why = difference(number, left, others, right, iterated=iterated)
            except Unstable as reason:
                self.verdict.unstable = str(reason)
                return None
            if why is not None:
                return why
        return None

    def _sample(self, number: int, iterated: bool, scale: float = 1.0) -> list[Seen]:
        with noisy(self.program.seed * 100 + number, scale):
            return seen_steps(self.make, self.program, iterated=iterated)

    def _same_bits(self, variant: Variant, one: list[Seen], two: list[Seen]) -> None:
        """Any number of threads gives the same bits."""
        for number, (left, right) in enumerate(zip(one, two)):
            why = difference(number, left, [], right)
            if why is not None:
                self._defect("threads", variant, f"{variant.name} and 1 thread: {why}")
                return


@contextmanager
def _verified(on: bool) -> Generator[None]:
    """Whether the IR is verified between phases, which takes a third of the time: once is enough."""
    checked = pipeline.check_module
    if not on:
        pipeline.check_module = lambda module: None
    try:
        yield
    finally:
        pipeline.check_module = checked


def _blame(error: Exception) -> str:
    """An exception with the innermost places of our own code."""
    frames = traceback.extract_tb(error.__traceback__)
    cause = error.__cause__
    while cause is not None:
        frames = traceback.extract_tb(cause.__traceback__)
        cause = cause.__cause__
    places = [f"{f.filename.rpartition('openinfer/')[2]}:{f.lineno} {f.name}" for f in frames[-4:]]
    return f"{type(error).__name__}: {error} [{' < '.join(reversed(places))}]"
