"""Show what a package (.oinf, .safetensors, .gguf) or a program (.oi, graph JSON, compiled .oip) holds.

Of a program: sizes and where they come from, memory by kind with shapes, bytes and sources, state,
blocks, ops; on demand the control flow as a picture, the memory plan of the compiled program and its
kernels.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from openinfer.compiler.tools.arguments import (
    add_device,
    add_model,
    add_no_fallback,
    parse_sizes,
)
from openinfer.compiler.tools.program_argument import ProgramArgument
from openinfer.compiler.tools.report import (
    BAD_INPUT,
    FINE,
    UsageError,
    diagnostics_of,
    finding_json,
    render,
)
from openinfer.runtime.devices import DEFAULT_DEVICE
from openinfer.runtime.errors import OpenInferError, ProgramError

if TYPE_CHECKING:
    from openinfer.compiler.api import Graph
    from openinfer.runtime.packages.base import Package
    from openinfer.runtime.packages.gguf import GgufPackage

EXAMPLES = """\
examples:
  openinfer inspect model.oinf             sizes, metadata, tensors with statistics
  openinfer inspect model.safetensors --json
  openinfer inspect model.gguf             its tables: no tensor is read
  openinfer inspect mlp.oi                 with the package beside it; --model names another
  openinfer inspect mlp.oi --mermaid       control flow, for Markdown; --dot for Graphviz
  openinfer inspect mlp.oi --svg flow.svg  the picture itself, if Graphviz is installed
  openinfer inspect mlp.oi --plan          the arena of the compiled program
  openinfer inspect mlp.oi --kernels       the kernel of each node
  openinfer inspect mlp.oip                builds, package, checksums; --plan for the arena
"""

_PROGRAMS = (".oi", ".json")
_NO_SIZE = "OI0324"
"""Code of a size that nothing fixes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "file",
        type=ProgramArgument,
        metavar="FILE",
        help="a package, or a program; - reads a text from standard input",
    )
    add_model(parser)
    add_device(parser)
    add_no_fallback(parser)
    add("--dot", action="store_true", help="control flow in Graphviz's language")
    add("--mermaid", action="store_true", help="control flow as a Mermaid flowchart")
    add("--svg", type=Path, metavar="FILE", help="control flow drawn by Graphviz")
    add("--plan", action="store_true", help="memory plan of the compiled program")
    add("--kernels", action="store_true", help="kernels of the compiled program, with their nodes")


def run(args: argparse.Namespace) -> int:
    from openinfer.runtime.packages import INDEX_SUFFIX

    if args.no_fallback and args.file.is_compiled():
        raise UsageError(
            "--no-fallback is decided when a program is compiled", "give it to `openinfer compile`"
        )
    if args.no_fallback and not args.plan and not args.kernels:
        raise UsageError("--no-fallback is about what is compiled", "add --plan or --kernels")
    if args.file.suffix in _PROGRAMS and not args.file.name.endswith(INDEX_SUFFIX):
        return _program(args)
    if args.file.is_compiled():
        return _compiled(args)
    pictures = args.dot or args.mermaid or args.svg
    compiled = args.device is not None or args.plan or args.kernels or args.no_fallback
    if args.model is not None or args.size or pictures or compiled:
        raise UsageError(
            "--model, --size, --device, --no-fallback, --dot, --mermaid, --svg, --plan and --kernels are "
            "about programs",
            f"{args.file.name} is taken for a model package; programs end in .oi, .json or .oip",
        )
    from openinfer.runtime.packages import open_model
    from openinfer.runtime.packages.inspect import inspect_json, inspect_lines

    with open_model(args.file.path) as package:
        if args.json:
            facts = inspect_json(package)
            if _has_tokenizer(package):
                from openinfer.compiler.tools.inspecting.language_model import language_model_json

                facts["understood"] = language_model_json(package)
            print(json.dumps(facts, indent=2))
            return 0
        for line in inspect_lines(package):
            sys.stdout.write(f"{line}\n")
        if _has_tokenizer(package):
            from openinfer.compiler.tools.inspecting.language_model import language_model_lines

            sys.stdout.write("\n")
            for line in language_model_lines(package):
                sys.stdout.write(f"{line}\n")
    return 0


def _has_tokenizer(package: Package) -> TypeGuard[GgufPackage]:
    from openinfer.runtime.packages.gguf import GgufPackage

    return isinstance(package, GgufPackage) and "tokenizer.ggml.model" in package.fields


