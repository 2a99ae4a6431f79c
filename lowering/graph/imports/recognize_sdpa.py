"""Attention that an export wrote out becomes one op."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite, sqrt
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from openinfer.dialects.graph import LiteralAttr, Operand, OpOp, RefAttr
from openinfer.lowering.graph.imports.canonicalize_graph import (
    TRANSPOSES,
    canonicalize,
    order_of,
)
from openinfer.lowering.graph.imports.editing import Editor
from openinfer.lowering.graph.imports.forms import HIDDEN, Boolean
from openinfer.lowering.graph.imports.index_functions import IndexFunctions
from openinfer.lowering.graph.imports.masks import Mask
from openinfer.lowering.graph.imports.patterns import either, near, number_of, scaled, shortest
from openinfer.lowering.graph.imports.uses import Uses, kind, settings_of, written_settings
from openinfer.runtime.sizes import Size


@dataclass(frozen=True)
class RecognizeSdpa(ModulePass):
    """Makes `attention` of `softmax(q @ transpose(k) * scale + mask) @ v`; heads that are repeated are not.

    Before:
        graph.op matmul(q, k) -> (s) settings {transpose_b = true}
        graph.op mul(s, 0.125) -> (t)
        graph.op add(t, m) -> (u)
        graph.op softmax(u) -> (p)
        graph.op matmul(p, v) -> (y)
    After:
        graph.op attention(q, k, v, m) -> (y) settings {scale = 0.125}

    Requires: level `graph`, as a reader of a foreign model writes it.
    Leaves: scores or weights that others read too, and a finite number in place of scores where a row may
        hide all keys: such a row is a mean there.
    """

    name: ClassVar[str] = "recognize-sdpa"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        recognize_sdpa(Editor(op))


def recognize_sdpa(editor: Editor) -> None:
    """Recognises attention, then drops what it does by itself."""
    for op in editor.uses.ops():
        _attend(editor, op)
    for op in editor.uses.ops():
        _ = _group(editor, op) or fold_scale(editor, op)
    canonicalize(editor)


@dataclass(eq=False)
class _Scores:
    """Scores on the way from the product to the softmax."""

    scale: float = 1.0
    softcap: float | None = None
    masks: list[Operand] = field(default_factory=list[Operand])


def _attend(editor: Editor, op: OpOp) -> bool:
    """softmax(q @ k^T * scale + mask) @ v: attention(q, k, v, mask)"""
    if (
        kind(op) != "matmul"
        or settings_of(op).get("transpose_a")
        or settings_of(op).get("transpose_b")
    ):
        return False
    uses = editor.uses
    weights, v = op.inputs.data
    softmax = _softmax(uses, weights)
    if softmax is None:
        return False
    dims = uses.dims(softmax.inputs.data[0])
    if dims is None or settings_of(softmax)["axis"] % len(dims) != len(dims) - 1:
        return False
    scores = _Scores()
    product = _product(uses, softmax.inputs.data[0], scores)
    if product is None or len(scores.masks) > 1:
        return False
    q, factor = scaled(uses, product.inputs.data[0])
    scores.scale *= factor
    keys, factor = scaled(uses, product.inputs.data[1])
    scores.scale *= factor
    transposed = bool(settings_of(product).get("transpose_b"))
    source, order = (keys, None) if transposed else _turned(editor, keys)
    if source is None:
        return False
    k = source
    if order is not None and list(order) != list(range(len(order))):
        k = editor.insert(op, "transpose", [source], {"perm": order})
    settings: dict[str, object] = {"scale": shortest(scores.scale)}
    if scores.softcap is not None:
        settings["softcap"] = scores.softcap
    operands: list[Operand] = [q, k, v, *scores.masks]
    return editor.redefine(op, "attention", operands, settings) is not None


def _softmax(uses: Uses, operand: Operand) -> OpOp | None:
    """The softmax of weights, also where rows that hide everything are set to 0 behind it."""
    op = uses.definition(operand, "softmax", "where", "filter", "cast")
    if op is None or not uses.read_once(operand):
        return None
    if kind(op) == "softmax":
        return op
    if kind(op) == "cast":
        return None
    x, y, condition = (
        op.inputs.data if kind(op) == "filter" else (*op.inputs.data[1:], op.inputs.data[0])
    )
    missing = uses.definition(condition, "is_nan")
    if missing is None or number_of(uses, x) != 0 or missing.inputs.data[0] != y:
        return None
    return uses.definition(y, "softmax")


def _product(uses: Uses, operand: Operand, scores: _Scores) -> OpOp | None:
    """The product of queries and keys behind scale and mask."""
    for _ in range(6):
        op = uses.definition(operand)
        if op is None or not uses.read_once(operand):
            return None
        name = kind(op)
        if name == "matmul":
            return None if settings_of(op).get("transpose_a") else op
        if name not in ("mul", "div") and scores.scale != 1:
            # A mask that is scaled, too, is another mask.
            return None
        if name in ("mul", "div"):
            inner, factor = scaled(uses, operand)
            if inner == operand:
                return None
            capped = uses.definition(inner, "tanh")
            if capped is not None:
                # c * tanh(s / c)
                if scores.softcap is not None or scores.scale != 1 or factor <= 0:
                    return None
                scores.softcap = shortest(factor)
                operand, within = scaled(uses, capped.inputs.data[0])
                scores.scale = factor * within
                continue
            operand, scores.scale = inner, scores.scale * factor
        elif name == "add":
            sides = [(x, m) for x, m in either(op) if _leads_to_product(uses, x)]
            if len(sides) != 1 or isinstance(sides[0][1], LiteralAttr):
                return None
            operand = sides[0][0]
            scores.masks.append(sides[0][1])
        elif name in ("where", "filter"):
            kept, other, condition = (
                op.inputs.data if name == "filter" else (*op.inputs.data[1:], op.inputs.data[0])
            )
            hidden = number_of(uses, other)
            spec = uses.spec(condition)
            if hidden is None or spec is None or spec.dtype != "bool" or hidden > HIDDEN:
                return None
            dims = uses.dims(kept)
            if isfinite(hidden) and not _shows(uses, condition, dims):
                return None
            operand = kept
            scores.masks.append(condition)
        else:
            return None
    return None


def _shows(uses: Uses, condition: Operand, dims: tuple[Size, ...] | None) -> bool:
    """Whether each query sees a key, whatever the inputs are."""
    form, own = IndexFunctions(uses).of(condition), uses.dims(condition)
    if not isinstance(form, Boolean) or dims is None or own is None or len(own) < 2:
        return False
    return Mask(len(own), dims[-2], dims[-1]).shows_itself(form.formula)


def _leads_to_product(uses: Uses, operand: Operand) -> bool:
    inner, _ = scaled(uses, operand)
    capped = uses.definition(inner, "tanh")
    if capped is not None:
        inner, _ = scaled(uses, capped.inputs.data[0])
    op = uses.definition(inner, "matmul", "add")
    if op is not None and kind(op) == "add":
        return any(_leads_to_product(uses, one) for one in op.inputs)
    return op is not None


def _turned(editor: Editor, keys: Operand) -> tuple[Operand | None, tuple[int, ...] | None]:
    """What keys are a transpose of, and the order in which its axes are those of k."""
    op = editor.uses.definition(keys, *TRANSPOSES)
    order = None if op is None else order_of(editor, op)
    if op is None or order is None or len(order) < 2:
        return None, None
    inner, factor = scaled(editor.uses, op.inputs.data[0])
    source = inner if factor == 1 else op.inputs.data[0]
    return source, (*order[:-2], order[-1], order[-2])


def _group(editor: Editor, op: OpOp) -> bool:
    """attention(q, repeat(k), repeat(v)), each head several times: attention(q, k, v)"""
    if kind(op) != "attention" or settings_of(op).get("heads") is not None:
        return False
    found = [_ungrouped(editor, operand) for operand in op.inputs.data[1:3]]
    places = [one for one in found if one is not None]
    if len(places) != 2 or places[0][1] != places[1][1]:
        return False
    k, v = (editor.insert(op, "reshape", [source], {"shape": dims}) for source, _, dims in places)
    operands = [op.inputs.data[0], k, v, *op.inputs.data[3:]]
    given = {key: value for key, value in settings_of(op).items() if value not in (None, False)}
    return editor.redefine(op, "attention", operands, given) is not None


def _ungrouped(editor: Editor, operand: Operand) -> tuple[RefAttr, Size, tuple[Size, ...]] | None:
    """What is repeated, how often, and its shape without the axis that is repeated."""
    uses = editor.uses
    merged = uses.definition(operand, "reshape")
    repeated = None if merged is None else uses.definition(merged.inputs.data[0], "expand")
    if merged is None or repeated is None:
        return None
    source = repeated.inputs.data[0]
    before, after = uses.dims(source), uses.dims(repeated.outputs.data[0])
    result = uses.dims(operand)
    if before is None or after is None or result is None or not isinstance(source, RefAttr):
        return None
    # [..., groups, 1, L, D] -> [..., groups, n, L, D] -> [..., groups * n, L, D]
    if len(before) != len(after) or len(after) != len(result) + 1 or len(after) < 4:
        return None
    if before[-3].constant != 1 or (*before[:-3], *before[-2:]) != (*after[:-3], *after[-2:]):
        return None
    if result != (*after[:-4], after[-4] * after[-3], *after[-2:]) or not uses.stable(source):
        return None
    return source, after[-3], (*before[:-3], *before[-2:])


def fold_scale(editor: Editor, op: OpOp) -> bool:
    """attention(q * c, …): the number as a part of `scale`, which is left out where it is the default"""
    if kind(op) != "attention":
        return False
    q, factor = scaled(editor.uses, op.inputs.data[0])
    size = _head_size(editor, op)
    if factor > 0 and factor != 1 and size is not None and editor.uses.stable(q):
        given = written_settings(op)
        scale = settings_of(op)["scale"] or 1 / sqrt(size)
        given["scale"] = shortest(scale * factor)
        new = editor.redefine(op, "attention", [q, *op.inputs.data[1:]], given)
        if new is None:
            return False
        return fold_scale(editor, new) or True
    scale = settings_of(op).get("scale")
    if scale is None or size is None or not near(scale, 1 / sqrt(size)):
        return False
    return editor.set_settings(op, scale=None) is not None


def _head_size(editor: Editor, op: OpOp) -> int | None:
    dims, heads = editor.uses.dims(op.inputs.data[0]), settings_of(op).get("heads")
    size = None if not dims else dims[-1].constant
    return size // heads if size and heads else size
