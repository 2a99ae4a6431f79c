"""An instruction of a function of SPIR-V words as an op, by its row in the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from xdsl.dialects.builtin import IntegerAttr, IntegerType, SymbolRefAttr, VectorType, i32
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects.spirv.composite_ops import (
    CompositeConstructOp,
    CompositeExtractOp,
    CompositeInsertOp,
    MatrixLengthOp,
    VectorShuffleOp,
    indices_of,
)
from openinfer.dialects.spirv.enums import (
    MatrixLayoutAttr,
    MatrixReduceAttr,
    MemoryAccessAttr,
    StorageClassAttr,
)
from openinfer.dialects.spirv.forms import Form
from openinfer.dialects.spirv.memory_ops import (
    AccessChainOp,
    InBoundsPtrAccessChainOp,
    LoadOp,
    PtrAccessChainOp,
    StoreOp,
    VariableOp,
)
from openinfer.dialects.spirv.structure_ops import FunctionCallOp
from openinfer.dialects.spirv.tensor_ops import (
    LoadTensorOp,
    PerElementOp,
    ReduceOp,
    SetClampValueOp,
    SetDimensionOp,
    SetStrideOp,
    SliceOp,
    StoreTensorOp,
)
from openinfer.dialects.spirv.types import CooperativeMatrixType
from openinfer.dialects.spirv.value_ops import VALUE_OPS
from openinfer.lowering.vulkan.read_globals import Globals, cannot_hold, name_of
from openinfer.lowering.vulkan.write_op import opcode_name
from openinfer.runtime.spirv.instructions import EXTENDED, MASKS
from openinfer.runtime.spirv.words import Instruction, number

_ALIGNED = MemoryAccessAttr.of("Aligned").data
_MORE_OPERANDS = MemoryAccessAttr.of("MakePointerAvailable|MakePointerVisible").data
_PLAIN = {
    opcode_name(op.build(operands=[[]], result_types=[[]])): op
    for name, op in VALUE_OPS.items()
    if not name.startswith("GL.")
}
_EXTENDED = {
    number: VALUE_OPS[f"GL.{name}"]
    for name, number in EXTENDED.items()
    if f"GL.{name}" in VALUE_OPS
}
_KINDS = {"scope": "Scope", "semantics": "MemorySemantics"}


class _Function(Protocol):
    """What is asked of the function around."""

    globals: Globals
    symbols: dict[int, str]
    variables: list[Operation]
    values: dict[int, SSAValue]

    def value(self, name: int, one: Instruction) -> SSAValue: ...
    def define(self, one: Instruction, value: SSAValue) -> None: ...
    def put(self, op: Operation) -> None: ...


def read_op(function: _Function, one: Instruction) -> None:
    """Appends the op of an instruction."""
    name = one.row.name
    if name == "Undef":
        function.globals.declare_constant(one)
        return
    if name == "CopyObject":
        function.define(one, function.value(one.of("id")[0], one))
        return
    op = _READERS[name](function, one) if name in _READERS else _plain(function, one)
    if one.result is not None:
        op.attributes |= function.globals.attributes(one)
    if name == "Variable":
        function.variables.append(op)
    else:
        function.put(op)
    if op.results:
        function.define(one, op.results[0])


def _type(function: _Function, one: Instruction) -> Attribute:
    return function.globals.type(one.of("type")[0], one)


def _operands(function: _Function, one: Instruction) -> list[SSAValue]:
    return [function.value(name, one) for name in one.of("id")]


def _plain(function: _Function, one: Instruction) -> Operation:
    """An op of a form: ids are operands, numbers of enumerations are properties."""
    cls = _PLAIN.get(one.row.name)
    if cls is None:
        cannot_hold(one, "the dialect lacks it")
    operands: list[SSAValue] = []
    properties: dict[str, Attribute] = {}
    for part in one.parts:
        if part.kind == "id":
            operands.append(function.value(number(part), one))
        elif part.kind not in {"type", "result"}:
            kind = _KINDS.get(part.kind, part.kind)
            found = next(
                (
                    (key, enum)
                    for key, enum in cls.ENUMS.items()
                    if enum.kind == kind and key not in properties
                ),
                None,
            )
            if found is None:
                cannot_hold(one, f"the dialect has no {kind} of it")
            value = number(part)
            if part.kind in _KINDS:
                value = function.globals.integer(value, one)
                if kind in MASKS and value & ~sum(found[1].numbers.values()):
                    cannot_hold(one, f"{value:#x} are no bits of {kind}")
                if kind not in MASKS:
                    name_of(kind, value)
            properties[found[0]] = found[1](value)
    result = [_type(function, one)] if one.of("type") else []
    operands = _signed_alike(function, cls.FORM, operands, result)
    return cls.build(operands=[operands], result_types=[result], properties=properties)


def _signed_alike(
    function: _Function, form: Form, operands: list[SSAValue], result: list[Attribute]
) -> list[SSAValue]:
    """Words mix integers with and without sign in one instruction, the dialect does not."""
    bound: dict[str, Attribute] = {}
    if result and form.result is not None:
        bound[form.result] = result[0]
    found: list[SSAValue] = []
    for letter, value in zip(form.operands, operands):
        wanted = bound.setdefault(letter, value.type)
        if value.type != wanted and _unsigned(value.type) == _unsigned(wanted):
            cast = VALUE_OPS["Bitcast"].make(value, result=wanted)
            function.put(cast)
            value = cast.results[0]
        found.append(value)
    return [*found, *operands[len(found) :]]


def _unsigned(type_: Attribute) -> Attribute:
    """An integer, or a vector of them, without its sign."""
    if isinstance(type_, VectorType):
        return VectorType(_unsigned(type_.element_type), type_.get_shape())
    return IntegerType(type_.width.data) if isinstance(type_, IntegerType) else type_


def _extended(function: _Function, one: Instruction) -> Operation:
    library = function.globals.libraries.get(one.of("id")[0])
    cls = _EXTENDED.get(one.of("word")[0]) if library == "GLSL.std.450" else None
    if cls is None:
        cannot_hold(one, f"the dialect lacks {one.of('word')[0]} of {library}")
    operands = [function.value(name, one) for name in one.of("id")[1:]]
    result = [_type(function, one)]
    operands = _signed_alike(function, cls.FORM, operands, result)
    return cls.build(operands=[operands], result_types=[result])


def _access(function: _Function, one: Instruction) -> Operation:
    properties: dict[str, Attribute] = {}
    access = one.first("MemoryAccess")
    if access is not None:
        if access & _MORE_OPERANDS:
            cannot_hold(one, "the dialect has no availability of an access")
        properties["memory_access"] = MemoryAccessAttr(access)
        if access & _ALIGNED:
            properties["alignment"] = IntegerAttr(one.of("word")[0], i32)
    operands = _operands(function, one)
    if one.row.name == "Store":
        return StoreOp.build(operands=operands, properties=properties)
    return LoadOp.build(
        operands=operands, result_types=[_type(function, one)], properties=properties
    )


def _chain(function: _Function, one: Instruction) -> Operation:
    base, *indices = _operands(function, one)
    cls = {"PtrAccessChain": PtrAccessChainOp, "InBoundsPtrAccessChain": InBoundsPtrAccessChainOp}
    return cls.get(one.row.name, AccessChainOp).build(
        operands=[base, indices], result_types=[_type(function, one)]
    )


def _variable(function: _Function, one: Instruction) -> Operation:
    return VariableOp.build(
        operands=[_operands(function, one)],
        result_types=[_type(function, one)],
        properties={"storage_class": StorageClassAttr(one.of("StorageClass")[0])},
    )


def _construct(function: _Function, one: Instruction) -> Operation:
    return CompositeConstructOp.build(
        operands=[_operands(function, one)], result_types=[_type(function, one)]
    )


def _indexed(function: _Function, one: Instruction) -> Operation:
    cls = {"CompositeExtract": CompositeExtractOp, "CompositeInsert": CompositeInsertOp}
    key = "components" if one.row.name == "VectorShuffle" else "indices"
    return cls.get(one.row.name, VectorShuffleOp).build(
        operands=_operands(function, one),
        result_types=[_type(function, one)],
        properties={key: indices_of(one.of("word"))},
    )


def _length(function: _Function, one: Instruction) -> Operation:
    type_ = function.globals.type(one.of("id")[0], one)
    if not isinstance(type_, CooperativeMatrixType):
        cannot_hold(one, f"the length of {type_}")
    return MatrixLengthOp.build(
        result_types=[_type(function, one)], properties={"cooperative_matrix_type": type_}
    )


def _matrix_memory(function: _Function, one: Instruction) -> Operation:
    ids, load = one.of("id"), one.row.name.startswith("CooperativeMatrixLoad")
    front = 1 if load else 2
    if len(ids) != front + 2:
        cannot_hold(one, "a matrix in memory has a stride")
    layout = function.globals.integer(ids[front], one)
    name_of("CooperativeMatrixLayout", layout)
    properties: dict[str, Attribute] = {"matrix_layout": MatrixLayoutAttr(layout)}
    access = one.first("MemoryAccess")
    if access is not None:
        if access & (_ALIGNED | _MORE_OPERANDS):
            cannot_hold(one, "the dialect has no alignment or availability of a matrix")
        properties["memory_operand"] = MemoryAccessAttr(access)
    operands = [function.value(name, one) for name in (*ids[:front], ids[-1])]
    cls = VALUE_OPS[f"KHR.CooperativeMatrix{'Load' if load else 'Store'}"]
    result = [_type(function, one)] if load else []
    return cls.build(operands=[operands], result_types=[result], properties=properties)


_LAYOUTS = {
    f"{op.name.removeprefix('spirv.NV.')}NV": op
    for op in (SetClampValueOp, SetDimensionOp, SetStrideOp, SliceOp)
}


def _layout(function: _Function, one: Instruction) -> Operation:
    layout, *numbers = _operands(function, one)
    plain: list[SSAValue] = []
    for value in numbers:
        if value.type != i32 and _unsigned(value.type) == i32:
            cast = VALUE_OPS["Bitcast"].make(value, result=i32)
            function.put(cast)
            value = cast.results[0]
        plain.append(value)
    return _LAYOUTS[one.row.name].build(
        operands=[layout, plain], result_types=[_type(function, one)]
    )


def _tensor_memory(function: _Function, one: Instruction) -> Operation:
    properties: dict[str, Attribute] = {}
    if access := one.of("MemoryAccess")[0]:
        if access & (_ALIGNED | _MORE_OPERANDS):
            cannot_hold(one, "the dialect has no alignment or availability of a matrix")
        properties["memory_operand"] = MemoryAccessAttr(access)
    if one.of("TensorAddressingOperands")[0] & ~1:
        cannot_hold(one, "the dialect has no functions that decode what is loaded")
    pointer, value, layout, *view = _operands(function, one)
    operands = [pointer, value, layout, view]
    if one.result is None:
        return StoreTensorOp.build(operands=operands, properties=properties)
    result = [_type(function, one)]
    return LoadTensorOp.build(operands=operands, result_types=result, properties=properties)


def _function_of(function: _Function, name: int, one: Instruction) -> SymbolRefAttr:
    if name not in function.symbols:
        cannot_hold(one, f"%{name} is no function")
    return SymbolRefAttr(function.symbols[name])


def _per_element(function: _Function, one: Instruction) -> Operation:
    matrix, callee, *others = one.of("id")
    return PerElementOp.build(
        operands=[[function.value(name, one) for name in (matrix, *others)]],
        result_types=[_type(function, one)],
        properties={"function": _function_of(function, callee, one)},
    )


def _reduce(function: _Function, one: Instruction) -> Operation:
    matrix, callee = one.of("id")
    return ReduceOp.build(
        operands=[function.value(matrix, one)],
        result_types=[_type(function, one)],
        properties={
            "reduce": MatrixReduceAttr(one.of("CooperativeMatrixReduce")[0]),
            "function": _function_of(function, callee, one),
        },
    )


def _call(function: _Function, one: Instruction) -> Operation:
    callee, *arguments = one.of("id")
    type_ = function.globals.types.get(one.of("type")[0])
    result = [] if type_ == function.globals.nothing else [_type(function, one)]
    return FunctionCallOp.build(
        operands=[[function.value(name, one) for name in arguments]],
        result_types=[result],
        properties={"callee": _function_of(function, callee, one)},
    )


_READERS: dict[str, Callable[[_Function, Instruction], Operation]] = {
    "AccessChain": _chain,
    "CompositeConstruct": _construct,
    "CompositeExtract": _indexed,
    "CompositeInsert": _indexed,
    "CooperativeMatrixLengthKHR": _length,
    "CooperativeMatrixLoadKHR": _matrix_memory,
    "CooperativeMatrixLoadTensorNV": _tensor_memory,
    "CooperativeMatrixPerElementOpEXT": _per_element,
    "CooperativeMatrixReduceEXT": _reduce,
    "CooperativeMatrixStoreKHR": _matrix_memory,
    "CooperativeMatrixStoreTensorNV": _tensor_memory,
    "ExtInst": _extended,
    "FunctionCall": _call,
    "InBoundsAccessChain": _chain,
    "InBoundsPtrAccessChain": _chain,
    "Load": _access,
    "PtrAccessChain": _chain,
    "Store": _access,
    "Variable": _variable,
    "VectorShuffle": _indexed,
    **dict.fromkeys(_LAYOUTS, _layout),
}
