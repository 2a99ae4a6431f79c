"""Places of a text as the Language Server Protocol counts them: lines from 0, UTF-16 units from 0."""

from __future__ import annotations

import re
from bisect import bisect_right

_LINE_END = re.compile(r"\r\n|\n|\r")


class Positions:
    """Between offsets of characters and pairs (line, UTF-16 unit) of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(end.end() for end in _LINE_END.finditer(text))]
        self._stops = [*(end.start() for end in _LINE_END.finditer(text)), len(text)]

    def offset(self, line: int, unit: int) -> int:
        """The character at a place; one outside of the text is the nearest inside of its line."""
        if line < 0:
            return 0
        if line >= len(self._starts):
            return len(self.text)
        position, stop = self._starts[line], self._stops[line]
        while unit > 0 and position < stop:
            unit -= _units(self.text[position])
            if unit < 0:
                break  # within a surrogate pair: the character that it belongs to
            position += 1
        return position

    def place(self, offset: int) -> tuple[int, int]:
        """Line and unit of a character."""
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self._starts, offset) - 1
        return line, sum(_units(c) for c in self.text[self._starts[line] : offset])


def _units(character: str) -> int:
    return 2 if ord(character) > 0xFFFF else 1
