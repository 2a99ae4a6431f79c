"""Checks of the sizes that a program defines or bounds: names, cycles, and what expressions may name."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from openinfer.dialects.graph import LoopOp, SizeBoundOp, SizeOp
from openinfer.dialects.graph.syntax import OPEN
from openinfer.lowering.program.check_uses import UseChecks
from openinfer.lowering.program.names import UNREADABLE, walk
from openinfer.lowering.program.size_definitions import (
    TooLargeError,
    cycle_of,
    definitions,
    expressions,
    put_in,
)
from openinfer.runtime.sizes import Size


def check_definitions(checks: UseChecks, module: ModuleOp) -> None:
    """Reports definitions that mean nothing, or that have the name of something else."""
    defined = definitions(module)
    values = expressions(defined)
    for op in module.body.ops:
        if isinstance(op, SizeBoundOp):
            _bound(checks, op, values)
    if not defined:
        return
    for op in module.body.ops:
        if isinstance(op, SizeOp):
            _name(checks, op, defined[op.size.data])
    for name, op in defined.items():
        _value(checks, op)
        cycle = cycle_of(name, defined)
        if cycle:
            checks.error(
                "OI0286",
                op,
                ("value",),
                f"size `{name}` depends on itself: {' → '.join(cycle)}",
                "give one of them a value of its own",
            )
        elif name not in values:
            _no_expression(checks, op, values)
    for block in checks.names.blocks.values():
        for node in walk(block):
            if isinstance(node, LoopOp) and node.index.data in defined:
                checks.error(
                    "OI0258",
                    node,
                    ("index",),
                    f"loop index `{node.index.data}` has the name of a size",
                    "rename the index",
                    ("defined here", checks.places.of(defined[node.index.data], ("name",))),
                )


def _name(checks: UseChecks, op: SizeOp, first: SizeOp) -> None:
    """A size has one definition, and no variable has its name."""
    name = op.size.data
    if first is not op:
        note = ("first defined here", checks.places.of(first, ("name",)))
        message = f"size `{name}` is defined twice"
        checks.error("OI0286", op, ("name",), message, "remove one of them", note)
    elif variable := checks.names.find(name):
        message = f"size `{name}` has the name of a {variable.what}"
        checks.error("OI0286", op, ("name",), message, "rename it", checks.declared(variable))


def _value(checks: UseChecks, op: SizeOp) -> None:
    """The names in a definition are sizes: what a variable holds may change."""
    size = op.value.data
    _only_sizes(
        *(checks, op, "value", size, "OI0286", "a size is defined"),
        f"write the expression where `{op.size.data}` is used",
    )
    if size.constant is not None and size.constant < 0:
        message = f"size `{op.size.data}` is {size}, sizes are never negative"
        checks.error("OI0286", op, ("value",), message, "use 0 or more")


def _only_sizes(
    checks: UseChecks, op: Operation, part: str, size: Size, code: str, what: str, fix: str
) -> None:
    """Names in an expression that are no sizes."""
    for name, place in checks.places.names_in(op, (part,), size):
        if name == UNREADABLE or name in checks.places.unreadable:
            continue
        variable = checks.names.find(name)
        if name == OPEN or variable is not None:
            found = "`_`" if variable is None else f"{variable.what} `{name}`"
            checks.report.error(code, place, f"{what} by numbers and sizes, found {found}", fix=fix)


def _bound(checks: UseChecks, op: SizeBoundOp, values: Mapping[str, Size]) -> None:
    """A bound has a size in it, and leaves some number."""
    if not op.size.data.names:
        message = f"`{op.text}` bounds the number {op.size.data}, no size"
        checks.error("OI0290", op, ("size",), message, "size 1 <= L <= 512;")
    parts = (("low", op.low), ("size", op.size), ("high", op.high))
    numbers: dict[str, int] = {}
    for part, size in parts:
        if size is None:
            continue
        fix = "bound the size by numbers and sizes, and check the value in a block"
        _only_sizes(checks, op, part, size.data, "OI0290", "a size is bounded", fix)
        try:
            number = put_in(size.data, values).constant
        except (TooLargeError, ZeroDivisionError) as error:
            _not_put_in(checks, op, part, error)
            continue
        if number is not None:
            numbers[part] = number
    if "high" in numbers and numbers["high"] < max(numbers.get("low", 0), 0):
        message = f"no size is what `{op.text}` says"
        checks.error("OI0290", op, ("high",), message, "the lower limit stands first")


def _not_put_in(checks: UseChecks, op: Operation, part: str, error: Exception) -> None:
    """Why an expression has no form in which the definitions are put in."""
    if isinstance(error, TooLargeError):
        message = "a size expression is too large once the sizes that it names are put in"
        checks.error("OI0121", op, (part,), message, "use a shorter expression")
    else:
        name = f"size `{op.size.data}`" if isinstance(op, SizeOp) else "a bound"
        message = f"{name} divides by zero"
        checks.error("OI0305", op, (part,), message, "divide by something else")


def _no_expression(checks: UseChecks, op: SizeOp, values: dict[str, Size]) -> None:
    """Why a definition without a cycle has no expression."""
    try:
        put_in(op.value.data, values)
    except (TooLargeError, ZeroDivisionError) as error:
        _not_put_in(checks, op, "value", error)
