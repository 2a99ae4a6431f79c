"""Constant buffers that a step only reads are filled when the program is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from openinfer.dialects import nn
from openinfer.lowering.buffers.uses import root_of, users
from openinfer.lowering.interface import Weight, read_weights, write_weights
from openinfer.lowering.locations import give_location
from openinfer.lowering.step_arguments import add_arguments


@dataclass(frozen=True)
class PrepareFills(ModulePass):
    """Makes a weight of each buffer that a step fills with a constant and only reads.

    Before:
        %c = memref.alloc() : memref<8x8xf32>
        linalg.fill ins(%half : f32) outs(%c : memref<8x8xf32>)
        nn.matmul(%x, %c) outs(%y) …
    After:
        nn.matmul(%x, %filled) outs(%y) …
        func.func @prepare_0(%result: memref<8x8xf32>) {
          linalg.fill ins(%half : f32) outs(%result : memref<8x8xf32>) … }

    Such buffers are constants with `@init` that a kernel reads as an operand, and what ops make of
    numbers alone. Equal ones are one weight.

    Requires: buffers; copies elided, so that a constant may be what a copy would bring.
    Leaves: buffers whose sizes only a step knows, those that anything else writes, and results.
    """

    name: ClassVar[str] = "prepare-fills"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        step = next(
            (f for f in op.body.ops if isinstance(f, FuncOp) and f.sym_name.data == "step"), None
        )
        if step is None:
            return
        weights = read_weights(op)
        known: dict[tuple[Attribute, Attribute], SSAValue] = {}
        for fill in [o for o in step.walk() if isinstance(o, linalg.FillOp) and _is_constant(o)]:
            buffer, value = fill.outputs[0], fill.inputs[0].owner
            assert isinstance(value, arith.ConstantOp)
            key = (buffer.type, value.value)
            if key not in known:
                prepare = _prepare(op, fill, value)
                known[key] = add_arguments(step, [(f"weight {len(weights)}", buffer.type)])[
                    "weight"
                ]
                known[key].name_hint = buffer.name_hint
                weights.append(Weight("", (), prepare=prepare))
            made = buffer.owner
            assert isinstance(made, memref.AllocOp)
            buffer.replace_all_uses_with(known[key])
            for dead in (fill, made):
                dead.detach()
                dead.erase()
        if known:
            write_weights(op, weights)


def _is_constant(fill: linalg.FillOp) -> bool:
    """Whether the step makes a buffer of a known size for a fill, and nothing else writes it."""
    buffer = fill.outputs[0]
    if not isinstance(buffer.owner, memref.AllocOp) or buffer.owner.dynamic_sizes:
        return False
    if not isinstance(fill.inputs[0].owner, arith.ConstantOp):
        return False
    return all(user is fill or _only_reads(user, buffer) for user in users(buffer))


def _only_reads(op: Operation, buffer: SSAValue) -> bool:
    match op:
        case linalg.GenericOp():
            written = op.outputs
        case memref.CopyOp():
            written = (op.destination,)
        case memref.LoadOp() | nn.ObserveOp() | nn.KeepOp() | nn.StateWriteOp() | nn.CommitOp():
            written = ()
        case nn.NNOp() if op.on_buffers:
            written = op.outs
        case _:
            return False
    return all(root_of(value) is not buffer for value in written)


def _prepare(module: ModuleOp, fill: linalg.FillOp, value: arith.ConstantOp) -> str:
    """A function that fills its argument as `fill` does."""
    count = sum(
        isinstance(f, FuncOp) and f.sym_name.data.startswith("prepare_") for f in module.body.ops
    )
    block = Block(arg_types=[fill.outputs[0].type])
    block.args[0].name_hint = "result"
    constant = value.clone()
    block.add_ops([constant, linalg.FillOp([constant.result], [block.args[0]], []), ReturnOp()])
    function = FuncOp(f"prepare_{count}", ([block.args[0].type], []), Region(block))
    give_location(fill.location, function)
    module.body.block.add_op(function)
    return function.sym_name.data
