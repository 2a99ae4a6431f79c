"""Collects the findings about one program text, each at a span of it."""

from __future__ import annotations

from dataclasses import field

from openinfer.compiler.frontend.source import Source, Span
from openinfer.lowering.program import report
from openinfer.lowering.program.places import Place
from openinfer.runtime.errors import Location
from openinfer.runtime.quick_dataclass import dataclass


@dataclass
class Report(report.Report):
    """The findings about a text so far."""

    source: Source = field(default_factory=lambda: Source(""))

    def place(self, where: Place) -> tuple[Location | None, int]:
        """Line and column of a span, and how much of it stands on that line."""
        if isinstance(where, Span):
            return self.source.location(where), self.source.length(where)
        return super().place(where)
