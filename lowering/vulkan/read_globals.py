"""What words of SPIR-V declare outside of functions, as attributes of the dialect: types, constants, names,
decorations."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    FunctionType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    NoneType,
    Signedness,
    StringAttr,
    UnitAttr,
    VectorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i32,
)
from xdsl.ir import Attribute

from openinfer.dialects.spirv.enums import (
    MatrixUseAttr,
    ScopeAttr,
    StorageClassAttr,
    TensorClampModeAttr,
)
from openinfer.dialects.spirv.types import (
    ArrayType,
    CooperativeMatrixType,
    MemberAttr,
    PointerType,
    RuntimeArrayType,
    StructType,
    TensorLayoutType,
    TensorViewType,
)
from openinfer.lowering.vulkan.write_sections import INTERFACES
from openinfer.runtime.errors import UnsupportedError
from openinfer.runtime.spirv.instructions import ENUMERATIONS
from openinfer.runtime.spirv.words import Instruction, Module, Part, number

MOST_PARTS = 1 << 16
"""Numbers or types that one type or constant may consist of, counted wherever they stand in it."""
DEEPEST = 64
"""Types in types, and regions in regions."""
_FLOATS: dict[tuple[int, int | None], AnyFloat] = {
    (16, None): f16,
    (32, None): f32,
    (64, None): f64,
    (16, 0): bf16,
}
_BITS = {16: ("<e", "<H"), 32: ("<f", "<I"), 64: ("<d", "<Q")}
_WORD = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
_NUMBERS: dict[str, dict[int, str]] = {
    kind: {number: name for name, (number, _) in rows.items()}
    for kind, rows in ENUMERATIONS.items()
}


def cannot_hold(one: Instruction | None, message: str) -> NoReturn:
    """Raises UnsupportedError: words are a module, and the dialect has no form for it."""
    where = "" if one is None else f"word {one.place}, Op{one.row.name}: "
    raise UnsupportedError(
        "OI0763",
        f"SPIR-V {where}{message}",
        hint="`spirv-dis` shows the module; words that were read, checked and written need no dialect",
    )


def name_of(kind: str, value: int) -> str:
    """The name of a number of an enumeration in the table."""
    if value not in _NUMBERS[kind]:
        cannot_hold(None, f"{value} is no {kind}")
    return _NUMBERS[kind][value]


def is_word(text: str) -> bool:
    """Whether text of the dialect can hold it without quotes."""
    return bool(_WORD.match(text))


@dataclass
class Globals:
    """What the declarations of a module say, by id."""

    module: Module
    types: dict[int, Attribute] = field(default_factory=dict[int, Attribute])
    constants: dict[int, tuple[Attribute, Attribute]] = field(
        default_factory=dict[int, tuple[Attribute, Attribute]]
    )
    """Value and type."""
    undefined: dict[int, Attribute] = field(default_factory=dict[int, Attribute])
    names: dict[int, str] = field(default_factory=dict[int, str])
    decorations: dict[int, dict[str, tuple[Part, ...]]] = field(
        default_factory=dict[int, dict[str, tuple[Part, ...]]]
    )
    members: dict[int, dict[int, list[tuple[str, tuple[Part, ...]]]]] = field(
        default_factory=dict[int, dict[int, list[tuple[str, tuple[Part, ...]]]]]
    )
    sizes: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """How many parts an id has, and how deep they stand in each other."""
    libraries: dict[int, str] = field(default_factory=dict[int, str])
    """Imported sets of extended instructions."""
    nothing: NoneType = field(default_factory=NoneType)
    blocks: set[int] = field(default_factory=set[int])
    """Structs that pointers make blocks."""

    def note(self, one: Instruction) -> None:
        """Takes a name or a decoration, which stand in front of what they speak of."""
        (target, *_), last = one.of("id") or one.of("result"), one.parts[-1]
        if one.row.name == "ExtInstImport":
            self.libraries[target] = str(last.value)
        elif one.row.name == "Name":
            if isinstance(last.value, str):
                self.names[target] = last.value
        elif one.row.name == "Decorate":
            what = name_of("Decoration", number(one.parts[1]))
            self.decorations.setdefault(target, {})[what] = one.parts[2:]
        elif one.row.name == "MemberDecorate":
            what = name_of("Decoration", number(one.parts[2]))
            listed = self.members.setdefault(target, {}).setdefault(number(one.parts[1]), [])
            if (what, one.parts[3:]) not in listed:
                listed.append((what, one.parts[3:]))

    def attributes(self, one: Instruction, *without: str) -> dict[str, Attribute]:
        """The decorations of a result: NoContraction is `no_contraction`, Binding 1 `binding = 1`."""
        found: dict[str, Attribute] = {}
        for what, operands in self.decorations.get(one.result or 0, {}).items():
            if what in without:
                continue
            key = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=FP)", "_", what).lower().replace("__", "_")
            if not operands:
                found[key] = UnitAttr()
            elif what in {"BuiltIn", "FPRoundingMode"}:
                found[key] = StringAttr(name_of(what, number(operands[0])))
            else:
                found[key] = IntegerAttr(number(operands[0]), i32)
        return dict(sorted(found.items()))

    # Types

    def type(self, name: int, one: Instruction, *, void: bool = False) -> Attribute:
        """The type of an id; of a value unless it may be none."""
        found = self.types.get(name)
        if found is None:
            cannot_hold(one, f"%{name} is no type that the dialect has")
        if isinstance(found, FunctionType) or (isinstance(found, NoneType) and not void):
            cannot_hold(one, f"%{name} is no type of a value")
        return found

    def measure(self, one: Instruction, parts: Sequence[int]) -> None:
        """Refuses what is larger than any program needs: one type may stand in another many times."""
        known = [self.sizes.get(part, (1, 0)) for part in parts]
        size = 1 + sum(count for count, _ in known)
        depth = 1 + max((deep for _, deep in known), default=0)
        if size > MOST_PARTS or depth > DEEPEST:
            cannot_hold(
                one, f"has {size} parts, {depth} deep; at most {MOST_PARTS}, {DEEPEST} deep"
            )
        self.sizes[one.of("result")[0]] = size, depth

    def declare_type(self, one: Instruction) -> None:
        """Takes the instruction of a type."""
        kind, (name, *_), ids = one.row.name, one.of("result"), one.of("id")
        self.measure(one, ids)
        self.types[name] = self._type(one, kind, name, ids)
        known = {"TypeArray": {"ArrayStride"}, "TypeRuntimeArray": {"ArrayStride"}}
        allowed = known.get(kind, {"Block"} if kind == "TypeStruct" else set[str]())
        for decoration in self.decorations.get(name, {}):
            if decoration not in allowed:
                cannot_hold(one, f"the dialect has no {decoration} of a type")

    def _type(self, one: Instruction, kind: str, name: int, ids: list[int]) -> Attribute:
        words = one.of("word")
        if kind == "TypeVoid":
            return NoneType()
        if kind == "TypeBool":
            return i1
        if kind == "TypeInt":
            width, signed = words
            if width not in {8, 16, 32, 64} or signed > 1:
                cannot_hold(one, f"{width} bits with sign {signed}")
            return IntegerType(width, Signedness.SIGNED if signed else Signedness.SIGNLESS)
        if kind == "TypeFloat":
            found = _FLOATS.get((words[0], one.first("FPEncoding")))
            if found is None:
                cannot_hold(one, f"a float of {words[0]} bits")
            return found
        if kind == "TypeVector":
            if not 2 <= words[0] <= 16:
                cannot_hold(one, f"a vector of {words[0]}")
            return VectorType(self.type(ids[0], one), [words[0]])
        if kind in {"TypeArray", "TypeRuntimeArray"}:
            (stride,) = self.decorations.get(name, {}).get("ArrayStride", (Part("word", 0),))
            element = self.type(ids[0], one)
            if kind == "TypeRuntimeArray":
                return RuntimeArrayType(element, IntAttr(number(stride)))
            return ArrayType(IntAttr(self.integer(ids[1], one)), element, IntAttr(number(stride)))
        if kind == "TypeStruct":
            return self._struct(one, name, ids)
        if kind == "TypePointer":
            pointee = self.type(ids[0], one)
            storage = StorageClassAttr(one.of("StorageClass")[0])
            if storage.text in INTERFACES and isinstance(pointee, StructType):
                self.blocks.add(ids[0])
            return PointerType(pointee, storage)
        if kind == "TypeFunction":
            output = self.type(ids[0], one, void=True)
            inputs = [self.type(part, one) for part in ids[1:]]
            return FunctionType.from_lists(inputs, [] if isinstance(output, NoneType) else [output])
        if kind == "TypeCooperativeMatrixKHR":
            scope = self.integer(one.of("scope")[0], one)
            rows, columns, use = (self.integer(part, one) for part in ids[1:])
            name_of("Scope", scope)
            name_of("CooperativeMatrixUse", use)
            element = self.type(ids[0], one)
            return CooperativeMatrixType(
                IntAttr(rows), IntAttr(columns), element, ScopeAttr(scope), MatrixUseAttr(use)
            )
        if kind == "TypeTensorLayoutNV":
            rank, clamp = (self.integer(part, one) for part in ids)
            name_of("TensorClampMode", clamp)
            return TensorLayoutType(IntAttr(rank), TensorClampModeAttr(clamp))
        if kind == "TypeTensorViewNV":
            rank, sized, *axes = (self.integer(part, one) for part in ids)
            if sized or rank != len(axes):
                cannot_hold(one, "the dialect has no view with extents of its own")
            return TensorViewType.of(*axes)
        cannot_hold(one, "the dialect lacks this type")

    def _struct(self, one: Instruction, name: int, ids: list[int]) -> StructType:
        listed: list[MemberAttr] = []
        for index, part in enumerate(ids):
            offset: IntAttr | NoneAttr = NoneAttr()
            words: list[StringAttr] = []
            for what, operands in self.members.get(name, {}).get(index, ()):
                if what == "Offset":
                    offset = IntAttr(number(operands[0]))
                elif operands:
                    cannot_hold(one, f"the dialect has no {what} of a member")
                else:
                    words.append(StringAttr(what))
            listed.append(MemberAttr(self.type(part, one), offset, ArrayAttr(words)))
        identifier = re.sub(r"\W", "_", self.names.get(name, ""), flags=re.ASCII)
        if identifier[:1].isdigit():
            identifier = f"_{identifier}"
        return StructType(StringAttr(identifier), ArrayAttr(listed))

    def check_blocks(self) -> None:
        """The dialect says by its pointers which structs are blocks: words must not say otherwise."""
        parts = {part for one in self.module.instructions for part in _parts_of(one)}
        for one in self.module.instructions:
            name = one.result
            if name is None or one.row.name != "TypeStruct" or name in self.blocks:
                continue
            if "Block" in self.decorations.get(name, {}) and name in parts:
                cannot_hold(one, "a block that no pointer into a buffer is to")

    # Constants

    def integer(self, name: int, one: Instruction) -> int:
        """The number of a constant integer."""
        value, _ = self.constants.get(name, (None, None))
        if not isinstance(value, IntegerAttr):
            cannot_hold(one, f"%{name} is no constant integer")
        return value.value.data & 0xFFFFFFFF

    def number(self, one: Instruction) -> IntegerAttr | FloatAttr:
        """The value of a plain or specialization constant."""
        type_ = self.type(one.of("type")[0], one)
        if one.row.name.endswith(("True", "False")):
            if type_ != i1:
                cannot_hold(one, f"a truth value of {type_}")
            return IntegerAttr(int(one.row.name.endswith("True")), i1)
        bits = number(one.parts[-1])
        if isinstance(type_, IntegerType) and type_ != i1:
            return IntegerAttr(_signed(bits, type_.width.data), type_)
        if not isinstance(type_, AnyFloat):
            cannot_hold(one, f"a number of {type_}")
        width = type_.bitwidth
        if type_ == bf16:
            width, bits = 32, bits << 16
        real, integer = _BITS[width]
        if bits >> width:
            cannot_hold(one, f"{bits:#x} is no number of {type_}")
        value = struct.unpack(real, struct.pack(integer, bits))[0]
        if struct.unpack(integer, struct.pack(real, value))[0] != bits:
            cannot_hold(one, f"{bits:#x} of {type_} is no number that text keeps")
        return FloatAttr(value, type_)

    def literals(self, type_: Attribute, one: Instruction) -> list[int]:
        """The numbers of the cases of a switch."""
        if not isinstance(type_, IntegerType) or type_.width.data > 32:
            cannot_hold(one, f"cases of {type_}")
        return [_signed(word, type_.width.data) for word in one.of("word")]

    def declare_constant(self, one: Instruction) -> None:
        """Takes the instruction of a constant or an undefined value."""
        name, ids = one.of("result")[0], one.of("id")
        type_ = self.type(one.of("type")[0], one)
        if one.row.name == "Undef":
            self.undefined[name] = type_
            return
        if set(self.decorations.get(name, {})) - {"BuiltIn"}:
            cannot_hold(one, "the dialect has no decorated constants")
        self.measure(one, ids)
        if one.row.name == "ConstantNull":
            self.constants[name] = self.zero(type_, one, [MOST_PARTS]), type_
        elif one.row.name == "ConstantComposite":
            parts: list[Attribute] = []
            for part in ids:
                if part not in self.constants:
                    cannot_hold(one, f"%{part} is no constant")
                parts.append(self.constants[part][0])
            types = [self.constants[part][1] for part in ids]
            self.constants[name] = self.composite(type_, parts, types, one), type_
        else:
            self.constants[name] = self.number(one), type_

    def composite(
        self, type_: Attribute, parts: list[Attribute], types: list[Attribute], one: Instruction
    ) -> Attribute:
        """A vector or an array of constants."""
        if not isinstance(type_, VectorType | ArrayType):
            cannot_hold(one, f"the dialect has no constants of {type_}")
        count = type_.get_shape()[0] if isinstance(type_, VectorType) else type_.count.data
        if len(parts) != count or any(part != type_.element_type for part in types):
            cannot_hold(one, f"not {count} constants of {type_.element_type}")
        if isinstance(type_, ArrayType):
            return ArrayAttr(parts)
        values = [part.value.data for part in parts if isinstance(part, IntegerAttr | FloatAttr)]
        return DenseIntOrFPElementsAttr.from_list(type_, values)

    def zero(self, type_: Attribute, one: Instruction, left: list[int]) -> Attribute:
        """The constant of zeros."""
        left[0] -= 1
        if left[0] < 0:
            cannot_hold(one, f"more than {MOST_PARTS} zeros")
        if isinstance(type_, IntegerType):
            return IntegerAttr(0, type_)
        if isinstance(type_, AnyFloat):
            return FloatAttr(0.0, type_)
        if isinstance(type_, VectorType | ArrayType):
            element = type_.element_type
            count = type_.get_shape()[0] if isinstance(type_, VectorType) else type_.count.data
            if count > left[0]:
                cannot_hold(one, f"more than {MOST_PARTS} zeros")
            parts = [self.zero(element, one, left) for _ in range(count)]
            return self.composite(type_, parts, [element] * count, one)
        cannot_hold(one, f"the dialect has no zero of {type_}")


def _signed(bits: int, width: int) -> int:
    """The number of some bits, of which the first is the sign."""
    bits &= (1 << width) - 1
    return bits - (1 << width) if bits >> width - 1 else bits


def _parts_of(one: Instruction) -> list[int]:
    kinds = {"TypePointer", "TypeArray", "TypeRuntimeArray", "TypeStruct"}
    return one.of("id") if one.row.name in kinds else []
