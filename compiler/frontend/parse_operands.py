"""Reads the operands and settings of an op: `op add(h, linear(x, W[l]), axis=0)`."""

from __future__ import annotations

from openinfer.compiler.frontend.cursor import SyntaxStop
from openinfer.compiler.frontend.foreign_forms import LIST, MODULES, operator_advice
from openinfer.compiler.frontend.named_operands import (
    Argument,
    is_operand,
    sort_arguments,
    unknown,
    value_advice,
)
from openinfer.compiler.frontend.parse_values import ValueParser
from openinfer.compiler.frontend.syntax import Name, Op, Operand, Ref, Setting, Value
from openinfer.dialects import opset
from openinfer.dialects.foreign_ops import foreign_op


class OperandParser(ValueParser):
    """Operands: variables, literals, and ops inside of ops."""

    def arguments(self, op: Name) -> tuple[tuple[Operand, ...], tuple[Setting, ...]]:
        """`(OPERANDS, SETTINGS)`, the operands each at its place."""
        self.expect(
            "(", f"`(` and the operands after `{op.text}`", fix=f"write `op {op.text}(x, …)`"
        )
        return sort_arguments(op, self.named_arguments(op), self.report)

    def named_arguments(self, op: Name) -> list[Argument]:
        """Operands and settings, both of which may be named."""
        found: list[Argument] = []
        while not self.at(")"):
            if self.at("name") and self.ahead().kind == "=":
                name = self.expect_name("an argument")
                self.advance()
                found.append(Argument(name, self.argument_value(op, name)))
            else:
                operand = self.operand()
                if found and found[-1].name is not None:
                    shown = self.source.text[operand.span.start : operand.span.stop]
                    self.report.error(
                        "OI0114",
                        operand.span,
                        "positional args must come before named ones and settings",
                        fix=f"move `{shown}` before `{found[-1].name.text}=`",
                    )
                found.append(Argument(None, operand))
            if not self.accept(",") and not self.at(")", "name"):
                stop = self.complain("`,` or `)` in the arguments", fix=self.argument_advice(found))
                if self.at(">>"):
                    return found  # only the `)` is missing
                raise stop
        self.expect(")", f"`)` at the end of `{op.text}(…`")
        return found

    def argument_advice(self, found: list[Argument]) -> str:
        """What to write where an argument is followed by something else than a comma."""
        value = found[-1].value
        if self.at(":") and isinstance(value, Ref) and value.slots is None:
            return f"a setting is written with `=`: `{value.name.text}=…`"
        shown = self.source.text[value.span.start : value.span.stop]
        return operator_advice(self.token.text, shown[:40]) or "close them with `)`"

    def argument_value(self, op: Name, name: Name) -> Value | Ref | Op:
        """A value, or what only an operand is: the entry of a variable, `W[l]`, or an op. Of a setting, an
        element may be in it."""
        spec = opset.find(op.text)
        setting = spec is not None and spec.setting(name.text) is not None
        if not setting and self.at_op():
            return self.inner_op()
        linked = self.ahead(2).kind == "string"
        if self.at("name") and self.ahead().kind in ("[", ".") and (linked or not setting):
            return self.ref("a variable")
        return self.value(f"a value of `{name.text}`")

    def operand(self) -> Operand:
        """A use of a variable, a number, `true`, `false`, or an op. Another value in its place is reported,
        and reading goes on behind it."""
        if self.at_op() or self.at_dotted_op():
            return self.inner_op()
        if self.at("("):
            message = "an operand is a variable or a number, found `(`"
            raise self.fail("OI0280", self.token.span, message, fix=LIST)
        if not self.at("int", "float", "string", "-", "["):
            return self.ref("an operand or a setting")
        start = self.token.span
        value = self.value("an operand")
        if is_operand(value):
            return value
        span = start.to(self.previous)
        shown = self.source.text[span.start : span.stop]
        self.report.error(
            "OI0280",
            span,
            f"an operand is a variable or a number, found `{shown[:40]}`",
            fix=value_advice(value),
        )
        return unknown(value)

    def stored(self) -> Ref | Op:
        """What `cache.write` stores."""
        return self.inner_op() if self.at_op() else self.ref("a variable")

    # Ops inside of ops.

    def at_op(self) -> bool:
        """Whether an op stands here; with `op` in front it is one, too."""
        if self.at_word("op") and self.ahead().kind == "name" and self.ahead(2).kind == "(":
            return True
        following = self.ahead()
        if not self.at("name") or following.kind != "(":
            return False
        return "\n" not in self.source.text[self.token.span.stop : following.span.start]

    def at_dotted_op(self) -> bool:
        """Whether `torch.exp(` or `x.exp(` stands here."""
        count = 0
        while self.ahead(count).kind == "name" and self.ahead(count + 1).kind == ".":
            count += 2
        return count > 0 and self.ahead(count).kind == "name" and self.ahead(count + 1).kind == "("

    def op_name(self) -> Name:
        """The name of an op. That of a module in front is reported, and reading goes on behind it."""
        if not self.at_dotted_op():
            return self.expect_name("the name of an op")
        first = self.token.text
        name, call = self.dotted_op()
        if first in MODULES and not opset.find(name.text):
            return name  # reported as an unknown op, with what it is called here
        shown = self.source.text[name.span.start : name.span.stop]
        message = f"the name of an op has no dots, found `{shown}`"
        stop = self.fail("OI0281", name.span, message, fix=f"write `{call}`")
        if first in MODULES:
            return name
        raise stop

    def dotted_op(self) -> tuple[Name, str]:
        """Takes `torch.exp` or `x.exp`: the name behind the dots, and the call to write."""
        first = last = self.token
        while self.ahead().kind == ".":
            self.position += 2
            last = self.token
        self.advance()
        before = self.source.text[first.span.start : last.span.start - 1]
        given = "" if first.text in MODULES else f"{before}, "
        return Name(last.text, first.span.to(last.span)), f"{last.text}({given}…)"

    def inner_op(self) -> Op:
        """`linear(x, W)` as an operand. It has no outputs: what uses it names them."""
        start = self.token.span
        if self.ahead().kind == "name":
            self.advance()
            name = self.token.text
            self.report.error(
                "OI0120",
                start,
                "an op that is an operand is written without `op`",
                fix=f"write `{name}(…)`",
            )
        name = self.op_name()
        if not _is_op(name.text):
            raise self.no_op(name)
        with self.nested("operands"):
            operands, settings = self.arguments(name)
        return Op(name, operands, settings, (), (), name.span.to(self.previous), defines=True)

    def no_op(self, name: Name) -> SyntaxStop:
        return self.fail(
            "OI0120",
            name.span.to(self.token.span),
            f"an entry of `{name.text}` is selected with brackets, not with parentheses",
            fix=f"write `{name.text}[…]`; there is no op `{name.text}`",
        )


def _is_op(name: str) -> bool:
    """Whether a name is that of an op, or so near to one that it is meant: then that is reported."""
    return bool(opset.find(name) or foreign_op(name) or opset.nearest(name))
