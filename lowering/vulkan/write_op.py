"""The ops of a function as SPIR-V words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import (
    IntegerAttr,
    IntegerType,
    NoneType,
)
from xdsl.ir import Block, Operation

from openinfer.dialects.spirv.composite_ops import (
    CompositeExtractOp,
    CompositeInsertOp,
    ConstantOp,
    MatrixLengthOp,
    VectorShuffleOp,
)
from openinfer.dialects.spirv.control_flow_ops import (
    BranchConditionalOp,
    BranchOp,
    MergeOp,
    SwitchOp,
)
from openinfer.dialects.spirv.enums import EnumAttr
from openinfer.dialects.spirv.forms import FormOp
from openinfer.dialects.spirv.global_ops import (
    AddressOfOp,
    ReferenceOfOp,
)
from openinfer.dialects.spirv.memory_ops import LoadOp, StoreOp, VariableOp
from openinfer.dialects.spirv.structure_ops import (
    FunctionCallOp,
)
from openinfer.dialects.spirv.tensor_ops import (
    LoadTensorOp,
    PerElementOp,
    ReduceOp,
    StoreTensorOp,
)
from openinfer.dialects.spirv.value_ops import VALUE_OPS
from openinfer.lowering.vulkan.write_sections import SectionsWriter, number_words, string_words
from openinfer.runtime.spirv.instructions import BY_NAME, ENUMERATIONS, EXTENDED

_GLSL = "GLSL.std.450"


def opcode_name(op: Operation) -> str:
    """The row of an op in the table: `spirv.KHR.CooperativeMatrixLoad` is `CooperativeMatrixLoadKHR`."""
    *vendor, name = op.name.removeprefix("spirv.").split(".")
    return name + "".join(vendor)


class OpWriter(SectionsWriter):
    """Writes ops, but for those with a body, into the function that is being written."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: dict[Block, int] = {}
        self.imported = 0
        # Of the function that is being written.
        self.header: list[int] = []
        self.body: list[int] = []

    def block_id(self, block: Block) -> int:
        if block not in self.blocks:
            self.blocks[block] = self.new_id()
        return self.blocks[block]

    def op(self, op: Operation) -> None:
        """An op of a function."""
        writer = _OPS.get(type(op))
        if writer is not None:
            writer(self, op)
        elif op.name.startswith("spirv.GL."):
            self.extended(op)
        else:
            self.plain(op)

    def result(self, op: Operation) -> list[int]:
        """The ids of type and result of an op."""
        if not op.results:
            return []
        type_id = self.type(op.results[0].type)
        name = self.values[op.results[0]] = self.new_id()
        return [type_id, name]

    def operands(self, op: Operation) -> list[int]:
        return [self.values[value] for value in op.operands]

    def plain(self, op: Operation) -> None:
        """An op as its row in the table says: ids of operands, and numbers of properties."""
        row = BY_NAME[opcode_name(op)]
        front = self.result(op)
        words, operands = list(front), iter(op.operands)
        enums = self.properties(op)
        for part in row.operands:
            if part.kind in {"type", "result"}:
                continue
            if part.kind == "id":
                for value in operands:
                    words.append(self.values[value])
                    if not part.repeats:
                        break
                continue
            if part.kind not in {"scope", "semantics"} and part.kind not in ENUMERATIONS:
                continue
            kind = {"scope": "Scope", "semantics": "MemorySemantics"}.get(part.kind, part.kind)
            found = next((one for one in enums if one.kind == kind), None)
            if found is None:
                continue
            enums.remove(found)
            constant = part.kind in {"scope", "semantics"}
            words.append(self.number(found.data) if constant else found.data)
        self.put(self.body, row.name, *words)
        if front:
            self.decorations(front[1], op.attributes)

    @staticmethod
    def properties(op: Operation) -> list[EnumAttr]:
        """Those that are numbers of an enumeration, in the order of the op's definition."""
        order = type(op).ENUMS if isinstance(op, FormOp) else op.properties
        found = (op.properties.get(name) for name in order)
        return [value for value in found if isinstance(value, EnumAttr)]

    def extended(self, op: Operation) -> None:
        """An instruction of `GLSL.std.450`."""
        front, operands = self.result(op), self.operands(op)
        if not self.imported:
            self.imported = self.new_id()
            self.put("imports", "ExtInstImport", self.imported, *string_words(_GLSL))
        number = EXTENDED[op.name.removeprefix("spirv.GL.")]
        self.put(self.body, "ExtInst", *front, self.imported, number, *operands)
        self.decorations(front[1], op.attributes)

    def constant_op(self, op: ConstantOp) -> None:
        self.values[op.res] = self.constant(op.value, op.res.type)

    def address_of(self, op: AddressOfOp) -> None:
        self.values[op.pointer] = self.symbols[op.variable.string_value()]

    def reference_of(self, op: ReferenceOfOp) -> None:
        self.values[op.reference] = self.symbols[op.spec_const.string_value()]

    def undef(self, op: Operation) -> None:
        (value,) = op.results
        if value.type not in self.undefined:
            name = self.undefined[value.type] = self.new_id()
            self.put("globals", "Undef", self.type(value.type), name)
        self.values[value] = self.undefined[value.type]

    def variable(self, op: VariableOp) -> None:
        front = self.result(op)
        self.put(self.header, "Variable", *front, op.storage_class.data, *self.operands(op))
        self.decorations(front[1], op.attributes)

    def access(self, op: LoadOp | StoreOp) -> None:
        words = [*self.result(op), *self.operands(op)]
        if op.memory_access is not None:
            words.append(op.memory_access.data)
            if op.alignment is not None:
                words.append(op.alignment.value.data)
        self.put(self.body, opcode_name(op), *words)
        self.decorate_result(op)

    def indexed(self, op: CompositeExtractOp | CompositeInsertOp | VectorShuffleOp) -> None:
        words = [*self.result(op), *self.operands(op)]
        literals = op.components if isinstance(op, VectorShuffleOp) else op.indices
        words += [literal.value.data & 0xFFFFFFFF for literal in literals]
        self.put(self.body, opcode_name(op), *words)
        self.decorate_result(op)

    def matrix_length(self, op: MatrixLengthOp) -> None:
        front = self.result(op)
        type_id = self.type(op.cooperative_matrix_type)
        self.put(self.body, opcode_name(op), *front, type_id)
        self.decorate_result(op)

    def matrix_memory(self, op: Operation) -> None:
        """Loads and stores of matrices: the layout is a constant in front of the stride."""
        words = self.result(op)
        *front, stride = self.operands(op)
        layout, *access = self.properties(op)
        words += [*front, self.number(layout.data), stride, *(one.data for one in access)]
        self.put(self.body, opcode_name(op), *words)
        self.decorate_result(op)

    def tensor_memory(self, op: LoadTensorOp | StoreTensorOp) -> None:
        """Both masks stand always; a view stands behind them."""
        words = [*self.result(op), *self.operands(op)]
        access = op.memory_operand
        view = [words.pop()] if op.view is not None else []
        words += [access.data if access is not None else 0, len(view), *view]
        self.put(self.body, opcode_name(op), *words)
        self.decorate_result(op)

    def per_element(self, op: PerElementOp) -> None:
        front, function = self.result(op), self.function_id(op.function.string_value())
        matrix, *others = self.operands(op)
        self.put(self.body, opcode_name(op), *front, matrix, function, *others)
        self.decorate_result(op)

    def reduce(self, op: ReduceOp) -> None:
        front, function = self.result(op), self.function_id(op.function.string_value())
        self.put(self.body, opcode_name(op), *front, *self.operands(op), op.reduce.data, function)
        self.decorate_result(op)

    def branch(self, op: BranchOp) -> None:
        self.put(self.body, "Branch", self.block_id(op.target))

    def branch_conditional(self, op: BranchConditionalOp) -> None:
        words = [self.values[op.condition]]
        words += [self.block_id(op.true_target), self.block_id(op.false_target)]
        words += [weight.value.data for weight in op.branch_weights or ()]
        self.put(self.body, "BranchConditional", *words)

    def switch(self, op: SwitchOp) -> None:
        type_ = op.selector.type
        assert isinstance(type_, IntegerType)
        words = [self.values[op.selector], self.block_id(op.default_target)]
        for number, block, _ in op.cases:
            (literal,) = number_words(IntegerAttr(number, type_))
            words += [literal, self.block_id(block)]
        self.put(self.body, "Switch", *words)

    def function_call(self, op: FunctionCallOp) -> None:
        result = op.return_value
        type_id = self.type(NoneType() if result is None else result.type)
        callee, name = self.function_id(op.callee.string_value()), self.new_id()
        if result is not None:
            self.values[result] = name
        self.put(self.body, "FunctionCall", type_id, name, callee, *self.operands(op))
        self.decorate_result(op)

    def merge_op(self, op: MergeOp) -> None:
        """Whoever writes the region goes on with the label of this block."""


