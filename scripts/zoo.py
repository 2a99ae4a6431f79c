"""The zoo of models: imports each from PyTorch, runs it, and writes the tables of `docs/zoo.md`.

python scripts/zoo.py                          # all of them; minutes
python scripts/zoo.py --only BERT Llama        # some
python scripts/zoo.py --slice                  # those that CI runs
python scripts/zoo.py --device vulkan          # on a further device, too
python scripts/zoo.py --device vulkan --json zoo.json --page   # docs/zoo.md; rows of the file are kept
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests" / "zoo")]

from architectures import architectures
from measuring import BOUND, EXECUTORS, Program, Row, measured

PAGE = REPOSITORY / "docs" / "zoo.md"
WAYS = ("onnx", "torch", "compile")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--slice", action="store_true", help="those that CI runs")
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--device", nargs="+", default=[], help="devices beside the CPU")
    parser.add_argument("--json", type=Path, metavar="FILE", help="rows are kept here, one by one")
    parser.add_argument("--page", action="store_true", help="write docs/zoo.md")
    options = parser.parse_args()
    chosen = [
        one
        for one in architectures()
        if (not options.only or one.name in options.only) and (one.quick or not options.slice)
    ]
    kept: Path | None = options.json
    known = json.loads(kept.read_text()) if kept is not None and kept.exists() else []
    rows = {row.name: row for row in map(Row.of_json, known)}
    for architecture in chosen:
        if architecture.name in rows:
            continue
        row = measured(architecture, options.ways, [*EXECUTORS, *options.device])
        rows[row.name] = row
        for way, program in (("ONNX", row.onnx), ("torch.export", row.torch)):
            if program is not None:
                print(way, line(row, program, shown(options.device, way)), flush=True)
        if kept is not None:
            described = [one.as_json() for one in rows.values()]
            kept.write_text(json.dumps(described, indent=1) + "\n")
    if options.page:
        PAGE.write_text(page([*rows.values()], options.device))
    return 0 if all(rows[one.name].right for one in chosen) else 1


def shown(devices: Sequence[str], way: str) -> list[str]:
    """What ran the programs of a table."""
    return [*EXECUTORS, *devices, *(["torch.compile"] if way == "torch.export" else [])]


def line(row: Row, program: Program, executors: Sequence[str]) -> str:
    """A row of a table."""
    errors = [program.errors.get(name) for name in executors]
    cells = " | ".join("–" if error is None else f"{error:.0e}" for error in errors)
    numbers = f"{program.nodes} | {program.lines} | {program.loops}"
    return f"| {row.name} | {row.family} | {numbers} | {cells} | {_why(program)} |"


def _why(program: Program) -> str:
    told = "; ".join(f"{who}: {text}" for who, text in program.why.items())
    if program.exporter == "script":
        told = "; ".join(part for part in ("by the older exporter", told) if part)
    text = " ".join(told.split()).replace("|", "/")
    return text if len(text) <= 160 else f"{text[:157]}..."


def _table(rows: Sequence[Row], way: str, devices: Sequence[str]) -> list[str]:
    executors = shown(devices, way)
    titles = ["compiled" if name == "cpu" else name for name in executors]
    lines = [
        f"| model | kind | nodes | lines | loops | {' | '.join(titles)} | why not |",
        f"|---|---|---:|---:|---:|{'---:|' * len(executors)}---|",
    ]
    by_name = {row.name: row for row in rows}
    for one in architectures():
        row = by_name.get(one.name)
        program = None if row is None else row.onnx if way == "ONNX" else row.torch
        lines.append(
            f"| {one.name} | {one.family} | | | | {'| ' * len(executors)}| not measured |"
            if row is None or program is None
            else line(row, program, executors)
        )
    return lines


def page(rows: Sequence[Row], devices: Sequence[str]) -> str:
    """The page of the zoo."""
    exported = [row.torch for row in rows if row.torch is not None]
    by_onnx = [row.onnx for row in rows if row.onnx is not None]
    others = f", on {' and '.join(devices)}" if devices else ""
    head = f"""\
# The zoo

Small models of many architectures with random weights: each is exported by PyTorch, imported
([import.md](import.md)) and run at three shapes: on the simulator, compiled for the CPU{others}, and by
`torch.compile(backend="openinfer")`. Errors are against eager PyTorch, as a part of the largest number of
a result; right is at most {BOUND:.0e}; – did not run.
`python scripts/zoo.py --device vulkan --page` writes this page; its Vulkan is
Mesa's lavapipe, which gives a kernel 128 MiB of a buffer at most.

## By torch.export

{sum(one.right for one in exported)} of {len(exported)} gave no wrong result and were not refused."""
    middle = f"""
## By ONNX

What `torch.onnx.export(dynamo=True)` writes, read as any ONNX file ([onnx.md](onnx.md)).
{sum(one.right for one in by_onnx)} of {len(by_onnx)} gave no wrong result and were not refused.
"""
    tables = [_table(rows, way, devices) for way in ("torch.export", "ONNX")]
    return "\n".join([head, "", *tables[0], middle, *tables[1]]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
