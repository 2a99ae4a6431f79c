"""Tensors become buffers: one new buffer for each result, copies wherever meaning needs them.

This pass is only correct, not thrifty: `elide-copies` takes away the copies that nobody needs and
`plan-memory` gives the buffers their places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ModuleOp,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from openinfer.lowering.buffers import bufferize_flow, bufferize_states, bufferize_values
from openinfer.lowering.buffers.bufferizer import Bufferizer, Rule
from openinfer.lowering.interface import strings

_RULES: dict[type[Operation], Rule] = {
    **bufferize_values.RULES,
    **bufferize_flow.RULES,
    **bufferize_states.RULES,
}


@dataclass(frozen=True)
class Bufferize(ModulePass):
    """Gives every tensor a buffer; operations write into destinations.

    Before:
        %y = nn.softmax(%x) {axis = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
        func.return %y : tensor<4xf32>
    After:
        %y = memref.alloc() : memref<4xf32>
        nn.softmax(%x) outs(%y) {axis = 0 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
        nn.publish %y "y" : memref<4xf32>

    Requires: level `linalg`.
    Leaves: no tensors. Families are bytes, members are views of them; what the step returns is
        published; `prepare` functions write their result into their last argument.
    """

    name: ClassVar[str] = "bufferize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        outputs = strings(op, "outputs")
        for function in list(op.body.ops):
            if isinstance(function, FuncOp) and not function.is_declaration:
                Bufferizer(op, function, outputs, _RULES).run()
