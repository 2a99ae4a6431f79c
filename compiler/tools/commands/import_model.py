"""Make a program that one can read of an ONNX file or an export of PyTorch, and a package of its weights.

Writes model.oi, model.oinf and report.txt into a folder. Nothing of the file is run. What cannot be imported
is said all at once, and nothing is written then.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

EXAMPLES = """\
examples:
  openinfer import model.onnx -o model/                   model/model.oi, model/model.oinf, model/report.txt
  openinfer import model.pt2 -o model/                    what torch.export.save wrote
  openinfer import model.pt2 -o model/ --comments         module and source line above each statement
  openinfer import decoder.onnx -o model/ --stateful      with a cache: prefill and decode in one program
  openinfer import model.onnx -o model/ --no-roll         every layer written out
  openinfer run model/model.oi                            runs what was imported
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("source", type=Path, metavar="FILE", help=".onnx or .pt2, or a folder with one of them")
    add("-o", "--output", type=Path, required=True, metavar="DIR", help="the folder to write")
    add("--comments", action="store_true", help="say where each statement comes from")
    add(
        "--stateful",
        action="store_true",
        help="add a cache to a causal decoder exported without one",
    )
    add("--no-roll", action="store_true", help="leave equal layers as they are, make no loops")
    add("--force", action="store_true", help="replace files of an earlier import")


def run(args: argparse.Namespace) -> int:
    from openinfer.compiler.importers.readable import readable
    from openinfer.compiler.importers.readers import read_foreign
    from openinfer.compiler.importers.written import NAMES, PACKAGE, PROGRAM, REPORT, write_program
    from openinfer.compiler.tools.report import UsageError

    folder: Path = args.output
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is no folder", "name a folder: it gets three files")
    there = [name for name in NAMES if (folder / name).exists()]
    if there and not args.force:
        raise UsageError(f"{folder} has {', '.join(there)}", "--force replaces them")
    imported = read_foreign(args.source)
    graph, package, report = readable(
        imported, comments=args.comments, stateful=args.stateful, roll=not args.no_roll
    )
    write_program(graph, package, report, folder)
    if args.json:
        written = {"program": PROGRAM, "package": PACKAGE, "report": REPORT}
        files = {key: str(folder / name) for key, name in written.items()}
        print(json.dumps({**files, **report.to_dict()}))
        return 0
    print(str(report).partition("\n\n")[0])
    for name, what in zip(NAMES, ("the program", "its weights", "what was done")):
        print(f"  {folder / name}  {what}")
    print(f"next: openinfer run {folder / PROGRAM}")
    return 0
