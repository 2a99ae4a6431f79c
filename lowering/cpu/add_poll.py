"""The pass `add-poll`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from openinfer.lowering.cpu.written_functions import add_written, lacks_body

MARK = "openinfer_poll"


@dataclass(frozen=True)
class AddPoll(ModulePass):
    """
    Add what asks the host whether a step was interrupted.

    Before:
        llvm.func @openinfer_poll(!llvm.ptr) -> i1

    After:
        llvm.func @openinfer_interrupted() -> i32
        llvm.func internal @openinfer_poll(%words: !llvm.ptr) -> i1 { … }

    Requires: `convert-to-llvm`.
    Leaves: modules that do not ask as they are.
    """

    name: ClassVar[str] = "add-poll"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if lacks_body(op, MARK):
            add_written(op, "poll.mlir")
