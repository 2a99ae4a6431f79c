"""The arguments of a step by what they are."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, SSAValue

from openinfer.dialects.nn import argument_row, slots_of
from openinfer.runtime.slots import Slot, SlotKind


class StepArguments:
    """The arguments that a step has now."""

    def __init__(self, step: FuncOp) -> None:
        slots = zip(slots_of(step), step.body.block.args)
        self._found = {slot: argument for slot, argument in slots if slot is not None}

    def get(self, kind: SlotKind, name: str = "") -> SSAValue | None:
        """The argument of a kind, of the variable `name` if there may be several; None without one."""
        return self._found.get(Slot(kind, name))

    def of(self, kind: SlotKind, name: str = "") -> SSAValue:
        """The argument of a kind, of the variable `name` if there are several. Raises KeyError."""
        return self._found[Slot(kind, name)]


def slot_of(argument: BlockArgument) -> Slot | None:
    """What an argument of a step is; None where nothing says it."""
    step = argument.block.parent_op()
    assert isinstance(step, FuncOp)
    return slots_of(step)[argument.index]


def add_arguments(step: FuncOp, wanted: Sequence[tuple[Slot, Attribute]]) -> list[SSAValue]:
    """New arguments of the step, one for each slot, of the given types."""
    block = step.body.block
    rows: list[Attribute] = [DictionaryAttr({}) for _ in block.args]
    if step.arg_attrs is not None:
        rows = list(step.arg_attrs)
    found: list[SSAValue] = []
    for slot, kind in wanted:
        argument = block.insert_arg(kind, len(block.args))
        argument.name_hint = name_hint(slot)
        found.append(argument)
        rows.append(argument_row(slot))
    step.properties["arg_attrs"] = ArrayAttr(rows)
    step.update_function_type()
    return found


def name_hint(slot: Slot) -> str:
    """What the argument in a slot is called."""
    if slot.kind == SlotKind.SIZE:
        return slot.name.removeprefix("openinfer.")
    return f"{slot.kind}_{slot.name}" if slot.name else slot.kind.value
