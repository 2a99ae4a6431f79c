"""The zoo of models: imports each from PyTorch, runs it, and writes the table of `docs/zoo.md`.

python scripts/zoo.py                          # all of them; minutes
python scripts/zoo.py --only BERT Llama        # some
python scripts/zoo.py --slice                  # those that CI runs
python scripts/zoo.py --json zoo.json --page   # all, kept as JSON and as docs/zoo.md
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests" / "zoo")]

from architectures import architectures
from measuring import BOUND, Row, measured

PAGE = REPOSITORY / "docs" / "zoo.md"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--slice", action="store_true", help="those that CI runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="rows are kept here, one by one")
    parser.add_argument("--page", action="store_true", help="write docs/zoo.md")
    options = parser.parse_args()
    chosen = [
        one
        for one in architectures()
        if (not options.only or one.name in options.only) and (one.quick or not options.slice)
    ]
    rows: list[Row] = []
    for architecture in chosen:
        row = measured(architecture)
        rows.append(row)
        print(line(row), flush=True)
        if options.json:
            options.json.write_text(json.dumps([one.as_json() for one in rows], indent=1) + "\n")
    if options.page:
        PAGE.write_text(page(rows))
    return 0 if all(row.right for row in rows) else 1


def line(row: Row) -> str:
    """A row of the table."""
    errors = (row.simulator, row.compiled, row.torch_compile)
    shown = " | ".join("" if error is None else f"{error:.0e}" for error in errors)
    numbers = f"{row.nodes} | {row.lines} | {row.loops}"
    return f"| {row.name} | {row.family} | {numbers} | {shown} | {_why(row)} |"


def _why(row: Row) -> str:
    text = " ".join(row.why.split()).replace("|", "/")
    return text if len(text) <= 160 else f"{text[:157]}..."


def page(rows: list[Row]) -> str:
    """The page of the zoo."""
    right = sum(row.right for row in rows)
    head = f"""\
# The zoo

Small models of many architectures with random weights: each is exported by `torch.export`, imported
([import.md](import.md)) and run at three shapes: on the simulator, compiled for the CPU, and by
`torch.compile(backend="openinfer")`. Errors are against eager PyTorch, as a part of the largest number of
a result; right is at most {BOUND:.0e}. {right} of {len(rows)} are right. `python scripts/zoo.py --page`
writes this page.

| model | kind | nodes | lines | loops | simulator | compiled | torch.compile | why not |
|---|---|---:|---:|---:|---:|---:|---:|---|"""
    measured_rows = {row.name: line(row) for row in rows}
    lines = [
        measured_rows.get(one.name, f"| {one.name} | {one.family} | | | | | | | not measured |")
        for one in architectures()
    ]
    return "\n".join([head, *lines]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
