"""What the words of a module grow in: sections, ids, types, constants, decorations."""

from __future__ import annotations

import struct
from collections.abc import Sequence

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
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects.spirv.types import (
    ArrayType,
    CooperativeMatrixType,
    PointerType,
    RuntimeArrayType,
    StructType,
    TensorLayoutType,
    TensorViewType,
)
from openinfer.runtime.errors import UnsupportedError
from openinfer.runtime.spirv.instructions import BY_NAME, ENUMERATIONS

INTERFACES = frozenset({"PhysicalStorageBuffer", "PushConstant", "StorageBuffer", "Uniform"})
"""Storage classes whose structs are blocks."""
_SECTIONS = (
    *("capabilities", "extensions", "imports", "memory_model", "entry_points"),
    *("execution_modes", "names", "decorations", "globals", "functions"),
)


def string_words(text: str) -> list[int]:
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def number_words(value: IntegerAttr | FloatAttr) -> tuple[int, ...]:
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


class SectionsWriter:
    """The sections of a module while they grow. Ids are given when they are first asked for."""

    def __init__(self) -> None:
        self.sections: dict[str, list[int]] = {name: [] for name in _SECTIONS}
        self.last_id = 0
        self.types: dict[Attribute, int] = {}
        self.constants: dict[tuple[Attribute, Attribute], int] = {}
        self.undefined: dict[Attribute, int] = {}
        self.symbols = _Symbols()
        self.values = _Values()

    def new_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def put(self, section: str | list[int], name: str, *operands: int) -> None:
        """Appends an instruction."""
        words = self.sections[section] if isinstance(section, str) else section
        words.append((len(operands) + 1) << 16 | BY_NAME[name].opcode)
        # A literal of i32 may have a sign.
        words.extend(operand & 0xFFFFFFFF for operand in operands)

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
            self.put("names", "Name", name, *string_words(type_.identifier.data))
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
            self.put("globals", kind, type_id, name, *number_words(value))
        return name

    def function_id(self, name: str) -> int:
        """The id of a function, which may stand further behind."""
        if name not in self.symbols:
            self.symbols[name] = self.new_id()
        return self.symbols[name]
