"""Element types of quantised weights whose elements share blocks."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from openinfer.runtime.blocks import BLOCKS, BlockFormat


@irdl_attr_definition
class BlockType(ParametrizedAttribute, TypeAttribute):
    """`tensor<8x64x!nn.block<q8_0>>`: 8 rows of 64 elements, each row in two blocks of `BLOCKS`.

    The dimensions count elements. Blocks lie along the last axis, so its size is known, and a multiple
    of what a block holds. In memory they are rows of bytes, `8 x 68 x i8` here.
    """

    name = "nn.block"
    block: StringAttr

    @classmethod
    def of(cls, block: str) -> BlockType:
        return cls(StringAttr(block))

    @property
    def format(self) -> BlockFormat:
        return BLOCKS[self.block.data]

    def row_bytes(self, elements: int) -> int:
        """Bytes of a row of so many elements, which are whole blocks."""
        return elements // self.format.elements * self.format.nbytes

    def verify(self) -> None:
        if self.block.data not in BLOCKS:
            raise VerifyException(f"{self.block.data} is no format of blocks: {', '.join(BLOCKS)}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return [StringAttr(parse_format(parser))]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.block.data)


def parse_format(parser: AttrParser) -> str:
    """The name of a block format."""
    place = parser.pos
    name = parser.parse_identifier("the name of a block format")
    if name not in BLOCKS:
        parser.raise_error(
            f"unknown block format {name}, expected one of {', '.join(BLOCKS)}", place
        )
    return name
