"""What an element of an int, bool or mask tensor is, as a function of its place.

Exporters write masks and positions as dozens of ops on ranges, comparisons and broadcasts. Followed back to
sizes, constants and elements of inputs, they are short: `k <= q`, `mask[b, k] != 0`, `k`. Two tensors that
are computed in different ways have the same function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Attribute

from openinfer.dialects.graph import LiteralAttr, OpOp, RefAttr
from openinfer.dialects.ops.base import INTEGERS, NameRef, ShapeError, TensorSpec
from openinfer.dialects.ops.layout import permutation, slice_bounds
from openinfer.lowering.graph.imports.forms import (
    Boolean,
    Choice,
    Form,
    Integer,
    number_form,
)
from openinfer.lowering.graph.imports.forms_of_constants import form_of_content
from openinfer.lowering.graph.imports.forms_of_elements import (
    POINTWISE_FORMS,
    pointwise_form,
    triangle_form,
)
from openinfer.lowering.graph.imports.formulas import (
    TRUE,
    Holds,
    Truth,
    bounds,
    decided,
    index,
    index_name,
    mapped,
)
from openinfer.lowering.graph.imports.uses import Uses, kind, settings_of
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size


@dataclass(frozen=True)
class Element:
    """An element of a tensor that is not followed further."""

    tensor: str
    indices: tuple[Size, ...]


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
            return number_form(operand.number)
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
            return form_of_content(content)
        if op is None or len(op.outputs.data) != 1:
            return None
        name, settings = kind(op), settings_of(op)
        if name in POINTWISE_FORMS:
            forms = [self.stretched(one, spec.dims) for one in op.inputs]
            known = [form for form in forms if form is not None]
            return pointwise_form(name, known, spec) if len(known) == len(forms) else None
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
            return number_form(
                float(value) if wide else bool(value) if spec.dtype == "bool" else value
            )
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
            return triangle_form(name, form, settings["diagonal"], spec.rank)
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
        flat = self._unflattened(op, chosen, source, picked) if axis == 0 else None
        if flat is not None:
            return flat
        # The axes of the indices stand where the axis of the table was.
        moved = self.substitute(
            Integer(chosen), {one: index(one + axis) for one in range(picked.rank)}
        )
        assert isinstance(moved, Integer)
        places = {one: index(one + picked.rank - 1) for one in range(axis + 1, source.rank)}
        return self.substitute(form, {**places, axis: moved.value})

    def _unflattened(
        self, op: OpOp, chosen: Size, source: TensorSpec, picked: TensorSpec
    ) -> Form | None:
        """Of rows of a matrix that is laid out as one axis: row * width + column."""
        merged = self.uses.definition(op.inputs.data[0], "reshape")
        inner = None if merged is None else self.uses.dims(merged.inputs.data[0])
        if merged is None or inner is None or len(inner) != 2:
            return None
        if any(dim.constant != 1 for dim in source.dims[1:]):
            return None
        rows, column = Size.of(0), Size.of(0)
        for term in chosen.terms:
            part = Size((term,))
            quotient = part // inner[1]
            if quotient * inner[1] == part:
                rows = rows + quotient
            else:
                column = column + part
        low, high = bounds(column, picked.dims)
        if low is None or high is None or not low.nonnegative:
            return None
        form = self.of(merged.inputs.data[0])
        if not (inner[1] - 1 - high).nonnegative or form is None:
            return None
        return self.substitute(form, {0: rows, 1: column})

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
