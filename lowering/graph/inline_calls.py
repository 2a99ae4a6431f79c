"""Calls of blocks with parameters become the statements of the blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from openinfer.lowering.operations import take_body
from openinfer.lowering.program.check_calls import without_calls


@dataclass(frozen=True)
class InlineCalls(ModulePass):
    """Calls of blocks with parameters become the statements of the blocks.

    Before:
        graph.call dense(h, "fc1") -> (y)
        graph.block dense(x, path) {
          graph.variable w constant f32 [_, _] {ref = "{path}.weight"}
          graph.op linear(x, w) -> (h)
          graph.return (h)
        }
    After:
        graph.variable fc1_w constant f32 [_, _] {ref = "fc1.weight"}
        graph.op linear(h, fc1_w) -> (y)

    Requires: a program. A text is read without calls: only a module that a pass of the imports made has any.
    Leaves: blocks without parameters. Raises ProgramError for a call that does not fit its block.
    """

    name: ClassVar[str] = "inline-calls"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        plain = without_calls(op)
        if plain is not op:
            take_body(op, plain)
