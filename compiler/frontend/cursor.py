"""The reading position in a token list: looking, taking, complaining and recovering."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from openinfer.compiler.frontend.lexer import Token
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Source, Span
from openinfer.compiler.frontend.syntax import Name

MAX_NESTING = 32
"""Loops and scopes inside each other, and parentheses and lists: a page of text needs three."""


class SyntaxStop(Exception):
    """A syntax error was reported; the statement that holds it is given up."""


class ParseAbort(Exception):
    """An error was reported after which nothing useful can be read."""


class Cursor:
    """Tokens of one source and a position in them."""

    def __init__(self, source: Source, tokens: Sequence[Token], report: Report) -> None:
        self.source = source
        self.tokens = tokens
        self.report = report
        self.position = 0
        self.nesting = 0
        self.skipped: set[str] = set()
        self._mispaired: tuple[str, Span, Span] | None = None

    # Looking.

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def ahead(self, count: int = 1) -> Token:
        return self.tokens[min(self.position + count, len(self.tokens) - 1)]

    @property
    def previous(self) -> Span:
        return self.tokens[self.position - 1].span if self.position else Span(0, 0)

    def at(self, *kinds: str) -> bool:
        return self.token.kind in kinds

    def at_word(self, *words: str) -> bool:
        return self.token.kind == "name" and self.token.text in words

    def on_new_line(self) -> bool:
        """Whether a line ends between the token before and this one."""
        between = self.source.text[self.previous.stop : self.token.span.start]
        return "\n" in between or self.at("end")

    # Taking.

    def advance(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.position += 1
        return token

    def accept(self, kind: str) -> Token | None:
        return self.advance() if self.token.kind == kind else None

    def expect(
        self, kind: str, what: str, *, code: str = "OI0110", fix: str | None = None
    ) -> Token:
        """Takes a token of this kind, or complains that `what` was expected."""
        if self.token.kind == kind:
            return self.advance()
        raise self.complain(what, code=code, fix=fix)

    def expect_word(self, word: str, what: str, *, fix: str | None = None) -> Token:
        if self.at_word(word):
            return self.advance()
        raise self.complain(what, fix=fix)

    def expect_name(self, what: str, *, code: str = "OI0110", fix: str | None = None) -> Name:
        token = self.expect("name", what, code=code, fix=fix)
        return Name(token.text, token.span)

    def expect_semicolon(self, after: str) -> None:
        """`;`. When only it is missing, at the end of a line, reading goes on behind it."""
        if self.accept(";"):
            return
        stop = self.complain(f"`;` after {after}", code="OI0111", fix="end the statement with `;`")
        if not (self.on_new_line() or self.at("}")):
            raise stop

    # Complaining.

    def complain(self, what: str, *, code: str = "OI0110", fix: str | None = None) -> SyntaxStop:
        """Reports that `what` was expected here; the result is to be raised."""
        if self.at("bad"):
            return SyntaxStop()
        if self.token.kind == "end" or (self.position and self.on_new_line()):
            # The caret belongs behind what is incomplete, not under the next statement.
            span = Span(self.previous.stop, self.previous.stop)
        else:
            span = self.token.span
        self.report.error(code, span, f"expected {what}, found {self.token}", fix=fix)
        return SyntaxStop()

    def fail(self, code: str, span: Span, message: str, *, fix: str | None = None) -> SyntaxStop:
        self.report.error(code, span, message, fix=fix)
        return SyntaxStop()

    def note_closed(self, what: str, opened: Span, close: Span) -> None:
        """Remembers a pair of braces whose indentation says that they do not belong together."""
        (line, _), (end, column) = self.source.place(opened.start), self.source.place(close.start)
        before = self.source.text[close.start - column + 1 : close.start]
        if line == end or before.strip() or self._mispaired is not None:
            return
        start = opened.start - self.source.place(opened.start)[1] + 1
        text = self.source.text[start : opened.start]
        if len(before) < len(text) - len(text.lstrip()):
            self._mispaired = what, opened, close

    def never_closed(self, what: str, opened: Span) -> Span:
        """Reports a body without its `}`; the place behind the last token that was read.

        A brace further inside may be the one that is missing: the notes show where the body was
        opened, and the first `}` that stands further left than what it closes.
        """
        end = Span(self.previous.stop, self.previous.stop)
        notes: list[tuple[str, Span | None]] = [("opened here", opened)]
        if self._mispaired is not None:
            inner, place, close = self._mispaired
            line, _ = self.source.place(close.start)
            notes.append((f"perhaps it is {inner} that lacks its `}}`: that of line {line} "
                          "stands further left than this line", place))  # fmt: skip
        self.report.error(
            "OI0116", end, f"{what} is never closed", fix="close it with `}`", notes=notes
        )
        return end

    @contextmanager
    def nested(self, what: str) -> Generator[None]:
        """One level deeper; too deep ends the reading."""
        if self.nesting >= MAX_NESTING:
            self.report.error(
                "OI0106",
                self.token.span,
                f"{what} nested more than {MAX_NESTING} levels deep",
                fix="move the inner part to a block of its own, or simplify the expression",
            )
            raise ParseAbort
        self.nesting += 1
        try:
            yield
        finally:
            self.nesting -= 1

    # Recovering.

    def skip(self) -> None:
        if self.token.kind == "name":
            self.skipped.add(self.token.text)
        self.advance()

    def skip_group(self) -> None:
        """Skips a bracketed group with everything in it, or one token."""
        depth = 0
        while not self.at("end"):
            if self.at("{"):
                depth += 1
            elif self.at("}"):
                depth -= 1
            self.skip()
            if depth <= 0:
                return

    def recover(self, start: int) -> None:
        """Skips to behind the `;` that ends a broken statement, or to the `}` around it.

        `start` is the position where the statement began: its names count as skipped.
        """
        for token in self.tokens[start : self.position]:
            if token.kind == "name":
                self.skipped.add(token.text)
        last = self.tokens[self.position - 1].kind if self.position > start else ""
        if last == ";" or (last == "}" and self.position == start + 1):
            return
        while not self.at("end", "}"):
            if self.accept(";"):
                return
            if self.at("{"):
                self.skip_group()
                self.accept(";")
                return
            self.skip()

    def recover_to_body(self, start: int) -> bool:
        """After a bad header: skips to its `{`. False when there is none before the next `;`."""
        for token in self.tokens[start : self.position]:
            if token.kind == "name":
                self.skipped.add(token.text)
        while not self.at("end", "}", "{", ";"):
            self.skip()
        return self.at("{")
