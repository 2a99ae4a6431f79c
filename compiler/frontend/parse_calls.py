"""Reads blocks with parameters and calls of them: `y = branch conv(x, "layer1.0", stride=2);`."""

from __future__ import annotations

from openinfer.compiler.frontend.parse_operands import OperandParser
from openinfer.compiler.frontend.source import Span
from openinfer.compiler.frontend.syntax import (
    BlockCall,
    Expr,
    Literal,
    Operand,
    Parameter,
    Ref,
    Setting,
)

_SIGNS = ("+", "-", "*", "/")
"""What makes a size of more than a name or number."""
_USAGE = 'y = branch BLOCK(x, "layer1.0", stride=2);'


class CallParser(OperandParser):
    """Parameters and arguments."""

    def parameters(self) -> tuple[Parameter, ...] | None:
        """`(x, path, stride=1)` behind the name of a block, if there is one."""
        if not self.accept("("):
            return None
        found: list[Parameter] = []
        while self.at("name"):
            name = self.expect_name("a parameter")
            default = self.value(f"a value of `{name.text}`") if self.accept("=") else None
            found.append(Parameter(name, default))
            if not self.accept(",") and not self.at(")", "name"):
                raise self.complain("`,` or `)` after the parameter", fix="close them with `)`")
        self.expect(")", "`)` after the parameters", fix="block NAME(x, path, stride=1) { … }")
        return tuple(found)

    def at_call(self) -> bool:
        """Whether `branch NAME(` stands here, or `NAME(` behind `branch`."""
        place = 1 if self.at_word("branch") else 0
        return self.ahead(place).kind == "name" and self.ahead(place + 1).kind == "("

    def block_call(self, start: Span, targets: tuple[Ref, ...]) -> BlockCall:
        """`conv(x, "layer1.0", stride=2)` behind `branch`."""
        name = self.expect_name("the name of a block")
        self.expect("(", f"`(` and the arguments of `{name.text}`", fix=_USAGE)
        inputs: list[Operand | Expr] = []
        settings: list[Setting] = []
        while not self.at(")", ";", "}", "end"):
            if self.at("name") and self.ahead().kind == "=":
                parameter = self.expect_name("a parameter")
                self.advance()
                settings.append(Setting(parameter, self.value(f"a value of `{parameter.text}`")))
            else:
                inputs.append(self.call_input(settings))
            if not self.accept(",") and not self.at(")", "name"):
                raise self.complain("`,` or `)` in the arguments", fix="close them with `)`")
        self.expect(")", f"`)` at the end of `{name.text}(…`", fix=_USAGE)
        return BlockCall(name, tuple(inputs), tuple(settings), targets, start.to(self.previous))

    def call_input(self, named: list[Setting]) -> Operand | Expr:
        start = self.token.span
        found: Operand | Expr
        if self.at("string"):
            found = Literal(str(self.advance().value), start)
        elif self.at("(") or (self.at("name", "int") and self.ahead().kind in _SIGNS):
            found = self.expression("an argument")
        else:
            found = self.operand()
        if named:
            self.report.error(
                "OI0114",
                start.to(self.previous),
                "positional args must come before named ones",
                fix=f"move it before `{named[0].name.text}=`",
            )
        return found
