"""How far functions of f32 may be from the exact value: THE table, tested over all of f32.

`docs/numerics.md` shows it (`accuracy_table`), `tests/unit/test_accuracy.py` measures it against
float64 at floats of every exponent, at both ends, around zeros and for arguments without limit.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bound:
    """The error of one function; results that are subnormal may be off by the smallest normal."""

    name: str
    """The op of the language."""
    units: float
    """Units in the last place of the exact result, at most."""
    made: str
    """"polynomial", "polynomials" (a quotient of two), "instruction", or the functions that it is made of."""
    cut: float = 2.0**-126
    """Results below this size may come as 0."""


FUNCTIONS: tuple[Bound, ...] = (
    Bound("exp", 1.2, "polynomial", 2.0**-125.5),
    Bound("expm1", 1.5, "polynomial"),
    Bound("log", 1.0, "polynomial"),
    Bound("log1p", 1.5, "polynomial"),
    Bound("erf", 1.2, "polynomial"),
    Bound("tanh", 2.5, "polynomial"),
    Bound("sin", 0.6, "polynomial"),
    Bound("cos", 0.6, "polynomial"),
    Bound("tan", 2.0, "polynomials"),
    Bound("atan", 1.8, "polynomial"),
    Bound("asin", 3.0, "`atan2`"),
    Bound("acos", 3.0, "`atan2`"),
    Bound("sinh", 4.0, "`expm1`, `exp`"),
    Bound("cosh", 4.0, "`exp`"),
    Bound("asinh", 4.0, "`log1p`"),
    Bound("acosh", 4.0, "`log1p`"),
    Bound("atanh", 4.0, "`log1p`"),
    Bound("sqrt", 0.5, "instruction"),
    Bound("rsqrt", 1.5, "instruction"),
)
"""Functions by themselves."""

PAIRS: tuple[Bound, ...] = (Bound("atan2", 2.0, "polynomial"),)
"""Functions of two numbers."""

COMPOSED = {
    **{"sigmoid": 1.2e-7, "silu": 1.2e-7, "gelu": 1.2e-7, "softplus": 1.2e-7},
    **{"elu": 1.2e-7, "celu": 1.2e-7, "selu": 1.2e-7, "mish": 1.2e-7, "hard_swish": 1.2e-7},
}
"""Functions that are made of others, by their largest error over max(1, |x|)."""


def accuracy_table() -> str:
    """Both tables in Markdown."""
    lines = ["| function of f32 | error, units of the last place | made by |", "|---|---|---|"]
    for bound in (*FUNCTIONS, *PAIRS):
        note = "; 0 below 2^-125.5" if bound.cut > 2.0**-126 else ""
        lines.append(f"| `{bound.name}` | {bound.units:g} | {bound.made}{note} |")
    lines += ["", "| composed function of f32 | error over max(1, abs(x)) |", "|---|---|"]
    lines += [f"| `{name}` | {error:g} |" for name, error in COMPOSED.items()]
    return "\n".join(lines)
