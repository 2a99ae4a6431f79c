"""Tokens → syntax tree: sections, declarations and blocks.

A syntax error gives up one statement only: reading goes on behind its `;`, or at the `}` around
it, so that all errors of a program are found in one go.
"""

from __future__ import annotations

from openinfer.compiler.frontend.cursor import ParseAbort, SyntaxStop
from openinfer.compiler.frontend.desugar import desugar
from openinfer.compiler.frontend.first_edition import complete
from openinfer.compiler.frontend.lexer import Token, tokenize
from openinfer.compiler.frontend.parse_nodes import (
    FIRST_EDITION_SECTIONS,
    READERS,
    SECTION_WORDS,
    NodeParser,
)
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Source, Span
from openinfer.compiler.frontend.syntax import (
    Attribute,
    Block,
    Declaration,
    Literal,
    Name,
    Parameter,
    Program,
    Section,
    Setting,
    Value,
)
from openinfer.dialects.foreign_words import FUNCTIONS, SECTIONS
from openinfer.lowering.program.check_declarations import ATTRIBUTES
from openinfer.lowering.program.report import did_you_mean, nearest


def parse(source: Source, report: Report) -> Program:
    """The syntax tree of a program text; every syntax error goes to the report."""
    parser = _Parser(source, tokenize(source, report), report)
    try:
        parser.run()
    except ParseAbort:
        for token in parser.tokens[parser.position :]:
            if token.kind == "name":
                parser.skipped.add(token.text)
        parser.program.aborted = True
    parser.program.skipped = parser.skipped
    desugar(parser.program, report)
    complete(parser.program, list(parser.links.values()))
    return parser.program


