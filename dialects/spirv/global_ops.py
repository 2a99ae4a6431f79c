"""Global variables and specialization constants of SPIR-V, and the ops that give their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    VectorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    Pure,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.spirv.types import ArrayType, PointerType, StructType
from openinfer.runtime.spirv.instructions import ENUMERATIONS


@irdl_op_definition
class GlobalVariableOp(IRDLOperation):
    """`spirv.GlobalVariable @in bind(0, 1) : !spirv.ptr<…>`: a buffer, shared memory, a built-in value."""

    name = "spirv.GlobalVariable"

    sym_name = prop_def(SymbolNameConstraint())
    type = prop_def(PointerType)
    initializer = opt_prop_def(SymbolRefAttr)
    descriptor_set = opt_prop_def(IntegerAttr[IntegerType])
    binding = opt_prop_def(IntegerAttr[IntegerType])

    traits = traits_def(SymbolOpInterface())

    def __init__(
        self,
        name: str,
        type_: PointerType,
        bind: tuple[int, int] | None = None,
        built_in: str | None = None,
    ):
        place = bind or ()
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "type": type_,
                "descriptor_set": IntegerAttr(place[0], i32) if place else None,
                "binding": IntegerAttr(place[1], i32) if place else None,
            },
            attributes={} if built_in is None else {"built_in": StringAttr(built_in)},
        )

    def verify_(self) -> None:
        if (self.descriptor_set is None) != (self.binding is None):
            raise VerifyException("'spirv.GlobalVariable' has a set and a binding, or none of them")
        storage = self.type.storage_class.text
        if storage in {"Function", "PhysicalStorageBuffer"}:
            raise VerifyException(f"'spirv.GlobalVariable' does not lie in {storage}")
        built_in = self.attributes.get("built_in")
        if built_in is not None and (
            not isinstance(built_in, StringAttr) or built_in.data not in ENUMERATIONS["BuiltIn"]
        ):
            raise VerifyException(f"'spirv.GlobalVariable': {built_in} is no built-in of the table")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        if self.initializer is not None:
            printer.print_string(" initializer(")
            printer.print_attribute(self.initializer)
            printer.print_string(")")
        if self.descriptor_set is not None and self.binding is not None:
            where = f"{self.descriptor_set.value.data}, {self.binding.value.data}"
            printer.print_string(f" bind({where})")
        attributes = dict(self.attributes)
        built_in = attributes.pop("built_in", None)
        if isinstance(built_in, StringAttr):
            printer.print_string(f' built_in("{built_in.data}")')
        printer.print_op_attributes(attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.type)

    @classmethod
    def parse(cls, parser: Parser) -> GlobalVariableOp:
        properties: dict[str, Attribute] = {"sym_name": parser.parse_symbol_name()}
        attributes: dict[str, Attribute] = {}
        if parser.parse_optional_keyword("initializer"):
            with parser.in_parens():
                properties["initializer"] = parser.parse_attribute()
        if parser.parse_optional_keyword("bind"):
            with parser.in_parens():
                properties["descriptor_set"] = IntegerAttr(parser.parse_integer(), i32)
                parser.parse_punctuation(",")
                properties["binding"] = IntegerAttr(parser.parse_integer(), i32)
        if parser.parse_optional_keyword("built_in"):
            with parser.in_parens():
                attributes["built_in"] = StringAttr(parser.parse_str_literal())
        attributes |= parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        properties["type"] = parser.parse_type()
        return cls.build(properties=properties, attributes=attributes)


@irdl_op_definition
class SpecConstantOp(IRDLOperation):
    """`spirv.SpecConstant @tile spec_id(3) = 16 : i32`: a number that may be given with the pipeline."""

    name = "spirv.SpecConstant"

    sym_name = prop_def(SymbolNameConstraint())
    default_value = prop_def(IntegerAttr | FloatAttr)

    traits = traits_def(SymbolOpInterface())

    def __init__(self, name: str, value: IntegerAttr | FloatAttr, spec_id: int | None = None):
        super().__init__(
            properties={"sym_name": StringAttr(name), "default_value": value},
            attributes={} if spec_id is None else {"spec_id": IntegerAttr(spec_id, i64)},
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        attributes = dict(self.attributes)
        number = attributes.pop("spec_id", None)
        if isinstance(number, IntegerAttr):
            printer.print_string(f" spec_id({number.value.data})")
        printer.print_op_attributes(attributes)
        printer.print_string(" = ")
        printer.print_attribute(self.default_value)

    @classmethod
    def parse(cls, parser: Parser) -> SpecConstantOp:
        name = parser.parse_symbol_name()
        number: int | None = None
        if parser.parse_optional_keyword("spec_id"):
            with parser.in_parens():
                number = parser.parse_integer(allow_boolean=False, allow_negative=False)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation("=")
        place = parser.pos
        value = parser.parse_attribute()
        if not isinstance(value, IntegerAttr | FloatAttr):
            parser.raise_error("expected a number", place)
        op = cls(name.data, cast("IntegerAttr | FloatAttr", value), number)
        op.attributes |= attributes
        return op


@irdl_op_definition
class SpecConstantCompositeOp(IRDLOperation):
    """`spirv.SpecConstantComposite @sizes (@x, @y) : vector<2xi32>`: made of specialization constants."""

    name = "spirv.SpecConstantComposite"

    type = prop_def(Attribute)
    sym_name = prop_def(SymbolNameConstraint())
    constituents = prop_def(ArrayAttr[SymbolRefAttr])

    traits = traits_def(SymbolOpInterface())

    def __init__(self, name: str, type_: Attribute, constituents: Sequence[str]):
        parts = ArrayAttr(SymbolRefAttr(part) for part in constituents)
        super().__init__(
            properties={"type": type_, "sym_name": StringAttr(name), "constituents": parts}
        )

    def verify_(self) -> None:
        wanted = _part_types(self.type)
        if wanted is None or len(wanted) != len(self.constituents):
            count = len(self.constituents)
            raise VerifyException(f"'{self.name}': {self.type} does not consist of {count} parts")
        for part, type_ in zip(self.constituents, wanted):
            found = looked_up(self, part)
            if not isinstance(found, SpecConstantOp):
                raise VerifyException(f"'{self.name}': {part} is no specialization constant")
            if found.default_value.type != type_:
                raise VerifyException(
                    f"'{self.name}': {part} is of {found.default_value.type}, expected {type_}"
                )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(" ")
        with printer.in_parens():
            printer.print_list(self.constituents, printer.print_attribute)
        printer.print_string(" : ")
        printer.print_attribute(self.type)

    @classmethod
    def parse(cls, parser: Parser) -> SpecConstantCompositeOp:
        name = parser.parse_symbol_name()
        parts = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_symbol_name)
        parser.parse_punctuation(":")
        return cls(name.data, parser.parse_type(), [part.data for part in parts])


def _part_types(type_: Attribute) -> list[Attribute] | None:
    """The types of the parts of a vector, an array or a struct."""
    if isinstance(type_, StructType):
        return [member.type for member in type_.members]
    if isinstance(type_, ArrayType):
        return [type_.element_type] * type_.count.data
    if isinstance(type_, VectorType):
        return [type_.element_type] * type_.element_count()
    return None


@irdl_op_definition
class ReferenceOfOp(IRDLOperation):
    """`spirv.mlir.referenceof @tile : i32`: the value of a specialization constant."""

    name = "spirv.mlir.referenceof"

    spec_const = prop_def(SymbolRefAttr)
    reference = result_def()

    assembly_format = "$spec_const attr-dict `:` type($reference)"

    traits = traits_def(Pure())

    def __init__(self, name: str, type_: Attribute):
        super().__init__(result_types=[type_], properties={"spec_const": SymbolRefAttr(name)})

    def verify_(self) -> None:
        found = looked_up(self, self.spec_const)
        if not isinstance(found, SpecConstantOp | SpecConstantCompositeOp):
            raise VerifyException(
                f"'spirv.mlir.referenceof': {self.spec_const} is no specialization constant"
            )
        type_ = found.default_value.type if isinstance(found, SpecConstantOp) else found.type
        if type_ != self.reference.type:
            raise VerifyException(
                f"'spirv.mlir.referenceof' of {type_} gives {self.reference.type}"
            )


@irdl_op_definition
class AddressOfOp(IRDLOperation):
    """`spirv.mlir.addressof @in : !spirv.ptr<…>`."""

    name = "spirv.mlir.addressof"

    variable = prop_def(SymbolRefAttr)
    pointer = result_def(PointerType)

    assembly_format = "$variable attr-dict `:` type($pointer)"

    traits = traits_def(Pure())

    def __init__(self, name: str, type_: PointerType):
        super().__init__(result_types=[type_], properties={"variable": SymbolRefAttr(name)})

    def verify_(self) -> None:
        found = looked_up(self, self.variable)
        if not isinstance(found, GlobalVariableOp):
            raise VerifyException(f"'spirv.mlir.addressof': {self.variable} is no global variable")
        if found.type != self.pointer.type:
            raise VerifyException(
                f"'spirv.mlir.addressof' of {found.type} gives {self.pointer.type}"
            )


def looked_up(op: Operation, symbol: SymbolRefAttr) -> Operation | None:
    """What a name stands for in the module around an op."""
    parent: Operation | None = op
    while parent is not None and parent.name != "spirv.module":
        parent = parent.parent_op()
    if parent is None:
        return None
    for one in parent.regions[0].block.ops:
        name = one.properties.get("sym_name")
        if isinstance(name, StringAttr) and name.data == symbol.string_value():
            return one
    return None
