"""A `spirv.module` as words, with the ids and the order of MLIR's serializer."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    FunctionType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    NoneType,
    Signedness,
    StringAttr,
    UnitAttr,
    VectorType,
    i1,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

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
    LoopOp,
    MergeOp,
    SelectionOp,
    SwitchOp,
)
from openinfer.dialects.spirv.enums import EnumAttr
from openinfer.dialects.spirv.forms import FormOp
from openinfer.dialects.spirv.global_ops import (
    AddressOfOp,
    GlobalVariableOp,
    ReferenceOfOp,
    SpecConstantCompositeOp,
    SpecConstantOp,
)
from openinfer.dialects.spirv.memory_ops import LoadOp, StoreOp, VariableOp
from openinfer.dialects.spirv.structure_ops import (
    VERSIONS,
    EntryPointOp,
    ExecutionModeOp,
    FunctionCallOp,
    SpirvFuncOp,
    SpirvModuleOp,
)
from openinfer.dialects.spirv.tensor_ops import (
    LoadTensorOp,
    PerElementOp,
    ReduceOp,
    StoreTensorOp,
)
from openinfer.dialects.spirv.types import (
    ArrayType,
    CooperativeMatrixType,
    PointerType,
    RuntimeArrayType,
    StructType,
    TensorLayoutType,
    TensorViewType,
)
from openinfer.dialects.spirv.value_ops import VALUE_OPS
from openinfer.runtime.errors import UnsupportedError
from openinfer.runtime.spirv.instructions import BY_NAME, CAPABILITIES, ENUMERATIONS, EXTENDED
from openinfer.runtime.spirv.words import MAGIC

GENERATOR = 22
"""What MLIR registered; its words and ours are the same."""
_GLSL = "GLSL.std.450"
INTERFACES = frozenset({"PhysicalStorageBuffer", "PushConstant", "StorageBuffer", "Uniform"})
"""Storage classes whose structs are blocks."""
_SECTIONS = (
    *("capabilities", "extensions", "imports", "memory_model", "entry_points"),
    *("execution_modes", "names", "decorations", "globals", "functions"),
)


def serialize(module: SpirvModuleOp) -> bytes:
    """The words of a verified module, little-endian."""
    return _Serializer(module).words()


def _string(text: str) -> list[int]:
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def opcode_name(op: Operation) -> str:
    """The row of an op in the table: `spirv.KHR.CooperativeMatrixLoad` is `CooperativeMatrixLoadKHR`."""
    *vendor, name = op.name.removeprefix("spirv.").split(".")
    return name + "".join(vendor)


class _Values(dict[SSAValue, int]):
    """The ids of values, as far as they are written."""

    def __missing__(self, value: SSAValue) -> int:
        raise UnsupportedError(
            "OI0762",
            f"a {value.type} is used in front of what computes it",
            hint="a value is computed in its block above, or in a block that always runs before",
        )


class _Symbols(dict[str, int]):
    """The ids of names, as far as they are written."""

    def __missing__(self, name: str) -> int:
        raise UnsupportedError(
            "OI0762",
            f"@{name} is used in front of where it is declared",
            hint="global variables and specialization constants stand first in a 'spirv.module'",
        )


class _Serializer:
    """The sections of a module while they grow. Ids are given when they are first asked for."""

    def __init__(self, module: SpirvModuleOp) -> None:
        self.module = module
        self.sections: dict[str, list[int]] = {name: [] for name in _SECTIONS}
        self.last_id = 0
        self.types: dict[Attribute, int] = {}
        self.constants: dict[tuple[Attribute, Attribute], int] = {}
        self.undefined: dict[Attribute, int] = {}
        self.symbols = _Symbols()
        self.values = _Values()
        self.blocks: dict[Block, int] = {}
        self.imported = 0
        # Of the function that is being written.
        self.header: list[int] = []
        self.body: list[int] = []
        self.missing: list[tuple[int, SSAValue]] = []

    def new_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def put(self, section: str | list[int], name: str, *operands: int) -> None:
        """Appends an instruction."""
        words = self.sections[section] if isinstance(section, str) else section
        words.append((len(operands) + 1) << 16 | BY_NAME[name].opcode)
        # A literal of i32 may have a sign.
        words.extend(operand & 0xFFFFFFFF for operand in operands)

    def words(self) -> bytes:
        """All of the module."""
        version = self.module.vce_triple
        assert version is not None, "a module says which version it needs"
        for capability in version.capabilities:
            self.put("capabilities", "Capability", CAPABILITIES[capability.data][0])
        for extension in version.extensions:
            self.put("extensions", "Extension", *_string(extension.data))
        models = self.module.addressing_model.data, self.module.memory_model.data
        self.put("memory_model", "MemoryModel", *models)
        for op in self.module.body.block.ops:
            _MODULE[type(op)](self, op)
        number = VERSIONS.index(version.version.data)
        head = [MAGIC, 0x10000 | number << 8, GENERATOR, self.last_id + 1, 0]
        found = head + [word for section in self.sections.values() for word in section]
        return struct.pack(f"<{len(found)}I", *found)

    # Types and constants

    def type(self, type_: Attribute) -> int:
        """The id of a type."""
        known = self.types.get(type_)
        if known is None:
            # Its id comes before those of what it consists of.
            known = self.types[type_] = self.new_id()
            name, operands = self.declared(type_, known)
            self.put("globals", name, known, *operands)
        return known

    def declared(self, type_: Attribute, name: int) -> tuple[str, list[int]]:
        """The instruction of a type, and its operands behind the result."""
        if isinstance(type_, NoneType):
            return "TypeVoid", []
        if type_ == i1:
            return "TypeBool", []
        if isinstance(type_, IntegerType):
            return "TypeInt", [type_.width.data, int(type_.signedness.data == Signedness.SIGNED)]
        if isinstance(type_, AnyFloat):
            encoding = [0] if isinstance(type_, BFloat16Type) else []
            return "TypeFloat", [type_.bitwidth, *encoding]
        if isinstance(type_, VectorType):
            return "TypeVector", [self.type(type_.element_type), type_.get_shape()[0]]
        if isinstance(type_, ArrayType):
            element = self.type(type_.element_type)
            count = self.number(type_.count.data)
            self.stride(name, type_.stride)
            return "TypeArray", [element, count]
        if isinstance(type_, RuntimeArrayType):
            element = self.type(type_.element_type)
            self.stride(name, type_.stride)
            return "TypeRuntimeArray", [element]
        if isinstance(type_, StructType):
            return "TypeStruct", self.members(type_, name)
        if isinstance(type_, PointerType):
            pointee = self.type(type_.pointee)
            if type_.storage_class.text in INTERFACES and isinstance(type_.pointee, StructType):
                self.decorate(pointee, "Block")
            return "TypePointer", [type_.storage_class.data, pointee]
        if isinstance(type_, FunctionType):
            output = type_.outputs.data[0] if len(type_.outputs) else NoneType()
            return "TypeFunction", [self.type(one) for one in (output, *type_.inputs)]
        if isinstance(type_, TensorLayoutType):
            ids = [self.number(type_.rank.data), self.number(type_.clamp.data)]
            return "TypeTensorLayoutNV", ids
        if isinstance(type_, TensorViewType):
            axes = [axis.data for axis in type_.permutation]
            own = self.constant(IntegerAttr(0, i1), i1)
            ids = [self.number(len(axes)), own, *map(self.number, axes)]
            return "TypeTensorViewNV", ids
        assert isinstance(type_, CooperativeMatrixType), f"{type_} is no type of SPIR-V"
        return "TypeCooperativeMatrixKHR", [
            self.type(type_.element_type),
            self.number(type_.scope.data),
            self.number(type_.rows.data),
            self.number(type_.columns.data),
            self.number(type_.use.data),
        ]

    def members(self, type_: StructType, name: int) -> list[int]:
        """The ids of the members' types, and the members' decorations."""
        found: list[int] = []
        for index, member in enumerate(type_.members):
            found.append(self.type(member.type))
            if isinstance(member.offset, IntAttr):
                place = ENUMERATIONS["Decoration"]["Offset"][0]
                self.put("decorations", "MemberDecorate", name, index, place, member.offset.data)
        for index, member in enumerate(type_.members):
            for decoration in member.decorations:
                number = ENUMERATIONS["Decoration"][decoration.data][0]
                self.put("decorations", "MemberDecorate", name, index, number)
        if type_.identifier.data:
            self.put("names", "Name", name, *_string(type_.identifier.data))
        return found

    def stride(self, name: int, stride: IntAttr) -> None:
        if stride.data:
            self.decorate(name, "ArrayStride", stride.data)

    def decorate(self, name: int, decoration: str, *operands: int) -> None:
        self.put(
            "decorations", "Decorate", name, ENUMERATIONS["Decoration"][decoration][0], *operands
        )

    def decorations(self, name: int, attributes: dict[str, Attribute]) -> None:
        """`no_contraction` is the decoration NoContraction, `binding = 1` is Binding 1."""
        for key in sorted(attributes):
            value = attributes[key]
            decoration = "".join(part.capitalize() for part in key.split("_"))
            decoration = {"BuiltIn": "BuiltIn", "FpRoundingMode": "FPRoundingMode"}.get(
                decoration, decoration
            )
            if decoration not in ENUMERATIONS["Decoration"]:
                continue
            operands: list[int] = []
            if isinstance(value, IntegerAttr):
                operands = [value.value.data]
            elif isinstance(value, StringAttr):
                operands = [ENUMERATIONS[decoration][value.data][0]]
            elif not isinstance(value, UnitAttr):
                continue
            self.decorate(name, decoration, *operands)

    def decorate_result(self, op: Operation) -> None:
        """The decorations of what an op gives."""
        for value in op.results:
            self.decorations(self.values[value], op.attributes)

    def number(self, value: int) -> int:
        """The id of a constant of i32."""
        return self.constant(IntegerAttr(value, i32), i32)

    def constant(self, value: Attribute, type_: Attribute) -> int:
        """The id of a constant; equal ones have one."""
        known = self.constants.get((value, type_))
        if known is not None:
            return known
        if isinstance(value, DenseIntOrFPElementsAttr):
            element = value.get_element_type()
            known = self.composite(type_, [(one, element) for one in value.iter_attrs()])
        elif isinstance(value, ArrayAttr):
            assert isinstance(type_, ArrayType)
            known = self.composite(type_, [(one, type_.element_type) for one in value])
        else:
            known = self.scalar(value, "Constant")
        self.constants[value, type_] = known
        return known

    def composite(self, type_: Attribute, parts: Sequence[tuple[Attribute, Attribute]]) -> int:
        """A new constant of constants."""
        type_id, name = self.type(type_), self.new_id()
        members = [self.constant(*part) for part in parts]
        self.put("globals", "ConstantComposite", type_id, name, *members)
        return name

    def scalar(self, value: Attribute, kind: str) -> int:
        """A new constant, or specialization constant, of a number."""
        assert isinstance(value, IntegerAttr | FloatAttr)
        type_id, name = self.type(value.type), self.new_id()
        if value.type == i1:
            self.put("globals", f"{kind}{'True' if value.value.data else 'False'}", type_id, name)
        else:
            self.put("globals", kind, type_id, name, *_number_words(value))
        return name

    # What stands in a module

    def global_variable(self, op: GlobalVariableOp) -> None:
        type_id, name = self.type(op.type), self.new_id()
        self.put("names", "Name", name, *_string(op.sym_name.data))
        self.symbols[op.sym_name.data] = name
        initial = [] if op.initializer is None else [self.symbols[op.initializer.string_value()]]
        self.put("globals", "Variable", type_id, name, op.type.storage_class.data, *initial)
        properties = {key: value for key, value in op.properties.items() if key != "type"}
        self.decorations(name, properties | op.attributes)

    def spec_constant(self, op: SpecConstantOp) -> None:
        name = self.scalar(op.default_value, "SpecConstant")
        spec_id = op.attributes.get("spec_id")
        if isinstance(spec_id, IntegerAttr):
            self.decorate(name, "SpecId", spec_id.value.data)
        self.symbols[op.sym_name.data] = name
        self.put("names", "Name", name, *_string(op.sym_name.data))

    def spec_composite(self, op: SpecConstantCompositeOp) -> None:
        type_id, name = self.type(op.type), self.new_id()
        parts = [self.symbols[part.string_value()] for part in op.constituents]
        self.put("globals", "SpecConstantComposite", type_id, name, *parts)
        self.symbols[op.sym_name.data] = name
        self.put("names", "Name", name, *_string(op.sym_name.data))

    def entry_point(self, op: EntryPointOp) -> None:
        name = op.fn.string_value()
        interface = [self.symbols[one.string_value()] for one in op.interface]
        self.put(
            "entry_points",
            "EntryPoint",
            op.execution_model.data,
            self.function_id(name),
            *_string(name),
            *interface,
        )

    def execution_mode(self, op: ExecutionModeOp) -> None:
        name = self.function_id(op.fn.string_value())
        values = [value.value.data for value in op.values]
        self.put("execution_modes", "ExecutionMode", name, op.execution_mode.data, *values)

    def function_id(self, name: str) -> int:
        """The id of a function, which may stand further behind."""
        if name not in self.symbols:
            self.symbols[name] = self.new_id()
        return self.symbols[name]

    def function(self, op: SpirvFuncOp) -> None:
        type_ = op.function_type
        type_id = self.type(type_)
        result = self.type(type_.outputs.data[0] if len(type_.outputs) else NoneType())
        name = self.function_id(op.sym_name.data)
        self.header, self.body, self.missing = [], [], []
        self.put(self.header, "Function", result, name, op.function_control.data, type_id)
        self.put("names", "Name", name, *_string(op.sym_name.data))
        first = op.body.blocks[0]
        for argument in first.args:
            argument_type = self.type(argument.type)
            self.values[argument] = self.new_id()
            self.put(self.header, "FunctionParameter", argument_type, self.values[argument])
        # Variables of the function follow this label, wherever their ops stand.
        self.put(self.header, "Label", self.block_id(first))
        self.block(first, label=False, phis=False)
        for block in _reached(first, {first}):
            self.block(block)
        for place, value in self.missing:
            self.body[place] = self.values[value]
        functions = self.sections["functions"]
        functions += self.header
        functions += self.body
        self.put("functions", "FunctionEnd")

    # Blocks

    def block_id(self, block: Block) -> int:
        if block not in self.blocks:
            self.blocks[block] = self.new_id()
        return self.blocks[block]

    def block(
        self,
        block: Block,
        *,
        label: bool = True,
        phis: bool = True,
        merge: Callable[[], None] | None = None,
    ) -> None:
        """A block; `merge` puts the merge instruction in front of its branch."""
        if label:
            self.put(self.body, "Label", self.block_id(block))
        if phis and block.args:
            self.phis(block)
        ops = list(block.ops)
        looping = isinstance(block.parent_op(), LoopOp)
        if (
            merge is not None
            and looping
            and any(isinstance(op, LoopOp | SelectionOp) for op in ops)
        ):
            # What follows takes more blocks than this one, which is branched back to and must be merged.
            # That of a selection is merged in the last of them, in front of its condition.
            merge()
            merge = None
            name = self.new_id()
            self.put(self.body, "Branch", name)
            self.put(self.body, "Label", name)
        for op in ops[:-1]:
            self.op(op)
        if merge is not None:
            merge()
        self.op(ops[-1])

    def phis(self, block: Block) -> None:
        """Arguments of a block are phis, with what each block gives that branches to it."""
        region = block.parent_region()
        assert region is not None
        incoming = [
            (_last_label(one), _given(one, block))
            for one in reversed(region.blocks)
            if one.last_op is not None and block in one.last_op.successors
        ]
        for index, argument in enumerate(block.args):
            type_id, name = self.type(argument.type), self.new_id()
            operands = [type_id, name]
            for label, given in incoming:
                value = given[index]
                if value not in self.values:
                    self.missing.append((len(self.body) + 1 + len(operands), value))
                operands += [self.values.get(value, 0), self.block_id(label)]
            self.put(self.body, "Phi", *operands)
            self.values[argument] = name

    def selection(self, op: SelectionOp) -> None:
        if not op.body.blocks:
            return
        for block in op.body.blocks:
            self.block_id(block)
        merge = self.block_id(op.merge)
        self.put(self.body, "Branch", self.block_id(op.header))

        def put() -> None:
            self.put(self.body, "SelectionMerge", merge, op.selection_control.data)

        self.block(op.header, merge=put)
        for block in _reached(op.header, {op.header, op.merge}):
            self.block(block)
        self.put(self.body, "Label", merge)

    def loop(self, op: LoopOp) -> None:
        if not op.body.blocks:
            return
        # The entry only says what the header begins with.
        for block in list(op.body.blocks)[1:]:
            self.block_id(block)
        merge, continuing = self.block_id(op.merge), self.block_id(op.continuing)
        self.put(self.body, "Branch", self.block_id(op.header))

        def put() -> None:
            self.put(self.body, "LoopMerge", merge, continuing, op.loop_control.data)

        self.block(op.header, merge=put)
        for block in _reached(op.header, {op.header, op.continuing, op.merge}):
            self.block(block)
        self.block(op.continuing)
        self.put(self.body, "Label", merge)

    # Ops

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
            self.put("imports", "ExtInstImport", self.imported, *_string(_GLSL))
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
            (literal,) = _number_words(IntegerAttr(number, type_))
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


def _number_words(value: IntegerAttr | FloatAttr) -> tuple[int, ...]:
    """The words of a number of its type: narrow integers are extended by their sign."""
    type_ = value.type
    if isinstance(value, FloatAttr):
        assert isinstance(type_, AnyFloat)
        if isinstance(type_, BFloat16Type):
            return (struct.unpack("<I", struct.pack("<f", value.value.data))[0] >> 16,)
        code, words = {16: ("<e", "<H"), 32: ("<f", "<I"), 64: ("<d", "<2I")}[type_.bitwidth]
        return struct.unpack(words, struct.pack(code, value.value.data))
    assert isinstance(type_, IntegerType)
    if type_.width.data == 64:
        number = value.value.data & (1 << 64) - 1
        return number & 0xFFFFFFFF, number >> 32
    number = value.value.data
    if type_.signedness.data != Signedness.UNSIGNED and type_.width.data < 32:
        half = 1 << type_.width.data - 1
        number = (number + half) % (2 * half) - half
        if type_.signedness.data == Signedness.SIGNLESS:
            number &= 2 * half - 1
    return (number & 0xFFFFFFFF,)


def _reached(first: Block, seen: set[Block]) -> Iterator[Block]:
    """Blocks behind one, depth first, without those that were seen."""
    pending = [iter(first.last_op.successors if first.last_op is not None else ())]
    while pending:
        block = next(pending[-1], None)
        if block is None:
            pending.pop()
        elif block not in seen:
            seen.add(block)
            yield block
            if block.last_op is not None:
                pending.append(iter(block.last_op.successors))


def _given(source: Block, target: Block) -> Sequence[SSAValue]:
    """What a block gives to the arguments of another one that it branches to."""
    last = source.last_op
    if isinstance(last, BranchOp):
        return last.block_arguments
    if isinstance(last, SwitchOp):
        # A block that several cases lead to is given the same by each.
        cases = ((block, operands) for _, block, operands in last.cases)
        rows = [(last.default_target, last.default_operands), *cases]
        return next(operands for block, operands in rows if block is target)
    assert isinstance(last, BranchConditionalOp)
    if last.true_target is target:
        return last.true_target_operands
    return last.false_target_operands


def _last_label(block: Block) -> Block:
    """The block whose label is in force at the end of another one: the merge block of the last region in
    it, and of the entry of a loop what the loop stands in."""
    region = block.parent_region()
    owner = region.parent_op() if region is not None else None
    if isinstance(owner, LoopOp) and block is owner.entry:
        around = owner.parent_block()
        assert around is not None
        before: Operation | None = owner.prev_op
        while before is not None:
            if isinstance(before, LoopOp | SelectionOp) and before.body.blocks:
                return before.merge
            before = before.prev_op
        return around
    for op in reversed(list(block.ops)):
        if isinstance(op, LoopOp | SelectionOp) and op.body.blocks:
            return op.merge
    return block


_MODULE: dict[type[Operation], Callable[[_Serializer, Any], None]] = {
    GlobalVariableOp: _Serializer.global_variable,
    SpecConstantOp: _Serializer.spec_constant,
    SpecConstantCompositeOp: _Serializer.spec_composite,
    SpirvFuncOp: _Serializer.function,
    EntryPointOp: _Serializer.entry_point,
    ExecutionModeOp: _Serializer.execution_mode,
}
_OPS: dict[type[Operation], Callable[[_Serializer, Any], None]] = {
    AddressOfOp: _Serializer.address_of,
    BranchConditionalOp: _Serializer.branch_conditional,
    BranchOp: _Serializer.branch,
    CompositeExtractOp: _Serializer.indexed,
    CompositeInsertOp: _Serializer.indexed,
    ConstantOp: _Serializer.constant_op,
    FunctionCallOp: _Serializer.function_call,
    LoadOp: _Serializer.access,
    LoadTensorOp: _Serializer.tensor_memory,
    LoopOp: _Serializer.loop,
    MatrixLengthOp: _Serializer.matrix_length,
    MergeOp: _Serializer.merge_op,
    PerElementOp: _Serializer.per_element,
    ReduceOp: _Serializer.reduce,
    ReferenceOfOp: _Serializer.reference_of,
    SelectionOp: _Serializer.selection,
    StoreOp: _Serializer.access,
    StoreTensorOp: _Serializer.tensor_memory,
    SwitchOp: _Serializer.switch,
    VariableOp: _Serializer.variable,
    VectorShuffleOp: _Serializer.indexed,
    VALUE_OPS["Undef"]: _Serializer.undef,
    VALUE_OPS["KHR.CooperativeMatrixLoad"]: _Serializer.matrix_memory,
    VALUE_OPS["KHR.CooperativeMatrixStore"]: _Serializer.matrix_memory,
}
