"""Size expressions: integer arithmetic over named sizes, in one canonical form.

A `Size` is a polynomial with integer coefficients over atoms; an atom is a name, or an opaque
`floordiv`, `max` or `min` of sizes. Two sizes that are equal as polynomials compare equal, so
`2*D + D == 3*D`. Division is floor division, exact where the polynomial divides evenly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from math import gcd
from typing import Union

from openinfer.runtime.quick_dataclass import dataclass

THREADS = "openinfer.threads"
"""The run-time size that counts the threads of a step; no program can name it."""

MAX_SIZE = 1 << 48
"""No tensor in memory has more elements along one axis than this."""
MAX_NUMBER = (1 << 62) - 1
"""No number of an expression that a step evaluates, nor what is computed on the way, is beyond it in
magnitude: sums of two of them fit into a word."""
MAX_ELEMENTS = 1 << 56
"""No tensor in memory has more elements than this; byte counts of more overflow 64 bits."""


def memory_holds(extents: Iterable[int]) -> bool:
    """Whether there may be a tensor of this shape; one without elements must have strides, too."""
    product = 1
    for extent in extents:
        product *= extent or 1
        if extent > MAX_SIZE or product > MAX_ELEMENTS:
            return False
    return True


# An atom: ("name", n) | ("floordiv", a, b) | ("max", a, b, …) | ("min", a, b, …), with Size operands.
Atom = tuple[object, ...]
Monomial = tuple[Atom, ...]
SizeLike = Union["Size", int, str]

_TOKEN = re.compile(r"\s*(?:(\d[\d_]*)|([A-Za-z_][A-Za-z0-9_.]*)|(//|[-+*/(),]))")


@dataclass(frozen=True)
class Size:
    """An integer expression over named sizes; build with `Size.of`, operators and `Size.max`."""

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def of(value: SizeLike) -> Size:
        """A size from an int, a text (`"3*D + 1"`) or a size. Raises ValueError for a bad text."""
        if isinstance(value, Size):
            return value
        if isinstance(value, str):
            return _parse(value)
        return Size((((), value),) if value else ())

    @staticmethod
    def name(name: str) -> Size:
        return _make({(("name", name),): 1})

    @staticmethod
    def max(*values: SizeLike) -> Size:
        return _extreme("max", [Size.of(v) for v in values])

    @staticmethod
    def min(*values: SizeLike) -> Size:
        return _extreme("min", [Size.of(v) for v in values])

    @cached_property
    def _hash(self) -> int:
        return hash(self.terms)

    def __hash__(self) -> int:
        # Sizes lie within sizes, and every set and dict of the planner asks again.
        return self._hash

    @cached_property
    def constant(self) -> int | None:
        """The value when no name occurs, else None."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and self.terms[0][0] == ():
            return self.terms[0][1]
        return None

    @cached_property
    def nonnegative(self) -> bool:
        """Whether it is 0 or more whatever its names are, as far as its form tells."""
        return all(
            coefficient >= 0
            and all(
                operand.nonnegative
                for atom in monomial
                for operand in atom[1:]
                if isinstance(operand, Size)
            )
            for monomial, coefficient in self.terms
        )

    @cached_property
    def names(self) -> frozenset[str]:
        """All names that occur."""
        found: set[str] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                if atom[0] == "name":
                    found.add(str(atom[1]))
                else:
                    for operand in atom[1:]:
                        assert isinstance(operand, Size)
                        found |= operand.names
        return frozenset(found)

    @property
    def single_name(self) -> str | None:
        """The name when the expression is exactly one name, else None."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            atom = self.terms[0][0][0]
            if atom[0] == "name":
                return str(atom[1])
        return None

    def substitute(self, values: Mapping[str, SizeLike]) -> Size:
        """The same expression with some names replaced."""
        # Most dimensions are one name or hold none of them, and every pass asks.
        if self.names.isdisjoint(values):
            return self
        if (name := self.single_name) is not None:
            return Size.of(values[name])
        total = Size.of(0)
        for monomial, coefficient in self.terms:
            product = Size.of(coefficient)
            for atom in monomial:
                product = product * _substitute_atom(atom, values)
            total = total + product
        return total

    def is_multiple_of(self, unit: int) -> bool:
        """Whether every value is known to be a multiple of `unit`, 1 or more."""
        return all(
            coefficient % unit == 0
            or any(_is_multiple(atom, unit // gcd(coefficient, unit)) for atom in monomial)
            for monomial, coefficient in self.terms
        )

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The integer value. Raises KeyError for an unknown name, ZeroDivisionError."""
        total = 0
        for monomial, coefficient in self.terms:
            product = coefficient
            for atom in monomial:
                product *= _evaluate_atom(atom, values)
            total += product
        return total

    def largest(self, name: int) -> int:
        """A bound of the magnitude, and of what is computed on the way, if no name is above `name`."""
        total = 0
        for monomial, coefficient in self.terms:
            product = abs(coefficient)
            for atom in monomial:
                operands = [operand for operand in atom[1:] if isinstance(operand, Size)]
                product *= max([operand.largest(name) for operand in operands], default=name)
            total += product
        return total

    def evaluate_within(self, values: Mapping[str, int], limit: int) -> int:
        """The integer value, each number on the way to it checked, in the order of `evaluate`.

        Raises OverflowError for one whose magnitude is above the limit, and what `evaluate` raises.
        """
        total: int | None = None
        for monomial, coefficient in self.terms:
            product: int | None = None
            for atom in monomial:
                factor = _atom_within(atom, values, limit)
                product = factor if product is None else _within(product * factor, limit)
            if product is None:
                product = _within(coefficient, limit)
            elif coefficient != 1:
                product = _within(product * _within(coefficient, limit), limit)
            total = product if total is None else _within(total + product, limit)
        return total or 0

    def __add__(self, other: SizeLike) -> Size:
        terms = dict(self.terms)
        for monomial, coefficient in Size.of(other).terms:
            terms[monomial] = terms.get(monomial, 0) + coefficient
        return _make(terms)

    def __radd__(self, other: SizeLike) -> Size:
        return self + other

    def __neg__(self) -> Size:
        return _make({m: -c for m, c in self.terms})

    def __sub__(self, other: SizeLike) -> Size:
        return self + (-Size.of(other))

    def __rsub__(self, other: SizeLike) -> Size:
        return Size.of(other) - self

    def __mul__(self, other: SizeLike) -> Size:
        terms: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in Size.of(other).terms:
                monomial = tuple(sorted(left + right, key=_atom_key))
                terms[monomial] = terms.get(monomial, 0) + a * b
        return _make(terms)

    def __rmul__(self, other: SizeLike) -> Size:
        return self * other

    def __floordiv__(self, other: SizeLike) -> Size:
        divisor = Size.of(other)
        if divisor.constant == 0:
            raise ZeroDivisionError("size expression divides by zero")
        if self.constant is not None and divisor.constant is not None:
            return Size.of(self.constant // divisor.constant)
        if divisor.constant == 1:
            return self
        exact = _exact_quotient(self, divisor)
        if exact is not None:
            return exact
        if divisor.constant is not None and divisor.constant > 0:
            return _reduced_quotient(self, divisor.constant)
        return _make({(("floordiv", self, divisor),): 1})

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        """Also what terms are ordered by, so it is asked for again and again."""
        if not self.terms:
            return "0"
        text = ""
        for monomial, coefficient in self.terms:
            sign = "-" if coefficient < 0 else "+"
            alone = len(monomial) == 1 and (coefficient == 1 or (coefficient == -1 and text != ""))
            factors = [_atom_text(atom, alone=alone) for atom in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            body = "*".join(factors)
            text = (f"-{body}" if sign == "-" else body) if not text else f"{text} {sign} {body}"
        return text


def equal_if_exact(left: Size, right: Size) -> bool:
    """Whether two sizes are equal if every division in them comes out even: `heads*(D/heads)` is `D` then."""
    difference = left - right
    while (quotient := _some_quotient(difference)) is not None:
        if len(difference.terms) > _MAX_TERMS:
            return False
        _, numerator, denominator = quotient
        assert isinstance(numerator, Size)
        assert isinstance(denominator, Size)
        most = max(monomial.count(quotient) for monomial, _ in difference.terms)
        total = Size.of(0)
        for monomial, coefficient in difference.terms:
            power = monomial.count(quotient)
            term = _make({tuple(atom for atom in monomial if atom != quotient): coefficient})
            for factor in (*(numerator,) * power, *(denominator,) * (most - power)):
                term = term * factor
                if len(term.terms) > _MAX_TERMS:
                    return False
            total = total + term
        difference = total
    return not difference.terms


_MAX_TERMS = 256
"""A difference with more terms than this is not followed further."""


def _some_quotient(size: Size) -> Atom | None:
    """A division that is a factor of a term, if there is one."""
    atoms = (atom for monomial, _ in size.terms for atom in monomial)
    return next((atom for atom in atoms if atom[0] == "floordiv"), None)


def _atom_key(atom: Atom) -> tuple[str, str]:
    return (str(atom[0]), " ".join(str(x) for x in atom[1:]))


def _atom_text(atom: Atom, *, alone: bool) -> str:
    """As the language writes it; a quotient that does not stand `alone` needs parentheses."""
    if atom[0] == "name":
        return str(atom[1])
    if atom[0] == "floordiv":
        left, right = (t if _is_simple(t) else f"({t})" for t in map(str, atom[1:]))
        return f"{left}/{right}" if alone else f"({left}/{right})"
    return f"{atom[0]}({', '.join(str(x) for x in atom[1:])})"


def _is_simple(text: str) -> bool:
    """Whether a text is one name or one number."""
    return text.replace("_", "a").replace(".", "a").isalnum()


def _make(terms: Mapping[Monomial, int]) -> Size:
    # Highest degree first, constants last: how a person writes it.
    kept = [(m, c) for m, c in terms.items() if c]
    kept.sort(key=lambda t: (-len(t[0]), [_atom_key(a) for a in t[0]]))
    return Size(tuple(kept))


def _is_multiple(atom: Atom, unit: int) -> bool:
    """Whether an atom is the largest or smallest of some multiples."""
    operands = [operand for operand in atom[1:] if isinstance(operand, Size)]
    return atom[0] in ("max", "min") and all(part.is_multiple_of(unit) for part in operands)


def _substitute_atom(atom: Atom, values: Mapping[str, SizeLike]) -> Size:
    if atom[0] == "name":
        name = str(atom[1])
        return Size.of(values[name]) if name in values else Size.name(name)
    operands = [operand.substitute(values) for operand in atom[1:] if isinstance(operand, Size)]
    if atom[0] == "floordiv":
        return operands[0] // operands[1]
    return _extreme(str(atom[0]), operands)


def _evaluate_atom(atom: Atom, values: Mapping[str, int]) -> int:
    if atom[0] == "name":
        return values[str(atom[1])]
    operands = [operand.evaluate(values) for operand in atom[1:] if isinstance(operand, Size)]
    if atom[0] == "floordiv":
        return operands[0] // operands[1]
    return max(operands) if atom[0] == "max" else min(operands)


def _atom_within(atom: Atom, values: Mapping[str, int], limit: int) -> int:
    if atom[0] == "name":
        return _within(values[str(atom[1])], limit)
    operands = [
        operand.evaluate_within(values, limit) for operand in atom[1:] if isinstance(operand, Size)
    ]
    if atom[0] == "floordiv":
        return operands[0] // operands[1]
    return max(operands) if atom[0] == "max" else min(operands)


def _within(value: int, limit: int) -> int:
    if abs(value) > limit:
        raise OverflowError(str(value))
    return value


def _extreme(kind: str, values: list[Size]) -> Size:
    constants = [v.constant for v in values if v.constant is not None]
    others = sorted({v for v in values if v.constant is None}, key=str)
    if constants:
        bound = max(constants) if kind == "max" else min(constants)
        if not others:
            return Size.of(bound)
        others = [*others, Size.of(bound)]
    if len(others) == 1:
        return others[0]
    return _make({((kind, *others),): 1})


def _exact_quotient(size: Size, divisor: Size) -> Size | None:
    """`size / divisor` when the divisor is one monomial that divides every term, else None."""
    if len(divisor.terms) != 1:
        return None
    (monomial, coefficient) = divisor.terms[0]
    result: dict[Monomial, int] = {}
    for term, c in size.terms:
        rest = list(term)
        for atom in monomial:
            if atom not in rest:
                return None
            rest.remove(atom)
        if c % coefficient:
            return None
        result[tuple(rest)] = c // coefficient
    return _make(result)


def _reduced_quotient(size: Size, divisor: int) -> Size:
    """`size // divisor` with every coefficient below the divisor: `(N - 1) // 2` is
    `(N + 1) // 2 - 1`, whichever way it was written."""
    whole = _make({monomial: c // divisor for monomial, c in size.terms})
    rest = _make({monomial: c % divisor for monomial, c in size.terms})
    if rest.constant is not None:
        return whole + rest.constant // divisor
    return whole + _make({(("floordiv", rest, Size.of(divisor)),): 1})


def _parse(text: str) -> Size:
    tokens: list[str] = []
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"bad size expression {text!r} at column {position + 1}")
        tokens.append(
            match.group(match.lastindex or 0).replace("_", "")
            if match.group(1)
            else match.group(match.lastindex or 0)
        )
        position = match.end()
    cursor = 0

    def peek() -> str:
        return tokens[cursor] if cursor < len(tokens) else ""

    def take(expected: str | None = None) -> str:
        nonlocal cursor
        token = peek()
        if not token or (expected is not None and token != expected):
            raise ValueError(f"bad size expression {text!r}: expected {expected or 'a value'}")
        cursor += 1
        return token

    def total() -> Size:
        value = product()
        while peek() in ("+", "-"):
            value = value + product() if take() == "+" else value - product()
        return value

    def product() -> Size:
        value = factor()
        while peek() in ("*", "/", "//"):
            value = value * factor() if take() == "*" else value // factor()
        return value

    def factor() -> Size:
        token = take()
        if token == "-":
            return -factor()
        if token == "(":
            value = total()
            take(")")
            return value
        if token in ("max", "min", "floordiv") and peek() == "(":
            take("(")
            operands = [total()]
            while peek() == ",":
                take(",")
                operands.append(total())
            take(")")
            if token == "floordiv":
                if len(operands) != 2:
                    raise ValueError(f"bad size expression {text!r}: floordiv takes two operands")
                return operands[0] // operands[1]
            return _extreme(token, operands)
        if token[0].isdigit():
            return Size.of(int(token))
        if token[0].isalpha() or token[0] == "_":
            return Size.name(token)
        raise ValueError(f"bad size expression {text!r}: unexpected {token!r}")

    value = total()
    if cursor != len(tokens):
        raise ValueError(f"bad size expression {text!r}: unexpected {peek()!r}")
    return value
