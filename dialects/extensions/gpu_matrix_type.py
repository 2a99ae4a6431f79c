"""The type of matrices that several invocations of a kernel hold together."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

SUBGROUP, WORKGROUP = "subgroup", "workgroup"


@irdl_attr_definition
class MMAMatrixType(ParametrizedAttribute, TypeAttribute):
    """`!gpu.mma_matrix<16x16xf16, "AOp">`: a matrix that the invocations of a subgroup hold together, as the
    left (`AOp`) or right (`BOp`) operand of a product, or as its sums (`COp`).

    `!gpu.mma_matrix<128x64xf16, "AOp", workgroup>`: those of a workgroup do."""

    name = "gpu.mma_matrix"

    rows: IntAttr
    columns: IntAttr
    element_type: Attribute
    operand: StringAttr
    scope: StringAttr

    @staticmethod
    def of(
        rows: int, columns: int, element: Attribute, operand: str, scope: str = SUBGROUP
    ) -> MMAMatrixType:
        """By numbers, the name of the operand, and who holds it: `SUBGROUP` or `WORKGROUP`."""
        shape = IntAttr(rows), IntAttr(columns)
        return MMAMatrixType(*shape, element, StringAttr(operand), StringAttr(scope))

    @property
    def of_workgroup(self) -> bool:
        """Whether a workgroup holds it."""
        return self.scope.data == WORKGROUP

    def with_element(self, element: Attribute) -> MMAMatrixType:
        """The same of other elements."""
        return MMAMatrixType(self.rows, self.columns, element, self.operand, self.scope)

    def verify(self) -> None:
        if self.scope.data not in (SUBGROUP, WORKGROUP):
            raise VerifyException(f"a {SUBGROUP} or a {WORKGROUP} holds it, no {self.scope.data}")
        if self.operand.data not in ("AOp", "BOp", "COp"):
            raise VerifyException(f'a matrix is "AOp", "BOp" or "COp", not "{self.operand.data}"')

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            extents, element = parser.parse_ranked_shape()
            if len(extents) != 2:
                parser.raise_error(f"a matrix has 2 axes, not {len(extents)}")
            parser.parse_punctuation(",")
            operand, scope = parser.parse_str_literal(), SUBGROUP
            if parser.parse_optional_punctuation(","):
                scope = parser.parse_identifier()
        shape = IntAttr(extents[0]), IntAttr(extents[1])
        return *shape, element, StringAttr(operand), StringAttr(scope)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.rows.data}x{self.columns.data}x")
            printer.print_attribute(self.element_type)
            printer.print_string(f', "{self.operand.data}"')
            if self.of_workgroup:
                printer.print_string(f", {WORKGROUP}")
