"""Operations that say what runs when: loops, groups, calls, order, and what leaves a block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.irdl import opt_prop_def, prop_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    MemoryReadEffect,
    MemoryWriteEffect,
    NoTerminator,
    RecursiveMemoryEffect,
)
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.graph.attributes import (
    LiteralAttr,
    RefAttr,
    SizeAttr,
    parse_size,
    print_size,
)
from openinfer.dialects.graph.syntax import (
    GraphOp,
    parse_body,
    parse_dict,
    parse_name,
    parse_names,
    parse_operand,
    parse_ref,
    parse_refs,
    parse_text,
    print_dict,
    print_name,
    print_operand,
    print_ref,
    print_refs,
)
from openinfer.dialects.late_syntax import op_definition
from openinfer.runtime.sizes import SizeLike


@op_definition
class LoopOp(GraphOp):
    """A counted loop over half-open bounds: `graph.loop layers l in 0 to num_layers { … }`."""

    name = "graph.loop"

    loop_name = prop_def(StringAttr)
    index = prop_def(StringAttr)
    start = prop_def(SizeAttr)
    stop = prop_def(SizeAttr)
    hints = opt_prop_def(DictionaryAttr)
    body = region_def("single_block")

    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    def __init__(
        self,
        loop_name: str,
        index: str,
        start: SizeLike,
        stop: SizeLike,
        body: Region | Sequence[Operation],
        hints: Mapping[str, Attribute] | None = None,
    ) -> None:
        super().__init__(
            properties={
                "loop_name": StringAttr(loop_name),
                "index": StringAttr(index),
                "start": SizeAttr.of(start),
                "stop": SizeAttr.of(stop),
                "hints": DictionaryAttr(dict(hints)) if hints else None,
            },
            regions=[body if isinstance(body, Region) else Region(Block(body))],
        )

    @classmethod
    def parse(cls, parser: Parser) -> LoopOp:
        name = parser.parse_identifier("loop name")
        index = parser.parse_identifier("loop index")
        parser.parse_keyword("in")
        start = parse_size(parser)
        parser.parse_keyword("to")
        stop = parse_size(parser)
        hints = parse_dict(parser, "with")
        return cls(name, index, start, stop, parse_body(parser), hints.data if hints else None)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.loop_name.data} {self.index.data} in ")
        print_size(printer, self.start.data)
        printer.print_string(" to ")
        print_size(printer, self.stop.data)
        print_dict(printer, "with", self.hints)
        printer.print_string(" ")
        printer.print_region(self.body, print_empty_block=False)


@op_definition
class ScopeOp(GraphOp):
    """A named group of nodes: `graph.scope "attention" { … }`."""

    name = "graph.scope"

    label = prop_def(StringAttr)
    hints = opt_prop_def(DictionaryAttr)
    body = region_def("single_block")

    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    def __init__(
        self,
        label: str,
        body: Region | Sequence[Operation],
        hints: Mapping[str, Attribute] | None = None,
    ) -> None:
        super().__init__(
            properties={
                "label": StringAttr(label),
                "hints": DictionaryAttr(dict(hints)) if hints else None,
            },
            regions=[body if isinstance(body, Region) else Region(Block(body))],
        )

    @classmethod
    def parse(cls, parser: Parser) -> ScopeOp:
        label = parse_text(parser)
        hints = parse_dict(parser, "with")
        return cls(label, parse_body(parser), hints.data if hints else None)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.label.data)
        print_dict(printer, "with", self.hints)
        printer.print_string(" ")
        printer.print_region(self.body, print_empty_block=False)


@op_definition
class BranchOp(GraphOp):
    """A call: `graph.branch body`, or of one of two: `graph.branch if c then a else b`."""

    name = "graph.branch"

    condition = opt_prop_def(RefAttr)
    then_block = prop_def(StringAttr)
    else_block = opt_prop_def(StringAttr)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self, then_block: str, condition: RefAttr | None = None, else_block: str | None = None
    ) -> None:
        super().__init__(
            properties={
                "condition": condition,
                "then_block": StringAttr(then_block),
                "else_block": StringAttr(else_block) if else_block is not None else None,
            }
        )

    def reads(self) -> Iterator[RefAttr]:
        if self.condition is not None:
            yield self.condition

    def verify_(self) -> None:
        if (self.condition is None) != (self.else_block is None):
            raise VerifyException("graph.branch: a condition needs two target blocks")

    @classmethod
    def parse(cls, parser: Parser) -> BranchOp:
        if parser.parse_optional_keyword("if"):
            condition = parse_ref(parser)
            parser.parse_keyword("then")
            then_block = parser.parse_identifier("block name")
            parser.parse_keyword("else")
            return cls(then_block, condition, parser.parse_identifier("block name"))
        return cls(parse_name(parser, "block name"))

    def print(self, printer: Printer) -> None:
        if self.condition is not None and self.else_block is not None:
            printer.print_string(" if ")
            print_ref(printer, self.condition)
            printer.print_string(f" then {self.then_block.data} else {self.else_block.data}")
            return
        printer.print_string(" ")
        print_name(printer, self.then_block.data, ("if",))


@op_definition
class CallOp(GraphOp):
    """A call of a block with parameters: `graph.call conv(h, "features.0") -> (y) settings {stride = 2}`.

    Arguments in order are operands, texts or sizes, `<"n + 1">`, those by name any value of a setting.
    """

    name = "graph.call"

    block_name = prop_def(StringAttr)
    inputs = prop_def(ArrayAttr[Attribute])
    """`RefAttr`, `LiteralAttr`, `StringAttr` or `SizeAttr`."""
    outputs = prop_def(ArrayAttr[RefAttr])
    settings = prop_def(DictionaryAttr)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        block_name: str,
        inputs: Sequence[Attribute],
        outputs: Sequence[RefAttr] = (),
        settings: Mapping[str, Attribute] | None = None,
    ) -> None:
        super().__init__(
            properties={
                "block_name": StringAttr(block_name),
                "inputs": ArrayAttr(inputs),
                "outputs": ArrayAttr(outputs),
                "settings": DictionaryAttr(dict(settings or {})),
            }
        )

    def reads(self) -> Iterator[RefAttr]:
        for value in (*self.inputs, *self.settings.data.values()):
            if isinstance(value, RefAttr):
                yield value

    def writes(self) -> Iterator[RefAttr]:
        return iter(self.outputs)

    @classmethod
    def parse(cls, parser: Parser) -> CallOp:
        name = parser.parse_identifier("block name")

        def argument() -> Attribute:
            data = parser.parse_optional_bytes_literal()
            if data is not None:
                return StringAttr(data.decode("utf-8", "replace"))
            text = parser.parse_optional_str_literal()
            if text is not None:
                return StringAttr(text)
            if parser.parse_optional_punctuation("<"):
                size = SizeAttr(parse_size(parser))
                parser.parse_punctuation(">")
                return size
            return parse_operand(parser)

        inputs = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, argument)
        parser.parse_punctuation("->")
        outputs = parse_refs(parser)
        settings = parse_dict(parser, "settings")
        return cls(name, inputs, outputs.data, settings.data if settings else None)

    def print(self, printer: Printer) -> None:
        def argument(value: Attribute) -> None:
            if isinstance(value, RefAttr | LiteralAttr):
                print_operand(printer, value)
            elif isinstance(value, SizeAttr):
                printer.print_string("<")
                print_size(printer, value.data)
                printer.print_string(">")
            else:
                printer.print_attribute(value)

        printer.print_string(f" {self.block_name.data}")
        with printer.in_parens():
            printer.print_list(list(self.inputs), argument)
        printer.print_string(" -> ")
        print_refs(printer, self.outputs)
        print_dict(printer, "settings", self.settings)


@op_definition
class BarrierOp(GraphOp):
    """Stops motion, fusion and reordering across it."""

    name = "graph.barrier"
    assembly_format: ClassVar[str | None] = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self) -> None:
        super().__init__()


@op_definition
class DepOp(GraphOp):
    """Orders the last `after` before it and the first `before` after it: op or effect names."""

    name = "graph.dep"
    after = prop_def(StringAttr)
    before = prop_def(StringAttr)
    assembly_format: ClassVar[str | None] = "`after` $after `before` $before attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, after: str, before: str) -> None:
        super().__init__(properties={"after": StringAttr(after), "before": StringAttr(before)})


class _NamesOp(GraphOp):
    """An op over a list of variable names."""

    variables = prop_def(ArrayAttr[StringAttr])

    def __init__(self, variables: Sequence[str] = ()) -> None:
        super().__init__(properties={"variables": ArrayAttr([StringAttr(v) for v in variables])})

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(v.data for v in self.variables)

    def reads(self) -> Iterator[RefAttr]:
        return (RefAttr.of(name) for name in self.names)

    def print(self, printer: Printer) -> None:
        if self.names:
            printer.print_string(" " + ", ".join(self.names))


@op_definition
class ReturnOp(_NamesOp):
    """Leaves the block; in entry it may name the results of the step: `graph.return (y)`."""

    name = "graph.return"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @classmethod
    def parse(cls, parser: Parser) -> ReturnOp:
        names = parser.parse_optional_comma_separated_list(
            Parser.Delimiter.PAREN, parser.parse_identifier
        )
        return cls(names or ())

    def print(self, printer: Printer) -> None:
        if self.names:
            printer.print_string(f" ({', '.join(self.names)})")


@op_definition
class YieldOp(_NamesOp):
    """Publishes a snapshot of the named values."""

    name = "graph.yield"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @classmethod
    def parse(cls, parser: Parser) -> YieldOp:
        return cls([n.data for n in parse_names(parser)])


@op_definition
class AwaitOp(_NamesOp):
    """Waits for the named values."""

    name = "graph.await"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @classmethod
    def parse(cls, parser: Parser) -> AwaitOp:
        return cls([n.data for n in parse_names(parser)])
