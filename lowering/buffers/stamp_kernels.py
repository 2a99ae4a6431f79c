"""Traced builds: a stamp in front of and behind everything that takes time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, ModuleOp, i64
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from openinfer.dialects import nn
from openinfer.lowering.facts import Facts
from openinfer.lowering.locations import give_location, nodes_in
from openinfer.lowering.step_arguments import add_arguments
from openinfer.runtime.slots import Slot, SlotKind

TRACE = MemRefType(i64, [8])
"""The head of the record that a traced step writes (`lowering/cpu/trace.mlir`)."""


@dataclass(frozen=True)
class StampKernels(ModulePass):
    """Stamps each kernel call of a traced step with the nodes of the program that it computes.

    Before:
        nn.stamp "node" "" [3]
        func.call @matmul_0(%x, %w, %y) : (…) -> () loc(fused["node 3"(…), "node 4"(…)])
    After:
        nn.stamp "begin" "matmul_0" [3, 4]
        func.call @matmul_0(%x, %w, %y) : (…) -> ()
        nn.stamp "end" "matmul_0" [3, 4]

    Requires: kernels outlined and buffers placed; locations that name nodes (`graph-to-nn`).
    Leaves: plain builds as they are; the stamps of nodes that no kernel computes; an argument of
        `@step` for the record.
    """

    name: ClassVar[str] = "stamp-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not Facts.of(op).traced:
            return
        for function in op.body.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                _stamp(function)
                add_arguments(function, [(Slot(SlotKind.TRACE), TRACE)])


def _kernel_name(op: Operation) -> str | None:
    """What a trace calls the work of an op; None when it takes no time to speak of."""
    match op:
        case CallOp():
            return op.callee.string_value()
        case memref.CopyOp():
            return "copy"
        case nn.StateLoadOp() | nn.StateWriteOp() | nn.StateResetOp() | nn.CommitOp():
            return op.name.removeprefix("nn.")
        case _:
            return None


def _stamp(function: FuncOp) -> None:
    computed: set[int] = set()
    for op in list(function.walk()):
        kernel = _kernel_name(op)
        block = op.parent_block()
        if kernel is None or block is None:
            continue
        nodes = nodes_in(op)
        computed.update(nodes)
        begin, end = (nn.StampOp(phase, kernel, nodes) for phase in ("begin", "end"))
        give_location(op.location, begin, end)
        block.insert_op_before(begin, op)
        block.insert_op_after(end, op)
    for op in list(function.walk()):
        if isinstance(op, nn.StampOp) and op.phase.data == "node" and op.numbers[0] in computed:
            op.detach()
            op.erase()
    _leave_last(function)


def _leave_last(function: FuncOp) -> None:
    """What a step keeps and gives at its end is part of it: `entry` is left behind that."""
    block = function.body.block
    exits = [o for o in block.ops if isinstance(o, nn.StampOp) and o.phase.data == "exit"]
    if exits and block.last_op is not None:
        last = exits[-1]
        last.detach()
        block.insert_op_before(last, block.last_op)
