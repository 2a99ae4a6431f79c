"""Characters → tokens with spans. Comments and white space leave no token.

DSL words (`op`, `block`, `cache`, …) are plain identifiers here: the parser gives them their
meaning by position, so that they may also be names of variables.
"""

from __future__ import annotations

import re

from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Source, Span
from openinfer.runtime.quick_dataclass import dataclass

_BLANK = re.compile(r"(?:\s|//[^\n]*)+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.A)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_NUMBER = re.compile(
    r"(?P<base>0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+)"
    r"|(?P<float>\d[\d_]*(?:\.\d[\d_]*(?:[eE][+-]?\d[\d_]*)?|[eE][+-]?\d[\d_]*|\.(?![.\w])))"
    r"|(?P<int>\d[\d_]*)",
    re.A,
)
_PUNCTUATION = ("..", ">>", "<=", ">=", "{", "}", "(", ")", "[", "]", ":", ";", ",", ".", "=", "@", "!", "?",
                "+", "-", "*", "/", "<", ">", "&", "#")  # fmt: skip
_STRAY = re.compile(r"[^\s\w\"'{}()\[\]:;,.=@!?+\-*/<>&#]+|[^\W\dA-Za-z_]+\w*|.", re.S)
_RAW_STRING = re.compile(r'r(#*)"')
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\", '"': '"', "'": "'"}


@dataclass(frozen=True, slots=True)
class Token:
    """A word of the text.

    `kind`: "name", "int", "float", "string", "end", "bad" (reported already), or the punctuation.
    """

    kind: str
    text: str
    span: Span
    value: int | float | str | None = None

    def __str__(self) -> str:
        """How a message names it."""
        if self.kind == "end":
            return "the end of the program"
        if self.kind == "string":
            return "a string"
        return f"`{self.text if len(self.text) <= 40 else self.text[:37] + '...'}`"


def tokenize(source: Source, report: Report) -> list[Token]:
    """All tokens of a text, the last one of kind "end". Bad characters are reported and skipped."""
    return _Lexer(source, report).run()


