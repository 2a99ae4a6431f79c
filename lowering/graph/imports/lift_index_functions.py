"""Masks, positions and rows of tables in the shortest way to say them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from openinfer.dialects.graph import Operand, OpOp, RefAttr
from openinfer.dialects.ops.base import FLOATS
from openinfer.lowering.graph.imports.canonicalize_graph import canonicalize
from openinfer.lowering.graph.imports.editing import Editor, literal
from openinfer.lowering.graph.imports.forms import Boolean, Choice, visible
from openinfer.lowering.graph.imports.formulas import (
    TRUE,
    All,
    Any,
    AtLeast,
    Equal,
    Formula,
    Holds,
    Not,
    Truth,
    axes_of,
    index,
)
from openinfer.lowering.graph.imports.index_functions import Element, IndexFunctions
from openinfer.lowering.graph.imports.masks import Mask
from openinfer.lowering.graph.imports.provenance import provenance_of
from openinfer.lowering.graph.imports.uses import kind, settings_of, written_settings
from openinfer.runtime.sizes import Size


@dataclass(frozen=True)
class LiftIndexFunctions(ModulePass):
    """Says of masks, positions and rows of tables what they are, instead of how they are computed.

    Before:
        graph.op iota() -> (q) settings {shape = [L]}
        graph.op unsqueeze(q) -> (r) settings {axes = [1]}
        graph.op le(q, r) -> (seen)
        graph.op attention(a, b, c, seen) -> (y)
        graph.op gather(table, q) -> (p)
    After:
        graph.op attention(a, b, c) -> (y) settings {causal = true}
        graph.op slice(table) -> (p) settings {start = 0, stop = L}

    Requires: level `graph`, as a reader of a foreign model writes it; `recognize-sdpa` makes attention of
        its parts.
    Leaves: masks that it cannot say shorter, and finite numbers that are added where a row might hide all
        keys: such a row is a mean there, and 0 where a mask of bools hides it.
    """

    name: ClassVar[str] = "lift-index-functions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lift(Editor(op))


def lift(editor: Editor) -> None:
    """Rewrites what reads functions of indices."""
    lifting = _Lifting(editor)
    for op in editor.uses.ops():
        rule = _RULES.get(kind(op))
        if rule is not None:
            rule(lifting, op)
    canonicalize(editor)


@dataclass(eq=False)
class _Lifting:
    editor: Editor
    functions: IndexFunctions = field(init=False)
    written: dict[tuple[Formula, tuple[Size, ...]], RefAttr] = field(
        default_factory=dict[tuple[Formula, tuple[Size, ...]], RefAttr]
    )
    """Masks that were written already."""

    def __post_init__(self) -> None:
        self.functions = IndexFunctions(self.editor.uses)

    # Masks

    def attention(self, op: OpOp) -> None:
        """attention(q, k, v, mask): the causal part and the window as settings, the rest as a short mask"""
        settings, uses = settings_of(op), self.editor.uses
        if len(op.inputs.data) != 4 or not settings:
            return
        mask = op.inputs.data[3]
        found = visible(self.functions.of(mask))
        if found is not None and found[0] == TRUE:
            self.editor.redefine(op, op.op_name.data, op.inputs.data[:3], written_settings(op))
            return
        dims = uses.dims(mask)
        lengths = self._lengths(op)
        if dims is None or lengths is None or len(dims) < 2 or not isinstance(mask, RefAttr):
            return
        if found is None:
            return
        formula, hidden = found
        queries, keys = lengths
        reads = Mask(len(dims), queries, keys, causal=bool(settings["causal"]))
        # An axis of one element says the same of all: only the whole length has a place of its own.
        if dims[-2] not in (queries, Size.of(1)) or dims[-1] not in (keys, Size.of(1)):
            return
        if hidden != -float("inf") and not reads.shows_itself(formula):
            return
        rest = reads.take(formula, window=settings["window"])
        given = written_settings(op)
        if reads.causal:
            given["causal"] = True
        if reads.window is not None:
            given["window"] = reads.window
        if rest == TRUE:
            self.editor.redefine(op, op.op_name.data, op.inputs.data[:3], given)
            return
        new = self._write(rest, dims, mask, float_=isinstance(self.functions.of(mask), Choice))
        if new is not None:
            self.editor.redefine(op, op.op_name.data, [*op.inputs.data[:3], new], given)

    def _lengths(self, op: OpOp) -> tuple[Size, Size] | None:
        q, k = (self.editor.uses.dims(operand) for operand in op.inputs.data[:2])
        if q is None or k is None or len(q) < 2:
            return None
        if settings_of(op)["heads"] is not None:
            return q[-2], k[len(q) - 2]
        return q[-2], k[-2]

    def _write(
        self, formula: Formula, dims: tuple[Size, ...], old: RefAttr, *, float_: bool
    ) -> RefAttr | None:
        """A mask of bools; None where that is no shorter than what is there."""
        if (formula, dims) in self.written:
            return self.written[formula, dims]
        place = self.editor.uses.definition(old)
        if place is None:
            return None
        writer = _Writer(self, dims, place)
        found = writer.formula(formula)
        if found is None or (
            not float_
            and found.variable.data != old.variable.data
            and writer.count >= self._cost(old)
            and self.editor.uses.dims(found) == dims
        ):
            writer.undo()
            return None
        self.written[formula, dims] = found
        return found

    def _cost(self, operand: Operand) -> int:
        """How many ops say what a mask is, down to what is not followed."""
        seen: set[int] = set()
        todo = [operand]
        while todo:
            op = self.editor.uses.definition(todo.pop())
            if op is None or id(op) in seen or kind(op) not in _FOLLOWED:
                continue
            seen.add(id(op))
            todo += op.inputs.data
        return len(seen)

    # Rows of tables

    def gather(self, op: OpOp) -> None:
        """table[i, d] along an axis: a slice of the table; table[c]: a row"""
        table, indices = op.inputs.data
        uses = self.editor.uses
        source, picked = uses.dims(table), uses.dims(indices)
        chosen, spec = self.functions.integer(indices), uses.spec(table)
        result = uses.dims(op.outputs.data[0])
        if source is None or picked is None or chosen is None or spec is None or result is None:
            return
        axis = settings_of(op).get("axis", 0) % len(source)
        if not isinstance(table, RefAttr) or not uses.stable(table) or spec.dtype not in FLOATS:
            return
        axes = axes_of(chosen)
        if len(axes) > 1 or any(name.startswith("@") for name in chosen.names):
            return
        along = next(iter(axes), None)
        start = chosen if along is None else chosen - index(along)
        count = Size.of(1) if along is None else picked[along]
        if axes_of(start) or not start.nonnegative:
            return
        whole = start.constant == 0 and count == source[axis]
        place = table
        if not whole:
            cut = {"axis": axis, "start": start, "stop": start + count}
            if self.editor.infer("slice", [table], cut) is None:
                return
            place = self.editor.insert(op, "slice", [table], cut)
        lined = [count if one == along else Size.of(1) for one in range(len(picked))]
        shape = [*source[:axis], *lined, *source[axis + 1 :]]
        place = self.editor.insert(op, "reshape", [place], {"shape": shape})
        self.editor.redefine(op, "expand", [place], {"shape": result})

    # Choices

    def where(self, op: OpOp) -> None:
        """where(true, x, y): x; where(c, x, y) with a condition that is said shorter"""
        condition, x, y = op.inputs.data
        form, editor = self.functions.of(condition), self.editor
        dims = editor.uses.dims(op.outputs.data[0])
        if not isinstance(form, Boolean) or dims is None:
            return
        if isinstance(form.formula, Truth):
            kept = x if form.formula.value else y
            if isinstance(kept, RefAttr) and editor.uses.stable(kept):
                editor.redefine(op, "expand", [kept], {"shape": dims})
            return
        own = editor.uses.dims(condition)
        if own is None or not isinstance(condition, RefAttr):
            return
        new = self._write(form.formula, own, condition, float_=False)
        if new is None or new == condition or editor.infer("where", [new, x, y], {}) is None:
            return
        # Who reads it may stretch it by itself.
        chosen = editor.insert(op, "where", [new, x, y])
        editor.redefine(op, "expand", [chosen], {"shape": dims})


_RULES: dict[str, Callable[[_Lifting, OpOp], None]] = {
    "attention": _Lifting.attention,
    "gather": _Lifting.gather,
    "where": _Lifting.where,
}
_FOLLOWED = (
    *("iota", "reshape", "unsqueeze", "squeeze", "expand", "slice", "transpose", "permute"),
    *("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "where", "filter", "cast"),
    *("add", "sub", "mul", "neg", "fill", "gather", "concat", "tril", "triu", "cumsum"),
)


@dataclass(eq=False)
class _Writer:
    """Writes a formula as ops in front of a place; masks have axes of one element where nothing changes."""

    lifting: _Lifting
    dims: Sequence[Size]
    place: Operation
    _new: list[RefAttr] = field(default_factory=list[RefAttr])

    @property
    def count(self) -> int:
        return len(self._new)

    def undo(self) -> None:
        """Takes out what was written."""
        uses = self.lifting.editor.uses
        for ref in reversed(self._new):
            name = ref.variable.data
            for op in (*uses.writers[name], *uses.temporaries[name]):
                self.lifting.editor.erase(op)
        self._new.clear()

    def formula(self, formula: Formula) -> RefAttr | None:
        """A tensor of bools; None for what names sizes, or is no polynomial of places and elements."""
        match formula:
            case Holds():
                return self._element(self.lifting.functions.elements[formula.element])
            case Not(part=Equal() as part):
                return self._nonzero(part)
            case Not():
                inner = self.formula(formula.part)
                return None if inner is None else self._add("not", [inner])
            case AtLeast() | Equal():
                return self._compare(formula)
            case All() | Any():
                parts = [self.formula(part) for part in sorted(formula.parts, key=repr)]
                name = "and" if isinstance(formula, All) else "or"
                total: RefAttr | None = None
                for part in parts:
                    if part is None:
                        return None
                    total = part if total is None else self._add(name, [total, part])
                return total
            case Truth():
                return None

    def _nonzero(self, part: Equal) -> RefAttr | None:
        """x != 0 of one element: a cast"""
        element = self._single(part.difference)
        if element is None:
            found = self._compare(part)
            return None if found is None else self._add("not", [found])
        uses = self.lifting.editor.uses
        tensor = RefAttr.of(element.tensor)
        spec = uses.spec(tensor)
        if spec is None:
            return None
        cast = self._add("cast", [tensor], {"to": "bool"})
        return self._arranged(cast, element)

    def _single(self, size: Size) -> Element | None:
        name = size.single_name or (-size).single_name
        return self.lifting.functions.elements.get(name) if name else None

    def _element(self, element: Element) -> RefAttr | None:
        return self._arranged(RefAttr.of(element.tensor), element)

    def _arranged(self, tensor: RefAttr, element: Element) -> RefAttr | None:
        """A tensor cut and reshaped so that each of its axes stands where its place is named."""
        dims = self.lifting.editor.uses.dims(tensor)
        last = -1
        shape = [Size.of(1)] * len(self.dims)
        if dims is None:
            return None
        for axis, (place, extent) in enumerate(zip(element.indices, dims)):
            named = axes_of(place)
            if len(named) > 1 or any(name.startswith("@") for name in place.names):
                return None
            along = next(iter(named), None)
            start = place if along is None else place - index(along)
            count = Size.of(1) if along is None else self.dims[along]
            if axes_of(start) or not start.nonnegative:
                return None
            if along is not None:
                if along <= last:
                    return None
                last = along
                shape[along] = count
            if start.constant != 0 or count != extent:
                cut = {"axis": axis, "start": start, "stop": start + count}
                if self.lifting.editor.infer("slice", [tensor], cut) is None:
                    return None
                tensor = self._add("slice", [tensor], cut)
        if self.lifting.editor.uses.dims(tensor) == tuple(shape):
            return tensor
        return self._add("reshape", [tensor], {"shape": shape})

    def _compare(self, part: AtLeast | Equal) -> RefAttr | None:
        """a >= b, a == b, with what is subtracted on the right side"""
        left, right = _sides(part.difference)
        a, b = self._integer(left), self._integer(right)
        if a is None or b is None or not (isinstance(a, RefAttr) or isinstance(b, RefAttr)):
            return None
        return self._add("ge" if isinstance(part, AtLeast) else "eq", [a, b])

    def _integer(self, size: Size) -> Operand | None:
        """A polynomial of degree 1 in places and elements, without sizes."""
        if size.constant is not None:
            return literal(size.constant)
        total: Operand | None = None
        for monomial, coefficient in size.terms:
            term = Size(((monomial, 1),))
            part: Operand | None
            if not monomial:
                part = literal(coefficient)
            else:
                name = term.single_name or ""
                element = self.lifting.functions.elements.get(name)
                if element is not None:
                    part = self._wide(self._element(element))
                elif name.startswith("?"):
                    axis = int(name[1:])
                    shape = [d if a == axis else Size.of(1) for a, d in enumerate(self.dims)]
                    part = self._add("iota", [], {"shape": shape, "axis": axis})
                else:
                    return None
                if part is not None and coefficient != 1:
                    part = self._add("mul", [part, literal(coefficient)])
            if part is None:
                return None
            total = part if total is None else self._add("add", [total, part])
        return total

    def _wide(self, element: RefAttr | None) -> RefAttr | None:
        """An element as i64, which places are."""
        spec = None if element is None else self.lifting.editor.uses.spec(element)
        if element is None or spec is None or spec.dtype == "i64":
            return element
        return self._add("cast", [element], {"to": "i64"})

    def _add(
        self, name: str, operands: Sequence[Operand], settings: Mapping[str, object] | None = None
    ) -> RefAttr:
        source = replace(provenance_of(self.place), variable="visible", call=name)
        found = self.lifting.editor.insert(self.place, name, operands, settings, source)
        self._new.append(found)
        return found


def _sides(size: Size) -> tuple[Size, Size]:
    """What is added and what is subtracted."""
    left = Size(tuple(term for term in size.terms if term[1] > 0))
    right = Size(tuple((monomial, -c) for monomial, c in size.terms if c < 0))
    return left, right
