"""Ops without regions made and appended in one go, for passes that make them by the thousand.

`Operation.create` sets operands, uses and successors through properties that first take down what was there,
and `Block.add_op` looks whether the block lies inside of the op. Of a new op without regions all of that is
known: this takes a third of the time. xDSL's version is fixed in `pyproject.toml`.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import cast

from xdsl.dialects.builtin import LocationAttr, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue, Use
from xdsl.ir.core import SSAValues
from xdsl.irdl import IRDLOperation, OptionalDef

_UNKNOWN = UnknownLoc()
_NONE: SSAValues[OpResult] = SSAValues()


def append_new(
    block: Block,
    kind: type[Operation],
    operands: Sequence[SSAValue],
    result: Attribute | None = None,
    properties: Mapping[str, Attribute] = {},
    location: LocationAttr = _UNKNOWN,
) -> SSAValue:
    """Makes an op with at most one result, neither regions nor successors, at the end of a block.

    Gives its result; None, which nobody asks for, where `result` is None."""
    op = kind.__new__(kind)
    uses: list[Use] = []
    for number, value in enumerate(operands):
        first = value.first_use
        use = Use(op, number, None, first)
        if first is not None:
            first._prev_use = use
        value.first_use = use
        uses.append(use)
    op._operands = SSAValues(operands)
    op._operand_uses = tuple(uses)
    made_result = None if result is None else OpResult(result, op, 0)
    op.results = _NONE if made_result is None else SSAValues((made_result,))
    op.properties = made = dict(properties)
    op.attributes = {}
    for name, value, is_property in _defaults(kind):
        if is_property and name not in made:
            made[name] = value
        elif not is_property:
            op.attributes[name] = value
    op.location = location
    op.parent = block
    last = block._last_op
    if last is None:
        block._first_op = op
    else:
        last._next_op = op
        op._prev_op = last
    block._last_op = op
    return made_result  # pyright: ignore[reportReturnType]


@cache
def _defaults(kind: type[Operation]) -> list[tuple[str, Attribute, bool]]:
    """What an op of a kind has where nobody says otherwise: name, value, whether it is a property."""
    definition = cast(type[IRDLOperation], kind).get_irdl_definition()
    found: list[tuple[str, Attribute, bool]] = []
    for rows, is_property in ((definition.properties, True), (definition.attributes, False)):
        for name, row in rows.items():
            if not isinstance(row, OptionalDef) and row.default_value is not None:
                found.append((name, row.default_value, is_property))
    return found