class _Parser(NodeParser):
    def __init__(self, source: Source, tokens: list[Token], report: Report) -> None:
        super().__init__(source, tokens, report)
        self.program = Program()

    def run(self) -> None:
        wrapper = self.accept_wrapper()
        while not self.at("end"):
            if self.at("}") and wrapper:
                self.advance()
                wrapper = None
                self.accept(";")
                continue
            start = self.position
            try:
                self.item()
            except SyntaxStop:
                self.recover(start)
            if self.position == start:
                self.skip()
        if wrapper:
            self.report.error(
                "OI0116", wrapper, "`graph! {` is never closed", fix="close it with `}`"
            )

    def accept_wrapper(self) -> Span | None:
        """`graph! {` or `let g = graph! {` around a program, as it stands in Rust sources."""
        if self.at_word("let"):
            count = 1
            while self.ahead(count).kind in ("name", "(", ",", ")") and count < 16:
                count += 1
            if self.ahead(count).kind == "=" and self.ahead(count + 1).text == "graph":
                self.position += count + 1
        if self.at_word("graph") and self.ahead().kind == "!" and self.ahead(2).kind == "{":
            start = self.advance().span
            self.advance()
            return start.to(self.advance().span)
        return None

    def item(self) -> None:
        token = self.token
        what = "memory section or block"
        if token.kind == "}":
            self.advance()
            raise self.fail("OI0116", token.span, "this `}` closes nothing", fix="remove it")
        if token.kind != "name":
            raise self.complain(what, code="OI0112", fix="volatile { … }  or  block entry { … }")
        if token.text == "block":
            self.block()
        elif token.text in SECTION_WORDS and self.ahead().kind == "{":
            self.section(token.text)
        elif token.text == "constants" and self.ahead().kind == "{":
            self.report.warning(
                "OI0130", token.span, "section `constants`", fix="its name is `constant`"
            )
            self.section("constant")
        elif token.text in FIRST_EDITION_SECTIONS and self.ahead().kind == "{":
            self.section(FIRST_EDITION_SECTIONS[token.text])
        elif self.at_size():
            self.program.items += self.sizes()
        elif token.text == "model" and self.ahead().kind == ":":
            self.header()
        else:
            self.unknown_item(what)

    def unknown_item(self, what: str) -> None:
        token = self.token
        near = nearest(token.text, (*SECTION_WORDS, "block"))
        declared = self.declaration_advice()
        if declared is not None:
            near, fix = SECTIONS.get(token.text), declared
        elif token.text in READERS:
            fix = "statements stand in a block: `block entry { … }`"
        else:
            fix = f"did you mean `{near}`?" if near else "volatile { … }  or  block entry { … }"
        self.report.error("OI0112", token.span, f"expected {what}, found {token}", fix=fix)
        if near in SECTION_WORDS and self.ahead().kind == "{":
            self.section(str(near))
        elif near == "block" and self.ahead().kind == "name":
            self.block()
        else:
            raise SyntaxStop

    def declaration_advice(self) -> str | None:
        """What to write for a declaration outside of a section, or another word for a block."""
        word, behind = self.token.text, self.ahead()
        if word in FUNCTIONS and behind.kind in ("name", "{", "("):
            return "statements stand in a block: `block entry { … }`"
        section = word if word in SECTION_WORDS else SECTIONS.get(word)
        if section is not None and behind.kind == "{":
            return f"write `{section} {{ … }}`"
        if behind.kind == ":":
            section, name = "dynamic", word
        elif behind.kind == "name" and self.ahead(2).kind in (":", ".", "=", "["):
            name = behind.text
        else:
            return None
        if section is None:
            return None
        return f"declare it in a section: `{section} {{ {name}: f32[…]; }}`"

    # Sections.

    def section(self, memory: str) -> None:
        start = self.advance().span
        section = Section(memory, tuple(self.declarations(memory)), start)
        self.program.sections.append(section)
        self.program.items.append(section)

    def block_section(self) -> list[Declaration]:
        start = self.advance()
        if start.text != "constant":
            self.report.error(
                "OI0274",
                start.span,
                f"a block declares constants, no `{start.text}` variables",
                fix="declare them at the top of the program",
            )
        return self.declarations("constant")

    def declarations(self, memory: str) -> list[Declaration]:
        """`{ … }`: the declarations of a section."""
        opened = self.expect("{", f"`{{` to open section `{memory}`", code="OI0116").span
        declarations: list[Declaration] = []
        while not self.at("}", "end") and not self.at_section_or_block():
            begin = self.position
            try:
                declarations.append(self.declaration(memory))
            except SyntaxStop:
                self.recover(begin)
            if self.position == begin:
                self.skip()
        if not self.accept("}"):
            self.never_closed(f"section `{memory}`", opened)
        return declarations

    def declaration(self, memory: str) -> Declaration:
        name = self.expect_name("a variable declaration", fix="NAME: f32[B, D];")
        name = self.dotted(name, declared=True)
        indices: tuple[Name, ...] = ()
        if self.accept("("):
            indices = self.index_names()
        elif self.at("["):
            raise self.fail(
                "OI0120",
                self.token.span,
                "the indices of a declaration stand in parentheses, those of a use in brackets",
                fix=f"write `{name.text}(i): …`",
            )
        self.expect(":", f"`:` and a type after `{name.text}`", fix=f"{name.text}: f32[B, D];")
        buffer = self.at_buffer()
        if buffer and memory != "persistent":
            self.report.error(
                "OI0110",
                self.token.span,
                f"a buffer is persistent memory, `{name.text}` is {memory}",
                fix=f"state {{ {name.text}: buffer(f32, [B, T]); }}",
            )
        type_ = self.buffer() if buffer else self.type()
        attributes: list[Attribute] = []
        while self.at("@") or (self.at("name") and not self.on_new_line()):
            attributes.append(self.attribute())
        span = name.span.to(self.previous)
        self.expect_semicolon("the declaration")
        return Declaration(name, indices, type_, tuple(attributes), span, buffer)

    def index_names(self) -> tuple[Name, ...]:
        found: list[Name] = []
        while self.at("name"):
            found.append(self.expect_name("an index name"))
            self.accept(",")
        if not found and self.at(")"):
            raise self.complain(
                "at least one index name", code="OI0119", fix="remove the parentheses, or name one"
            )
        self.expect(")", "`)` after the index names")
        return tuple(found)

    def attribute(self) -> Attribute:
        start = self.token.span
        if self.accept("@"):
            name = self.expect_name("the name of an attribute after `@`")
        else:
            name = self.expect_name("an attribute")
            fix = f"write `@{name.text}`"
            if name.text == "pattern":
                self.report.warning("OI0131", name.span, "`pattern` without `@`", fix=fix)
            elif name.text in ATTRIBUTES:
                message = f"an attribute starts with `@`, found `{name.text}`"
                self.report.error("OI0110", name.span, message, fix=fix)
            else:
                raise self.fail(
                    "OI0111",
                    name.span,
                    f"expected `;` or an attribute after the type, found `{name.text}`",
                    fix=did_you_mean(name.text, ATTRIBUTES, "end the declaration with `;`"),
                )
        arguments: tuple[Value | Setting, ...] | None = None
        if self.accept("("):
            arguments = self.attribute_arguments(name)
        return Attribute(name, arguments, start.to(self.previous))

    def attribute_arguments(self, name: Name) -> tuple[Value | Setting, ...]:
        found: list[Value | Setting] = []
        while not self.at(")"):
            if self.at("name") and self.ahead().kind == "=":
                found.append(self.setting("an index"))
            elif name.text == "ref" and self.at("name", "int", "float"):
                found.append(self.tensor_name())
            else:
                found.append(self.value(f"a value in `@{name.text}(…)`"))
            if not self.accept(",") and self.at(";", "}", "end", "@", "{"):
                break
        self.expect(")", f"`)` at the end of `@{name.text}(…`")
        return tuple(found)

    def tensor_name(self) -> Literal:
        """`encoder.layer.0.weight`: the name of a tensor without quotes, letters, digits, `_` and dots."""
        start = self.advance().span
        while self.at("name", "int", "float", ".") and self.token.span.start == self.previous.stop:
            self.advance()
        span = start.to(self.previous)
        text = self.source.text[span.start : span.stop]
        if self.at("-", "/", ":") or text.endswith(".") or ".." in text:
            raise self.fail(
                "OI0126",
                span,
                "a name without quotes is made of letters, digits, `_` and single dots",
                fix='write it in quotes: `@ref("NAME")`',
            )
        return Literal(text, span)

    # Blocks.

    def block(self) -> None:
        start = self.advance().span
        begin = self.position
        name = Name("?", start)
        hints: tuple[Setting, ...] = ()
        parameters: tuple[Parameter, ...] | None = None
        try:
            name = self.expect_name("a name for the block", fix="block entry { … }")
            parameters = () if self.at("(") else None
            parameters = self.parameters()
            hints = self.hints()
            if not self.at("{", "name"):
                raise self.complain(f"`{{` to open block `{name.text}`", code="OI0116")
        except SyntaxStop:
            if not self.recover_to_body(begin):
                raise
        header = start.to(self.previous)
        declared: list[Declaration] | None = None if parameters is None else []
        nodes, close = self.body(f"block `{name.text}`", outermost=True, declared=declared)
        closed = close.stop > close.start
        constants = tuple(declared or ())
        block = Block(name, hints, nodes, header, close, closed, parameters, constants)
        self.program.blocks.append(block)
        self.program.items.append(block)
