"""Reads what each name of a text is there for, from the words around it.

The frontend gives up a statement that it cannot read; while a person types, that is the one that matters.
So this reads tokens, not the syntax tree: it knows the shape of every statement, takes what is there, and
goes on at the next `;`, brace, or line that begins like a statement.
"""

from __future__ import annotations

from collections.abc import Sequence

from openinfer.compiler.frontend.lexer import Token
from openinfer.compiler.frontend.parse_nodes import FIRST_EDITION_SECTIONS, READERS, SECTION_WORDS
from openinfer.compiler.frontend.source import Source, Span
from openinfer.compiler.language_server.symbols import Definition, Region, Symbol, Word
from openinfer.dialects import opset
from openinfer.lowering.program.sources import PLACEHOLDER

SECTIONS = {
    **{word: word for word in SECTION_WORDS},
    **FIRST_EDITION_SECTIONS,
    "constants": "constant",
}
"""How a section may be called → its memory kind."""
LITERALS = ("true", "false", "inf", "nan")
_DEEPEST = 64
"""Bodies inside each other, of which the frontend takes half as many; what is deeper counts as flat."""
_BEHIND = {
    "name": READERS.keys(),
    ";": ("barrier", "return"),
    "string": ("scope",),
    ".": ("cache",),
}
"""What may stand behind the first word of a statement."""


