"""What else is wrong with a program whose text has mistakes: shapes, and what the model contradicts.

The rules that need the model look at the sound part of the program (`frontend/sound_part.py`). Only what
does not follow from something being left out is said: a missing block or variable may have been there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from openinfer.compiler.diagnostics import render
from openinfer.lowering.graph.infer_types import with_types
from openinfer.lowering.program.check import check_program
from openinfer.lowering.program.view import ProgramView
from openinfer.runtime.errors import Diagnostic, InputError, ProgramError

if TYPE_CHECKING:
    from openinfer.compiler.frontend import ParseResult
    from openinfer.runtime.packages.base import Package

_SAID = frozenset(
    f"OI0{number}"
    for number in (
        283,
        284,
        285,
        304,
        305,
        306,
        307,
        309,
        312,
        320,
        321,
        322,
        323,
        325,
        326,
        327,
        329,
    )
)
"""The codes that say something about the statement or declaration itself."""


def all_mistakes(
    result: ParseResult, package: Package | None, sizes: Mapping[str, int]
) -> ProgramError:
    """The error of a program with mistakes in its text, with what the model says of the rest."""
    found = list(result.diagnostics)
    found += [p for p in _of_sound_part(result, package, sizes) if p.code in _SAID]
    found.sort(key=lambda d: (d.location.line, d.location.column) if d.location else (0, 0))
    return ProgramError(found, render(found, {result.source.file: result.source.text}))


def _of_sound_part(
    result: ParseResult, package: Package | None, sizes: Mapping[str, int]
) -> list[Diagnostic]:
    part = result.make_sound_part()
    if part is None:
        return []
    try:
        module = with_types(part, package, sizes)
        return check_program(module, ProgramView.of(module, package, sizes))
    except ProgramError as error:
        return error.diagnostics
    except InputError:
        # A size that was given may have been named in what was left out.
        return []
