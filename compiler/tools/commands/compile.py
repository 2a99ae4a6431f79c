"""Compile a program into a file that runs without the compiler, where xDSL is not installed.

The file holds native code, the program's text and the package's identity; weights stay in the
package unless --embed-weights puts them inside. It is code: load only files that you trust.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openinfer.compiler.tools.arguments import (
    add_device,
    add_model,
    add_no_fallback,
    add_program,
    parse_sizes,
)
from openinfer.compiler.tools.report import UsageError
from openinfer.runtime.devices import DEFAULT_DEVICE

if TYPE_CHECKING:
    from openinfer.runtime.packages.base import Package
    from openinfer.runtime.program import Program

EXAMPLES = """\
examples:
  openinfer compile mlp.oi -o mlp.oip               for this processor, package beside the program
  openinfer compile mlp.oi --target avx2            for every x86-64 processor with AVX2
  openinfer compile mlp.oi --target avx512 --target generic
                                                    both in one file; loading takes the best
  openinfer compile mlp.oi --embed-weights          one file and nothing else
  openinfer compile mlp.oi --observed               also iterates and compares node by node
  openinfer compile mlp.oi --precision bf16         products of bf16, half the memory for weights
  openinfer compile mlp.oi --traced                 also traces: openinfer run mlp.oip --trace FILE
  generate | openinfer compile - -o mlp.oip         the text from standard input
  openinfer run mlp.oip --input x=x.npy
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_program(parser, compiled=False)
    add("-o", "--output", type=Path, metavar="OUT", help="default: FILE with the ending .oip")
    add_model(parser)
    add_device(parser, default=DEFAULT_DEVICE)
    add(
        "--target",
        action="append",
        default=[],
        metavar="T",
        help="host (default), avx512, avx2 or generic (repeatable)",
    )
    add("--observed", action="store_true", help="put in the build that runs node by node")
    add("--traced", action="store_true", help="put in the build that leaves a trace")
    add("--embed-weights", action="store_true", help="put in what the program uses of the package")
    add("--strict", action="store_true", help="unknown hints, constants without content are errors")
    add(
        "--precision",
        metavar="DTYPE",
        help="bf16: round the operands of products, add up in f32; q8: the left ones of weights in blocks",
    )
    add("--tuning", metavar="FILE", help="what `openinfer tune` measured; cache: as it kept it")
    add("--strict-math", action="store_true", help="no reassociation, no fused multiply-add")
    add_no_fallback(parser)
    add("--time-passes", action="store_true", help="what each pass cost, on stderr")


def run(args: argparse.Namespace) -> int:
    from openinfer.runtime.packages import open_model
    from openinfer.runtime.program_file import SUFFIX

    if args.program.is_compiled():
        raise UsageError(f"{args.program} is compiled already", "give the text of a program")
    model = args.model if args.model is not None else args.program.package_beside()
    if args.program.is_stdin and args.output is None:
        raise UsageError("a program from standard input has no name for its output", "add -o OUT")
    output = args.output if args.output is not None else args.program.path.with_suffix(SUFFIX)
    for path in (None if args.program.is_stdin else args.program.path, model):
        if path is not None and _same_file(path, output):
            raise UsageError(f"--output {output} would overwrite {path}", "choose another name")
    targets = args.target or ["host"]
    if len(set(targets)) != len(targets):
        raise UsageError("--target names a processor twice")
    package = open_model(model) if model is not None else None
    if args.embed_weights and package is None:
        raise UsageError("--embed-weights: there is no package", "name one with --model")
    try:
        program = _compiled(args, package, targets)
        program.save(
            output,
            observed=args.observed,
            traced=args.traced,
            embed_weights=args.embed_weights,
        )
    finally:
        if package is not None:
            package.close()
    _report(args, program, output)
    return 0


def _compiled(args: argparse.Namespace, package: Package | None, targets: list[str]) -> Program:
    """The program for the first target, the others as its alternatives."""
    from openinfer.compiler.api import compile
    from openinfer.compiler.arguments import checked_sizes
    from openinfer.compiler.tools.progress import waiting
    from openinfer.compiler.tools.running import advised, passes_timed, show_warnings
    from openinfer.runtime.errors import OpenInferError

    graph, sizes = args.program.graph(), checked_sizes(parse_sizes(args.size))
    precision: str | None = args.precision
    programs: list[Program] = []
    try:
        for target in targets:
            with (
                passes_timed(args.time_passes),
                waiting(f"compiling {graph.file} for {target}"),
            ):
                program = compile(
                    graph,
                    package,
                    args.device,
                    sizes=sizes,
                    precision=precision,
                    target=target,
                    tuning=args.tuning,
                    strict=args.strict,
                    strict_math=args.strict_math,
                    fallback=not args.no_fallback,
                )
                if args.observed:
                    program.observed()
                if args.traced:
                    program.traced()
                programs.append(program)
    except OpenInferError as error:
        raise advised(error, graph, package) from error
    if graph.parsed:
        show_warnings(graph)
    programs[0].alternatives = tuple(programs[1:])
    return programs[0]


def _report(args: argparse.Namespace, program: Program, output: Path) -> None:
    builds = [program, *program.alternatives]
    facts: dict[str, Any] = {
        "program": program.manifest.name,
        "output": str(output),
        "bytes": output.stat().st_size,
        "device": args.device,
        "targets": [build.manifest.target.partition(";")[0] for build in builds],
        "further": list(program.further_builds),
        "embedded": args.embed_weights,
        "package": program.manifest.package_path,
    }
    if args.json:
        print(json.dumps(facts))
        return
    extras = [f", {kind} build" for kind in facts["further"]]
    if args.embed_weights:
        extras.append(", weights inside")
    elif program.needs_package:
        extras.append(f", weights in {facts['package']}")
    size = f"{facts['bytes'] / 1e3:.1f} kB"
    sys.stdout.write(f"{output}: {size} for {', '.join(facts['targets'])}{''.join(extras)}\n")


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return one == other
