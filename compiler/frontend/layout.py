"""The canonical layout of a program text: its words as they are, white space and lines as one writes them.

One statement a line, four spaces for each brace, one empty line between sections and blocks and where the
text had some. No word is changed, so forms stay what they are; comments stay where they are:

    at the end of a line        `op relu(h) >> y;  // why`, below each other where they were
    on lines of their own       with the indentation of what they stand in
    `// …` inside a statement   above it; `/* … */` on one line stays inside
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from openinfer.compiler.diagnostics import render
from openinfer.compiler.frontend.lexer import Token, tokenize
from openinfer.compiler.frontend.parser import parse
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Source
from openinfer.runtime.errors import ProgramError

_INDENT = "    "
_COMMENT = re.compile(r"//[^\n]*|/\*|\*/")
_OPERANDS = ("name", "int", "float", "string", ")", "]")
"""What a binary sign may follow."""
_UNARY_AFTER = ("in", "increment", "decrement", "return")
"""Words behind which a sign belongs to a number."""
_HEADER = ["model", ":"]
"""What ends with a comma, of the first edition."""
_TIGHT = (".", "..", "*", "/", "!")
_NO_SPACE_BEFORE = (",", ";", ":", ")", "]", "?")


def formatted(text: str, file: str) -> str:
    """The text in its canonical layout. Raises ProgramError with every mistake of syntax."""
    source = Source(text, file)
    report = Report(source=source)
    parse(source, report)
    if report.errors:
        found = report.sorted()
        raise ProgramError(found, render(found, {file: text}))
    return _Layout(source, tokenize(source, report)).text()


@dataclass
class _Layout:
    source: Source
    tokens: list[Token]
    lines: list[str] = field(default_factory=list[str])
    line: list[str] = field(default_factory=list[str])
    """Words and spaces of the statement that is being written."""
    above: list[str] = field(default_factory=list[str])
    """Comments from inside of it."""
    depth: int = 0
    parentheses: int = 0
    hints: int = 0
    """Whether it is inside of `with { … }`."""
    apart: bool = False
    """Whether an empty line stands before what comes next."""
    behind: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """Of lines that end with a comment: the column where the text had it, and the length without it."""

    def text(self) -> str:
        position = 1 if self.source.text.startswith("\ufeff") else 0
        previous: Token | None = None
        for number, token in enumerate(self.tokens):
            self._gap(position, token.span.start, token.kind == "end")
            if token.kind == "end":
                break
            following = self.tokens[number + 1]
            self._token(token, previous, following)
            position, previous = token.span.stop, token
        self._flush()
        self._align()
        return "".join(f"{line}\n" for line in self.lines)

    # White space and comments between two words.

    def _gap(self, begin: int, end: int, last: bool) -> None:
        """Comments, and whether there is an empty line."""
        gap = self.source.text[begin:end]
        position, fresh = 0, not self.lines and not self.line
        for start, stop in _comments(gap):
            before = gap[position:start]
            comment = gap[start:stop].rstrip()
            own_line = "\n" in before or fresh
            if not self.line and not own_line and self.lines:
                column = self.source.place(begin + start)[1]
                self.behind[len(self.lines) - 1] = (column, len(self.lines[-1]))
                self.lines[-1] += f"  {comment}"
            elif not self.line:
                self._empty_line(before)
                self._put(comment)
            elif comment.startswith("//") or "\n" in comment:
                self.above.append(comment)
            else:
                self.line.append(f"{'' if self.line[-1][-1] in '([' else ' '}{comment}")
            position, fresh = stop, False
        if not self.line and not last:
            self._empty_line(gap[position:])

    def _align(self) -> None:
        """Comments of lines that follow each other stand below each other where they did in the text."""
        run: list[int] = []
        for number in [*self.behind, -1]:
            column = self.behind[number][0] if number >= 0 else 0
            if run and (number != run[-1] + 1 or column != self.behind[run[-1]][0]):
                longest = max(self.behind[line][1] for line in run)
                for line in run:
                    length = self.behind[line][1]
                    text = self.lines[line]
                    self.lines[line] = text[:length] + " " * (longest - length) + text[length:]
                run = []
            run.append(number)

    def _empty_line(self, gap: str) -> None:
        if gap.count("\n") > 1:
            self.apart = True

    def _put(self, line: str) -> None:
        opened = bool(self.lines) and self.lines[-1].split("  //")[0].endswith("{")
        if self.apart and self.lines and not (opened and self.depth):
            self.lines.append("")
        self.apart = False
        self.lines.append(f"{_INDENT * self.depth}{line}")

    def _flush(self) -> None:
        """Ends the statement that is being written."""
        if self.line:
            for comment in self.above:
                self._put(comment)
            self._put("".join(self.line))
        self.line, self.above = [], []

    # Words.

    def _token(self, token: Token, previous: Token | None, following: Token) -> None:
        kind = token.kind
        if kind == "{" and not self.parentheses and not _is_word(previous, "with"):
            self._word(token, previous)
            self._flush()
            self.depth += 1
            return
        if kind == "}" and not self.hints:
            self._flush()
            self.depth = max(self.depth - 1, 0)
            self.apart = False
            self.line = ["}"]
            if following.kind not in (";", ")"):
                self._flush()
                self.apart = not self.depth
            return
        self._word(token, previous)
        if kind == "{":
            self.hints += 1
        elif kind == "}":
            self.hints -= 1
        elif kind in ("(", "["):
            self.parentheses += 1
        elif kind in (")", "]"):
            self.parentheses = max(self.parentheses - 1, 0)
        elif (kind == ";" and not self.parentheses) or (kind == "," and self.line[:2] == _HEADER):
            self._flush()

    def _word(self, token: Token, previous: Token | None) -> None:
        binary = self._binary
        if token.kind in ("+", "-"):
            self._binary = (
                previous is not None
                and previous.kind in _OPERANDS
                and previous.text not in _UNARY_AFTER
            )
        spaced = (
            bool(self.line)
            and previous is not None
            and self._space(token, previous, signed=not binary)
        )
        if self.line and self.line[-1].endswith("*/") and token.kind not in _NO_SPACE_BEFORE:
            spaced = True
        self.line.append(f"{' ' * spaced}{token.text}")

    def _space(self, token: Token, previous: Token, *, signed: bool) -> bool:
        """Whether a space stands between two words; `signed`: whether the last sign is a number's."""
        kind, before = token.kind, previous.kind
        if before == "," or kind == "{":
            return True
        if kind in _NO_SPACE_BEFORE or kind in _TIGHT or before in (*_TIGHT, "(", "[", "@"):
            return False
        if "=" in (kind, before):
            return not self.parentheses
        if before in ("+", "-"):
            return not signed
        if kind == "(":
            return before != "name" or self._spaced_call(previous)
        if kind == "[":
            return before not in ("name", "]", ")")
        return True

    _binary = False
    """Whether the sign before stands between two operands."""

    def _spaced_call(self, previous: Token) -> bool:
        """`loop NAME (i in …)`, `let (g, out)`."""
        words = len(self.line)
        first = self.line[0] if self.line else ""
        return (first == "loop" and words == 2) or previous.text in ("let", "in")


def _is_word(token: Token | None, word: str) -> bool:
    return token is not None and token.kind == "name" and token.text == word


def _comments(gap: str) -> list[tuple[int, int]]:
    """Where the comments of a text without words begin and end; `/* … */` nests."""
    found: list[tuple[int, int]] = []
    position = 0
    while match := _COMMENT.search(gap, position):
        if match.group().startswith("//"):
            found.append(match.span())
            position = match.end()
            continue
        start, depth = match.start(), 0
        while match:
            depth += {"/*": 1, "*/": -1}.get(match.group(), 0)
            position = match.end()
            if not depth:
                break
            match = re.compile(r"/\*|\*/").search(gap, position)
        found.append((start, position))
    return found
