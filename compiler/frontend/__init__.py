"""The frontend: `.oi` text → `graph` dialect, with every error of the text reported."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from xdsl.dialects.builtin import ModuleOp

from openinfer.compiler.diagnostics import render
from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.check import checked_module
from openinfer.compiler.frontend.parser import parse
from openinfer.compiler.frontend.printer import print_program
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.sound_part import sound_part
from openinfer.compiler.frontend.source import Source
from openinfer.lowering.program.expansion import blocks_of, expansion_problems
from openinfer.runtime.errors import Diagnostic, ProgramError
from openinfer.runtime.quick_dataclass import dataclass

__all__ = ["ParseResult", "parse_program", "parse_text", "print_program"]


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class ParseResult:
    """What came out of a program text."""

    module: ModuleOp | None
    """None when there are errors."""
    diagnostics: list[Diagnostic]
    """Errors and warnings in text order."""
    source: Source
    make_sound_part: Callable[[], ModuleOp | None] = _nothing
    """Makes what is left of a program with errors when they are taken out."""

    @property
    def errors(self) -> list[Diagnostic]:
        return [d for d in self.diagnostics if d.severity == "error"]

    def render(self) -> str:
        """All diagnostics as a person reads them, with source lines and carets."""
        return render(self.diagnostics, {self.source.file: self.source.text})


def parse_text(text: str, file: str = "<string>", strict: bool = False) -> ParseResult:
    """Reads, checks and builds a program; never raises for a bad text.

    With `strict`, unknown hints and attributes are errors instead of warnings.
    """
    source = Source(text, file)
    report = Report(strict, source=source)
    program = parse(source, report)
    return checked(program, report)


def checked(program: syntax.Program, report: Report) -> ParseResult:
    """What comes of a program that was read, from whatever text."""
    module, places = checked_module(program, report)
    if report.errors:
        sound = partial(sound_part, module, report, places)
        return ParseResult(None, report.sorted(), report.source, sound)
    if problems := expansion_problems(blocks_of(module)):
        return ParseResult(None, [*report.sorted(), *problems], report.source)
    return ParseResult(module, report.sorted(), report.source)


def parse_program(text: str, file: str = "<string>", strict: bool = False) -> ModuleOp:
    """The module of a program text. Raises ProgramError with all diagnostics rendered."""
    result = parse_text(text, file, strict)
    if result.module is None:
        raise ProgramError(result.diagnostics, result.render())
    return result.module
