"""Looks at the tokens of a text and takes them, each name with the role that it has there."""

from __future__ import annotations

import re
from collections.abc import Sequence

from openinfer.compiler.frontend.lexer import Token
from openinfer.compiler.frontend.source import Source, Span
from openinfer.compiler.language_server.symbols import Definition, Symbol, Word

LITERALS = ("true", "false", "inf", "nan")
_BRACES = re.compile(r"\{[^{}]*\}")
_NAME = re.compile(r"[A-Za-z_]\w*", re.A)


class TokenReader:
    """The tokens, the place among them, and what was found so far: `words` and `definitions`."""

    def __init__(self, source: Source, tokens: Sequence[Token]) -> None:
        self.text = source.text
        self.tokens = tokens
        self.position = 0
        self.words: list[Word] = []
        self.definitions: list[Definition] = []
        self.block = ""
        """The block that is being read."""
        self.local = ""
        """The same if it has parameters: its names are its own."""

    def ahead(self, count: int = 0) -> Token:
        return self.tokens[min(self.position + count, len(self.tokens) - 1)]

    def at(self, *texts: str) -> bool:
        return self.ahead().text in texts and self.ahead().kind != "string"

    @property
    def ended(self) -> bool:
        return self.ahead().kind == "end"

    @property
    def behind(self) -> int:
        """Where the token before ends."""
        return self.tokens[self.position - 1].span.stop if self.position else 0

    def take(self) -> Token:
        token = self.ahead()
        self.position += not self.ended
        return token

    def accept(self, text: str) -> bool:
        found = self.at(text)
        self.position += found
        return found

    def on_new_line(self) -> bool:
        return "\n" in self.text[self.behind : self.ahead().span.start]

    def word(self, role: str, owner: str = "", *, defines: bool = False) -> Token | None:
        """Takes a name with its role; None when there is none."""
        if self.ahead().kind != "name":
            return None
        token = self.take()
        self.words.append(Word(token.span, role, token.text, owner, defines))
        return token

    def define(self, kind: str, token: Token, owner: str = "", memory: str = "") -> Definition:
        """Something that the token declares. Variables of a block with parameters are its own."""
        if kind == "variable":
            owner = self.local
        symbol = Symbol(kind, token.text, owner)
        made = Definition(symbol, token.span, token.span, memory, block=self.block)
        self.definitions.append(made)
        return made

    def placeholders(self, role: str, owner: str = "") -> None:
        """The names in braces of a string, if one stands here."""
        token = self.ahead()
        if token.kind == "string":
            for braces in _BRACES.finditer(token.text):
                for name in _NAME.finditer(token.text, *braces.span()):
                    start = token.span.start + name.start()
                    span = Span(start, start + len(name[0]))
                    self.words.append(Word(span, role, name[0], owner))

    def value(self, owner: str = "") -> None:
        """A name where a size may stand, or one token."""
        if self.at(*LITERALS, "max", "min") and self.ahead().kind == "name":
            self.word("keyword")
        elif self.at("fmt") and self.ahead(1).text == "(":
            self.word("keyword")
            self.take()
            self.placeholders("value")
        elif self.word("value", owner) is None:
            self.take()
