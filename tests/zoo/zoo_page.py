"""What was measured of the zoo, kept as JSON, and the page that is made of it (`docs/zoo.md`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from architectures import architectures
from measuring import BOUND, EXECUTORS, Program, Row

LIBRARIES = ("torch", "torchvision", "transformers", "onnx", "onnxscript")
SEVERAL = "several states"
"""Instead of a digest of the sources, where rows stayed after an edit that does not touch them."""
PAGE = Path(__file__).parents[2] / "docs" / "zoo.md"


@dataclass
class Measured:
    """Rows of one state of the sources, of the libraries and of a machine."""

    state: dict[str, str]
    rows: dict[str, Row] = field(default_factory=dict[str, Row])
    done: list[str] = field(default_factory=list[str])
    """`NAME by WAY on EXECUTOR …` of what was tried."""
    commit: str = ""
    """Of the checkout, with a + where files differed from it."""

    def write(self, file: Path) -> None:
        described = {**asdict(self), "rows": [row.as_json() for row in self.rows.values()]}
        part = file.with_suffix(".part")
        part.write_text(json.dumps(described, indent=1) + "\n")
        part.replace(file)

    @classmethod
    def read(cls, file: Path) -> Measured:
        known = json.loads(file.read_text())
        rows = {row.name: row for row in map(Row.of_json, known["rows"])}
        return cls(known["state"], rows, known["done"], known.get("commit", ""))

    def add(self, row: Row) -> None:
        if row.name in self.rows:
            self.rows[row.name].add(row)
        else:
            self.rows[row.name] = row


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


def merged(parts: Sequence[Measured]) -> Measured:
    """All rows of files that are of one state. Raises ValueError where they are not."""
    first, *others = parts
    for other in others:
        if other.state != first.state:
            raise ValueError(f"the files are of two states: {first.state} and {other.state}")
        for row in other.rows.values():
            first.add(row)
    return first


def page(found: Measured) -> str:
    """The page of the zoo."""
    rows, state = [*found.rows.values()], found.state
    devices = [name for name in state if name.partition(":")[0] in ("vulkan", "null")]
    exported = [row.torch for row in rows if row.torch is not None]
    by_onnx = [row.onnx for row in rows if row.onnx is not None]
    others = "".join(f", on {name}" for name in devices)
    libraries = ", ".join(f"{name} {state[name]}" for name in LIBRARIES)
    machines = "; ".join([f"CPU: {state['cpu']}", *(f"{one}: {state[one]}" for one in devices)])
    commit = f", commit {found.commit}" if found.commit else ""
    device = f" --device {' '.join(devices)}" if devices else ""
    head = f"""\
# The zoo

Small models of many architectures with random weights: each is exported by PyTorch, imported
([import.md](import.md)) and run at three shapes: on the simulator, compiled for the CPU{others}, and by
`torch.compile(backend="openinfer")`. Errors are against eager PyTorch, as a part of the largest number of
a result; right is at most {BOUND:.0e}; – did not run.

{machines}.
{libraries}.
Made by `python scripts/zoo.py{device} --json zoo.json` and `python scripts/zoo.py --page zoo.json`,
{"rows of several states" if state["sources"] == SEVERAL else "all rows of one state"} of the sources{commit}.

## By torch.export

{sum(one.right for one in exported)} of {len(exported)} are imported and right everywhere."""
    middle = f"""
## By ONNX

What `torch.onnx.export(dynamo=True)` writes, read as any ONNX file ([onnx.md](onnx.md)).
{sum(one.right for one in by_onnx)} of {len(by_onnx)} are imported and right everywhere.
"""
    tables = [_table(rows, way, devices) for way in ("torch.export", "ONNX")]
    return "\n".join([head, "", *tables[0], middle, *tables[1]]) + "\n"
