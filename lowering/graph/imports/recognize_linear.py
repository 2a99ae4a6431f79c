"""Products with the weights of linear layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from openinfer.dialects.graph import Operand, OpOp, RefAttr
from openinfer.lowering.graph.imports.canonicalize_graph import TRANSPOSES, order_of
from openinfer.lowering.graph.imports.drop_dead import drop_dead
from openinfer.lowering.graph.imports.editing import Editor
from openinfer.lowering.graph.imports.patterns import either
from openinfer.lowering.graph.imports.uses import kind, settings_of, written_settings


@dataclass(frozen=True)
class RecognizeLinear(ModulePass):
    """Makes `linear` of a product with a transposed weight, and takes in the bias.

    Before:
        graph.op transpose(w) -> (t)
        graph.op matmul(x, t) -> (u)
        graph.op add(u, b) -> (y)
    After:
        graph.op linear(x, w, b) -> (y)

    Requires: level `graph`, as a reader of a foreign model writes it.
    Leaves: weights that are stored `[in, out]`, products of two activations, and a bias behind a product
        that others read too.
    """

    name: ClassVar[str] = "recognize-linear"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        editor = Editor(op)
        for one in editor.uses.ops():
            _ = _product(editor, one) or _bias(editor, one)
        drop_dead(editor)


def _product(editor: Editor, op: OpOp) -> bool:
    """x @ transpose(w): linear(x, w)"""
    if kind(op) != "matmul":
        return False
    settings, uses = settings_of(op), editor.uses
    if settings.get("transpose_a") or settings.get("acc") is not None:
        return False
    x, weight = op.inputs.data
    if not settings.get("transpose_b"):
        turned = uses.definition(weight, *TRANSPOSES)
        if turned is None or order_of(editor, turned) != (1, 0):
            return False
        weight = turned.inputs.data[0]
    if not _is_weight(editor, weight):
        return False
    return editor.redefine(op, "linear", [x, weight]) is not None


def _is_weight(editor: Editor, operand: Operand) -> bool:
    if not isinstance(operand, RefAttr):
        return False
    variable = editor.uses.variables.get(operand.variable.data)
    return variable is not None and variable.memory.data == "constant" and len(variable.sizes) == 2


def _bias(editor: Editor, op: OpOp) -> bool:
    """linear(x, w) + b: linear(x, w, b)"""
    if kind(op) != "add" or len(op.inputs.data) != 2:
        return False
    uses = editor.uses
    for result, bias in either(op):
        inner = uses.definition(result, "linear")
        spec = uses.spec(bias)
        if inner is None or len(inner.inputs.data) != 2 or not uses.read_once(result):
            continue
        if spec is None or not uses.stable(bias):
            continue
        # An axis of one element in front says nothing more.
        dims = [dim for dim in spec.dims[:-1] if dim.constant != 1]
        weight = uses.dims(inner.inputs.data[1])
        if dims or weight is None or spec.dims[-1:] != weight[:1]:
            continue
        operand = bias
        if spec.rank > 1:
            operand = editor.insert(op, "reshape", [bias], {"shape": spec.dims[-1:]})
        if editor.redefine(op, "linear", [*inner.inputs, operand], written_settings(inner)):
            return True
    return False
