"""Atomic operations of `llvm` that xDSL 0.74 lacks, and its store with an ordering."""

from __future__ import annotations

from typing import ClassVar, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    AnyFloatConstr,
    IntegerAttr,
    IntegerType,
    SignlessIntegerConstraint,
    i1,
    i64,
)
from xdsl.dialects.llvm import (
    ATOMIC_ORDERING_KEYWORDS,
    LLVMPointerType,
    LLVMStructType,
)
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    MemoryReadEffect,
    MemoryWriteEffect,
)

from openinfer.dialects.extensions.extend import extended_op

ATOMIC_ORDERING_NUMBERS = {keyword: number for number, keyword in ATOMIC_ORDERING_KEYWORDS.items()}

ATOMIC_BIN_OPS = (
    "xchg",
    "add",
    "sub",
    "_and",
    "nand",
    "_or",
    "_xor",
    "max",
    "min",
    "umax",
    "umin",
    "fadd",
    "fsub",
    "fmax",
    "fmin",
)
"""MLIR's names of the `atomicrmw` kinds, in the order of their numbers."""


@extended_op(custom_syntax=True)
class StoreOp(llvm.StoreOp):
    """Store whose atomic ordering survives printing."""

    def print(self, printer: Printer) -> None:
        printer.print_string(" volatile " if self.volatile_ is not None else " ")
        printer.print_list(self.operands, printer.print_operand)
        if self.ordering is not None and (number := self.ordering.value.data):
            printer.print_string(f" atomic {ATOMIC_ORDERING_KEYWORDS[number]}")
        attributes = dict(self.attributes)
        if self.alignment is not None:
            attributes["alignment"] = self.alignment
        if self.nontemporal is not None:
            attributes["nontemporal"] = self.nontemporal
        printer.print_op_attributes(attributes)
        printer.print_string(" : ")
        printer.print_list([v.type for v in self.operands], printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> StoreOp:
        volatile = parser.parse_optional_keyword("volatile") is not None
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        pointer = parser.parse_unresolved_operand()
        ordering = 0
        if parser.parse_optional_keyword("atomic"):
            ordering = _parse_ordering(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        value_type = parser.parse_type()
        parser.parse_punctuation(",")
        pointer_type = parser.parse_type()
        alignment = cast(IntegerAttr | None, attributes.pop("alignment", None))
        op = cls(
            parser.resolve_operand(value, value_type),
            parser.resolve_operand(pointer, pointer_type),
            alignment=None if alignment is None else alignment.value.data,
            ordering=ordering,
            volatile=volatile,
            nontemporal=attributes.pop("nontemporal", None) is not None,
        )
        op.attributes |= attributes
        return op


def _parse_ordering(parser: Parser) -> int:
    keyword = parser.parse_identifier("atomic ordering")
    if keyword not in ATOMIC_ORDERING_NUMBERS:
        parser.raise_error(f"unknown atomic ordering '{keyword}'")
    return ATOMIC_ORDERING_NUMBERS[keyword]


@irdl_op_definition
class AtomicRMWOp(IRDLOperation):
    """Read, combine and write one number in memory; gives the old value."""

    name = "llvm.atomicrmw"

    T: ClassVar = VarConstraint("T", AnyFloatConstr | SignlessIntegerConstraint)

    ptr = operand_def(LLVMPointerType)
    val = operand_def(T)
    res = result_def(T)
    bin_op = prop_def(IntegerAttr[IntegerType])
    ordering = prop_def(IntegerAttr[IntegerType])
    alignment = opt_prop_def(IntegerAttr[IntegerType])

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        bin_op: str,
        pointer: SSAValue | Operation,
        value: SSAValue | Operation,
        ordering: str = "monotonic",
    ):
        super().__init__(
            operands=[pointer, value],
            result_types=[SSAValue.get(value).type],
            properties={
                "bin_op": IntegerAttr(ATOMIC_BIN_OPS.index(bin_op), i64),
                "ordering": IntegerAttr(ATOMIC_ORDERING_NUMBERS[ordering], i64),
            },
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {ATOMIC_BIN_OPS[self.bin_op.value.data]} ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_string(f" {ATOMIC_ORDERING_KEYWORDS[self.ordering.value.data]}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list([v.type for v in self.operands], printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> AtomicRMWOp:
        bin_op = parser.parse_identifier("kind of update")
        if bin_op not in ATOMIC_BIN_OPS:
            parser.raise_error(f"unknown kind of update '{bin_op}'")
        operands = [parser.parse_unresolved_operand()]
        parser.parse_punctuation(",")
        operands.append(parser.parse_unresolved_operand())
        ordering = ATOMIC_ORDERING_KEYWORDS[_parse_ordering(parser)]
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)
        pointer, value = parser.resolve_operands(operands, types, parser.pos)
        op = cls(bin_op, pointer, value, ordering)
        op.attributes |= attributes
        return op


@irdl_op_definition
class CmpXchgOp(IRDLOperation):
    """Replace a number in memory if it equals `cmp`; gives the old value and whether it did."""

    name = "llvm.cmpxchg"

    T: ClassVar = VarConstraint("T", SignlessIntegerConstraint | base(LLVMPointerType))

    ptr = operand_def(LLVMPointerType)
    cmp = operand_def(T)
    val = operand_def(T)
    res = result_def(LLVMStructType)
    success_ordering = prop_def(IntegerAttr[IntegerType])
    failure_ordering = prop_def(IntegerAttr[IntegerType])

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        pointer: SSAValue | Operation,
        expected: SSAValue | Operation,
        value: SSAValue | Operation,
        success_ordering: str = "acq_rel",
        failure_ordering: str = "monotonic",
    ):
        super().__init__(
            operands=[pointer, expected, value],
            result_types=[LLVMStructType.from_type_list([SSAValue.get(value).type, i1])],
            properties={
                "success_ordering": IntegerAttr(ATOMIC_ORDERING_NUMBERS[success_ordering], i64),
                "failure_ordering": IntegerAttr(ATOMIC_ORDERING_NUMBERS[failure_ordering], i64),
            },
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        for ordering in (self.success_ordering, self.failure_ordering):
            printer.print_string(f" {ATOMIC_ORDERING_KEYWORDS[ordering.value.data]}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list([v.type for v in self.operands[:2]], printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> CmpXchgOp:
        names = parser.parse_comma_separated_list(
            Parser.Delimiter.NONE, parser.parse_unresolved_operand
        )
        orderings = [ATOMIC_ORDERING_KEYWORDS[_parse_ordering(parser)] for _ in range(2)]
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)
        operands = parser.resolve_operands(names, [*types, types[-1]], parser.pos)
        op = cls(operands[0], operands[1], operands[2], *orderings)
        op.attributes |= attributes
        return op


@irdl_op_definition
class FenceOp(IRDLOperation):
    name = "llvm.fence"

    ordering = prop_def(IntegerAttr[IntegerType])

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, ordering: str):
        super().__init__(
            properties={"ordering": IntegerAttr(ATOMIC_ORDERING_NUMBERS[ordering], i64)}
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {ATOMIC_ORDERING_KEYWORDS[self.ordering.value.data]}")
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> FenceOp:
        op = cls(ATOMIC_ORDERING_KEYWORDS[_parse_ordering(parser)])
        op.attributes |= parser.parse_optional_attr_dict()
        return op
