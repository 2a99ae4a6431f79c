"""The attributes of the graph level: size expressions, variable uses, names as settings."""

from __future__ import annotations

import math
from collections.abc import Iterable

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, IntegerType, StringAttr
from xdsl.ir import Attribute, Data, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from openinfer.runtime.sizes import Size, SizeLike

KINDS = ("dynamic", "volatile", "constant", "persistent")
"""The memory kinds of a declaration."""


def parse_size(parser: AttrParser) -> Size:
    """`D`, `4`, `-1` or a quoted expression."""
    if (text := parser.parse_optional_str_literal()) is not None:
        try:
            return Size.of(text)
        except ValueError as error:
            parser.raise_error(str(error))
    if (number := parser.parse_optional_integer(allow_boolean=False)) is not None:
        return Size.of(number)
    return Size.name(parser.parse_identifier("size expression"))


def print_size(printer: Printer, size: Size) -> None:
    if size.constant is not None or size.single_name is not None:
        printer.print_string(str(size))
    else:
        printer.print_string_literal(str(size))


@irdl_attr_definition
class SizeAttr(Data[Size]):
    """`#graph.size<"3*D + 1">`: an integer expression over named sizes and loop indices."""

    name = "graph.size"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Size:
        with parser.in_angle_brackets():
            return parse_size(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            print_size(printer, self.data)

    @staticmethod
    def of(value: SizeLike) -> SizeAttr:
        return SizeAttr(Size.of(value))


@irdl_attr_definition
class SliceAttr(ParametrizedAttribute):
    """`#graph.slice<a, b>`: the half-open slot `a..b`; an empty string is an absent bound."""

    name = "graph.slice"

    start: Attribute
    """`SizeAttr`, or an empty `StringAttr`."""
    stop: Attribute


@irdl_attr_definition
class RefAttr(ParametrizedAttribute):
    """A use of a variable: `h`, `W[l]`, and for caches also slices `K[l, 0..n]`, `K[]`."""

    name = "graph.ref"

    variable: StringAttr
    indices: ArrayAttr[Attribute]
    """`SizeAttr` or `SliceAttr` for each slot."""
    bracketed: StringAttr
    """"[]" when brackets were written, else ""."""

    @staticmethod
    def of(
        variable: str, indices: Iterable[SizeLike | Attribute] = (), *, bracketed: bool = False
    ) -> RefAttr:
        slots = [i if isinstance(i, Attribute) else SizeAttr.of(i) for i in indices]
        brackets = "[]" if bracketed or slots else ""
        return RefAttr(StringAttr(variable), ArrayAttr(slots), StringAttr(brackets))

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The indices as expressions. Raises TypeError when a slot is a slice."""
        found: list[Size] = []
        for index in self.indices:
            if not isinstance(index, SizeAttr):
                raise TypeError(f"{self.text} holds a slice")
            found.append(index.data)
        return tuple(found)

    @property
    def text(self) -> str:
        """As a person writes it: `W[l]`."""
        if not self.bracketed.data:
            return self.variable.data
        slots: list[str] = []
        for index in self.indices:
            if isinstance(index, SizeAttr):
                slots.append(str(index.data))
            elif isinstance(index, SliceAttr):
                bounds = [
                    str(b.data) if isinstance(b, SizeAttr) else ""
                    for b in (index.start, index.stop)
                ]
                slots.append("..".join(bounds))
        return f"{self.variable.data}[{', '.join(slots)}]"


@irdl_attr_definition
class LiteralAttr(ParametrizedAttribute):
    """A number or bool as an operand; its dtype is that of the operands beside it."""

    name = "graph.literal"

    value: Attribute
    """`IntegerAttr` (i1 for a bool) or `FloatAttr`."""

    @property
    def number(self) -> bool | int | float:
        """As Python has it."""
        if isinstance(self.value, FloatAttr):
            return float(self.value.value.data)
        if not isinstance(self.value, IntegerAttr):
            raise TypeError(f"{self.value} is no number")
        kind, number = self.value.type, int(self.value.value.data)
        return bool(number) if isinstance(kind, IntegerType) and kind.width.data == 1 else number

    @property
    def text(self) -> str:
        """As a person writes it: `0.5`, `true`, `-inf`."""
        number = self.number
        if isinstance(number, bool):
            return "true" if number else "false"
        if isinstance(number, float) and not math.isfinite(number):
            return "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"
        return repr(number)


Operand = RefAttr | LiteralAttr
"""What an op takes."""


@irdl_attr_definition
class NameAttr(Data[str]):
    """`#graph.name<alpha>`: a setting that names a dtype, a scalar variable or a metadata entry."""

    name = "graph.name"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parser.parse_identifier()

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")
