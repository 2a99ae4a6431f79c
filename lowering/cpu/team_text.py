"""What lets several threads run one step, as LLVM IR that is written by hand: `team.ll`.

The step and its kernels call some functions of it; the host calls `openinfer_lead` and `openinfer_worker`.
It is the same in all programs, so it is never made of IR: reading it would take longer than many a small
program.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

MARK = "openinfer_team_wait"
"""The function that every shared step calls."""
STEP = "openinfer_step"
JOB = "openinfer_job"
"""What the team runs in place of the step where the lead alone runs the step, and hands out kernels."""


@dataclass(frozen=True)
class TeamText:
    """The text for one program."""

    functions: str
    """All definitions, with their comments; their attributes are those of the text's group #0."""
    declarations: Mapping[str, str]
    """The lines that declare what they call, by its names."""
    defines: frozenset[str]

    @property
    def calls(self) -> Collection[str]:
        """Names of what they call."""
        return self.declarations.keys()


def team_text(functions: Collection[str], declared: Collection[str]) -> TeamText | None:
    """The text for a program with these functions, of which some are only declared; None where it does not
    share its loops, or has a team of its own."""
    return _team_text(JOB if JOB in functions else STEP) if MARK in declared else None


@cache
def _team_text(step: str) -> TeamText:
    source = files("openinfer.lowering.cpu").joinpath("team.ll").read_text(encoding="utf-8")
    source = source.replace(f"@{STEP}", f"@{step}")
    declared = re.findall(r"^declare .*@([\w.]+)\(.*$", source, re.MULTILINE)
    lines = re.findall(r"^declare .*$", source, re.MULTILINE)
    functions = re.sub(r"^declare .*\n", "", source, flags=re.MULTILINE).strip()
    defined = re.findall(r"^define .*?@(\w+)\(", source, re.MULTILINE)
    return TeamText(functions, dict(zip(declared, lines, strict=True)), frozenset(defined))
