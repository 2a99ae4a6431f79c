"""`llvm` with the operations that xDSL 0.74 lacks, under MLIR's names and in MLIR's syntax.

Added: vector operands of `fcmp` and `select`, integer values in `masked.store`, atomic stores, the
float/integer casts, `extractelement`, `switch`, `poison`, `freeze`, atomics, memory intrinsics,
rounding, minimum/maximum and reduction intrinsics.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    AnyFloatConstr,
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    SignlessIntegerConstraint,
    VectorType,
    i1,
    i32,
    i64,
)
from xdsl.dialects.llvm import (
    ATOMIC_ORDERING_KEYWORDS,
    FastMathAttr,
    FCmpPredicateFlag,
    GenericCastOp,
    LLVMPointerType,
    LLVMStructType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    successor_def,
    traits_def,
    var_operand_def,
    var_successor_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import (
    IsTerminator,
    MemoryReadEffect,
    MemoryWriteEffect,
    NoMemoryEffect,
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.extensions.arith import bool_type_like
from openinfer.dialects.extensions.extend import extended_dialect, extended_op

_FLOAT_LIKE = AnyFloatConstr | VectorType.constr(AnyFloatConstr)
_INTEGER_LIKE = SignlessIntegerConstraint | VectorType.constr(SignlessIntegerConstraint)
_BOOL_LIKE = base(IntegerType) | VectorType.constr(base(IntegerType))
_VECTOR = base(VectorType)

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


# Ops of xDSL with wider types -------------------------------------------------------------------


@extended_op(
    operands={"lhs": VarConstraint("T", _FLOAT_LIKE), "rhs": VarConstraint("T", _FLOAT_LIKE)},
    results={"res": _BOOL_LIKE},
)
class FCmpOp(llvm.FCmpOp):
    """Float comparison of scalars or vectors, with fast-math flags in the attribute dictionary."""

    def __init__(
        self,
        lhs: Operation | SSAValue,
        rhs: Operation | SSAValue,
        predicate: str | IntegerAttr[IntegerType],
        attributes: dict[str, Attribute] = {},  # noqa: B006
    ):
        if isinstance(predicate, str):
            predicate = IntegerAttr(FCmpPredicateFlag(predicate).to_int(), i64)
        others = dict(attributes)
        flags = others.pop("fastmathFlags", FastMathAttr(None))
        super(llvm.FCmpOp, self).__init__(
            operands=[lhs, rhs],
            result_types=[bool_type_like(SSAValue.get(lhs).type)],
            attributes=others,
            properties={"predicate": predicate, "fastmathFlags": flags},
        )

    def print(self, printer: Printer) -> None:
        flag = FCmpPredicateFlag.from_int(self.predicate.value.data)
        printer.print_string(f' "{flag}" ')
        printer.print_list(self.operands, printer.print_operand)
        attributes = dict(self.attributes)
        if self.fastmathFlags.data:
            attributes["fastmathFlags"] = self.fastmathFlags
        printer.print_op_attributes(attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.lhs.type)

    def verify_(self) -> None:
        if self.res.type != bool_type_like(self.lhs.type):
            raise VerifyException(
                f"'llvm.fcmp' of {self.lhs.type} gives {bool_type_like(self.lhs.type)}, "
                f"not {self.res.type}"
            )


@extended_op(operands={"cond": _BOOL_LIKE})
class SelectOp(llvm.SelectOp):
    """Choice by one i1 or per element by a vector of i1."""

    def verify_(self) -> None:
        if self.cond.type != i1 and self.cond.type != bool_type_like(self.res.type):
            raise VerifyException(
                f"'llvm.select' of {self.res.type} cannot choose by {self.cond.type}"
            )


@extended_op(operands={"value": _VECTOR})
class MaskedStoreOp(llvm.MaskedStoreOp):
    """Masked store of a vector of any element type."""


@extended_op(
    operands={"ssa_indices": base(IntegerType) | VectorType.constr(base(IntegerType))},
    results={"result": base(LLVMPointerType) | VectorType.constr(base(LLVMPointerType))},
)
class GEPOp(llvm.GEPOp):
    """Address arithmetic; a vector of indices gives a vector of addresses."""


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


# Missing instructions ---------------------------------------------------------------------------


@irdl_op_definition
class FPToSIOp(GenericCastOp):
    name = "llvm.fptosi"


@irdl_op_definition
class FPToUIOp(GenericCastOp):
    name = "llvm.fptoui"


@irdl_op_definition
class UIToFPOp(GenericCastOp):
    name = "llvm.uitofp"


@irdl_op_definition
class ExtractElementOp(IRDLOperation):
    name = "llvm.extractelement"

    ELEMENT: ClassVar = VarConstraint("ELEMENT", AnyAttr())

    vector = operand_def(VectorType.constr(ELEMENT))
    position = operand_def(SignlessIntegerConstraint)
    res = result_def(ELEMENT)

    assembly_format = "$vector `[` $position `:` type($position) `]` attr-dict `:` type($vector)"

    traits = traits_def(NoMemoryEffect())

    def __init__(self, vector: SSAValue | Operation, position: SSAValue | Operation):
        element = cast(VectorType, SSAValue.get(vector).type).element_type
        super().__init__(operands=[vector, position], result_types=[element])


@irdl_op_definition
class PoisonOp(IRDLOperation):
    name = "llvm.mlir.poison"

    res = result_def(AnyAttr())

    assembly_format = "attr-dict `:` type($res)"

    traits = traits_def(Pure())

    def __init__(self, result_type: Attribute):
        super().__init__(result_types=[result_type])


@irdl_op_definition
class FreezeOp(IRDLOperation):
    name = "llvm.freeze"

    T: ClassVar = VarConstraint("T", AnyAttr())

    val = operand_def(T)
    res = result_def(T)

    assembly_format = "$val attr-dict `:` type($val)"

    traits = traits_def(Pure())

    def __init__(self, value: SSAValue | Operation):
        super().__init__(operands=[value], result_types=[SSAValue.get(value).type])


@irdl_op_definition
class SwitchOp(IRDLOperation):
    """A jump by an integer: `case_values[i]` goes to `case_blocks[i]`, anything else to default."""

    name = "llvm.switch"

    value = operand_def(SignlessIntegerConstraint)
    default_operands = var_operand_def()
    case_operands = var_operand_def()
    case_values = prop_def(ArrayAttr[IntegerAttr])
    case_operand_segments = prop_def(DenseArrayBase.constr(i32))
    default_block = successor_def()
    case_blocks = var_successor_def()

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    traits = traits_def(IsTerminator(), Pure())

    def __init__(
        self,
        value: SSAValue | Operation,
        default_block: Block,
        default_operands: Sequence[SSAValue],
        case_values: Sequence[int],
        case_blocks: Sequence[Block],
        case_operands: Sequence[Sequence[SSAValue]],
    ):
        type = cast(IntegerType, SSAValue.get(value).type)
        super().__init__(
            operands=[value, default_operands, [v for values in case_operands for v in values]],
            successors=[default_block, case_blocks],
            properties={
                "case_values": ArrayAttr(IntegerAttr(v, type) for v in case_values),
                "case_operand_segments": DenseArrayBase.from_list(
                    i32, [len(values) for values in case_operands]
                ),
            },
        )

    def grouped_case_operands(self) -> list[Sequence[SSAValue]]:
        """The operands of each case, in the order of `case_blocks`."""
        groups: list[Sequence[SSAValue]] = []
        start = 0
        for length in self.case_operand_segments.iter_values():
            groups.append(self.case_operands[start : start + length])
            start += length
        return groups

    def verify_(self) -> None:
        counts = {
            len(self.case_values.data),
            len(self.case_blocks),
            len(self.case_operand_segments),
        }
        if len(counts) != 1:
            raise VerifyException("'llvm.switch' needs one value and one block per case")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.value)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)
        printer.print_string(", ")
        _print_target(printer, self.default_block, self.default_operands)
        printer.print_string(" [")
        cases = zip(self.case_values, self.case_blocks, self.grouped_case_operands(), strict=True)

        def print_case(case: tuple[IntegerAttr, Block, Sequence[SSAValue]]) -> None:
            printer.print_string(f"{case[0].value.data}: ")
            _print_target(printer, case[1], case[2])

        printer.print_list(cases, print_case)
        printer.print_string("]")
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> SwitchOp:
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        value = parser.resolve_operand(value, parser.parse_type())
        parser.parse_punctuation(",")
        default_block, default_operands = _parse_target(parser)

        def parse_case() -> tuple[int, Block, Sequence[SSAValue]]:
            number = parser.parse_integer()
            parser.parse_punctuation(":")
            return number, *_parse_target(parser)

        cases = parser.parse_comma_separated_list(Parser.Delimiter.SQUARE, parse_case)
        op = cls(
            value,
            default_block,
            default_operands,
            [number for number, _, _ in cases],
            [block for _, block, _ in cases],
            [operands for _, _, operands in cases],
        )
        op.attributes |= parser.parse_optional_attr_dict()
        return op


def _print_target(printer: Printer, block: Block, operands: Sequence[SSAValue]) -> None:
    printer.print_block_name(block)
    if operands:
        with printer.in_parens():
            printer.print_list(operands, printer.print_operand)
            printer.print_string(" : ")
            printer.print_list([v.type for v in operands], printer.print_attribute)


def _parse_target(parser: Parser) -> tuple[Block, Sequence[SSAValue]]:
    block = parser.parse_successor()
    if not parser.parse_optional_punctuation("("):
        return block, ()
    names: list[UnresolvedOperand] = parser.parse_comma_separated_list(
        Parser.Delimiter.NONE, parser.parse_unresolved_operand
    )
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)
    parser.parse_punctuation(")")
    return block, parser.resolve_operands(names, types, parser.pos)


# Atomics ----------------------------------------------------------------------------------------


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


# Intrinsics -------------------------------------------------------------------------------------


@irdl_op_definition
class MaskedLoadOp(IRDLOperation):
    name = "llvm.intr.masked.load"

    V: ClassVar = VarConstraint("V", base(VectorType))

    data = operand_def(LLVMPointerType)
    mask = operand_def(VectorType.constr(i1))
    pass_thru = operand_def(V)
    res = result_def(V)
    alignment = prop_def(IntegerAttr[IntegerType])

    assembly_format = "operands attr-dict `:` functional-type(operands, results)"

    irdl_options = (ParsePropInAttrDict(),)

    traits = traits_def(MemoryReadEffect())

    def __init__(
        self,
        data: SSAValue | Operation,
        mask: SSAValue | Operation,
        pass_thru: SSAValue | Operation,
        alignment: int,
    ):
        super().__init__(
            operands=[data, mask, pass_thru],
            result_types=[SSAValue.get(pass_thru).type],
            properties={"alignment": IntegerAttr(alignment, i32)},
        )


@irdl_op_definition
class MaskedGatherOp(IRDLOperation):
    name = "llvm.intr.masked.gather"

    V: ClassVar = VarConstraint("V", base(VectorType))

    ptrs = operand_def(VectorType.constr(base(LLVMPointerType)))
    mask = operand_def(VectorType.constr(i1))
    pass_thru = operand_def(V)
    res = result_def(V)
    alignment = prop_def(IntegerAttr[IntegerType])

    assembly_format = "operands attr-dict `:` functional-type(operands, results)"

    irdl_options = (ParsePropInAttrDict(),)

    traits = traits_def(MemoryReadEffect())

    def __init__(
        self,
        pointers: SSAValue | Operation,
        mask: SSAValue | Operation,
        pass_thru: SSAValue | Operation,
        alignment: int,
    ):
        super().__init__(
            operands=[pointers, mask, pass_thru],
            result_types=[SSAValue.get(pass_thru).type],
            properties={"alignment": IntegerAttr(alignment, i32)},
        )


@irdl_op_definition
class MemcpyOp(IRDLOperation):
    name = "llvm.intr.memcpy"

    dst = operand_def(LLVMPointerType)
    src = operand_def(LLVMPointerType)
    len = operand_def(SignlessIntegerConstraint)
    is_volatile = prop_def(BoolAttr, prop_name="isVolatile")

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self, dst: SSAValue | Operation, src: SSAValue | Operation, length: SSAValue | Operation
    ):
        super().__init__(
            operands=[dst, src, length], properties={"isVolatile": BoolAttr.from_bool(False)}
        )


@irdl_op_definition
class PrefetchOp(IRDLOperation):
    """Fetch a line into the cache: `rw` 1 to write it, `hint` 0 to 3 to keep it, `cache` 1 data."""

    name = "llvm.intr.prefetch"

    addr = operand_def(LLVMPointerType)
    rw = prop_def(IntegerAttr[IntegerType])
    hint = prop_def(IntegerAttr[IntegerType])
    cache = prop_def(IntegerAttr[IntegerType])

    # A prefetch changes nothing that a program sees, but it must stay where it stands.
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, address: SSAValue | Operation, rw: int, hint: int, cache: int = 1):
        super().__init__(
            operands=[address],
            properties={
                "rw": IntegerAttr(rw, i32),
                "hint": IntegerAttr(hint, i32),
                "cache": IntegerAttr(cache, i32),
            },
        )


class FloatUnaryIntrinsic(IRDLOperation, ABC):
    """`llvm.intr.NAME` of one float or vector of floats."""

    T: ClassVar = VarConstraint("T", _FLOAT_LIKE)

    arg = operand_def(T)
    res = result_def(T)
    fastmathFlags = prop_def(FastMathAttr, default_value=FastMathAttr(None))

    assembly_format = "`(` operands `)` attr-dict `:` functional-type(operands, results)"

    irdl_options = (ParsePropInAttrDict(),)

    traits = traits_def(Pure())

    def __init__(self, arg: SSAValue | Operation, fastmath: FastMathAttr | None = None):
        super().__init__(
            operands=[arg],
            result_types=[SSAValue.get(arg).type],
            properties={"fastmathFlags": fastmath or FastMathAttr(None)},
        )


class FloatBinaryIntrinsic(IRDLOperation, ABC):
    """`llvm.intr.NAME` of two floats or vectors of floats."""

    T: ClassVar = VarConstraint("T", _FLOAT_LIKE)

    a = operand_def(T)
    b = operand_def(T)
    res = result_def(T)
    fastmathFlags = prop_def(FastMathAttr, default_value=FastMathAttr(None))

    assembly_format = "`(` operands `)` attr-dict `:` functional-type(operands, results)"

    irdl_options = (ParsePropInAttrDict(),)

    traits = traits_def(Pure())

    def __init__(
        self,
        a: SSAValue | Operation,
        b: SSAValue | Operation,
        fastmath: FastMathAttr | None = None,
    ):
        super().__init__(
            operands=[a, b],
            result_types=[SSAValue.get(a).type],
            properties={"fastmathFlags": fastmath or FastMathAttr(None)},
        )


class IntegerBinaryIntrinsic(IRDLOperation, ABC):
    """`llvm.intr.NAME` of two integers or vectors of integers."""

    T: ClassVar = VarConstraint("T", _INTEGER_LIKE)

    a = operand_def(T)
    b = operand_def(T)
    res = result_def(T)

    assembly_format = "`(` operands `)` attr-dict `:` functional-type(operands, results)"

    traits = traits_def(Pure())

    def __init__(self, a: SSAValue | Operation, b: SSAValue | Operation):
        super().__init__(operands=[a, b], result_types=[SSAValue.get(a).type])


class VectorReduceIntrinsic(IRDLOperation, ABC):
    """`llvm.intr.vector.reduce.NAME`: the elements of a vector combined into one."""

    ELEMENT: ClassVar = VarConstraint("ELEMENT", AnyFloatConstr | SignlessIntegerConstraint)

    arg = operand_def(VectorType.constr(ELEMENT))
    res = result_def(ELEMENT)
    fastmathFlags = opt_prop_def(FastMathAttr)

    assembly_format = "`(` operands `)` attr-dict `:` functional-type(operands, results)"

    irdl_options = (ParsePropInAttrDict(),)

    traits = traits_def(Pure())

    def __init__(self, arg: SSAValue | Operation, fastmath: FastMathAttr | None = None):
        super().__init__(
            operands=[arg],
            result_types=[cast(VectorType, SSAValue.get(arg).type).element_type],
            properties={"fastmathFlags": fastmath},
        )


def _intrinsics(base_class: type[IRDLOperation], *names: str) -> dict[str, type[IRDLOperation]]:
    """One op class per intrinsic name, all with the shape of `base_class`."""
    made: dict[str, type[IRDLOperation]] = {}
    for name in names:
        class_name = "".join(part.capitalize() for part in name.split(".")) + "Op"
        body = {"name": f"llvm.intr.{name}", "__module__": __name__, "__annotations__": {}}
        made[name] = irdl_op_definition(type(class_name, (base_class,), body))
    return made


INTRINSICS: dict[str, type[IRDLOperation]] = {
    **_intrinsics(
        FloatUnaryIntrinsic,
        *("acos", "asin", "atan", "cosh", "log10", "rint", "round", "roundeven", "sinh"),
        *("tan", "tanh", "trunc"),
    ),
    **_intrinsics(FloatBinaryIntrinsic, "atan2", "maximum", "minimum"),
    **_intrinsics(IntegerBinaryIntrinsic, "smax", "smin", "umax", "umin"),
    **_intrinsics(
        VectorReduceIntrinsic,
        *(f"vector.reduce.{kind}" for kind in ("add", "and", "fmax", "fmaximum", "fmin")),
        *(f"vector.reduce.{kind}" for kind in ("fminimum", "mul", "or", "smax", "smin")),
        *(f"vector.reduce.{kind}" for kind in ("umax", "umin", "xor")),
    ),
}
"""The added intrinsic ops of uniform shape, by their name after `llvm.intr.`."""


LLVM = extended_dialect(
    llvm.LLVM,
    (
        AtomicRMWOp,
        CmpXchgOp,
        ExtractElementOp,
        FCmpOp,
        FPToSIOp,
        FPToUIOp,
        FenceOp,
        FreezeOp,
        GEPOp,
        MaskedGatherOp,
        MaskedLoadOp,
        MaskedStoreOp,
        MemcpyOp,
        PoisonOp,
        PrefetchOp,
        SelectOp,
        StoreOp,
        SwitchOp,
        UIToFPOp,
        *INTRINSICS.values(),
    ),
)
