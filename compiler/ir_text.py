"""IR text in: xDSL's parser, with every failure as a diagnostic that has a place."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, LocationAttr, ModuleOp, UnknownLoc
from xdsl.ir import Operation
from xdsl.parser import AttrParser, Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from openinfer.compiler.blame import unverified_op
from openinfer.compiler.diagnostics import render
from openinfer.lowering.locations import location_of
from openinfer.lowering.verify_dominance import DominanceError, verify_dominance
from openinfer.runtime.errors import Diagnostic, Location, ProgramError


class _PositionParser(Parser):
    """xDSL's parser that remembers where each op begins, and that knows where those come from which do
    not say so: where the op before it in the text does (`compiler/text.py`)."""

    def __init__(self, context: Context, text: str, name: str) -> None:
        super().__init__(context, text, name)
        self.starts: dict[Operation, int] = {}
        self.open: list[int] = []
        self.known: LocationAttr = UnknownLoc()
        self.said: LocationAttr | None = None

    def _parse_tensor_literal_element(self) -> Parser._TensorLiteralElement:
        element = super()._parse_tensor_literal_element()
        text = element.span.text.lstrip("-")
        if text.startswith(("0x", "0X")):
            # `dense<0xff800000>` of floats: the bits of an element; xDSL takes them as a number.
            to_type = element.to_type

            def of_bits(parser: AttrParser, type: Any) -> Any:
                if not isinstance(type, AnyFloat):
                    return to_type(parser, type)
                bits, size = int(text, 16), type.compile_time_size
                if element.is_negative or bits >> (8 * size):
                    parser.raise_error(f"no bit pattern of {type}", at_position=element.span)
                return next(iter(type.iter_unpack(bits.to_bytes(size, "little"))))

            vars(element)["to_type"] = of_bits
        return element

    def parse_operation(self) -> Operation:
        self.open.append(self.pos)
        before = self.known
        op = super().parse_operation()
        self.starts[op] = self.open.pop()
        # The location of an op is the last thing of its text.
        op.location = self.known = before if self.said is None else self.said
        for region in op.regions:
            end = region.blocks.last.last_op if region.blocks.last is not None else None
            if end is not None and end not in self.starts:
                end.location = op.location
        return op

    def parse_optional_location(self) -> LocationAttr | None:
        self.said = super().parse_optional_location()
        return self.said


@dataclass
class IRText:
    """A text of IR, its module, and where its ops stand."""

    text: str
    file: str
    module: ModuleOp = field(default_factory=lambda: ModuleOp([]))
    starts: dict[Operation, int] = field(default_factory=dict[Operation, int])

    def verify(self) -> None:
        """Raises ProgramError OI0963 with the place of the first op that does not verify."""
        try:
            self.module.verify()
            verify_dominance(self.module)
        except DominanceError as error:
            raise self._refusal(error, error.op) from error
        except (VerifyException, ValueError) as error:
            raise self._refusal(error, unverified_op(self.module)) from error

    def _refusal(self, error: Exception, op: Operation | None) -> ProgramError:
        start = self.starts.get(op) if op is not None else None
        # An op may come from elsewhere: its own location is where the mistake was made.
        origin = location_of(op)
        name = f"'{op.name}': " if op is not None and f"'{op.name}'" not in str(error) else ""
        message = f"{name}{error}"
        if origin is not None:
            message = f"{message} (from {origin})"
        return self.diagnose("OI0963", message, start if start is not None else 0)

    def diagnose(self, code: str, message: str, start: int, length: int = 1) -> ProgramError:
        """A ProgramError for one place of the text, with its line and a caret."""
        line_start = self.text.rfind("\n", 0, start) + 1
        place = Location(self.file, self.text.count("\n", 0, start) + 1, start - line_start + 1)
        diagnostics = [Diagnostic(code, message, place, length)]
        return ProgramError(diagnostics, render(diagnostics, {self.file: self.text}))


def parse_ir(text: str, file: str, context: Context, *, implicit_module: bool = True) -> IRText:
    """Parses a module. Raises ProgramError OI0961 with the place of the first mistake."""
    source = IRText(text, file)
    try:
        parser = _PositionParser(context, text, file)
    except ParseError as error:
        raise source.diagnose("OI0961", error.msg, error.span.start, error.span.len) from error
    try:
        source.module = parser.parse_module(implicit_module)
    except ParseError as error:
        message = error.msg.strip() or "the text does not parse"
        start, length = error.span.start, error.span.len
        # xDSL points behind an unknown op, and at the end of the file for an undefined value.
        if message.endswith("is not registered") and parser.open:
            start, length = parser.open[-1], 1
        elif message.startswith("values used but not defined"):
            name = next(iter(parser.forward_ssa_references))
            if found := re.search(rf"%{re.escape(name)}(?![\w.$-])", text):
                start, length = found.start(), found.end() - found.start()
        raise source.diagnose("OI0961", message, start, length) from error
    except RecursionError as error:
        raise source.diagnose("OI0961", "nested too deeply", parser.pos) from error
    except Exception as error:
        # A builder or an attribute refused what was written: blame the op that was being read.
        start = parser.open[-1] if parser.open else parser.pos
        raise source.diagnose("OI0961", str(error) or type(error).__name__, start) from error
    source.starts = parser.starts
    return source
