"""Arguments of `y = op f(a=x, b=z, axis=0);` → operands in order, and settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.syntax import (
    ListValue,
    Literal,
    Name,
    Op,
    Operand,
    Ref,
    Setting,
    Value,
)
from openinfer.dialects import opset
from openinfer.runtime.quick_dataclass import dataclass

_LETTERS = "abcdefgh"


@dataclass(frozen=True)
class Argument:
    """One argument as written; `name` is None for a positional one."""

    name: Name | None
    value: Value | Ref | Op


def is_operand(value: Value | Ref | Op) -> TypeGuard[Literal]:
    """Whether a value is a literal that may stand as an operand: a number or bool."""
    return isinstance(value, Literal) and not isinstance(value.value, str)


def sort_arguments(
    op: Name, arguments: Sequence[Argument], report: Report
) -> tuple[tuple[Operand, ...], tuple[Setting, ...]]:
    """The operands, each at its place, and the settings of an op.

    An operand is named as in the registry; the letters a, b, c, … also stand for the first, second,
    third, … operand. An argument that is no operand is a setting, which is checked as such.
    """
    spec = opset.find(op.text)
    before = report.errors
    operands: dict[int, Operand] = {}
    settings: list[Setting] = []
    for argument in arguments:
        name, value = argument.name, argument.value
        position = len(operands) if name is None else _position(name.text, spec, value)
        if position is None:
            assert name is not None
            if isinstance(value, Ref | Op):
                # No setting has this name, which is reported as such.
                plain = isinstance(value, Ref) and value.slots is None
                value = value.name if plain else Name("?", value.span)
            settings.append(Setting(name, value))
            continue
        ref = Ref(value, None, value.span) if isinstance(value, Name) else value
        if not isinstance(ref, Ref | Op) and not is_operand(ref):
            assert name is not None
            report.error(
                "OI0125",
                ref.span,
                f"`{name.text}` is an operand of `{op.text}`, so it must be a variable or a number",
                fix=value_advice(ref),
            )
            ref = unknown(ref)
        if position < 0:
            position = max(operands, default=-1) + 1
        if position in operands:
            report.error(
                "OI0125",
                name.span if name else ref.span,
                f"operand `{_operand_name(spec, position)}` of `{op.text}` is given twice",
                fix="remove one of them",
                notes=[("first given here", operands[position].span)],
            )
            continue
        operands[position] = ref
    _check_gaps(op, spec, operands, report)
    if report.errors > before and spec is not None:
        # The count of operands is then no error of its own.
        for position in range(len(spec.operands)):
            operands.setdefault(position, unknown(op))
    return tuple(operands[position] for position in sorted(operands)), tuple(settings)


def _position(name: str, spec: opset.OpSpec | None, value: Value | Ref | Op) -> int | None:
    """Which operand a name stands for: its place, -1 for the next one, None for a setting."""
    if spec is None:
        return -1 if isinstance(value, Name | Ref | Op) else None
    own = spec.place(name)
    if own is not None:
        # Scales are variables, or a number for all.
        number = not isinstance(value, Name | Ref | Op) and spec.setting(name) is not None
        return None if number else own
    names = (*spec.operands, *spec.optional)
    if spec.setting(name) is not None or len(name) != 1 or name not in _LETTERS:
        return None
    place = _LETTERS.index(name)
    return place if place < len(names) or spec.variadic else None


def _operand_name(spec: opset.OpSpec | None, position: int) -> str:
    names = (*spec.operands, *spec.optional) if spec else ()
    return names[position] if position < len(names) else str(position + 1)


def _check_gaps(
    op: Name, spec: opset.OpSpec | None, operands: dict[int, Operand], report: Report
) -> None:
    """An operand without the one before it. Missing operands at the end are counted elsewhere."""
    for position in sorted(operands):
        if position and position - 1 not in operands:
            report.error(
                "OI0125",
                operands[position].span,
                f"`{_operand_name(spec, position)}` of `{op.text}` is given, "
                f"`{_operand_name(spec, position - 1)}` is not",
                fix=f"add `{_operand_name(spec, position - 1)}=…`",
            )
            return


def value_advice(value: Value) -> str:
    """What to write for a value that is no operand."""
    if isinstance(value, Literal):
        return "an operand is no string; a setting, `name=value`, may be one"
    if (
        isinstance(value, ListValue)
        and value.items
        and all(isinstance(i, Name) for i in value.items)
    ):
        return "give them one after the other, without the brackets"
    if isinstance(value, ListValue):
        return "declare the values in `constant { … }`, filled from the package, and name it here"
    return "write one number, or let an op compute the value"


def unknown(where: Value | Name) -> Ref:
    """A use of which an error was reported already."""
    return Ref(Name("?", where.span), None, where.span)
