"""Tokenizes text by a TextMate grammar, with Python's `re`: the part of TextMate that ours uses.

Rules with `match` and captures, `begin`/`end` with rules inside, `include` of the repository. Lines are
read one by one, as editors do: no rule looks across the end of a line.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Piece:
    """A part of a line with its scopes, outermost first."""

    start: int
    stop: int
    scopes: tuple[str, ...]


Rule = dict[str, Any]


class Grammar:
    """A grammar that was read from its file."""

    def __init__(self, path: Path) -> None:
        self.data: Rule = json.loads(path.read_text(encoding="utf-8"))
        self._patterns: dict[str, re.Pattern[str]] = {}

    def rules(self, listed: list[Rule]) -> list[Rule]:
        """The rules themselves, includes replaced by what they stand for."""
        found: list[Rule] = []
        for rule in listed:
            if "include" not in rule:
                found.append(rule)
                continue
            named: Rule = self.data["repository"][rule["include"].removeprefix("#")]
            found += (
                [named] if "match" in named or "begin" in named else self.rules(named["patterns"])
            )
        return found

    def pattern(self, text: str) -> re.Pattern[str]:
        """A compiled expression."""
        if text not in self._patterns:
            self._patterns[text] = re.compile(text)
        return self._patterns[text]

    def pieces(self, text: str) -> list[Piece]:
        """All parts of a text that have a scope, inner ones behind those that hold them."""
        found: list[Piece] = []
        stack: list[Rule] = []
        offset = 0
        for line in text.split("\n"):
            self._line(line, offset, stack, found)
            offset += len(line) + 1
        return found

    def scopes(self, text: str) -> list[tuple[str, ...]]:
        """The scopes of each character."""
        scopes: list[tuple[str, ...]] = [()] * len(text)
        for piece in self.pieces(text):
            for place in range(piece.start, piece.stop):
                scopes[place] = piece.scopes
        return scopes

    def _line(self, line: str, offset: int, stack: list[Rule], found: list[Piece]) -> None:
        position = 0
        while True:
            around = tuple(rule["name"] for rule in stack if "name" in rule)
            listed = stack[-1].get("patterns", []) if stack else self.data["patterns"]
            best: re.Match[str] | None = None
            chosen: Rule | None = None
            if stack:
                best = self.pattern(stack[-1]["end"]).search(line, position)
            for rule in self.rules(listed):
                match = self.pattern(rule.get("match") or rule["begin"]).search(line, position)
                # The end comes first where both begin at one place.
                if match is not None and (best is None or match.start() < best.start()):
                    best, chosen = match, rule
            stop = best.start() if best is not None else len(line)
            if stop > position and around:
                found.append(Piece(offset + position, offset + stop, around))
            if best is None:
                return
            if chosen is None:
                if best.end() > best.start():
                    found.append(Piece(offset + best.start(), offset + best.end(), around))
                stack.pop()
            else:
                names = (*around, chosen["name"]) if "name" in chosen else around
                if best.end() == best.start():
                    raise AssertionError(f"an empty match of {chosen}")
                found.append(Piece(offset + best.start(), offset + best.end(), names))
                captures = chosen.get("captures") or chosen.get("beginCaptures") or {}
                for number, capture in captures.items():
                    start, end = best.span(int(number))
                    if start >= 0:
                        scopes = (*names, capture["name"])
                        found.append(Piece(offset + start, offset + end, scopes))
                if "begin" in chosen:
                    stack.append(chosen)
            position = best.end()
