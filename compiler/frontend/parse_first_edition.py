"""Reads the forms of the first edition of the language, and says them in today's.

`y = op f(a=x);`, `effect …`, `model["…"]`, `state { c: buffer(…); }` and a block inside a loop give
the same syntax nodes as their counterparts; `first_edition` completes the program afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from openinfer.compiler.frontend.cursor import SyntaxStop
from openinfer.compiler.frontend.foreign_forms import operator_advice
from openinfer.compiler.frontend.lexer import Token
from openinfer.compiler.frontend.parse_calls import CallParser
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Source, Span
from openinfer.compiler.frontend.syntax import (
    Attribute,
    CacheRead,
    CacheWrite,
    Declaration,
    Expr,
    Literal,
    Name,
    Node,
    Op,
    Ref,
    Type,
    Value,
)
from openinfer.lowering.program.report import did_you_mean
from openinfer.runtime.dtypes import ALIASES, DTYPES

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_NO_NAMES = {"true", "false", "inf", "nan", "max", "min", "model", "fmt", "_", *DTYPES, *ALIASES}
"""Words that a name made up here must not be."""
_EFFECTS = ("read", "write")


class FirstEditionParser(CallParser):
    """Definitions, effects and `model[…]`."""

    def __init__(self, source: Source, tokens: list[Token], report: Report) -> None:
        super().__init__(source, tokens, report)
        self.models = {"model"}
        """Names that stand for the package: `model`, and that of a `model: NAME,` header."""
        self.links: dict[tuple[str, int], Declaration] = {}
        """The constant behind each `model["…"]`, by pattern and number of indices."""
        self._taken: set[str] | None = None

    # `model["scale"]`, `model[fmt("W.{l}")]`.

    def at_link(self) -> bool:
        """Whether a use of the package's tensors by their names starts here."""
        if not (self.at_word(*self.models) and self.ahead().kind == "["):
            return False
        ahead = self.ahead(2)
        return ahead.kind == "string" or (ahead.text == "fmt" and self.ahead(3).kind == "(")

    def ref(self, what: str) -> Ref:
        return self.link() if self.at_link() else super().ref(what)

    def value(self, what: str) -> Value:
        if not self.at_link():
            return super().value(what)
        ref = self.link()
        if ref.slots is not None:
            self.report.error(
                "OI0125",
                ref.span,
                f"{what} cannot be one tensor of several",
                fix='name one: `model["NAME"]`',
            )
        return ref.name

    def link(self) -> Ref:
        """The use of a constant that is linked to the named tensor, or family of tensors."""
        start = self.advance().span
        self.advance()
        formatted = self.at_word("fmt")
        if formatted:
            self.advance()
            self.advance()
        token = self.expect("string", "the name of a tensor", fix='model["NAME"]')
        if formatted:
            self.expect(")", "`)` after the name of the tensor", fix='model[fmt("NAME.{i}")]')
        self.expect("]", "`]` after the name of the tensor", fix='model["NAME"]')
        text, span = str(token.value), start.to(self.previous)
        indices = self.placeholders(text, token.span) if formatted else []
        if not text:
            raise self.fail(
                "OI0126", token.span, "a tensor without a name", fix='write `model["NAME"]`'
            )
        declaration = self.linked(text, indices, span)
        slots: tuple[Expr, ...] = tuple(Name(index, token.span) for index in indices)
        return Ref(Name(declaration.name.text, span), slots or None, span)

    def placeholders(self, text: str, span: Span) -> list[str]:
        """The names in braces of a format text."""
        found = _PLACEHOLDER.findall(text)
        rest = _PLACEHOLDER.sub("", text)
        wrong = next((name for name in found if not re.fullmatch(r"[A-Za-z_]\w*", name)), None)
        if wrong is not None or "{" in rest or "}" in rest:
            raise self.fail(
                "OI0126",
                span,
                f"`{{{wrong}}}` in `fmt` is no name" if wrong is not None else "a brace too many",
                fix='names stand in braces: `fmt("W.{l}")`',
            )
        return list(dict.fromkeys(found))

    def linked(self, text: str, indices: list[str], span: Span) -> Declaration:
        """The declaration of a link; one for all uses of a tensor or family."""
        order = {name: f"{{{position}}}" for position, name in enumerate(indices)}
        family = _PLACEHOLDER.sub(lambda m: order.get(m[1], m[0]), text) if indices else text
        key = (family, len(indices))
        if key not in self.links:
            name = Name(self.free_name(_PLACEHOLDER.sub("", text) if indices else text), span)
            attribute = Attribute(
                Name("pattern" if indices else "ref", span), (Literal(text, span),), span
            )
            self.links[key] = Declaration(
                name,
                tuple(Name(index, span) for index in indices),
                Type(Name("_", span), (), span),
                (attribute,),
                span,
            )
        return self.links[key]

    def free_name(self, like: str) -> str:
        """A name that the program does not use, similar to `like`."""
        if self._taken is None:
            self._taken = {t.text for t in self.tokens if t.kind == "name"} | _NO_NAMES
        stem = re.sub(r"\W+", "_", like, flags=re.A).strip("_")
        if not stem or stem[0].isdigit():
            stem = f"model_{stem}" if stem else "model_tensor"
        stem = stem[:64]
        names: Iterable[str] = (stem, f"model_{stem}")
        name = next((n for n in names if n not in self._taken), None)
        number = 2
        while name is None:
            candidate = f"model_{stem}_{number}"
            name = candidate if candidate not in self._taken else None
            number += 1
        self._taken.add(name)
        return name

    # `y = op f(a=x);`, `y = cache.read K[l];`, `y = effect read(…);`.

    def at_definition(self) -> bool:
        """Whether `NAME =` or `NAME, NAME =` stands here."""
        count = 1
        while self.ahead(count).kind == "," and self.ahead(count + 1).kind == "name":
            count += 2
        return self.ahead(count).kind == "="

    def definition(self) -> Node:
        start = self.token.span
        targets = [self.plain_name()]
        while self.accept(","):
            targets.append(self.plain_name())
        self.expect("=", "`=`")
        if self.at_word("effect"):
            return self.defined_by_effect(start, targets)
        if self.at_word("cache") and self.ahead().kind == "." and self.ahead(2).text == "read":
            return self.defined_by_read(start, targets)
        if self.at_word("branch") and self.at_call():
            self.advance()
            call = self.block_call(start, tuple(targets))
            return replace(call, span=self.done(start, "the branch"))
        if not (self.at_word("op") and self.ahead().kind == "name"):
            raise self.no_definition(targets[0])
        self.advance()
        name = self.op_name()
        operands, settings = self.arguments(name)
        self.no_operator(name)
        hints = self.hints()
        span = self.done(start, "the op")
        return Op(name, operands, settings, tuple(targets), hints, span, defines=True)

    def plain_name(self) -> Ref:
        name = self.expect_name("a variable")
        return Ref(name, None, name.span)

    def no_operator(self, op: Name) -> None:
        """Reports `op relu(x) * 2` as what it is."""
        fix = operator_advice(self.token.text, f"{op.text}(…)")
        arrow = self.at("<", ">") or (self.at("-") and self.ahead().kind == ">")
        if fix is not None and not arrow and not self.on_new_line():
            raise self.fail("OI0110", self.token.span, f"{self.token} behind an op", fix=fix)

    def no_definition(self, target: Ref) -> SyntaxStop:
        value, ahead = self.token, self.ahead()
        fix = f"write `{target.name.text} = op NAME(…);`"
        if self.at_dotted_op():
            name, call = self.dotted_op()
            fix = f"write `{target.name.text} = op {call};`"
            message = f"expected `op` or `cache.read` after `=`, found {value}"
            return self.fail("OI0123", name.span, message, fix=fix)
        if value.kind == "name" and ahead.kind == "(":
            fix = f"write `{target.name.text} = op {value.text}(…);`"
        elif advice := operator_advice(ahead.text, value.text):
            fix = advice
        elif value.kind == "name" and ahead.kind == ";":
            fix = f"write `transfer {value.text} >> {target.name.text};`"
        return self.complain("`op` or `cache.read` after `=`", code="OI0123", fix=fix)

    # Effects.

    def effect(self, start: Span) -> Node:
        """`effect write(c, index=i, value=v);`."""
        word = self.effect_word()
        if word == "read":
            raise self.fail(
                "OI0123",
                start.to(self.previous),
                "what `effect read` gives is not kept",
                fix="write `NAME = effect read(…);`",
            )
        cache, given = self.effect_arguments(word, ("index", "value"))
        value = given.get("value")
        if not isinstance(value, Ref):
            raise self.fail(
                "OI0123",
                start.to(self.previous),
                "`effect write` needs a value, which is a variable",
                fix="effect write(CACHE, index=i, value=VARIABLE);",
            )
        return CacheWrite(value, cache, self.done(start, "the effect"))

    def defined_by_effect(self, start: Span, targets: list[Ref]) -> Node:
        self.advance()
        word = self.effect_word()
        if word == "write" or len(targets) != 1:
            raise self.fail(
                "OI0123",
                start.to(self.previous),
                "only `effect read` gives a value, and only one",
                fix="NAME = effect read(CACHE, index=i);  or  effect write(CACHE, index=i, value=v);",
            )
        cache, _ = self.effect_arguments(word, ("index",))
        return CacheRead(cache, targets[0], self.done(start, "the effect"), defines=True)

    def defined_by_read(self, start: Span, targets: list[Ref]) -> Node:
        """`k = cache.read K[l, t];`"""
        for _ in range(3):
            self.advance()
        source = self.ref("a variable")
        if len(targets) != 1:
            raise self.fail(
                "OI0123",
                start.to(self.previous),
                "`cache.read` gives one value",
                fix="NAME = cache.read ACCESS;",
            )
        return CacheRead(source, targets[0], self.done(start, "the cache.read"), defines=True)

    def effect_word(self) -> str:
        word = self.expect_name("`read` or `write` after `effect`", code="OI0123")
        if word.text not in _EFFECTS:
            raise self.fail(
                "OI0123",
                word.span,
                f"unknown effect `{word.text}`",
                fix=did_you_mean(word.text, _EFFECTS, "known are `read` and `write`"),
            )
        return word.text

    def effect_arguments(
        self, word: str, known: tuple[str, ...]
    ) -> tuple[Ref, dict[str, Ref | Expr]]:
        """The cache with its index, and the other arguments by name."""
        usage = f"effect {word}(CACHE, {', '.join(f'{name}=…' for name in known)})"
        self.expect("(", "`(` and a cache", code="OI0123", fix=usage)
        cache = self.ref("a cache")
        given: dict[str, Ref | Expr] = {}
        while self.accept(","):
            if self.at(")"):
                break
            name = self.expect_name("a named argument", code="OI0123", fix=usage)
            self.expect("=", f"`=` after `{name.text}`", code="OI0123", fix=usage)
            if name.text not in known or name.text in given:
                twice = "is given twice" if name.text in given else "is unknown here"
                raise self.fail("OI0123", name.span, f"argument `{name.text}` {twice}", fix=usage)
            if name.text == "index":
                given["index"] = self.expression("an index expression")
            else:
                given[name.text] = self.ref("a variable")
        self.expect(")", "`)` at the end of the arguments", code="OI0123", fix=usage)
        index = given.get("index")
        if index is not None and not isinstance(index, Ref):
            if cache.slots is not None:
                raise self.fail(
                    "OI0123", cache.span, "the index is given twice", fix="remove the brackets"
                )
            cache = Ref(cache.name, (index,), cache.span)
        return cache, given

    # `c: buffer(f32, [B, T])`.

    def at_buffer(self) -> bool:
        return self.at_word("buffer") and self.ahead().kind == "("

    def buffer(self) -> Type:
        start = self.advance().span
        self.advance()
        dtype = self.expect_name("a dtype", fix="buffer(f32, [B, T, D])")
        dims: tuple[Expr, ...] = ()
        if self.accept(","):
            if not self.at("["):
                raise self.complain("`[` and the dimensions", fix="buffer(f32, [B, T, D])")
            dims = self.dimensions()
            self.accept(",")
        self.expect(")", "`)` at the end of the buffer", fix="buffer(f32, [B, T, D])")
        return Type(dtype, dims, start.to(self.previous))

    # `model: NAME,`.

    def header(self) -> None:
        """The line that says which package the program is for; it means nothing."""
        self.advance()
        self.expect(":", "`:`")
        self.accept("&")
        name = self.expect_name("the name of a model", fix="model: NAME,")
        self.models.add(name.text)
        if not self.accept(",") and not self.accept(";"):
            raise self.complain(f"`,` after `model: {name.text}`", fix="model: NAME,")
