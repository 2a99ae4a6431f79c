"""Op definitions whose declarative syntax is read when one of their ops is first parsed or printed.

xDSL reads it when the class is made: a quarter of a millisecond for each of a hundred ops, of which a
compilation that prints nothing needs none.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, TypeVar

from xdsl.irdl import IRDLOperation, irdl_op_definition

if TYPE_CHECKING:
    from xdsl.irdl.declarative_assembly_format import FormatProgram
    from xdsl.irdl.operations import OpDef
    from xdsl.parser import Parser
    from xdsl.printer import Printer

READ_SYNTAX = "read_syntax"
"""The method that reads the syntax of a class, if it has one, and gives it."""

_OpT = TypeVar("_OpT", bound=type[IRDLOperation])


def op_definition(cls: _OpT) -> _OpT:
    """`irdl_op_definition`, but for the syntax (`assembly_format`), which is read later."""
    syntax = cls.assembly_format
    cls.assembly_format = None
    made = irdl_op_definition(cls)
    made.assembly_format = syntax
    if syntax is not None:
        definition = made.get_irdl_definition()
        definition.assembly_format = syntax
        give_syntax(made, definition)
    return made


def give_syntax(cls: type[IRDLOperation], definition: OpDef) -> None:
    """Gives a class the methods `parse` and `print` of its definition's syntax.

    They raise ParseError where there is a mistake in it; a test reads them all.
    """

    @cache
    def program() -> FormatProgram:
        from xdsl.irdl.declarative_assembly_format import FormatProgram

        assert definition.assembly_format is not None
        return FormatProgram.from_str(definition.assembly_format, definition)

    def parse(cls: type[IRDLOperation], parser: Parser) -> IRDLOperation:
        return program().parse(parser, cls)

    def print(self: IRDLOperation, printer: Printer) -> None:
        program().print(printer, self)

    methods = {"parse": classmethod(parse), "print": print, READ_SYNTAX: staticmethod(program)}
    for name, method in methods.items():
        setattr(cls, name, method)
