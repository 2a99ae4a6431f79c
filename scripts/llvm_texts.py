"""Hashes of the LLVM text that the compiler makes, to show that a change of its inner walls changes
no program.

    python scripts/llvm_texts.py write before.json               # all programs, targets, builds
    python scripts/llvm_texts.py write after.json --keep texts   # and the texts themselves
    python scripts/llvm_texts.py compare before.json after.json

The programs are those of `examples/`, the rows of the benchmarks and `tests/filecheck/phases`. Names do
not count: values, blocks and functions are numbered in the order in which a text first says them. The
exit code of `compare` is 1 when texts differ; the differing rows are printed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from openinfer.lowering.options import PipelineOptions

TARGETS = ("generic", "avx2", "avx512", "avx512-bf16")
"""The last one is `avx512` of a processor that multiplies pairs of bf16 in one instruction."""

BUILDS: dict[str, PipelineOptions] = {
    "plain": PipelineOptions(),
    "unoptimised": PipelineOptions(optimise=False),
    "traced": PipelineOptions(trace=True),
    "observed": PipelineOptions(observe=True),
    "strict": PipelineOptions(strict_math=True),
    "bf16": PipelineOptions(precision="bf16"),
}

_NAME = re.compile(r'[%@](?:"[^"]*"|[-$._A-Za-z0-9]+)')
"""A local or global name in LLVM IR, by its language reference."""


@dataclass(frozen=True)
class Source:
    """A program and how to get what it is compiled with."""

    name: str
    program: Path
    package: Path | None
    sizes: tuple[tuple[str, int], ...] = ()


def sources(folder: Path) -> Iterator[Source]:
    """All programs; packages that do not lie beside them are written into `folder`."""
    for path in sorted((ROOT / "examples").glob("*.oi")):
        package = path.with_suffix(".oinf")
        yield Source(f"examples/{path.name}", path, package if package.exists() else None)
    for path in sorted((ROOT / "tests/filecheck/phases").glob("*.oi")):
        yield Source(f"phases/{path.name}", path, None)
    from benchmarks.workloads import ABLATED, WORKLOADS
    from openinfer.runtime.errors import OpenInferError

    for name, row in {**WORKLOADS, **ABLATED}.items():
        try:
            package = row.write_package(folder)
        except OpenInferError as error:
            print(f"benchmarks/{name}: left out, {error}", file=sys.stderr)
            continue
        yield Source(f"benchmarks/{name}", row.program, package, tuple(row.sizes().items()))


def numbered(text: str) -> str:
    """The text with names in the order of their first appearance; LLVM's own functions keep theirs."""
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        name = match[0]
        if name.startswith("@llvm."):
            return name
        return numbers.setdefault(name, f"{name[0]}{len(numbers)}")

    lines = (re.sub(r'^("[^"]*"|[-$._A-Za-z0-9]+):', r"%\1:", line) for line in text.splitlines())
    return "\n".join(_NAME.sub(number, line) for line in lines)


def llvm_text(source: Source, target: str, build: str) -> str:
    """The LLVM IR of a program, for a processor that this machine need not be."""
    import openinfer as oi
    from openinfer.compiler import pipeline, registry
    from openinfer.lowering.cpu.emit_llvm import emit_llvm
    from openinfer.lowering.facts import Facts

    kind, _, feature = target.partition("-")
    graph = oi.graph_file(source.program)
    with oi.open_model(source.package) if source.package is not None else nullcontext() as model:
        options = replace(BUILDS[build], package=model, sizes=dict(source.sizes), target_name=kind)
        module, context = graph.module.clone(), registry.make_context()
        name = "cpu" if options.optimise else "cpu-plain"
        pipeline.run(module, context, name, stop="graph", options=options)
        if feature:
            facts = Facts.of(module)
            replace(facts, target=facts.target.with_bf16_dot()).write(module)
        pipeline.run(module, context, name, start="graph", emitted=True)
        return emit_llvm(module, Facts.of(module).target)


def _row(work: tuple[Source, str, str, Path | None]) -> tuple[str, str]:
    """The name of a row and the hash of its text, or the error that the compiler raised."""
    from openinfer.runtime.errors import OpenInferError

    source, target, build, keep = work
    name = f"{source.name} {target} {build}"
    try:
        # Comments name the lines of a program, wherever this checkout lies.
        text = numbered(llvm_text(source, target, build).replace(f"{ROOT}/", ""))
    except OpenInferError as error:
        return name, f"error {error.code}"
    if keep is not None:
        path = keep / f"{name.replace('/', '.').replace(' ', '.')}.ll"
        path.write_text(text)
    return name, hashlib.sha256(text.encode()).hexdigest()


def write(path: Path, only: str, keep: Path | None, jobs: int) -> None:
    """Writes the hashes of all rows whose name matches `only`."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(jobs) as pool:
        work = [
            (source, target, build, keep)
            for source in sources(Path(folder))
            for target in TARGETS
            for build in BUILDS
            if re.search(only, f"{source.name} {target} {build}")
        ]
        found: dict[str, str] = {}
        for number, (name, value) in enumerate(pool.map(_row, work, chunksize=4), 1):
            found[name] = value
            print(f"\r{number} of {len(work)}", end="", file=sys.stderr)
    print(file=sys.stderr)
    path.write_text(json.dumps(dict(sorted(found.items())), indent=0) + "\n")
    print(f"{len(found)} texts, {len(set(found.values()))} of them different: {path}")


def compare(before: Path, after: Path) -> int:
    """Prints the rows that differ and how many do not; 1 where there are some."""
    old, new = (json.loads(path.read_text()) for path in (before, after))
    differing = [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]
    for name in differing:
        print(f"{name}: {old.get(name, 'absent')[:16]} -> {new.get(name, 'absent')[:16]}")
    print(f"{len(differing)} of {len(old.keys() | new.keys())} differ")
    return 1 if differing else 0


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="compile all programs and keep the hashes")
    writing.add_argument("path", type=Path, help="the JSON file to write")
    writing.add_argument(
        "--only", default="", help="rows `program target build` that match this pattern"
    )
    writing.add_argument("--keep", type=Path, help="a folder for the texts themselves")
    writing.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    comparing = commands.add_parser("compare", help="which texts differ between two files")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.command == "compare":
        return compare(given.before, given.after)
    write(given.path, given.only, given.keep, given.jobs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
