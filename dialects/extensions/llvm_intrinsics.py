"""Intrinsic operations of `llvm` that xDSL 0.74 lacks, under MLIR's names."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    AnyFloatConstr,
    BoolAttr,
    IntegerAttr,
    IntegerType,
    SignlessIntegerConstraint,
    VectorType,
    i1,
    i32,
)
from xdsl.dialects.llvm import (
    FastMathAttr,
    LLVMPointerType,
)
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import (
    MemoryReadEffect,
    MemoryWriteEffect,
    Pure,
)

from openinfer.dialects.extensions.extend import extended_op

_FLOAT_LIKE = AnyFloatConstr | VectorType.constr(AnyFloatConstr)
_INTEGER_LIKE = SignlessIntegerConstraint | VectorType.constr(SignlessIntegerConstraint)
_BOOL_LIKE = base(IntegerType) | VectorType.constr(base(IntegerType))
_VECTOR = base(VectorType)


@extended_op(operands={"value": _VECTOR})
class MaskedStoreOp(llvm.MaskedStoreOp):
    """Masked store of a vector of any element type."""


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
