"""Activations that an export wrote out become one op."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sqrt
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from openinfer.dialects.graph import LiteralAttr, Operand, OpOp
from openinfer.lowering.graph.imports.drop_dead import drop_dead
from openinfer.lowering.graph.imports.editing import Editor
from openinfer.lowering.graph.imports.patterns import (
    is_product,
    near,
    number_of,
    polynomial,
    scaled,
    with_number,
)
from openinfer.lowering.graph.imports.uses import Uses, kind, settings_of


@dataclass(frozen=True)
class RecognizeActivations(ModulePass):
    """Makes `gelu`, `silu`, `sigmoid`, `softplus`, `mish` and `hard_swish` of their formulas.

    Before:
        graph.op div(x, 1.41421354) -> (d)
        graph.op erf(d) -> (e)
        graph.op add(e, 1.0) -> (f)
        graph.op mul(x, f) -> (g)
        graph.op mul(g, 0.5) -> (y)
    After:
        graph.op gelu(x) -> (y)

    Requires: level `graph`, as a reader of a foreign model writes it.
    Leaves: formulas with other numbers, such as `x * sigmoid(1.702 * x)`.
    """

    name: ClassVar[str] = "recognize-activations"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        editor = Editor(op)
        for one in editor.uses.ops():
            _ = any(rule(editor, one) for rule in _RULES)
        drop_dead(editor)


def _sigmoid(editor: Editor, op: OpOp) -> bool:
    """1 / (1 + exp(-x)): sigmoid(x)"""
    uses = editor.uses
    if kind(op) == "recip":
        below = op.inputs.data[0]
    elif kind(op) == "div" and number_of(uses, op.inputs.data[0]) == 1:
        below = op.inputs.data[1]
    else:
        return False
    total = with_number(uses, below, "add")
    power = None if total is None or total[1] != 1 else uses.definition(total[0], "exp")
    negative = None if power is None else uses.definition(power.inputs.data[0], "neg")
    if negative is None:
        return False
    return editor.redefine(op, "sigmoid", [negative.inputs.data[0]]) is not None


def _softplus(editor: Editor, op: OpOp) -> bool:
    """log(1 + exp(x)), log1p(exp(x)): softplus(x)"""
    inner: Operand | None = None
    if kind(op) == "log1p":
        inner = op.inputs.data[0]
    elif kind(op) == "log":
        total = with_number(editor.uses, op.inputs.data[0], "add")
        inner = total[0] if total is not None and total[1] == 1 else None
    power = None if inner is None else editor.uses.definition(inner, "exp")
    if power is None:
        return False
    return editor.redefine(op, "softplus", [power.inputs.data[0]]) is not None


def _gated(editor: Editor, op: OpOp) -> bool:
    """x * sigmoid(x): silu(x); x * tanh(softplus(x)): mish(x); x * clamp(x + 3, 0, 6) / 6: hard_swish(x)"""
    if kind(op) not in ("mul", "div"):
        return False
    uses = editor.uses
    for gate in _factors(uses, op):
        definition = uses.definition(gate, "sigmoid", "tanh", "clamp", "relu")
        if definition is None:
            continue
        inner, name, number = definition.inputs.data[0], kind(definition), 1.0
        if name == "sigmoid":
            name = "silu"
        elif name == "tanh":
            soft = uses.definition(inner, "softplus")
            if soft is None:
                continue
            inner, name = soft.inputs.data[0], "mish"
        else:
            moved = with_number(uses, inner, "add")
            if moved is None or moved[1] != 3 or _limits(definition) != (0, 6):
                continue
            inner, name, number = moved[0], "hard_swish", 1 / 6
        whole = op.outputs.data[0]
        if is_product(uses, whole, [inner, gate], number):
            return editor.redefine(op, name, [inner]) is not None
    return False


def _limits(op: OpOp) -> tuple[float | None, float | None]:
    """The least and the largest result of a clamp."""
    settings = settings_of(op)
    if kind(op) == "clamp":
        return settings["min"], settings["max"]
    low = settings["clamp_min"] or 0
    return (low, settings["clamp_max"]) if settings["negative_slope"] == 0 else (None, None)


def _gelu(editor: Editor, op: OpOp) -> bool:
    """x * (1 + erf(x / sqrt(2))) / 2, and the tanh formula: gelu(x)"""
    if kind(op) not in ("mul", "div"):
        return False
    uses = editor.uses
    for bracket in _factors(uses, op):
        total = with_number(uses, bracket, "add")
        if total is None:
            continue
        curve = uses.definition(total[0], "erf", "tanh")
        if curve is None or total[1] != 1:
            continue
        inner = curve.inputs.data[0]
        if kind(curve) == "erf":
            x, factor = scaled(uses, inner)
            settings: dict[str, object] = {}
            fits = near(factor, sqrt(0.5))
        else:
            x, fits = _tanh_operand(uses, op, inner)
            settings = {"approximate": "tanh"}
        if fits and x is not None and is_product(uses, op.outputs.data[0], [x, bracket], 0.5):
            return editor.redefine(op, "gelu", [x], settings) is not None
    return False


def _tanh_operand(uses: Uses, op: OpOp, inner: Operand) -> tuple[Operand | None, bool]:
    """x, and whether `inner` is sqrt(2 / pi) * (x + 0.044715 * x ** 3)."""
    wanted = sqrt(2 / pi)
    for x in _factors(uses, op):
        found = polynomial(uses, inner, x)
        if found is None or len(found) != 4:
            continue
        if near(found[1], wanted, 1e-5) and near(found[3], wanted * 0.044715, 1e-5):
            return x, abs(found[0]) < 1e-12 and abs(found[2]) < 1e-12
    return None, False


def _factors(uses: Uses, op: OpOp, depth: int = 3) -> list[Operand]:
    """What an op multiplies, and what these do."""
    found: list[Operand] = []
    for operand in op.inputs:
        if isinstance(operand, LiteralAttr):
            continue
        found.append(operand)
        inner = uses.definition(operand, "mul", "div")
        if inner is not None and depth:
            found += _factors(uses, inner, depth - 1)
    return found


_RULES = (_sigmoid, _softplus, _gated, _gelu)
