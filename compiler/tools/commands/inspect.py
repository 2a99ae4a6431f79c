"""Show what a model package (.oinf, .safetensors) or a program (.oi) holds."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

EXAMPLES = """\
examples:
  openinfer inspect model.oinf             sizes, metadata, tensors with statistics
  openinfer inspect model.safetensors --json
  openinfer inspect mlp.oi                 sizes, variables by kind, blocks, the package beside it
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE")


def run(args: argparse.Namespace) -> int:
    if args.file.suffix == ".oi":
        return _program(args)
    from openinfer.runtime.packages import open_model
    from openinfer.runtime.packages.inspect import inspect_json, inspect_lines

    with open_model(args.file) as package:
        if args.json:
            print(json.dumps(inspect_json(package), indent=2))
            return 0
        for line in inspect_lines(package):
            sys.stdout.write(f"{line}\n")
    return 0


def _program(args: argparse.Namespace) -> int:
    from openinfer.compiler.tools.arguments import package_beside
    from openinfer.compiler.tools.program_view import program_json, program_text
    from openinfer.compiler.tools.running import read_program

    graph = read_program(args.file)
    view = program_json(graph.module)
    beside = package_beside(args.file)
    view["package"] = str(beside) if beside is not None else None
    sys.stdout.write(json.dumps(view, indent=2) + "\n" if args.json else program_text(view))
    return 0
