"""Buffers that hold the same in every step are filled when the program is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import byte_size
from openinfer.lowering.buffers.uses import captured, root_of, users
from openinfer.lowering.hints import set_hints
from openinfer.lowering.interface import Weight, read_weights, write_weights
from openinfer.lowering.linalg.generic import is_elementwise_on_buffers
from openinfer.lowering.locations import give_location
from openinfer.lowering.step_arguments import add_arguments
from openinfer.runtime.sizes import Size
from openinfer.runtime.slots import Slot, SlotKind

MOST_BYTES = 1 << 24
"""A larger constant is computed in the arena, which it shares with other values, where a step needs it."""


@dataclass(frozen=True)
class PrepareConstants(ModulePass):
    """Makes a weight of each buffer that a step computes of numbers alone and then only reads.

    Before:
        %c = memref.alloc() : memref<8x8xf32>
        linalg.fill ins(%half : f32) outs(%c : memref<8x8xf32>)
        nn.matmul(%x, %c) outs(%y) …
    After:
        nn.matmul(%x, %c) outs(%y) …
        func.func @prepare_0(%result: memref<8x8xf32>) {
          linalg.fill ins(%half : f32) outs(%result : memref<8x8xf32>) … }

    Such buffers are constants with `@init` that a kernel reads as an operand, and what elementwise ops
    compute of constants and places (`iota`). Equal ones are one weight.

    Requires: buffers; copies elided, so that a constant may be what a copy would bring.
    Leaves: buffers whose sizes only a step knows, those of more than MOST_BYTES, those that anything else
        writes, and results.
    """

    name: ClassVar[str] = "prepare-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = [f for f in op.body.ops if isinstance(f, FuncOp)]
        step = next((f for f in functions if f.sym_name.data == "step"), None)
        if step is None:
            return
        weights = read_weights(op)
        count = sum(f.sym_name.data.startswith("prepare_") for f in functions)
        known: dict[str, SSAValue] = {}
        for made in [o for o in step.walk() if _is_constant(o)]:
            buffer = made.operands[-1]
            prepare = _prepare(made)
            key = str(prepare)
            if key not in known:
                name = f"prepare_{count + len(known)}"
                prepare.properties["sym_name"] = StringAttr(name)
                op.body.block.add_op(prepare)
                slot = Slot(SlotKind.WEIGHT, number=len(weights))
                (known[key],) = add_arguments(step, [(slot, buffer.type)])
                known[key].name_hint = buffer.name_hint
                weights.append(Weight("", (), prepare=name))
            allocation = buffer.owner
            assert isinstance(allocation, memref.AllocOp)
            buffer.replace_all_uses_with(known[key])
            for dead in (made, allocation):
                dead.detach()
                dead.erase()
        if known:
            write_weights(op, weights)


def _is_constant(op: Operation) -> bool:
    """Whether an op computes a buffer of a known size of numbers alone, and nothing else writes it."""
    if not isinstance(op, linalg.FillOp) and not (
        isinstance(op, linalg.GenericOp) and is_elementwise_on_buffers(op)
    ):
        return False
    *given, buffer = op.operands
    if not isinstance(buffer.owner, memref.AllocOp) or buffer.owner.dynamic_sizes:
        return False
    kind = buffer.owner.memref.type
    dims = [Size.of(extent) for extent in kind.get_shape()]
    if byte_size(kind.element_type, dims).evaluate({}) > MOST_BYTES:
        return False
    if not all(isinstance(v.owner, arith.ConstantOp) for v in (*given, *captured(op))):
        return False
    return all(user is op or _only_reads(user, buffer) for user in users(buffer))


def _only_reads(op: Operation, buffer: SSAValue) -> bool:
    match op:
        case linalg.GenericOp():
            written = op.outputs
        case memref.CopyOp():
            written = (op.destination,)
        case memref.LoadOp() | nn.ObserveOp() | nn.KeepOp() | nn.StateWriteOp() | nn.CommitOp():
            written = ()
        case nn.NNOp() if op.on_buffers:
            written = op.written
        case _:
            return False
    return all(root_of(value) is not buffer for value in written)


def _prepare(op: Operation) -> FuncOp:
    """A function that computes into its argument what `op` does."""
    *given, buffer = op.operands
    block = Block(arg_types=[buffer.type])
    block.args[0].name_hint = "result"
    mapping: dict[SSAValue, SSAValue] = {buffer: block.args[0]}
    for value in dict.fromkeys((*given, *captured(op))):
        assert isinstance(value.owner, arith.ConstantOp)
        constant = value.owner.clone()
        block.add_op(constant)
        mapping[value] = constant.result
    body = op.clone(mapping)
    set_hints(body, {})
    block.add_ops([body, ReturnOp()])
    function = FuncOp("prepare", ([buffer.type], []), Region(block))
    give_location(op.location, function)
    return function