def _compiled(args: argparse.Namespace) -> int:
    from openinfer.compiler.arguments import checked_sizes
    from openinfer.compiler.tools.compiled_session import compiled_parts, open_program
    from openinfer.compiler.tools.compiled_view import compiled_facts, compiled_text, plan_text
    from openinfer.compiler.tools.inspecting.kernels import kernels_json, kernels_text

    program = open_program(args.file.path, args.model)
    if args.dot or args.mermaid or args.svg is not None:
        # Pictures are drawn from the text in the file.
        graph, package, sizes = compiled_parts(program, checked_sizes(parse_sizes(args.size)))
        return _show(args, graph, package, sizes)
    facts = compiled_facts(args.file.path, program)
    if args.device is not None:
        program = program.for_device(args.device)
    more: dict[str, Any] = {}
    texts = [compiled_text(facts)]
    if args.plan:
        more["plan"] = [vars(row) for row in program.manifest.plan]
        texts.append(plan_text(program))
    if args.kernels:
        more["kernels"] = kernels_json(program)
        texts.append(kernels_text(more["kernels"]))
    if args.json:
        print(json.dumps({**facts, **more}, indent=2))
        return 0
    sys.stdout.write("\n".join(texts))
    return 0


def _program(args: argparse.Namespace) -> int:
    from openinfer.compiler.arguments import checked_sizes
    from openinfer.compiler.tools.running import read_program
    from openinfer.runtime.packages import open_model

    graph = read_program(args.file)
    sizes = checked_sizes(parse_sizes(args.size))
    path = args.model if args.model is not None else args.file.package_beside()
    with open_model(path) if path is not None else nullcontext() as package:
        return _show(args, graph, package, sizes)


def _show(
    args: argparse.Namespace, graph: Graph, package: Package | None, sizes: Mapping[str, int]
) -> int:
    from openinfer.compiler.tools.inspecting.facts import program_facts
    from openinfer.compiler.tools.inspecting.flow import flow_of
    from openinfer.compiler.tools.inspecting.pictures import dot_text, mermaid_text, write_svg
    from openinfer.compiler.tools.inspecting.text import facts_text

    facts: dict[str, Any] = {
        "program": graph.file,
        "package": str(package.path) if package is not None else None,
        **program_facts(graph.module, package, sizes),
    }
    problems = _problems(graph, package, sizes)
    facts["problems"] = [render(problem) for problem in problems]
    if problems:
        found = [finding for problem in problems for finding in diagnostics_of(problem)]
        facts["diagnostics"] = [finding_json(finding) for finding in found]
    code = BAD_INPUT if problems else FINE
    flow = flow_of(graph.module, args.file.name)
    pictures = {"dot": dot_text, "mermaid": mermaid_text}
    wanted = {name: text(flow) for name, text in pictures.items() if getattr(args, name)}
    if args.svg is not None:
        write_svg(flow, args.svg)
    compiled: list[str] = []
    if args.plan or args.kernels:
        from openinfer.compiler.tools.inspecting.kernels import kernels_json, kernels_text
        from openinfer.compiler.tools.inspecting.plan import compiled_program, plan_json

        program = compiled_program(
            graph, package, sizes, args.device or DEFAULT_DEVICE, fallback=not args.no_fallback
        )
        if args.plan:
            facts["plan"] = plan_json(program)
            compiled.append(f"{program.plan_text()}\n")
        if args.kernels:
            facts["kernels"] = kernels_json(program)
            compiled.append(kernels_text(facts["kernels"]))
    if args.json:
        print(json.dumps({**facts, "flow": flow.json(), **wanted}, indent=2))
        return code
    facts_wanted = not wanted and args.svg is None
    texts = [*wanted.values(), facts_text(facts) if facts_wanted else "", *compiled]
    sys.stdout.write("\n".join(text for text in texts if text))
    if problems:
        sys.stdout.flush()
        print("\n".join(facts["problems"]), file=sys.stderr)
    return code


def _problems(
    graph: Graph, package: Package | None, sizes: Mapping[str, int]
) -> list[OpenInferError]:
    """Why the program does not fit its package; none without a package."""
    from openinfer.compiler.api import Simulator

    if package is None:
        return []
    try:
        Simulator(graph, package, sizes)
    except ProgramError as error:
        # A size that is not given yet is a fact of the program, shown as such.
        left = [d for d in error.diagnostics if d.severity == "error" and d.code != _NO_SIZE]
        return [ProgramError([d]) for d in left]
    except OpenInferError as error:
        return [error]
    return []
