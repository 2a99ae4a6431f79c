"""What all tensor operations of `nn` share: destination style, one syntax, effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import MemRefType, TensorType
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import (
    EffectInstance,
    IsTerminator,
    MemoryEffect,
    MemoryEffectKind,
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.nn.layouts import LayoutAttr


class DestinationEffect(MemoryEffect):
    """Pure on tensors; on buffers it reads its inputs and writes its destination."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        effects: set[EffectInstance] = set()
        if isinstance(op, NNOp) and op.outs:
            effects |= {EffectInstance(MemoryEffectKind.WRITE, value) for value in op.outs}
            effects |= {EffectInstance(MemoryEffectKind.READ, value) for value in op.inputs}
        return effects


class NNOp(IRDLOperation):
    """A whole-tensor operation in destination style.

    On tensors `outs` is empty and there is one result for each output; after bufferisation there are
    no results and `outs` holds one buffer for each output, then scratch buffers.

        %y = nn.softmax(%x) {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
        nn.softmax(%x) outs(%y) {axis = 1 : i64} : (memref<4x8xf32>, memref<4x8xf32>) -> ()
    """

    inputs = var_operand_def()
    outs = var_operand_def()
    result = var_result_def()
    body = var_region_def()

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(DestinationEffect())

    ARITY: ClassVar[tuple[int, int | None]] = (1, 1)
    """Smallest and largest number of inputs (None: no bound)."""
    OUTPUTS: ClassVar[int] = 1
    SCRATCH: ClassVar[int] = 0
    """Largest number of destinations on buffers after the outputs."""
    BODY: ClassVar[bool] = False
    """Whether the operation may carry a body."""

    def __init__(
        self,
        inputs: Sequence[SSAValue | Operation],
        results: Sequence[Attribute] = (),
        outs: Sequence[SSAValue | Operation] = (),
        properties: Mapping[str, Attribute | None] | None = None,
        body: Region | Sequence[Region] | None = None,
    ) -> None:
        bodies = [body] if isinstance(body, Region) else list(body or ())
        super().__init__(
            operands=[inputs, outs],
            result_types=[results],
            properties={k: v for k, v in (properties or {}).items() if v is not None},
            regions=[bodies],
        )

    @property
    def on_buffers(self) -> bool:
        return bool(self.outs)

    @property
    def output(self) -> SSAValue:
        """The first output: a result on tensors, a destination on buffers."""
        return self.outs[0] if self.outs else self.result[0]

    def verify_(self) -> None:
        low, high = self.ARITY
        count = len(self.inputs)
        if count < low or (high is not None and count > high):
            wanted = str(low) if low == high else f"{low} to {high if high is not None else 'any'}"
            raise VerifyException(f"{self.name} takes {wanted} inputs, found {count}")
        if len(self.body) > self.BODY:
            raise VerifyException(f"{self.name} takes {int(self.BODY)} regions at most")
        if self.outs:
            self._check_destinations()
        elif len(self.result) != self.OUTPUTS:
            raise VerifyException(
                f"{self.name} has {self.OUTPUTS} results, found {len(self.result)}"
            )
        else:
            for value in (*self.inputs, *self.result):
                if not isinstance(value.type, TensorType):
                    raise VerifyException(
                        f"{self.name} without destinations works on tensors, found {value.type}"
                    )
        self.check()

    def _check_destinations(self) -> None:
        if self.result:
            raise VerifyException(f"{self.name} on buffers has destinations and no results")
        most = self.OUTPUTS + self.SCRATCH
        if not self.OUTPUTS <= len(self.outs) <= most:
            raise VerifyException(
                f"{self.name} has {self.OUTPUTS} to {most} destinations, found {len(self.outs)}"
            )
        for value in (*self.inputs, *self.outs):
            if not isinstance(value.type, MemRefType):
                raise VerifyException(
                    f"{self.name} mixes buffers with other values: found {value.type}"
                )

    def layout_at(self, index: int) -> LayoutAttr | None:
        """The layout that an operand is read in; None as it is written."""
        return None

    def check(self) -> None:
        """What a particular operation requires of its operands and settings."""

    def print(self, printer: Printer) -> None:
        _print_operands(printer, self.inputs)
        if self.outs:
            printer.print_string(" outs")
            _print_operands(printer, self.outs)
        settings = {k: v for k, v in self.properties.items() if k != "operandSegmentSizes"}
        if settings or self.body:  # Braces of a body alone would be read as settings.
            printer.print_string(" ")
            printer.print_attr_dict(settings)
        if self.attributes:
            printer.print_string(" attrs ")
            printer.print_attr_dict(self.attributes)
        for region in self.body:
            printer.print_string(" ")
            printer.print_region(region)
        printer.print_string(" : ")
        with printer.in_parens():
            printer.print_list((*self.inputs.types, *self.outs.types), printer.print_attribute)
        printer.print_string(" -> ")
        if len(self.result) == 1:
            printer.print_attribute(self.result[0].type)
        else:
            with printer.in_parens():
                printer.print_list(self.result.types, printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> NNOp:
        inputs = _parse_operands(parser)
        outs = _parse_operands(parser) if parser.parse_optional_keyword("outs") else []
        settings = parser.parse_optional_attr_dict()
        attributes = (
            parser.parse_optional_attr_dict() if parser.parse_optional_keyword("attrs") else {}
        )
        regions: list[Region] = []
        while (region := parser.parse_optional_region()) is not None:
            regions.append(region)
        parser.parse_punctuation(":")
        place = parser.pos
        types = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_type)
        parser.parse_punctuation("->")
        results = parser.parse_optional_comma_separated_list(
            Parser.Delimiter.PAREN, parser.parse_type
        )
        if results is None:
            results = [parser.parse_type()]
        operands = parser.resolve_operands([*inputs, *outs], types, place)
        op = cls.create(
            operands=operands,
            result_types=results,
            properties=dict(settings),
            attributes=dict(attributes),
            regions=regions,
        )
        from xdsl.dialects.builtin import DenseArrayBase, i32

        op.properties["operandSegmentSizes"] = DenseArrayBase.from_list(
            i32, [len(inputs), len(outs)]
        )
        return op


def _print_operands(printer: Printer, values: Sequence[SSAValue]) -> None:
    with printer.in_parens():
        printer.print_list(values, printer.print_ssa_value)


def _parse_operands(parser: Parser) -> list[UnresolvedOperand]:
    return parser.parse_comma_separated_list(
        Parser.Delimiter.PAREN, parser.parse_unresolved_operand
    )


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends the body of an operation that carries one: the value of one output element."""

    name = "nn.yield"
    values = var_operand_def()
    assembly_format = "$values attr-dict `:` type($values)"
    traits = traits_def(IsTerminator(), Pure())

    def __init__(self, *values: SSAValue | Operation) -> None:
        super().__init__(operands=[values])
