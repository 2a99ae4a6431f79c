"""Parsing and printing of the pieces that several graph operations share."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping

from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.graph.attributes import (
    LiteralAttr,
    Operand,
    RefAttr,
    SizeAttr,
    SliceAttr,
    parse_size,
    print_size,
)
from openinfer.runtime.dtypes import DTYPES, DType
from openinfer.runtime.sizes import Size


def parse_name(parser: Parser, what: str) -> str:
    """A name; one that is also a word of the syntax around it is quoted."""
    return parser.parse_identifier_or_str_literal(what)


def print_name(printer: Printer, name: str, reserved: tuple[str, ...]) -> None:
    """The inverse of `parse_name`: quotes the `reserved` words."""
    if name in reserved:
        printer.print_string_literal(name)
    else:
        printer.print_string(name)


def parse_text(parser: Parser) -> str:
    """A quoted text. xDSL reads one that is not ASCII as bytes."""
    if (data := parser.parse_optional_bytes_literal()) is not None:
        return data.decode("utf-8", "replace")
    return parser.parse_str_literal()


def as_text(value: Attribute) -> Attribute:
    """The attribute with all bytes in it, which are texts that are not ASCII, as strings."""
    match value:
        case BytesAttr(data=data):
            return StringAttr(data.decode("utf-8", "replace"))
        case ArrayAttr(data=items):
            return ArrayAttr([as_text(item) for item in items])
        case DictionaryAttr(data=entries):
            return DictionaryAttr({key: as_text(item) for key, item in entries.items()})
        case _:
            return value


def parse_entries(parser: Parser) -> dict[str, Attribute]:
    """An optional `{key = value}`."""
    entries = parser.parse_optional_dictionary_attr_dict()
    return {key: as_text(value) for key, value in entries.items()}


def parse_slot(parser: Parser) -> Attribute:
    """`l`, `"l + 1"` or `slice(a, none)`; a size named `slice` or `none` is quoted."""

    def bound() -> Attribute:
        if parser.parse_optional_keyword("none"):
            return StringAttr("")
        return SizeAttr(parse_size(parser))

    if parser.parse_optional_keyword("slice"):
        with parser.in_parens():
            start = bound()
            parser.parse_punctuation(",")
            return SliceAttr(start, bound())
    return SizeAttr(parse_size(parser))


def print_slot(printer: Printer, slot: Attribute) -> None:
    """The inverse of `parse_slot`."""

    def size(value: Size) -> None:
        if value.single_name in ("slice", "none"):
            printer.print_string_literal(str(value))
        else:
            print_size(printer, value)

    def bound(value: Attribute) -> None:
        if isinstance(value, SizeAttr):
            size(value.data)
        else:
            printer.print_string("none")

    if isinstance(slot, SizeAttr):
        size(slot.data)
    elif isinstance(slot, SliceAttr):
        printer.print_string("slice(")
        bound(slot.start)
        printer.print_string(", ")
        bound(slot.stop)
        printer.print_string(")")


def parse_ref(parser: Parser) -> RefAttr:
    """`h`, `W[l]`, `K[l, slice(0, n)]`."""
    return _with_slots(parser, parser.parse_identifier("variable name"))


def _with_slots(parser: Parser, variable: str) -> RefAttr:
    slots = parser.parse_optional_comma_separated_list(
        Parser.Delimiter.SQUARE, lambda: parse_slot(parser)
    )
    return RefAttr.of(variable, slots or (), bracketed=slots is not None)


def print_ref(printer: Printer, ref: RefAttr) -> None:
    printer.print_string(ref.variable.data)
    _print_slots(printer, ref)


def _print_slots(printer: Printer, ref: RefAttr) -> None:
    if not ref.bracketed.data:
        return
    with printer.in_square_brackets():
        printer.print_list(list(ref.indices), lambda slot: print_slot(printer, slot))


LITERAL_WORDS: dict[str, bool | float] = {
    "true": True,
    "false": False,
    "inf": math.inf,
    "nan": math.nan,
}
"""Literals that look like names; a variable of such a name is quoted among operands."""


_EXPONENT = re.compile(r"^(-?\d+)e")


def number_attribute(number: bool | int | float) -> Attribute:
    """A number as settings and literals hold it: i1, i64, for large ones u64, or f64."""
    if isinstance(number, bool):
        return IntegerAttr.from_bool(number)
    if isinstance(number, int):
        fits = -(2**63) <= number < 2**63
        return IntegerAttr(number, i64 if fits else IntegerType(64, Signedness.UNSIGNED))
    return FloatAttr(number, f64)


def parse_operand(parser: Parser) -> Operand:
    """`h`, `W[l]`, or a literal: `0.5`, `-1`, `true`, `inf`, `-inf`."""
    for word, number in LITERAL_WORDS.items():
        if parser.parse_optional_keyword(word):
            return LiteralAttr(number_attribute(number))
    if parser.parse_optional_punctuation("-"):
        if parser.parse_optional_keyword("inf"):
            return LiteralAttr(number_attribute(-math.inf))
        number = parser.parse_number()
        return LiteralAttr(number_attribute(-number))
    if (number := parser.parse_optional_number()) is not None:
        return LiteralAttr(number_attribute(number))
    variable = parse_name(parser, "variable name")
    return _with_slots(parser, variable)


def print_operand(printer: Printer, operand: Operand) -> None:
    """The inverse of `parse_operand`."""
    if isinstance(operand, LiteralAttr):
        # The lexer of MLIR wants a point in front of an exponent.
        printer.print_string(_EXPONENT.sub(r"\1.0e", operand.text))
    elif operand.variable.data in LITERAL_WORDS:
        printer.print_string_literal(operand.variable.data)
        _print_slots(printer, operand)
    else:
        print_ref(printer, operand)


def parse_operands(parser: Parser) -> ArrayAttr[Operand]:
    return ArrayAttr(
        parser.parse_comma_separated_list(Parser.Delimiter.PAREN, lambda: parse_operand(parser))
    )


def print_operands(printer: Printer, operands: Iterable[Operand]) -> None:
    with printer.in_parens():
        printer.print_list(list(operands), lambda operand: print_operand(printer, operand))


def parse_refs(parser: Parser) -> ArrayAttr[RefAttr]:
    return ArrayAttr(
        parser.parse_comma_separated_list(Parser.Delimiter.PAREN, lambda: parse_ref(parser))
    )


def print_refs(printer: Printer, refs: Iterable[RefAttr]) -> None:
    with printer.in_parens():
        printer.print_list(list(refs), lambda ref: print_ref(printer, ref))


def parse_names(parser: Parser) -> ArrayAttr[StringAttr]:
    names = parser.parse_comma_separated_list(
        Parser.Delimiter.NONE, lambda: StringAttr(parser.parse_identifier())
    )
    return ArrayAttr(names)


def parse_type(parser: Parser) -> tuple[StringAttr, ArrayAttr[SizeAttr]]:
    """`f32 [B, "3*D"]`."""
    dtype = StringAttr(parser.parse_identifier("dtype"))
    dims = parser.parse_optional_comma_separated_list(
        Parser.Delimiter.SQUARE, lambda: SizeAttr(parse_size(parser))
    )
    return dtype, ArrayAttr(dims or ())


def print_type(printer: Printer, dtype: StringAttr, dims: ArrayAttr[SizeAttr]) -> None:
    printer.print_string(dtype.data)
    if dims.data:
        printer.print_string(" ")
        with printer.in_square_brackets():
            printer.print_list(dims.data, lambda dim: print_size(printer, dim.data))


def parse_dict(parser: Parser, keyword: str) -> DictionaryAttr | None:
    if parser.parse_optional_keyword(keyword) is None:
        return None
    return DictionaryAttr(parse_entries(parser))


def print_dict(printer: Printer, keyword: str, entries: DictionaryAttr | None) -> None:
    if entries is None or not entries.data:
        return
    printer.print_string(f" {keyword} ")
    printer.print_attr_dict(entries.data)


OPEN = "_"
"""The dtype of a variable whose type is not known yet, and a dimension that is not."""


def check_dtype(op: Operation, dtype: StringAttr, known: Mapping[str, DType] = DTYPES) -> None:
    if dtype.data not in known and dtype.data != OPEN:
        raise VerifyException(f"{op.name}: unknown dtype {dtype.data!r}")


def parse_body(parser: Parser) -> Region:
    region = parser.parse_region()
    if not region.blocks:
        region.add_block(Block())
    return region


class GraphOp(IRDLOperation):
    """A graph operation says by name what it reads and writes; passes ask nothing else."""

    def reads(self) -> Iterator[RefAttr]:
        """Variables that this op itself reads (not its nested ops)."""
        return iter(())

    def writes(self) -> Iterator[RefAttr]:
        """Variables that this op itself writes."""
        return iter(())
