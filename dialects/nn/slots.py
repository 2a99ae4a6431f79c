"""What the arguments of `@step` are, and what its frame holds: `#nn.slot`."""

from __future__ import annotations

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from openinfer.runtime.slots import Slot, SlotKind

ARGUMENT = "openinfer.arg"
"""The attribute of an argument of `@step` that says which slot it is passed in."""


@irdl_attr_definition
class SlotAttr(Data[Slot]):
    """`#nn.slot<errors>`, `#nn.slot<input "x">`, `#nn.slot<weight 0>`, `#nn.slot<extent "x" 1>`."""

    name = "nn.slot"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Slot:
        with parser.in_angle_brackets():
            place = parser.pos
            kind = parser.parse_identifier("kind of slot")
            name = parser.parse_optional_str_literal()
            number = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
            try:
                return Slot(SlotKind(kind), name or "", -1 if number is None else number)
            except ValueError as error:
                parser.raise_error(str(error), place)

    def print_parameter(self, printer: Printer) -> None:
        slot = self.data
        with printer.in_angle_brackets():
            printer.print_string(slot.kind)
            if slot.name:
                printer.print_string(" ")
                printer.print_string_literal(slot.name)
            if slot.number >= 0:
                printer.print_string(f" {slot.number}")


def slots_of(step: FuncOp) -> list[Slot | None]:
    """What each argument of a step is; None where nothing says it. Raises VerifyException."""
    if step.arg_attrs is None:
        return [None] * len(step.body.block.args)
    return [_slot(row.data.get(ARGUMENT)) for row in step.arg_attrs]


def _slot(said: Attribute | None) -> Slot | None:
    if said is None or isinstance(said, SlotAttr):
        return None if said is None else said.data
    raise VerifyException(f"{ARGUMENT} is {said}, expected #nn.slot<…>")


def argument_row(slot: Slot) -> DictionaryAttr:
    """The attributes of an argument of a step."""
    return DictionaryAttr({ARGUMENT: SlotAttr(slot)})
