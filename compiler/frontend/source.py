"""A program text with its name: spans of characters, and where they stand for a person."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import NamedTuple

from openinfer.runtime.errors import Location
from openinfer.runtime.quick_dataclass import dataclass


class Span(NamedTuple):
    """Characters `start..stop` of a source text."""

    start: int
    stop: int

    def to(self, other: Span) -> Span:
        """From the start of this span to the end of `other`."""
        return Span(self.start, max(self.stop, other.stop))


@dataclass(frozen=True)
class Source:
    """One program text."""

    text: str
    file: str = "<string>"

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        position = self.text.find("\n")
        while position >= 0:
            starts.append(position + 1)
            position = self.text.find("\n", position + 1)
        return starts

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of a character, both from 1."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def location(self, span: Span) -> Location:
        line, column = self.place(span.start)
        return Location(self.file, line, column)

    def length(self, span: Span) -> int:
        """How much of the span stands on its first line; at least 1."""
        end = self.text.find("\n", span.start, span.stop)
        return max(1, (span.stop if end < 0 else end) - span.start)
