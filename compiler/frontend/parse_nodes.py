"""Reads the statements of a block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeGuard

from openinfer.compiler.frontend.cursor import SyntaxStop
from openinfer.compiler.frontend.parse_first_edition import FirstEditionParser
from openinfer.compiler.frontend.source import Span
from openinfer.compiler.frontend.syntax import (
    Assign,
    Await,
    Barrier,
    Branch,
    Broken,
    CacheRead,
    CacheReset,
    CacheStep,
    CacheWrite,
    Declaration,
    Dep,
    Expr,
    Literal,
    Loop,
    Name,
    Node,
    Number,
    Op,
    Ref,
    Return,
    Scope,
    Setting,
    SizeBound,
    SizeDefinition,
    Transfer,
    Yield,
    walk,
)
from openinfer.dialects import opset
from openinfer.dialects.foreign_ops import foreign_op
from openinfer.dialects.foreign_words import STATEMENTS
from openinfer.lowering.program.report import did_you_mean, nearest

SECTION_WORDS = ("dynamic", "volatile", "constant", "persistent")
FIRST_EDITION_SECTIONS = {"inputs": "dynamic", "outputs": "volatile", "state": "persistent"}
_COMPARISONS = ("<=", "<", ">=", ">")
_NO_BOUND = (";", "=", ":", "{", "}", ">>", "end")
"""What no bound of a size has before its comparison."""
_CACHE_WORDS = ("read", "write", "increment", "decrement", "reset")


class NodeParser(FirstEditionParser):
    """One method for each kind of statement; `nodes` reads a whole body and recovers."""

    def body(
        self, what: str, *, outermost: bool, declared: list[Declaration] | None = None
    ) -> tuple[tuple[Node, ...], Span]:
        """`{ … }`: its nodes, and the span of the closing brace.

        In a block with parameters, `constant { … }` may stand in front: what it declares goes to `declared`.
        """
        opened = self.previous
        with self.nested("blocks"):
            if brace := self.accept("{"):
                opened = brace.span
            else:
                stop = self.complain(f"`{{` to open {what}", code="OI0116", fix="open it with `{`")
                if not self.at("name"):
                    raise stop  # else only the brace is missing: the body follows
            while declared is not None and self.at_word(*SECTION_WORDS):
                if self.ahead().kind != "{":
                    break
                declared += self.block_section()
            found = self.nodes(outermost)
        if close := self.accept("}"):
            self.note_closed(what, opened, close.span)
            return found, close.span
        return found, self.never_closed(what, opened)

    def block_section(self) -> list[Declaration]:
        """`constant { … }` in a block with parameters."""
        raise NotImplementedError

    def nodes(self, outermost: bool) -> tuple[Node, ...]:
        found: list[Node] = []
        while not self.at("}", "end"):
            if outermost and self.at_section_or_block():
                break  # a `}` is missing
            start = self.position
            first = self.token.span
            try:
                if self.accept(";"):
                    raise self.fail("OI0113", first, "an empty statement", fix="remove the `;`")
                if self.at_word("block") and self.at_section_or_block():
                    found += self.inner_block()
                elif self.at_size():
                    found += [d for d in self.sizes() if self.is_definition(d)]
                else:
                    found.append(self.node())
            except SyntaxStop:
                self.recover(start)
                found.append(Broken(first.to(self.previous)))
            if self.position == start:
                self.skip()  # never stand still
        return tuple(found)

    def at_section_or_block(self) -> bool:
        """Whether a new section or block starts here although the last one is not closed."""
        if self.at_word("block"):
            return self.ahead().kind == "name" and self.ahead(2).text in ("{", "with", "(")
        return self.at_word(*SECTION_WORDS, *FIRST_EDITION_SECTIONS) and self.ahead().kind == "{"

    def node(self) -> Node:
        token = self.token
        if token.kind != "name":
            raise self.complain(
                "a statement", code="OI0113", fix=f"a statement starts with {_known(READERS)}"
            )
        if self.at_definition():
            return self.definition()
        reader = READERS.get(token.text)
        if reader is None:
            near, fix = None, self.statement_advice()
            if fix is None:
                near = nearest(token.text, READERS)
                fix = f"did you mean `{near}`?" if near else f"known are {_known(READERS)}"
            self.report.error("OI0113", token.span, f"unknown statement `{token.text}`", fix=fix)
            if near is None:
                raise SyntaxStop
            reader = READERS[near]
        self.advance()
        return reader(self, token.span)

    def statement_advice(self) -> str | None:
        """How a statement is written here that starts with a word of another language, or an op's."""
        word, behind = self.token.text, self.ahead()
        if word in STATEMENTS:
            return f"write `{STATEMENTS[word]}`"
        if word == "print":
            return "leave it out: `openinfer debug` shows values"
        if self.at_dotted_op():
            _, call = self.dotted_op()
            return f"an op starts with the word `op`, its name has no dots: `op {call} >> …;`"
        if behind.kind == "(" and (opset.find(word) or foreign_op(word)):
            return f"an op starts with the word `op`: `op {word}(…) >> …;`"
        return None

    def inner_block(self) -> list[Node]:
        """`block body { … }` inside a loop: its statements, as if they stood there directly.

        It may end in `return;`, which ends this iteration of the loop, so it goes without a trace.
        """
        start = self.advance().span
        name = self.expect_name("a name for the block")
        for hint in self.hints():
            self.report.error(
                "OI0124",
                hint.span,
                "a block inside a loop takes no hints",
                fix="write them behind the head of the loop: `loop NAME (i in 0..n) with { … }`",
            )
        nodes, _ = self.body(f"block `{name.text}`", outermost=False)
        found = list(nodes)
        if found and isinstance(found[-1], Return) and not found[-1].names:
            found.pop()
        for node in walk(found):
            if isinstance(node, Return | Yield):
                self.report.error(
                    "OI0124",
                    node.span,
                    f"block `{name.text}` stands inside a loop: a `return` may only end it",
                    fix="write the statements directly into the loop: there, `return` leaves the "
                    "block around the loop",
                    notes=[("the block starts here", start.to(name.span))],
                )
        return found

    def at_size(self) -> bool:
        """Whether a size is defined or bounded here: `size` is a name like any other elsewhere."""
        if not self.at_word("size"):
            return False
        return (self.ahead().kind == "name" and self.ahead(2).kind == "=") or self.at_bound(1)

    def at_bound(self, count: int = 0) -> bool:
        """Whether a comparison follows in this statement, so many tokens ahead or later."""
        depth = 0
        while (kind := self.ahead(count).kind) not in _NO_BOUND:
            if kind in _COMPARISONS:
                return True
            depth += {"(": 1, ")": -1}.get(kind, 0)
            if kind == "," and not depth:
                break
            count += 1
        return False

    def sizes(self) -> list[SizeDefinition | SizeBound]:
        """`size heads = 4, 1 <= L <= 512;`, `size first = firsts[i], last = first + counts[i];`"""
        start = self.advance().span
        found: list[SizeDefinition | SizeBound] = []
        while True:
            if self.at_bound():
                found.append(self.bound(start))
                if not self.accept(","):
                    break
                start = self.token.span
                continue
            name = self.expect_name("the name of a size")
            self.expect("=", f"`=` and a size after `{name.text}`", fix=f"size {name.text} = 4;")
            value = self.expression()
            found.append(SizeDefinition(name, value, start.to(self.previous)))
            if not self.accept(","):
                break
            start = self.token.span
        self.expect_semicolon("the size")
        return found

    def is_definition(self, found: SizeDefinition | SizeBound) -> TypeGuard[SizeDefinition]:
        """Whether it may stand in a body; reports a bound."""
        if isinstance(found, SizeDefinition):
            return True
        message = (
            "bounds of sizes stand at the top of the program: a size is the same in all blocks"
        )
        self.report.error("OI0290", found.span, message, fix="move it out of the block")
        return False

    def bound(self, start: Span) -> SizeBound:
        """`1 <= L <= 512`, `L <= 512`, `1 <= L`."""
        parts = [self.expression()]
        while self.at(*_COMPARISONS):
            sign = self.advance()
            if sign.kind != "<=" or len(parts) == 3:
                message = f"a bound of a size is written with one or two `<=`, found {sign}"
                fix = "size 1 <= L <= 512;  (both limits are included)"
                raise self.fail("OI0290", sign.span, message, fix=fix)
            parts.append(self.expression())
        span = start.to(self.previous)
        if len(parts) == 3:
            return SizeBound(parts[0], parts[1], parts[2], span)
        left, right = parts
        if isinstance(left, Number) or (isinstance(right, Name) and not isinstance(left, Name)):
            return SizeBound(left, right, None, span)
        return SizeBound(None, left, right, span)

    def assign(self, start: Span) -> Node:
        name = self.expect_name("a name for the temporary")
        self.expect(":", f"`:` and a type after `{name.text}`", fix="assign NAME: f32[B, D];")
        type_ = self.type()
        if self.at("=", "@"):
            raise self.fail(
                "OI0110",
                self.token.span,
                "a temporary starts at zero: it takes no attributes and no initial value",
                fix="write it with an op, for example `op fill(…, value=1.0) >> …;`",
            )
        return Assign(name, type_, self.done(start, "the assign"))

    def op(self, start: Span) -> Node:
        name = self.op_name()
        operands, settings = self.arguments(name)
        if not self.accept(">>"):
            self.no_operator(name)
            raise self.complain("`>>` and the output", fix=f"op {name.text}(…) >> OUTPUT;")
        outputs = [self.ref("an output variable")]
        while self.accept(","):
            outputs.append(self.ref("an output variable"))
        hints = self.hints()
        return Op(name, operands, settings, tuple(outputs), hints, self.done(start, "the op"))

    def branch(self, start: Span) -> Node:
        if self.at_call():
            call = self.block_call(start, ())
            return replace(call, span=self.done(start, "the branch"))
        first = self.ref("a block name")
        usage = "branch expects one target block, or a condition and two target blocks"
        if self.at(";", "}") or self.on_new_line():
            if first.slots is not None:
                raise self.fail("OI0117", first.span, usage, fix="branch TARGET;")
            return Branch(None, first.name, None, self.done(start, "the branch"))
        self.accept(",")
        targets = self.names("a block name")
        if len(targets) != 2:
            raise self.fail(
                "OI0117",
                start.to(self.previous),
                usage,
                fix="branch TARGET;  or  branch CONDITION THEN ELSE;",
            )
        return Branch(first, targets[0], targets[1], self.done(start, "the branch"))

    def barrier(self, start: Span) -> Node:
        return Barrier(self.done(start, "the barrier"))

    def dep(self, start: Span) -> Node:
        usage = "dep after(OP) before(OP);"
        self.expect_word("after", "`after(…)`", fix=usage)
        after = self.dep_operand(usage)
        self.expect_word("before", "`before(…)`", fix=usage)
        before = self.dep_operand(usage)
        return Dep(after, before, self.done(start, "the dep"))

    def dep_operand(self, usage: str) -> Name:
        self.expect("(", "`(`", fix=usage)
        name = self.expect_name("an op name or an effect such as `cache.write`", fix=usage)
        if name.text == "cache" and self.accept("."):
            action = self.expect_name("a cache operation", fix=usage)
            name = Name(f"cache.{action.text}", name.span.to(action.span))
        self.expect(")", "`)`", fix=usage)
        return name

    def transfer(self, start: Span) -> Node:
        source = self.ref("a source variable")
        self.expect(">>", "`>>` and the target", fix="transfer SOURCE >> TARGET;")
        target = self.ref("a target variable")
        return Transfer(source, target, self.done(start, "the transfer"))

    def loop(self, start: Span) -> Node:
        begin = self.position
        zero = Number(0, start)
        name, index = Name("?", start), Name("?", start)
        bounds: tuple[Expr, Expr] = (zero, zero)
        hints: tuple[Setting, ...] = ()
        try:
            name = self.expect_name("a name for the loop", fix="loop NAME (i in 0..n) { … }")
            self.expect("(", "`(`", fix=f"loop {name.text} (i in 0..n) {{ … }}")
            index = self.expect_name("a name for the loop index")
            self.expect_word("in", "`in`", fix=f"({index.text} in 0..n)")
            low = self.expression("a loop range")
            self.expect("..", "`..` between the loop bounds", fix=f"({index.text} in 0..n)")
            bounds = (low, self.expression("a loop range"))
            self.expect(")", "`)` after the loop bounds")
            hints = self.hints()
            if not self.at("{", "name"):
                raise self.complain(f"`{{` to open loop `{name.text}`", code="OI0116")
        except SyntaxStop:
            if not self.recover_to_body(begin):
                raise
            self.skipped.add(index.text)
        header = start.to(self.previous)
        nodes, _ = self.body(f"loop `{name.text}`", outermost=False)
        return Loop(name, index, bounds[0], bounds[1], hints, nodes, header)

    def scope(self, start: Span) -> Node:
        begin = self.position
        label = Literal("?", start)
        hints: tuple[Setting, ...] = ()
        try:
            token = self.expect("string", "the label of the scope", fix='scope "label" { … }')
            label = Literal(str(token.value), token.span)
            hints = self.hints()
            if not self.at("{", "name"):
                raise self.complain("`{` to open the scope", code="OI0116")
        except SyntaxStop:
            if not self.recover_to_body(begin):
                raise
        header = start.to(self.previous)
        nodes, _ = self.body("the scope", outermost=False)
        return Scope(label, hints, nodes, header)

    def return_(self, start: Span) -> Node:
        if self.on_new_line():
            return Return((), self.done(start, "the return"))
        return Return(self.names("a variable"), self.done(start, "the return"))

    def yield_(self, start: Span) -> Node:
        return Yield(self.some_names("yield"), self.done(start, "the yield"))

    def await_(self, start: Span) -> Node:
        return Await(self.some_names("await"), self.done(start, "the await"))

    def some_names(self, word: str) -> tuple[Name, ...]:
        if not self.at("name"):
            raise self.complain(
                f"at least one variable after `{word}`", code="OI0119", fix=f"{word} NAME;"
            )
        return self.names("a variable")

    def cache(self, start: Span) -> Node:
        self.expect(".", "`.` and a cache operation", code="OI0118", fix="cache.read K[l] >> k;")
        action = self.expect_name("a cache operation", code="OI0118")
        if action.text not in _CACHE_WORDS:
            raise self.fail(
                "OI0118",
                start.to(action.span),
                f"unsupported cache operation `cache.{action.text}`",
                fix=did_you_mean(action.text, _CACHE_WORDS, f"known are {_known(_CACHE_WORDS)}"),
            )
        if action.text in ("increment", "decrement"):
            return self.cache_step(start, action.text)
        source = self.stored() if action.text == "write" else self.ref("a variable")
        if action.text == "reset":
            assert isinstance(source, Ref)
            return CacheReset(source, self.done(start, "the cache.reset"))
        self.expect(">>", "`>>` and the target", fix=f"cache.{action.text} SOURCE >> TARGET;")
        target = self.ref("a target variable")
        span = self.done(start, f"the cache.{action.text}")
        if action.text == "write":
            return CacheWrite(source, target, span)
        assert isinstance(source, Ref)
        return CacheRead(source, target, span)

    def cache_step(self, start: Span, word: str) -> Node:
        """`cache.increment step;`, `cache.increment T + 1 step;`"""
        if not self.at("int", "name", "("):
            raise self.complain("an amount or a variable", fix=f"cache.{word} 2 step;")
        counted: Expr = self.expression("an amount")
        if self.at_counted():
            amount, variable = counted, self.expect_name("a persistent scalar")
        elif isinstance(counted, Name):
            amount, variable = Number(1, counted.span), counted
        else:
            raise self.bad_amount(word, counted)
        if self.at("name", "int", "-", "float") and not self.on_new_line():
            raise self.bad_amount(word, variable)
        span = self.done(start, f"the cache.{word}")
        return CacheStep(variable, amount, word == "decrement", span)

    def at_counted(self) -> bool:
        """Whether the variable stands behind its amount: on a new line only where it ends the statement."""
        # `barrier;` on a new line is the next statement, and a `;` is missing in front of it.
        ends = self.ahead().kind == ";" and self.token.text not in READERS
        return self.at("name") and (ends or not self.on_new_line())

    def bad_amount(self, word: str, first: Expr) -> SyntaxStop:
        """`cache.increment step 2`, `cache.increment step - 1`: the amount stands in front."""
        amount = self.token.text if self.at("int", "name") and not self.on_new_line() else "2"
        name = first.text if isinstance(first, Name) else "step"
        span = first.span if self.at(";") else first.span.to(self.token.span)
        message = f"`cache.{word}` takes an amount, then the name of a variable"
        return self.fail("OI0282", span, message, fix=f"write `cache.{word} {amount} {name};`")


READERS: dict[str, Callable[[NodeParser, Span], Node]] = {
    "assign": NodeParser.assign,
    "await": NodeParser.await_,
    "barrier": NodeParser.barrier,
    "branch": NodeParser.branch,
    "cache": NodeParser.cache,
    "dep": NodeParser.dep,
    "effect": NodeParser.effect,
    "loop": NodeParser.loop,
    "op": NodeParser.op,
    "return": NodeParser.return_,
    "scope": NodeParser.scope,
    "transfer": NodeParser.transfer,
    "yield": NodeParser.yield_,
}


def _known(words: object) -> str:
    assert isinstance(words, dict | tuple)
    return ", ".join(f"`{word}`" for word in words)
