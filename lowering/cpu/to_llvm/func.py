"""`func`, `cf` and what remains of `llvm` and `builtin` inside a body, to `llvm`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import cf, func, llvm
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    MemRefType,
    UnrealizedConversionCastOp,
)
from xdsl.dialects.llvm import LinkageAttr, LLVMFunctionType, LLVMPointerType, LLVMStructType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from openinfer.dialects.extensions.llvm import SwitchOp
from openinfer.lowering.attributes import dense_i64
from openinfer.lowering.cpu.to_llvm.converter import Converter, Rule
from openinfer.lowering.cpu.to_llvm.types import (
    argument_parts,
    convert_type,
    expanded_types,
)
from openinfer.lowering.cpu.to_llvm.views import buffer_from_parts, parts_of_buffer
from openinfer.lowering.operations import operands_of
from openinfer.runtime.errors import CompileError


def _result_type(types: Sequence[Attribute]) -> Attribute | None:
    """The one result of an `llvm` function: nothing, a value, or a struct of them."""
    if any(isinstance(type, MemRefType) for type in types):
        raise CompileError(
            "OI0980",
            "a function cannot return a memref",
            hint="pass the buffer that it fills as an argument",
        )
    converted = [convert_type(type) for type in types]
    if len(converted) < 2:
        return converted[0] if converted else None
    return LLVMStructType.from_type_list(converted)


def function_type(type: FunctionType) -> LLVMFunctionType:
    """The `llvm` type of a function, memref arguments expanded."""
    return LLVMFunctionType(expanded_types(list(type.inputs)), _result_type(list(type.outputs)))


def bind_arguments(c: Converter, arguments: Sequence[SSAValue], block: Block) -> None:
    """Give the entry block its expanded arguments and bind those of the `func` function."""
    for argument in arguments:
        type = argument.type
        hint = argument.name_hint
        if not isinstance(type, MemRefType):
            c.set(argument, block.insert_arg(convert_type(type), len(block.args)))
            continue
        parts: list[SSAValue] = []
        names = argument_parts(type)
        for part, part_type in zip(names, expanded_types([type]), strict=True):
            value = block.insert_arg(part_type, len(block.args))
            if hint is not None:
                value.name_hint = hint if part == "ptr" else f"{hint}_{part}"
            parts.append(value)
        c.set_buffer(argument, buffer_from_parts(c, type, parts))


def expanded_argument_attributes(op: func.FuncOp) -> ArrayAttr[DictionaryAttr] | None:
    """The argument attributes of the expanded signature: those of a memref go to its pointer."""
    if op.arg_attrs is None:
        return None
    attributes: list[DictionaryAttr] = []
    for type, own in zip(op.function_type.inputs, op.arg_attrs, strict=True):
        attributes.append(own)
        if isinstance(type, MemRefType):
            attributes += [DictionaryAttr({})] * (len(argument_parts(type)) - 1)
    return ArrayAttr(attributes)


def make_function(op: func.FuncOp, body: Region) -> llvm.FuncOp:
    """The `llvm.func` of a `func.func`: private ones become internal, attributes are kept."""
    private = op.sym_visibility is not None and op.sym_visibility.data == "private"
    internal = private and bool(body.blocks)
    return llvm.FuncOp(
        op.sym_name,
        function_type(op.function_type),
        LinkageAttr("internal" if internal else "external"),
        body=body,
        other_props={"arg_attrs": expanded_argument_attributes(op)},
        extra_attrs=dict(op.attributes),
    )


def _call(c: Converter, op: Operation) -> None:
    assert isinstance(op, func.CallOp)
    name = op.callee.root_reference.data
    callee = c.callee_types.get(name)
    if callee is None:
        raise CompileError("OI0980", f"'func.call' of @{name}, which the module does not have")
    inputs = list(cast(FunctionType, callee).inputs)
    operands: list[SSAValue] = []
    for argument, type in zip(op.arguments, inputs, strict=True):
        if isinstance(type, MemRefType):
            operands += parts_of_buffer(c, c.buffer(argument), type)
        else:
            operands.append(c.value(argument))
    result = _result_type([r.type for r in op.res])
    called = c.call(name, operands, result)
    if len(op.res) == 1:
        c.set(op.res[0], called[0])
    elif op.res:
        assert isinstance(result, LLVMStructType)
        for i, (old, type) in enumerate(zip(op.res, result.types, strict=True)):
            position = dense_i64([i])
            value = c.emit(llvm.ExtractValueOp, called, type, {"position": position})
            c.set(old, value)


def convert_return(c: Converter, op: Operation) -> None:
    """`func.return`, with several values packed into a struct."""
    values = c.values(operands_of(op))
    if len(values) > 1:
        type = _result_type([v.type for v in op.operands])
        assert type is not None
        packed = c.emit(llvm.UndefOp, (), type)
        for i, value in enumerate(values):
            position = dense_i64([i])
            packed = c.emit(llvm.InsertValueOp, (packed, value), type, {"position": position})
        values = [packed]
    c.append(llvm.ReturnOp.create(operands=values))


def _branch(c: Converter, op: Operation) -> None:
    assert isinstance(op, cf.BranchOp)
    c.branch(c.target(op.successor), c.values(op.arguments))


def _branch_if(c: Converter, op: Operation) -> None:
    assert isinstance(op, cf.ConditionalBranchOp)
    c.branch_if(
        c.value(op.cond),
        c.target(op.then_block),
        c.values(op.then_arguments),
        c.target(op.else_block),
        c.values(op.else_arguments),
    )


def _switch(c: Converter, op: Operation) -> None:
    assert isinstance(op, cf.SwitchOp)
    numbers = [int(v) for v in op.case_values.get_values()] if op.case_values else []
    switch = SwitchOp(
        c.value(op.flag),
        c.target(op.default_block),
        c.values(op.default_operands),
        numbers,
        [c.target(block) for block in op.case_blocks],
        [c.values(operands) for operands in op.case_operand],
    )
    c.append(switch)


def _cast_between_levels(c: Converter, op: Operation) -> None:
    """A memref seen as the address of its first element, or a number under its other name."""
    assert isinstance(op, UnrealizedConversionCastOp)
    if len(op.inputs) != 1 or len(op.outputs) != 1:
        raise CompileError("OI0980", f"'{op.name}' of {len(op.inputs)} values cannot be converted")
    source, target = op.inputs[0], op.outputs[0]
    if isinstance(source.type, MemRefType) and isinstance(target.type, LLVMPointerType):
        buffer = c.buffer(source)
        c.set(target, c.address(buffer.pointer, buffer.offset, buffer.element))
        return
    if isinstance(source.type, MemRefType) or isinstance(target.type, MemRefType):
        raise CompileError(
            "OI0980", f"'{op.name}' from {source.type} to {target.type} has no meaning"
        )
    value = c.value(source)
    if value.type != convert_type(target.type):
        raise CompileError(
            "OI0980", f"'{op.name}' from {source.type} to {target.type} has no meaning"
        )
    c.set(target, value)


def keep(c: Converter, op: Operation) -> None:
    """An op that is `llvm` already: only its operands change."""
    if op.regions:
        raise CompileError("OI0980", f"'{op.name}' with a region inside a function")
    made = type(op).create(
        operands=c.values(op.operands),
        result_types=[result.type for result in op.results],
        properties=op.properties,
        attributes=op.attributes,
        successors=[c.target(block) for block in op.successors],
        location=op.location,
    )
    c.block.add_op(made)
    for old, new in zip(op.results, made.results, strict=True):
        c.set(old, new)


def _leave_if(c: Converter, op: Operation) -> None:
    """The function ends here when the condition holds; what it should have given is lost."""
    leave, stay = c.new_block(), c.new_block()
    c.branch_if(c.value(op.operands[0]), leave, (), stay, ())
    c.enter(leave)
    c.append(llvm.ReturnOp())
    c.enter(stay)


RULES: dict[str, Rule] = {
    "nn.leave_if": _leave_if,
    "builtin.unrealized_conversion_cast": _cast_between_levels,
    "cf.br": _branch,
    "cf.cond_br": _branch_if,
    "cf.switch": _switch,
    "func.call": _call,
    "func.return": convert_return,
}
"""Rules by op name."""
