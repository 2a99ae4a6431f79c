"""The pass `add-team`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from openinfer.lowering.cpu.add_jobs import add_jobs, fork_functions


@dataclass(frozen=True)
class AddTeam(ModulePass):
    """
    Add what hands single kernels to the team of threads, where a step asks for it.

    Before:
        llvm.func @openinfer_fork_scale(%x: !llvm.ptr, %job: !llvm.ptr, %team: !llvm.ptr)

    After:
        llvm.func internal @openinfer_fork_scale(…) { … llvm.call @openinfer_lead(%job, %team) … }
        llvm.func internal @openinfer_job(%frame: !llvm.ptr) { … llvm.call @scale_shared(…) … }
        llvm.func @openinfer_lead(!llvm.ptr, !llvm.ptr)

    What lets threads run a step, or a job, together is the same in all programs: `team.ll`, which is put
    into the text (`team_text.py`).

    Requires: `add-entry`.
    Leaves: other modules as they are.
    """

    name: ClassVar[str] = "add-team"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if fork_functions(op):
            add_jobs(op)
