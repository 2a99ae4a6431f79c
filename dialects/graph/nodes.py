"""Operations that compute and move values: temporaries, ops, copies, and state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute
from xdsl.irdl import opt_prop_def, prop_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.graph.attributes import (
    Operand,
    RefAttr,
    SizeAttr,
    parse_size,
    print_size,
)
from openinfer.dialects.graph.syntax import (
    GraphOp,
    check_dtype,
    parse_dict,
    parse_operands,
    parse_ref,
    parse_refs,
    parse_type,
    print_dict,
    print_operands,
    print_ref,
    print_refs,
    print_type,
)
from openinfer.dialects.late_syntax import op_definition
from openinfer.runtime.sizes import Size, SizeLike


@op_definition
class AssignOp(GraphOp):
    """A temporary of the step: `graph.assign t f32 [B, D]`."""

    name = "graph.assign"

    variable = prop_def(StringAttr)
    dtype = prop_def(StringAttr)
    dims = prop_def(ArrayAttr[SizeAttr])

    traits = traits_def(MemoryWriteEffect())

    def __init__(self, variable: str, dtype: str, dims: Sequence[SizeLike] = ()) -> None:
        super().__init__(
            properties={
                "variable": StringAttr(variable),
                "dtype": StringAttr(dtype),
                "dims": ArrayAttr([SizeAttr.of(d) for d in dims]),
            }
        )

    @property
    def sizes(self) -> tuple[Size, ...]:
        return tuple(d.data for d in self.dims)

    def verify_(self) -> None:
        check_dtype(self, self.dtype)

    @classmethod
    def parse(cls, parser: Parser) -> AssignOp:
        name = parser.parse_identifier("variable name")
        dtype, dims = parse_type(parser)
        return cls(name, dtype.data, [d.data for d in dims])

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.variable.data} ")
        print_type(printer, self.dtype, self.dims)


@op_definition
class OpOp(GraphOp):
    """One operation of the registry: `graph.op matmul(x, W[l]) -> (y) settings {…} with {…}`.

    An operand is the use of a variable or a literal: `graph.op mul(h, 0.5) -> (h)`.
    `settings` values: Integer (i64; i1 for a bool), Float (f64), String, Array of these, NameAttr.
    """

    name = "graph.op"

    op_name = prop_def(StringAttr, prop_name="op")
    inputs = prop_def(ArrayAttr[Operand])
    outputs = prop_def(ArrayAttr[RefAttr])
    settings = prop_def(DictionaryAttr)
    hints = opt_prop_def(DictionaryAttr)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        op_name: str,
        inputs: Sequence[Operand],
        outputs: Sequence[RefAttr],
        settings: Mapping[str, Attribute] | None = None,
        hints: Mapping[str, Attribute] | None = None,
    ) -> None:
        super().__init__(
            properties={
                "op": StringAttr(op_name),
                "inputs": ArrayAttr(inputs),
                "outputs": ArrayAttr(outputs),
                "settings": DictionaryAttr(dict(settings or {})),
                "hints": DictionaryAttr(dict(hints)) if hints else None,
            }
        )

    def reads(self) -> Iterator[RefAttr]:
        return (operand for operand in self.inputs if isinstance(operand, RefAttr))

    def writes(self) -> Iterator[RefAttr]:
        return iter(self.outputs)

    def verify_(self) -> None:
        if not self.outputs.data:
            raise VerifyException("graph.op: needs at least one output")

    @classmethod
    def parse(cls, parser: Parser) -> OpOp:
        name = parser.parse_identifier("op name")
        inputs = parse_operands(parser)
        parser.parse_punctuation("->")
        outputs = parse_refs(parser)
        settings = parse_dict(parser, "settings")
        hints = parse_dict(parser, "with")
        return cls(
            name,
            inputs.data,
            outputs.data,
            settings.data if settings else None,
            hints.data if hints else None,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.op_name.data}")
        print_operands(printer, self.inputs)
        printer.print_string(" -> ")
        print_refs(printer, self.outputs)
        print_dict(printer, "settings", self.settings)
        print_dict(printer, "with", self.hints)


class _MoveOp(GraphOp):
    """An op that moves one value: `a -> b`."""

    source = prop_def(RefAttr)
    target = prop_def(RefAttr)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, source: RefAttr, target: RefAttr) -> None:
        super().__init__(properties={"source": source, "target": target})

    def reads(self) -> Iterator[RefAttr]:
        yield self.source

    def writes(self) -> Iterator[RefAttr]:
        yield self.target

    @classmethod
    def parse(cls, parser: Parser) -> _MoveOp:
        source = parse_ref(parser)
        parser.parse_punctuation("->")
        return cls(source, parse_ref(parser))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_ref(printer, self.source)
        printer.print_string(" -> ")
        print_ref(printer, self.target)


@op_definition
class TransferOp(_MoveOp):
    """Copies a value: `graph.transfer a -> b`."""

    name = "graph.transfer"


@op_definition
class CacheReadOp(_MoveOp):
    """`graph.cache_read K[l] -> k`."""

    name = "graph.cache_read"


@op_definition
class CacheWriteOp(_MoveOp):
    """`graph.cache_write k -> K[l]`."""

    name = "graph.cache_write"


@op_definition
class CacheStepOp(GraphOp):
    """Adds `amount` to a persistent scalar: `graph.cache_step n by 1`; with `down` it is subtracted.

    A number that is subtracted is negative: `graph.cache_step n by -1`.
    """

    name = "graph.cache_step"
    variable = prop_def(StringAttr)
    amount = prop_def(SizeAttr)
    down = opt_prop_def(UnitAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, variable: str, amount: SizeLike, *, down: bool = False) -> None:
        size = Size.of(amount)
        if down and size.constant is not None:
            size, down = -size, False
        super().__init__(
            properties={
                "variable": StringAttr(variable),
                "amount": SizeAttr(size),
                "down": UnitAttr() if down else None,
            }
        )

    @property
    def added(self) -> Size:
        """What is added, negative where it is subtracted."""
        return self.amount.data if self.down is None else -self.amount.data

    @property
    def counted(self) -> tuple[bool, Size]:
        """Whether it is a decrement, and by what."""
        amount = self.amount.data.constant
        negative = amount is not None and amount < 0
        return (
            self.down is not None or negative,
            -self.amount.data if negative else self.amount.data,
        )

    def reads(self) -> Iterator[RefAttr]:
        yield RefAttr.of(self.variable.data)

    def writes(self) -> Iterator[RefAttr]:
        yield RefAttr.of(self.variable.data)

    @classmethod
    def parse(cls, parser: Parser) -> CacheStepOp:
        name = parser.parse_identifier("variable name")
        down = parser.parse_optional_keyword("down") is not None
        parser.parse_keyword("by")
        return cls(name, parse_size(parser), down=down)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.variable.data}{' down' if self.down else ''} by ")
        print_size(printer, self.amount.data)


@op_definition
class CacheResetOp(GraphOp):
    """Back to the initial content: a scalar, a table, a prefix or an entry."""

    name = "graph.cache_reset"
    target = prop_def(RefAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, target: RefAttr) -> None:
        super().__init__(properties={"target": target})

    def writes(self) -> Iterator[RefAttr]:
        yield self.target

    @classmethod
    def parse(cls, parser: Parser) -> CacheResetOp:
        return cls(parse_ref(parser))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_ref(printer, self.target)
