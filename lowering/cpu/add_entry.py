"""The pass `add-entry`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import llvm
from xdsl.dialects.builtin import IntegerType, ModuleOp, UnitAttr, i1, i8
from xdsl.dialects.llvm import LinkageAttr, LLVMFunctionType, LLVMVoidType
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from openinfer.dialects.extensions.llvm_atomics import StoreOp
from openinfer.lowering.attributes import dense_i32, i32_attribute
from openinfer.lowering.cpu.to_llvm.types import POINTER
from openinfer.runtime.errors import CompileError

ENTRY_PREFIX = "openinfer_"


@dataclass(frozen=True)
class AddEntry(ModulePass):
    """
    Add the function that the host calls: it takes one packed array instead of a list of arguments.

    Before:
        llvm.func internal @step(%x: !llvm.ptr, %n: i64) { llvm.return }

    After:
        llvm.func @openinfer_step(%frame: !llvm.ptr) {
          %x = llvm.load %frame {alignment = 8 : i64} : !llvm.ptr -> !llvm.ptr
          %0 = llvm.getelementptr inbounds %frame[8] : (!llvm.ptr) -> !llvm.ptr, i8
          %n = llvm.load %0 {alignment = 8 : i64} : !llvm.ptr -> i64
          llvm.call @step(%x, %n) : (!llvm.ptr, i64) -> ()
          llvm.return
        }

    Each argument has a slot of 8 bytes, in order; a result is written to the slot after the last.

    Requires: `symbol` is an `llvm.func` of the module, whose arguments each fit in 8 bytes.
    Leaves: `symbol` as it was, made internal.
    """

    name: ClassVar[str] = "add-entry"

    symbol: str | None = None
    """The function to make callable; None: every public one."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = [f for f in op.ops if isinstance(f, llvm.FuncOp)]
        if self.symbol is None:
            for function in functions:
                name = function.sym_name.data
                external = function.linkage.linkage.data == "external"
                if external and function.body.blocks and not name.startswith(ENTRY_PREFIX):
                    function.linkage = LinkageAttr("internal")
                    op.body.block.add_op(_entry_function(function))
            return
        found = next((f for f in functions if f.sym_name.data == self.symbol), None)
        if found is None:
            known = ", ".join(f"@{f.sym_name.data}" for f in functions) or "none"
            raise CompileError(
                "OI0983",
                f"add-entry: the module has no llvm.func @{self.symbol}",
                hint=f"functions of the module: {known}",
            )
        found.linkage = LinkageAttr("internal")
        op.body.block.add_op(_entry_function(found))


def _entry_function(step: llvm.FuncOp) -> llvm.FuncOp:
    block = Block(arg_types=[POINTER])
    frame = block.args[0]
    frame.name_hint = "frame"
    builder = Builder(InsertPoint.at_end(block))
    arguments: list[SSAValue] = []
    for number, type in enumerate(step.function_type.inputs):
        value = builder.insert(llvm.LoadOp(slot_of(builder, frame, number), _stored(type), 8))
        argument = value.dereferenced_value
        argument.name_hint = (
            step.body.blocks[0].args[number].name_hint if step.body.blocks else None
        )
        if type == i1:
            argument = builder.insert(llvm.TruncOp(argument, i1)).res
        arguments.append(argument)
    output = step.function_type.output
    if isinstance(output, LLVMVoidType):
        builder.insert(llvm.CallOp(step.sym_name.data, *arguments))
    else:
        call = builder.insert(llvm.CallOp(step.sym_name.data, *arguments, return_type=output))
        result = call.returned
        assert result is not None
        if output == i1:
            result = builder.insert(llvm.ZExtOp(result, i8)).res
        builder.insert(StoreOp(result, slot_of(builder, frame, len(arguments)), 8))
    builder.insert(llvm.ReturnOp.create())
    return llvm.FuncOp(
        ENTRY_PREFIX + step.sym_name.data,
        LLVMFunctionType([POINTER]),
        LinkageAttr("external"),
        body=Region(block),
    )


def _stored(type: Attribute) -> Attribute:
    """The type by which an argument lies in its slot; a truth value is a whole byte."""
    if isinstance(type, IntegerType) and type.bitwidth < 8:
        return i8
    return type


def slot_of(builder: Builder, frame: SSAValue, number: int) -> SSAValue:
    """The address of a slot of 8 bytes."""
    if number == 0:
        return frame
    properties = {"rawConstantIndices": dense_i32((8 * number,)), **_BYTES}
    gep = llvm.GEPOp.create(operands=(frame,), result_types=(POINTER,), properties=properties)
    return builder.insert(gep).result


_BYTES: dict[str, Attribute] = {
    "elem_type": i8,
    "noWrapFlags": i32_attribute(0),
    "inbounds": UnitAttr(),
}
