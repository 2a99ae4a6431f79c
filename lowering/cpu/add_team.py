"""The pass `add-team`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from openinfer.lowering.cpu.add_jobs import JOB, add_jobs, fork_functions
from openinfer.lowering.cpu.written_functions import add_written, lacks_body

MARK = "openinfer_team_wait"


@dataclass(frozen=True)
class AddTeam(ModulePass):
    """
    Add what lets several threads run one step: tickets, the lead's call, the worker's loop.

    Before:
        llvm.func @openinfer_team_take(!llvm.ptr, i64) -> i1
        llvm.func @openinfer_step(%frame: !llvm.ptr) { … }

    After:
        llvm.func @openinfer_team_take(%team: !llvm.ptr, %ticket: i64) -> i1 { … }
        llvm.func @openinfer_step(%frame: !llvm.ptr) { … }
        llvm.func @openinfer_lead(%frame: !llvm.ptr, %team: !llvm.ptr) { … }
        llvm.func @openinfer_worker(%team: !llvm.ptr, %frame: !llvm.ptr, %thread: i64) { … }

    Requires: `add-entry`.
    Leaves: modules whose loops are not shared as they are.
    """

    name: ClassVar[str] = "add-team"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not lacks_body(op, MARK):
            return
        step = "openinfer_step"
        if fork_functions(op):
            # The lead alone runs the step; what it opens to the others are jobs.
            step = JOB
            add_jobs(op)
        add_written(op, "team.mlir", step)