_OPS: dict[type[Operation], Callable[[OpWriter, Any], None]] = {
    AddressOfOp: OpWriter.address_of,
    BranchConditionalOp: OpWriter.branch_conditional,
    BranchOp: OpWriter.branch,
    CompositeExtractOp: OpWriter.indexed,
    CompositeInsertOp: OpWriter.indexed,
    ConstantOp: OpWriter.constant_op,
    FunctionCallOp: OpWriter.function_call,
    LoadOp: OpWriter.access,
    LoadTensorOp: OpWriter.tensor_memory,
    MatrixLengthOp: OpWriter.matrix_length,
    MergeOp: OpWriter.merge_op,
    PerElementOp: OpWriter.per_element,
    ReduceOp: OpWriter.reduce,
    ReferenceOfOp: OpWriter.reference_of,
    StoreOp: OpWriter.access,
    StoreTensorOp: OpWriter.tensor_memory,
    SwitchOp: OpWriter.switch,
    VariableOp: OpWriter.variable,
    VectorShuffleOp: OpWriter.indexed,
    VALUE_OPS["Undef"]: OpWriter.undef,
    VALUE_OPS["KHR.CooperativeMatrixLoad"]: OpWriter.matrix_memory,
    VALUE_OPS["KHR.CooperativeMatrixStore"]: OpWriter.matrix_memory,
}
