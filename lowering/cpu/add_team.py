"""The pass `add-team`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.passes import ModulePass

from openinfer.dialects.extensions import get_all_dialects
from openinfer.lowering.cpu.add_jobs import JOB, add_jobs, fork_functions

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
        declared = {f.sym_name.data: f for f in op.body.ops if isinstance(f, llvm.FuncOp)}
        mark = declared.get(MARK)
        if mark is None or mark.body.blocks:
            return
        shared = "openinfer_step"
        if fork_functions(op):
            # The lead alone runs the step; what it opens to the others are jobs.
            shared = JOB
            add_jobs(op)
            declared = {f.sym_name.data: f for f in op.body.ops if isinstance(f, llvm.FuncOp)}
        for function in _protocol(shared):
            old = declared.get(function.sym_name.data)
            if old is not None:
                if not function.body.blocks:
                    continue
                old.detach()
                old.erase()
            op.body.block.add_op(function.clone())


@cache
def _protocol(shared: str) -> tuple[llvm.FuncOp, ...]:
    """The functions of `team.mlir`, whose threads share calls of the function `shared`.

    Read once: for a small program the text would cost as much as all passes together.
    """
    text = files("openinfer.lowering.cpu").joinpath("team.mlir").read_text(encoding="utf-8")
    context = Context()
    for name, dialect in get_all_dialects().items():
        context.register_dialect(name, dialect)
    team = Parser(context, text.replace("@openinfer_step", f"@{shared}")).parse_module()
    return tuple(function for function in team.body.ops if isinstance(function, llvm.FuncOp))
