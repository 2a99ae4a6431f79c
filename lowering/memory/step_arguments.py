"""The arguments of a step by what they are."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    StringAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue


def argument_roles(step: FuncOp) -> dict[str, SSAValue]:
    """The arguments of a step by what they are."""
    given = step.properties.get("arg_attrs")
    found: dict[str, SSAValue] = {}
    rows: tuple[Attribute, ...] = given.data if isinstance(given, ArrayAttr) else ()
    for argument, row in zip(step.body.block.args, rows):
        role = row.data.get("openinfer.arg") if isinstance(row, DictionaryAttr) else None
        if isinstance(role, StringAttr):
            found[role.data] = argument
    return found
