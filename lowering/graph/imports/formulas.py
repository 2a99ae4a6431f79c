"""Conditions on indices: what an element of a mask says of its place.

An index is a size with a name of its own (`index(0)`), so what is added and multiplied of indices is one
canonical polynomial (`runtime/sizes.py`), and two masks that say the same are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from openinfer.runtime.sizes import Size


def index(axis: int) -> Size:
    """The place along an axis, counted from the front."""
    return Size.name(index_name(axis))


def index_name(axis: int) -> str:
    """No name of a program."""
    return f"?{axis}"


def axes_of(size: Size) -> frozenset[int]:
    """The axes whose places an expression names."""
    return frozenset(int(name[1:]) for name in size.names if name.startswith("?"))


@dataclass(frozen=True)
class Truth:
    """True or false everywhere."""

    value: bool


@dataclass(frozen=True)
class AtLeast:
    """`difference >= 0`."""

    difference: Size


@dataclass(frozen=True)
class Equal:
    """`difference == 0`; of a difference and its negative the one that reads first."""

    difference: Size


@dataclass(frozen=True)
class Holds:
    """An element of a tensor of bools, by its name in a table of elements."""

    element: str


@dataclass(frozen=True)
class Not:
    """The opposite, of `Equal` and `Holds`."""

    part: Formula


@dataclass(frozen=True)
class All:
    """Every one of two or more parts."""

    parts: frozenset[Formula]


@dataclass(frozen=True)
class Any:
    """One of two or more parts, or several."""

    parts: frozenset[Formula]


Formula = Truth | AtLeast | Equal | Holds | Not | All | Any

TRUE, FALSE = Truth(value=True), Truth(value=False)


def at_least(left: Size, right: Size) -> Formula:
    """`left >= right`"""
    difference = left - right
    if difference.constant is not None:
        return Truth(difference.constant >= 0)
    return AtLeast(difference)


def equal(left: Size, right: Size) -> Formula:
    """`left == right`"""
    difference = left - right
    if difference.constant is not None:
        return Truth(difference.constant == 0)
    return Equal(min(difference, -difference, key=lambda one: (len(str(one)), str(one))))


def negation(formula: Formula) -> Formula:
    """not f"""
    match formula:
        case Truth():
            return Truth(not formula.value)
        case AtLeast():
            return at_least(-formula.difference, Size.of(1))
        case Not():
            return formula.part
        case All():
            return disjunction(map(negation, formula.parts))
        case Any():
            return conjunction(map(negation, formula.parts))
        case _:
            return Not(formula)


def conjunction(parts: Iterable[Formula]) -> Formula:
    """f and g …"""
    found: set[Formula] = set()
    for part in parts:
        found |= part.parts if isinstance(part, All) else {part}
    found.discard(TRUE)
    if FALSE in found or any(negation(part) in found for part in found):
        return FALSE
    return All(frozenset(found)) if len(found) > 1 else found.pop() if found else TRUE


def disjunction(parts: Iterable[Formula]) -> Formula:
    """f or g …"""
    found: set[Formula] = set()
    for part in parts:
        found |= part.parts if isinstance(part, Any) else {part}
    found.discard(FALSE)
    if TRUE in found or any(negation(part) in found for part in found):
        return TRUE
    return Any(frozenset(found)) if len(found) > 1 else found.pop() if found else FALSE


def conjuncts(formula: Formula) -> list[Formula]:
    """The parts that all hold, in a fixed order."""
    parts = formula.parts if isinstance(formula, All) else {formula}
    return sorted(parts - {TRUE}, key=repr)


def mapped(
    formula: Formula, size: Callable[[Size], Size], element: Callable[[str], str]
) -> Formula:
    """A formula with other expressions and elements in it."""
    match formula:
        case Truth():
            return formula
        case AtLeast():
            return at_least(size(formula.difference), Size.of(0))
        case Equal():
            return equal(size(formula.difference), Size.of(0))
        case Holds():
            return Holds(element(formula.element))
        case Not():
            return negation(mapped(formula.part, size, element))
        case All():
            return conjunction(mapped(part, size, element) for part in formula.parts)
        case Any():
            return disjunction(mapped(part, size, element) for part in formula.parts)


def decided(formula: Formula, dims: Sequence[Size]) -> Formula:
    """A formula without the parts that hold for all places of a shape, or for none."""
    match formula:
        case AtLeast():
            low, high = bounds(formula.difference, dims)
            if low is not None and low.nonnegative:
                return TRUE
            if high is not None and (-high - 1).nonnegative:
                return FALSE
            return formula
        case Equal():
            low, high = bounds(formula.difference, dims)
            apart = (low is not None and (low - 1).nonnegative) or (
                high is not None and (-high - 1).nonnegative
            )
            return FALSE if apart else formula
        case Not():
            return negation(decided(formula.part, dims))
        case All():
            return conjunction(decided(part, dims) for part in formula.parts)
        case Any():
            return disjunction(decided(part, dims) for part in formula.parts)
        case _:
            return formula


def bounds(size: Size, dims: Sequence[Size]) -> tuple[Size | None, Size | None]:
    """The least and largest value over all places of a shape, None where they are not known."""
    low = high = Size.of(0)
    for monomial, coefficient in size.terms:
        term = Size(((monomial, coefficient),))
        named = axes_of(term)
        if any(name.startswith("@") for name in term.names):
            return None, None
        if not named:
            low, high = low + term, high + term
            continue
        if len(monomial) != 1 or monomial[0][0] != "name":
            return None, None
        (axis,) = named
        if axis >= len(dims):
            return None, None
        most = (dims[axis] - 1) * coefficient
        low, high = (low, high + most) if coefficient > 0 else (low + most, high)
    return low, high
