"""Write a program in the other form: .oi text as graph JSON, graph JSON as .oi text."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from openinfer.compiler.tools.arguments import add_program
from openinfer.compiler.tools.report import UsageError
from openinfer.runtime.files import write_text

EXAMPLES = """\
examples:
  openinfer export mlp.oi -o graph.json            graph JSON, the same bytes for the same program
  openinfer export mlp.oi --locations              with the place of every node, to stdout
  openinfer export graph.json -o mlp.oi            back to text
  openinfer export - --to oi                       of what comes from standard input
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_program(parser, compiled=False)
    add("-o", "--output", type=Path, metavar="OUT", help=".json or .oi (default: stdout)")
    add("--to", choices=("json", "oi"), help="the form, where OUT does not say it (default json)")
    add("--locations", action="store_true", help="JSON: add where the text has each node")
    add("--compact", action="store_true", help="JSON: all on one line")
    add("--strict", action="store_true", help="unknown hints and attributes are errors")


def run(args: argparse.Namespace) -> int:
    from openinfer.compiler.tools.running import show_warnings

    form = _form(args)
    if form == "oi" and (args.locations or args.compact):
        raise UsageError("--locations and --compact are for graph JSON, not for .oi text")
    graph = args.program.graph()
    if args.strict:
        graph = graph.strictly
    graph.check()
    show_warnings(graph)
    if form == "json":
        indent = None if args.compact else 2
        text = graph.to_json(locations=args.locations, indent=indent) + "\n"
    else:
        from openinfer.compiler.frontend import print_program

        text = print_program(graph.module)
    if args.output is None:
        sys.stdout.write(text)
    else:
        write_text(args.output, text)
        if args.json:
            print(json.dumps({"program": graph.file, "form": form, "output": str(args.output)}))
    return 0


def _form(args: argparse.Namespace) -> str:
    """The form to write. Raises UsageError where file name and `--to` disagree."""
    suffix = args.output.suffix.removeprefix(".") if args.output is not None else ""
    if suffix in ("json", "oi"):
        if args.to not in (None, suffix):
            raise UsageError(f"--to {args.to}, but {args.output} is a .{suffix} file")
        return suffix
    if args.to is None and suffix:
        raise UsageError(f"{args.output} is neither .json nor .oi", "say --to json or --to oi")
    return args.to or "json"
