"""Norms that an export wrote out become one op."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from openinfer.dialects.graph import Operand, OpOp, RefAttr
from openinfer.lowering.graph.imports.drop_dead import drop_dead
from openinfer.lowering.graph.imports.editing import Editor
from openinfer.lowering.graph.imports.patterns import (
    either,
    last_axes,
    number_of,
    shortest,
    with_number,
)
from openinfer.lowering.graph.imports.uses import Uses, kind, settings_of, written_settings


@dataclass(frozen=True)
class RecognizeNorms(ModulePass):
    """Makes `rms_norm` and `layer_norm` of means, squares and roots, and takes in weight and bias.

    An `instance_norm` of groups of channels, as PyTorch's exporter writes it, is a `group_norm`.

    Before:
        graph.op mul(x, x) -> (s)
        graph.op mean_axis(s) -> (m) settings {axes = [-1], keepdims = true}
        graph.op add(m, 1e-06) -> (e)
        graph.op rsqrt(e) -> (r)
        graph.op mul(x, r) -> (n)
        graph.op mul(w, n) -> (y)
    After:
        graph.op rms_norm(x, w) -> (y) settings {eps = 1e-06}

    Requires: level `graph`, as a reader of a foreign model writes it.
    Leaves: means over other axes than the last ones, and a weight of another shape than these axes.
    """

    name: ClassVar[str] = "recognize-norms"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        editor = Editor(op)
        for one in editor.uses.ops():
            _ = (
                _normalise(editor, one)
                or _grouped(editor, one)
                or _weight(editor, one)
                or _bias(editor, one)
            )
        drop_dead(editor)


def _normalise(editor: Editor, op: OpOp) -> bool:
    """x / sqrt(mean(x * x) + eps): rms_norm(x); the same of x - mean(x): layer_norm(x)"""
    if kind(op) not in ("mul", "div"):
        return False
    uses = editor.uses
    for x, root in either(op) if kind(op) == "mul" else [tuple(op.inputs.data)]:
        found = _root(uses, root, inverse=kind(op) == "mul")
        if found is None:
            continue
        mean, eps = found
        axis = _mean_of_squares(uses, mean, x)
        if axis is not None and eps is not None:
            centred = _centred(uses, x, axis)
            name, operand = ("rms_norm", x) if centred is None else ("layer_norm", centred)
            return _replace(editor, op, name, operand, axis, eps)
        variance = uses.definition(mean, "var")
        centred = None if variance is None else _centred(uses, x, last_axes(uses, variance) or 0)
        if (
            variance is not None
            and eps is not None
            and centred == variance.inputs.data[0]
            and settings_of(variance).get("correction") == 0
        ):
            axis = last_axes(uses, variance)
            if axis is not None and centred is not None:
                return _replace(editor, op, "layer_norm", centred, axis, eps)
    return False


def _replace(editor: Editor, op: OpOp, name: str, x: Operand, axis: int, eps: float) -> bool:
    settings: dict[str, object] = {"eps": shortest(eps)}
    if axis != -1:
        settings["axis"] = axis
    # A norm of a narrow float that was computed in f32 and rounded again is the norm of that float.
    wide = editor.uses.definition(x, "cast")
    result = op.outputs.data[0]
    if wide is not None and editor.uses.read_once(result):
        (reader,) = editor.uses.readers[result.variable.data]
        narrow = editor.uses.spec(wide.inputs.data[0])
        if isinstance(reader, OpOp) and kind(reader) == "cast":
            if narrow is not None and editor.uses.spec(reader.outputs.data[0]) == narrow:
                if narrow.dtype in ("f16", "bf16"):
                    return (
                        editor.redefine(reader, name, [wide.inputs.data[0]], settings) is not None
                    )
    return editor.redefine(op, name, [x], settings) is not None


def _root(uses: Uses, operand: Operand, *, inverse: bool) -> tuple[Operand, float | None] | None:
    """(m, eps) of sqrt(m + eps), or of 1 / sqrt(m + eps) where that multiplies."""
    op = uses.definition(operand, "rsqrt", "sqrt", "recip", "div", "pow")
    if op is None:
        return None
    inner: Operand | None = None
    if kind(op) == "pow" and number_of(uses, op.inputs.data[1]) == (-0.5 if inverse else 0.5):
        inner = op.inputs.data[0]
    elif inverse and kind(op) == "rsqrt":
        inner = op.inputs.data[0]
    elif inverse and kind(op) in ("recip", "div"):
        if kind(op) == "div" and number_of(uses, op.inputs.data[0]) != 1:
            return None
        root = uses.definition(op.inputs.data[-1], "sqrt")
        inner = None if root is None else root.inputs.data[0]
    elif not inverse and kind(op) == "sqrt":
        inner = op.inputs.data[0]
    return None if inner is None else with_number(uses, inner, "add")


def _mean_of_squares(uses: Uses, operand: Operand, x: Operand) -> int | None:
    """The axis of mean(x * x), or of mean(x ** 2), over all axes from it on."""
    mean = uses.definition(operand, "mean_axis")
    if mean is None:
        return None
    square = uses.definition(mean.inputs.data[0], "mul", "pow")
    if square is None:
        return None
    a, b = square.inputs.data
    if a != x or (number_of(uses, b) != 2 if kind(square) == "pow" else b != x):
        return None
    return last_axes(uses, mean)


def _centred(uses: Uses, x: Operand, axis: int) -> Operand | None:
    """y of y - mean(y) over the axes from one on."""
    difference = uses.definition(x, "sub")
    if difference is None:
        return None
    y, other = difference.inputs.data
    mean = uses.definition(other, "mean_axis")
    if mean is None or mean.inputs.data[0] != y or last_axes(uses, mean) != axis:
        return None
    return y


def _grouped(editor: Editor, op: OpOp) -> bool:
    """reshape(instance_norm(reshape(x, [B, G, -1]), 1, 0), the dimensions of x): group_norm(x)"""
    uses = editor.uses
    norm = None
    if kind(op) == "reshape":
        norm = uses.definition(op.inputs.data[0], "instance_norm")
    parts = None if norm is None else uses.definition(norm.inputs.data[0], "reshape")
    if norm is None or parts is None:
        return False
    (x,), (_, *affine) = parts.inputs.data, norm.inputs.data
    dims, inner = uses.dims(x), uses.dims(norm.inputs.data[0])
    if dims is None or inner is None or inner[0] != dims[0] or not inner[1].constant:
        return False
    if uses.dims(op.outputs.data[0]) != dims or not uses.stable(x):
        return False
    if any(uses.number(one) != number for one, number in zip(affine, (1, 0))):
        return False
    settings = {"groups": inner[1].constant, "eps": settings_of(norm)["eps"]}
    return editor.redefine(op, "group_norm", [x], settings) is not None


def _weight(editor: Editor, op: OpOp) -> bool:
    """norm(x) * w: norm(x, w)"""
    plain = _absorb(editor, op, "mul", ("rms_norm", "layer_norm"), 1)
    return plain or _by_channel(editor, op, "mul", 1)


def _bias(editor: Editor, op: OpOp) -> bool:
    """layer_norm(x, w) + b: layer_norm(x, w, b)"""
    return _absorb(editor, op, "add", ("layer_norm",), 2) or _by_channel(editor, op, "add", 2)


def _by_channel(editor: Editor, op: OpOp, name: str, count: int) -> bool:
    """group_norm(x) * w, w of `[C, 1, …]`: group_norm(x, w of `[C]`); and + b behind a weight"""
    if kind(op) != name or len(op.inputs.data) != 2:
        return False
    uses = editor.uses
    for normed, other in either(op):
        norm = uses.definition(normed, "group_norm")
        if norm is None or len(norm.inputs.data) != count or not uses.read_once(normed):
            continue
        dims, spec = uses.dims(norm.inputs.data[0]), uses.spec(other)
        if dims is None or spec is None or not isinstance(other, RefAttr):
            continue
        content, wanted = uses.content(other), [dims[1].constant, *[1] * (len(dims) - 2)]
        if content is None or [one.constant for one in spec.dims] != wanted:
            continue
        vector = editor.constant(content.reshape(-1), spec.dtype, other.variable.data)
        operands = [*norm.inputs, vector]
        if editor.redefine(op, "group_norm", operands, written_settings(norm)) is not None:
            return True
    return False


def _absorb(editor: Editor, op: OpOp, name: str, norms: tuple[str, ...], count: int) -> bool:
    if kind(op) != name or len(op.inputs.data) != 2:
        return False
    uses = editor.uses
    for normed, other in either(op):
        norm = uses.definition(normed, *norms)
        if norm is None or len(norm.inputs.data) != count or not uses.read_once(normed):
            continue
        x, spec = norm.inputs.data[0], uses.spec(other)
        dims = uses.dims(x)
        if dims is None or spec is None or not isinstance(other, RefAttr):
            continue
        axis = settings_of(norm)["axis"] % len(dims)
        if spec.dims != dims[axis:] or not uses.stable(other):
            continue
        if len(dims[axis:]) == len(dims):
            continue
        new = editor.redefine(op, kind(norm), [*norm.inputs, other], written_settings(norm))
        if new is not None:
            return True
    return False