class _Lexer:
    def __init__(self, source: Source, report: Report) -> None:
        self.text = source.text
        self.report = report
        self.position = 1 if source.text.startswith("\ufeff") else 0
        self.tokens: list[Token] = []

    def run(self) -> list[Token]:
        text = self.text
        for half in _SURROGATE.finditer(text):
            self.report.error(
                "OI0272",
                Span(*half.span()),
                f"half of a surrogate pair, \\u{ord(half.group()):04x}: no character",
                fix="remove it: the text was decoded wrongly, or cut within a character",
            )
        # Each is one mistake, wherever it stands.
        self.text = text = _SURROGATE.sub(" ", text)
        while self.position < len(text):
            if blank := _BLANK.match(text, self.position):
                self.position = blank.end()
            elif text.startswith("/*", self.position):
                self.comment()
            elif raw := _RAW_STRING.match(text, self.position):
                self.raw_string(raw)
            elif name := _NAME.match(text, self.position):
                self.add("name", name.end())
            elif text[self.position] == '"':
                self.string()
            elif number := _NUMBER.match(text, self.position):
                self.number(number)
            else:
                self.punctuation()
        self.add("end", len(text))
        return self.tokens

    def add(self, kind: str, stop: int, value: int | float | str | None = None) -> None:
        span = Span(self.position, stop)
        self.tokens.append(Token(kind, self.text[span.start : span.stop], span, value))
        self.position = stop

    def comment(self) -> None:
        """`/* … */`, which nests."""
        start, depth, position = self.position, 0, self.position
        while edge := _COMMENT_EDGE.search(self.text, position):
            depth += 1 if edge.group() == "/*" else -1
            position = edge.end()
            if depth == 0:
                self.position = position
                return
        self.report.error(
            "OI0103", Span(start, start + 2), "this comment never ends", fix="close it with `*/`"
        )
        self.position = len(self.text)

    def punctuation(self) -> None:
        for mark in _PUNCTUATION:
            if self.text.startswith(mark, self.position):
                self.add(mark, self.position + len(mark))
                return
        stray = _STRAY.match(self.text, self.position)
        stop = stray.end() if stray else self.position + 1
        shown = self.text[self.position : min(stop, self.position + 20)]
        self.report.error(
            "OI0101",
            Span(self.position, stop),
            f"unexpected {'character' if stop - self.position == 1 else 'characters'} {shown!r}",
            fix="names are made of the letters A-Z, a-z, digits and `_`"
            if shown[0].isalpha()
            else "remove it",
        )
        self.position = stop

    def number(self, match: re.Match[str]) -> None:
        start, stop = match.span()
        tail = _NAME.match(self.text, stop)
        if tail:
            self.report.error(
                "OI0104",
                Span(start, tail.end()),
                f"`{self.text[start : tail.end()][:40]}` is neither a number nor a name",
                fix="a name starts with a letter; a number has no type suffix",
            )
            self.add("int", tail.end(), 0)
            return
        digits = match.group().replace("_", "")
        if match.group("float"):
            value = float(digits)
            if value in (float("inf"), float("-inf")):
                self.report.error(
                    "OI0104",
                    Span(start, stop),
                    "this number is too large for a 64-bit float",
                    fix="write `inf` for infinity",
                )
            self.add("float", stop, value)
            return
        value = 2**64
        if (
            len(digits) <= 80
        ):  # longer ones cannot fit, and Python refuses to convert very long ones
            try:
                value = int(digits, 0 if match.group("base") else 10)
            except ValueError:  # `0x_`: a prefix without digits
                pass
        if value >= 2**64:
            self.report.error(
                "OI0104",
                Span(start, stop),
                "this number does not fit into 64 bits",
                fix=f"the largest integer is {2**64 - 1}",
            )
            value = 0
        self.add("int", stop, value)

    def raw_string(self, match: re.Match[str]) -> None:
        """`r"…"` and `r#"…"#`, where a backslash is a backslash."""
        end = '"' + match.group(1)
        stop = self.text.find(end, match.end())
        if stop < 0:
            self.unterminated(match.end())
            return
        value = self.text[match.end() : stop]
        self.add("string", stop + len(end), value)

    def unterminated(self, search_from: int) -> None:
        line_end = self.text.find("\n", search_from)
        stop = len(self.text) if line_end < 0 else line_end
        self.report.error(
            "OI0102",
            Span(self.position, stop),
            "this string does not end on its line",
            fix='close it with `"`',
        )
        # The parser gives up this statement without another word, and goes on in the next line.
        self.add("bad", stop)
        self.add(";", stop)

    def string(self) -> None:
        text, position = self.text, self.position + 1
        parts: list[str] = []
        while True:
            if position >= len(text) or text[position] == "\n":
                self.unterminated(position)
                return
            char = text[position]
            if char == '"':
                break
            if char != "\\":
                parts.append(char)
                position += 1
                continue
            value, stop = self.escape(position)
            parts.append(value)
            position = stop
        self.add("string", position + 1, "".join(parts))

    def escape(self, position: int) -> tuple[str, int]:
        """The character that the escape at `position` stands for, and where it ends."""
        text = self.text
        letter = text[position + 1 : position + 2]
        if letter in _ESCAPES and letter:
            return _ESCAPES[letter], position + 2
        if code := re.compile(r"x([0-7][0-9a-fA-F])|u\{([0-9a-fA-F]{1,6})\}").match(
            text, position + 1
        ):
            number = int(code.group(1) or code.group(2), 16)
            if number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF:
                return chr(number), code.end()
        stop = position + (1 if letter in ("", "\n") else 2)
        self.report.error(
            "OI0105",
            Span(position, stop),
            f"unknown escape `{text[position:stop]}` in a string",
            fix=r"known are \n \t \r \0 \\ \" \x41 \u{3b1}; write `\\` for a backslash",
        )
        return text[position:stop], stop
