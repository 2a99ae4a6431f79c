"""The frontend: `.oi` text → `graph` dialect, with every error of the text reported."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from openinfer.compiler.diagnostics import render
from openinfer.compiler.frontend.build import build
from openinfer.compiler.frontend.check import check
from openinfer.compiler.frontend.parser import parse
from openinfer.compiler.frontend.printer import print_program
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Source
from openinfer.runtime.errors import Diagnostic, ProgramError

__all__ = ["ParseResult", "parse_program", "parse_text", "print_program"]


@dataclass(frozen=True)
class ParseResult:
    """What came out of a program text."""

    module: ModuleOp | None
    """None when there are errors."""
    diagnostics: list[Diagnostic]
    """Errors and warnings in text order."""
    source: Source

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
    report = Report(source, strict)
    program = parse(source, report)
    check(program, report)
    module = None if report.errors else build(program, source)
    return ParseResult(module, report.sorted(), source)


def parse_program(text: str, file: str = "<string>", strict: bool = False) -> ModuleOp:
    """The module of a program text. Raises ProgramError with all diagnostics rendered."""
    result = parse_text(text, file, strict)
    if result.module is None:
        raise ProgramError(result.diagnostics, result.render())
    return result.module
