"""The pass `add-trace`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from openinfer.lowering.cpu.written_functions import add_written, lacks_body

MARK = "openinfer_stamp"


@dataclass(frozen=True)
class AddTrace(ModulePass):
    """
    Add what writes the record of a traced step.

    Before:
        llvm.func @openinfer_stamp(!llvm.ptr, i64, i64)

    After:
        llvm.func @clock_gettime(i32, !llvm.ptr) -> i32
        llvm.func @openinfer_stamp(%trace: !llvm.ptr, %stamp: i64, %value: i64) { … }

    Requires: `convert-to-llvm`.
    Leaves: modules without stamps as they are.
    """

    name: ClassVar[str] = "add-trace"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if lacks_body(op, MARK):
            add_written(op, "trace.mlir")
