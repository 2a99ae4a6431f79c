"""Heads of attention that an export puts side by side and apart again, with reshapes and transposes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from openinfer.dialects.graph import Operand, OpOp, RefAttr
from openinfer.lowering.graph.imports.canonicalize_graph import (
    TRANSPOSES,
    canonicalize,
    order_of,
)
from openinfer.lowering.graph.imports.editing import Editor
from openinfer.lowering.graph.imports.recognize_sdpa import fold_scale
from openinfer.lowering.graph.imports.uses import kind, settings_of, written_settings
from openinfer.runtime.sizes import Size


@dataclass(frozen=True)
class MergeHeads(ModulePass):
    """Gives `attention` and `rope` their setting `heads`, which takes heads as parts of the last axis.

    Before:
        graph.op reshape(x) -> (q) settings {shape = [B, L, 4, 16]}
        graph.op transpose(q) -> (t) settings {perm = [0, 2, 1, 3]}     // k and v alike
        graph.op attention(t, k, v) -> (a)
        graph.op transpose(a) -> (u) settings {perm = [0, 2, 1, 3]}
        graph.op reshape(u) -> (y) settings {shape = [B, L, 64]}
    After:
        graph.op attention(x, k, v) -> (y) settings {heads = 4}

    Requires: level `graph`, `recognize-sdpa` and `recognize-rotary`.
    Leaves: attention whose operands or result come to it in another way.
    """

    name: ClassVar[str] = "merge-heads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        editor = Editor(op)
        for one in editor.uses.ops():
            _rotate_before(editor, one)
        for one in editor.uses.ops():
            _attend(editor, one)
        canonicalize(editor)
        for one in editor.uses.ops():
            _ = _rotate_merged(editor, one) or fold_scale(editor, one)
        canonicalize(editor)


def _heads_last(editor: Editor, operand: Operand) -> RefAttr | None:
    """y [..., L, H, D] of an operand that is y with its heads in front, [..., H, L, D]."""
    op = editor.uses.definition(operand, *TRANSPOSES)
    order = None if op is None else order_of(editor, op)
    if op is None or order is None or len(order) < 3:
        return None
    rank = len(order)
    if order != (*range(rank - 3), rank - 2, rank - 3, rank - 1):
        return None
    source = op.inputs.data[0]
    return source if isinstance(source, RefAttr) and editor.uses.stable(source) else None


def _rotate_before(editor: Editor, op: OpOp) -> bool:
    """rope(transpose(y)): transpose(rope(y, layout="blhd"))"""
    if kind(op) != "rope" or settings_of(op)["layout"] != "bhld" or settings_of(op)["heads"]:
        return False
    source = _heads_last(editor, op.inputs.data[0])
    dims = editor.uses.dims(op.inputs.data[0])
    if source is None or dims is None:
        return False
    given = {**written_settings(op), "layout": "blhd"}
    operands = [source, *op.inputs.data[1:]]
    if editor.infer("rope", operands, given) is None:
        return False
    turned = editor.insert(op, "rope", operands, given)
    rank = len(dims)
    order = [*range(rank - 3), rank - 2, rank - 3, rank - 1]
    return editor.redefine(op, "transpose", [turned], {"perm": order}) is not None


def _rotate_merged(editor: Editor, op: OpOp) -> bool:
    """rope(reshape(x, [..., L, H, D]), layout="blhd"): reshape(rope(x, heads=H))"""
    if kind(op) != "rope" or settings_of(op)["layout"] != "blhd" or settings_of(op)["heads"]:
        return False
    uses = editor.uses
    apart = uses.definition(op.inputs.data[0], "reshape")
    dims = uses.dims(op.outputs.data[0])
    if apart is None or dims is None or not isinstance(apart.inputs.data[0], RefAttr):
        return False
    x, heads = apart.inputs.data[0], dims[-2].constant
    merged = (*dims[:-2], dims[-2] * dims[-1])
    if uses.dims(x) != merged or heads is None or not uses.stable(x):
        return False
    given = {k: v for k, v in written_settings(op).items() if k != "layout"}
    given["heads"] = heads
    operands = [x, *op.inputs.data[1:]]
    if editor.infer("rope", operands, given) is None:
        return False
    turned = editor.insert(op, "rope", operands, given)
    return editor.redefine(op, "reshape", [turned], {"shape": dims}) is not None


def _attend(editor: Editor, op: OpOp) -> bool:
    """transpose(attention(transpose(q), transpose(k), transpose(v))): attention with heads side by side"""
    if kind(op) != "attention" or settings_of(op)["heads"] is not None:
        return False
    uses, result = editor.uses, op.outputs.data[0]
    sources = [_heads_last(editor, operand) for operand in op.inputs.data[:3]]
    parts = [source for source in sources if source is not None]
    if len(parts) != 3 or not uses.read_once(result):
        return False
    (reader,) = uses.readers[result.variable.data]
    if not isinstance(reader, OpOp) or len(reader.outputs.data) != 1:
        return False
    if _heads_last(editor, reader.outputs.data[0]) != result:
        return False
    q, k, v = ([*(uses.dims(part) or ())] for part in parts)
    heads, groups = q[-2].constant, k[-2].constant
    if heads is None or groups is None or k[-2] != v[-2]:
        return False
    given = {**written_settings(op), "heads": heads}
    if groups != heads:
        given["kv_heads"] = groups
    shapes = [(*dims[:-2], dims[-2] * dims[-1]) for dims in (q, k, v)]
    merged: list[Operand] = [
        editor.insert(op, "reshape", [part], {"shape": shape}) for part, shape in zip(parts, shapes)
    ]
    operands = [*merged, *op.inputs.data[3:]]
    apart: tuple[Size, ...] = uses.dims(reader.outputs.data[0]) or ()
    if editor.infer("attention", operands, given) is None:
        return False
    attended = editor.insert(op, "attention", operands, given)
    return editor.redefine(reader, "reshape", [attended], {"shape": apart}) is not None
