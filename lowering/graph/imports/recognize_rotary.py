"""Rotary position embedding that an export wrote out becomes one op."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from openinfer.dialects.graph import Operand, OpOp, RefAttr
from openinfer.dialects.ops.base import OpError
from openinfer.dialects.ops.layout import slice_bounds
from openinfer.lowering.graph.imports.angles import Angle, angle, base_of, stretch
from openinfer.lowering.graph.imports.canonicalize_graph import canonicalize
from openinfer.lowering.graph.imports.editing import Editor
from openinfer.lowering.graph.imports.forms import Integer
from openinfer.lowering.graph.imports.formulas import axes_of, index
from openinfer.lowering.graph.imports.index_functions import IndexFunctions
from openinfer.lowering.graph.imports.patterns import either, number_of
from openinfer.lowering.graph.imports.uses import Uses, kind, settings_of, written_settings
from openinfer.runtime.sizes import Size


@dataclass(frozen=True)
class RecognizeRotary(ModulePass):
    """Makes `rope` of `x * cos + rotate_half(x) * sin`.

    Before:
        graph.op slice(x) -> (x1) settings {axis = -1, stop = 8}
        graph.op slice(x) -> (x2) settings {axis = -1, start = 8}
        graph.op neg(x2) -> (n)
        graph.op concat(n, x1) -> (r) settings {axis = -1}
        graph.op mul(x, c) -> (a)       // cos of positions times frequencies, twice side by side
        graph.op mul(r, s) -> (b)
        graph.op add(a, b) -> (y)
    After:
        graph.op rope(x) -> (y)

    Requires: level `graph`, as a reader of a foreign model writes it.
    Leaves: frequencies that are no powers of one base, which stay tables, `rope(x, cos, sin)`; tables whose
        halves are not known to be equal.
    """

    name: ClassVar[str] = "recognize-rotary"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        editor = Editor(op)
        for one in editor.uses.ops():
            _ = _rotate(editor, one) or _part(editor, one)
        canonicalize(editor)


@dataclass(frozen=True)
class _Wave:
    """The cosine or the sine of an angle, as an operand holds it."""

    op: OpOp
    """`cos` or `sin`."""
    angle: Angle | None
    """Over the places of the operand."""
    layout: tuple[Size, ...]
    """Dimensions of the operand."""


def _rotate(editor: Editor, op: OpOp) -> bool:
    """x * cos + concat(-x2, x1) * sin: rope(x)"""
    if kind(op) != "add":
        return False
    uses = editor.uses
    for first, second in either(op):
        straight, turned = uses.definition(first, "mul"), uses.definition(second, "mul")
        if straight is None or turned is None:
            return False
        for x, cos in either(straight):
            for half, sin in either(turned):
                if _is_half_turn(uses, half, x) and _finish(editor, op, x, cos, sin):
                    return True
    return False


def _is_half_turn(uses: Uses, operand: Operand, x: Operand) -> bool:
    """Whether an operand is concat(-x2, x1) of the two halves of x along its last axis."""
    joined, dims = uses.definition(operand, "concat"), uses.dims(x)
    if joined is None or dims is None or len(joined.inputs.data) != 2:
        return False
    size = dims[-1].constant
    if size is None or size % 2 or settings_of(joined)["axis"] % len(dims) != len(dims) - 1:
        return False
    negative, plain = joined.inputs.data
    negated = uses.definition(negative, "neg")
    if negated is None:
        scaled = uses.definition(negative, "mul")
        if scaled is None or number_of(uses, scaled.inputs.data[1]) != -1:
            return False
        negated = scaled
    half = size // 2
    return part_of(uses, plain) == (x, 0, half) and part_of(uses, negated.inputs.data[0]) == (
        x,
        half,
        size,
    )


def part_of(uses: Uses, operand: Operand) -> tuple[Operand, int, int] | None:
    """(x, start, stop) of a part of x along its last axis."""
    op = uses.definition(operand, "slice", "split")
    spec = None if op is None else uses.spec(op.inputs.data[0])
    if op is None or spec is None:
        return None
    if kind(op) == "split":
        if settings_of(op)["axis"] % spec.rank != spec.rank - 1:
            return None
        start = 0
        for output in op.outputs:
            width = (uses.dims(output) or (Size.of(0),))[-1].constant
            if width is None:
                return None
            if output == operand:
                return op.inputs.data[0], start, start + width
            start += width
        return None
    try:
        *others, (low, high, step) = slice_bounds(spec, settings_of(op))
    except OpError:
        return None
    whole = all(b == (Size.of(0), d, 1) for b, d in zip(others, spec.dims))
    if not whole or step != 1 or low.constant is None or high.constant is None:
        return None
    return op.inputs.data[0], low.constant, high.constant


def _finish(editor: Editor, op: OpOp, x: Operand, cos: Operand, sin: Operand) -> bool:
    functions = IndexFunctions(editor.uses)
    waves = _wave(functions, cos, "cos"), _wave(functions, sin, "sin")
    dims = editor.uses.dims(x)
    if waves[0] is None or waves[1] is None or dims is None or len(dims) < 3:
        return False
    if waves[0].layout != waves[1].layout:
        return False
    if waves[0].op.inputs.data[0] != waves[1].op.inputs.data[0]:
        if waves[0].angle is None or not _equal(waves[0].angle, waves[1].angle):
            return False
    layout = _layout(dims, waves[0].layout)
    if layout is None:
        return False
    settings: dict[str, object] = {} if layout == "bhld" else {"layout": layout}
    found = (
        None
        if waves[0].angle is None
        else _positions(editor, functions, op, dims, waves[0], layout)
    )
    if found is not None:
        operands, base = found
        if base != 10000.0:
            settings["base"] = base
        return editor.redefine(op, "rope", [x, *operands], settings) is not None
    return _tables(editor, op, x, waves[0], waves[1], settings)


def _equal(left: Angle, right: Angle | None) -> bool:
    return (
        right is not None
        and left.position == right.position
        and left.axis == right.axis
        and np.array_equal(left.frequencies, right.frequencies)
    )


def _wave(functions: IndexFunctions, operand: Operand, name: str) -> _Wave | None:
    """What is behind reshapes of a cosine or a sine."""
    uses = functions.uses
    layout = uses.dims(operand)
    inner = operand
    for _ in range(6):
        op = uses.definition(inner, name, "reshape", "unsqueeze", "expand", "cast")
        if op is None or layout is None:
            return None
        if kind(op) == name:
            found = angle(functions, op.inputs.data[0])
            own = uses.dims(inner)
            if found is None or own is None:
                return _Wave(op, None, layout)
            moved = _arranged(functions, found, own, layout)
            return _Wave(op, moved, layout)
        inner = op.inputs.data[0]
    return None


def _arranged(
    functions: IndexFunctions, found: Angle, before: tuple[Size, ...], after: tuple[Size, ...]
) -> Angle | None:
    """The angle over the places of a shape that has other axes of one element."""
    old = [axis for axis, dim in enumerate(before) if dim.constant != 1]
    new = [axis for axis, dim in enumerate(after) if dim.constant != 1]
    if [before[axis] for axis in old] != [after[axis] for axis in new]:
        return None
    places = {axis: Size.of(0) for axis in range(len(before))}
    places.update({a: index(b) for a, b in zip(old, new)})
    form = functions.substitute(Integer(found.position), places)
    assert isinstance(form, Integer)
    axis = None if found.axis is None else dict(zip(old, new)).get(found.axis)
    return Angle(form.value, found.frequencies, axis)


def _layout(x: tuple[Size, ...], wave: tuple[Size, ...]) -> str | None:
    """Which axis of x [..., H, L, D] or [..., L, H, D] is that of heads: where all have the same angle."""
    if len(wave) < 2 or wave[-1] != x[-1]:
        return None
    if wave[-2] == x[-2] and (len(wave) < 3 or wave[-3].constant == 1):
        return "bhld"
    if len(wave) > 2 and wave[-2].constant == 1 and wave[-3] == x[-3]:
        return "blhd"
    return None


def _positions(
    editor: Editor,
    functions: IndexFunctions,
    op: OpOp,
    x: tuple[Size, ...],
    wave: _Wave,
    layout: str,
) -> tuple[list[Operand], float] | None:
    """The operand that says the positions, none for 0, 1, …, and the base of the frequencies."""
    found = wave.angle
    if found is None or found.axis != len(wave.layout) - 1:
        return None
    half = len(found.frequencies) // 2
    if not np.array_equal(found.frequencies[:half], found.frequencies[half:]):
        return None
    base = base_of(found.frequencies[:half])
    if base is None:
        return None
    places = stretch(wave.layout, len(x))
    form = functions.substitute(Integer(found.position), places)
    assert isinstance(form, Integer)
    along = len(x) - (2 if layout == "bhld" else 3)
    first = form.value - index(along)
    if first.constant == 0:
        return [], base
    if first.constant is not None and first.constant > 0:
        settings = {"shape": [x[along]], "start": first.constant}
        return [editor.insert(op, "iota", [], settings)], base
    name = form.value.single_name
    element = functions.elements.get(name) if name else None
    if element is None:
        return None
    tensor = RefAttr.of(element.tensor)
    dims = editor.uses.dims(tensor)
    wanted = [axis for axis in range(len(x) - 1) if axis != len(x) - (3 if layout == "bhld" else 2)]
    if dims is None or len(dims) > len(wanted):
        return None
    for place, dim, axis in zip(element.indices[::-1], dims[::-1], wanted[::-1]):
        if place != index(axis) and not (dim.constant == 1 and not axes_of(place)):
            return None
    return [tensor], base


def _tables(
    editor: Editor, op: OpOp, x: Operand, cos: _Wave, sin: _Wave, settings: dict[str, object]
) -> bool:
    """rope(x, cos, sin) of angles that stand twice side by side."""
    joined = editor.uses.definition(cos.op.inputs.data[0], "concat")
    if joined is None or cos.op.inputs.data[0] != sin.op.inputs.data[0]:
        return False
    if len(joined.inputs.data) != 2 or joined.inputs.data[0] != joined.inputs.data[1]:
        return False
    rank = len(editor.uses.dims(joined.outputs.data[0]) or ())
    half = joined.inputs.data[0]
    if settings_of(joined)["axis"] % rank != rank - 1 or not editor.uses.stable(half):
        return False
    tables = [editor.insert(wave.op, kind(wave.op), [half]) for wave in (cos, sin)]
    return editor.redefine(op, "rope", [x, *tables], settings) is not None


def _part(editor: Editor, op: OpOp) -> bool:
    """concat(rope(first part of x), rest of x): rope(x, dims=…)"""
    if kind(op) != "concat" or len(op.inputs.data) != 2:
        return False
    uses = editor.uses
    turned = uses.definition(op.inputs.data[0], "rope")
    dims = uses.dims(op.outputs.data[0])
    if turned is None or dims is None or settings_of(op)["axis"] % len(dims) != len(dims) - 1:
        return False
    first, rest = part_of(uses, turned.inputs.data[0]), part_of(uses, op.inputs.data[1])
    if first is None or rest is None or first[0] != rest[0] or first[2] != rest[1]:
        return False
    if first[1] != 0 or rest[2] != dims[-1].constant:
        return False
    given = written_settings(turned)
    if len(turned.inputs.data) < 3:
        given["dims"] = first[2]
    return editor.redefine(op, "rope", [first[0], *turned.inputs.data[1:]], given) is not None
