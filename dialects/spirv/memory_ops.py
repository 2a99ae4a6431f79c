"""Ops of SPIR-V on memory: loads, stores, addresses, variables of a function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, IntegerType, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.spirv.composite_ops import ConstantOp
from openinfer.dialects.spirv.enums import MemoryAccessAttr, StorageClassAttr
from openinfer.dialects.spirv.types import PointerType, StructType, member_of

_ALIGNED = MemoryAccessAttr.of("Aligned").data


class _AccessOp(IRDLOperation):
    """What loads and stores share: how memory is accessed."""

    memory_access = opt_prop_def(MemoryAccessAttr)
    alignment = opt_prop_def(IntegerAttr[IntegerType])

    def check_access(self) -> None:
        """An alignment stands with `Aligned`, and only with it."""
        access = self.memory_access.data if self.memory_access is not None else 0
        if bool(access & _ALIGNED) != (self.alignment is not None):
            raise VerifyException(
                f"'{self.name}' needs `Aligned` and an alignment, or none of them"
            )

    def print_access(self, printer: Printer) -> None:
        if self.memory_access is not None:
            alignment = f", {self.alignment.value.data}" if self.alignment is not None else ""
            printer.print_string(f' ["{self.memory_access.text}"{alignment}]')


def _access(access: str | None, alignment: int | None) -> dict[str, Attribute | None]:
    if alignment is not None:
        access = "Aligned" if access is None else f"Aligned|{access}"
    return {
        "memory_access": None if access is None else MemoryAccessAttr.of(access),
        "alignment": None if alignment is None else IntegerAttr(alignment, i32),
    }


def _parse_access(parser: Parser) -> dict[str, Attribute | None]:
    if not parser.parse_optional_punctuation("["):
        return {}
    access = MemoryAccessAttr.parse_text(parser, parser.parse_str_literal())
    alignment: Attribute | None = None
    if parser.parse_optional_punctuation(","):
        alignment = IntegerAttr(parser.parse_integer(allow_boolean=False), i32)
    parser.parse_punctuation("]")
    return {"memory_access": access, "alignment": alignment}


def _pointer_type(type_: Attribute) -> PointerType:
    if not isinstance(type_, PointerType):
        raise VerifyException(f"expected a pointer, found {type_}")
    return type_


def _parse_pointer(parser: Parser) -> tuple[str, UnresolvedOperand]:
    return StorageClassAttr.parse_text(parser, parser.parse_str_literal()).text, (
        parser.parse_unresolved_operand()
    )


@irdl_op_definition
class LoadOp(_AccessOp):
    """`spirv.Load "StorageBuffer" %p ["Aligned", 4] : f32`."""

    name = "spirv.Load"

    ptr = operand_def(PointerType)
    res = result_def()

    traits = traits_def(MemoryReadEffect())

    def __init__(
        self,
        pointer: SSAValue | Operation,
        access: str | None = None,
        alignment: int | None = None,
    ):
        type_ = _pointer_type(SSAValue.get(pointer).type)
        super().__init__(
            operands=[pointer],
            result_types=[type_.pointee],
            properties=_access(access, alignment),
        )

    def verify_(self) -> None:
        pointee = _pointer_type(self.ptr.type).pointee
        if pointee != self.res.type:
            raise VerifyException(f"'spirv.Load' of {self.res.type} from a pointer to {pointee}")
        self.check_access()

    def print(self, printer: Printer) -> None:
        printer.print_string(f' "{_pointer_type(self.ptr.type).storage_class.text}" ')
        printer.print_operand(self.ptr)
        self.print_access(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.res.type)

    @classmethod
    def parse(cls, parser: Parser) -> LoadOp:
        storage, pointer = _parse_pointer(parser)
        properties = _parse_access(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        return cls.build(
            operands=[parser.resolve_operand(pointer, PointerType.to(type_, storage))],
            result_types=[type_],
            properties=properties,
            attributes=attributes,
        )


@irdl_op_definition
class StoreOp(_AccessOp):
    """`spirv.Store "Workgroup" %p, %x : f32`."""

    name = "spirv.Store"

    ptr = operand_def(PointerType)
    value = operand_def()

    traits = traits_def(MemoryWriteEffect())

    def __init__(
        self,
        pointer: SSAValue | Operation,
        value: SSAValue | Operation,
        access: str | None = None,
        alignment: int | None = None,
    ):
        super().__init__(operands=[pointer, value], properties=_access(access, alignment))

    def verify_(self) -> None:
        pointee = _pointer_type(self.ptr.type).pointee
        if pointee != self.value.type:
            raise VerifyException(f"'spirv.Store' of {self.value.type} to a pointer to {pointee}")
        self.check_access()

    def print(self, printer: Printer) -> None:
        printer.print_string(f' "{_pointer_type(self.ptr.type).storage_class.text}" ')
        printer.print_list(self.operands, printer.print_operand)
        self.print_access(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)

    @classmethod
    def parse(cls, parser: Parser) -> StoreOp:
        storage, pointer = _parse_pointer(parser)
        parser.parse_punctuation(",")
        value = parser.parse_unresolved_operand()
        properties = _parse_access(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        return cls.build(
            operands=[
                parser.resolve_operand(pointer, PointerType.to(type_, storage)),
                parser.resolve_operand(value, type_),
            ],
            properties=properties,
            attributes=attributes,
        )


def pointee_at(base: Attribute, indices: Sequence[SSAValue]) -> Attribute | None:
    """The type of what indices lead to; None where they lead nowhere. Structs need constants."""
    found: Attribute | None = base
    for index in indices:
        if isinstance(found, StructType):
            constant = index.owner
            if not isinstance(constant, ConstantOp) or not isinstance(constant.value, IntegerAttr):
                return None
            found = member_of(found, constant.value.value.data)
        elif found is not None:
            found = member_of(found, None)
    return found


class _ChainOp(IRDLOperation):
    """An address by a base and indices."""

    base_ptr = operand_def(PointerType)
    indices = var_operand_def(IntegerType)
    res = result_def(PointerType)

    traits = traits_def(Pure())

    FIRST: ClassVar[int] = 0
    """Indices in front of those that lead into the composite."""

    def __init__(self, base: SSAValue | Operation, indices: Sequence[SSAValue | Operation]):
        values = [SSAValue.get(index) for index in indices]
        super().__init__(
            operands=[base, values],
            result_types=[self.result_type(SSAValue.get(base).type, values)],
        )

    @classmethod
    def result_type(cls, base: Attribute, indices: Sequence[SSAValue]) -> PointerType:
        """The type of the address. Raises VerifyException."""
        pointer = _pointer_type(base)
        found = pointee_at(pointer.pointee, indices[cls.FIRST :])
        if found is None or len(indices) < cls.FIRST:
            raise VerifyException(f"'{cls.name}': the indices lead to nothing of {pointer.pointee}")
        return PointerType(found, pointer.storage_class)

    def verify_(self) -> None:
        expected = self.result_type(self.base_ptr.type, self.indices)
        if expected != self.res.type:
            raise VerifyException(f"'{self.name}' gives {expected}, not {self.res.type}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.base_ptr)
        with printer.in_square_brackets():
            printer.print_list(self.indices, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list(self.operand_types, printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> _ChainOp:
        place = parser.pos
        names = [parser.parse_unresolved_operand()]
        names += parser.parse_comma_separated_list(
            Parser.Delimiter.SQUARE, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)
        base, *indices = parser.resolve_operands(names, types, place)
        try:
            result = cls.result_type(base.type, indices)
        except VerifyException as error:
            parser.raise_error(str(error), place)
        return cls.build(operands=[base, indices], result_types=[result], attributes=attributes)


@irdl_op_definition
class AccessChainOp(_ChainOp):
    """`spirv.AccessChain %p[%i, %j] : !spirv.ptr<…>, i32, i32`."""

    name = "spirv.AccessChain"


@irdl_op_definition
class PtrAccessChainOp(_ChainOp):
    """As `AccessChain`, and its first index counts what the base points to, as in an array."""

    name = "spirv.PtrAccessChain"
    FIRST: ClassVar[int] = 1


@irdl_op_definition
class InBoundsPtrAccessChainOp(_ChainOp):
    """As `PtrAccessChain`, where all indices lie inside."""

    name = "spirv.InBoundsPtrAccessChain"
    FIRST: ClassVar[int] = 1


@irdl_op_definition
class VariableOp(IRDLOperation):
    """`spirv.Variable init(%c) : !spirv.ptr<f32, Function>`: memory of one invocation of a function."""

    name = "spirv.Variable"

    initializer = opt_operand_def()
    storage_class = prop_def(StorageClassAttr)
    res = result_def(PointerType)

    traits = traits_def(MemoryWriteEffect())

    def __init__(self, pointee: Attribute, initializer: SSAValue | Operation | None = None):
        super().__init__(
            operands=[initializer],
            result_types=[PointerType.to(pointee, "Function")],
            properties={"storage_class": StorageClassAttr.of("Function")},
        )

    def verify_(self) -> None:
        pointer = _pointer_type(self.res.type)
        if pointer.storage_class.text != "Function" or self.storage_class != pointer.storage_class:
            raise VerifyException("'spirv.Variable' lies in the storage class Function")
        if self.initializer is not None and self.initializer.type != pointer.pointee:
            raise VerifyException(
                f"'spirv.Variable' of {pointer.pointee} begins as {self.initializer.type}"
            )

    def print(self, printer: Printer) -> None:
        if self.initializer is not None:
            printer.print_string(" init(")
            printer.print_operand(self.initializer)
            printer.print_string(")")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.res.type)

    @classmethod
    def parse(cls, parser: Parser) -> VariableOp:
        initial = None
        if parser.parse_optional_keyword("init"):
            with parser.in_parens():
                initial = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        place = parser.pos
        type_ = parser.parse_type()
        if not isinstance(type_, PointerType):
            parser.raise_error(f"{type_} is no pointer", place)
        value = None if initial is None else parser.resolve_operand(initial, type_.pointee)
        op = cls(type_.pointee, value)
        op.attributes |= attributes
        return op


MEMORY_OPS = (
    LoadOp,
    StoreOp,
    AccessChainOp,
    PtrAccessChainOp,
    InBoundsPtrAccessChainOp,
    VariableOp,
)
