"""The arguments of a step by what they are."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    StringAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, SSAValue


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


def role_of(argument: BlockArgument) -> str:
    """What an argument of a step is; empty where nothing says it."""
    step = argument.block.parent_op()
    assert isinstance(step, FuncOp)
    given = step.properties.get("arg_attrs")
    row = given.data[argument.index] if isinstance(given, ArrayAttr) else None
    role = row.data.get("openinfer.arg") if isinstance(row, DictionaryAttr) else None
    return role.data if isinstance(role, StringAttr) else ""


def add_arguments(step: FuncOp, kinds: Sequence[tuple[str, Attribute]]) -> dict[str, SSAValue]:
    """New arguments of the step, by the first word of their roles."""
    block = step.body.block
    given = step.properties.get("arg_attrs")
    rows: list[Attribute] = (
        list(given.data)
        if isinstance(given, ArrayAttr)
        else [DictionaryAttr({}) for _ in block.args]
    )
    found: dict[str, SSAValue] = {}
    for role, kind in kinds:
        name = role.partition(" ")[0]
        argument = block.insert_arg(kind, len(block.args))
        argument.name_hint = "threads" if name == "size" else name
        found[name] = argument
        rows.append(DictionaryAttr({"openinfer.arg": StringAttr(role)}))
    step.properties["arg_attrs"] = ArrayAttr(rows)
    step.update_function_type()
    return found
