"""Parts of a step that do not depend on each other and may run side by side."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.late_syntax import op_definition


@op_definition
class EndSectionOp(IRDLOperation):
    """The values that a section gives: `nn.end_section %h : tensor<4xf32>`."""

    name = "nn.end_section"
    given = var_operand_def()
    assembly_format = "($given^ `:` type($given))? attr-dict"
    traits = traits_def(IsTerminator(), Pure())

    def __init__(self, *given: SSAValue) -> None:
        super().__init__(operands=[list(given)])


@op_definition
class SectionsOp(IRDLOperation):
    """The consumers of yielded values: `%a, %b = nn.sections -> (…) "one" { … } "two" { … }`.

    Each section ends with `nn.end_section` of its values; the results are those of all sections, in
    order. No section writes what another one touches. `nn.sections serial "one" { … } …`, on buffers
    only, run one after the other all the same: what they do to states has one undo log.
    """

    name = "nn.sections"
    names = prop_def(ArrayAttr[StringAttr])
    serial = opt_prop_def(UnitAttr)
    values = var_result_def()
    bodies = var_region_def("single_block")
    traits = traits_def(RecursiveMemoryEffect())

    def __init__(
        self, names: Sequence[str], bodies: Sequence[Region], types: Sequence[Attribute]
    ) -> None:
        super().__init__(
            properties={"names": ArrayAttr([StringAttr(n) for n in names])},
            regions=[list(bodies)],
            result_types=[list(types)],
        )

    def verify_(self) -> None:
        if len(self.names.data) != len(self.bodies):
            raise VerifyException(
                f"nn.sections: {len(self.names.data)} names for {len(self.bodies)}"
            )
        if self.serial is not None and self.values:
            raise VerifyException("nn.sections: serial sections give no values, they fill buffers")
        given: list[Attribute] = []
        for body in self.bodies:
            end = body.block.last_op
            if not isinstance(end, EndSectionOp):
                raise VerifyException("nn.sections: a section does not end with nn.end_section")
            given += [value.type for value in end.operands]
        if given != [value.type for value in self.values]:
            raise VerifyException("nn.sections: the sections do not give the types of the results")

    @classmethod
    def parse(cls, parser: Parser) -> SectionsOp:
        serial = parser.parse_optional_keyword("serial") is not None
        types: Sequence[Attribute] = ()
        if parser.parse_optional_punctuation("->"):
            types = parser.parse_comma_separated_list(
                Parser.Delimiter.PAREN, parser.parse_attribute
            )
        names: list[str] = []
        bodies: list[Region] = []
        while (name := parser.parse_optional_str_literal()) is not None:
            names.append(name)
            bodies.append(parser.parse_region())
        op = cls(names, bodies, types)
        if serial:
            op.serial = UnitAttr()
        given = parser.parse_optional_attr_dict_with_keyword()
        if given is not None:
            op.attributes.update(given.data)
        for body in op.bodies:
            if not isinstance(body.block.last_op, EndSectionOp):
                body.block.add_op(EndSectionOp())
        return op

    def print(self, printer: Printer) -> None:
        if self.serial is not None:
            printer.print_string(" serial")
        if self.values:
            printer.print_string(" -> (")
            printer.print_list(self.values, lambda value: printer.print_attribute(value.type))
            printer.print_string(")")
        for name, body in zip(self.names, self.bodies):
            printer.print_string(" ")
            printer.print_string_literal(name.data)
            printer.print_string(" ")
            printer.print_region(body, print_empty_block=False)
        if self.attributes:
            printer.print_string(" attributes ")
            printer.print_attr_dict(self.attributes)
