"""Each distinct operation becomes one function, compiled once however often it is used.

Work on single elements is no kernel: it becomes scalar code of the step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType, ModuleOp, StringAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from openinfer.dialects import nn
from openinfer.lowering.buffers.uses import captured
from openinfer.lowering.hints import set_hints
from openinfer.lowering.kernels.scalar_code import emit_scalar_code, is_scalar_code
from openinfer.lowering.linalg.generic import REDUCTION
from openinfer.lowering.locations import absorb_nodes, give_location
from openinfer.lowering.places import keep_place


@dataclass(frozen=True)
class OutlineKernels(ModulePass):
    """Moves operations on buffers into functions of their own; equal ones share a function.

    Before:
        nn.softmax(%x) outs(%y) {axis = 1 : i64} : (memref<4x8xf32>, memref<4x8xf32>) -> ()
    After:
        func.call @softmax_0(%x, %y) : (memref<4x8xf32>, memref<4x8xf32>) -> ()

    An elementwise op or a fill of rank 0 becomes loads, arithmetic and a store
    (`lowering/kernels/scalar_code.py`).

    Requires: buffers.
    Leaves: in `@step` only control flow, sizes, memory, scalar code and calls.
    """

    name: ClassVar[str] = "outline-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels: dict[str, str] = {}
        for function in list(op.body.ops):
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                for inner in list(function.walk()):
                    if is_scalar_code(inner):
                        emit_scalar_code(inner)
                    elif _is_kernel(inner):
                        outline(op, inner, _base_name(inner), kernels)


def _is_kernel(op: Operation) -> bool:
    if isinstance(op, linalg.GenericOp | linalg.FillOp):
        return True
    return isinstance(op, nn.NNOp) and op.on_buffers


def _base_name(op: Operation) -> str:
    if isinstance(op, linalg.GenericOp):
        return "reduce" if REDUCTION in op.iterator_types.data else "elementwise"
    return op.name.partition(".")[2]


def outline(module: ModuleOp, op: Operation, base: str, kernels: dict[str, str]) -> None:
    """Moves an op into a function of its own, or calls the one that is equal to it. `kernels` are those that
    there are, by their texts; the name of a new one begins with `base`."""
    operands = list(dict.fromkeys([*op.operands, *captured(op)]))
    passed = [v for v in operands if isinstance(v.type, MemRefType)]
    local = [v for v in operands if not isinstance(v.type, MemRefType)]
    block = Block(arg_types=[v.type for v in passed])
    mapping: dict[SSAValue, SSAValue] = dict(zip(passed, block.args))
    for value in local:
        owner = value.owner
        if isinstance(owner, arith.ConstantOp | nn.SizeOp):
            # Cheaper to say again than to pass.
            copy = owner.clone()
            block.add_op(copy)
            mapping[value] = copy.results[0]
        else:
            argument = block.insert_arg(value.type, len(passed))
            passed.append(value)
            mapping[value] = argument
    body = op.clone(mapping)
    # The call has them: kernels are the same whatever is wished of them.
    set_hints(body, {})
    block.add_ops([body, ReturnOp()])
    kernel = FuncOp("kernel", ([a.type for a in block.args], []), Region(block), "private")
    key = str(kernel)
    name = kernels.get(key)
    if name is None:
        count = sum(1 for known in kernels.values() if known.rpartition("_")[0] == base)
        name = kernels[key] = f"{base}_{count}"
        kernel.properties["sym_name"] = StringAttr(name)
        for value, argument in zip(passed, block.args):
            argument.name_hint = value.name_hint
        give_location(op.location, kernel)
        module.body.block.add_op(kernel)
    call = CallOp(name, passed, [])
    give_location(op.location, call)
    absorb_nodes(call, op)
    keep_place(op, call)
    parent = op.parent_block()
    assert parent is not None
    parent.insert_op_before(call, op)
    op.detach()
    op.erase()
