"""Where a branch goes, as MLIR writes it: `^next(%x : i32)`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer


def print_target(printer: Printer, block: Block, operands: Sequence[SSAValue]) -> None:
    """A block with what it is given."""
    printer.print_block_name(block)
    if operands:
        with printer.in_parens():
            printer.print_list(operands, printer.print_operand)
            printer.print_string(" : ")
            printer.print_list([v.type for v in operands], printer.print_attribute)


def parse_target(parser: Parser) -> tuple[Block, Sequence[SSAValue]]:
    """A block, and what it is given."""
    block = parser.parse_successor()
    if not parser.parse_optional_punctuation("("):
        return block, ()
    names: list[UnresolvedOperand] = parser.parse_comma_separated_list(
        Parser.Delimiter.NONE, parser.parse_unresolved_operand
    )
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)
    parser.parse_punctuation(")")
    return block, parser.resolve_operands(names, types, parser.pos)
