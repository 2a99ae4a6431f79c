"""`arith` with vector comparisons typed as vectors, and casts and `select` on vectors.

xDSL 0.74 types the result of a vector `cmpi` or `cmpf` as one `i1`, refuses vectors in the integer
casts and in the condition of `select`, and has no `remf` and no `index_castui`. Build these ops
from this module, the rest from `xdsl.dialects.arith`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from xdsl.dialects import arith
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import (
    AnyFloatConstr,
    BoolAttr,
    FixedBitwidthType,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
    VectorType,
    container_of,
    i1,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    base,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.printer import Printer
from xdsl.traits import HasCanonicalizationPatternsTrait, Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.type import get_element_type_or_self, have_compatible_shape

from openinfer.dialects.extensions.extend import add_traits, extended_dialect, extended_op
from openinfer.dialects.late_syntax import op_definition

# Without traits it would never be removed or shared.
add_traits(arith.RemUIOp, Pure())

_INTEGER_LIKE = container_of(base(IntegerType))
_FLOAT_LIKE = container_of(AnyFloatConstr)
_INTEGER_OR_INDEX_LIKE = container_of(base(IntegerType) | base(IndexType))
_BOOL_LIKE = container_of(i1)


def bool_type_like(type: Attribute) -> Attribute:
    """The type of a comparison of values of `type`: i1, or a vector or tensor of i1."""
    if isinstance(type, VectorType):
        return VectorType(i1, type.shape, type.scalable_dims)
    if isinstance(type, TensorType):
        return TensorType(i1, type.shape, type.encoding)
    return i1


def _verify_comparison(op: arith.CmpiOp | arith.CmpfOp) -> None:
    if op.lhs.type != op.rhs.type:
        raise VerifyException(
            f"'{op.name}' compares {op.lhs.type} with {op.rhs.type}: both must have the same type"
        )
    expected = bool_type_like(op.lhs.type)
    if op.result.type != expected:
        raise VerifyException(
            f"'{op.name}' of {op.lhs.type} gives {expected}, but its result is {op.result.type}"
        )


class FoldCmpiOfEqualOperands(RewritePattern):
    """`cmpi p, %x, %x` = the constant truth of `p` on equal values (scalars)."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.CmpiOp, rewriter: PatternRewriter):
        if op.lhs != op.rhs or op.result.type != i1:
            return
        holds = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data] in _TRUE_IF_EQUAL
        rewriter.replace(op, arith.ConstantOp(BoolAttr.from_bool(holds)))


_TRUE_IF_EQUAL = ("eq", "sle", "sge", "ule", "uge")


class CmpiHasCanonicalizationPatterns(HasCanonicalizationPatternsTrait):
    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return (FoldCmpiOfEqualOperands(),)


@extended_op(results={"result": _BOOL_LIKE}, traits=(Pure(), CmpiHasCanonicalizationPatterns()))
class CmpiOp(arith.CmpiOp):
    """Integer comparison; a comparison of vectors gives a vector of i1."""

    def __init__(self, lhs: Operation | SSAValue, rhs: Operation | SSAValue, predicate: int | str):
        if isinstance(predicate, str):
            predicate = arith.CMPI_COMPARISON_OPERATIONS.index(predicate)
        super(arith.CmpiOp, self).__init__(
            operands=[lhs, rhs],
            result_types=[bool_type_like(SSAValue.get(lhs).type)],
            properties={"predicate": IntegerAttr(predicate, 64)},
        )

    def verify_(self) -> None:
        _verify_comparison(self)


@extended_op(results={"result": _BOOL_LIKE}, traits=(Pure(),))
class CmpfOp(arith.CmpfOp):
    """Float comparison; a comparison of vectors gives a vector of i1."""

    def __init__(
        self,
        lhs: Operation | SSAValue,
        rhs: Operation | SSAValue,
        predicate: int | str,
        fastmath: FastMathFlagsAttr | None = None,
    ):
        if isinstance(predicate, str):
            predicate = arith.CMPF_COMPARISON_OPERATIONS.index(predicate)
        super(arith.CmpfOp, self).__init__(
            operands=[lhs, rhs],
            result_types=[bool_type_like(SSAValue.get(lhs).type)],
            properties={
                "predicate": IntegerAttr(predicate, 64),
                "fastmath": fastmath or FastMathFlagsAttr("none"),
            },
        )

    def verify_(self) -> None:
        _verify_comparison(self)


@extended_op(operands={"cond": _BOOL_LIKE}, custom_syntax=True)
class SelectOp(arith.SelectOp):
    """Choice by one i1, or per element by a vector of i1 (MLIR's syntax names its type then)."""

    def verify_(self) -> None:
        if self.cond.type != i1 and self.cond.type != bool_type_like(self.result.type):
            raise VerifyException(
                f"'arith.select' of {self.result.type} needs a condition of type i1 or "
                f"{bool_type_like(self.result.type)}, not {self.cond.type}"
            )

    @classmethod
    def parse(cls, parser: Parser) -> SelectOp:
        names = [parser.parse_unresolved_operand()]
        for _ in range(2):
            parser.parse_punctuation(",")
            names.append(parser.parse_unresolved_operand())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        condition_type: Attribute = i1
        type = parser.parse_type()
        if parser.parse_optional_punctuation(","):
            condition_type = type
            type = parser.parse_type()
        operands = parser.resolve_operands(names, [condition_type, type, type], parser.pos)
        op = cls(*operands)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if self.cond.type != i1:
            printer.print_attribute(self.cond.type)
            printer.print_string(", ")
        printer.print_attribute(self.result.type)


