"""What all layers of an import share stands in front of the first one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from openinfer.dialects.graph import Operand, OpOp, RefAttr
from openinfer.lowering.graph.imports.uses import Uses, kind


@dataclass(frozen=True)
class HoistMasks(ModulePass):
    """Moves masks, positions and tables that several ops read in front of the first layer.

    Before:
        graph.op linear(x, w) -> (q)
        graph.op cast(m) -> (seen)      // in the first layer, where it was needed first
        graph.op attention(q, k, v, seen) -> (a)
        graph.op attention(r, s, t, seen) -> (b)
    After:
        graph.op cast(m) -> (seen)
        graph.op linear(x, w) -> (q)
        …

    Requires: level `graph`, `recognize-sdpa` and `recognize-rotary`.
    Leaves: what is computed of activations, and what one op reads alone.
    """

    name: ClassVar[str] = "hoist-masks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        uses = Uses(op)
        for block in uses.blocks():
            _hoist(uses, block.body.block)


_LAYERS = (
    *(
        "linear",
        "matmul",
        "attention",
        "rope",
        "rms_norm",
        "layer_norm",
        "group_norm",
        "batch_norm",
    ),
    *("conv1d", "conv2d", "conv3d", "lstm", "gru", "einsum"),
)


def _hoist(uses: Uses, block: Block) -> None:
    ops = [op for op in block.ops if isinstance(op, OpOp)]
    anchor = next((op for op in ops if kind(op) in _LAYERS), None)
    if anchor is None:
        return
    place = {id(op): number for number, op in enumerate(block.ops)}
    start: Operation = anchor
    for op in ops:
        shared = {"attention": op.inputs.data[3:], "rope": op.inputs.data[1:]}.get(kind(op), ())
        for operand in shared:
            chain = _chain(uses, operand)
            if chain is None or not isinstance(operand, RefAttr):
                continue
            if len(uses.readers[operand.variable.data]) < 2:
                continue
            late = [one for one in chain if place.get(id(one), -1) > place[id(anchor)]]
            for one in sorted(late, key=lambda one: place[id(one)]):
                _move(uses, one, start)
                place[id(one)] = -1


def _chain(uses: Uses, operand: Operand) -> list[OpOp] | None:
    """The ops that compute an operand of inputs and constants; None where a layer is among them."""
    found: dict[int, OpOp] = {}
    todo: list[Operand] = [operand]
    while todo:
        one = todo.pop()
        op = uses.definition(one)
        if op is None:
            if isinstance(one, RefAttr) and one.variable.data not in uses.variables:
                return None
            if not uses.stable(one):
                return None
            continue
        if kind(op) in _LAYERS:
            return None
        if id(op) not in found:
            found[id(op)] = op
            todo += op.inputs.data
    return list(found.values())


def _move(uses: Uses, op: OpOp, before: Operation) -> None:
    """Moves an op, and what declares its results, in front of another one."""
    block = before.parent
    assert block is not None
    declared: Sequence[Operation] = [
        assign for ref in op.outputs for assign in uses.temporaries[ref.variable.data]
    ]
    for one in (*declared, op):
        one.detach()
        block.insert_op_before(one, before)
