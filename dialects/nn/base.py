"""What all tensor operations of `nn` share: destination style, one syntax, effects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, MemRefType, StringAttr, TensorType
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    opt_prop_def,
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

from openinfer.dialects.late_syntax import op_definition
from openinfer.dialects.nn.layouts import LayoutAttr

_SEGMENTS = ("operandSegmentSizes", "rooms")
"""Properties that the operands show."""


class DestinationEffect(MemoryEffect):
    """Pure on tensors; on buffers it reads its inputs and writes its destination."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        effects: set[EffectInstance] = set()
        if isinstance(op, NNOp) and op.outs:
            effects |= {EffectInstance(MemoryEffectKind.WRITE, value) for value in op.written}
            effects |= {EffectInstance(MemoryEffectKind.READ, value) for value in op.read}
        return effects


class NNOp(IRDLOperation):
    """A whole-tensor operation in destination style.

    On tensors `outs` is empty and there is one result for each output; after bufferisation there are
    no results and `outs` holds one buffer for each output. Buffers that the kernel works in have names.

        %y = nn.softmax(%x) {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
        nn.softmax(%x) outs(%y) {axis = 1 : i64} : (memref<4x8xf32>, memref<4x8xf32>) -> ()
        %y = nn.matmul(%a, %b) extras(%bias) {maps = […]} { … } : (…, tensor<8xf32>) -> …
        nn.conv(%x, %w) outs(%y) scratch(planes = %p) {…} : (…, memref<768xf32>) -> ()
    """

    inputs = var_operand_def()
    extras = var_operand_def()
    """What the body reads besides its own sum."""
    outs = var_operand_def()
    scratch = var_operand_def()
    rooms = opt_prop_def(ArrayAttr[StringAttr])
    """The names of the scratch buffers."""
    result = var_result_def()
    body = var_region_def()

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(DestinationEffect())

    ARITY: ClassVar[tuple[int, int | None]] = (1, 1)
    """Smallest and largest number of inputs (None: no bound)."""
    OUTPUTS: ClassVar[int] = 1
    SCRATCH: ClassVar[tuple[str, ...]] = ()
    """The scratch buffers that it may have on buffers."""
    BODY: ClassVar[bool] = False
    """Whether the operation may carry a body."""

    def __init__(
        self,
        inputs: Sequence[SSAValue | Operation],
        results: Sequence[Attribute] = (),
        outs: Sequence[SSAValue | Operation] = (),
        properties: Mapping[str, Attribute | None] | None = None,
        body: Region | Sequence[Region] | None = None,
        scratch: Mapping[str, SSAValue] | None = None,
        extras: Sequence[SSAValue] = (),
    ) -> None:
        bodies = [body] if isinstance(body, Region) else list(body or ())
        super().__init__(
            operands=[inputs, extras, outs, list((scratch or {}).values())],
            result_types=[results],
            properties={
                **{k: v for k, v in (properties or {}).items() if v is not None},
                **_names(scratch or ()),
            },
            regions=[bodies],
        )

    @property
    def on_buffers(self) -> bool:
        return bool(self.outs)

    @property
    def output(self) -> SSAValue:
        """The first output: a result on tensors, a destination on buffers."""
        return self.outs[0] if self.outs else self.result[0]

    @property
    def output_count(self) -> int:
        """How many outputs there are."""
        return self.OUTPUTS

    @property
    def own_properties(self) -> dict[str, Attribute]:
        """The properties that say nothing about operands."""
        return {k: v for k, v in self.properties.items() if k not in _SEGMENTS}

    @property
    def read(self) -> tuple[SSAValue, ...]:
        """The operands that it reads."""
        return (*self.inputs, *self.extras)

    @property
    def written(self) -> tuple[SSAValue, ...]:
        """The buffers that it writes."""
        return (*self.outs, *self.scratch)

    def room(self, name: str) -> SSAValue | None:
        """The scratch buffer of a name."""
        for known, value in zip(self.rooms or (), self.scratch):
            if known.data == name:
                return value
        return None

    def verify_(self) -> None:
        low, high = self.ARITY
        count = len(self.inputs)
        if count < low or (high is not None and count > high):
            wanted = str(low) if low == high else f"{low} to {high if high is not None else 'any'}"
            raise VerifyException(f"{self.name} takes {wanted} inputs, found {count}")
        if len(self.body) > self.BODY:
            raise VerifyException(f"{self.name} takes {int(self.BODY)} regions at most")
        if self.extras and not self.BODY:
            raise VerifyException(f"{self.name} takes no extra operands")
        if self.outs:
            self._check_destinations()
        elif len(self.result) != self.output_count:
            raise VerifyException(
                f"{self.name} has {self.output_count} results, found {len(self.result)}"
            )
        else:
            for value in (*self.read, *self.result):
                if not isinstance(value.type, TensorType):
                    raise VerifyException(
                        f"{self.name} without destinations works on tensors, found {value.type}"
                    )
        names = [name.data for name in self.rooms or ()]
        if len(names) != len(self.scratch) or len(set(names)) != len(names):
            raise VerifyException(
                f"{self.name} has {len(self.scratch)} scratch buffers, named {', '.join(names)}"
            )
        if names and not self.outs:
            raise VerifyException(f"{self.name} has scratch buffers, but works on tensors")
        for name in names:
            if name not in self.SCRATCH:
                known = ", ".join(self.SCRATCH) or "none"
                raise VerifyException(f"{self.name} has no scratch buffer {name}, it has: {known}")
        self.check()

    def _check_destinations(self) -> None:
        if self.result:
            raise VerifyException(f"{self.name} on buffers has destinations and no results")
        if len(self.outs) != self.output_count:
            raise VerifyException(
                f"{self.name} has {self.output_count} destinations, found {len(self.outs)}"
            )
        for value in (*self.read, *self.outs, *self.scratch):
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
        if self.extras:
            printer.print_string(" extras")
            _print_operands(printer, self.extras)
        if self.outs:
            printer.print_string(" outs")
            _print_operands(printer, self.outs)
        if self.scratch:
            printer.print_string(" scratch")
            with printer.in_parens():
                rows = list(zip(self.rooms or (), self.scratch))
                printer.print_list(rows, lambda row: _print_room(printer, *row))
        if self.own_properties or self.body:  # Braces of a body alone would be read as settings.
            printer.print_string(" ")
            printer.print_attr_dict(self.own_properties)
        if self.attributes:
            printer.print_string(" attrs ")
            printer.print_attr_dict(self.attributes)
        for region in self.body:
            printer.print_string(" ")
            printer.print_region(region)
        printer.print_string(" : ")
        with printer.in_parens():
            printer.print_list(self.operands, lambda value: printer.print_attribute(value.type))
        printer.print_string(" -> ")
        if len(self.result) == 1:
            printer.print_attribute(self.result[0].type)
        else:
            with printer.in_parens():
                printer.print_list(self.result.types, printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> NNOp:
        inputs = _parse_operands(parser)
        extras = _parse_operands(parser) if parser.parse_optional_keyword("extras") else []
        outs = _parse_operands(parser) if parser.parse_optional_keyword("outs") else []
        rooms = _parse_rooms(parser) if parser.parse_optional_keyword("scratch") else {}
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
        operands = parser.resolve_operands([*inputs, *extras, *outs, *rooms.values()], types, place)
        op = cls.create(
            operands=operands,
            result_types=results,
            properties={**settings, **_names(rooms)},
            attributes=dict(attributes),
            regions=regions,
        )
        from xdsl.dialects.builtin import DenseArrayBase, i32

        op.properties["operandSegmentSizes"] = DenseArrayBase.from_list(
            i32, [len(inputs), len(extras), len(outs), len(rooms)]
        )
        return op


def _print_operands(printer: Printer, values: Sequence[SSAValue]) -> None:
    with printer.in_parens():
        printer.print_list(values, printer.print_ssa_value)


def _print_room(printer: Printer, name: StringAttr, value: SSAValue) -> None:
    printer.print_string(f"{name.data} = ")
    printer.print_ssa_value(value)


def _names(names: Iterable[str]) -> dict[str, Attribute]:
    """The property that names scratch buffers; none without them."""
    found = [StringAttr(name) for name in names]
    return {"rooms": ArrayAttr(found)} if found else {}


def _parse_rooms(parser: Parser) -> dict[str, UnresolvedOperand]:
    found: dict[str, UnresolvedOperand] = {}

    def parse_room() -> None:
        place = parser.pos
        name = parser.parse_identifier("the name of a scratch buffer")
        if name in found:
            parser.raise_error(f"the scratch buffer {name} stands here twice", place)
        parser.parse_punctuation("=")
        found[name] = parser.parse_unresolved_operand()

    parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parse_room)
    return found


def _parse_operands(parser: Parser) -> list[UnresolvedOperand]:
    return parser.parse_comma_separated_list(
        Parser.Delimiter.PAREN, parser.parse_unresolved_operand
    )


@op_definition
class YieldOp(IRDLOperation):
    """Ends the body of an operation that carries one: the value of one output element."""

    name = "nn.yield"
    values = var_operand_def()
    assembly_format = "$values attr-dict `:` type($values)"
    traits = traits_def(IsTerminator(), Pure())

    def __init__(self, *values: SSAValue | Operation) -> None:
        super().__init__(operands=[values])
