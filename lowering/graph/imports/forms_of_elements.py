"""The functions of what ops compute element by element: comparisons, logic, choices, arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from openinfer.dialects.ops.base import TensorSpec
from openinfer.lowering.graph.imports.forms import (
    Boolean,
    Choice,
    Form,
    Integer,
    as_choice,
    as_formula,
    select,
    visible,
)
from openinfer.lowering.graph.imports.formulas import (
    TRUE,
    Formula,
    Truth,
    at_least,
    conjunction,
    disjunction,
    equal,
    index,
    negation,
)
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size

_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
_LOGIC = ("and", "or", "xor")
_ARITHMETIC = ("add", "sub", "mul", "div", "floor_div", "neg", "max", "min")
POINTWISE_FORMS = (*_COMPARE, *_LOGIC, *_ARITHMETIC, "not", "cast", "where", "filter")


def pointwise_form(name: str, forms: Sequence[Form], spec: TensorSpec) -> Form | None:
    if name in ("where", "filter"):
        x, y, condition = forms if name == "filter" else (*forms[1:], forms[0])
        return where_form(as_formula(condition), x, y)
    if name == "cast":
        return _cast(forms[0], spec.dtype)
    if name == "not" and isinstance(forms[0], Boolean):
        return Boolean(negation(forms[0].formula))
    if name in _LOGIC and spec.dtype == "bool":
        parts = [form.formula for form in forms if isinstance(form, Boolean)]
        return Boolean(_logic(name, *parts)) if len(parts) == 2 else None
    if name in _COMPARE:
        found = _compare(name, forms[0], forms[1])
        return None if found is None else Boolean(found)
    if spec.dtype == "bool":
        return None
    if all(isinstance(form, Integer) for form in forms):
        sizes = [form.value for form in forms if isinstance(form, Integer)]
        return _integers(name, sizes)
    if name == "div" and not DTYPES[spec.dtype].is_float:
        return None
    return _choices(name, [as_choice(form) for form in forms])


def _integers(name: str, sizes: Sequence[Size]) -> Form | None:
    match name:
        case "add":
            return Integer(sizes[0] + sizes[1])
        case "sub":
            return Integer(sizes[0] - sizes[1])
        case "mul":
            return Integer(sizes[0] * sizes[1])
        case "neg":
            return Integer(-sizes[0])
        case "floor_div" if (sizes[1].constant or 0) > 0:
            return Integer(sizes[0] // sizes[1])
        case _:
            return None


def _logic(name: str, left: Formula, right: Formula) -> Formula:
    if name == "and":
        return conjunction([left, right])
    if name == "or":
        return disjunction([left, right])
    both, none = conjunction([left, right]), conjunction([negation(left), negation(right)])
    return conjunction([negation(both), negation(none)])


def _compare(name: str, left: Form, right: Form) -> Formula | None:
    if isinstance(left, Integer) and isinstance(right, Integer):
        a, b = left.value, right.value
        match name:
            case "eq":
                return equal(a, b)
            case "ne":
                return negation(equal(a, b))
            case "ge":
                return at_least(a, b)
            case "le":
                return at_least(b, a)
            case "gt":
                return at_least(a, b + 1)
            case _:
                return at_least(b, a + 1)
    if isinstance(left, Boolean) and isinstance(right, Boolean) and name in ("eq", "ne"):
        differ = _logic("xor", left.formula, right.formula)
        return differ if name == "ne" else negation(differ)
    a, b = as_choice(left), as_choice(right)
    if a is None or b is None:
        return None
    if a.yes == a.no:
        a, b, name = b, a, {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(name, name)
    if b.yes != b.no:
        return None
    test = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }[name]
    yes, no = Truth(bool(test(a.yes, b.yes))), Truth(bool(test(a.no, b.yes)))
    return select(a.formula, yes, no)


def where_form(condition: Formula | None, x: Form, y: Form) -> Form | None:
    if condition is None:
        return None
    if isinstance(condition, Truth):
        return x if condition.value else y
    if isinstance(x, Boolean) and isinstance(y, Boolean):
        return Boolean(select(condition, x.formula, y.formula))
    if x == y:
        return x
    a, b = as_choice(x), as_choice(y)
    if a is None or b is None or a.yes != a.no:
        # One number of two inside: where(c, where(d, 0, m), m) is 0 where both hold.
        if a is not None and b is not None and b.yes == b.no and b.yes in (a.yes, a.no):
            if b.yes == a.no:
                return Choice(conjunction([condition, a.formula]), a.yes, a.no)
            return Choice(conjunction([condition, negation(a.formula)]), a.no, a.yes)
        return None
    if b.yes != b.no:
        return where_form(negation(condition), y, x)
    return Choice(condition, a.yes, b.yes)


def _cast(form: Form, dtype: str) -> Form | None:
    if DTYPES[dtype].is_float:
        return as_choice(form)
    if dtype == "bool":
        formula = as_formula(form)
        return None if formula is None else Boolean(formula)
    if isinstance(form, Integer):
        return form if dtype in ("i64", "i32") else None
    found = as_choice(form)
    if found is None or any(
        value != int(value) for value in (found.yes, found.no) if abs(value) < 2**53
    ):
        return None
    if not all(abs(value) < 2**31 for value in (found.yes, found.no)):
        return None
    return Integer(Size.of(int(found.yes))) if found.yes == found.no else found


def _choices(name: str, forms: Sequence[Choice | None]) -> Form | None:
    """Arithmetic of numbers that depend on one condition, or hide where one of two does."""
    known = [form for form in forms if form is not None]
    if len(known) != len(forms):
        return None
    if name not in _NUMBERS:
        return None
    varying = [form for form in known if form.yes != form.no]
    conditions = {form.formula for form in varying}
    if len(conditions) <= 1:
        yes = _computed(name, [form.yes for form in known])
        no = _computed(name, [form.no for form in known])
        if np.isnan(yes) or np.isnan(no):
            return None
        return Choice(conditions.pop() if conditions else TRUE, yes, no)
    both = conjunction(conditions)
    shapes = {(form.yes, form.no) for form in varying}
    if name == "mul" and shapes == {(1.0, 0.0)}:
        return Choice(both, 1.0, 0.0)
    seen = [visible(form) for form in varying]
    if name in ("add", "min") and all(one is not None for one in seen):
        parts = [one for one in seen if one is not None]
        return Choice(conjunction(p[0] for p in parts), 0.0, max(p[1] for p in parts))
    return None


_NUMBERS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "max": np.maximum,
    "min": np.minimum,
}


def _computed(name: str, values: Sequence[float]) -> float:
    with np.errstate(all="ignore"):
        return float(_NUMBERS[name](*values))


def triangle_form(name: str, form: Form, diagonal: int, rank: int) -> Form | None:
    row, column = index(rank - 2), index(rank - 1)
    kept = at_least(row + diagonal, column) if name == "tril" else at_least(column, row + diagonal)
    if isinstance(form, Boolean):
        return Boolean(conjunction([form.formula, kept]))
    found = as_choice(form)
    if found is None:
        return None
    return where_form(kept, found, Choice(TRUE, 0.0, 0.0))
