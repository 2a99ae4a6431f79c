"""Compiles a program in several ways and compares each with the simulator, step by step."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openinfer as oi
from fuzzing.compare import Unstable, difference, other_bits
from fuzzing.flushed import flushing
from fuzzing.mend import take_out
from fuzzing.noise import noisy
from fuzzing.resume import resuming
from fuzzing.runs import STATE_LIMIT, Make, Seen, seen_calls, seen_steps, simulated
from fuzzing.tree import Program
from fuzzing.ways import Variant
from openinfer.compiler import passes
from openinfer.compiler.api import compile as compile_program
from openinfer.runtime.devices.cpu import compilation, linking
from openinfer.runtime.devices.cpu.native_call import INTERRUPTED, OBSERVER
from openinfer.runtime.devices.cpu.support import check_target
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.program import Program as Compiled

NOISY = 2
"""Simulations with errors where a step differs; where they do not explain it, more follow."""
MORE = 12
REFUSALS = 8
"""Statements that the compiler may refuse before a program is given up."""


@dataclass
class Defect:
    """Something that is wrong."""

    kind: str
    """"compile", "value", "code", "bits", "run", "crash", "hang": what shrinking must keep."""
    variant: Variant
    why: str
    alone: bool = True
    """Whether the program fails in a process of its own, too."""


@dataclass
class Verdict:
    """What came out of one program."""

    defect: Defect | None = None
    steps: int = 0
    compared: int = 0
    """Steps of compiled programs that were held against the simulator or an equal build."""
    codes: Counter[str] = field(default_factory=Counter[str])
    """Errors of steps, on which both sides agree."""
    refusals: Counter[str] = field(default_factory=Counter[str])
    """Errors of the compiler for programs that the simulator runs."""
    examples: dict[str, str] = field(default_factory=dict[str, str])
    unstable: str = ""
    """Why nothing was compared from some step on."""
    endless: bool = False
    """Whether the simulator does not come to an end, so that nothing is compared."""
    program: Program | None = None
    """What was compared: without the statements that the compiler refuses."""


Told = Callable[[Variant], None]
"""Called before a way is tried, so that somebody knows it when the process dies."""


def check(
    program: Program, folder: Path, variants: list[Variant], told: Told | None = None
) -> Verdict:
    """Runs the program everywhere and compares all that can be seen."""
    verdict = Verdict(program=program.copy())
    for _ in range(REFUSALS):
        assert verdict.program is not None
        found = _Check(verdict.program, folder, verdict, told)
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
    def __init__(self, program: Program, folder: Path, verdict: Verdict, told: Told | None) -> None:
        self.program = program
        self.folder = folder
        self.verdict = verdict
        self.told = told
        self.model = program.package(folder)
        self.make: Make = simulated(program, folder)
        self.programs: dict[tuple[object, ...], Compiled] = {}
        self.exact: dict[bool, list[Seen]] = {}
        """What the simulator does, plain and iterated."""
        self.samples: dict[tuple[bool, ...], list[list[Seen]]] = {}

    def run(self, variants: list[Variant]) -> oi.OpenInferError | None:
        """Fills the verdict; returns what the compiler refuses."""
        results: dict[tuple[object, ...], tuple[Variant, list[Seen]]] = {}
        for variant in variants:
            if self.told is not None:
                self.told(variant)
            want = self._exact(variant.iterated)
            try:
                program = self._compiled(variant)
            except (oi.UnsupportedError, oi.ProgramError) as error:
                return error
            except Exception as error:
                self._defect("compile", variant, _blame(error))
                return None
            try:
                with _verified(False), _quick(variant.quick):
                    have = self._run(program, variant, want)
            except (oi.UnsupportedError, oi.ProgramError) as error:
                return error
            except Exception as error:
                self._defect("run", variant, _blame(error))
                return None
            if have is None:
                continue
            first = results.setdefault(variant.build, (variant, have))
            if first[0] is variant:
                self._compare(variant, want, have)
            else:
                self._same_bits(variant, have, *first)
            if self.verdict.defect is not None:
                return None
            self.verdict.compared += sum(seen.stepped for seen in have)
        self.verdict.steps = sum(step.action == "run" for step in self.program.steps)
        self.verdict.codes.update(s.code for s in self._exact(variants[0].iterated) if s.code)
        return None

    def _exact(self, iterated: bool) -> list[Seen]:
        if iterated not in self.exact:
            self.exact[iterated] = seen_steps(self.make, self.program, iterated=iterated)
        return self.exact[iterated]

    def _compiled(self, variant: Variant) -> Compiled:
        key = (*variant.build, variant.resumed)
        if key not in self.programs:
            options: Any = dict(variant.options)
            verified = _verified(not self.programs or variant.resumed)
            with verified, resuming(variant.resumed), _quick(variant.quick):
                self.programs[key] = compile_program(self.program.text, self.model, **options)
        return self.programs[key]

    def _run(self, program: Compiled, variant: Variant, want: list[Seen]) -> list[Seen] | None:
        """What a compiled program does; None for one that this processor cannot run."""
        if variant.saved:
            path = self.folder / "program.oip"
            program.save(path)
            program = oi.load(path, self.model)
        trace = True if variant.traced else None

        def make() -> BaseExecutor:
            return program.make_executor(variant.threads, max_state_bytes=STATE_LIMIT, trace=trace)

        if foreign(program):
            linking.load_objects(program.objects, ["openinfer_step"], {OBSERVER: 8, INTERRUPTED: 8})
            return None
        if variant.callers > 1:
            return seen_calls(make, self.program, variant.callers)
        return seen_steps(make, self.program, iterated=variant.iterated, restored=want)

    def _defect(self, kind: str, variant: Variant, why: str) -> None:
        self.verdict.defect = Defect(kind, variant, why)

    def _compare(self, variant: Variant, want: list[Seen], have: list[Seen]) -> None:
        """Equal steps need no measure; for others errors say how far they may be off."""
        why = self._first_difference(want, have, [], variant.iterated)
        bf16 = variant.options.get("precision") == "bf16"
        device = "device" in variant.options
        key = (variant.iterated, bf16, device, variant.flushes)
        if why is not None:
            if key not in self.samples:
                self.samples[key] = [
                    self._sample(n, variant.iterated, bf16, device=device) for n in range(NOISY)
                ]
                if variant.flushes:
                    with flushing():
                        found = seen_steps(self.make, self.program, iterated=variant.iterated)
                    self.samples[key].append(found)
            why = self._first_difference(want, have, self.samples[key], variant.iterated)
        if why is not None:
            self.samples[key] += [
                self._sample(NOISY + n, variant.iterated, bf16, 2.0 ** (n % 4), device=device)
                for n in range(MORE)
            ]
            why = self._first_difference(want, have, self.samples[key], variant.iterated)
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

    def _sample(
        self, number: int, iterated: bool, bf16: bool, scale: float = 1.0, *, device: bool
    ) -> list[Seen]:
        with noisy(self.program.seed * 100 + number, scale, bf16=bf16, device=device):
            return seen_steps(self.make, self.program, iterated=iterated)

    def _same_bits(
        self, variant: Variant, have: list[Seen], first: Variant, want: list[Seen]
    ) -> None:
        """One build gives the same bits, however it is run."""
        for number, (left, right) in enumerate(zip(want, have)):
            why = other_bits(number, left, right)
            if why is not None:
                self._defect("bits", variant, f"{variant.name} and {first.name}: {why}")
                return


def foreign(program: Compiled) -> bool:
    """Whether a program is for a processor with more than this one has: then it is linked only."""
    try:
        check_target(program.manifest.target)
    except oi.ArtefactError:
        return True
    return False


@contextmanager
def _verified(on: bool) -> Generator[None]:
    """Whether the IR is verified between phases, which takes a third of the time: once is enough."""
    checked = passes.check_module
    if not on:
        passes.check_module = lambda module: None
    try:
        yield
    finally:
        passes.check_module = checked


@contextmanager
def _quick(on: bool) -> Generator[None]:
    """With LLVM's least effort: what it does for the code's speed is half of a compilation."""
    full = compilation.run_passes, compilation.CODEGEN_LEVEL
    if on:
        compilation.run_passes, compilation.CODEGEN_LEVEL = lambda *_: None, 0
    try:
        yield
    finally:
        compilation.run_passes, compilation.CODEGEN_LEVEL = full


def _blame(error: Exception) -> str:
    """An exception with the innermost places of our own code."""
    frames = traceback.extract_tb(error.__traceback__)
    cause = error.__cause__
    while cause is not None:
        frames = traceback.extract_tb(cause.__traceback__)
        cause = cause.__cause__
    places = [f"{f.filename.rpartition('openinfer/')[2]}:{f.lineno} {f.name}" for f in frames[-4:]]
    return f"{type(error).__name__}: {error} [{' < '.join(reversed(places))}]"
