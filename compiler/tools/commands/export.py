"""Write a program in another form: .oi text as graph JSON, graph JSON as .oi text, both as an ONNX model."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from openinfer.compiler.tools.arguments import add_model, add_program, parse_sizes
from openinfer.compiler.tools.report import UsageError
from openinfer.runtime.files import write_text

if TYPE_CHECKING:
    from openinfer.compiler.api import Graph

EXAMPLES = """\
examples:
  openinfer export mlp.oi -o graph.json            graph JSON, the same bytes for the same program
  openinfer export mlp.oi --locations              with the place of every node, to stdout
  openinfer export graph.json -o mlp.oi            back to text
  openinfer export - --to oi                       of what comes from standard input
  openinfer export mlp.oi -o mlp.onnx              with the weights of mlp.oinf, loops unrolled
"""


_FORMS = ("json", "oi", "onnx")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_program(parser, compiled=False)
    add("-o", "--output", type=Path, metavar="OUT", help=".json, .oi or .onnx (default: stdout)")
    add("--to", choices=_FORMS, help="the form, where OUT does not say it (default json)")
    add_model(parser)
    add("--locations", action="store_true", help="JSON: add where the text has each node")
    add("--compact", action="store_true", help="JSON: all on one line")
    add("--strict", action="store_true", help="unknown hints and attributes are errors")


def run(args: argparse.Namespace) -> int:
    from openinfer.compiler.tools.running import show_warnings

    form = _form(args)
    if form != "json" and (args.locations or args.compact):
        raise UsageError(f"--locations and --compact are for graph JSON, not for .{form}")
    if form == "onnx" and args.output is None:
        raise UsageError("an ONNX model is no text for stdout", "add -o OUT.onnx")
    if form != "onnx" and (args.model is not None or args.size):
        raise UsageError(
            "--model and --size are for ONNX models, other forms hold the program alone"
        )
    graph = args.program.graph()
    if args.strict:
        graph = graph.strictly
    graph.check()
    show_warnings(graph)
    if form == "onnx":
        return _write_onnx(args, graph)
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


def _write_onnx(args: argparse.Namespace, graph: Graph) -> int:
    from openinfer.compiler.arguments import checked_sizes
    from openinfer.compiler.exporters.onnx.export import export_onnx
    from openinfer.runtime.packages import open_model

    model = args.model if args.model is not None else args.program.package_beside()
    package = open_model(model) if model is not None else None
    try:
        sizes = checked_sizes(parse_sizes(args.size))
        name = args.program.path.stem if not args.program.is_stdin else "program"
        exported = export_onnx(graph.module, package, sizes=sizes, file=name)
        written = exported.write(args.output)
    finally:
        if package is not None:
            package.close()
    if args.json:
        described = {
            "program": graph.file,
            "form": "onnx",
            "output": [str(path) for path in written],
            "nodes": len(exported.nodes),
            "bytes": exported.nbytes,
        }
        print(json.dumps(described))
    return 0


def _form(args: argparse.Namespace) -> str:
    """The form to write. Raises UsageError where file name and `--to` disagree."""
    suffix = args.output.suffix.removeprefix(".") if args.output is not None else ""
    if suffix in _FORMS:
        if args.to not in (None, suffix):
            raise UsageError(f"--to {args.to}, but {args.output} is a .{suffix} file")
        return suffix
    if args.to is None and suffix:
        raise UsageError(f"{args.output} is none of .json, .oi and .onnx", "say which with --to")
    return args.to or "json"
