"""What an import did: its steps, what became loops, and how long the text is; `report.txt` and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Step:
    """A pass, and what the program was before and behind it."""

    name: str
    before: int
    """Statements."""
    after: int
    gone: Mapping[str, int] = field(default_factory=dict[str, int])
    """Ops that there are fewer of, by their names."""
    new: Mapping[str, int] = field(default_factory=dict[str, int])
    notes: Sequence[str] = ()

    @property
    def changed(self) -> bool:
        return bool(self.gone or self.new or self.notes or self.before != self.after)


@dataclass
class Report:
    """An import, in numbers."""

    source: str
    """The file or class that was imported."""
    calls: int
    """Nodes of the foreign graph."""
    read: int = 0
    """Statements that the reader wrote."""
    steps: list[Step] = field(default_factory=list[Step])
    lines: int = 0
    """Of the text."""
    declarations: int = 0
    statements: int = 0
    loops: int = 0
    tensors: int = 0
    parameters: int = 0
    """Elements of all tensors."""
    nbytes: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "source": self.source,
            "nodes": self.calls,
            "lines": self.lines,
            "declarations": self.declarations,
            "statements": self.statements,
            "loops": self.loops,
            "tensors": self.tensors,
            "parameters": self.parameters,
            "bytes": self.nbytes,
            "steps": [
                {
                    "pass": step.name,
                    "statements": step.after,
                    "gone": dict(step.gone),
                    "new": dict(step.new),
                    "notes": list(step.notes),
                }
                for step in self.steps
            ],
        }

    def __str__(self) -> str:
        """As a person reads it."""
        loops = f"{self.loops} loop{'s' * (self.loops != 1)}"
        lines = [
            f"{self.source or 'a model'}: {self.calls} nodes became {self.lines} lines "
            f"({self.declarations} declarations, {self.statements} statements, {loops})",
            f"{self.tensors} tensors, {self.parameters} parameters, {self.nbytes} bytes",
            "",
            f"{'read':24} {self.read:5} statements",
        ]
        for step in self.steps:
            counts = [f"-{count} {name}" for name, count in step.gone.items()]
            counts += [f"+{count} {name}" for name, count in step.new.items()]
            what = "" if step.changed else "nothing to do"
            shown = ", ".join(counts) or what
            lines.append(f"{step.name:24} {step.after:5} statements{f'  {shown}' if shown else ''}")
            lines += [f"    {note}" for note in step.notes]
        return "".join(f"{line}\n" for line in lines)
