"""Long loops of a step, and the nodes of a watched one, ask the host whether it was interrupted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import MemRefType, ModuleOp, i1, i64
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from openinfer.dialects import nn
from openinfer.lowering.host.lower_checks import error_record
from openinfer.lowering.kernels.builder import TILED, LoopBuilder
from openinfer.lowering.kernels.sum_chains import rounds_of
from openinfer.lowering.operations import operations_of
from openinfer.lowering.places import as_hosts
from openinfer.lowering.step_arguments import add_arguments
from openinfer.runtime.devices.failures import INTERRUPTED
from openinfer.runtime.slots import Slot, SlotKind

POLL, BEGIN = "openinfer_poll", "openinfer_poll_begin"
"""Whether the step was interrupted; and what the step calls before it asks that."""
WORDS = MemRefType(i64, [2])
"""What they keep (`lowering/cpu/poll.mlir`)."""
FEW = 64
"""Rounds of a loop, with those of the loops around it, that need no look at interrupts."""


@dataclass(frozen=True)
class PollLoops(ModulePass):
    """Loops of a step that may run long leave it when the host was interrupted.

    Before:
        scf.for %i = %c0 to %n step %c1 { … }
    After:
        scf.for %i = %c0 to %n step %c1 {
          %interrupted = func.call @openinfer_poll(%poll) : (memref<2xi64>) -> i1
          scf.if %interrupted { memref.store %interrupt, %errors[%c3] … }
          nn.leave_if %interrupted
          … }

    A watched step looks after each node that it has shown, too: a watcher may fail, or be interrupted.
    A loop is left as it is where its iterations, times those of the loops around it up to one that looks,
    are known to be few, and where it takes a batch in parts (`tile-batch`).

    Requires: `plan-memory`, and states not lowered: what is noted of them first must be whole.
    Leaves: other steps as they are.
    """

    name: ClassVar[str] = "poll-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in list(op.body.ops):
            if not isinstance(function, FuncOp) or function.sym_name.data != "step":
                continue
            loops = list(_long_loops(function, 1))
            shown = [o for o in operations_of(function) if isinstance(o, nn.ObserveOp)]
            if not loops and not shown:
                continue
            errors = error_record(function)
            (words,) = add_arguments(function, [(Slot(SlotKind.POLL), WORDS)])
            for loop in loops:
                _poll(function, InsertPoint.at_start(loop.body.block), words, errors)
            for node in shown:
                if not isinstance(node.next_op, nn.ObserveOp):
                    _poll(function, InsertPoint.after(node), words, errors)
            begin = as_hosts(CallOp(BEGIN, [words], []), function)
            LoopBuilder(InsertPoint.at_start(function.body.block)).do(begin)
            op.body.block.add_op(FuncOp.external(POLL, [WORDS], [i1]))
            op.body.block.add_op(FuncOp.external(BEGIN, [WORDS], []))


def _long_loops(op: Operation, around: int) -> list[scf.ForOp]:
    """The loops inside of an operation that need a look; it runs `around` times between two looks."""
    found: list[scf.ForOp] = []
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                times = around
                if isinstance(inner, scf.ForOp) and TILED not in inner.attributes:
                    rounds = rounds_of(inner)
                    times = FEW + 1 if rounds is None else around * rounds
                    if times > FEW:
                        found.append(inner)
                        times = 1
                found += _long_loops(inner, times)
    return found


def _poll(step: FuncOp, place: InsertPoint, words: SSAValue, errors: SSAValue) -> None:
    build = LoopBuilder(place)
    interrupted = build.insert(as_hosts(CallOp(POLL, [words], [i1]), step))
    interrupted.name_hint = "interrupted"
    note_interrupted(build, interrupted, errors)
    build.do(nn.LeaveIfOp(interrupted))


def note_interrupted(build: LoopBuilder, condition: SSAValue, errors: SSAValue) -> None:
    """Tells the host, where a condition holds, that the step ends because of what the host knows."""

    def record() -> None:
        build.store(build.constant(INTERRUPTED, i64), errors, [3])
        build.store(build.constant(1, i64), errors, [0])

    build.when(condition, record)
