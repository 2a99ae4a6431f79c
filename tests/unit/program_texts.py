"""The program texts of the repository: examples, benchmarks, and those in the documentation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class ProgramText:
    """One text, and whether it is meant to be refused."""

    name: str
    text: str
    wrong: bool = False


def program_texts() -> list[ProgramText]:
    """All of them, by where they stand."""
    files = [*(REPOSITORY / "examples").rglob("*.oi"), *(REPOSITORY / "benchmarks").rglob("*.oi")]
    found = [
        ProgramText(path.relative_to(REPOSITORY).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted(files)
    ]
    for page in [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(r"^```oi ?([^\n]*)\n(.*?)^```", text, re.M | re.S):
            line = text.count("\n", 0, match.start()) + 2
            wrong = "error=" in match[1]
            found.append(ProgramText(f"{page.name}:{line}", match[2], wrong))
    return found


PROGRAM_TEXTS = program_texts()
