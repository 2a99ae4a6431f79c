"""How the constant operand of a kernel lies in memory: attributes of the op and of the weight's row."""

from __future__ import annotations

from xdsl.dialects.builtin import bf16
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from openinfer.dialects.nn.checks import Dim, Dims, ceil_div


class LayoutAttr(Data[int]):
    """Panels of some columns of a matrix `[…, K, N]`, one after the other, the last one padded with zeros.

    The parameter is how many columns of the matrix a panel holds.
    """

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> int:
        with parser.in_angle_brackets():
            place = parser.pos
            columns = parser.parse_integer(allow_boolean=False)
            if columns < 1:
                parser.raise_error(f"a panel has {columns} columns, expected 1 or more", place)
            return columns

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self.data))

    @property
    def columns(self) -> int:
        return self.data

    @property
    def width(self) -> int:
        """Elements of a row of a panel."""
        return self.data

    def rows(self, depth: Dim) -> Dim:
        """Rows of a panel, where the matrix has `depth`."""
        return depth

    def shape(self, matrix: Dims) -> Dims:
        """The dimensions of a matrix `[…, K, N]` in this layout."""
        *leading, depth, columns = matrix
        return (*leading, ceil_div(columns, self.columns), self.rows(depth), self.width)

    def element(self, matrix: Attribute) -> Attribute:
        """What elements of the matrix are stored as."""
        return matrix


@irdl_attr_definition
class PanelsAttr(LayoutAttr):
    """`#nn.panels<32>`: `[…, ceil(N / 32), K, 32]`, what a product reads in one stream."""

    name = "nn.panels"


@irdl_attr_definition
class PairsAttr(LayoutAttr):
    """`#nn.pairs<32>`: `[…, ceil(N / 32), ceil(K / 2), 64]` of bf16, as `nn.dot_pairs` takes them.

    Two rows of the matrix lie side by side, column by column; an odd last one beside zeros.
    """

    name = "nn.pairs"

    @property
    def width(self) -> int:
        return 2 * self.data

    def rows(self, depth: Dim) -> Dim:
        return ceil_div(depth, 2)

    def element(self, matrix: Attribute) -> Attribute:
        return bf16