def _verify_shape(op: Operation) -> tuple[Attribute, Attribute]:
    """Check that a cast keeps the shape; the element types of its operand and result."""
    source, target = op.operands[0].type, op.results[0].type
    if not have_compatible_shape(source, target):
        raise VerifyException(f"'{op.name}' cannot turn {source} into {target}: shapes differ")
    return get_element_type_or_self(source), get_element_type_or_self(target)


def _verify_widths(op: Operation, wider: bool) -> None:
    source, target = _verify_shape(op)
    assert isinstance(source, FixedBitwidthType)
    assert isinstance(target, FixedBitwidthType)
    if (target.bitwidth > source.bitwidth) != wider or target.bitwidth == source.bitwidth:
        raise VerifyException(
            f"'{op.name}' needs a {'wider' if wider else 'narrower'} result than {source}, "
            f"not {target}"
        )


@extended_op(operands={"input": _INTEGER_OR_INDEX_LIKE}, results={"result": _INTEGER_OR_INDEX_LIKE})
class IndexCastOp(arith.IndexCastOp):
    """Cast between index and a signless integer, sign extended; scalars and vectors."""

    def verify_(self) -> None:
        source, target = _verify_shape(self)
        if isinstance(source, IndexType) == isinstance(target, IndexType):
            raise VerifyException(
                f"'arith.index_cast' needs index on exactly one side, not {source} to {target}"
            )


@op_definition
class IndexCastUIOp(IRDLOperation):
    """Cast between index and a signless integer, zero extended; scalars and vectors."""

    name = "arith.index_castui"

    input = operand_def(_INTEGER_OR_INDEX_LIKE)
    result = result_def(_INTEGER_OR_INDEX_LIKE)

    traits = traits_def(Pure())

    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def __init__(self, input: SSAValue | Operation, target_type: Attribute):
        super().__init__(operands=[input], result_types=[target_type])


@extended_op(operands={"input": _FLOAT_LIKE}, results={"result": _INTEGER_LIKE})
class FPToSIOp(arith.FPToSIOp):
    def __init__(self, op: SSAValue | Operation, target_type: Any):
        super().__init__(op, target_type)

    def verify_(self) -> None:
        _verify_shape(self)


@extended_op(operands={"input": _FLOAT_LIKE}, results={"result": _INTEGER_LIKE})
class FPToUIOp(arith.FPToUIOp):
    def __init__(self, op: SSAValue | Operation, target_type: Any):
        super().__init__(op, target_type)

    def verify_(self) -> None:
        _verify_shape(self)


@extended_op(operands={"input": _INTEGER_LIKE}, results={"result": _FLOAT_LIKE})
class SIToFPOp(arith.SIToFPOp):
    def __init__(self, op: SSAValue | Operation, target_type: Any):
        super().__init__(op, target_type)

    def verify_(self) -> None:
        _verify_shape(self)


@extended_op(operands={"input": _INTEGER_LIKE}, results={"result": _FLOAT_LIKE})
class UIToFPOp(arith.UIToFPOp):
    def __init__(self, op: SSAValue | Operation, target_type: Any):
        super().__init__(op, target_type)

    def verify_(self) -> None:
        _verify_shape(self)


@extended_op(operands={"input": _INTEGER_LIKE}, results={"result": _INTEGER_LIKE})
class TruncIOp(arith.TruncIOp):
    def __init__(self, op: SSAValue | Operation, target_type: Any):
        super().__init__(op, target_type)

    def verify_(self) -> None:
        _verify_widths(self, wider=False)


@extended_op(operands={"input": _INTEGER_LIKE}, results={"result": _INTEGER_LIKE}, traits=(Pure(),))
class ExtSIOp(arith.ExtSIOp):
    def __init__(self, op: SSAValue | Operation, target_type: Any):
        super().__init__(op, target_type)

    def verify_(self) -> None:
        _verify_widths(self, wider=True)


@extended_op(operands={"input": _INTEGER_LIKE}, results={"result": _INTEGER_LIKE})
class ExtUIOp(arith.ExtUIOp):
    def __init__(self, op: SSAValue | Operation, target_type: Any):
        super().__init__(op, target_type)

    def verify_(self) -> None:
        _verify_widths(self, wider=True)


@extended_op()
class ExtFOp(arith.ExtFOp):
    def verify_(self) -> None:
        _verify_widths(self, wider=True)


@extended_op()
class TruncFOp(arith.TruncFOp):
    def verify_(self) -> None:
        _verify_widths(self, wider=False)


@op_definition
class RemFOp(IRDLOperation):
    """Remainder of a float division, with the sign of the dividend (C's fmod)."""

    name = "arith.remf"

    T: ClassVar = VarConstraint("T", _FLOAT_LIKE)

    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(T)
    fastmath = prop_def(FastMathFlagsAttr, default_value=FastMathFlagsAttr("none"))

    traits = traits_def(Pure())

    assembly_format = "$lhs `,` $rhs (`fastmath` `` $fastmath^)? attr-dict `:` type($result)"

    def __init__(
        self,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
        flags: FastMathFlagsAttr | None = None,
    ):
        super().__init__(
            operands=[lhs, rhs],
            result_types=[SSAValue.get(lhs).type],
            properties={"fastmath": flags},
        )


Arith = extended_dialect(
    arith.Arith,
    (
        CmpfOp,
        CmpiOp,
        ExtFOp,
        ExtSIOp,
        ExtUIOp,
        FPToSIOp,
        FPToUIOp,
        IndexCastOp,
        IndexCastUIOp,
        RemFOp,
        SelectOp,
        SIToFPOp,
        TruncFOp,
        TruncIOp,
        UIToFPOp,
    ),
)
