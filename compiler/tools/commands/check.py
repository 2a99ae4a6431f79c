"""Read programs and say everything that is wrong with them, without compiling."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from openinfer.compiler.tools.arguments import add_model, parse_sizes
from openinfer.compiler.tools.program_argument import ProgramArgument
from openinfer.compiler.tools.report import (
    BAD_INPUT,
    FINE,
    UsageError,
    diagnostics_of,
    findings_json,
    render,
)
from openinfer.runtime.errors import Diagnostic, OpenInferError

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = """\
examples:
  openinfer check mlp.oi                 with the package beside it, if there is one
  openinfer check mlp.oi --model other.oinf --size B=4
  openinfer check *.oi --strict          several; unknown hints and attributes are errors
  openinfer check - --json < mlp.oi      findings for an editor: code, place, hint

Without a package the text alone is checked: what tensors and sizes of a model decide is not.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "programs",
        nargs="+",
        type=ProgramArgument,
        metavar="FILE",
        help="a program: .oi, .json as graph JSON; - reads a text from standard input",
    )
    add_model(parser)
    add("--strict", action="store_true", help="unknown hints, constants without content are errors")


def run(args: argparse.Namespace) -> int:
    programs: list[ProgramArgument] = args.programs
    for program in programs:
        if program.is_compiled() or program.is_level:
            raise UsageError(
                f"{program} is no program text", "`openinfer inspect` checks its bytes"
            )
    failed = False
    findings: list[Diagnostic] = []
    for program in programs:
        model = args.model if args.model is not None else program.package_beside()
        try:
            warnings = _checked(program, model, args)
        except OpenInferError as error:
            failed = True
            findings += diagnostics_of(error)
            if not args.json:
                print(render(error), file=sys.stderr)
            continue
        findings += warnings
        if not args.json:
            print(f"{program}: fine{f' with {model}' if model is not None else ', the text alone'}")
    if args.json:
        print(findings_json(findings))
    return BAD_INPUT if failed else FINE


def _checked(
    program: ProgramArgument, model: Path | None, args: argparse.Namespace
) -> list[Diagnostic]:
    """The warnings of a program. Raises ProgramError and others with all that is wrong."""
    from openinfer.compiler.api import Simulator
    from openinfer.compiler.arguments import checked_sizes
    from openinfer.compiler.tools.running import show_warnings
    from openinfer.runtime.packages import open_model

    graph = program.graph()
    if args.strict:
        graph = graph.strictly
    sizes = checked_sizes(parse_sizes(args.size))
    if model is None and not sizes:
        warnings = graph.check()
    else:
        package = open_model(model) if model is not None else None
        try:
            # Binds the program as compiling does, and says what nothing fills.
            Simulator(graph, package, sizes, args.strict)
        finally:
            if package is not None:
                package.close()
        warnings = graph.warnings
    if not args.json:
        show_warnings(graph)
    return warnings