class Reader:
    """Walks over the tokens once: `run`, then `words`, `definitions`, `regions` and `loops` are there."""

    def __init__(self, source: Source, tokens: Sequence[Token]) -> None:
        self.text = source.text
        self.tokens = tokens
        self.position = 0
        self.words: list[Word] = []
        self.definitions: list[Definition] = []
        self.regions: list[Region] = []
        self.loops: list[tuple[Span, Definition]] = []
        self.block = ""
        self.depth = 0

    # Looking and taking.

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
        symbol = Symbol(kind, token.text, owner)
        made = Definition(symbol, token.span, token.span, memory, block=self.block)
        self.definitions.append(made)
        return made

    # The program.

    def run(self) -> None:
        while not self.ended:
            begin = self.position
            if not self.item():
                self.position = begin + 1

    def item(self) -> bool:
        """A section, a block, or the declaration of a size."""
        token, following = self.ahead(), self.ahead(1)
        if token.text in SECTIONS and following.text == "{":
            self.section()
        elif token.text == "block" and following.kind == "name":
            self.top_block()
        elif token.text == "size" and (following.kind == "name" or self.at_bound(1)):
            self.sizes()
        else:
            return False
        return True

    def at_item(self) -> bool:
        """Whether a section or block begins here though the one before is not closed."""
        token, following = self.ahead(), self.ahead(1)
        if token.text in SECTIONS:
            return following.text == "{"
        # A block may stand inside of a loop; one at the beginning of a line does not.
        column = token.span.start - (self.text.rfind("\n", 0, token.span.start) + 1)
        return token.text == "block" and following.kind == "name" and column == 0

    def section(self) -> None:
        label = self.take()
        self.words.append(Word(label.span, "keyword", label.text))
        opened = self.take()
        while not self.ended and not self.at("}") and not self.at_item():
            begin = self.position
            self.declaration(SECTIONS[label.text])
            self.position = max(self.position, begin + 1)
        body = Span(opened.span.stop, self.ahead().span.start)
        self.accept("}")
        whole = Span(label.span.start, self.behind)
        self.regions.append(Region("section", label.text, label.span, whole, body))

    def declaration(self, memory: str) -> None:
        name = self.word("variable", defines=True)
        if name is None:
            return
        made = self.define("variable", name, memory=memory)
        if self.accept("("):
            while self.ahead().kind == "name":
                index = self.word("slot", name.text, defines=True)
                assert index is not None
                self.define("slot", index, name.text)
                self.accept(",")
            self.accept(")")
        if self.accept(":"):
            made.type_text = self.type(name.text)
        while self.more() and not self.at_declaration():
            if not self.accept("@"):
                self.take()
                continue
            attribute = self.word("attribute")
            if attribute is not None and self.accept("("):
                self.arguments(attribute.text, name.text)
        made.whole = Span(name.span.start, self.behind)
        self.accept(";")

    def at_declaration(self) -> bool:
        return (
            self.on_new_line() and self.ahead().kind == "name" and self.ahead(1).text in (":", "(")
        )

    def arguments(self, attribute: str, owner: str) -> None:
        """Of an attribute, to behind the `)`."""
        while self.more() and not self.at_declaration() and not self.accept(")"):
            token = self.ahead()
            if attribute == "pattern":
                self.placeholders("slot", owner)
            if attribute in ("ref", "layout", "quant") or token.kind != "name":
                self.take()
            elif attribute in ("auto_dim", "fixed") and self.ahead(-1).text != "=":
                self.word("slot", owner)
            elif attribute == "dtype":
                self.word("dtype")
            elif token.text in LITERALS:
                self.word("keyword")
            else:
                self.word("value", owner)

    def placeholders(self, role: str, owner: str = "") -> None:
        """The names in braces of a string, if one stands here."""
        token = self.ahead()
        if token.kind == "string":
            for place in PLACEHOLDER.finditer(token.text):
                start = token.span.start + place.start(1)
                self.words.append(Word(Span(start, start + len(place[1])), role, place[1], owner))

    def type(self, owner: str = "") -> str:
        """`f32[B, D]`; its text."""
        start = self.ahead().span.start
        if self.at("buffer") and self.ahead(1).text == "(":
            self.word("keyword")
            self.take()
            self.word("dtype")
            while self.more() and not self.at_declaration() and not self.accept(")"):
                self.value(owner)
        else:
            if self.ahead().kind == "name" and not self.at_declaration():
                self.word("dtype")
            if self.accept("["):
                while self.more() and not self.at_declaration() and not self.accept("]"):
                    self.value(owner)
        return self.text[start : self.behind] if self.behind > start else ""

    # Statements.

    def top_block(self) -> None:
        start = self.word("keyword")
        name = self.word("block", defines=True)
        assert start is not None
        assert name is not None
        made = self.define("block", name)
        self.block = name.text
        self.hints()
        region = Region("block", name.text, name.span, name.span, name.span, made)
        self.body(region, start.span.start)
        made.whole = region.whole
        self.block = ""
        self.regions.append(region)

    def body(self, region: Region, start: int) -> None:
        """`{ … }`, or nothing where there is no brace."""
        opened = self.depth < _DEEPEST and self.accept("{")
        self.depth += 1
        begin = self.behind
        while opened and not self.ended and not self.at("}") and not self.at_item():
            here = self.position
            self.statement(region)
            if self.position == here:
                self.take()
        self.depth -= 1
        region.body = Span(begin, self.ahead().span.start if opened else begin)
        if opened:
            self.accept("}")
        region.whole = Span(start, self.behind)

    def at_statement(self) -> bool:
        """Whether a statement begins with this token."""
        token, following = self.ahead(), self.ahead(1)
        if token.kind != "name":
            return False
        if self.defined() and self.ahead(2 * self.defined()).text in ("op", "effect", "cache"):
            return True
        if self.at_size():
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

    def sizes(self) -> None:
        """`size heads = 4, 1 <= L <= 512;`, `size first = firsts[i], last = first + counts[i];`"""
        start = self.word("keyword")
        while start is not None and (self.ahead().kind == "name" or self.at_bound()):
            if self.at_bound():
                self.expression()
                if not self.accept(","):
                    break
                continue
            name = self.word("size", defines=True)
            assert name is not None
            made = self.define("size", name)
            self.expression()
            made.whole = Span(start.span.start, self.behind)
            if not self.accept(","):
                break
        self.accept(";")

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

    def statement(self, region: Region) -> None:
        token = self.ahead()
        if token.kind != "name":
            self.take()
            return
        if self.at_size():
            self.sizes()
            return
        for _ in range(self.defined()):
            name = self.word("ref", defines=True)
            assert name is not None
            if not any(d.symbol == Symbol("variable", name.text) for d in self.definitions):
                self.define("variable", name, memory="temporary")
            self.take()
            token = self.ahead()
        if token.text not in READERS and token.text != "block":
            self.rest()
            return
        start = self.word("keyword")
        assert start is not None
        match token.text:
            case "op":
                self.op()
            case "assign":
                self.assign(start)
            case "loop":
                self.loop(region, start)
            case "scope":
                label = self.ahead()
                if label.kind == "string":
                    self.take()
                self.hints()
                inner = Region("scope", label.text, label.span, label.span, label.span)
                self.body(inner, start.span.start)
                region.inner.append(inner)
            case "block":
                self.word("label")
                self.hints()
                inner = Region("scope", "block", start.span, start.span, start.span)
                self.body(inner, start.span.start)
                region.inner.append(inner)
            case "branch":
                self.branch()
            case "dep":
                self.dep()
            case "cache":
                action = self.word("cache") if self.accept(".") else None
                while action and action.text in ("increment", "decrement") and self.more():
                    self.value()  # the amount may be a size
            case "effect":
                self.word("cache")
            case _:
                pass
        self.rest()

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
        elif name.kind == "name" and self.ahead(1).text == "(" and self.depth < _DEEPEST:
            self.depth += 1
            self.op()
            self.depth -= 1
        elif self.word("ref") is None:
            self.take()
        elif self.accept("["):
            while self.more() and not self.accept("]"):
                self.value(name.text)

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

    def assign(self, start: Token) -> None:
        name = self.word("variable", defines=True)
        if name is None:
            return
        made = self.define("variable", name, memory="temporary")
        if self.accept(":"):
            made.type_text = self.type()
        made.whole = Span(start.span.start, self.behind)

    def loop(self, region: Region, start: Token) -> None:
        name = self.word("loop", str(start.span.start), defines=True)
        inner = Region("loop", name.text if name else "", start.span, start.span, start.span)
        index = None
        if self.accept("("):
            token = self.word("index", str(start.span.start), defines=True)
            if token is not None:
                index = self.define("index", token, str(start.span.start))
            if self.at("in"):
                self.word("keyword")
            while self.more() and not self.accept(")"):
                self.value()
        self.hints()
        self.body(inner, start.span.start)
        if index is not None:
            index.whole = inner.whole
            self.loops.append((inner.body, index))
        if name is not None:
            inner.label = name.span
        region.inner.append(inner)

    def branch(self) -> None:
        """One name is a block; of three, the first is the condition."""
        names: list[int] = []
        depth = 0
        begin = self.position
        while self.more():
            token = self.take()
            depth += {"[": 1, "]": -1}.get(token.text, 0)
            if token.kind == "name" and not depth:
                names.append(self.position - 1)
        end, self.position = self.position, begin
        blocks = names if len(names) == 1 else names[1:]
        while self.position < end:
            if self.position in blocks:
                self.word("block")
            else:
                self.use()

    def dep(self) -> None:
        while self.more():
            if self.at("after", "before") and self.ahead(1).text == "(":
                self.word("keyword")
                self.take()
                if self.at("cache") and self.ahead(1).text == ".":
                    self.word("keyword")
                    self.take()
                    self.word("cache")
                elif self.at(*READERS):
                    self.word("keyword")
                else:
                    self.word("op")
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
