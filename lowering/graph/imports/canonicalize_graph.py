"""Ops of an imported program that change nothing, or that the op behind them does by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from openinfer.dialects import opset
from openinfer.dialects.graph import LiteralAttr, Operand, OpOp, RefAttr
from openinfer.dialects.ops.base import FLOATS, POINTWISE
from openinfer.dialects.ops.layout import permutation, slice_bounds
from openinfer.lowering.graph.imports.drop_dead import drop_dead
from openinfer.lowering.graph.imports.editing import Editor, literal
from openinfer.lowering.graph.imports.patterns import shortest
from openinfer.lowering.graph.imports.uses import kind, registered, settings_of, written_settings
from openinfer.lowering.program.literals import wanted_values
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size

RESHAPES = ("reshape", "unsqueeze", "squeeze")
TRANSPOSES = ("transpose", "permute")


@dataclass(frozen=True)
class CanonicalizeGraph(ModulePass):
    """Drops ops that change nothing, joins reshapes and transposes, leaves stretching to the op that reads.

    Before:
        graph.op reshape(x) -> (u) settings {shape = [B, 1, 4]}
        graph.op reshape(u) -> (v) settings {shape = [B, 4]}
        graph.op mul(v, one) -> (w)
        graph.op expand(w) -> (e) settings {shape = [3, B, 4]}
        graph.op add(h, e) -> (y)
    After:
        graph.op add(h, x) -> (y)

    Requires: level `graph`, as a reader of a foreign model writes it.
    Leaves: what would give a result another type.
    """

    name: ClassVar[str] = "canonicalize-graph"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        canonicalize(Editor(op))


def canonicalize(editor: Editor) -> None:
    """Applies the rules until none acts."""
    acted = True
    while acted:
        acted = False
        for op in editor.uses.ops():
            acted |= any(rule(editor, op) for rule in _RULES)
        for block in editor.uses.blocks():
            acted |= _merge_equal(editor, block.body.block, {})
        drop_dead(editor)


def _merge_equal(editor: Editor, block: Block, known: Mapping[str, OpOp]) -> bool:
    """Two ops of the same operands and settings: one. Bodies inside see what stands before them."""
    seen, acted = dict(known), False
    for op in list(block.ops):
        for region in op.regions:
            acted |= _merge_equal(editor, region.block, seen)
        spec = registered(op) if isinstance(op, OpOp) else None
        if not isinstance(op, OpOp) or spec is None or spec.family == "random":
            continue
        if len(op.outputs.data) != 1 or not all(map(editor.uses.stable, op.inputs)):
            continue
        key = f"{spec.name} {op.inputs} {op.settings} {editor.uses.spec(op.outputs.data[0])}"
        first = seen.setdefault(key, op)
        if first is not op and editor.uses.stable(first.outputs.data[0]):
            acted |= editor.alias(op, first.outputs.data[0])
    return acted


def order_of(editor: Editor, op: OpOp) -> tuple[int, ...] | None:
    """The order of axes that a transpose gives its operand."""
    spec = editor.uses.spec(op.inputs.data[0])
    return None if spec is None else permutation(spec.rank, settings_of(op))


def _same(editor: Editor, op: OpOp) -> bool:
    """cast, reshape, expand, slice to the same type; transpose that keeps the order: x"""
    name, source = kind(op), op.inputs.data[0] if op.inputs.data else None
    if name not in (*RESHAPES, *TRANSPOSES, "cast", "expand", "slice"):
        return False
    if not isinstance(source, RefAttr) or len(op.outputs.data) != 1:
        return False
    before, after = editor.uses.spec(source), editor.uses.spec(op.outputs.data[0])
    if before is None or before != after:
        return False
    if name in TRANSPOSES:
        order = order_of(editor, op)
        # Axes of one element may change places.
        moved = [a for a in order or () if before.dims[a].constant != 1]
        if order is None or moved != sorted(moved):
            return False
    if name == "slice" and settings_of(op).get("step") != 1:
        return False
    return editor.alias(op, source)


def _neutral(editor: Editor, op: OpOp) -> bool:
    """x * 1, x / 1, x + 0, x - 0, x ** 1: x"""
    neutral = {"mul": 1, "div": 1, "pow": 1, "add": 0, "sub": 0}.get(kind(op))
    if neutral is None or len(op.inputs.data) != 2:
        return False
    pairs = [tuple(op.inputs.data)]
    if kind(op) in ("mul", "add"):
        pairs.append(pairs[0][::-1])
    for kept, other in pairs:
        if not isinstance(kept, RefAttr) or editor.uses.number(other) != neutral:
            continue
        if editor.uses.spec(kept) == editor.uses.spec(op.outputs.data[0]):
            return editor.alias(op, kept)
    return False


def _join_reshapes(editor: Editor, op: OpOp) -> bool:
    """reshape(reshape(x)): one reshape"""
    if kind(op) not in RESHAPES:
        return False
    inner = editor.uses.definition(op.inputs.data[0], *RESHAPES)
    dims = editor.uses.dims(op.outputs.data[0])
    if inner is None or dims is None or not editor.uses.stable(inner.inputs.data[0]):
        return False
    return editor.redefine(op, "reshape", [inner.inputs.data[0]], {"shape": dims}) is not None


def _join_transposes(editor: Editor, op: OpOp) -> bool:
    """transpose(transpose(x)): one transpose"""
    if kind(op) not in TRANSPOSES:
        return False
    inner = editor.uses.definition(op.inputs.data[0], *TRANSPOSES)
    if inner is None or not editor.uses.stable(inner.inputs.data[0]):
        return False
    first, second = order_of(editor, inner), order_of(editor, op)
    if first is None or second is None:
        return False
    order = [first[axis] for axis in second]
    return editor.redefine(op, "transpose", [inner.inputs.data[0]], {"perm": order}) is not None


def _matrices(editor: Editor, op: OpOp) -> bool:
    """reshape(transpose(reshape(x))) of matrices, the axes in front joined and apart again: transpose(x),
    behind a reshape where the axes in front are others"""
    uses = editor.uses
    turned = uses.definition(op.inputs.data[0], *TRANSPOSES) if kind(op) in RESHAPES else None
    if turned is None or order_of(editor, turned) != (0, 2, 1):
        return False
    joined = uses.definition(turned.inputs.data[0], *RESHAPES)
    if joined is None or not uses.stable(joined.inputs.data[0]):
        return False
    x, flat = uses.dims(joined.inputs.data[0]), uses.dims(turned.inputs.data[0])
    result = uses.dims(op.outputs.data[0])
    if x is None or flat is None or result is None or len(x) < 3 or x[-2:] != flat[-2:]:
        return False
    lead = result[:-2]
    if result[-2:] != (x[-1], x[-2]) or prod(lead, start=Size.of(1)) != flat[0]:
        return False
    matrices: Operand = joined.inputs.data[0]
    if lead != x[:-2]:
        matrices = editor.insert(op, "reshape", [matrices], {"shape": (*lead, *x[-2:])})
    order = [*range(len(lead)), len(lead) + 1, len(lead)]
    return editor.redefine(op, "transpose", [matrices], {"perm": order}) is not None


def _cut(editor: Editor, op: OpOp) -> bool:
    """slice(concat(x, y)) that is just one of the parts: that part"""
    joined = editor.uses.definition(op.inputs.data[0], "concat") if kind(op) == "slice" else None
    spec = None if joined is None else editor.uses.spec(op.inputs.data[0])
    if joined is None or spec is None:
        return False
    axis, start = settings_of(joined)["axis"] % spec.rank, Size.of(0)
    try:
        bounds = slice_bounds(spec, settings_of(op))
    except opset.OpError:
        return False
    if any(b != (Size.of(0), d, 1) for a, (b, d) in enumerate(zip(bounds, spec.dims)) if a != axis):
        return False
    for part in joined.inputs:
        dims = editor.uses.dims(part)
        if dims is None or not isinstance(part, RefAttr):
            return False
        if bounds[axis] == (start, start + dims[axis], 1):
            return editor.alias(op, part)
        start = start + dims[axis]
    return False


def _leading(editor: Editor, op: OpOp) -> bool:
    """f(reshape(x)) of rows: reshape(f(x)), for products with a matrix and what is added to all rows"""
    uses, name = editor.uses, kind(op)
    if name not in ("matmul", "linear", "add", "mul") or len(op.outputs.data) != 1:
        return False
    result = uses.dims(op.outputs.data[0])
    places = (0,) if name in ("matmul", "linear") else range(len(op.inputs.data))
    for place in places:
        inner = uses.definition(op.inputs.data[place], "reshape")
        others = [uses.dims(one) for n, one in enumerate(op.inputs) if n != place]
        if inner is None or result is None or not uses.stable(inner.inputs.data[0]):
            continue
        x, before = uses.dims(inner.inputs.data[0]), uses.dims(op.inputs.data[place])
        if x is None or before is None or len(before) != 2 or len(x) < 3 or x[-1] != before[-1]:
            continue
        most = 2 if name in ("matmul", "linear") else 1
        if any(dims is not None and len(dims) > most for dims in others):
            continue
        if name == "matmul" and settings_of(op).get("transpose_a"):
            continue
        operands: list[Operand] = list(op.inputs.data)
        operands[place] = inner.inputs.data[0]
        if editor.infer(op.op_name.data, operands, written_settings(op)) is None:
            continue
        moved = editor.insert(op, op.op_name.data, operands, written_settings(op))
        return editor.redefine(op, "reshape", [moved], {"shape": result}) is not None
    return False


def _named(editor: Editor, op: OpOp) -> bool:
    """permute: transpose; gather of rows of a constant matrix of floats: embedding"""
    if op.op_name.data == "permute":
        order = order_of(editor, op)
        return editor.redefine(op, "transpose", op.inputs.data, {"perm": order}) is not None
    if op.op_name.data != "gather" or settings_of(op).get("axis") != 0:
        return False
    spec = editor.uses.spec(op.inputs.data[0])
    table = editor.uses.variables.get(spec.name) if spec is not None else None
    if spec is None or spec.rank != 2 or spec.dtype not in FLOATS:
        return False
    if table is None or table.memory.data != "constant":
        return False
    return editor.redefine(op, "embedding", op.inputs.data, {}) is not None


def _mask(editor: Editor, op: OpOp) -> bool:
    """attention(q, k, v, expand(m)): attention stretches m by itself"""
    if kind(op) != "attention" or len(op.inputs.data) != 4:
        return False
    inner = editor.uses.definition(op.inputs.data[3], "expand")
    if inner is None or not editor.uses.stable(inner.inputs.data[0]):
        return False
    operands = [*op.inputs.data[:3], inner.inputs.data[0]]
    return editor.redefine(op, op.op_name.data, operands, written_settings(op)) is not None


def _stretch(editor: Editor, op: OpOp) -> bool:
    """f(expand(x), y): f(x, y), where f stretches x by itself; and reshapes that only add axes in front"""
    spec = registered(op)
    stretches = spec is not None and (spec.family in POINTWISE or spec.name == "matmul")
    if not stretches or len(op.inputs.data) < 2:
        return False
    for place, operand in enumerate(op.inputs.data):
        inner = editor.uses.definition(operand, "expand", *RESHAPES)
        if inner is None or not editor.uses.stable(inner.inputs.data[0]):
            continue
        if kind(inner) != "expand" and not _adds_leading(editor, inner):
            continue
        operands: list[Operand] = list(op.inputs.data)
        operands[place] = inner.inputs.data[0]
        if editor.redefine(op, op.op_name.data, operands, written_settings(op)) is not None:
            return True
    return False


def _adds_leading(editor: Editor, op: OpOp) -> bool:
    """Whether a reshape only puts axes of one element in front."""
    before, after = editor.uses.dims(op.inputs.data[0]), editor.uses.dims(op.outputs.data[0])
    if before is None or after is None or len(after) < len(before):
        return False
    lead = len(after) - len(before)
    return after[lead:] == before and all(dim.constant == 1 for dim in after[:lead])


def _literals(editor: Editor, op: OpOp) -> bool:
    """f(x, c) of a constant c of one element: f(x, number)"""
    if len(op.inputs.data) < 2 or len(op.outputs.data) != 1:
        return False
    for place, operand in enumerate(op.inputs.data):
        spec = editor.uses.spec(operand)
        if isinstance(operand, LiteralAttr) or spec is None:
            continue
        if any(dim.constant != 1 for dim in spec.dims):
            continue
        number = editor.uses.number(operand)
        if number is None or number != number:
            continue
        row = DTYPES[spec.dtype]
        value = float(number) if row.is_float else bool(number) if row.kind == "bool" else number
        if wanted_values(value, row) != (None, None):
            continue
        operands: list[Operand] = list(op.inputs.data)
        if spec.dtype == "f32" and wanted_values(shortest(value), row) == (None, None):
            value = shortest(value)
        operands[place] = literal(value)
        dtypes = _literal_dtype(editor, op, operands, place)
        if dtypes == spec.dtype and (
            editor.redefine(op, op.op_name.data, operands, written_settings(op)) is not None
        ):
            return True
    return False


def _literal_dtype(editor: Editor, op: OpOp, operands: list[Operand], place: int) -> str | None:
    """The dtype that a number has among operands."""
    spec = registered(op)
    known = [editor.uses.spec(operand) for operand in operands]
    if spec is None:
        return None
    try:
        return opset.literal_dtypes(spec, [one.dtype if one else None for one in known])[place]
    except opset.OpError:
        return None


def _plain_settings(editor: Editor, op: OpOp) -> bool:
    """f(x, setting=default): f(x); stride=[2, 2]: stride=2; the last axis by its number: the default"""
    spec = registered(op)
    if spec is None or not op.settings.data:
        return False
    written = written_settings(op)
    dims = editor.uses.dims(op.inputs.data[0]) if op.inputs.data else None
    given: dict[str, object] = {}
    for key, value in written.items():
        setting = spec.setting(key)
        if setting is None:
            return False
        plain = _one_number(value) if setting.name in _SAME_FOR_ALL else value
        default = setting.default
        said = False
        if setting.name == "axis" and isinstance(default, int):
            # The last axis goes without saying, the first one does not.
            said = default >= 0
            if dims is not None and default < 0 and plain == default + len(dims):
                plain = default
        if said or type(plain) is not type(default) or plain != default:
            given[key] = plain
    if given == written:
        return False
    return editor.redefine(op, op.op_name.data, op.inputs.data, given) is not None


_SAME_FOR_ALL = ("stride", "dilation", "padding", "kernel_size")
"""Settings of windows: one number is meant for all axes and sides."""


def _one_number(value: object) -> object:
    """The number that a list holds alone."""
    if isinstance(value, list | tuple) and value:
        first, *others = cast("Sequence[object]", value)
        if isinstance(first, int) and all(one == first for one in others):
            return first
    return value


_RULES = (
    *(_same, _neutral, _named, _join_reshapes, _join_transposes),
    *(_matrices, _cut, _leading, _stretch, _mask, _literals, _plain_settings),
)
