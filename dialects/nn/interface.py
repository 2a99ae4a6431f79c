"""What a program takes and gives, as one op beside its functions, from level `nn` downward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.nn.weight_layouts import check_weight_layouts

TARGET = "openinfer.target"
"""The attribute of a module that names what it is compiled for."""


@irdl_op_definition
class InterfaceOp(IRDLOperation):
    """Names and types of inputs, weights, results and nodes, and later the memory plan.

    Printed one entry a line:

        nn.interface {
          inputs = ["x"],
          weights = [
            {sources = ["W1"], variable = "W1"}
          ]
        }
    """

    name = "nn.interface"
    entries = prop_def(DictionaryAttr)
    traits = traits_def(MemoryWriteEffect())

    INDENT: ClassVar[str] = "  "

    def __init__(self, entries: Mapping[str, Attribute]) -> None:
        super().__init__(properties={"entries": DictionaryAttr(dict(entries))})

    def verify_(self) -> None:
        module = self.parent_op()
        if not isinstance(module, ModuleOp):
            return
        if TARGET not in module.attributes:
            raise VerifyException(
                "nn.interface: the module does not say what it is compiled for, "
                f'expected `builtin.module attributes {{{TARGET} = "generic", …}}` around it'
            )
        rows = self.entries.data.get("weights")
        if isinstance(rows, ArrayAttr):
            given = [self.entries.data.get(key) for key in ("inputs", "held")]
            first = sum(len(names) for names in given if isinstance(names, ArrayAttr))
            check_weight_layouts(module, rows, first)

    @classmethod
    def parse(cls, parser: Parser) -> InterfaceOp:
        return cls(parser.parse_optional_attr_dict())

    def print(self, printer: Printer) -> None:
        printer.print_string(" {")
        separator = ""
        for key, value in self.entries.data.items():
            printer.print_string(f"{separator}\n{self.INDENT}{key} = ")
            _print_value(printer, value, self.INDENT)
            separator = ","
        printer.print_string("\n}")


def _print_value(printer: Printer, value: Attribute, indent: str) -> None:
    rows = value.data if isinstance(value, ArrayAttr) else ()
    if not any(isinstance(row, DictionaryAttr) for row in rows):
        printer.print_attribute(value)
        return
    printer.print_string("[")
    separator = ""
    for row in rows:
        printer.print_string(f"{separator}\n{indent}  ")
        printer.print_attribute(row)
        separator = ","
    printer.print_string(f"\n{indent}]")


def interface_of(module: ModuleOp) -> Mapping[str, Attribute]:
    """The entries of a module's interface; empty when it has none."""
    for op in module.body.ops:
        if isinstance(op, InterfaceOp):
            return op.entries.data
    return {}


def update_interface(module: ModuleOp, entries: Mapping[str, Attribute]) -> None:
    """Sets entries of a module's interface, which is made when there is none."""
    for op in module.body.ops:
        if isinstance(op, InterfaceOp):
            op.properties["entries"] = DictionaryAttr({**op.entries.data, **entries})
            return
    block = module.body.block
    op = InterfaceOp(entries)
    if block.first_op is None:
        block.add_op(op)
    else:
        block.insert_op_before(op, block.first_op)
