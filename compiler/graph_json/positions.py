"""JSON text → values that know where they stand: a mistake is shown with its line and its path.

The grammar is that of RFC 8259. Besides it, duplicate keys, numbers beyond 64 bits, halves of
surrogate pairs and nesting beyond any program are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Source, Span

MAX_DEPTH = 200
"""A program nests 32 loops and scopes, of four levels of JSON each."""
_MAX_DIGITS = 400
_STRINGS = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORDS: dict[str, tuple[str, bool | None]] = {
    "true": ("bool", True),
    "false": ("bool", False),
    "null": ("null", None),
}
_FOREIGN = re.compile(r"-?(?:Infinity|NaN|inf|nan)\b")
_SHOWN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.A)


class NoJson(Exception):
    """The text is no JSON; its error is reported already."""


@dataclass(slots=True, eq=False)
class Json:
    """One value of a JSON text."""

    kind: str
    """"object", "array", "string", "int", "float", "bool" or "null"."""
    span: Span
    parent: Json | None = None
    key: str | int = ""
    """Under what the parent holds it."""
    scalar: str | int | float | bool | None = None
    members: dict[str, Json] = field(default_factory=dict[str, "Json"])
    key_spans: dict[str, Span] = field(default_factory=dict[str, Span])
    items: list[Json] = field(default_factory=list["Json"])

    @property
    def path(self) -> str:
        """`blocks.entry.nodes[3].kind`, empty for the whole text."""
        parts: list[str] = []
        node = self
        while node.parent is not None:
            if isinstance(node.key, int):
                parts.append(f"[{node.key}]")
            elif _SHOWN.match(node.key):
                parts.append(f".{node.key}")
            else:
                shown = node.key if len(node.key) <= 40 else f"{node.key[:37]}..."
                parts.append(f"[{json.dumps(shown)}]")
            node = node.parent
        return "".join(reversed(parts)).removeprefix(".")

    def __str__(self) -> str:
        """How a message names what was found."""
        if self.kind in ("object", "array"):
            return f"an {self.kind}"
        if self.kind == "string":
            text = str(self.scalar)
            return f"the string {json.dumps(text if len(text) <= 40 else text[:37] + '...')}"
        return json.dumps(self.scalar)

    def children(self) -> Iterator[Json]:
        """The values directly inside."""
        yield from self.members.values()
        yield from self.items


def read_json(source: Source, report: Report) -> Json | None:
    """The value of a JSON text; None when it is none, which is reported."""
    try:
        return _Reader(source, report).whole()
    except NoJson:
        return None


class _Reader:
    def __init__(self, source: Source, report: Report) -> None:
        self.text = source.text
        self.report = report
        self.position = 1 if source.text.startswith("\ufeff") else 0

    def whole(self) -> Json:
        value = self.value(None, "", 0)
        self.blank()
        if self.position < len(self.text):
            raise self.fail(self.position, "the text goes on behind its value", "remove the rest")
        return value

    def fail(self, start: int, message: str, fix: str | None = None, stop: int = 0) -> NoJson:
        self.report.error("OI0140", Span(start, max(stop, start + 1)), message, fix=fix)
        return NoJson()

    def blank(self) -> None:
        match = _BLANK.match(self.text, self.position)
        assert match is not None
        self.position = match.end()

    def value(self, parent: Json | None, key: str | int, depth: int) -> Json:
        self.blank()
        start, text = self.position, self.text
        if start >= len(text):
            raise self.fail(len(text), "the text ends where a value should stand")
        if depth > MAX_DEPTH:
            raise self.fail(
                start,
                f"values nested more than {MAX_DEPTH} levels deep",
                "no program nests loops and scopes that deep",
            )
        char = text[start]
        if char == '"':
            found = Json("string", Span(start, start), parent, key, self.string())
        elif char in "{[":
            found = Json("object" if char == "{" else "array", Span(start, start), parent, key)
            (self.members if char == "{" else self.elements)(found, depth)
        else:
            kind, scalar = self.plain()
            found = Json(kind, Span(start, start), parent, key, scalar)
        found.span = Span(start, self.position)
        return found

    def members(self, holder: Json, depth: int) -> None:
        self.position += 1
        self.blank()
        if self.at("}"):
            return
        while True:
            self.blank()
            start = self.position
            if not self.text.startswith('"', start):
                raise self.fail(start, f"expected a key in quotes, found {self.found()}")
            key = self.string()
            span = Span(start, self.position)
            if first := holder.key_spans.get(key):
                self.report.error(
                    "OI0141",
                    span,
                    f"key {json.dumps(key)} is given twice",
                    fix="remove one of them",
                    notes=[("first given here", first)],
                )
            self.blank()
            if not self.at(":"):
                raise self.fail(self.position, f"expected `:` behind a key, found {self.found()}")
            value = self.value(holder, key, depth + 1)
            holder.key_spans.setdefault(key, span)
            holder.members.setdefault(key, value)
            self.blank()
            if self.at("}"):
                return
            if not self.at(","):
                raise self.fail(self.position, f"expected `,` or `}}`, found {self.found()}")

    def elements(self, holder: Json, depth: int) -> None:
        self.position += 1
        self.blank()
        if self.at("]"):
            return
        while True:
            holder.items.append(self.value(holder, len(holder.items), depth + 1))
            self.blank()
            if self.at("]"):
                return
            if not self.at(","):
                raise self.fail(self.position, f"expected `,` or `]`, found {self.found()}")

    def at(self, mark: str) -> bool:
        """Takes the mark if it stands here."""
        if self.text.startswith(mark, self.position):
            self.position += 1
            return True
        return False

    def found(self) -> str:
        if self.position >= len(self.text):
            return "the end of the text"
        return f"`{self.text[self.position]}`"

    def string(self) -> str:
        start = self.position
        try:
            value, self.position = _STRINGS.raw_decode(self.text, start)
        except json.JSONDecodeError as error:
            message = error.msg.rstrip(" at").replace("Invalid", "invalid")
            raise self.fail(min(error.pos, len(self.text)), f"bad string: {message}") from None
        try:
            value.encode()
        except UnicodeEncodeError:
            raise self.fail(
                start, "a string with half of a surrogate pair", stop=self.position
            ) from None
        return value

    def plain(self) -> tuple[str, int | float | bool | None]:
        """A number, true, false or null."""
        start, text = self.position, self.text
        for word, (kind, value) in _WORDS.items():
            if text.startswith(word, start):
                self.position += len(word)
                return kind, value
        match = _NUMBER.match(text, start)
        if match is None:
            word = _FOREIGN.match(text, start)
            if word is not None:
                raise self.fail(
                    start,
                    f"`{word.group()}` is no JSON",
                    'write it as a string: {"Double": "inf"}, "-inf" or "nan"',
                    word.end(),
                )
            raise self.fail(start, f"expected a value, found {self.found()}")
        self.position = match.end()
        digits = match.group()
        if match.group(1) is None and match.group(2) is None:
            number = int(digits) if len(digits) <= _MAX_DIGITS else 2**64
            if not -(2**63) <= number < 2**64:
                raise self.fail(start, "this number does not fit into 64 bits", stop=self.position)
            return "int", number
        value = float(digits)
        if value in (float("inf"), float("-inf")):
            raise self.fail(
                start,
                "this number is too large for a 64-bit float",
                'write "inf" for infinity',
                self.position,
            )
        return "float", value
