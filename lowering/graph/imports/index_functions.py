"""What an element of an int, bool or mask tensor is, as a function of its place.

Exporters write masks and positions as dozens of ops on ranges, comparisons and broadcasts. Followed back to
sizes, constants and elements of inputs, they are short: `k <= q`, `mask[b, k] != 0`, `k`. Two tensors that
are computed in different ways have the same function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import Attribute

from openinfer.dialects.graph import LiteralAttr, OpOp, RefAttr
from openinfer.dialects.ops.base import INTEGERS, NameRef, ShapeError, TensorSpec
from openinfer.dialects.ops.layout import permutation, slice_bounds
from openinfer.lowering.graph.imports.formulas import (
    TRUE,
    Formula,
    Holds,
    Truth,
    at_least,
    conjunction,
    decided,
    disjunction,
    equal,
    index,
    index_name,
    mapped,
    negation,
)
from openinfer.lowering.graph.imports.uses import Array, Uses, kind, settings_of
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size


@dataclass(frozen=True)
class Element:
    """An element of a tensor that is not followed further."""

    tensor: str
    indices: tuple[Size, ...]


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
_LIMIT = 64
"""Terms and conditions of a function that is followed further."""


@dataclass(eq=False)
class IndexFunctions:
    """Functions of the tensors of a module, each found once."""

    uses: Uses
    elements: dict[str, Element] = field(default_factory=dict[str, Element])
    _names: dict[Element, str] = field(default_factory=dict[Element, str])
    _found: dict[tuple[str, int], Form | None] = field(
        default_factory=dict[tuple[str, int], Form | None]
    )

    def of(self, operand: Attribute) -> Form | None:
        """The function of an operand; None for floats that are more than two numbers."""
        if isinstance(operand, LiteralAttr):
            return _number(operand.number)
        spec = self.uses.spec(operand)
        if not isinstance(operand, RefAttr) or spec is None or not self.uses.stable(operand):
            return None
        # A temporary with another definition is another function.
        definition = self.uses.definition(operand)
        key = operand.text, id(definition)
        if key not in self._found:
            self._found[key] = None
            found = self._follow(operand, definition, spec)
            if found is None or _too_long(found):
                found = self._opaque(operand, spec)
            self._found[key] = _decided(found, spec.dims)
        return self._found[key]

    def integer(self, operand: Attribute) -> Size | None:
        """The function of a tensor of integers."""
        found = self.of(operand)
        return found.value if isinstance(found, Integer) else None

    def element(self, tensor: str, indices: Sequence[Size]) -> str:
        """The name that stands for an element in expressions."""
        found = Element(tensor, tuple(indices))
        if found not in self._names:
            name = f"@{len(self._names)}"
            self._names[found] = name
            self.elements[name] = found
        return self._names[found]

    # Places

    def substitute(self, form: Form, places: Mapping[int, Size]) -> Form:
        """The function with other places: `?axis` becomes what `places` says."""
        if not places:
            return form
        values = {index_name(axis): size for axis, size in places.items()}

        def element(name: str) -> str:
            old = self.elements[name]
            return self.element(old.tensor, [size(one) for one in old.indices])

        def size(old: Size) -> Size:
            named = [name for name in old.names if name.startswith("@")]
            moved = {name: Size.name(element(name)) for name in named}
            return old.substitute({**values, **moved})

        match form:
            case Integer():
                return Integer(size(form.value))
            case Boolean():
                return Boolean(mapped(form.formula, size, element))
            case Choice():
                return Choice(mapped(form.formula, size, element), form.yes, form.no)

    def stretched(self, operand: Attribute, dims: Sequence[Size]) -> Form | None:
        """The function of an operand that is stretched to a shape."""
        form, own = self.of(operand), self.uses.dims(operand) or ()
        if form is None or len(own) > len(dims):
            return None
        lead = len(dims) - len(own)
        places = {
            axis: Size.of(0) if dim.constant == 1 else index(axis + lead)
            for axis, dim in enumerate(own)
        }
        return self.substitute(form, places)

    # Ops

    def _opaque(self, operand: RefAttr, spec: TensorSpec) -> Form | None:
        if operand.indices.data:
            return None
        name = self.element(operand.variable.data, [index(axis) for axis in range(spec.rank)])
        if spec.dtype == "bool":
            return Boolean(Holds(name))
        return Integer(Size.name(name)) if spec.dtype in INTEGERS else None

    def _follow(self, operand: RefAttr, op: OpOp | None, spec: TensorSpec) -> Form | None:
        content = self.uses.content(operand)
        if content is not None:
            return _of_content(content)
        if op is None or len(op.outputs.data) != 1:
            return None
        name, settings = kind(op), settings_of(op)
        if name in _POINTWISE:
            forms = [self.stretched(one, spec.dims) for one in op.inputs]
            known = [form for form in forms if form is not None]
            return _pointwise(name, known, spec) if len(known) == len(forms) else None
        if name == "iota":
            axis = settings["axis"] % spec.rank if spec.rank else 0
            start, step = settings["start"], settings["step"]
            if isinstance(start, NameRef):
                start = Size.name(start.name)
            if spec.dtype not in INTEGERS:
                return None
            return Integer(start + step * index(axis) if spec.rank else Size.of(start))
        if name in ("fill", "fill_nan_like"):
            value = settings["value"]
            wide = DTYPES[spec.dtype].is_float
            return _number(float(value) if wide else bool(value) if spec.dtype == "bool" else value)
        if name == "gather":
            return self._gather(op, settings)
        if name == "gather_elements":
            return self._pick(op, settings, spec)
        if name == "concat":
            return self._concat(op, settings, spec)
        form, source = self.of(op.inputs.data[0]), self.uses.spec(op.inputs.data[0])
        if form is None or source is None:
            return None
        if name == "expand":
            return self.stretched(op.inputs.data[0], spec.dims)
        if name in ("reshape", "unsqueeze", "squeeze"):
            return self._reshape(form, source.dims, spec.dims)
        if name in ("transpose", "permute"):
            order = permutation(source.rank, settings)
            return self.substitute(form, {old: index(new) for new, old in enumerate(order)})
        if name == "slice":
            try:
                cuts = slice_bounds(source, settings)
            except ShapeError:
                return None
            places = {
                axis: low + step * index(axis)
                for axis, (low, _, step) in enumerate(cuts)
                if low.constant != 0 or step != 1
            }
            return self.substitute(form, places)
        if name in ("tril", "triu") and spec.rank > 1:
            return _triangle(name, form, settings["diagonal"], spec.rank)
        if name == "cumsum" and isinstance(form, Integer) and not settings["reverse"]:
            axis = settings["axis"] % spec.rank
            if any(name.startswith(("@", "?")) for name in form.value.names):
                return None
            return Integer(form.value * (index(axis) + (0 if settings["exclusive"] else 1)))
        return None

    def _reshape(self, form: Form, before: Sequence[Size], after: Sequence[Size]) -> Form | None:
        """Of a reshape that adds and drops axes of one element."""
        old = [axis for axis, dim in enumerate(before) if dim.constant != 1]
        new = [axis for axis, dim in enumerate(after) if dim.constant != 1]
        if [before[axis] for axis in old] != [after[axis] for axis in new]:
            return form if not _places(self, form) else None
        places = {axis: Size.of(0) for axis in range(len(before))}
        places.update({a: index(b) for a, b in zip(old, new)})
        return self.substitute(form, places)

    def _gather(self, op: OpOp, settings: Mapping[str, object]) -> Form | None:
        table, indices = op.inputs.data
        form, chosen = self.of(table), self.integer(indices)
        source, picked = self.uses.spec(table), self.uses.spec(indices)
        if form is None or chosen is None or source is None or picked is None:
            return None
        if chosen.constant is not None and chosen.constant < 0:
            return None
        axis = int(str(settings["axis"])) % source.rank
        # The axes of the indices stand where the axis of the table was.
        moved = self.substitute(
            Integer(chosen), {one: index(one + axis) for one in range(picked.rank)}
        )
        assert isinstance(moved, Integer)
        places = {one: index(one + picked.rank - 1) for one in range(axis + 1, source.rank)}
        return self.substitute(form, {**places, axis: moved.value})

    def _pick(self, op: OpOp, settings: Mapping[str, object], spec: TensorSpec) -> Form | None:
        """x at the place, but along one axis at the index."""
        form, chosen = self.of(op.inputs.data[0]), self.integer(op.inputs.data[1])
        if form is None or chosen is None or (chosen.constant or 0) < 0:
            return None
        return self.substitute(form, {int(str(settings["axis"])) % spec.rank: chosen})

    def _concat(self, op: OpOp, settings: Mapping[str, object], spec: TensorSpec) -> Form | None:
        """Of two parts, the first with one element, that go on in one line."""
        if len(op.inputs.data) != 2:
            return None
        axis = int(str(settings["axis"])) % spec.rank
        first, second = (self.of(part) for part in op.inputs)
        dims = self.uses.dims(op.inputs.data[0])
        count = None if dims is None else dims[axis].constant
        if first is None or second is None or count is None or count > _LIMIT:
            return None
        whole = self.substitute(second, {axis: index(axis) - count})
        for place in range(count):
            at = {axis: Size.of(place)}
            if self.substitute(whole, at) != self.substitute(first, at):
                return None
        return whole


def visible(form: Form | None) -> tuple[Formula, float] | None:
    """When a mask lets a key be seen, and what it adds where it does not; None for what is no mask."""
    match form:
        case Boolean():
            return form.formula, -np.inf
        case Choice(formula, yes, no) if yes == 0 and no <= HIDDEN:
            return formula, no
        case Choice(formula, yes, no) if no == 0 and yes <= HIDDEN:
            return negation(formula), yes
        case _:
            return None


# Numbers ------------------------------------------------------------------------------------------


def _number(value: float | int | bool) -> Form:
    if isinstance(value, bool):
        return Boolean(Truth(value))
    if isinstance(value, int):
        return Integer(Size.of(value))
    return Choice(TRUE, value, value)


def _of_content(array: Array) -> Form | None:
    """Of the elements of a constant: a line, a triangle, or one number."""
    if array.dtype.kind not in "biuf" or array.size == 0:
        return None
    first = array.reshape(-1)[0]
    if bool((array == first).all()):
        return _number(first.item())
    if array.dtype.kind in "iu":
        return _line(array)
    if array.dtype.kind == "b":
        found = _triangle_of(array)
        return None if found is None else Boolean(found)
    values = np.unique(array)
    if len(values) != 2 or 0 not in values:
        return None
    found = _triangle_of(array == 0)
    other = float(values[0] if values[1] == 0 else values[1])
    return None if found is None else Choice(found, 0.0, other)


def _line(array: Array) -> Form | None:
    """start + step * place along each axis, verified for every element."""
    total = Size.of(int(array[(0,) * array.ndim]))
    expected = np.full(array.shape, array[(0,) * array.ndim], np.int64)
    for axis, extent in enumerate(array.shape):
        if extent < 2:
            continue
        second = tuple(int(a == axis) for a in range(array.ndim))
        step = int(array[second]) - int(array[(0,) * array.ndim])
        total = total + step * index(axis)
        shape = [extent if a == axis else 1 for a in range(array.ndim)]
        expected = expected + step * np.arange(extent).reshape(shape)
    return Integer(total) if bool((expected == array).all()) else None


def _triangle_of(array: Array) -> Formula | None:
    """column <= row + c, or the opposite, the same in all matrices."""
    if array.ndim < 2:
        return None
    rows, columns = array.shape[-2:]
    matrices = array.reshape(-1, rows, columns)
    seen = matrices[0]
    if not bool((matrices == seen).all()):
        return None
    row, column = index(array.ndim - 2), index(array.ndim - 1)
    distance = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    for lower in (True, False):
        wanted = seen if lower else ~seen
        edge = int(distance[wanted].max()) if wanted.any() else None
        if edge is not None and bool((wanted == (distance <= edge)).all()):
            found = at_least(row + edge, column)
            return found if lower else negation(found)
    return None


# Pointwise ----------------------------------------------------------------------------------------

_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
_LOGIC = ("and", "or", "xor")
_ARITHMETIC = ("add", "sub", "mul", "div", "floor_div", "neg", "max", "min")
_POINTWISE = (*_COMPARE, *_LOGIC, *_ARITHMETIC, "not", "cast", "where", "filter")


def _pointwise(name: str, forms: Sequence[Form], spec: TensorSpec) -> Form | None:
    if name in ("where", "filter"):
        x, y, condition = forms if name == "filter" else (*forms[1:], forms[0])
        return _where(_as_formula(condition), x, y)
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
    return _choices(name, [_as_choice(form) for form in forms])


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
    a, b = _as_choice(left), _as_choice(right)
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
    return _select(a.formula, yes, no)


def _select(condition: Formula, yes: Formula, no: Formula) -> Formula:
    return disjunction([conjunction([condition, yes]), conjunction([negation(condition), no])])


def _where(condition: Formula | None, x: Form, y: Form) -> Form | None:
    if condition is None:
        return None
    if isinstance(condition, Truth):
        return x if condition.value else y
    if isinstance(x, Boolean) and isinstance(y, Boolean):
        return Boolean(_select(condition, x.formula, y.formula))
    if x == y:
        return x
    a, b = _as_choice(x), _as_choice(y)
    if a is None or b is None or a.yes != a.no:
        # One number of two inside: where(c, where(d, 0, m), m) is 0 where both hold.
        if a is not None and b is not None and b.yes == b.no and b.yes in (a.yes, a.no):
            if b.yes == a.no:
                return Choice(conjunction([condition, a.formula]), a.yes, a.no)
            return Choice(conjunction([condition, negation(a.formula)]), a.no, a.yes)
        return None
    if b.yes != b.no:
        return _where(negation(condition), y, x)
    return Choice(condition, a.yes, b.yes)


def _cast(form: Form, dtype: str) -> Form | None:
    if DTYPES[dtype].is_float:
        return _as_choice(form)
    if dtype == "bool":
        formula = _as_formula(form)
        return None if formula is None else Boolean(formula)
    if isinstance(form, Integer):
        return form if dtype in ("i64", "i32") else None
    found = _as_choice(form)
    if found is None or any(
        value != int(value) for value in (found.yes, found.no) if abs(value) < 2**53
    ):
        return None
    if not all(abs(value) < 2**31 for value in (found.yes, found.no)):
        return None
    return Integer(Size.of(int(found.yes))) if found.yes == found.no else found


def _as_formula(form: Form) -> Formula | None:
    """Whether a value is not 0."""
    match form:
        case Boolean():
            return form.formula
        case Integer():
            return negation(equal(form.value, Size.of(0)))
        case Choice():
            return _select(form.formula, Truth(form.yes != 0), Truth(form.no != 0))


def _as_choice(form: Form | None) -> Choice | None:
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


def _triangle(name: str, form: Form, diagonal: int, rank: int) -> Form | None:
    row, column = index(rank - 2), index(rank - 1)
    kept = at_least(row + diagonal, column) if name == "tril" else at_least(column, row + diagonal)
    if isinstance(form, Boolean):
        return Boolean(conjunction([form.formula, kept]))
    found = _as_choice(form)
    if found is None:
        return None
    return _where(kept, found, Choice(TRUE, 0.0, 0.0))


def _decided(form: Form | None, dims: Sequence[Size]) -> Form | None:
    match form:
        case Boolean():
            return Boolean(decided(form.formula, dims))
        case Choice():
            formula = decided(form.formula, dims)
            if isinstance(formula, Truth):
                value = form.yes if formula.value else form.no
                return Choice(TRUE, value, value)
            return Choice(formula, form.yes, form.no)
        case _:
            return form


def _places(functions: IndexFunctions, form: Form) -> bool:
    """Whether a function depends on the place."""
    marks = {index_name(axis): Size.of(0) for axis in range(32)}
    return functions.substitute(form, {int(name[1:]): size for name, size in marks.items()}) != form


def _too_long(form: Form) -> bool:
    if isinstance(form, Integer):
        return len(form.value.terms) > _LIMIT
    return len(repr(form.formula)) > 200 * _LIMIT
