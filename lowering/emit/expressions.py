"""Expressions of GLSL as text, with as few parentheses as their precedences need."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

import numpy as np

ATOM, UNARY = 0, 2
_CONDITIONAL = 15
_PRECEDENCES: Final = {
    **dict.fromkeys(("*", "/", "%"), 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("<<", ">>"), 5),
    **dict.fromkeys(("<", ">", "<=", ">="), 6),
    **dict.fromkeys(("==", "!="), 7),
    **{"&": 8, "^": 9, "|": 10, "&&": 11, "||": 13},
}
"""As in the specification of GLSL, smaller binds tighter."""
_COMPARISONS, _COMPARED = (6, 7), 5
"""Of comparisons, and the loosest that they compare without parentheses."""
_UNCLEAR: Final = frozenset({5, 8, 9, 10})
"""Shifts and bitwise operators: readers do not know their precedence, so their operands have parentheses."""


@dataclass(frozen=True)
class Expression:
    """A piece of text that has a value."""

    text: str
    precedence: int = ATOM
    reads: bool = False
    """Whether it reads memory that another statement may write."""
    rounds: bool = False
    """Whether float arithmetic is in it, which must not be contracted."""
    variables: frozenset[str] = frozenset()
    """The variables in it that a loop or a branch assigns."""
    number: int | None = None
    """The value of an integer constant."""
    non_negative: bool = False

    @property
    def is_atom(self) -> bool:
        """Whether it may be repeated: a name, a number or a component of a vector."""
        return self.precedence == ATOM and not self.reads and "(" not in self.text


def name(text: str, *, non_negative: bool = False) -> Expression:
    """What a name stands for."""
    return Expression(text, non_negative=non_negative)


def number(value: int) -> Expression:
    """An `int`."""
    if value == -(2**31):
        return Expression("int(0x80000000u)", number=value)
    kind = UNARY if value < 0 else ATOM
    return Expression(str(value), kind, number=value, non_negative=value >= 0)


def joined(text: str, precedence: int, parts: Iterable[Expression]) -> Expression:
    """An expression that is made of others."""
    parts = list(parts)
    return Expression(
        text,
        precedence,
        any(part.reads for part in parts),
        any(part.rounds for part in parts),
        frozenset[str]().union(*(part.variables for part in parts)),
    )


def _wrapped(part: Expression, most: int, *, around: int = 0) -> str:
    """The text of an operand, in parentheses where it binds less tightly than `most`."""
    clear = part.precedence <= UNARY or around not in _UNCLEAR
    clear = clear or (part.precedence == around == most)
    return part.text if part.precedence <= most and clear else f"({part.text})"


def binary(operator: str, x: Expression, y: Expression) -> Expression:
    """Two operands; the left one may be of the same precedence."""
    own = _PRECEDENCES[operator]
    # Comparisons of comparisons are legal and unreadable.
    left, right = (_COMPARED, _COMPARED) if own in _COMPARISONS else (own, own - 1)
    left, right = _wrapped(x, left, around=own), _wrapped(y, right, around=own)
    return joined(f"{left} {operator} {right}", own, (x, y))


def chain(operator: str, x: Expression, y: Expression) -> Expression:
    """Two operands of an operator whose order of evaluation does not matter: `a + b + c`."""
    own = _PRECEDENCES[operator]
    left, right = _wrapped(x, own, around=own), _wrapped(y, own, around=own)
    return joined(f"{left} {operator} {right}", own, (x, y))


def unary(operator: str, x: Expression) -> Expression:
    """One operand behind an operator."""
    text = _wrapped(x, ATOM if x.text.startswith(operator) else UNARY)
    return joined(f"{operator}{text}", UNARY, (x,))


def call(function: str, *arguments: Expression) -> Expression:
    """A call, a constructor or a conversion."""
    text = ", ".join(argument.text for argument in arguments)
    return joined(f"{function}({text})", ATOM, arguments)


def conditional(condition: Expression, x: Expression, y: Expression) -> Expression:
    """`condition ? x : y`."""
    first = _wrapped(condition, _CONDITIONAL - 1)
    text = f"{first} ? {_wrapped(x, _CONDITIONAL - 1)} : {y.text}"
    return joined(text, _CONDITIONAL, (condition, x, y))


def component(vector: Expression, lane: int) -> Expression:
    """One component of a vector that has a name."""
    return replace(vector, text=f"{vector.text}.{'xyzw'[lane]}")


def element(array: str, place: Expression) -> Expression:
    """An element of an array that is not written."""
    return joined(f"{array}[{place.text}]", ATOM, (place,))


# Arithmetic of indices, which are `int`: numbers are computed.


def sum_of(*parts: Expression) -> Expression:
    """A sum of integers."""
    return reduce(_plus, parts)


def _plus(x: Expression, y: Expression) -> Expression:
    if x.number is not None and y.number is not None:
        return number(x.number + y.number)
    if x.number == 0 or y.number == 0:
        return y if x.number == 0 else x
    if y.number is not None and y.number < 0:
        return binary("-", x, number(-y.number))
    return replace(chain("+", x, y), non_negative=x.non_negative and y.non_negative)


def product_of(x: Expression, y: Expression) -> Expression:
    """A product of integers."""
    if x.number is not None and y.number is not None:
        return number(x.number * y.number)
    if 0 in (x.number, y.number):
        return number(0)
    if 1 in (x.number, y.number):
        return y if x.number == 1 else x
    # A quotient or remainder inside a product is another one without its parentheses.
    plain = y.precedence != _PRECEDENCES["*"] or set("/%").isdisjoint(y.text)
    found = chain("*", x, y) if plain else binary("*", x, y)
    return replace(found, non_negative=x.non_negative and y.non_negative)


# Numbers.


def float_text(value: float, width: int) -> str:
    """The shortest digits that are this number, as f16, f32 or f64; not for infinities and NaN."""
    kind = {16: np.float16, 32: np.float32, 64: np.float64}[width]
    text = str(kind(value)) if width < 64 else repr(float(value))
    if "." not in text and "e" not in text:
        text += ".0"
    return text + {16: "hf", 32: "", 64: "lf"}[width]


def float_number(value: float, width: int) -> Expression:
    """A float; infinities and NaN have names."""
    if math.isfinite(value):
        negative = math.copysign(1, value) < 0
        return Expression(float_text(value, width), UNARY if negative else ATOM)
    found = Expression("NAN" if math.isnan(value) else "INFINITY")
    if width != 32:
        found = call({16: "float16_t", 64: "double"}[width], found)
    return unary("-", found) if value < 0 else found
