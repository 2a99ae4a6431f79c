"""`llvm` with the operations that xDSL 0.74 lacks, under MLIR's names and in MLIR's syntax.

Added: vector operands of `fcmp` and `select`, integer values in `masked.store`, atomic stores, the
float/integer casts, `extractelement`, `switch`, `poison`, `freeze`, atomics, memory intrinsics,
rounding, minimum/maximum and reduction intrinsics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    AnyFloatConstr,
    ArrayAttr,
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
    FastMathAttr,
    FCmpPredicateFlag,
    GenericCastOp,
    LLVMPointerType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    VarConstraint,
    base,
    operand_def,
    prop_def,
    result_def,
    successor_def,
    traits_def,
    var_operand_def,
    var_successor_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsTerminator,
    NoMemoryEffect,
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.branch_targets import parse_target, print_target
from openinfer.dialects.extensions.arith import bool_type_like
from openinfer.dialects.extensions.extend import extended_dialect, extended_op
from openinfer.dialects.extensions.llvm_atomics import AtomicRMWOp, CmpXchgOp, FenceOp, StoreOp
from openinfer.dialects.extensions.llvm_intrinsics import INTRINSICS, MaskedStoreOp
from openinfer.dialects.late_syntax import op_definition

_FLOAT_LIKE = AnyFloatConstr | VectorType.constr(AnyFloatConstr)
_BOOL_LIKE = base(IntegerType) | VectorType.constr(base(IntegerType))


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


@extended_op(
    operands={"ssa_indices": base(IntegerType) | VectorType.constr(base(IntegerType))},
    results={"result": base(LLVMPointerType) | VectorType.constr(base(LLVMPointerType))},
)
class GEPOp(llvm.GEPOp):
    """Address arithmetic; a vector of indices gives a vector of addresses."""


def _cast_op(name: str) -> type[GenericCastOp]:
    body = {"name": f"llvm.{name}", "__module__": __name__, "__annotations__": {}}
    return op_definition(type(name, (GenericCastOp,), body))


FPToSIOp, FPToUIOp, UIToFPOp = (_cast_op(name) for name in ("fptosi", "fptoui", "uitofp"))


@op_definition
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


@op_definition
class PoisonOp(IRDLOperation):
    name = "llvm.mlir.poison"

    res = result_def(AnyAttr())

    assembly_format = "attr-dict `:` type($res)"

    traits = traits_def(Pure())

    def __init__(self, result_type: Attribute):
        super().__init__(result_types=[result_type])


@op_definition
class FreezeOp(IRDLOperation):
    name = "llvm.freeze"

    T: ClassVar = VarConstraint("T", AnyAttr())

    val = operand_def(T)
    res = result_def(T)

    assembly_format = "$val attr-dict `:` type($val)"

    traits = traits_def(Pure())

    def __init__(self, value: SSAValue | Operation):
        super().__init__(operands=[value], result_types=[SSAValue.get(value).type])


@op_definition
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
        print_target(printer, self.default_block, self.default_operands)
        printer.print_string(" [")
        cases = zip(self.case_values, self.case_blocks, self.grouped_case_operands(), strict=True)

        def print_case(case: tuple[IntegerAttr, Block, Sequence[SSAValue]]) -> None:
            printer.print_string(f"{case[0].value.data}: ")
            print_target(printer, case[1], case[2])

        printer.print_list(cases, print_case)
        printer.print_string("]")
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> SwitchOp:
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        value = parser.resolve_operand(value, parser.parse_type())
        parser.parse_punctuation(",")
        default_block, default_operands = parse_target(parser)

        def parse_case() -> tuple[int, Block, Sequence[SSAValue]]:
            number = parser.parse_integer()
            parser.parse_punctuation(":")
            return number, *parse_target(parser)

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
        MaskedStoreOp,
        PoisonOp,
        SelectOp,
        StoreOp,
        SwitchOp,
        UIToFPOp,
        *INTRINSICS.values(),
    ),
)
