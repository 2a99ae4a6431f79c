"""Fuzzes whole programs for a while: `python tests/fuzz/run.py --hours 1`.

`--jobs` processes check one program after another. A failing one is written as a test file into the
folder `--out` (or OPENINFER_FUZZ_OUT), next to `report.txt` and `report.json`; when all have run, failing
ones are made small. The exit code is 1 when a defect was found.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fuzzing.check import Defect, Verdict
from fuzzing.damage import KINDS, fuzz_damage
from fuzzing.generate import FORMS, forms_of
from fuzzing.mend import Mended
from fuzzing.shrink import shrink
from fuzzing.tree import Program
from fuzzing.ways import variants_of
from fuzzing.workers import run_seeds
from fuzzing.write import write_test

from openinfer.dialects import opset
from openinfer.runtime.dtypes import DTYPES


@dataclass
class Report:
    """What a run of the fuzzer has seen."""

    first_seed: int
    callers: bool = False
    programs: int = 0
    empty: int = 0
    steps: int = 0
    compared: int = 0
    """Steps of all ways of all programs."""
    ways: Counter[str] = field(default_factory=Counter[str])
    unstable: int = 0
    endless: list[int] = field(default_factory=list[int])
    """Seeds of programs that the simulator does not finish."""
    seconds: float = 0.0
    forms: Counter[str] = field(default_factory=Counter[str])
    step_errors: Counter[str] = field(default_factory=Counter[str])
    frontend: Counter[str] = field(default_factory=Counter[str])
    """Statements that were drawn and are not legal."""
    refusals: Counter[str] = field(default_factory=Counter[str])
    examples: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    defects: list[dict[str, object]] = field(default_factory=list[dict[str, object]])

    def add(self, seed: int, mended: Mended | None, verdict: Verdict) -> None:
        if mended is None:
            self.empty += 1
            return
        self.programs += 1
        self.steps += verdict.steps
        self.compared += verdict.compared
        for variant in variants_of(seed, self.callers):
            self.ways.update(variant.tags or ["optimised"])
        self.unstable += bool(verdict.unstable)
        if verdict.endless:
            self.endless.append(seed)
        self.step_errors += verdict.codes
        self.frontend += mended.refused
        self.refusals += verdict.refusals
        for code, text in {**mended.examples, **verdict.examples}.items():
            shown = self.examples.setdefault(code, [])
            if len(shown) < 3:
                shown.append(f"seed {seed}: {text}")
        self.forms.update(forms_of((verdict.program or mended.program).text))

    def missing(self) -> list[str]:
        """Forms, ops and dtypes that no program had."""
        wanted = [*FORMS, *(f"op {n}" for n in opset.names()), *(f"dtype {d}" for d in DTYPES)]
        return [name for name in wanted if not self.forms[name]]

    def as_dict(self) -> dict[str, object]:
        return {
            "first_seed": self.first_seed,
            "programs": self.programs,
            "programs_that_vanished": self.empty,
            "steps": self.steps,
            "compared": self.compared,
            "ways": dict(self.ways.most_common()),
            "programs_with_unstable_steps": self.unstable,
            "seeds_that_the_simulator_does_not_finish": self.endless,
            "seconds": round(self.seconds, 1),
            "forms": dict(sorted(self.forms.items())),
            "forms_missing": self.missing(),
            "failing_steps_by_code": dict(self.step_errors.most_common()),
            "statements_not_legal_by_code": dict(self.frontend.most_common()),
            "refusals_by_code": dict(self.refusals.most_common()),
            "examples": self.examples,
            "defects": self.defects,
        }

    def text(self) -> str:
        def listed(counter: Counter[str]) -> str:
            return ", ".join(f"{k} {n}" for k, n in counter.most_common()) or "none"

        lines = [
            f"{self.programs} programs, {self.steps} steps in {self.seconds:.0f} s from seed "
            f"{self.first_seed} ({60 * self.programs / max(self.seconds, 1e-9):.0f} programs a "
            f"minute); {self.compared} steps compared; {self.unstable} programs with steps that "
            "rounding decides",
            f"ways: {listed(self.ways)}",
            f"forms: {len(self.forms)}; never drawn: {', '.join(self.missing()) or 'none'}",
            f"failing steps, alike on both sides: {listed(self.step_errors)}",
            f"statements that were not legal: {listed(self.frontend)}",
            f"refused by the compiler: {listed(self.refusals)}",
            f"not finished by the simulator: {', '.join(map(str, self.endless)) or 'none'}",
            f"defects: {len(self.defects)}",
        ]
        for defect in self.defects:
            lines.append(f"  seed {defect['seed']} {defect['kind']}: {defect['why']}")
        return "\n".join(lines) + "\n"

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.txt").write_text(self.text())
        (folder / "report.json").write_text(json.dumps(self.as_dict(), indent=1) + "\n")


@dataclass
class _Found:
    """A failing program whose test is written."""

    seed: int
    program: Program
    defect: Defect


def fuzz(
    first: int,
    *,
    count: int | None,
    seconds: float | None,
    out: Path,
    shrink_seconds: float,
    jobs: int = 1,
    callers: bool = False,
) -> Report:
    """Runs seeds from `first` on until the count or the time is reached."""
    report = Report(first, callers)
    found: list[_Found] = []
    begin = time.monotonic()

    def seeds() -> Iterator[int]:
        seed = first
        while (count is None or seed < first + count) and (
            seconds is None or time.monotonic() - begin < seconds
        ):
            yield seed
            seed += 1

    for number, (seed, (mended, verdict)) in enumerate(run_seeds(seeds(), jobs, callers=callers)):
        report.add(seed, mended, verdict)
        report.seconds = time.monotonic() - begin
        if verdict.defect is not None and mended is not None:
            program = verdict.program or mended.program
            found.append(_Found(seed, program, verdict.defect))
            _note(report, found[-1], out)
        if number % 20 == 0 or verdict.defect is not None:
            report.write(out)
    report.write(out)
    for one in found if shrink_seconds > 0 else []:
        if one.defect.alone and one.defect.kind not in ("simulator", "checker"):
            one.program, verdict = shrink(one.program, one.defect, shrink_seconds)
            one.defect = verdict.defect or one.defect
            write_test(one.program, one.defect, out)
    return report


def _note(report: Report, one: _Found, out: Path) -> None:
    path = write_test(one.program, one.defect, out)
    report.defects.append(
        {
            "seed": one.seed,
            "kind": one.defect.kind,
            "variant": one.defect.variant.name,
            "why": one.defect.why[:400],
            "file": path.name,
        }
    )


def main(args: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, help="how long; without it, --count programs")
    parser.add_argument("--count", type=int, help="how many programs (default 100)")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("OPENINFER_FUZZ_SEED", "0")))
    parser.add_argument("--shrink", type=float, default=120.0, help="seconds per failing program")
    parser.add_argument(
        "--out", type=Path, default=Path(os.environ.get("OPENINFER_FUZZ_OUT", "fuzz-out"))
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument(
        "--callers", action="store_true", help="Python threads may share an executor"
    )
    parser.add_argument(
        "--kind",
        choices=("programs", *KINDS),
        default="programs",
        help="programs, or damaged input for one of the readers",
    )
    given = parser.parse_args(args)
    if given.kind != "programs":
        seconds = given.hours * 3600 if given.hours else None
        count = given.count if given.count or seconds else 100
        damaged = fuzz_damage(given.kind, given.seed, count, seconds)
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / f"{given.kind}.txt").write_text(damaged.text())
        sys.stdout.write(damaged.text())
        return 1 if damaged.defects else 0
    count = given.count if given.count or given.hours else 100
    seconds = given.hours * 3600 if given.hours else None
    report = fuzz(
        given.seed,
        count=count,
        seconds=seconds,
        out=given.out,
        shrink_seconds=given.shrink,
        jobs=given.jobs,
        callers=given.callers,
    )
    sys.stdout.write(report.text())
    return 1 if report.defects else 0


if __name__ == "__main__":
    sys.exit(main())
