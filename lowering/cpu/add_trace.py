"""The pass `add-trace`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.passes import ModulePass

from openinfer.dialects.extensions import get_all_dialects

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
        declared = {f.sym_name.data: f for f in op.body.ops if isinstance(f, llvm.FuncOp)}
        mark = declared.get(MARK)
        if mark is None or mark.body.blocks:
            return
        text = files("openinfer.lowering.cpu").joinpath("trace.mlir").read_text(encoding="utf-8")
        context = Context()
        for name, dialect in get_all_dialects().items():
            context.register_dialect(name, dialect)
        mark.detach()
        mark.erase()
        for function in list(Parser(context, text).parse_module().body.ops):
            assert isinstance(function, llvm.FuncOp)
            function.detach()
            if function.sym_name.data not in declared or function.body.blocks:
                op.body.block.add_op(function)
