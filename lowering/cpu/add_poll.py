"""The pass `add-poll`."""

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
        declared = {f.sym_name.data: f for f in op.body.ops if isinstance(f, llvm.FuncOp)}
        mark = declared.get(MARK)
        if mark is None or mark.body.blocks:
            return
        for function in _functions():
            old = declared.get(function.sym_name.data)
            if old is not None:
                old.detach()
                old.erase()
            op.body.block.add_op(function.clone())


@cache
def _functions() -> tuple[llvm.FuncOp, ...]:
    """The functions of `poll.mlir`, read once."""
    text = files("openinfer.lowering.cpu").joinpath("poll.mlir").read_text(encoding="utf-8")
    context = Context()
    for name, dialect in get_all_dialects().items():
        context.register_dialect(name, dialect)
    module = Parser(context, text).parse_module()
    return tuple(function for function in module.body.ops if isinstance(function, llvm.FuncOp))
