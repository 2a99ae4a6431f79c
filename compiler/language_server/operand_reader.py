"""Where statements end that nobody has finished, and what the names in their operands are there for."""

from __future__ import annotations

from collections.abc import Sequence

from openinfer.compiler.frontend.lexer import Token
from openinfer.compiler.frontend.parse_nodes import FIRST_EDITION_SECTIONS, READERS, SECTION_WORDS
from openinfer.compiler.frontend.source import Source
from openinfer.compiler.language_server.symbols import Symbol
from openinfer.compiler.language_server.token_reader import LITERALS, TokenReader
from openinfer.dialects import opset

SECTIONS = {
    **{word: word for word in SECTION_WORDS},
    **FIRST_EDITION_SECTIONS,
    "constants": "constant",
}
"""How a section may be called → its memory kind."""
DEEPEST = 64
"""Bodies inside each other, of which the frontend takes half as many; what is deeper counts as flat."""
_BEHIND = {
    "name": READERS.keys(),
    ";": ("barrier", "return"),
    "string": ("scope",),
    ".": ("cache",),
}
"""What may stand behind the first word of a statement."""
DEFINING = ("op", "effect", "cache", "branch")
"""What may stand behind the `=` of a definition."""


class OperandReader(TokenReader):
    """Knows where something else begins, and reads expressions, operands, ops and hints up to there."""

    def __init__(self, source: Source, tokens: Sequence[Token]) -> None:
        super().__init__(source, tokens)
        self.depth = 0
        """How many bodies or ops are around what is read."""

    def at_item(self) -> bool:
        """Whether a section or block begins here though the one before is not closed."""
        token, following = self.ahead(), self.ahead(1)
        if token.text in SECTIONS:
            return following.text == "{"
        # A block may stand inside of a loop; one at the beginning of a line does not.
        column = token.span.start - (self.text.rfind("\n", 0, token.span.start) + 1)
        return token.text == "block" and following.kind == "name" and column == 0

    def at_declaration(self) -> bool:
        return (
            self.on_new_line() and self.ahead().kind == "name" and self.ahead(1).text in (":", "(")
        )

    def at_statement(self) -> bool:
        """Whether a statement begins with this token."""
        token, following = self.ahead(), self.ahead(1)
        if token.kind != "name":
            return False
        if self.defined() and self.ahead(2 * self.defined()).text in DEFINING:
            return True
        if self.at_size() or (self.at("branch") and self.ahead(2).text == "("):
            return True
        return token.text in READERS and token.text in _BEHIND.get(following.kind, ())

    def defined(self) -> int:
        """How many names a definition `a, b = …` begins with; 0 where none stands here."""
        count = 1
        while self.ahead(2 * count - 2).kind == "name":
            if self.ahead(2 * count - 1).text == "=":
                return count
            if self.ahead(2 * count - 1).text != ",":
                return 0
            count += 1
        return 0

    def more(self) -> bool:
        """Whether the statement goes on."""
        if self.ended or self.at(";", "}", "{"):
            return False
        return not (self.on_new_line() and (self.at_statement() or self.at_item()))

    def at_size(self) -> bool:
        """Whether sizes are defined here."""
        return self.at("size") and self.ahead(1).kind == "name" and self.ahead(2).text == "="

    def at_bound(self, count: int = 0) -> bool:
        """Whether what follows is the bound of a size: a comparison stands before its end."""
        depth = 0
        while (kind := self.ahead(count).kind) in (*"+-*/()", "name", "int") or (
            kind == "," and depth
        ):
            depth += {"(": 1, ")": -1}.get(kind, 0)
            count += 1
        return kind == "<="

    def expression(self) -> None:
        """A size, or the bound of one."""
        while self.more() and not self.at(","):
            if self.at("max", "min"):
                self.call()
            else:
                self.value()

    def call(self) -> None:
        """`max(a, b)` of sizes."""
        self.word("keyword")
        depth = 0
        while self.more():
            depth += {"(": 1, ")": -1}.get(self.ahead().text, 0)
            self.value()
            if depth <= 0:
                return

    def temporary(self, name: Token) -> bool:
        """A name that a statement gives a value: whether it is the first one, which declares it."""
        symbol = Symbol("variable", name.text, self.local)
        parameter = Symbol("parameter", name.text, self.local)
        if any(d.symbol in (symbol, parameter) for d in self.definitions):
            return False
        self.define("variable", name, memory="temporary")
        return True

    def rest(self) -> None:
        """What is left of a statement: uses of variables."""
        while self.more():
            if self.at("with") and self.ahead(1).text == "{":
                self.hints()
            else:
                self.use()
        self.accept(";")

    def use(self, owner: str = "") -> None:
        """A variable with its slots, or one token."""
        name = self.ahead()
        if name.kind == "name" and self.ahead(1).text == "=":
            self.word("argument", owner)
            self.take()
            self.value()
        elif name.kind == "name" and self.ahead(1).text == "(" and self.depth < DEEPEST:
            self.depth += 1
            self.op()
            self.depth -= 1
        elif name.kind == "name":
            # In a block with parameters, what is written needs no declaration.
            written = bool(self.local and self.position) and self.ahead(-1).text == ">>"
            self.word("ref", defines=written and self.temporary(name))
            self.slots(name.text)
        else:
            self.take()

    def slots(self, variable: str) -> None:
        """`[l, 0..n]` behind a variable, if it is there."""
        if self.accept("["):
            while self.more() and not self.accept("]"):
                self.value(variable)

    def op(self) -> None:
        name = self.word("op")
        op = name.text if name is not None else ""
        spec = opset.find(op)
        if not self.accept("("):
            return
        depth = 1
        setting = False
        while self.more():
            if self.at("(", "["):
                depth += 1
            elif self.at(")", "]"):
                depth -= 1
            elif self.at(",") and depth == 1:
                setting = False
            if not depth:
                self.take()
                return
            if self.ahead().kind == "name" and self.ahead(1).text == "=" and depth == 1:
                row = spec.setting(self.ahead().text) if spec is not None else None
                named = spec is not None and spec.place(self.ahead().text) is not None
                self.word("argument" if named and row is None else "setting", op)
                self.take()
                setting = row is not None or not named
            elif setting:
                self.value()
            elif self.ahead().kind == "name":
                self.use()
            else:
                self.take()

    def hints(self) -> None:
        """`with { … }`, if there is one."""
        if not (self.at("with") and self.ahead(1).text == "{"):
            return
        self.word("keyword")
        self.take()
        while not self.ended and not self.at("}", ";"):
            if self.ahead().kind == "name" and self.ahead(1).text == "=":
                self.word("hint")
            elif self.at(*LITERALS):
                self.word("keyword")
            else:
                self.take()
        self.accept("}")
