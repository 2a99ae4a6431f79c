"""Bounds of sizes that a program declares: `size 1 <= L <= 512;`.

Those of sizes that are known are checked when the program meets its package, others before each step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xdsl.dialects.builtin import ModuleOp

from openinfer.dialects.graph import SizeBoundOp
from openinfer.lowering.locations import location_of
from openinfer.lowering.program.size_definitions import (
    TooLargeError,
    definitions,
    expressions,
    put_in,
)
from openinfer.runtime.errors import Diagnostic, Location
from openinfer.runtime.size_bounds import SizeBoundRow
from openinfer.runtime.sizes import Size


def size_bounds(module: ModuleOp) -> dict[SizeBoundOp, SizeBoundRow]:
    """The bounds of a program, what it defines as sizes put in. One that is too large, or that divides by
    0, is left out: `check_definitions` reports it."""
    bounds = [op for op in module.body.ops if isinstance(op, SizeBoundOp)]
    values = expressions(definitions(module)) if bounds else {}
    found: dict[SizeBoundOp, SizeBoundRow] = {}
    for op in bounds:
        try:
            size, low, high = (
                "" if part is None else str(put_in(part.data, values))
                for part in (op.size, op.low, op.high)
            )
        except (TooLargeError, ZeroDivisionError):
            continue
        place = location_of(op) or Location("", 0, 0)
        found[op] = SizeBoundRow(
            op.text, str(op.size.data), size, low, high, place.file, place.line, place.column
        )
    return found


def bound_problems(module: ModuleOp, sizes: Mapping[str, int]) -> list[Diagnostic]:
    """The bounds that sizes with a value break."""
    found: list[Diagnostic] = []
    for op, row in size_bounds(module).items():
        try:
            problem = row.violation(sizes)
        except ZeroDivisionError:
            continue  # Reported with its place.
        if problem:
            hint = "give another size or model, or change the bound"
            found.append(Diagnostic("OI0612", problem, location_of(op), hint=hint))
    return found


def least_and_most(
    rows: Iterable[SizeBoundRow], sizes: Mapping[str, int]
) -> dict[str, tuple[int, int | None]]:
    """What is known of sizes that inputs fix: the least and the most that each may be, None without one."""
    found: dict[str, tuple[int, int | None]] = {}
    for row in rows:
        name = Size.of(row.size).single_name
        if name is None or name in sizes:
            continue
        low, high = (
            Size.of(text).substitute(sizes).constant if text else None
            for text in (row.low, row.high)
        )
        least, most = found.get(name, (0, None))
        if high is not None:
            most = high if most is None else min(most, high)
        found[name] = (max(least, low or 0), most)
    return found


def never_negative(size: Size, ranges: Mapping[str, tuple[int, int | None]]) -> bool:
    """Whether a sum of multiples of sizes is 0 or more for all that these may be."""
    least = 0
    for monomial, coefficient in size.terms:
        name = Size(((monomial, 1),)).single_name
        low, high = ranges.get(name, (0, None)) if name is not None else (0, None)
        if not monomial:
            low = high = 1
        elif name is None and not Size(((monomial, 1),)).nonnegative:
            return False
        limit = low if coefficient > 0 else high
        if limit is None:
            return False
        least += coefficient * limit
    return least >= 0
