"""Reads the small pieces: size expressions, values, types, variable uses, hints."""

from __future__ import annotations

from dataclasses import replace

from openinfer.compiler.frontend.cursor import Cursor
from openinfer.compiler.frontend.foreign_forms import LIST, RANGE
from openinfer.compiler.frontend.source import Span
from openinfer.compiler.frontend.syntax import (
    Call,
    Element,
    Expr,
    ListValue,
    Literal,
    Name,
    Number,
    Product,
    Ref,
    Setting,
    Slice,
    Sum,
    Type,
    Value,
)
from openinfer.dialects.graph.syntax import LITERAL_WORDS


class ValueParser(Cursor):
    """Expressions, values, types and uses."""

    in_list = False
    """Whether the items of a list value are being read."""

    # Size expressions.

    def expression(self, what: str = "a size expression") -> Expr:
        """`a + b*c - d`."""
        start = self.token.span
        terms: list[tuple[int, Expr]] = []
        sign = -1 if self.accept("-") else 1
        terms.append((sign, self.product(what)))
        while self.at("+", "-") and not self.starts_next_item():
            sign = -1 if self.advance().kind == "-" else 1
            terms.append((sign, self.product(what)))
        if len(terms) == 1 and terms[0][0] == 1:
            return terms[0][1]
        return Sum(tuple(terms), start.to(self.previous))

    def starts_next_item(self) -> bool:
        """In a list of values `[0 -1]` are two items, `[n - 1]` and `[n-1]` are one."""
        before, after = self.token.span
        text = self.source.text
        return self.in_list and text[before - 1].isspace() and not text[after : after + 1].isspace()

    def product(self, what: str) -> Expr:
        first = self.factor(what)
        rest: list[tuple[str, Expr]] = []
        while self.at("*", "/"):
            operator = self.advance().kind
            rest.append((operator, self.factor(what)))
        return Product(first, tuple(rest), first.span.to(self.previous)) if rest else first

    def factor(self, what: str) -> Expr:
        token = self.token
        if token.kind == "int" and isinstance(token.value, int):
            self.advance()
            return Number(token.value, token.span)
        if token.kind == "name":
            self.advance()
            name = Name(token.text, token.span)
            if token.text in ("max", "min") and self.at("("):
                return self.call(name, what)
            return self.element(name) if self.at_element() else name
        if token.kind == "(":
            with self.nested("parentheses"):
                self.advance()
                inner = self.expression(what)
                fix = LIST if self.at(",") else None
                self.expect(")", "`)` at the end of the parentheses", fix=fix)
                if isinstance(inner, Sum | Product):
                    return replace(inner, span=token.span.to(self.previous))
                return inner
        if token.kind == "-":
            with self.nested("signs"):
                self.advance()
                inner = self.factor(what)
                return Sum(((-1, inner),), token.span.to(inner.span))
        fix = "sizes are made of names, whole numbers, + - * / and parentheses"
        raise self.complain(
            f"identifier or integer for {what.removeprefix('a ')}", code="OI0115", fix=fix
        )

    def at_element(self) -> bool:
        """Whether brackets follow without a space: in a list, `[n [1]]` are two items."""
        behind = self.token.span.start == self.previous.stop
        return self.at("[") and behind and self.ahead().kind not in ("string", "]")

    def element(self, name: Name) -> Element:
        """`slots[i]`."""
        with self.nested("indices"):
            self.advance()
            index = self.expression("an index expression")
            self.expect("]", f"`]` at the end of `{name.text}[…`")
        return Element(name, index, name.span.to(self.previous))

    def call(self, name: Name, what: str) -> Expr:
        with self.nested("calls"):
            self.expect("(", "`(`")
            arguments = [self.expression(what)]
            while self.accept(",") and not self.at(")"):
                arguments.append(self.expression(what))
            self.expect(")", f"`)` at the end of `{name.text}(…`")
        return Call(name, tuple(arguments), name.span.to(self.previous))

    # Values.

    def value(self, what: str) -> Value:
        """A number, bool, string, name or list of these."""
        token = self.token
        if token.kind == "[":
            return self.list_value(what)
        if token.kind == "-":
            if (literal := self.negative()) is not None:
                return literal
            return self.expression(what)
        if token.kind in ("float", "string") and token.value is not None:
            self.advance()
            return Literal(token.value, token.span)
        if self.at_word(*LITERAL_WORDS):
            self.advance()
            return Literal(LITERAL_WORDS[token.text], token.span)
        if token.kind in ("name", "int", "("):
            found = self.expression(what)
            return Literal(found.value, found.span) if isinstance(found, Number) else found
        raise self.complain(
            what, code="OI0122", fix="a number, true, false, a string, a name or a list"
        )

    def negative(self) -> Literal | None:
        """`-1`, `-0.5`, `-inf`; None when a longer expression starts with the sign."""
        minus, number = self.token, self.ahead()
        if number.kind == "name" and number.text not in ("inf", "nan"):
            raise self.fail(
                "OI0122",
                minus.span,
                f"unexpected `-` before identifier `{number.text}`",
                fix=f"write `0 - {number.text}`, or compute the value in the graph",
            )
        if number.kind == "int" and self.ahead(2).kind in ("+", "-", "*", "/"):
            return None
        value = LITERAL_WORDS[number.text] if number.kind == "name" else number.value
        if not isinstance(value, int | float):
            self.advance()
            raise self.complain("a number after `-`", code="OI0122")
        self.advance()
        self.advance()
        return Literal(-value, minus.span.to(number.span))

    def list_value(self, what: str) -> ListValue:
        with self.nested("lists"):
            start = self.expect("[", "`[`").span
            items: list[Value] = []
            around, self.in_list = self.in_list, True
            try:
                while not self.at("]"):
                    items.append(self.value(what))
                    self.accept(",")
            finally:
                self.in_list = around
            stop = self.expect("]", "`]` at the end of the list").span
        return ListValue(tuple(items), start.to(stop))

    def setting(self, what: str) -> Setting:
        name = self.expect_name(f"a name of {what}")
        self.expect("=", f"`=` after `{name.text}`")
        return Setting(name, self.value(f"a value of {what} `{name.text}`"))

    # Types and uses.

    def type(self) -> Type:
        """`f32[B, 3*D]`; without brackets, or with empty ones, a scalar."""
        dtype = self.expect_name("a dtype", fix="for example `f32` or `i64[B]`")
        dims = self.dimensions() if self.at("[") else ()
        return Type(dtype, dims, dtype.span.to(self.previous))

    def dimensions(self) -> tuple[Expr, ...]:
        """`[B, 3*D]`."""
        self.advance()
        dims: list[Expr] = []
        while not self.at("]"):
            dims.append(self.expression("a dimension expression"))
            self.accept(",")
            if not self.at("]", "name", "int", "(", "-"):
                raise self.complain("`,` or `]` in the dimensions", code="OI0115")
        self.advance()
        return tuple(dims)

    def ref(self, what: str) -> Ref:
        """`h`, `W[l]`, `K[l, 0..n]`, `K[]`."""
        name = self.dotted(self.expect_name(what))
        if self.at("(") and not self.on_new_line():
            raise self.fail(
                "OI0120",
                name.span.to(self.token.span),
                f"an entry of `{name.text}` is selected with brackets, not with parentheses",
                fix=f"write `{name.text}[…]`",
            )
        slots = self.slots() if self.at("[") else None
        return Ref(name, slots, name.span.to(self.previous))

    def dotted(self, name: Name, *, declared: bool = False) -> Name:
        """The name itself; one with dots, as tensors of a package have it, is reported."""
        stop = name.span.stop
        while (
            self.at(".") and self.token.span.start == stop and self.ahead().span.start == stop + 1
        ):
            self.advance()
            if not self.at("name", "int", "float"):
                break
            stop = self.advance().span.stop
        if stop == name.span.stop:
            return name
        text = self.source.text[name.span.start : stop]
        ours = text.replace(".", "_")
        fix = f'declare `{ours}: f32[…] @ref("{text}");`'
        span = Span(name.span.start, stop)
        message = f"a name has no dots, found `{text}`"
        if declared:
            self.report.error("OI0281", span, message, fix=fix)
        else:
            fix = f"{fix} and use `{ours}`"
            self.report.error_once("OI0281", text, span, message, fix=fix)
        self.skipped.add(ours)
        return Name(ours, span)

    def slots(self) -> tuple[Expr | Slice, ...]:
        self.advance()
        found: list[Expr | Slice] = []
        if self.accept("]"):
            return ()
        while True:
            if self.at(",", "]"):
                found.append(Slice(None, None, Span(self.previous.stop, self.previous.stop)))
            else:
                found.append(self.slot())
            if self.accept("]"):
                return tuple(found)
            if not self.accept(",") and not self.at("name", "int", "("):
                fix = RANGE if self.at(":") else None
                raise self.complain("`,` or `]` in the indices", code="OI0115", fix=fix)

    def slot(self) -> Expr | Slice:
        start_span = self.token.span
        if self.at(":"):
            raise self.complain("an index or a range", code="OI0115", fix=RANGE)
        start = None if self.at("..") else self.expression("an index expression")
        if not self.accept(".."):
            assert start is not None
            return start
        stop = None if self.at(",", "]") else self.expression("an index expression")
        return Slice(start, stop, start_span.to(self.previous))

    def names(self, what: str) -> tuple[Name, ...]:
        """Names up to the `;`, commas optional."""
        found: list[Name] = []
        while self.at("name"):
            if found and self.on_new_line() and self.previous_kind() == "name":
                break  # the `;` is missing: the next line is another statement
            found.append(self.expect_name(what))
            self.accept(",")
        return tuple(found)

    def done(self, start: Span, after: str) -> Span:
        """Takes the `;`; the span of the whole statement without it."""
        stop = self.previous
        self.expect_semicolon(after)
        return start.to(stop)

    def previous_kind(self) -> str:
        return self.tokens[self.position - 1].kind if self.position else "end"

    def hints(self) -> tuple[Setting, ...]:
        """`with { fuse = true, group = "g" }`, if there is one."""
        if not (self.at_word("with") and self.ahead().kind == "{"):
            return ()
        self.advance()
        self.advance()
        found: list[Setting] = []
        while not self.at("}", "end"):
            found.append(self.setting("a hint"))
            if not self.accept(",") and not self.at("}", "name"):
                raise self.complain("`,` or `}` after the hint")
        self.expect("}", "`}` at the end of the hints", code="OI0116")
        return tuple(found)
