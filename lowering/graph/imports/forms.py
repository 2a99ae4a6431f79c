"""What an element of a tensor may be as a function of its place: an integer, a bool, one of two numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openinfer.lowering.graph.imports.formulas import (
    TRUE,
    Formula,
    Truth,
    conjunction,
    disjunction,
    equal,
    negation,
)
from openinfer.runtime.sizes import Size


@dataclass(frozen=True)
class Integer:
    """An integer: a polynomial over places, sizes and elements."""

    value: Size


@dataclass(frozen=True)
class Boolean:
    """A bool."""

    formula: Formula


@dataclass(frozen=True)
class Choice:
    """One of two numbers, as a mask has them that is added; the same number twice is a constant."""

    formula: Formula
    yes: float
    no: float


Form = Integer | Boolean | Choice

HIDDEN = -1e30
"""Added to a score, a number below this hides the key: no weight of f32 is left of it."""


def visible(form: Form | None) -> tuple[Formula, float] | None:
    """When a mask lets a key be seen, and what it adds where it does not; None for what is no mask."""
    match form:
        case Boolean():
            return form.formula, -np.inf
        case Choice(Truth(True), 0, 0):
            return TRUE, -np.inf
        case Choice(formula, yes, no) if yes == 0 and no <= HIDDEN:
            return formula, no
        case Choice(formula, yes, no) if no == 0 and yes <= HIDDEN:
            return negation(formula), yes
        case _:
            return None


def number_form(value: float | int | bool) -> Form:
    if isinstance(value, bool):
        return Boolean(Truth(value))
    if isinstance(value, int):
        return Integer(Size.of(value))
    return Choice(TRUE, value, value)


def select(condition: Formula, yes: Formula, no: Formula) -> Formula:
    return disjunction([conjunction([condition, yes]), conjunction([negation(condition), no])])


def as_formula(form: Form) -> Formula | None:
    """Whether a value is not 0."""
    match form:
        case Boolean():
            return form.formula
        case Integer():
            return negation(equal(form.value, Size.of(0)))
        case Choice():
            return select(form.formula, Truth(form.yes != 0), Truth(form.no != 0))


def as_choice(form: Form | None) -> Choice | None:
    match form:
        case Choice():
            return form
        case Boolean(Truth(value)):
            return Choice(TRUE, float(value), float(value))
        case Boolean():
            return Choice(form.formula, 1.0, 0.0)
        case Integer() if form.value.constant is not None:
            return Choice(TRUE, float(form.value.constant), float(form.value.constant))
        case _:
            return None
