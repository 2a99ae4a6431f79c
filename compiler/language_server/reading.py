"""Reads what each name of a text is there for, from the words around it.

The frontend gives up a statement that it cannot read; while a person types, that is the one that matters.
So this reads tokens, not the syntax tree: it knows the shape of every statement, takes what is there, and
goes on at the next `;`, brace, or line that begins like a statement.
"""

from __future__ import annotations

from collections.abc import Sequence

from openinfer.compiler.frontend.lexer import Token
from openinfer.compiler.frontend.parse_nodes import READERS
from openinfer.compiler.frontend.source import Source, Span
from openinfer.compiler.language_server.operand_reader import DEEPEST, SECTIONS, OperandReader
from openinfer.compiler.language_server.symbols import Definition, Region, Word
from openinfer.compiler.language_server.token_reader import LITERALS


class Reader(OperandReader):
    """Walks over the tokens once: `run`, then `words`, `definitions`, `regions`, `loops` and `locals` are
    there."""

    def __init__(self, source: Source, tokens: Sequence[Token]) -> None:
        super().__init__(source, tokens)
        self.regions: list[Region] = []
        self.loops: list[tuple[Span, Definition]] = []
        self.locals: list[tuple[Span, str]] = []
        """The blocks with parameters, from the first parameter to the closing brace."""

    # The program.

    def run(self) -> None:
        while not self.ended:
            begin = self.position
            if not self.item():
                self.position = begin + 1
        # What a block with parameters writes is its own, unless the program declares it.
        shared = {d.symbol.name for d in self.definitions if not d.symbol.owner and d.is_declared}
        self.definitions = [
            d for d in self.definitions
            if d.symbol.name not in shared or d.symbol.owner == "" or d.memory != "temporary"
        ]  # fmt: skip

    def item(self) -> bool:
        """A section, a block, or the declaration of a size."""
        token, following = self.ahead(), self.ahead(1)
        if token.text in SECTIONS and following.text == "{":
            self.regions.append(self.section())
        elif token.text == "block" and following.kind == "name":
            self.top_block()
        elif token.text == "size" and (following.kind == "name" or self.at_bound(1)):
            self.sizes()
        else:
            return False
        return True

    def section(self) -> Region:
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
        return Region("section", label.text, label.span, whole, body)

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

    def arguments(self, attribute: str, owner: str) -> None:
        """Of an attribute, to behind the `)`."""
        while self.more() and not self.at_declaration() and not self.accept(")"):
            token = self.ahead()
            if attribute == "pattern" or (attribute == "ref" and self.local):
                self.placeholders("value" if self.local else "slot", owner)
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
        begin = self.behind
        if self.at("("):
            self.local = name.text
            self.parameters()
            made.type_text = self.text[begin : self.behind]
        self.hints()
        region = Region("block", name.text, name.span, name.span, name.span, made)
        self.body(region, start.span.start, outermost=True)
        made.whole = region.whole
        if self.local:
            self.locals.append((Span(begin, self.behind), name.text))
        self.block = self.local = ""
        self.regions.append(region)

    def parameters(self) -> None:
        """`(x, path, stride=1)` behind the name of a block."""
        self.take()
        while self.more() and not self.accept(")"):
            start = self.ahead().span.start
            name = self.word("parameter", self.block, defines=True)
            if name is None:
                self.take()
                continue
            made = self.define("parameter", name, self.block)
            if self.accept("="):
                while self.more() and not self.at(",", ")"):
                    self.value()
            made.whole = Span(start, self.behind)
            self.accept(",")

    def body(self, region: Region, start: int, *, outermost: bool = False) -> None:
        """`{ … }`, or nothing where there is no brace."""
        opened = self.depth < DEEPEST and self.accept("{")
        self.depth += 1
        begin = self.behind
        while opened and outermost and self.local and self.at(*SECTIONS):
            if self.ahead(1).text != "{":
                break
            region.inner.append(self.section())
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
            self.temporary(name)
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
        """A call with arguments; else one name is a block, and of three the first is the condition."""
        if self.ahead().kind == "name" and self.ahead(1).text == "(":
            self.block_call()
            return
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

    def block_call(self) -> None:
        """`conv(x, "layer1.0", stride=2)`: what is named is a parameter of the block."""
        block = self.word("block")
        assert block is not None
        self.take()
        while self.more() and not self.accept(")"):
            name = self.ahead()
            self.placeholders("value")
            if name.kind == "name" and self.ahead(1).text == "=":
                self.word("parameter", block.text)
                self.take()
            elif name.kind == "name" and self.ahead(1).text == "(" and not self.at("max", "min"):
                self.op()
            else:
                self.value()
                if name.kind == "name":
                    self.slots(name.text)

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
