"""How forms of Python are written here: the fixes of errors that they give."""

from __future__ import annotations

MODULES = (
    *("torch", "nn", "functional", "F", "aten", "math", "ops"),
    *("np", "numpy", "jnp", "jax", "lax", "tf", "keras", "onnx"),
)
"""What stands in front of the dot of an op elsewhere; another name there is a variable."""

_OPERATORS = {
    **{"+": "add", "-": "sub", "*": "mul", "/": "div", "@": "matmul"},
    **{"<": "lt", "<=": "le", ">": "gt", ">=": "ge"},
}
RANGE = (
    "a range is written with two dots: `x[a..b]`, `x[a..]`, `x[..b]`; "
    "an axis as a whole is left empty: `x[, i]`"
)
LIST = "a list is the value of a setting, in brackets: `axes=[0, 1]`"


def operator_advice(sign: str, left: str) -> str | None:
    """What to write where an operator stands behind a value; None where it is no operator."""
    if sign == "if":
        return "the op `where` chooses: `where(condition, x, y)`"
    op = _OPERATORS.get(sign)
    return None if op is None else f"operators are ops here: `{op}({left}, …)`"
