"""How the constant operand of a kernel lies in memory: attributes of the op and of the weight's row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr, StringAttr, bf16, i8
from xdsl.ir import Attribute, Data, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.nn.block_types import BlockType, parse_format
from openinfer.dialects.nn.checks import Dim, Dims, ceil_div
from openinfer.runtime.blocks import BLOCKS, BlockFormat


class LayoutAttr(Attribute):
    """Panels of some columns of a matrix `[…, K, N]`, one after the other, the last one padded with zeros."""

    @property
    @abstractmethod
    def columns(self) -> int:
        """How many columns of the matrix a panel holds."""

    @property
    def width(self) -> int:
        """Elements of a row of a panel."""
        return self.columns

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


class _ColumnsAttr(LayoutAttr, Data[int]):
    """A layout whose only parameter is the number of columns."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> int:
        with parser.in_angle_brackets():
            return _parse_columns(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self.data))

    @property
    def columns(self) -> int:
        return self.data


def _parse_columns(parser: AttrParser) -> int:
    place = parser.pos
    columns = parser.parse_integer(allow_boolean=False)
    if columns < 1:
        parser.raise_error(f"a panel has {columns} columns, expected 1 or more", place)
    return columns


@irdl_attr_definition
class PanelsAttr(_ColumnsAttr):
    """`#nn.panels<32>`: `[…, ceil(N / 32), K, 32]`, what a product reads in one stream."""

    name = "nn.panels"


@irdl_attr_definition
class PairsAttr(_ColumnsAttr):
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


@irdl_attr_definition
class QuadsAttr(_ColumnsAttr):
    """`#nn.quads<32>`: `[…, ceil(N / 32), ceil(K / 4), 128]` bytes, as `nn.dot_words` takes them.

    Four rows of an i8 matrix lie side by side, column by column, each element with its sign bit flipped.
    """

    name = "nn.quads"

    @property
    def width(self) -> int:
        return 4 * self.data

    def rows(self, depth: Dim) -> Dim:
        return ceil_div(depth, 4)

    def element(self, matrix: Attribute) -> Attribute:
        return i8


@irdl_attr_definition
class TilesAttr(_ColumnsAttr):
    """`#nn.tiles<16>`: `[…, ceil(N / 16), ceil(K / 16), 256]`, squares of 16 columns by 16 rows.

    Each lies column by column; what is no part of the matrix is zero.
    """

    name = "nn.tiles"

    @property
    def width(self) -> int:
        return self.data * self.data

    def rows(self, depth: Dim) -> Dim:
        return ceil_div(depth, self.data)


@irdl_attr_definition
class BlocksAttr(LayoutAttr, ParametrizedAttribute):
    """`#nn.blocks<q8_0, 16>`: `[…, ceil(N / 16), K / 32, 16 * 34]` bytes.

    A row of a panel holds the blocks of its columns for the same elements of K, unit by unit: what is a unit
    of a block (`BlockFormat.parts`) stands there once for each column, before the next unit, in the order
    `BlockFormat.in_panels`. So a vector holds the same unit of neighbouring columns.
    """

    name = "nn.blocks"
    block: StringAttr
    panel: IntAttr

    @classmethod
    def of(cls, block: str, columns: int) -> BlocksAttr:
        return cls(StringAttr(block), IntAttr(columns))

    @property
    def format(self) -> BlockFormat:
        return BLOCKS[self.block.data]

    @property
    def columns(self) -> int:
        return self.panel.data

    @property
    def width(self) -> int:
        return self.columns * self.format.nbytes

    def rows(self, depth: Dim) -> Dim:
        return ceil_div(depth, self.format.elements)

    def element(self, matrix: Attribute) -> Attribute:
        return i8

    def place(self, part: str, unit: int, column: int = 0) -> int:
        """The byte of a panel's row where a unit of a column's block begins."""
        size = self.format.part(part).unit
        return self.columns * self.format.places[part, unit] + column * size

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            block = parse_format(parser)
            parser.parse_punctuation(",")
            return [StringAttr(block), IntAttr(_parse_columns(parser))]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.block.data}, {self.columns}")

    def verify(self) -> None:
        BlockType.of(self.block.data)
        if self.columns < 1:
            raise VerifyException(f"a panel has {self.columns} columns, expected 1 or more")
