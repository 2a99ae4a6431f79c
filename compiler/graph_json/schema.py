"""What a value of a graph JSON must look like; every refusal names the path of the bad value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TypeVar

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.cursor import ParseAbort, SyntaxStop
from openinfer.compiler.frontend.lexer import tokenize
from openinfer.compiler.frontend.parse_values import ValueParser
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Source, Span
from openinfer.compiler.graph_json.positions import Json
from openinfer.lowering.program.report import did_you_mean

_Piece = TypeVar("_Piece")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.A)
_ARTICLES = {
    "object": "an object",
    "array": "an array",
    "string": "a string",
    "int": "a whole number",
    "bool": "true or false",
}


class Refused(Exception):
    """A value was refused and reported; whoever reads a list goes on with the next item."""


class Schema:
    """Takes JSON values apart, reporting what does not fit."""

    def __init__(self, source: Source, report: Report) -> None:
        self.source = source
        self.report = report

    def refuse(self, value: Json, message: str, fix: str | None = None) -> Refused:
        """Reports a value with its path; the result is to be raised."""
        path = value.path
        self.report.error("OI0141", value.span, f"{path}: {message}" if path else message, fix=fix)
        return Refused()

    def expect(self, value: Json, kind: str, what: str) -> Json:
        if value.kind != kind:
            raise self.refuse(value, f"{what} must be {_ARTICLES[kind]}, found {value}")
        return value

    # Objects, arrays, scalars.

    def fields(
        self, value: Json, what: str, required: Collection[str], optional: Collection[str] = ()
    ) -> dict[str, Json]:
        """The members of an object with exactly these keys."""
        self.expect(value, "object", what)
        known = [*required, *optional]
        for key, member in value.members.items():
            if key not in known:
                path = f"{value.path}: " if value.path else ""
                self.report.error(
                    "OI0141",
                    value.key_spans.get(key, member.span),
                    f"{path}unknown key {json.dumps(key)} of {what}",
                    fix=did_you_mean(key, known, f"its keys are {', '.join(known)}"),
                )
        missing = [key for key in required if key not in value.members]
        if missing:
            listed = ", ".join(json.dumps(key) for key in missing)
            raise self.refuse(value, f"{what} lacks {listed}")
        return value.members

    def items(self, value: Json, what: str) -> list[Json]:
        return self.expect(value, "array", what).items

    def text(self, value: Json, what: str) -> str:
        return str(self.expect(value, "string", what).scalar)

    def flag(self, value: Json, what: str) -> bool:
        return bool(self.expect(value, "bool", what).scalar)

    def whole(self, value: Json, what: str, least: int = -(2**63), most: int = 2**64 - 1) -> int:
        number = self.expect(value, "int", what).scalar
        assert isinstance(number, int)
        if not least <= number <= most:
            raise self.refuse(value, f"{what} must lie in {least}..{most}, found {number}")
        return number

    def variant(self, value: Json, what: str, known: Collection[str]) -> tuple[str, Json | None]:
        """One of several forms: `"Name"`, or `{"Name": content}`."""
        if value.kind == "string":
            tag, content = str(value.scalar), None
        elif value.kind == "object" and len(value.members) == 1:
            ((tag, content),) = value.members.items()
        else:
            raise self.refuse(
                value,
                f"{what} must be a name or an object with one key, found {value}",
                fix=f"known are {', '.join(known)}",
            )
        if tag not in known:
            fix = did_you_mean(tag, known, f"known are {', '.join(known)}")
            raise self.refuse(value, f"unknown {what} {json.dumps(tag)}", fix)
        return tag, content

    # Pieces of the language inside of strings.

    def name(self, value: Json, what: str) -> syntax.Name:
        """A name of the language."""
        text = self.text(value, what)
        if not _NAME.match(text):
            fix = "names are made of the letters A-Z, a-z, digits and `_`"
            raise self.refuse(value, f"{what} must be a name, found {value}", fix)
        return syntax.Name(text, value.span)

    def names(self, value: Json, what: str) -> tuple[syntax.Name, ...]:
        return tuple(self.name(item, f"an item of {what}") for item in self.items(value, what))

    def expression(self, value: Json, what: str) -> syntax.Expr:
        """A size expression: `"3*D"`, `"i - 1"`, `"_"`."""
        parser = self._parser(value, what)
        return self._parsed(value, what, parser, lambda: parser.expression(what))

    def use(self, value: Json, what: str) -> syntax.Ref:
        """A variable use: `"h"`, `"W[l]"`."""
        parser = self._parser(value, what)
        return self._parsed(value, what, parser, lambda: parser.ref(what))

    def _parser(self, value: Json, what: str) -> ValueParser:
        text = self.text(value, what)
        mistakes = Report(source=self.source)
        tokens = tokenize(Source(text), mistakes)
        self._raise_first(value, what, mistakes)
        start, stop = value.span
        # Without escapes the characters of the string are those of the text.
        plain = stop - start == len(text) + 2
        moved = [
            replace(
                token,
                span=Span(start + 1 + token.span.start, start + 1 + token.span.stop)
                if plain
                else value.span,
            )
            for token in tokens
        ]
        return ValueParser(self.source, moved, mistakes)

    def _parsed(
        self, value: Json, what: str, parser: ValueParser, read: Callable[[], _Piece]
    ) -> _Piece:
        try:
            found = read()
        except (SyntaxStop, ParseAbort):
            self._raise_first(value, what, parser.report)
            raise Refused from None
        self._raise_first(value, what, parser.report)
        if not parser.at("end"):
            raise self.refuse(value, f"{what} goes on with {parser.token}")
        return found

    def _raise_first(self, value: Json, what: str, mistakes: Report) -> None:
        if mistakes.diagnostics:
            first = mistakes.sorted()[0]
            raise self.refuse(value, f"{what}: {first.message}", first.hint)

    def integer(self, number: int, span: Span) -> syntax.Expr:
        """A whole number as the expression that the parser makes of it."""
        if number >= 0:
            return syntax.Number(number, span)
        return syntax.Sum(((-1, syntax.Number(-number, span)),), span)
