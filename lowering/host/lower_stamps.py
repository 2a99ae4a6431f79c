"""Stamps become calls: into the record of a traced step, or to the host of a watched one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    ArrayAttr,
    IndexType,
    ModuleOp,
    i64,
)
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects import nn
from openinfer.lowering.buffers.stamp_kernels import TRACE
from openinfer.lowering.host.lower_checks import OBSERVER
from openinfer.lowering.interface import as_attribute
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.locations import give_location
from openinfer.lowering.operations import operations_of
from openinfer.lowering.step_arguments import StepArguments
from openinfer.runtime.manifest import StampRow
from openinfer.runtime.slots import SlotKind

STAMP = "openinfer_stamp"
"""Writes one entry of the record: (record, stamp, value)."""
NO_OUTPUT = -1
"""What the host's observer gets in place of the number of an output."""


@dataclass(frozen=True)
class LowerStamps(ModulePass):
    """Gives every distinct stamp a number and calls what takes it.

    Before:
        nn.stamp "turn" "" [3] value %i thread %thread
    After:
        scf.if %first {
          func.call @openinfer_stamp(%trace, %c5, %i) : (memref<8xi64>, i64, i64) -> () }

    Requires: `stamp-kernels`, `share-loops`.
    Leaves: no stamps; the table of them in `nn.interface`. Of several threads the first one writes.
    """

    name: ClassVar[str] = "lower-stamps"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rows: dict[Attribute, int] = {}
        for function in list(op.body.ops):
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                trace = StepArguments(function).get(SlotKind.TRACE)
                for stamp in [o for o in operations_of(function) if isinstance(o, nn.StampOp)]:
                    number = rows.setdefault(_row(stamp), len(rows))
                    _lower(stamp, number, trace)
                if rows:
                    _declare(op, trace is not None)
        if rows:
            nn.update_interface(op, {"stamps": ArrayAttr(list(rows))})


def _row(op: nn.StampOp) -> Attribute:
    return as_attribute(StampRow(op.phase.data, op.what.data, list(op.numbers)))


def _lower(op: nn.StampOp, number: int, trace: SSAValue | None) -> None:
    build = LoopBuilder(InsertPoint.before(op))
    value = op.value if op.value is not None else build.index(0)
    if trace is None:
        operands = [build.index(number), build.index(NO_OUTPUT), value]
        call: Operation = CallOp(OBSERVER, operands, [])
        build.do(call)
    else:
        word = build.insert(arith.IndexCastOp(value, i64))
        call = CallOp(STAMP, [trace, build.constant(number, i64), word], [])
        if op.thread is None:
            build.do(call)
        else:
            first = build.compare("eq", op.thread, 0)
            build.when(first, lambda: build.do(call))
    give_location(op.location, call)
    Rewriter.erase_op(op)


def _declare(module: ModuleOp, traced: bool) -> None:
    name = STAMP if traced else OBSERVER
    if any(isinstance(f, FuncOp) and f.sym_name.data == name for f in module.body.ops):
        return
    index = IndexType()
    types = [TRACE, i64, i64] if traced else [index, index, index]
    module.body.block.add_op(FuncOp.external(name, types, []))
