"""The pass `convert-to-llvm`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import func, llvm, memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.llvm import LinkageAttr, LLVMFunctionType
from xdsl.ir import Operation, Region
from xdsl.passes import ModulePass

from openinfer.dialects.extensions.llvm import LLVM
from openinfer.dialects.nn import InterfaceOp
from openinfer.lowering.cpu.early_kernels import taker
from openinfer.lowering.cpu.llvm_ir.literals import DEVICE_CODE
from openinfer.lowering.cpu.to_llvm import arith as arith_rules
from openinfer.lowering.cpu.to_llvm import func as func_rules
from openinfer.lowering.cpu.to_llvm import math as math_rules
from openinfer.lowering.cpu.to_llvm import memref as memref_rules
from openinfer.lowering.cpu.to_llvm import pairs as pair_rules
from openinfer.lowering.cpu.to_llvm import scf as scf_rules
from openinfer.lowering.cpu.to_llvm import vector as vector_rules
from openinfer.lowering.cpu.to_llvm import views as view_rules
from openinfer.lowering.cpu.to_llvm import words as word_rules
from openinfer.lowering.cpu.to_llvm.converter import Converter, Rule
from openinfer.lowering.cpu.to_llvm.types import convert_type
from openinfer.lowering.facts import Facts
from openinfer.lowering.kernels.units import is_elsewhere
from openinfer.lowering.operations import operations_of
from openinfer.runtime.errors import CompileError

RULES: dict[str, Rule] = {
    **arith_rules.RULES,
    **func_rules.RULES,
    **math_rules.RULES,
    **memref_rules.RULES,
    **pair_rules.RULES,
    **scf_rules.RULES,
    **vector_rules.RULES,
    **view_rules.RULES,
    **word_rules.RULES,
    **{op.name: func_rules.keep for op in LLVM.operations},
}
"""Every op that may stand at the `threads` level, with its conversion."""


@dataclass(frozen=True)
class ConvertToLlvm(ModulePass):
    """
    Turn functions of the `threads` level into functions of the `llvm` dialect, in one walk.

    Before:
        func.func @scale(%x: memref<?xf32>, %i: index) {
          %v = memref.load %x[%i] : memref<?xf32>
          %w = arith.addf %v, %v : f32
          memref.store %w, %x[%i] : memref<?xf32>
          func.return
        }

    After:
        llvm.func @scale(%x: !llvm.ptr, %x_size0: i64, %i: i64) {
          %0 = llvm.getelementptr inbounds %x[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
          %v = llvm.load %0 {alignment = 4 : i64} : !llvm.ptr -> f32
          %w = llvm.fadd %v, %v : f32
          llvm.store %w, %0 {alignment = 4 : i64} : f32, !llvm.ptr
          llvm.return
        }

    Requires: only ops of memref, vector, arith, math, scf, cf, func and llvm; 1-D vectors; bools in
    memory as i8; math functions of f32 that should be fast are expanded (`expand-math`).
    Leaves: a module of `llvm` functions and globals; modules of SPIR-V as they are.
    """

    name: ClassVar[str] = "convert-to-llvm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = {f.sym_name.data: f.function_type for f in op.ops if isinstance(f, func.FuncOp)}
        needed: dict[str, LLVMFunctionType] = {}
        defined: set[str] = set()
        # Every target but the plain x86-64 has F16C and fused multiply-adds.
        target = Facts.of(op).target
        has_half_conversions = target.name != "generic"
        known: dict[str, llvm.FuncOp | None] = dict.fromkeys(functions)
        take = taker()
        # LLVM begins with the first that is converted: what takes long comes first, and calls are known.
        for child in sorted(op.ops, key=_turn):
            if isinstance(child, func.FuncOp):
                converter = Converter(RULES, functions, has_half_conversions, target)
                converted: Operation = _convert_function(child, converter)
                needed.update(converter.needed)
                if not converted.body.blocks and not is_elsewhere(converted):
                    known[child.sym_name.data] = converted
            elif isinstance(child, memref.GlobalOp):
                converted = memref_rules.convert_global(child)
            elif isinstance(child, InterfaceOp) or child.name == DEVICE_CODE:
                continue
            elif isinstance(child, llvm.FuncOp | llvm.GlobalOp):
                defined.add(child.sym_name.data)
                continue
            else:
                raise CompileError(
                    "OI0980", f"'{child.name}' is not allowed at the top of a loops module"
                )
            converted.location = child.location
            block = op.body.block
            block.insert_op_before(converted, child)
            # Nothing uses what is inside: taking uses of thousands of ops back would change nothing.
            child.detach()
            if take is not None and isinstance(converted, llvm.FuncOp) and converted.body.blocks:
                for name in needed.keys() - known.keys():
                    known[name] = _outside(name, needed[name])
                take(op, converted, known)
        _declare(op, {k: v for k, v in needed.items() if k not in defined | set(functions)})


def _turn(op: Operation) -> int:
    """Sorts what is converted: declarations, then functions, the largest first."""
    if not isinstance(op, func.FuncOp) or not op.body.blocks:
        return -(2**63)
    return -len(operations_of(op))


def _convert_function(op: func.FuncOp, converter: Converter) -> llvm.FuncOp:
    if not op.body.blocks:
        return func_rules.make_function(op, Region())
    try:
        body = _convert_body(converter, op)
    except CompileError as error:
        message = f"in @{op.sym_name.data}: {error.message}"
        raise CompileError(error.code, message, hint=error.hint) from error
    return func_rules.make_function(op, body)


def _convert_body(c: Converter, op: func.FuncOp) -> Region:
    blocks = list(op.body.blocks)
    func_rules.bind_arguments(c, blocks[0].args, c.entry)
    c.set_target(blocks[0], c.entry)
    for block in blocks[1:]:
        made = c.new_block([convert_type(argument.type) for argument in block.args])
        c.set_target(block, made)
        for old, new in zip(block.args, made.args, strict=True):
            c.set(old, new)
    for block in blocks:
        if block is not blocks[0]:
            c.enter(c.target(block))
            c.forget()
        terminator = c.convert_block(block)
        c.convert_op(RULES, terminator)
    return c.finish()


def _declare(module: ModuleOp, needed: dict[str, LLVMFunctionType]) -> None:
    """Declare the functions of the C library that bodies call, in a fixed order."""
    declarations: Sequence[Operation] = [_outside(name, needed[name]) for name in sorted(needed)]
    module.body.block.add_ops(declarations)


def _outside(name: str, type: LLVMFunctionType) -> llvm.FuncOp:
    return llvm.FuncOp(name, type, LinkageAttr("external"))
