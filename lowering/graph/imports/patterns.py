"""Parts of patterns that several recognisers share: products and polynomials, however they are grouped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isclose

import numpy as np

from openinfer.dialects.graph import LiteralAttr, Operand, OpOp
from openinfer.lowering.graph.imports.uses import Uses, kind, settings_of

TOLERANCE = 1e-6
"""Of a number that a file holds in f32, or that was computed in it."""


def near(found: float | None, wanted: float, tolerance: float = TOLERANCE) -> bool:
    """Whether a number is another one, up to rounding to f32."""
    return found is not None and isclose(found, wanted, rel_tol=tolerance, abs_tol=1e-12)


def shortest(number: float) -> float:
    """The number with the fewest digits that rounds to the same f32: 1e-05 for 9.999999747378752e-06."""
    return float(np.format_float_scientific(np.float32(number), unique=True))


def either(op: OpOp) -> Iterator[tuple[Operand, Operand]]:
    """The two operands of an op in both orders."""
    first, second = op.inputs.data
    yield first, second
    yield second, first


def number_of(uses: Uses, operand: Operand) -> float | None:
    """The number that an operand is, bools left out."""
    found = uses.number(operand)
    return None if found is None or isinstance(found, bool) else float(found)


def with_number(uses: Uses, operand: Operand, *names: str) -> tuple[Operand, float] | None:
    """(x, number) of `op(x, number)`, in either order where the op allows it."""
    op = uses.definition(operand, *names)
    if op is None or len(op.inputs.data) != 2:
        return None
    pairs = (
        list(either(op)) if kind(op) in ("add", "mul", "max", "min") else [tuple(op.inputs.data)]
    )
    for x, other in pairs:
        number = number_of(uses, other)
        if number is not None and not isinstance(x, LiteralAttr):
            return x, number
    return None


def scaled(uses: Uses, operand: Operand) -> tuple[Operand, float]:
    """(x, c) of an operand that is x * c; itself and 1 for another one."""
    factor = 1.0
    for _ in range(4):
        if (found := with_number(uses, operand, "mul")) is not None:
            operand, factor = found[0], factor * found[1]
        elif (found := with_number(uses, operand, "div")) is not None and found[1] != 0:
            operand, factor = found[0], factor / found[1]
        else:
            break
    return operand, factor


def product(
    uses: Uses, operand: Operand, leaves: Sequence[Operand], depth: int = 6
) -> tuple[float, list[Operand]] | None:
    """(c, factors) of an operand that is c times leaves, however it is grouped; None for another one."""
    if operand in leaves:
        return 1.0, [operand]
    number = number_of(uses, operand)
    if number is not None:
        return number, []
    op = uses.definition(operand, "mul", "div", "pow")
    if op is None or depth == 0:
        return None
    a, b = op.inputs.data
    left = product(uses, a, leaves, depth - 1)
    if left is None:
        return None
    if kind(op) == "pow":
        exponent = number_of(uses, b)
        if exponent not in (2.0, 3.0):
            return None
        return left[0] ** int(exponent), left[1] * int(exponent)
    right = product(uses, b, leaves, depth - 1)
    if right is None:
        return None
    if kind(op) == "div":
        return None if right[1] or right[0] == 0 else (left[0] / right[0], left[1])
    return left[0] * right[0], left[1] + right[1]


def is_product(uses: Uses, operand: Operand, factors: Sequence[Operand], number: float) -> bool:
    """Whether an operand is the product of these and a number."""
    found = product(uses, operand, factors)
    if found is None or not near(found[0], number, 1e-5):
        return False
    return sorted(map(str, found[1])) == sorted(map(str, factors))


def polynomial(uses: Uses, operand: Operand, x: Operand, depth: int = 8) -> list[float] | None:
    """Coefficients from degree 0 on of an operand that is a polynomial in x, of degree 3 or less."""
    if operand == x:
        return [0.0, 1.0]
    number = number_of(uses, operand)
    if number is not None:
        return [number]
    op = uses.definition(operand, "add", "sub", "mul", "div", "pow", "neg")
    if op is None or depth == 0:
        return None
    parts = [polynomial(uses, part, x, depth - 1) for part in op.inputs]
    known = [np.array(part) for part in parts if part is not None]
    if len(known) != len(parts):
        return None
    match kind(op):
        case "add":
            found = np.polynomial.polynomial.polyadd(known[0], known[1])
        case "sub":
            found = np.polynomial.polynomial.polysub(known[0], known[1])
        case "mul":
            found = np.polynomial.polynomial.polymul(known[0], known[1])
        case "neg":
            found = -known[0]
        case "div":
            if len(known[1]) != 1 or known[1][0] == 0:
                return None
            found = known[0] / known[1][0]
        case _:
            if len(known[1]) != 1 or known[1][0] not in (2.0, 3.0):
                return None
            found = np.polynomial.polynomial.polypow(known[0], int(known[1][0]))
    return [float(c) for c in found] if len(found) <= 4 else None


def last_axes(uses: Uses, op: OpOp, *, keepdims: bool = True) -> int | None:
    """The first axis of a reduction over all axes from one on, counted from the end: -1 for the last."""
    dims, settings = uses.dims(op.inputs.data[0]), settings_of(op)
    if dims is None or bool(settings.get("keepdims")) != keepdims:
        return None
    axes = sorted({int(axis) % len(dims) for axis in settings.get("axes", ())})
    if not axes or axes != list(range(axes[0], len(dims))):
        return None
    return axes[0] - len(dims)
