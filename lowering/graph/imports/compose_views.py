"""Chains of reshapes, transposes and slices become the shortest ones that do the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from openinfer.dialects import opset
from openinfer.dialects.graph import Operand, OpOp, RefAttr
from openinfer.dialects.ops.layout import slice_bounds
from openinfer.lowering.graph.imports.canonicalize_graph import (
    RESHAPES,
    TRANSPOSES,
    canonicalize,
    order_of,
)
from openinfer.lowering.graph.imports.editing import Editor
from openinfer.lowering.graph.imports.provenance import provenance_of
from openinfer.lowering.graph.imports.uses import kind, settings_of, written_settings
from openinfer.lowering.graph.imports.views import Reshape, Slice, Step, Transpose, View
from openinfer.runtime.sizes import Size

_VIEWS = (*RESHAPES, *TRANSPOSES, "slice")
_ROUNDS = 4


@dataclass(frozen=True)
class ComposeViews(ModulePass):
    """Chains of reshapes, transposes and slices of one value become the shortest ones that do the same; a
    product with a matrix leaves its rows in the order that they come in.

    Before:
        graph.op transpose(x) -> (t) settings {perm = [1, 0, 2]}                     // [L, B, 64]
        graph.op linear(t, w) -> (p)                                                 // [L, B, 192]
        graph.op reshape(p) -> (r) settings {shape = [L, B, 3, 64]}
        graph.op transpose(r) -> (s) settings {perm = [2, 0, 1, 3]}
        graph.op slice(s) -> (q) settings {axis = 0, start = 1, stop = 2}
        graph.op reshape(q) -> (m) settings {shape = [L, 4*B, 16]}
        graph.op transpose(m) -> (n) settings {perm = [1, 0, 2]}
        graph.op reshape(n) -> (k) settings {shape = [B, 4, L, 16]}
    After:
        graph.op linear(x, w) -> (p)                                                 // [B, L, 192]
        graph.op slice(p) -> (q) settings {axis = 2, start = 64, stop = 128}
        graph.op reshape(q) -> (m) settings {shape = [B, L, 4, 16]}
        graph.op transpose(m) -> (k) settings {perm = [0, 2, 1, 3]}

    Requires: level `graph`, `canonicalize-graph`.
    Leaves: chains that are no longer than that; slices that keep several parts of an axis, or whose axis
        would have to be taken apart first.
    """

    name: ClassVar[str] = "compose-views"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        editor = Editor(op)
        for _ in range(_ROUNDS):
            acted = False
            for one in editor.uses.ops():
                acted |= _rows_later(editor, one) or _rows_before(editor, one)
                acted |= one.parent is not None and _shorten(editor, one)
            canonicalize(editor)
            if not acted:
                break


# Views


def _step(editor: Editor, op: OpOp) -> Step | None:
    """What a view op does; None for another op, and for a slice that leaves out every second element."""
    uses, name = editor.uses, kind(op)
    if name not in _VIEWS or len(op.outputs.data) != 1 or not uses.stable(op.outputs.data[0]):
        return None
    before, after = uses.spec(op.inputs.data[0]), uses.dims(op.outputs.data[0])
    if before is None or after is None or op.outputs.data[0].indices.data:
        return None
    if name in RESHAPES:
        return Reshape(after)
    if name in TRANSPOSES:
        order = order_of(editor, op)
        return None if order is None else Transpose(order)
    try:
        bounds = slice_bounds(before, settings_of(op))
    except opset.OpError:
        return None
    cut = [a for a, (b, d) in enumerate(zip(bounds, before.dims)) if b != (Size.of(0), d, 1)]
    if len(cut) != 1 or bounds[cut[0]][2] != 1:
        return None
    return Slice(cut[0], *bounds[cut[0]][:2])


def _views(editor: Editor, op: OpOp, name: str) -> bool:
    """Whether an op is a view of a value, rather than names it as a bound."""
    if _step(editor, op) is None:
        return False
    source = op.inputs.data[0]
    return isinstance(source, RefAttr) and source.variable.data == name


@dataclass
class _Chain:
    """The view ops from a value to an operand."""

    source: RefAttr
    steps: list[Step] = field(default_factory=list[Step])
    ops: list[OpOp] = field(default_factory=list[OpOp])
    own: int = 0
    """So many of them nothing else reads."""


def _chain(editor: Editor, operand: Operand) -> _Chain | None:
    """None for a number, and for a value that means something else in another place."""
    if not isinstance(operand, RefAttr) or not editor.uses.stable(operand):
        return None
    found, alone = _Chain(operand), True
    while (op := editor.uses.definition(found.source)) is not None:
        step = _step(editor, op)
        before = op.inputs.data[0] if op.inputs.data else None
        if step is None or not isinstance(before, RefAttr) or before.indices.data:
            break
        if not editor.uses.stable(before):
            break
        alone = alone and editor.uses.read_once(found.source)
        found.own += alone
        found.steps.insert(0, step)
        found.ops.insert(0, op)
        found.source = before
    return found


def _view(editor: Editor, chain: _Chain) -> View | None:
    dims = editor.uses.dims(chain.source)
    if dims is None or chain.source.indices.data:
        return None
    view = View.of(dims)
    return view if all(map(view.apply, chain.steps)) else None


@dataclass
class _Tree:
    """All view ops of a value, and those whose results others read."""

    ops: list[OpOp] = field(default_factory=list[OpOp])
    ends: list[tuple[OpOp, list[OpOp]]] = field(default_factory=list[tuple[OpOp, list[OpOp]]])
    """Each with the ops from the value to it, itself the last."""
    others: bool = False
    """Whether the value is read by more than view ops."""


def _tree(editor: Editor, value: RefAttr) -> _Tree:
    found = _Tree()

    def visit(name: str, before: list[OpOp]) -> bool:
        other = False
        for reader in dict.fromkeys(editor.uses.readers[name]):
            if not isinstance(reader, OpOp) or not _views(editor, reader, name):
                other = True
                continue
            found.ops.append(reader)
            chain = [*before, reader]
            if visit(reader.outputs.data[0].variable.data, chain):
                found.ends.append((reader, chain))
        return other

    found.others = visit(value.variable.data, [])
    return found


def _plans(
    editor: Editor, first: View, ends: Sequence[tuple[OpOp, list[OpOp]]]
) -> Iterator[tuple[OpOp, list[OpOp], tuple[Step, ...] | None]]:
    """The shortest chain to each end of a tree, where there is one; `first` is a view of what the chains
    begin with, which keeps the last axis, and gives the value of the tree."""
    for end, chain in ends:
        view = first.with_last(first.dims[-1])
        steps = (_step(editor, one) for one in chain)
        done = all(step is not None and view.apply(step) for step in steps)
        dims = editor.uses.dims(end.outputs.data[0])
        yield end, chain, view.steps(dims) if done and dims is not None else None


def _count(plans: Sequence[tuple[Step, ...]]) -> int:
    """Ops of several chains of one value; what they begin with alike is computed once."""
    return len({plan[: count + 1] for plan in plans for count in range(len(plan))})


def _settings(step: Step) -> tuple[str, dict[str, Any]]:
    match step:
        case Reshape():
            return "reshape", {"shape": step.dims}
        case Transpose():
            return "transpose", {"perm": list(step.order)}
        case Slice():
            return "slice", {"axis": step.axis, "start": step.start, "stop": step.stop}


def _insert(editor: Editor, before: OpOp, value: RefAttr, steps: Sequence[Step]) -> RefAttr:
    for step in steps:
        name, settings = _settings(step)
        value = editor.insert(before, name, [value], settings)
    return value


def _replace(editor: Editor, end: OpOp, value: RefAttr, steps: Sequence[Step]) -> None:
    """Makes the result of a chain of these steps of a value."""
    if not steps:
        dims = editor.uses.dims(end.outputs.data[0])
        if not editor.alias(end, value):
            _ = editor.redefine(end, "reshape", [value], {"shape": dims})
        return
    value = _insert(editor, end, value, steps[:-1])
    name, settings = _settings(steps[-1])
    _ = editor.redefine(end, name, [value], settings)


# Rules


def _shorten(editor: Editor, op: OpOp) -> bool:
    """Chains of the result of an op, or of an operand that no op gives."""
    acted = False
    values: list[Operand] = list(op.outputs.data)
    values += [one for one in op.inputs if editor.uses.definition(one) is None]
    for value in values:
        if not isinstance(value, RefAttr) or value.indices.data or not editor.uses.stable(value):
            continue
        dims = editor.uses.dims(value)
        if not dims or (editor.uses.definition(value) is op and _step(editor, op) is not None):
            continue
        tree = _tree(editor, value)
        kept = set[int]()
        plans = list[tuple[OpOp, tuple[Step, ...]]]()
        for end, chain, plan in _plans(editor, View.of(dims), tree.ends):
            if plan is None:
                kept |= set(map(id, chain))
            else:
                plans.append((end, plan))
        if _count([plan for _, plan in plans]) < len(tree.ops) - len(kept):
            for end, plan in plans:
                _replace(editor, end, value, plan)
            acted = True
    return acted


def _is_product(editor: Editor, op: OpOp) -> bool:
    """Whether an op multiplies the rows of its first operand by a matrix."""
    if kind(op) not in ("linear", "matmul") or len(op.outputs.data) != 1:
        return False
    if not editor.uses.stable(op.outputs.data[0]) or not all(map(editor.uses.stable, op.inputs)):
        return False
    matrix = editor.uses.dims(op.inputs.data[1])
    return matrix is not None and len(matrix) == 2 and not settings_of(op).get("transpose_a")


def _rows_later(editor: Editor, op: OpOp) -> bool:
    """linear(view(x)), and views of that: views of linear(x), where the rows of x are only moved"""
    if op.parent is None or not _is_product(editor, op):
        return False
    chain, result = _chain(editor, op.inputs.data[0]), editor.uses.dims(op.outputs.data[0])
    view = None if chain is None or not chain.own else _view(editor, chain)
    if chain is None or view is None or not view.keeps_last or not result:
        return False
    tree = _tree(editor, op.outputs.data[0])
    operands = [chain.source, *op.inputs.data[1:]]
    if tree.others or not tree.ends or not _takes(editor, op, operands):
        return False
    plans = list[tuple[OpOp, tuple[Step, ...]]]()
    for end, _, plan in _plans(editor, view.with_last(result[-1]), tree.ends):
        if plan is None:
            return False
        plans.append((end, plan))
    if _count([plan for _, plan in plans]) >= chain.own + len(tree.ops):
        return False
    moved = editor.insert(op, op.op_name.data, operands, written_settings(op))
    for end, plan in plans:
        _replace(editor, end, moved, plan)
    return True


def _rows_before(editor: Editor, op: OpOp) -> bool:
    """view(linear(view(x))): linear(view(x)), where the outer view only moves rows"""
    if op.parent is None or not _is_product(editor, op):
        return False
    chain, result = _chain(editor, op.inputs.data[0]), editor.uses.dims(op.outputs.data[0])
    view = None if chain is None or not chain.own else _view(editor, chain)
    before = editor.uses.dims(op.inputs.data[0])
    if chain is None or view is None or not result or not before:
        return False
    tree = _tree(editor, op.outputs.data[0])
    if tree.others or len(tree.ends) != 1 or len(tree.ops) != len(tree.ends[0][1]):
        return False
    ((end, outer),) = tree.ends
    for one in outer:
        step = _step(editor, one)
        moved = None if step is None else _of_rows(step, result[-1], before[-1])
        if moved is None or not view.apply(moved):
            return False
    dims = editor.uses.dims(end.outputs.data[0])
    plan = None if dims is None else view.steps((*dims[:-1], before[-1]))
    if plan is None or len(plan) >= chain.own + len(tree.ops):
        return False
    rows = _insert(editor, op, chain.source, plan)
    operands = [rows, *op.inputs.data[1:]]
    given = written_settings(op)
    return editor.redefine(end, op.op_name.data, operands, given, provenance_of(op)) is not None


def _of_rows(step: Step, last: Size, new: Size) -> Step | None:
    """A step that moves rows of one length, for rows of another; None for one that does more."""
    match step:
        case Reshape(dims) if dims and dims[-1] == last:
            return Reshape((*dims[:-1], new))
        case Transpose(order) if order[-1] == len(order) - 1:
            return step
        case _:
            return None


def _takes(editor: Editor, op: OpOp, operands: Sequence[Operand]) -> bool:
    return editor.infer(op.op_name.data, operands, written_settings(op)) is not None
