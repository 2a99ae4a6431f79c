"""Write programs in their canonical layout: one statement a line, comments kept, no word changed."""

from __future__ import annotations

import argparse
import json
import sys

from openinfer.compiler.tools.program_argument import ProgramArgument
from openinfer.compiler.tools.report import BAD_INPUT, FINE, UsageError, know_source
from openinfer.runtime.files import write_text

EXAMPLES = """\
examples:
  openinfer fmt mlp.oi decode.oi         rewrites those that are not in it, and names them
  openinfer fmt --check *.oi             writes nothing, ends with 1 if it would
  openinfer fmt - < mlp.oi               from standard input to standard output
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "programs",
        nargs="+",
        type=ProgramArgument,
        metavar="FILE",
        help="a program text, .oi; - reads one from standard input and prints it",
    )
    add("--check", action="store_true", help="change nothing, end with 1 where something would")


def run(args: argparse.Namespace) -> int:
    from openinfer.compiler.frontend.layout import formatted

    programs: list[ProgramArgument] = args.programs
    if any(program.is_stdin for program in programs) and len(programs) > 1:
        raise UsageError("- stands alone: standard output takes one text", "give files, or - alone")
    for program in programs:
        if program.suffix != ".oi":
            raise UsageError(
                f"{program} is no program text", "`openinfer export FILE --to oi` makes one of JSON"
            )
    # All are read before any is written.
    texts = [program.read() for program in programs]
    for program, text in zip(programs, texts):
        know_source(str(program), text)
    made = [formatted(text, str(program)) for program, text in zip(programs, texts)]
    changed = [str(p) for p, old, new in zip(programs, texts, made) if old != new]
    if not args.check:
        for program, old, new in zip(programs, texts, made):
            if not program.is_stdin and old != new:
                write_text(program.path, new)
    if args.json:
        result: dict[str, object] = {"changed": changed, "programs": [str(p) for p in programs]}
        if programs[0].is_stdin:
            result["text"] = made[0]
        print(json.dumps(result))
    elif programs[0].is_stdin and not args.check:
        sys.stdout.write(made[0])
    else:
        for name in changed:
            print(f"{name} {'is not in its canonical layout' if args.check else 'rewritten'}")
    return BAD_INPUT if args.check and changed else FINE
