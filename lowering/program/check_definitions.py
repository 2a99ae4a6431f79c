"""Checks of the sizes that a program defines: names, cycles, and what their expressions may name."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from openinfer.dialects.graph import LoopOp, SizeOp
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
    if not defined:
        return
    values = expressions(defined)
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
    if size.constant is not None and size.constant < 0:
        message = f"size `{op.size.data}` is {size}, sizes are never negative"
        checks.error("OI0286", op, ("value",), message, "use 0 or more")
    for name, place in checks.places.names_in(op, ("value",), size):
        if name == UNREADABLE or name in checks.places.unreadable:
            continue
        variable = checks.names.find(name)
        if name == OPEN or variable is not None:
            what = "`_`" if variable is None else f"{variable.what} `{name}`"
            checks.report.error(
                "OI0286",
                place,
                f"a size is defined by numbers and sizes, found {what}",
                fix=f"write the expression where `{op.size.data}` is used",
            )


def _no_expression(checks: UseChecks, op: SizeOp, values: dict[str, Size]) -> None:
    """Why a definition without a cycle has no expression."""
    try:
        put_in(op.value.data, values)
    except ZeroDivisionError:
        message = f"size `{op.size.data}` divides by zero"
        checks.error("OI0305", op, ("value",), message, "divide by something else")
    except TooLargeError:
        message = "a size expression is too large once the sizes that it names are put in"
        checks.error("OI0121", op, ("value",), message, "use a shorter expression")
