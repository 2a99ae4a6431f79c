"""What an imported program computes of constants alone is computed once, by the twins of the ops."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from openinfer.dialects.graph import LiteralAttr, OpOp, RefAttr
from openinfer.dialects.opset import NameRef, OpError, literal_dtypes
from openinfer.lowering.graph.imports.drop_dead import drop_dead
from openinfer.lowering.graph.imports.editing import Editor
from openinfer.lowering.graph.imports.tensors import FOLD_LIMIT, tensors, using_tensors
from openinfer.lowering.graph.imports.uses import Array, registered, written_settings
from openinfer.lowering.reference.twins import evaluate
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import OpenInferError
from openinfer.runtime.sizes import Size


@dataclass(frozen=True)
class FoldConstants(ModulePass):
    """Makes a constant of an op whose operands are small constants.

    Before:
        graph.variable c constant i64 [2] {init = 3 : i64}
        graph.op iota() -> (u) settings {shape = [2]}
        graph.op mul(u, c) -> (v)
    After:
        graph.variable c_2 constant i64 [2] {ref = "c_2"}   // [0, 3]

    Requires: level `graph`, as a reader of a foreign model writes it.
    Leaves: results above 1 MiB, random numbers, and what is computed of weights: a float tensor of the
        file with more than one element keeps its name and its place.
    """

    name: ClassVar[str] = "fold-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        with using_tensors(tensors()):
            fold_constants(Editor(op))


def fold_constants(editor: Editor) -> None:
    """Folds in program order, so that what is folded folds what reads it."""
    folded: set[str] = set()
    for op in editor.uses.ops():
        found = _folded(editor, op, folded)
        if found is None:
            continue
        array, dtype = found
        constant = editor.constant(array, dtype)
        if editor.alias(op, constant):
            folded.add(constant.variable.data)
    drop_dead(editor)


def _folded(editor: Editor, op: OpOp, folded: set[str]) -> tuple[Array, str] | None:
    """The one result of an op and its dtype, if it is a small constant."""
    spec, uses = registered(op), editor.uses
    if spec is None or spec.family == "random" or len(op.outputs.data) != 1:
        return None
    declared = uses.spec(op.outputs.data[0])
    shape = [dim.constant for dim in declared.dims] if declared is not None else [None]
    known = [extent for extent in shape if extent is not None]
    if declared is None or len(known) != len(shape) or not uses.stable(op.outputs.data[0]):
        return None
    row = DTYPES[declared.dtype]
    if (
        row.packed
        or row.storage != row.value
        or prod(known) * np.dtype(row.value).itemsize > FOLD_LIMIT
    ):
        return None
    contents: list[Array] = []
    for operand in op.inputs:
        content = uses.content(operand)
        if content is None or _is_weight(operand, content, folded):
            return None
        contents.append(content)
    settings = written_settings(op)
    if any(
        isinstance(one, Size) or (isinstance(one, NameRef) and one.name not in DTYPES)
        for value in settings.values()
        for one in _items(value)
    ):
        return None
    specs = [uses.spec(operand) for operand in op.inputs]
    try:
        dtypes = literal_dtypes(spec, [one.dtype if one else None for one in specs])
        values = [np.asarray(c, DTYPES[d].value) for c, d in zip(contents, dtypes)]
        (result,) = evaluate(spec.name, values, dtypes, settings, [declared.dtype])
    except (OpError, OpenInferError, MemoryError):
        return None
    return np.ascontiguousarray(result).reshape(known), declared.dtype


def _is_weight(operand: RefAttr | LiteralAttr, content: Array, folded: set[str]) -> bool:
    """Whether an operand is a tensor of the model that people know by its name."""
    if isinstance(operand, LiteralAttr) or operand.variable.data in folded:
        return False
    return content.dtype.kind not in "biu" and content.size > 1


def _items(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)  # pyright: ignore[reportUnknownVariableType]
